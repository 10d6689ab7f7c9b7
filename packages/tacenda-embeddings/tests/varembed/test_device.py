"""Training word vectors on a device, which a stand-in of tensors in the host's memory plays."""

import os

import numpy as np
import pytest

import tacenda
from support.devices import DEVICE, stand_in, tensor_cores
from tacenda import devices
from tacenda.errors import ConfigurationError, FittingError
from tacenda_embeddings import VarEmbed

torch = pytest.importorskip("torch")
from tacenda_embeddings.varembed import training  # noqa: E402 - it imports torch

SMALL = {"hidden": 8, "negatives": 32, "batch_streams": 4, "unrolled_tokens": 8}
KINDS = [(VarEmbed, {}), (VarEmbed, {"advanced": {"softmax": "exact", "kl": "tokens"}})]


def fitted(texts, kind, device="cpu", **more):
    model, given = kind
    advanced = {**SMALL, "n_morphemes": 60, **given.get("advanced", {})}
    if advanced.get("softmax") == "exact":
        del advanced["negatives"]
    settings = {"width": 6, "epochs": 2, "device": device, "advanced": advanced}
    return model(**settings).fit(texts[0], valid=texts[1], **more)


@pytest.fixture(scope="module")
def held(texts):
    corpus = tacenda.Corpus.from_sentences(texts[:120], max_vocabulary=80, digits=True)
    return corpus, tacenda.Corpus.from_sentences(texts[120:160], vocabulary=corpus.vocabulary)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0].__name__} {kind[1]}")
def test_a_fit_ends_where_that_on_the_cpu_does(held, kind, monkeypatch):
    """The same torch computes both, so every bit is the same: what is tested is where everything lies."""
    there = []

    class Watched(training.Trainer):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            there.append(self.device)

    here = fitted(held, kind)
    monkeypatch.setattr(training, "Trainer", Watched)
    with stand_in():
        other = fitted(held, kind)
    assert there == [torch.device(DEVICE)]
    for name, array in other.arrays().items():
        np.testing.assert_array_equal(array, here.arrays()[name], err_msg=name)


def test_a_fit_may_go_on_elsewhere(held, tmp_path):
    whole = fitted(held, KINDS[0])
    fitted(held, KINDS[0], checkpoints=tmp_path / "kept")
    with stand_in():
        again = fitted(held, KINDS[0], checkpoints=tmp_path / "kept", resume=True)
    for name, array in again.arrays().items():
        np.testing.assert_array_equal(array, whole.arrays()[name], err_msg=name)


def test_a_fit_that_there_is_no_room_for_says_what_to_lower(held, monkeypatch):
    monkeypatch.setattr(devices, "available_memory", lambda device: 10_000)
    with pytest.raises(
        ConfigurationError, match=r"VarEmbed: training needs .* give fewer batch_str"
    ):
        fitted(held, KINDS[0])


def test_a_device_that_fills_up_later_says_what_to_lower(held, monkeypatch):
    full = type("OutOfMemoryError", (RuntimeError,), {})

    def step(*arguments):
        raise full("CUDA out of memory")

    monkeypatch.setattr(training.Trainer, "step", step)
    with stand_in(), pytest.raises(FittingError, match=r"memory of the device .* give fewer batch"):
        fitted(held, KINDS[0])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0].__name__} {kind[1]}")
def test_products_of_three_digits_leave_the_bound_to_three(held, kind):
    here = fitted(held, kind)
    with stand_in(), tensor_cores() as made:
        there = fitted(held, kind)
    assert made
    assert there.figures[0]["value"] == pytest.approx(here.figures[0]["value"], rel=1e-3)


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        (lambda: torch.set_float32_matmul_precision("highest"), "ieee"),
        (lambda: torch.set_float32_matmul_precision("high"), "tf32"),
        (lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"), "tf32"),
    ],
)
def test_an_lstm_on_cuda_rounds_its_factors_only_where_torch_may(allow, expected):
    flags, before = torch.backends.cudnn, torch.backends.cudnn.rnn.fp32_precision
    allow()
    try:
        with devices.full_precision("cuda:1"):
            assert flags.rnn.fp32_precision == expected
            assert flags.enabled
            assert flags.deterministic
        assert flags.rnn.fp32_precision == before
    finally:
        torch.backends.cuda.matmul.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0].__name__} {kind[1]}")
def test_a_fit_on_cuda_ends_where_that_on_the_cpu_does(held, kind):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    here, there, again = (fitted(held, kind, name) for name in ("cpu", "cuda", "cuda"))
    assert there.figures[0]["value"] == pytest.approx(here.figures[0]["value"], rel=1e-3)
    for name, array in there.arrays().items():
        if array.dtype == np.float32:
            np.testing.assert_allclose(array, here.arrays()[name], atol=1e-2, err_msg=name)
        if (
            "CUBLAS_WORKSPACE_CONFIG" in os.environ
        ):  # without it cuDNN's LSTM may not repeat its bits
            np.testing.assert_array_equal(array, again.arrays()[name], err_msg=name)
