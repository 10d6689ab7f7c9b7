"""Users folded in before another fit, ids of one text, dense side information, odd scales."""

import numpy as np
import pytest
from surprise import AlgoBase

from support.recommenders import SMALL, trainset_of
from tacenda.errors import ConfigurationError, DataError, TacendaWarning
from tacenda_surprise import PMF, Blend, ConditionalPMF
from tacenda_surprise.catalogue import possible_levels


def ratings(n=150, seed=0):
    rng = np.random.default_rng(seed)
    pairs = rng.choice(20 * 12, n, replace=False)
    return [(f"u{p // 12}", f"i{p % 12}", float(rng.integers(1, 6))) for p in pairs.tolist()]


@pytest.mark.parametrize("blended", [False, True], ids=["algorithm", "blend"])
@pytest.mark.parametrize("again", ["fit", "partial_fit"])
def test_a_user_folded_in_before_another_fit_is_to_be_folded_in_anew(blended, again):
    algo = (
        Blend([PMF(**SMALL), ConditionalPMF(**SMALL)], random_state=0) if blended else PMF(**SMALL)
    )
    algo.fit(trainset_of(ratings()))
    new = algo.fold_in({"i1": 5, "i2": 1})
    assert len(new.top_n(3)) == 3
    if again == "fit":
        algo.fit(trainset_of(ratings()[::-1]))
    else:
        algo.partial_fit(trainset_of([("u1", "brand new", 5.0)]), 1)
    with pytest.raises(ConfigurationError, match="fold the user in again"):
        new.top_n(3)
    assert len(algo.fold_in({"i1": 5, "i2": 1}).top_n(3)) == 3


@pytest.mark.parametrize("blended", [False, True], ids=["algorithm", "blend"])
def test_a_new_user_may_have_the_text_of_the_id_of_a_user_without_ratings(blended):
    conditional = ConditionalPMF(rated=[(7, "i1"), (7, "i2")], **SMALL)
    algo = Blend([conditional, PMF(**SMALL)], random_state=0) if blended else conditional
    algo.fit(trainset_of(ratings()))
    before = algo.predict(7, "i3").est
    new = algo.fold_in({"i1": 1, "i2": 1}, uid="7")
    assert algo.predict(7, "i3").est == before
    assert algo.predict("7", "i3").est == new.predict("i3")
    with pytest.raises(ConfigurationError, match="user 7 is in the trainset already"):
        algo.fold_in({"i1": 1}, uid=7)


@pytest.mark.parametrize("uid", ["quiet", "new", "nobody"])
def test_estimate_knows_users_that_surprise_marks_because_its_trainset_lacks_them(uid):
    algo = ConditionalPMF(rated=[("quiet", "i1")], **SMALL).fit(trainset_of(ratings()))
    algo.fold_in({"i1": 1, "i2": 1}, uid="new")
    found = [predict(algo, uid, "i3").est for predict in (AlgoBase.predict, PMF.predict)]
    assert found[0] == found[1]


def test_a_new_user_is_not_found_by_an_id_of_another_type_and_a_warning_says_so():
    algo = PMF(**SMALL).fit(trainset_of(ratings()))
    algo.fold_in({"i1": 1, "i2": 1}, uid=7000)
    with pytest.warns(
        TacendaWarning, match="user 7000 was not found: the id folded in is the int 7000"
    ):
        algo.predict("7000", "i3")
    algo.predict(7001, "i3")  # a number, as the new user has: nothing to warn of


@pytest.mark.parametrize(("ids", "side"), [((["1"], "i1"), "user"), (("u1", {}), "item")])
def test_an_id_that_cannot_be_hashed_is_named_by_its_side(ids, side):
    algo = PMF(**SMALL).fit(trainset_of(ratings()))
    with pytest.raises(DataError, match=f"the {side} ids include an unhashable type"):
        algo.predict(*ids)


@pytest.mark.parametrize(("first", "second"), [(7, "7"), ("7", 7)])
def test_ids_of_one_text_are_two_users_in_either_order(first, second):
    algo = PMF(**SMALL).fit(trainset_of([*ratings(), (8, "i2", 2.0), (first, "i1", 3.0)]))
    algo.partial_fit(trainset_of([(second, "i1", 5.0)]), 1)
    assert {first, second} <= set(algo.trainset._raw2inner_id_users)


def test_side_information_beside_dense_ratings_is_taken_and_an_anti_testset_is_not():
    rows = [(f"u{u}", f"i{i}", float((u * i) % 5 + 1)) for u in range(80) for i in range(10)]
    told = [("quiet", "i1"), ("quiet", "i3")]
    assert ConditionalPMF(rated=told, **SMALL).fit(trainset_of(rows)).is_fitted
    half = [row for k, row in enumerate(rows) if (k + k // 10) % 2]
    others = [(user, item) for user, item, _ in rows if (user, item) not in {r[:2] for r in half}]
    with pytest.raises(DataError, match="not an anti-testset"):
        ConditionalPMF(rated=others, **SMALL).fit(trainset_of(half))


@pytest.mark.parametrize("scale", [(0.1, 0.9), (1.0, 9.0)])
def test_levels_lie_on_the_grid_of_a_scale_that_float32_has_not_exactly(scale):
    low, high = scale
    seen = np.array([low, low + (high - low) / 4, high], np.float32)
    np.testing.assert_allclose(possible_levels(seen, scale), np.linspace(low, high, 5), rtol=1e-6)
