"""Why an item is recommended, and what is expected of users of whom a few items are known."""

from dataclasses import replace

import numpy as np
import pytest

from support.recommenders import SMALL
from tacenda.errors import ConfigurationError, DataError
from tacenda_surprise import ConditionalPMF
from tacenda_surprise.pmf import solve_user


@pytest.fixture
def model(make, ratings):
    return make().fit(ratings)


def raw(ratings, *items):
    return [str(ratings.items.raw[item]) for item in items]


def test_effects_are_what_the_estimate_loses_without_the_rating(model, ratings):
    items, values = np.array([2, 7, 11, 19]), np.array([5.0, 1.0, 4.0, 3.0], np.float32)
    given = dict(zip(raw(ratings, *items), values.tolist(), strict=True))
    model.fold_in(given, uid="guest")
    (wanted,) = raw(ratings, 30)
    found = model.explain("guest", wanted, n=10)
    estimate = model.fold(items, values).score(np.array([30]))[0]
    assert found.estimate == pytest.approx(estimate, abs=1e-5)
    assert found.base + sum(one.effect for one in found.reasons) + found.others == pytest.approx(
        found.estimate, abs=1e-5
    )
    assert found.others == pytest.approx(0.0, abs=2e-4)
    assert {one.item: one.rating for one in found.reasons} == given
    sizes = [abs(one.effect) for one in found.reasons]
    assert sizes == sorted(sizes, reverse=True)
    # The solution is linear in a rating: what a rating higher by one adds to the estimate.
    if not model.conditional:
        T, mean, used = model.tables, model.catalogue.mean, model.learned.resolved
        for k, item in enumerate(raw(ratings, *items)):
            moved = values.copy()
            expected = mean + T.item_biases[items[k]]  # what is expected of it without the user
            moved[k] = expected
            b, x = solve_user(used, T, mean, (items, moved), np.zeros(4, np.float32))
            without = mean + b + T.item_biases[30] + x @ T.item_factors[30]
            effect = next(one.effect for one in found.reasons if one.item == item)
            assert estimate - without == pytest.approx(effect, abs=1e-4)


def test_a_fitted_user_is_explained_by_their_own_ratings(model, ratings):
    user, item = 6, 30
    uid, iid = str(ratings.users.raw[user]), str(ratings.items.raw[item])
    found = model.explain(uid, iid, n=3)
    own = dict(zip(raw(ratings, *ratings.of_user(user)[0]), ratings.of_user(user)[1], strict=True))
    assert len(found.reasons) == 3
    for one in found.reasons:
        assert own[one.item] == one.rating
    assert found.estimate == pytest.approx(
        float(model.score_pairs(np.array([user]), np.array([item]))[0]), abs=1e-6
    )
    assert found.base + sum(one.effect for one in found.reasons) + found.others == pytest.approx(
        found.estimate, abs=1e-6
    )


def test_items_known_to_be_rated_count_without_a_rating(ratings):
    model = ConditionalPMF(**SMALL).fit(ratings)
    known = raw(ratings, 4, 9)
    model.fold_in(rated=known, uid="quiet")
    found = model.explain("quiet", *raw(ratings, 30))
    assert {one.item for one in found.reasons} == set(known)
    assert all(one.rating is None for one in found.reasons)
    w, q = model.learned.side_factors, model.learned.item_factors[30]
    effects = {one.item: one.effect for one in found.reasons}
    for number, item in zip((4, 9), known, strict=True):
        assert effects[item] == pytest.approx(float(w[number] @ q) / (2 + 5), abs=1e-5)


def test_what_is_unknown_is_refused(model, ratings):
    uid, iid = str(ratings.users.raw[0]), str(ratings.items.raw[0])
    with pytest.raises(DataError, match="not in the trainset"):
        model.explain("nobody", iid)
    for item, why in ("nothing", "ask for one"), (3, "yours are int"):
        with pytest.raises(DataError, match=f"is not in the trainset: .*{why}"):
            model.explain(uid, item)
    with pytest.raises(ConfigurationError, match="at least 1"):
        model.explain(uid, iid, n=0)


def test_of_a_few_identities_a_new_user_is_taken_for_nearly_the_usual_one(ratings):
    model = ConditionalPMF(**SMALL).fit(ratings)
    found, T = model.learned, model.tables
    usual = found.user_prior[np.diff(ratings.user_offsets) > 0].mean(axis=0)
    for n in (1, 4, 30):
        items = np.arange(n)
        told = found.side_factors[items].sum(axis=0)
        prior = ((told + 5 * usual) / (n + 5)).astype(np.float32)
        expected = model.catalogue.mean + T.item_biases + T.item_factors @ prior
        score = model.fold(np.zeros(0, int), [], items).score()
        bias = float(model.average.user_biases[0])
        np.testing.assert_allclose(score, expected + bias, atol=1e-5)


def test_a_model_saved_before_believes_identities_as_it_did(ratings):
    model = ConditionalPMF(**SMALL).fit(ratings)
    artifact = model.to_artifact()
    config = {name: value for name, value in artifact.config.items() if name != "usual_items"}
    older = ConditionalPMF.from_artifact(replace(artifact, config=config))
    again = ConditionalPMF.from_artifact(artifact)
    items = np.array([3])
    w = model.learned.side_factors[3]
    scores = [one.fold(np.zeros(0, int), [], items).score() for one in (model, again, older)]
    np.testing.assert_array_equal(scores[0], scores[1])
    expected = model.catalogue.mean + model.tables.item_biases + model.tables.item_factors @ w
    expected += float(model.average.user_biases[0])
    np.testing.assert_allclose(scores[2], expected, atol=1e-5)
