"""Training log-bilinear models on a device, which a stand-in of tensors in the host's memory plays."""

import numpy as np
import pytest

import tacenda
from support.devices import stand_in, tensor_cores
from tacenda import devices
from tacenda.datasets import synthetic_text
from tacenda.errors import ConfigurationError
from tacenda_lm import HLBL, LBL
from tacenda_lm.log_bilinear import hlbl, lbl

torch = pytest.importorskip("torch")

SETTINGS = {"width": 12, "context": 3, "copies": 2, "epochs": 2}
PLAIN = {"width": 12, "context": 3, "epochs": 2, "batch_words": 64}
LIKELIHOOD, NOISE = {}, {"loss": "nce", "advanced": {"noise_words": 20}}
KINDS = [
    (HLBL, SETTINGS),
    (HLBL, {**SETTINGS, "advanced": {"tail_rates": ()}}),
    (LBL, PLAIN),
    (LBL, {**PLAIN, **NOISE}),
    (LBL, {**PLAIN, "advanced": {"tied": False, "context_matrices": "diagonal"}}),
    (LBL, {**PLAIN, "loss": "nce", "advanced": {"tied": False}}),
]


@pytest.fixture(scope="module")
def texts():
    sentences = [list(each.words) for each in synthetic_text.generate(160, seed=1)]
    train = tacenda.Corpus.from_sentences(sentences[:120], max_vocabulary=60)
    return train, tacenda.Corpus.from_sentences(sentences[120:], vocabulary=train.vocabulary)


@pytest.mark.parametrize(("model", "settings"), KINDS, ids=str)
def test_a_fit_ends_where_that_on_the_cpu_does(texts, model, settings):
    here = model(**settings, device="cpu").fit(texts[0], valid=texts[1])
    with stand_in() as called:
        there = model(**settings).fit(texts[0], valid=texts[1])
    assert called == set(hlbl.OPERATIONS if model is HLBL else lbl._OPERATIONS)
    assert there.figures[0]["value"] == pytest.approx(here.figures[0]["value"], rel=1e-4)
    expected = here.parameters.to_arrays()
    for name, array in there.parameters.to_arrays().items():
        assert isinstance(array, np.ndarray), name
        np.testing.assert_allclose(array, expected[name], atol=1e-3, err_msg=name)


@pytest.mark.parametrize("kind", [LIKELIHOOD, NOISE], ids=str)
def test_products_of_three_digits_leave_the_perplexity_of_an_lbl_to_three(texts, kind):
    here = LBL(**PLAIN, **kind, device="cpu").fit(texts[0], valid=texts[1])
    with stand_in(), tensor_cores() as made:
        there = LBL(**PLAIN, **kind).fit(texts[0], valid=texts[1])
    assert made
    assert there.figures[0]["value"] == pytest.approx(here.figures[0]["value"], rel=1e-3)
    assert np.abs(there.parameters.words - here.parameters.words).max() > 1e-6


@pytest.mark.parametrize("model", [HLBL(**SETTINGS), LBL(**PLAIN)], ids=str)
def test_a_fit_that_the_device_has_no_room_for_says_what_to_lower(texts, model, monkeypatch):
    monkeypatch.setattr(devices, "available_memory", lambda device: 10_000)
    with stand_in(), pytest.raises(ConfigurationError, match=r"LBL: training needs .* width"):
        model.fit(texts[0])


def test_diagonal_matrices_need_the_room_of_their_diagonals(texts, monkeypatch):
    monkeypatch.setattr(devices, "available_memory", lambda device: 23_000_000)
    diagonal = {"advanced": {"context_matrices": "diagonal"}}
    with stand_in():
        LBL(width=1000, context=2, batch_words=256, epochs=1, **diagonal).fit(texts[0])


def test_a_killed_fit_goes_on_from_what_the_device_held(texts, tmp_path):
    class KilledError(Exception):
        pass

    def killed(trainer, batch, learning_rate):
        if trainer.steps == 7:
            raise KilledError
        return step(trainer, batch, learning_rate)

    step = hlbl.HLBLTrainer.step
    with stand_in():
        expected = HLBL(**SETTINGS).fit(texts[0], valid=texts[1])
        model = HLBL(**SETTINGS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hlbl.HLBLTrainer, "step", killed)
            with pytest.raises(KilledError):
                model.fit(texts[0], valid=texts[1], checkpoints=tmp_path)
        model.fit(texts[0], valid=texts[1], checkpoints=tmp_path)
    for name, array in model.parameters.to_arrays().items():
        np.testing.assert_array_equal(array, expected.parameters.to_arrays()[name], err_msg=name)


@pytest.mark.parametrize("model", [HLBL(**SETTINGS), LBL(**PLAIN)], ids=str)
def test_an_artifact_does_not_know_where_it_was_trained(texts, model, tmp_path):
    with stand_in():
        there = model.fit(texts[0])
    there.save(tmp_path / "model")
    again = tacenda.load(tmp_path / "model")
    assert "device" not in again.card["settings"]
    assert again.settings.device == "auto"
    words = ["a", "b", "a"]
    np.testing.assert_array_equal(again.surprisal(words), there.surprisal(words))


@pytest.mark.gpu
@pytest.mark.parametrize(("model", "settings"), KINDS, ids=str)
def test_a_fit_on_cuda_ends_where_that_on_the_cpu_does(texts, model, settings):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    here, there, again = (
        model(**settings, device=name).fit(texts[0], valid=texts[1])
        for name in ("cpu", "cuda", "cuda")
    )
    assert there.figures[0]["value"] == pytest.approx(here.figures[0]["value"], rel=5e-3)
    expected = again.parameters.to_arrays()
    for name, array in there.parameters.to_arrays().items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
