"""Algorithms on disk: what comes back, what does not, and files that are not what they should be."""

from dataclasses import dataclass, replace
from unittest.mock import Mock

import numpy as np
import pytest

import tacenda
from support.recommenders import SMALL, trainset_of
from tacenda import artifact
from tacenda.errors import ArtifactError, KernelError, NotFittedError
from tacenda.settings import configured_by, option
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    BiasOnly,
    Blend,
    ConditionalPMF,
    RatingAlgorithm,
)
from tacenda_surprise.catalogue import Catalogue, pack_names
from tacenda_surprise.pmf_options import PMFSettings
from tacenda_surprise.storage import pack_ids, unpack_ids, upgrade

#: Offsets whose differences wrap around in int64, so that they all look positive.
WRAPPING = np.array([0, 2**63 - 1, -2, *[920] * 58])
MIXED = [(7, "x", 1.0), ("7", "x", 5.0), (7, 8, 2.0), ("7", 8, 5.0), ("é\n", 2.5, 3.0)]


@dataclass(frozen=True, kw_only=True)
class DerivedSettings(PMFSettings):
    extra: int = option(3, "an argument of its own")


class Derived(PMF):
    """Of somebody else, with an argument of its own."""

    settings_class = DerivedSettings

    @configured_by(DerivedSettings)
    def __init__(self, settings):
        RatingAlgorithm.__init__(self, settings)


@pytest.fixture
def saved(trainset, tmp_path):
    PMF(**SMALL).fit(trainset).save(tmp_path / "algo")
    return tmp_path / "algo"


def altered(folder, **changes):
    """Saves the artefact again with other arrays or another part of its configuration."""
    found = artifact.read(folder)
    changed = {n: a for n, a in changes.items() if n[0] != "_"}
    shared = {n: a for n, a in changed.items() if n in found.arrays}  # with the model alone
    own = {f"surprise.{n}": a for n, a in changed.items() if n not in shared}
    arrays = {**found.arrays, **shared, **own}
    config = dict(found.config)
    if "_config" in changes:
        config["surprise"] = {**config["surprise"], **changes["_config"]}
    artifact.write(folder, artifact.Artifact(
        found.kind, found.name, found.distribution, found.version, config, arrays
    ))  # fmt: skip


def test_ids_keep_their_types(tmp_path):
    algo = ConditionalPMF(**SMALL).fit(trainset_of(MIXED))
    algo.save(tmp_path / "algo")
    again = ConditionalPMF.load(tmp_path / "algo")
    assert list(again.trainset._raw2inner_id_users) == [7, "7", "é\n"]
    assert list(again.trainset._raw2inner_id_items) == ["x", 8, 2.5]
    assert again.predict(7, 8).est == algo.predict(7, 8).est
    assert again.predict("7", 8).est == algo.predict("7", 8).est != again.predict(7, 8).est
    assert set(again.top_n(1)) == {7, "7", "é\n"}


def test_users_known_by_identities_alone_come_back(trainset, tmp_path):
    items = [trainset.to_raw_iid(i) for i in range(9)]
    algo = ConditionalPMF(rated=[("quiet", iid) for iid in items], **SMALL).fit(trainset)
    algo.save(tmp_path / "algo")
    again = ConditionalPMF.load(tmp_path / "algo")
    assert again.top_n(5, ["quiet"]) == algo.top_n(5, ["quiet"])
    assert again.predict("quiet", items[0]) == algo.predict("quiet", items[0])
    assert again.bu.shape == algo.bu.shape
    assert set(again.rated.pairs) == set(algo.rated.pairs)


def test_a_trainset_comes_back_as_surprise_made_it(trainset, saved):
    found = PMF.load(saved).trainset
    assert found.rating_scale == trainset.rating_scale
    assert found.global_mean == trainset.global_mean
    assert {u: sorted(pairs) for u, pairs in trainset.ur.items()} == dict(found.ur)
    assert {i: sorted(pairs) for i, pairs in trainset.ir.items()} == dict(found.ir)
    assert found.to_inner_uid("user 3") == trainset.to_inner_uid("user 3")
    assert found.build_testset()[0][0].startswith("user")


def test_classes_of_others(trainset, testset, tmp_path):
    algo = Derived(extra=np.int64(4), **{**SMALL, "random_state": np.random.RandomState(3)})
    algo.fit(trainset).save(tmp_path / "algo")
    again = RatingAlgorithm.load(tmp_path / "algo")
    assert type(again) is Derived
    assert again.settings.extra == 4
    assert again.settings.random_state is None
    assert again.test(testset) == algo.test(testset)
    with pytest.raises(ArtifactError, match="test_saving:Derived, which is no RBM known here"):
        RBM.load(tmp_path / "algo")
    with pytest.raises(ArtifactError, match="no such folder"):
        RBM.load(tmp_path / "nowhere")


def test_an_operation_that_cannot_be_compiled_is_no_damage(saved, monkeypatch):
    algo = PMF.load(saved)
    algo.fold_in({"item 3": 5.0}, uid="newcomer")
    algo.save(saved)
    monkeypatch.setattr(PMF, "fold", Mock(side_effect=KernelError("it cannot be compiled")))
    with pytest.raises(KernelError, match=r"^it cannot be compiled$"):
        PMF.load(saved)


def test_what_cannot_be_saved(trainset, tmp_path):
    with pytest.raises(NotFittedError):
        PMF().save(tmp_path / "algo")
    tuples = trainset_of([(("a", 1), "x", 1.0), (("a", 1), "y", 2.0)])
    with pytest.raises(ArtifactError, match="is a tuple; only text, numbers and UUIDs"):
        PMF(**SMALL).fit(tuples).save(tmp_path / "algo")
    halves = trainset_of([("a", "x", 1.0), ("b", "y\ud800", 2.0)])
    for algo in (PMF(**SMALL), Blend([BiasOnly()])):
        with pytest.raises(ArtifactError, match=r"the item id 'y\\ud800' holds half of a surrog"):
            algo.fit(halves).save(tmp_path / "algo")


@pytest.mark.parametrize(
    "changes",
    [
        {"values": np.full(920, 9, np.float32)},
        {"values": np.full(920, np.nan, np.float32)},
        {"item_ids": np.full(920, 10**6, np.int32)},
        {"offsets": np.zeros(61, np.int64)},
        {"offsets": WRAPPING},
        {"rated.offsets": WRAPPING},
        {"users.offsets": WRAPPING},
        {"users.types": np.full(60, 7, np.uint8)},
        {"users.offsets": np.zeros(61, np.int64)},
        {"folded.rated": np.array([3])},
        {"rated.item_ids": np.full(920, -1, np.int32)},
        {"_config": {"n_users": 10**6}},
        {"_config": {"class": "os:system"}},
        {"_config": {"arguments": {"nonsense": 1}}},
        {"_config": {"arguments": {"n_factors": "many"}, "scale": "wide"}},
        {"_config": {"scale": [5, 1]}},
        {"_config": {"arguments": {"checkpoints": "/tmp/elsewhere"}}},
        {"_config": {"arguments": {"callbacks": []}}},
        {"_config": {"arguments": {"rated": [["a", "b"]]}}},
        {"_config": {"checkpoints": "/tmp/elsewhere"}},
        {"_config": {"mean": 10**400}},
        {"_config": {"scale": [1, 10**400]}},
        {"users.text": np.full(200, ord("7"), np.uint8)},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_damaged_and_hostile_files(changes, saved):
    altered(saved, **changes)
    with pytest.raises(ArtifactError, match="cannot load"):
        RatingAlgorithm.load(saved)


def test_a_folder_that_does_not_say_who_has_rated_what_is_damaged(saved):
    found = artifact.read(saved)
    arrays = {name: array for name, array in found.arrays.items() if name[:6] != "rated."}
    artifact.write(saved, replace(found, arrays=arrays))
    with pytest.raises(ArtifactError, match=r"'rated\.offsets' is missing"):
        PMF.load(saved)


@pytest.mark.parametrize("load", [tacenda.load, RatingAlgorithm.load, RBM.load])
def test_a_machine_that_predicted_in_a_way_there_is_no_more_is_refused(load, trainset, tmp_path):
    RBM(n_hidden=2, n_epochs=1, random_state=0).fit(trainset).save(tmp_path / "algo")
    found = artifact.read(tmp_path / "algo")
    found.config["settings"] |= {"prediction": "exact"}
    artifact.write(tmp_path / "algo", found)
    wrong = "RBM no longer has the option prediction: it is always 'mean_field', not 'exact'$"
    with pytest.raises(ArtifactError, match=f"^cannot load .*algo: .*{wrong}"):
        load(tmp_path / "algo")


def test_ids_as_arrays():
    ids = ["", "a", "a\0", -3, 2**70, 0.5, "\udcff", "0.5"]
    assert unpack_ids(pack_ids(ids, "x"), "x") == ids
    assert unpack_ids(pack_ids([], "x"), "x") == []


@pytest.mark.parametrize("path", [None, 3, b"folder", "a\0b", "\ud800"])
def test_what_is_no_path(path, saved):
    algo = PMF.load(saved)
    for use in (algo.save, PMF.load):
        with pytest.raises(ArtifactError, match="file or folder"):
            use(path)


@pytest.mark.parametrize(
    "change", [{"scale": None}, {"scale": [1, 2, 3]}, {"scale": ["low", 5]}, {"mean": 10**400}, {}]
)
def test_a_catalogue_that_makes_no_sense_is_an_artifact_error_by_itself(change, trainset):
    catalogue = BiasOnly().fit(trainset).catalogue
    config, arrays = {**catalogue.config_dict(), **change}, catalogue.arrays()
    if not change:
        arrays |= pack_names("users", ["twice", "twice"])
    with pytest.raises(ArtifactError, match="damaged"):
        Catalogue.from_arrays(config, arrays)
    with pytest.raises(ArtifactError, match="damaged"):
        Catalogue.from_arrays({}, {})


@pytest.mark.parametrize("catalogue", [{"mean": 1e308}, {"mean": 0.9}, {"scale": [1, 1e30]}])
def test_a_mean_off_the_scale_and_a_scale_without_end_are_refused(catalogue, saved):
    found = artifact.read(saved)
    found.config["catalogue"].update(catalogue)
    artifact.write(saved, found)
    with pytest.raises(ArtifactError, match="not a rating scale"):
        tacenda.load(saved)


@pytest.mark.parametrize(
    ("surprise", "message"),
    [
        ("", "not an object"),
        (3, "damaged"),
        ({"class": "\x1b[2J"}, r"\\x1b\[2J, which is no PMF"),
        ({}, "scale"),
    ],
)
def test_what_surprise_adds_is_refused_where_it_makes_no_sense(surprise, message, saved):
    found = artifact.read(saved)
    own = {**found.config["surprise"], "scale": [0, 5]} if surprise == {} else surprise
    with pytest.raises(ArtifactError, match=message) as caught:
        PMF.from_artifact(replace(found, config={**found.config, "surprise": own}))
    assert str(caught.value).isprintable()


def test_a_deviation_of_nothing_among_the_choices_is_refused(saved):
    found = artifact.read(saved)
    liking = found.arrays["choices.liking"] * np.float32([1, 0, 1, 1])
    artifact.write(saved, replace(found, arrays={**found.arrays, "choices.liking": liking}))
    with pytest.raises(ArtifactError, match=r"'choices.liking' must hold a mean"):
        PMF.load(saved)


@pytest.mark.parametrize("top", [1e9, 1e13, 1e-9, 1e-18])
@pytest.mark.parametrize(
    "make",
    [
        BiasOnly,
        lambda: PMF(**SMALL),
        lambda: ConditionalPMF(**SMALL),
        lambda: BayesianPMF(n_factors=2, burn_in=4, n_samples=4, random_state=0),
        lambda: RBM(n_hidden=2, n_epochs=2, random_state=0),
    ],
    ids=["BiasOnly", "PMF", "ConditionalPMF", "BayesianPMF", "RBM"],
)
def test_amounts_of_any_size_are_saved_and_loaded_and_their_fits_resumed(make, top, tmp_path):
    rng = np.random.default_rng(0)
    rows = [(f"u{k % 20}", f"i{k % 17}", float(rng.uniform(0, top))) for k in range(250)]
    trainset = trainset_of(rows, (0, top))
    algo = make().fit(trainset)
    algo.save(tmp_path / "algo")
    first, resumed = (make().fit(trainset, checkpoints=tmp_path / "fit") for _ in range(2))
    assert resumed.predict("u1", "i1").est == first.predict("u1", "i1").est
    pairs = ["u1", "u2"], ["i1", "i5"]
    again = type(algo).load(tmp_path / "algo")
    np.testing.assert_array_equal(again.predict_many(*pairs), algo.predict_many(*pairs))
    np.testing.assert_array_equal(again.predict_std(*pairs), algo.predict_std(*pairs))


def test_ratings_too_large_to_be_loaded_are_not_saved(tmp_path):
    algo = BiasOnly().fit(trainset_of([("a", "x", 1.0), ("b", "x", 3.0)]))
    algo.save(tmp_path / "algo")
    huge = trainset_of([("a", "x", 1e17), ("b", "x", 3.0)], (0, 1e17))
    with pytest.raises(ArtifactError, match=r"could not be loaded again: 0.0 to 1e.17 with mean"):
        BiasOnly().fit(huge).save(tmp_path / "algo")
    assert BiasOnly.load(tmp_path / "algo").catalogue.scale == (1, 5)


@pytest.mark.parametrize("value", [[1.0], {"theta": [1.0]}, [], None, 3])
def test_variances_of_an_older_version_that_cannot_be_converted_are_missing(value):
    old = artifact.Artifact(
        "recommenders", "pmf", "tacenda-surprise", "0", {"seed": 0, "variances": value}, {}
    )
    assert upgrade(old).arrays == {}


def test_an_option_without_effect_that_an_earlier_release_saved_stays_readable(trainset):
    rates = {"lr_pu": 0.1, "lr_qi": 0.1}
    model = PMF(**SMALL, biased=False, **rates).fit(trainset)
    saved = model.to_artifact()
    saved.config["settings"]["lr_all"] = 0.5
    uid, iid = trainset.to_raw_uid(0), trainset.to_raw_iid(0)
    assert PMF.from_artifact(saved).predict(uid, iid) == model.predict(uid, iid)
