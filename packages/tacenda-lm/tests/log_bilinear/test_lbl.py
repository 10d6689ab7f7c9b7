"""LBL: its gradients against autograd, exact and by noise; training that can be cut."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from support.gradients import dense
from tacenda import Corpus
from tacenda_lm import LBL
from tacenda_lm.log_bilinear.lbl import LBLParameters, LBLTrainer, nce, predict, score, softmax
from tacenda_lm.streams import Contexts, Stream
from tacenda_lm.training import draw_dropout_mask

SMALL = {"width": 8, "context": 2, "epochs": 4, "batch_words": 32}


def problem(contexts, tied, types=7, width=3, n=2, tokens=9, seed=0):
    rng = np.random.default_rng(seed)
    shape = (n, width) if contexts == "diagonal" else (n, width, width)
    parameters = LBLParameters(
        rng.standard_normal((types, width)),
        rng.standard_normal(shape),
        rng.standard_normal((0 if tied else types, width)),
        rng.standard_normal((types, 1)),
    )
    batch = Contexts(
        rng.integers(0, types, (tokens, n)), rng.random((tokens, n)) < 0.8, rng.integers(0, types, tokens)
    )  # fmt: skip
    return parameters, batch, (rng.random((tokens, width)) < 0.5) * 2.0


def by_torch(parameters, batch, keep):
    """The scores before normalization, as a torch expression of the leaves."""
    leaves = parameters.map(lambda array: torch.from_numpy(array).requires_grad_())
    present = torch.from_numpy(batch.present)[..., None]
    x = leaves.words[torch.from_numpy(batch.words)] * present
    r = (
        (x * leaves.contexts).sum(1)
        if leaves.contexts.ndim == 2
        else torch.einsum("tni,nij->tj", x, leaves.contexts)
    )
    r = r * torch.from_numpy(keep)
    q = leaves.targets if len(leaves.targets) else leaves.words
    return leaves, r @ q.T + leaves.biases[:, 0]


def check(loss, gradients, leaves, of_torch):
    assert loss == pytest.approx(of_torch.item(), rel=1e-12)
    of_torch.backward()
    for name, leaf in leaves.items():
        if name not in gradients:
            assert not len(leaf)
            continue
        found = dense(leaf.shape, *gradients[name])
        np.testing.assert_allclose(found, leaf.grad, 1e-10, 1e-12)


@pytest.mark.parametrize("contexts", ["diagonal", "full"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_gradients_of_likelihood_and_noise_contrast_are_those_of_autograd(contexts, tied):
    parameters, batch, keep = problem(contexts, tied)
    own = torch.arange(9), torch.from_numpy(batch.targets)
    leaves, s = by_torch(parameters, batch, keep)
    check(*softmax(parameters, batch, keep), leaves, -torch.log_softmax(s, 1)[own].sum())
    noise, log_noise = np.array([0, 3, 3, 6]), np.log(np.arange(1, 8) / 28)
    leaves, s = by_torch(parameters, batch, keep)
    d = s - torch.from_numpy(log_noise) - np.log(4)
    told = [torch.nn.functional.logsigmoid(each).sum() for each in (d[own], -d[:, noise])]
    check(*nce(parameters, batch, noise, log_noise, keep), leaves, -sum(told))


@pytest.mark.parametrize("size", [200.0, 5_000.0])
def test_noise_contrast_does_not_overflow_for_large_scores(size):
    """float32 cannot hold the exponential of numbers above 88."""
    parameters, batch, _ = problem("diagonal", True)
    biases = size * np.array([1, -1, 1, -1, 1, -1, 0])[:, None]
    exact = parameters.map(lambda array: 0 * array)
    exact.biases[:] = biases
    noise, log_noise = np.arange(7), np.full(7, np.log(1 / 7))
    arguments = batch, noise, log_noise
    expected_loss, expected = nce(exact, *arguments)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        small = exact.map(lambda array: array.astype(np.float32))
        loss, gradients = nce(small, batch, noise, log_noise.astype(np.float32))
    d = biases[:, 0]  # k P_noise(w) is 1
    assert expected_loss == pytest.approx(
        np.logaddexp(0, -d[batch.targets]).sum() + 9 * np.logaddexp(0, d).sum(), rel=1e-12
    )
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    np.testing.assert_allclose(gradients["biases"][1], expected["biases"][1], rtol=1e-6, atol=1e-6)


def test_a_batch_without_any_context_has_a_gradient_of_biases():
    parameters, batch, _ = problem("diagonal", False)
    nothing = batch._replace(present=np.zeros_like(batch.present))
    _, gradients = softmax(parameters, nothing)
    assert len(gradients["words"][0]) == 0
    assert np.abs(gradients["biases"][1]).max() > 0


@pytest.mark.parametrize("contexts", ["diagonal", "full"])
def test_all_words_together_are_certain(contexts):
    parameters, batch, _ = problem(contexts, True)
    rows = score(parameters, predict(parameters, batch))
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1, 1e-12)


def test_words_of_noise_are_drawn_as_often_as_they_occur(monkeypatch):
    """Chi-square, which a right draw fails for one in a million seeds; log P_noise is that of the same distribution."""
    from tacenda_lm.log_bilinear import lbl

    counts, asked = np.array([50, 20, 9, 1, 0, 120]), []
    options = {"loss": "nce", "advanced": {"noise_words": 20_000}, "dropout": 0.0}
    text = Stream.of_corpus(Corpus.from_sentences([["a", "b", "c", "d"]]), True)
    trainer = LBLTrainer(LBL(**{**SMALL, **options}).settings, counts, text, None)
    monkeypatch.setattr(lbl, "nce", lambda *arguments: asked.append(arguments) or nce(*arguments))
    trainer.step((np.array([0, 1]),), 0.0)
    [(_, _, noise, log_noise, _)] = asked
    expected = (counts + 0.1) / (counts + 0.1).sum()
    np.testing.assert_allclose(np.exp(log_noise), expected, rtol=1e-5)
    assert chisquare(np.bincount(noise, minlength=6), 20_000 * expected).pvalue > 1e-6


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_dropout_drops_its_share_and_keeps_the_mean(share):
    """And elements are independent: numbers within 5.5 standard deviations, outside for one of a million seeds."""
    for shape in ((1, 1), (3, 7), (401, 250)):
        mask, same = (draw_dropout_mask(shape, share, np.random.default_rng(0)) for _ in range(2))
        np.testing.assert_array_equal(mask, same)
        assert mask.shape == shape
    dropped = mask == 0
    n, actual = mask.size, min(round(share * 65536), 65535) / 65536
    assert dropped.sum() == pytest.approx(n * actual, abs=5.5 * np.sqrt(n * actual * (1 - actual)))
    np.testing.assert_allclose(mask[~dropped], 1 / (1 - actual), rtol=1e-6)
    for lag in (1, 2, 3, 4, 250):
        one, other = dropped.ravel()[lag:], dropped.ravel()[:-lag]
        covariance = np.mean((one - actual) * (other - actual))
        assert abs(covariance) <= 5.5 * actual * (1 - actual) / np.sqrt(len(one))


def test_some_elements_are_kept_however_large_the_share():
    mask = draw_dropout_mask((1000, 1000), 0.999999, np.random.default_rng(0))
    assert 0 < (mask > 0).sum() < 50
    assert mask.max() == 65536
