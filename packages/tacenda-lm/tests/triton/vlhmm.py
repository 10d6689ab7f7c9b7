"""Run by hidden_markov/test_device.py in a process of its own: the kernels for CUDA, interpreted, on CPU tensors.

Training then goes the way it goes on a GPU, but for the copies to it and back: likelihoods and gradients are made of
tensors by the operations of the triton backend.
"""

import numpy as np
import pytest
import torch

from tacenda import kernels, plugins
from tacenda.kernels import backends
from tacenda_lm import VLHMM
from tacenda_lm.hidden_markov import training
from tacenda_lm.hidden_markov.network import draw_network
from tacenda_lm.hidden_markov.parameters import Lexicon
from tacenda_lm.hidden_markov.settings import VLHMMSettings
from tacenda_lm.hidden_markov.tables import Observed
from tacenda_lm.hidden_markov.training import log_likelihood

KINDS = ["two_level", "flat"]


def text(n, seed=0):
    """Every word says much of the next one."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        word, sentence = int(rng.integers(8)), []
        for _ in range(int(rng.integers(1, 6))):
            sentence.append(f"w{word}")
            word = (word * 5 + int(rng.integers(2))) % 8
        sentences.append(sentence)
    return sentences


def floats(value):
    """The first array or tensor among the arguments of an operation."""
    return floats(value[0]) if isinstance(value, tuple) else value


@pytest.fixture
def on_tensors(monkeypatch):
    """Training on tensors by the triton backend; what was called. Arrays, of which tables are made, are the CPU's."""
    called = set()

    def offered(name, target):
        def run(*arguments):
            if not isinstance(floats(arguments), torch.Tensor):
                raise kernels.UnsupportedShape("tensors only")
            called.add(name)
            return target(*arguments)

        return run

    operations = {
        name: offered(name, getattr(backends.triton, name))
        for name in kernels.operations()
        if backends.triton.offers(name)
    }
    backend = kernels.Backend(priority=100, devices={"cpu", "cpu:0"}, **operations)
    plugins.register("kernels", "tensors", backend)
    monkeypatch.setattr(training, "from_tensor", torch.Tensor.detach)
    try:
        with kernels.use("tensors,cpu"):
            yield called
    finally:
        plugins.unregister("kernels", "tensors")


def gradients(kind, kept):
    """Log-likelihood and all gradients of a small network, one class without words."""
    ids, offsets = np.array([0, 3, 2, 5, 1, 4, 4, 2, 1, 0], np.int32), np.array([0, 4, 4, 5, 10])
    lexicon = Lexicon.of(np.array([0, 1, 1, 0, 3, 3], np.int32), 4)
    settings = VLHMMSettings(n_classes=4, states_per_class=5, width=6, transitions=kind)
    network = draw_network(settings, lexicon, np.bincount(ids))
    observed = Observed.of(ids, offsets, lexicon)
    total = log_likelihood(network, network(kept), observed, lexicon)
    total.backward()
    return total.item(), {name: p.grad.numpy() for name, p in network.named_parameters()}


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_log_likelihood_and_gradients_are_those_of_the_cpu(kind, dropped, request):
    kept = torch.tensor([[0, 2, 4], [0, 1, 3], [1, 2, 3], [0, 3, 4]]) if dropped else None
    total, expected = gradients(kind, kept)
    called = request.getfixturevalue("on_tensors")
    found, slopes = gradients(kind, kept)
    assert found == pytest.approx(total, rel=1e-6)
    for name, gradient in expected.items():
        np.testing.assert_allclose(slopes[name], gradient, rtol=1e-4, atol=1e-5, err_msg=name)
    assert {"hmm_block_backward", "block_softmax_backward", "class_softmax_backward"} <= called
    assert ("streaming_logsumexp_backward" in called) == (kind == "flat")


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_ends_where_that_on_the_cpu_does(kind, tmp_path, request):
    settings = {"n_classes": 4, "states_per_class": 3, "width": 6, "batch_words": 20}
    cpu = VLHMM(**settings, transitions=kind, epochs=2).fit(text(9), valid=text(4, 1))
    called = request.getfixturevalue("on_tensors")
    here = VLHMM(**settings, transitions=kind, epochs=2).fit(
        text(9), valid=text(4, 1), checkpoints=tmp_path
    )
    assert called
    # rounding decides where Adam goes from a gradient that is almost nothing
    assert here.figures[0]["value"] == pytest.approx(cpu.figures[0]["value"], rel=2e-3)
    untrained = VLHMM(**settings, transitions=kind, epochs=0).fit(text(9))
    assert here.figures[0]["value"] < untrained.perplexity(text(4, 1))
    np.testing.assert_allclose(here.tables.emissions, cpu.tables.emissions, atol=0.02)
