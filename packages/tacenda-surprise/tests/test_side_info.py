"""Identities without ratings, and the proof that no rating comes along with them."""

import warnings
from functools import partial

import numpy as np
import pytest
from surprise.model_selection import KFold, cross_validate

from support.recommenders import CHAIN, MACHINE, SMALL
from tacenda.errors import ConfigurationError, DataError, TacendaWarning
from tacenda.ratings import Ratings
from tacenda_surprise import (
    PMF,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
    SideInfo,
    cross_validate_conditional,
)
from tacenda_surprise.identities import Identities
from tacenda_surprise.trainsets import FitData

CONDITIONAL = {
    "ConditionalPMF": partial(ConditionalPMF, **SMALL),
    "Bayesian": partial(ConditionalBayesianPMF, **CHAIN),
    "ConditionalRBM": partial(ConditionalRBM, **MACHINE),
    "with users as cases": partial(ConditionalRBM, **MACHINE, orientation="user"),
}


@pytest.mark.parametrize("make", CONDITIONAL.values(), ids=CONDITIONAL)
@pytest.mark.parametrize("ratings", ["random", "nan", "none"])
def test_no_test_rating_leaks(data, ratings, make):
    """Whatever stands in the place of the test ratings, predictions are the same to the last bit."""
    rng = np.random.default_rng(0)
    other = {"random": rng.integers(1, 6, 10**4), "nan": [np.nan] * 10**4, "none": [None] * 10**4}
    trainset, testset = next(KFold(3, random_state=0).split(data))
    found = []
    for truths in ([t[2] for t in testset], other[ratings]):
        changed = [(u, i, r) for (u, i, _), r in zip(testset, truths, strict=False)]
        algo = make(rated=SideInfo.from_testset(changed)).fit(trainset)
        found.append([p.est for p in algo.test(changed)])
    assert found[0] == found[1]
    without = make().fit(trainset).test(testset)
    assert found[0] != [p.est for p in without], "the identities are of no consequence"


def test_pairs_merge_and_what_is_of_no_use_is_counted(trainset):
    known = trainset.to_raw_iid(0)
    side = SideInfo([("a", known), ("a", known, 5.0), ("a", "no such item"), ("b", known)])
    assert len(side) == 3
    with pytest.warns(TacendaWarning, match="1 identities are of items that nobody has rated"):
        found = FitData.of(trainset).join(side)
    assert list(found.users)[-2:] == ["a", "b"]
    assert found.identities.sizes[-2:].tolist() == [1, 1]


def test_nearly_all_pairs_are_refused(trainset):
    anti = trainset.build_anti_testset()
    for pairs in (anti, anti + trainset.build_testset()):
        with pytest.raises(DataError, match="not an anti-testset"):
            ConditionalPMF(rated=SideInfo.from_testset(pairs), **SMALL).fit(trainset)


def test_users_known_by_identities_alone(trainset):
    items = [trainset.to_raw_iid(i) for i in range(12)]
    algo = ConditionalPMF(rated=[("quiet", iid) for iid in items[:8]], **SMALL).fit(trainset)
    quiet = [algo.predict("quiet", iid).est for iid in items]
    nobody = [algo.predict("nobody", iid).est for iid in items]
    assert quiet != nobody
    assert [p.est for p in algo.test([("quiet", iid, None) for iid in items])] == quiet
    assert not set(items[:8]) & {iid for iid, _ in algo.top_n(50, ["quiet"])["quiet"]}
    assert algo.bu.shape == (trainset.n_users,)


def test_a_testset_gives_nothing_but_pairs():
    class Touchy:
        """A rating that must not be looked at."""

        def __float__(self):
            raise AssertionError("a test rating was read")

        __eq__ = __hash__ = __bool__ = __float__

    side = SideInfo.from_testset([("a", "x", Touchy()), ("b", "y", Touchy())])
    assert side.pairs == [("a", "x"), ("b", "y")]
    assert vars(side) == {"pairs": side.pairs}


def test_conditional_cross_validation_has_surprises_folds(data, capsys):
    folds = KFold(3, random_state=0)
    algo = ConditionalPMF(**SMALL)
    with warnings.catch_warnings(action="error"):
        found = cross_validate_conditional(algo, data, cv=folds)
    assert found["protocol"].startswith("transductive")
    together = cross_validate_conditional(algo, data, ["RMSE"], folds, True, 2, pre_dispatch=2)
    np.testing.assert_array_equal(together["test_rmse"], found["test_rmse"])
    assert (together["train_rmse"] < together["test_rmse"]).all()
    plain = cross_validate(algo, data, cv=folds)
    np.testing.assert_allclose(found["test_rmse"], plain["test_rmse"], atol=0.05)
    assert (found["test_rmse"] != plain["test_rmse"]).all()
    assert algo.rated is None
    cross_validate_conditional(algo, data, ["rmse"], 2, verbose=True)
    assert capsys.readouterr().out.count("(transductive)") == 2
    for other in (PMF(), ConditionalPMF):
        with pytest.raises(ConfigurationError, match=r"PMF is no algorithm that .*PMF\(\)$"):
            cross_validate_conditional(other, data)
    with pytest.raises(DataError, match="data is a Trainset; give a Dataset"):
        cross_validate_conditional(algo, data.build_full_trainset())
    for measures in ("rmse", ["rsme"], [None], ["defaultdict"]):
        with pytest.raises(ConfigurationError, match="is not a measure"):
            cross_validate_conditional(algo, data, measures)


def test_conditional_cross_validation_keeps_the_pairs_that_the_algorithm_was_given(data):
    """Also with `rated=` no fold forgets them, nor warns of items that it holds out."""
    items = [row[1] for row in data.raw_ratings[:8]]
    seen = []

    class Spy(ConditionalPMF):
        def fit(self, trainset, **options):
            seen.append(set(self.rated.pairs))
            return super().fit(trainset, **options)

    folds = KFold(3, random_state=0)
    algo = Spy(rated=[("quiet", iid) for iid in items], **SMALL)
    with warnings.catch_warnings(action="error"):
        cross_validate_conditional(algo, data, ["rmse"], folds)
    for (trainset, testset), told in zip(folds.split(data), seen, strict=True):
        wanted = {("quiet", iid) for iid in items} | {(uid, iid) for uid, iid, _ in testset}
        assert told == {pair for pair in wanted if pair[1] in trainset._raw2inner_id_items}
    assert len(algo.rated) == len(set(items))


def test_identities_as_arrays():
    found = Identities.from_pairs([1, 1, 0, 1], np.array([2, 0, 1, 2]), 3, 4)
    assert found.offsets.tolist() == [0, 1, 3, 3]
    assert found.item_ids.tolist() == [1, 0, 2]
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_allclose(found.means(table), [[2, 3], [2, 3], [0, 0]])
    both = found.union(Identities.from_pairs(np.array([3]), np.array([0]), 4, 4), 4)
    assert both.offsets.tolist() == [0, 1, 3, 3, 4]
    with pytest.raises(DataError, match="item number"):
        Identities.from_pairs(np.array([0]), np.array([4]), 3, 4)
    with pytest.raises(DataError, match="there are 1 users and 2 items"):
        Identities.from_pairs(np.array([0]), np.array([1, 2]), 3, 4)
    with pytest.raises(DataError, match="are of 4 users and the ratings of 2; number both alike"):
        ConditionalPMF(**SMALL).fit(
            Ratings.from_triples([(0, 0, 1.0), (1, 3, 2.0)]), identities=both
        )
    with pytest.raises(ConfigurationError, match=r"identities is a list, .* as rated="):
        ConditionalPMF(**SMALL).fit(Ratings.from_triples([(0, 0, 1.0)]), identities=[(0, 1)])


def test_identities_and_pairs_of_raw_ids_are_known_together(trainset):
    """The same as if all were given in one of the two ways, also to the next fit."""
    ratings = FitData.of(trainset).ratings
    u, i = np.array([0, 0, 3, 5]), np.array([1, 4, 2, 7])
    raw = [(ratings.users.raw[a], ratings.items.raw[b]) for a, b in zip(u, i, strict=True)]
    every, some = (
        Identities.from_pairs(u[:n], i[:n], ratings.n_users, ratings.n_items) for n in (4, 2)
    )
    expected = ConditionalPMF(**SMALL).fit(ratings, identities=every)
    found = ConditionalPMF(rated=raw[2:], **SMALL).fit(ratings, identities=some)
    for _ in range(2):
        assert found.seen.item_ids.tolist() == expected.seen.item_ids.tolist()
        users = np.arange(ratings.n_users)
        np.testing.assert_array_equal(found.score_users(users), expected.score_users(users))
        for algo in (found, expected):
            algo.partial_fit(Ratings.from_triples([(*raw[0], 4.0)], scale=(1, 5)), 1)
