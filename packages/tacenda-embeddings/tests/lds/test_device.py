"""Fitting and smoothing on a device, which a stand-in of tensors in the host's memory plays."""

import pickle
from itertools import chain

import numpy as np
import pytest

import tacenda
from support.devices import stand_in, tensor_cores
from tacenda import devices
from tacenda.datasets import synthetic_text
from tacenda.errors import ConfigurationError, FittingError
from tacenda_embeddings import LDS
from tacenda_embeddings.lds import smoother
from tacenda_embeddings.settings import LDS_OUTPUTS

torch = pytest.importorskip("torch")

SETTINGS = {"n_states": 6, "subspace_iterations": 3, "full_iterations": 1}


@pytest.fixture
def device():
    """Every model computes on tensors; what was called."""
    with stand_in() as called:
        yield called


@pytest.fixture(scope="module")
def sentences():
    return [list(each.words) for each in synthetic_text.generate(400, seed=1)]


@pytest.fixture(scope="module")
def corpus(sentences):
    return tacenda.Corpus.from_sentences(sentences, max_vocabulary=150)


@pytest.fixture(scope="module")
def model(corpus):
    return LDS(**SETTINGS, device="cpu").fit(corpus)


def test_a_fit_ends_where_that_on_the_cpu_does(model, corpus, sentences, request):
    on_device = request.getfixturevalue("device")
    there = LDS(**SETTINGS).fit(corpus)
    assert on_device == {"sparse_product"}
    for ours, theirs in zip(there.history, model.history, strict=True):
        assert ours.likelihood_gain == pytest.approx(theirs.likelihood_gain, rel=1e-4)
    for name, array in there.arrays().items():
        assert isinstance(array, np.ndarray), name
        assert array.dtype == model.arrays()[name].dtype, name
    pairs = (m.with_output("mean").transform(sentences[:5]) for m in (there, model))
    for ours, theirs in zip(*pairs, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3)


def test_more_text_is_learned_there_too(corpus, device):
    """Also where torch refuses operations whose sums have no fixed order."""
    torch.use_deterministic_algorithms(True)
    try:
        there = LDS(**SETTINGS).fit(corpus)
        before = there.likelihood_gain
        there.partial_fit(corpus, 1)
    finally:
        torch.use_deterministic_algorithms(False)
    assert there.likelihood_gain > before - 1e-3


@pytest.mark.parametrize("form", ["modal", "dense"])
@pytest.mark.parametrize("output", LDS_OUTPUTS)
def test_vectors_are_those_of_the_cpu(model, sentences, output, form, monkeypatch, request):
    """Sentences, an empty one, and a long document, which has ends too."""
    if form == "dense":
        monkeypatch.setattr(smoother, "MAXIMUM_CONDITION", 0.0)
    texts = [*sentences[:30], [], list(chain(*sentences[30:90]))]
    expected = model.with_output(output).transform(texts)
    on_device = request.getfixturevalue("device")
    found = model.with_output(output).transform(texts)
    assert on_device <= set(smoother.OPERATIONS)
    assert on_device
    for ours, theirs in zip(found, expected, strict=True):
        assert isinstance(ours, np.ndarray)
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_products_of_three_digits_leave_vectors_of_three(model, sentences, device):
    expected = np.concatenate(model.with_output("own_past_future").transform(sentences[:60]))
    again = LDS(**SETTINGS)
    again.learned, again._vocabulary = model.learned, model.vocabulary
    with tensor_cores() as made:
        found = np.concatenate(again.with_output("own_past_future").transform(sentences[:60]))
    assert made
    errors = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert 1e-7 < errors.max() < 2e-3


def test_an_artifact_does_not_know_where_it_was_fitted(corpus, tmp_path, device):
    there = LDS(**SETTINGS, device="auto").fit(corpus)
    there.save(tmp_path / "model")
    again = tacenda.load(tmp_path / "model")
    assert "device" not in again.config_dict()["settings"]
    assert again.settings.device == LDS().settings.device == "auto"


def test_what_lies_on_a_device_is_not_pickled(model, sentences, device):
    here = model.with_output("own")
    expected = here.transform(sentences[:3])
    assert here._smoothers
    again = pickle.loads(pickle.dumps(here))  # noqa: S301 - our own
    assert not again._smoothers
    for ours, theirs in zip(again.transform(sentences[:3]), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_vectors_are_written_into_tensors(model, sentences):
    ids = [model.vocabulary.encode(sentence) for sentence in sentences[:4]]
    offsets = np.cumsum([0, *map(len, ids)])
    tensors = [torch.zeros(len(own), model.width) for own in ids]
    model.transform_into(np.concatenate(ids), offsets, tensors)
    for tensor, expected in zip(tensors, model.transform_ids(ids), strict=True):
        np.testing.assert_array_equal(tensor.numpy(), expected)
    whole = torch.zeros(offsets[-1], model.width)
    model.transform_into(np.concatenate(ids), offsets, whole)
    assert torch.equal(whole, torch.cat(tensors))


def test_noise_that_no_device_fits_is_refused_there_and_stays_on_the_cpu(corpus, device):
    for noise in ("diagonal", "spherical"):
        with pytest.raises(ConfigurationError, match='device must be "auto" or "cpu"'):
            LDS(device="cuda", advanced={"noise": noise})
        LDS(**SETTINGS, advanced={"noise": noise}).fit(corpus)
    assert not device


def test_a_fit_that_the_device_has_no_room_for_says_what_to_lower(corpus, monkeypatch, device):
    monkeypatch.setattr(devices, "available_memory", lambda device: 10_000)
    with pytest.raises(
        ConfigurationError, match=r"LDS: training needs about .* give a smaller vocab"
    ):
        LDS(**SETTINGS).fit(corpus)


def test_smoothing_that_fills_the_device_up_says_what_to_lower(
    model, sentences, monkeypatch, device
):
    full = type("OutOfMemoryError", (RuntimeError,), {})

    def scan(*arguments, **options):
        raise full("CUDA out of memory")

    monkeypatch.setattr(smoother.Smoother, "__init__", scan)
    with pytest.raises(FittingError, match=r"LDS: the memory of the device .* give fewer tokens"):
        model.with_output("own").transform(sentences[:3])


@pytest.mark.gpu
def test_a_fit_and_its_vectors_on_cuda(model, corpus, sentences):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    there = LDS(**SETTINGS, device="cuda").fit(corpus)
    again = LDS(**SETTINGS, device="cuda").fit(corpus)
    assert there.likelihood_gain == again.likelihood_gain  # bit for bit
    assert there.likelihood_gain == pytest.approx(model.likelihood_gain, rel=1e-4)
    there.partial_fit(corpus, 1)
    assert there.likelihood_gain > again.likelihood_gain - 1e-3
    texts = [*sentences[:30], [], list(chain(*sentences[30:90]))]
    there.learned, there._vocabulary = model.learned, model.vocabulary
    there._smoothers.clear()
    for output in LDS_OUTPUTS:
        expected = model.with_output(output).transform(texts)
        for ours, theirs in zip(there.with_output(output).transform(texts), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-5)
