"""A fitted LDS to disk and back, and what of a hostile file is refused."""

import dataclasses

import numpy as np
import pytest

import tacenda
from tacenda.artifact.precision import compact
from tacenda.corpus import Corpus
from tacenda.datasets import synthetic_text
from tacenda.errors import ArtifactError, TacendaError
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings import LDS
from tacenda_embeddings.lds.model import FittedLDS

SENTENCES = [["a", "and", "."], [], ["unheard-of"], ["a"] * 40]


@pytest.fixture(scope="module", params=["full", "diagonal", "spherical"])
def model(request):
    sentences = [list(s.words) for s in synthetic_text.generate(150, seed=1)]
    corpus = Corpus.from_sentences(sentences, max_vocabulary=80)
    small = {"n_states": 4, "subspace_iterations": 2, "full_iterations": 1, "kappa": 3.0}
    return LDS(**small, advanced={"noise": request.param}).fit(corpus)


@pytest.fixture
def artifact(model):
    return model.to_artifact()


def with_arrays(artifact, **arrays):
    return dataclasses.replace(artifact, arrays={**artifact.arrays, **arrays})


def with_settings(artifact, **settings):
    config = {**artifact.config, "settings": {**artifact.config["settings"], **settings}}
    return dataclasses.replace(artifact, config=config)


NUMBERS = ("A", "C", "Q", "Xi", "scale", "mean", "table", "forward", "backward", "left_end")


@pytest.mark.parametrize("name", [*NUMBERS, "right_end", "filter", "noise"])
@pytest.mark.parametrize("damage", ["nan", "infinite", "shape", "float16", "integers", "missing"])
def test_damaged_numbers_are_refused(artifact, name, damage):
    if name == "noise":
        name = "noise.N" if "noise.N" in artifact.arrays else "noise.d"
    array = artifact.arrays[name]
    if damage in ("nan", "infinite"):
        value = array.copy()
        value.flat[-1] = np.nan if damage == "nan" else np.inf
    elif damage == "shape":
        value = np.ascontiguousarray(array[..., :-1])
    else:
        value = array.astype({"float16": np.float16}.get(damage, np.int64))
    spoilt = with_arrays(artifact, **{name: value})
    if damage == "missing":
        del spoilt.arrays[name]
    with pytest.raises(ArtifactError, match=name.replace(".", r"\.")) as caught:
        LDS.from_artifact(spoilt)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["A", "forward", "backward"])
def test_a_recursion_that_would_grow_is_refused(artifact, name):
    spoilt = with_arrays(artifact, **{name: 1.01 * np.eye(4)})
    with pytest.raises(ArtifactError, match=f"{name!r} is not stable"):
        LDS.from_artifact(spoilt)


def test_a_scale_that_is_not_positive_is_refused(artifact):
    scale = artifact.arrays["scale"].copy()
    scale[3] = 0.0
    with pytest.raises(ArtifactError, match="'scale' holds a number that is not positive"):
        LDS.from_artifact(with_arrays(artifact, scale=scale))


@pytest.mark.parametrize(
    "settings",
    [
        {"n_states": 5},
        {"n_states": -1},
        {"n_states": "4"},
        {"n_states": 10**15},
        {"output": "../../etc"},
        {"surprise": 1},
        {"advanced": {"noise": "brown"}},
        {"own_weight": None},
    ],
)
def test_settings_that_do_not_fit_are_refused(artifact, settings):
    with pytest.raises(TacendaError) as caught:
        LDS.from_artifact(with_settings(artifact, **settings))
    assert "\n" not in str(caught.value)


def test_another_kind_of_noise_than_was_saved_is_refused(artifact):
    kinds = {"full": "diagonal", "diagonal": "full", "spherical": "full"}
    other = kinds[artifact.config["settings"]["advanced"]["noise"]]
    with pytest.raises(ArtifactError, match="noise"):
        LDS.from_artifact(with_settings(artifact, advanced={"noise": other}))


@pytest.mark.parametrize("config", [{}, {"settings": 3}, {"settings": {}, "vocabulary": None}])
def test_a_config_of_another_form_is_refused(artifact, config):
    with pytest.raises(ArtifactError) as caught:
        LDS.from_artifact(dataclasses.replace(artifact, config=config))
    assert "\n" not in str(caught.value)


def test_a_vocabulary_of_another_size_is_refused(artifact):
    other = Corpus.from_sentences([["one", "two"], ["three"]]).vocabulary
    with pytest.raises(ArtifactError, match="types"):
        LDS.from_artifact(with_arrays(artifact, **other.arrays()))


# -- compact forms ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "error"), [("float16", 1e-3), ("int8", 2e-2)])
@pytest.mark.parametrize("output", ["own_past_future", "mean", "filtered"])
def test_a_compact_form_has_nearly_the_same_vectors(model, tmp_path, precision, error, output):
    model.save(tmp_path / "compact", precision=precision)
    loaded = tacenda.load(tmp_path / "compact")
    assert loaded.precision == precision
    found, expected = (each.transform(SENTENCES, output=output) for each in (loaded, model))
    for x, y in zip(found, expected, strict=True):
        assert np.linalg.norm(x - y) <= error * np.linalg.norm(y)


def test_the_table_of_a_compact_form_is_made_of_the_rounded_parameters(model):
    """With nothing rounded, the matrix it is made with gives back the table that was saved whole."""
    arrays = model.compact_arrays()
    assert "table" not in arrays
    again = LDS.from_arrays(model.config_dict(), arrays).input_rows
    np.testing.assert_allclose(again, model.input_rows, rtol=1e-4, atol=1e-6)


def test_a_compact_model_can_be_fitted_on(model, tmp_path):
    model.save(tmp_path / "compact", precision="int8")
    sentences = [list(s.words) for s in synthetic_text.generate(150, seed=1)]
    corpus = Corpus.from_sentences(sentences, vocabulary=model.vocabulary)
    loaded = tacenda.load(tmp_path / "compact").partial_fit(corpus, iterations=1)
    assert loaded.likelihood_gain >= model.likelihood_gain - 0.02


@pytest.mark.parametrize("name", ["reading#f8", "C#rows", "C#scales", "mean#f8"])
def test_a_damaged_compact_form_is_refused(model, name):
    artifact = model.to_artifact("int8")
    array = artifact.arrays[name]
    damages = [array[:-1], array[None]]
    if array.dtype.kind == "f":
        damages.append(np.full_like(array, np.nan))
    for damaged in damages:
        with pytest.raises(ArtifactError):
            LDS.from_artifact(with_arrays(artifact, **{name: damaged}))


@pytest.mark.parametrize(("n_states", "megabytes"), [(200, 12), (50, 3)])
def test_a_compact_model_of_forty_thousand_words_is_small(n_states, megabytes):
    """Random numbers in arrays of the sizes of a real model, and words of eight letters."""
    rng, n_words = np.random.default_rng(0), 40_000
    names = [*(f"{word:08x}" for word in range(n_words - 2)), "<unk>", "</s>"]
    counts = np.sort(rng.integers(1, 2**21, n_words))[::-1]
    mean = np.sqrt(counts / counts.sum())
    square = rng.normal(size=(n_states, n_states))
    C = rng.normal(size=(n_words, n_states)).astype(np.float32)
    matrices = dict.fromkeys(("forward", "backward", "left_end", "right_end", "filter"), square)
    matrices |= {"A": square, "Q": square, "Xi": square, "N": square, "C": C, "table": C}
    model = LDS(n_states=n_states)
    model.learned = FittedLDS(spherical=False, mean=mean, scale=1 / mean, **matrices)
    model._vocabulary = Vocabulary(names, counts)
    stored = compact(model.compact_arrays(), {"C"}, "int8")
    assert sum(array.nbytes for array in stored.values()) <= megabytes * 1e6
