"""Training on a device: what is refused before any work, what an artifact says of it, the way to the kernels."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import tacenda
from support.processes import output_of
from tacenda.errors import ConfigurationError
from tacenda_lm import VLHMM
from tacenda_lm.hidden_markov.settings import VLHMMSettings

SMALL = {"n_classes": 3, "states_per_class": 2, "width": 4, "epochs": 1}
TEXT = [["a", "b", "c"], ["b", "a"]] * 9
without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")


@without_cuda
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_device_that_is_not_there_is_refused_before_any_work(device):
    with pytest.raises(ConfigurationError, match=rf"'{device}'.*no CUDA device") as caught:
        VLHMM(device=device)
    assert "\n" not in str(caught.value)


def test_a_device_without_kernels_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with (
        tacenda.kernels.use("cpu"),
        pytest.raises(ConfigurationError, match=r"'cuda', and .*cpu does not serve cuda"),
    ):
        VLHMM(device="cuda")


@pytest.mark.parametrize(
    "settings",
    [{"transitions": "features"}, {"advanced": {"neural": False}}],
    ids=lambda settings: str(settings),
)
def test_models_that_train_on_the_cpu_only_say_so(settings):
    with pytest.raises(ConfigurationError, match='device must be "cpu" unless'):
        VLHMM(**settings, device="cuda")


def test_an_artifact_does_not_know_where_it_was_trained(tmp_path, monkeypatch):
    """The settings of a fit on CUDA, which is none here, load anywhere and are those of the CPU."""
    monkeypatch.setattr(VLHMMSettings, "find_device", lambda settings: "cpu")
    model = VLHMM(**SMALL).fit(TEXT)
    model.settings = VLHMMSettings(**SMALL, device="cuda:3")
    model.save(tmp_path / "model")
    monkeypatch.undo()
    again = tacenda.load(tmp_path / "model")
    assert again.settings.device == VLHMMSettings().device == "auto"
    assert "device" not in again.card["settings"]
    ids, offsets = np.array([1, 2, 0]), np.array([0, 3])
    np.testing.assert_array_equal(
        again.score_corpus(ids, offsets), model.score_corpus(ids, offsets)
    )
    with pytest.raises(ConfigurationError, match="'cuda:3', and"):
        model.fit(TEXT)


MISSING = importlib.util.find_spec("triton") is None
INTERPRETED = Path(__file__).parents[1] / "triton" / "vlhmm.py"


@pytest.mark.skipif(MISSING, reason="needs triton")
@pytest.mark.timeout(1200)  # a quarter of a minute of computing, on a busy machine too
def test_training_through_the_kernels_for_cuda_interpreted():
    options = ("-q", "-p", "no:cacheprovider")
    environment = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    output_of("-m", "pytest", *options, INTERPRETED, **environment)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["two_level", "flat"])
def test_a_fit_on_cuda_ends_where_that_on_the_cpu_does(kind):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    settings = {**SMALL, "epochs": 3, "transitions": kind}
    values = [
        VLHMM(**settings, device=device).fit(TEXT, valid=TEXT).figures[0]["value"]
        for device in ("cpu", "cuda")
    ]
    assert values[1] == pytest.approx(values[0], rel=5e-3)
