"""Fits of rating models on a device, which a stand-in of tensors in the host's memory plays."""

import numpy as np
import pytest

import tacenda
from support.devices import stand_in
from support.ratings import rmse
from tacenda import devices
from tacenda.datasets import synthetic_ratings
from tacenda.errors import ConfigurationError
from tacenda.ratings import Ratings, split
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
    bayesian,
    gibbs,
)
from tacenda_surprise import boltzmann as of_machines
from tacenda_surprise import factorization as of_factors
from tacenda_surprise.identities import Identities

torch = pytest.importorskip("torch")

STEPS = of_factors.Rounds, of_machines.ContrastiveDivergence, gibbs.Gibbs
SGD = set(of_factors.OPERATIONS["sgd"]) - {"rating_scores"}
CHAIN = set(bayesian.OPERATIONS) - {"sparse_product"}
MACHINE = set(of_machines.OPERATIONS["adam"])
SAME = [
    (PMF(n_factors=6, n_epochs=4, solver="als", random_state=0), set(of_factors.OPERATIONS["als"])),
    (BayesianPMF(n_factors=4, n_samples=6, random_state=0), CHAIN),
    (ConditionalBayesianPMF(n_factors=4, n_samples=6, random_state=0), set(bayesian.OPERATIONS)),
    (RBM(n_hidden=10, n_epochs=4, random_state=0), MACHINE),
    (ConditionalRBM(n_hidden=10, n_epochs=4, orientation="user", random_state=0), MACHINE),
    (RBM(n_hidden=10, n_epochs=4, ordinal=False, random_state=0), MACHINE),
]
FACTORS = {"n_factors": 40}
OTHER_ORDER = [
    (PMF(**FACTORS, random_state=0), SGD - {"sparse_product"}),
    (ConditionalPMF(**FACTORS, random_state=0), SGD),
]
EVERY = [*SAME, *OTHER_ORDER]


def named(cases):
    return pytest.mark.parametrize(
        ("model", "operations"), cases, ids=[f"{m.name}{k}" for k, (m, _) in enumerate(cases)]
    )


def new(model, **more):
    return model.from_settings({**model.settings.to_dict(), **more})


@pytest.fixture(scope="module")
def parts():
    data = synthetic_ratings.generate(300, 200, 9_000, seed=1, informative=0.5)
    return split(data.ratings, 0.2, seed=0)


@named(SAME)
def test_a_fit_with_the_same_random_numbers_ends_where_that_on_the_cpu_does(
    parts, model, operations
):
    train, test = parts
    here = new(model).fit(train)
    with stand_in() as called:
        there = new(model).fit(train)
    assert called == operations
    expected = here.score_pairs(test.user_ids, test.item_ids)
    np.testing.assert_allclose(there.score_pairs(test.user_ids, test.item_ids), expected, atol=1e-3)
    for name, array in there.arrays().items():
        assert isinstance(array, np.ndarray), name
        assert array.dtype == here.arrays()[name].dtype, name


@named(OTHER_ORDER)
def test_a_fit_in_rounds_predicts_as_well_as_one_user_after_another(parts, model, operations):
    train, test = parts
    here = new(model).fit(train)
    with stand_in() as called:
        there, again = new(model).fit(train), new(model).fit(train)
    assert called == operations
    assert rmse(there, test) == pytest.approx(rmse(here, test), rel=5e-3)
    for name, array in there.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name], err_msg=name)


def test_rounds_are_smaller_where_users_share_what_they_rate():
    """Where all have rated the same items, the steps of many at once would overshoot."""
    users, items = np.divmod(np.arange(200 * 6), 6)
    values = np.random.default_rng(0).integers(1, 6, len(users))
    alike = Ratings.from_arrays(users, items, values)
    known = Identities.of(alike)
    assert of_factors.compute_overlap(known, alike.n_items) == 1
    few = len(of_factors.share_among_rounds(alike, None, 0, "cpu"))
    assert len(of_factors.share_among_rounds(alike, known, 0, "cpu")) > 2 * few
    with stand_in():
        fitted = ConditionalPMF(**FACTORS, random_state=0).fit(alike)
    assert fitted.history.epoch_losses[-1] < fitted.history.epoch_losses[0]


@pytest.mark.parametrize("conditional", [False, True])
def test_every_rating_is_visited_once_from_either_side(parts, conditional):
    train, _ = parts
    known = Identities.of(train) if conditional else None
    found = of_factors.share_among_rounds(train, known, 3, "cpu")
    seen = {"users": [], "items": []}
    for part in found:
        users = np.repeat(part.users, np.diff(part.by_user.offsets))
        seen["users"] += zip(users, part.by_user.ids, part.by_user.values, strict=True)
        items = np.repeat(part.items, np.diff(part.by_item.offsets))
        of_items = part.users[part.by_item.ids]
        seen["items"] += zip(of_items, items, part.by_item.values, strict=True)
        if known is not None:
            np.testing.assert_array_equal(part.known.by_user.ids, part.by_user.ids)
            np.testing.assert_array_equal(part.known.items, part.items)
    expected = sorted(zip(train.user_ids, train.item_ids, train.values, strict=True))
    assert sorted(seen["users"]) == sorted(seen["items"]) == expected


@named([OTHER_ORDER[1], SAME[2], SAME[5]])
def test_a_killed_fit_goes_on_from_what_the_device_held(
    parts, model, operations, tmp_path, monkeypatch
):
    class KilledError(Exception):
        pass

    def dies_in(step):
        steps = []

        def killed(trainer, batch, learning_rate):
            steps.append(batch)
            if len(steps) == 3:
                raise KilledError
            return step(trainer, batch, learning_rate)

        return killed

    train, _ = parts
    settings = {"n_epochs": 4} if "n_epochs" in model.settings.to_dict() else {}
    with stand_in():
        expected = new(model, **settings).fit(train)
        begun = new(model, **settings)
        with pytest.MonkeyPatch.context() as patch:
            for trainer in STEPS:
                patch.setattr(trainer, "step", dies_in(trainer.step))
            with pytest.raises(KilledError):
                begun.fit(train, checkpoints=tmp_path)
        begun.fit(train, checkpoints=tmp_path)
    for name, array in begun.arrays().items():
        np.testing.assert_array_equal(array, expected.arrays()[name], err_msg=name)


@named([OTHER_ORDER[1], SAME[1], SAME[4]])
def test_more_ratings_are_learned_there_and_held_out_ones_watched(parts, model, operations):
    train, test = parts
    watched = {"validation": 0.1} if "validation" in model.settings.to_dict() else {}
    with stand_in():
        fitted = new(model, **watched).fit(train)
        before = rmse(fitted, test)
        # of a chain as many samples as before: it predicts their mean
        fitted.partial_fit(train, n_epochs=6)
    assert rmse(fitted, test) == pytest.approx(before, rel=0.02)


@named([OTHER_ORDER[0], SAME[1], SAME[3]])
def test_an_artefact_does_not_know_where_it_was_fitted(parts, model, operations, tmp_path):
    train, test = parts
    with stand_in():
        there = new(model, device="cuda").fit(train)
    there.save(tmp_path / "model")
    again = tacenda.load(tmp_path / "model")
    assert "device" not in again.config_dict()["settings"]
    assert again.settings.device == "cpu"
    pairs = test.user_ids, test.item_ids
    np.testing.assert_array_equal(again.score_pairs(*pairs), there.score_pairs(*pairs))


def test_a_scorer_of_lenskit_trains_there():
    lenskit = pytest.importorskip("lenskit.data")
    import pandas as pd

    from tacenda_surprise.lenskit import RBMScorer

    table = pd.DataFrame({"user_id": [1, 1, 2], "item_id": [1, 2, 2], "rating": [3.0, 4.0, 2.0]})
    scorer = RBMScorer(device="cuda", n_hidden=3, n_epochs=1)
    with stand_in() as called:
        scorer.train(lenskit.from_interactions_df(table))
    assert called == MACHINE


@pytest.mark.parametrize("model", [m for m, _ in EVERY], ids=lambda m: m.name)
def test_a_fit_that_the_device_has_no_room_for_says_what_to_lower(parts, model, monkeypatch):
    monkeypatch.setattr(devices, "available_memory", lambda device: 1000)
    with stand_in(), pytest.raises(ConfigurationError, match=r"needs about .* give fewer"):
        new(model).fit(parts[0])


@pytest.mark.gpu
@named(EVERY)
def test_a_fit_on_cuda_ends_where_that_on_the_cpu_does(parts, model, operations):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    train, test = parts
    here, there, again = (new(model, device=d).fit(train) for d in ("cpu", "cuda", "cuda"))
    assert rmse(there, test) == pytest.approx(rmse(here, test), rel=5e-3)
    for name, array in there.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name], err_msg=name)
