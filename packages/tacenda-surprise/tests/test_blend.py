"""A blend is as good as its parts and better than most."""

import json
import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from surprise import SVD, AlgoBase, accuracy

import tacenda
from support.recommenders import AlgorithmTests, trainset_of
from tacenda import artifact
from tacenda.errors import ArtifactError, ConfigurationError, DataError, TacendaWarning
from tacenda.fitting import Callback
from tacenda_surprise import RBM, BiasOnly, Blend, ConditionalPMF, ImplicitMF, SideInfo
from tacenda_surprise import blend as blend_module
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.blend import fit_weights

PARTS = [
    ConditionalPMF(n_factors=4, n_epochs=15, random_state=0),
    RBM(n_hidden=6, n_epochs=15, random_state=0),
    SVD(n_factors=4, random_state=0),
]


@pytest.fixture(scope="module", autouse=True)
def held_out_once():
    """Spare the time of holding out each part of the ratings: see the tests that undo it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blend_module, "_ENOUGH_HELD_OUT", 90)
        yield


@pytest.fixture
def held_out_often(monkeypatch):
    monkeypatch.setattr(blend_module, "_ENOUGH_HELD_OUT", 2000)


class TestBlend(AlgorithmTests):
    epochs = 15

    def make_model(self, random_state=0, **settings):
        parts = [ConditionalPMF(n_factors=3, n_epochs=8, random_state=0), BiasOnly()]
        return Blend(parts, random_state=random_state, **settings)

    def test_verbose_prints_a_line_for_every_epoch(self, trainset, capsys):
        """Of every algorithm that is told to."""
        parts = [ConditionalPMF(n_factors=3, n_epochs=8, verbose=True), BiasOnly()]
        Blend(parts).fit(trainset)
        assert capsys.readouterr().out.count("Processing epoch") >= 16


class TestBlendOfWhatWasFittedOnce(TestBlend):
    def make_model(self, random_state=0, **settings):
        return super().make_model(random_state, refit=False, **settings)

    def test_is_a_recommender(self):
        """But for one promise: its algorithms know a part of the users and items, so it cannot be saved."""
        with pytest.raises(ConfigurationError, match="refit=True can be saved"):
            super().test_is_a_recommender()

    def test_comes_back_from_disk_as_it_was(self, algo, tmp_path):
        with pytest.raises(ConfigurationError, match="refit=True can be saved"):
            algo.save(tmp_path / "blend")


@pytest.fixture(scope="module")
def blend(trainset):
    return Blend(PARTS, random_state=0).fit(trainset)


def test_a_blend_is_hardly_worse_than_its_best_part(blend, trainset, parts):
    found = accuracy.rmse(blend.test(parts[1]), verbose=False)
    alone = [accuracy.rmse(a.fit(trainset).test(parts[1]), verbose=False) for a in PARTS]
    assert found < min(alone) + 0.02
    assert found < max(alone)
    assert blend.weights.shape == (3,)
    assert (blend.weights >= 0).all()


def test_a_blend_says_how_far_off_it_may_be(blend, trainset, parts):
    held_out, weights = blend_module._predict_held_out(blend.settings, trainset), blend.learned
    every = np.where(np.isnan(held_out.deviations), weights.usual, held_out.deviations)
    estimates = np.clip(weights.combine(held_out.estimates), *trainset.rating_scale)
    z = np.abs(held_out.truth - estimates) / weights.deviations(every)
    assert np.prod(np.quantile(z, [0.6827, 0.9545])) == pytest.approx(2)  # one and two deviations
    testset = parts[1]
    uids, iids = [t[0] for t in testset], [t[1] for t in testset]
    errors = np.array([t[2] for t in testset]) - blend.predict_many(uids, iids)
    z = errors / blend.predict_std(uids, iids)
    assert 0.75 < np.std(z) < 1.3


def test_a_new_user_of_a_blend(trainset):
    blend = Blend(PARTS, random_state=0).fit(trainset)
    ratings = {trainset.to_raw_iid(i): r for i, r in trainset.ur[0]}
    new = blend.fold_in(ratings, ["no such item"], uid="newcomer")
    items = [trainset.to_raw_iid(i) for i in trainset.all_items()]
    found = [new.predict(iid) for iid in items]
    fitted = blend.predict_many([trainset.to_raw_uid(0)] * len(items), items)
    assert np.corrcoef(found, fitted)[0, 1] > 0.5
    assert blend.predict("newcomer", items[3]).est == pytest.approx(found[3], abs=1e-5)
    best = new.top_n(1, by="rating", exclude_seen=False)[0]
    assert best[1] == pytest.approx(max(found), abs=1e-5)
    deviations = blend.predict_std(["newcomer"], ["item 7"])
    assert new.predict_std("item 7") == pytest.approx(deviations[0], abs=1e-5)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("refit", [True, False])
def test_lists_of_a_blend_leave_out_what_a_part_knows_to_be_rated(first, refit, trainset, tmp_path):
    told = {trainset.to_raw_iid(i) for i in trainset.all_items()} - {
        trainset.to_raw_iid(i) for i, _ in trainset.ur[0]
    }
    uid, told = trainset.to_raw_uid(0), sorted(told)[:4]
    known = ConditionalPMF(
        n_factors=2, n_epochs=2, rated=[(uid, iid) for iid in told], random_state=0
    )
    parts = [known, BiasOnly()] if first else [BiasOnly(), known]
    blend = Blend(parts, refit=refit, random_state=0).fit(trainset)
    blends = [blend]
    if refit:
        blend.save(tmp_path / "blend")
        more = trainset_of([("newcomer", "item 3", 4.0)])
        blends += [Blend.load(tmp_path / "blend"), deepcopy(blend).partial_fit(more, 1)]
    for one in blends:
        assert not set(told) & {iid for iid, _ in one.top_n(100, [uid])[uid]}


def test_a_blend_does_not_go_on_where_a_part_cannot(blend, trainset, monkeypatch):
    # refused before the parts that could learn are trained
    monkeypatch.setattr(RatingAlgorithm, "partial_fit", lambda *_, **__: pytest.fail("it trained"))
    with pytest.raises(ConfigurationError, match="SVD cannot learn"):
        blend.partial_fit(trainset)


def test_a_seed_that_is_a_number_of_numpy_is_saved(trainset, testset, tmp_path):
    blend = Blend([BiasOnly(), PARTS[0]], random_state=np.int64(3)).fit(trainset)
    blend.save(tmp_path / "blend")
    again = Blend.load(tmp_path / "blend")
    assert again.random_state == 3
    assert again.fit(trainset).test(testset) == blend.test(testset)


@pytest.mark.parametrize("first", [True, False])
def test_a_blend_that_went_on_is_saved_with_users_of_whom_one_part_alone_knows(
    first, trainset, testset, tmp_path
):
    quiet = [("quiet", "item 3"), ("quiet", "item 4")]
    known = ConditionalPMF(n_factors=4, n_epochs=5, rated=quiet, random_state=0)
    parts = [known, PARTS[1]] if first else [PARTS[1], known]
    blend = Blend(parts, random_state=0).fit(trainset)
    more = trainset_of([("newcomer", f"item {k}", 1.0 + k % 5) for k in range(9)])
    blend.partial_fit(more, n_epochs=2)
    blend.save(tmp_path / "blend")
    asked = [*testset, ("quiet", "item 7", None), ("newcomer", "item 20", None)]
    again = Blend.load(tmp_path / "blend")
    assert again.test(asked) == blend.test(asked)
    assert again.top_n(3, ["quiet"]) == blend.top_n(3, ["quiet"])
    model = tacenda.load(tmp_path / "blend")
    uids, iids = [t[0] for t in asked], [t[1] for t in asked]
    pairs = model.catalogue.users.numbers(uids), model.catalogue.items.numbers(iids)
    assert pairs[0][-2] >= 0
    expected = blend.predict_many(uids, iids)
    np.testing.assert_allclose(np.clip(model.score_pairs(*pairs), 1, 5), expected, atol=1e-5)
    block = np.clip(model.score_users(pairs[0][-2:]), 1, 5)
    np.testing.assert_allclose(block, blend.predict_users(uids[-2:]), atol=1e-5)


def test_a_blend_with_algorithms_of_others_is_not_saved_and_others_are_not_loaded(blend, tmp_path):
    with pytest.raises(ConfigurationError, match="SVD cannot be saved"):
        blend.save(tmp_path / "other")
    blend.fitted[0].save(tmp_path / "algorithm")
    with pytest.raises(ArtifactError, match="ConditionalPMF, which is no Blend known here"):
        Blend.load(tmp_path / "algorithm")


def test_a_blend_says_how_likely_ratings_are(blend, testset):
    uids, iids = [t[0] for t in testset], [t[1] for t in testset]
    means, deviations = blend.predict_many(uids, iids), blend.predict_std(uids, iids)
    np.testing.assert_allclose(blend.predict_proba(uids, iids) @ blend.levels, means, atol=0.03)
    density = blend.predict_density(uids, iids, means)
    np.testing.assert_allclose(density, 1 / (np.sqrt(2 * np.pi) * deviations))
    for ratings in ([3.0], 3.0):
        with pytest.raises(ConfigurationError, match="2 users and ratings of shape"):
            blend.predict_density(["a", "b"], ["c", "d"], ratings)


def test_a_saved_blend_is_a_model_for_programs_without_surprise(trainset, testset, tmp_path, run):
    quiet = SideInfo([("quiet", "item 3"), ("quiet", "item 4")])
    known = ConditionalPMF(n_factors=4, n_epochs=5, rated=quiet, random_state=0)
    blend = Blend([known, PARTS[1]], random_state=0).fit(trainset)
    blend.save(tmp_path / "blend")
    model = tacenda.load(tmp_path / "blend")
    assert isinstance(model, Blend)
    users, items = model.catalogue.users, model.catalogue.items
    assert users.raw.tolist() == [*trainset._raw2inner_id_users, "quiet"]
    uids, iids = [t[0] for t in testset], [t[1] for t in testset]
    pairs = users.numbers(uids), items.numbers(iids)
    assert (pairs[0] < 0).any()
    expected = blend.predict_many(uids, iids)
    np.testing.assert_allclose(np.clip(model.score_pairs(*pairs), 1, 5), expected, atol=1e-5)
    np.testing.assert_allclose(model.deviations(*pairs), blend.predict_std(uids, iids), atol=1e-5)
    assert model.probabilities(*pairs).shape == (len(testset), 5)
    block = np.clip(model.score_users(np.array([2, -1])), 1, 5)
    np.testing.assert_allclose(block[0], blend.predict_users([users.raw[2]])[0], atol=1e-5)
    nobody = blend.predict_many(["nobody"] * len(items), items.raw.tolist())
    np.testing.assert_allclose(block[1], nobody, atol=1e-5)
    new = model.fold(items.numbers(["item 3"]), [5.0], items.numbers(["item 4"]))
    same = blend.fold_in({"item 3": 5.0}, ["item 4"])
    wanted = [same.predict(iid) for iid in items.raw.tolist()]
    np.testing.assert_allclose(np.clip(new.score(), 1, 5), wanted, atol=1e-5)
    np.testing.assert_allclose(
        new.deviations(items.numbers(["item 9"])), same.predict_std("item 9"), atol=1e-5
    )
    model.save(tmp_path / "again")
    again = tacenda.load(tmp_path / "again")
    np.testing.assert_array_equal(again.score_pairs(*pairs), model.score_pairs(*pairs))

    _, out, _ = run("recommend", tmp_path / "blend", "--user", "user 1", "--json")
    listed = [iid for iid, _ in json.loads(out)["user 1"]]
    assert listed == [iid for iid, _ in blend.top_n(10, ["user 1"])["user 1"]]


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": [1.0]},
        {"weights": [1.0, -1.0]},
        {"weights": [1.0, 1e300]},
        {"center": 7.0},
        {"factor": 0.0},
        {"n_users": 0},
        {"n_users": 10**6},
    ],
)
def test_a_damaged_blend_is_refused(changes, trainset, tmp_path):
    parts = [BiasOnly(), BiasOnly(biases="items")]
    Blend(parts, random_state=0).fit(trainset).save(tmp_path / "blend")
    found = artifact.read(tmp_path / "blend")
    changed = {name: np.array(value, np.float64) for name, value in changes.items()}
    artifact.write(tmp_path / "blend", replace(found, arrays={**found.arrays, **changed}))
    for load in (tacenda.load, Blend.load):
        with pytest.raises(ArtifactError, match="cannot load"):
            load(tmp_path / "blend")


def test_what_is_blended_is_left_alone(blend):
    assert PARTS[0] is not blend.fitted[0]
    assert blend.fitted[0].is_fitted


def test_weights_are_the_least_squares_ones():
    rng = np.random.default_rng(0)
    predictions = rng.normal(3.5, 1, (5000, 3))
    center = predictions.mean()
    truth = center + (predictions - center) @ [0.6, 0.3, 0.0] + rng.normal(0, 0.1, 5000)
    found = fit_weights(predictions, truth, ridge=0.0)
    np.testing.assert_allclose(found.weights, [0.6, 0.3, 0.0], atol=0.01)
    np.testing.assert_allclose(found.combine(predictions), truth, atol=0.6)
    assert fit_weights(predictions, truth, ridge=1e8).weights == pytest.approx(
        [1 / 3] * 3, abs=1e-3
    )


class Recorder(AlgoBase):
    """Keeps what it is fitted to and what it is asked for, over all copies."""

    fitted, asked = [], []

    def fit(self, trainset):
        AlgoBase.fit(self, trainset)
        raw_user, raw_item = trainset.to_raw_uid, trainset.to_raw_iid
        self.fitted.append({(raw_user(u), raw_item(i)) for u, i, _ in trainset.all_ratings()})
        return self

    def test(self, testset, verbose=False):
        self.asked.append({(uid, iid) for uid, iid, _ in testset})
        return AlgoBase.test(self, testset, verbose)

    def estimate(self, u, i):
        return 3.0


@pytest.mark.usefixtures("held_out_often")
def test_weights_are_fitted_to_ratings_that_no_part_has_seen(trainset, monkeypatch):
    monkeypatch.setattr(Recorder, "fitted", [])
    monkeypatch.setattr(Recorder, "asked", [])
    Blend([Recorder(), Recorder()], holdout=0.2, random_state=0).fit(trainset)
    before, again = Recorder.fitted[:-2], Recorder.fitted[-2:]
    everything = {pair for pairs in again for pair in pairs}
    assert len(everything) == trainset.n_ratings
    assert len(Recorder.asked) == 10, "few ratings are held out in five parts"
    for seen, held_out in zip(before, Recorder.asked, strict=True):
        assert len(held_out) == pytest.approx(0.2 * trainset.n_ratings, abs=4)
        assert not seen & held_out
        assert seen | held_out == everything
    for part in (Recorder.asked[::2], Recorder.asked[1::2]):
        assert sum(map(len, part)) == len(everything), "every rating is held out once"


def test_of_many_ratings_one_part_is_held_out(trainset, monkeypatch):
    monkeypatch.setattr(Recorder, "fitted", [])
    monkeypatch.setattr(Recorder, "asked", [])
    Blend([Recorder()], holdout=0.1, random_state=0).fit(trainset)
    assert len(Recorder.asked) == 1


@pytest.mark.usefixtures("held_out_often")
@pytest.mark.parametrize("n", [12, 40, 200])
def test_a_blend_of_few_ratings_is_no_worse_than_its_best_part(n, triples):
    few = trainset_of(triples[:n])
    testset = triples[300:]
    blend = Blend([BiasOnly(), PARTS[0]], random_state=0).fit(few)
    assert blend.weights.sum() == pytest.approx(1, abs=0.05)
    found, *alone = (
        accuracy.rmse(algo.test(testset), verbose=False) for algo in (blend, *blend.fitted)
    )
    assert found < 1.002 * min(alone)


def test_weights_sum_to_about_one_however_few_ratings_tell_them():
    predictions = np.array([[4.0, 3.0], [2.0, 3.5]])
    for truth in ([1.0, 5.0], [5.0, 1.0], [3.0, 3.0]):
        weights = fit_weights(predictions, np.array(truth)).weights
        assert weights.sum() == pytest.approx(1, abs=0.05)


def test_the_seeds_of_the_parts_seed_the_split(trainset, testset):
    one, other = (Blend(PARTS[:2]).fit(trainset).test(testset) for _ in range(2))
    assert one == other
    unseeded = Blend([ConditionalPMF(n_factors=4, n_epochs=2), PARTS[1]])
    assert unseeded.fit(trainset).weights.tolist() != unseeded.fit(trainset).weights.tolist()


@pytest.mark.parametrize("of_blend", [None, 2**40])
def test_seeds_may_have_more_than_32_bits(trainset, testset, of_blend):
    found = [
        Blend([ConditionalPMF(n_factors=2, n_epochs=1, random_state=seed)], random_state=of_blend)
        .fit(trainset)
        .test(testset)
        for seed in (2**40, 2**40, 2**40 + 1)
    ]
    assert found[0] == found[1] != found[2]


def test_a_part_that_was_fitted_again_is_announced_once(trainset, testset):
    blend = Blend([BiasOnly(), PARTS[0]], random_state=0).fit(trainset)
    with warnings.catch_warnings(action="error"):
        deepcopy(blend).test(testset)
        blend.partial_fit(trainset_of([("user 1", "item 1", 5.0)]), 1)
        blend.test(testset)
    blend.fitted[1].partial_fit(trainset, 1)
    with pytest.warns(TacendaWarning, match="ConditionalPMF of this blend has changed") as found:
        predictions = [blend.test(testset) for _ in range(2)]
    assert len(found) == 1
    assert predictions[0] == predictions[1]


@pytest.mark.parametrize(
    "use",
    [
        lambda blend, pairs: blend.score_pairs(*pairs),
        lambda blend, pairs: blend.score_users(pairs[0]),
        lambda blend, pairs: blend.deviations(*pairs),
        lambda blend, pairs: blend.fold(pairs[1], [3.0, 4.0]),
    ],
    ids=["score_pairs", "score_users", "deviations", "fold"],
)
def test_every_use_of_a_part_that_was_fitted_again_is_announced(use, trainset):
    blend = Blend([BiasOnly(), BiasOnly(biases="items")], random_state=0).fit(trainset)
    blend.fitted[1].partial_fit(trainset, 1)
    with pytest.warns(TacendaWarning, match="BiasOnly of this blend has changed"):
        use(blend, (np.array([0, 1]), np.array([2, 3])))


@pytest.mark.parametrize("fingerprints", [["a"], "ab", None])
def test_a_blend_with_fingerprints_of_other_parts_is_damaged(fingerprints, trainset, tmp_path):
    Blend([BiasOnly(), BiasOnly(biases="items")], random_state=0).fit(trainset).save(tmp_path / "b")
    found = artifact.read(tmp_path / "b")
    artifact.write(tmp_path / "b", replace(found, config={**found.config, "parts": fingerprints}))
    with pytest.raises(ArtifactError, match="'parts' are not a fingerprint for each algorithm"):
        Blend.load(tmp_path / "b")


def test_a_saved_blend_announces_parts_that_were_exchanged(trainset, tmp_path):
    blend = Blend([BiasOnly(), PARTS[0]], random_state=0).fit(trainset)
    blend.save(tmp_path / "blend")
    found = artifact.read(tmp_path / "blend")
    other = ConditionalPMF(n_factors=4, n_epochs=2, random_state=5).fit(trainset).to_artifact()
    artifact.write(
        tmp_path / "other", replace(found, nested={**found.nested, "algorithm-1": other})
    )
    with warnings.catch_warnings(action="error"):
        Blend.load(tmp_path / "blend")
    with pytest.warns(TacendaWarning, match="ConditionalPMF of this blend has changed"):
        Blend.load(tmp_path / "other")


def test_nothing_to_blend(trainset):
    with pytest.raises(ConfigurationError, match="needs algorithms"):
        Blend().fit(trainset)
    with pytest.raises(ConfigurationError, match="holdout must be"):
        Blend(PARTS, holdout=1.0)
    for given in (BiasOnly(), [BiasOnly], ["pmf"], [ImplicitMF(), BiasOnly()]):
        with pytest.raises(ConfigurationError, match="algorithms must be a list of algorithms of"):
            Blend(given)


def test_algorithms_may_come_from_an_iterator(trainset):
    blend = Blend((part for part in PARTS), random_state=0).fit(trainset)
    assert len(blend.fit(trainset).weights) == len(PARTS)


def test_of_one_rating_the_plain_average_is_blended():
    blend = Blend(PARTS, random_state=0).fit(trainset_of([("a", "x", 3.0)]))
    np.testing.assert_allclose(blend.weights, 1 / 3)
    assert blend.predict("a", "x").est == pytest.approx(3.0, abs=0.05)


def test_callbacks_see_the_epochs_of_every_part_of_ours(trainset):
    seen = []

    class Watches(Callback):
        def on_epoch_end(self, run):
            seen.append(run.history.epochs)

    parts = [BiasOnly(), ConditionalPMF(n_factors=2, n_epochs=3, random_state=0), SVD(n_epochs=2)]
    Blend(parts, random_state=0).fit(trainset, callbacks=[Watches()])
    assert seen == [*range(1, 11), 1, 2, 3] * 2  # without the ratings held out, and with them


def test_every_part_of_a_blend_is_told_what_an_iterator_gives_once(trainset):
    parts = [ConditionalPMF(n_factors=2, n_epochs=2, random_state=k) for k in (0, 1)]
    blend = Blend(parts, random_state=0).fit(trainset)
    rated = ["item 1", "item 2"]
    given = {"item 3": 5.0}
    one = blend.fold_in(given, iter(rated))
    other = blend.fold_in(given, rated)
    assert one.predict("item 7") == other.predict("item 7")
    assert not {"item 1", "item 2", "item 3"} & {iid for iid, _ in one.top_n(60)}


def test_a_blend_refuses_what_its_parts_refuse(blend):
    with pytest.raises(DataError, match=r"'nobody' is not in the trainset; fold_in\(uid="):
        blend.predict_users(["nobody"])
    with pytest.raises(ConfigurationError, match="uids is 'user 1'"):
        blend.predict_users("user 1")
