"""The terms of the bound: the torch ones against numpy, autograd against differences, the bound itself."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tacenda_embeddings.varembed.model import divergence

torch = pytest.importorskip("torch", reason="training needs torch (tacenda-embeddings[varembed])")
from tacenda_embeddings.varembed.training import (  # noqa: E402 - it imports torch
    bernoulli_kl,
    exact_loss,
    sampled_loss,
)


def drawn(*shape, seed=0, scale=1.0):
    rng = np.random.default_rng([seed, *shape])
    return torch.from_numpy(rng.standard_normal(shape) * scale)


def test_kl_equals_the_numpy_one():
    g, s = drawn(7, 5, seed=1, scale=3), drawn(7, 5, seed=2, scale=3)
    assert_allclose(bernoulli_kl(g, s), divergence(g.numpy(), s.numpy()).sum(1), rtol=1e-12)
    assert (bernoulli_kl(g, s) >= 0).all()
    assert_allclose(bernoulli_kl(g, g), 0, atol=1e-12)


def test_kl_gradients_are_those_of_differences():
    g = drawn(3, 4, seed=3).requires_grad_()
    s = drawn(3, 4, seed=4).requires_grad_()
    assert torch.autograd.gradcheck(bernoulli_kl, (g, s))
    bernoulli_kl(g, s).sum().backward()
    # in closed form: gamma (1 - gamma) (g - s), and p - gamma
    gamma, p = g.sigmoid(), s.sigmoid()
    assert_allclose(g.grad, (gamma * (1 - gamma) * (g - s)).detach(), rtol=1e-9)
    assert_allclose(s.grad, (p - gamma).detach(), rtol=1e-9)


def test_exact_loss_is_the_negative_log_softmax():
    h, V, b = drawn(6, 3, seed=5), drawn(9, 3, seed=6), drawn(9, seed=7)
    targets = torch.tensor([0, 8, 3, 3, 1, 0])
    scores = h.numpy() @ V.numpy().T + b.numpy()
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert_allclose(exact_loss(h, targets, V, b), -np.log(p[np.arange(6), targets]).sum())
    inputs = [t.clone().requires_grad_() for t in (h, V, b)]
    assert torch.autograd.gradcheck(lambda h, V, b: exact_loss(h, targets, V, b), inputs)


def sampled(h, V, b, targets, noise, log_expected):
    ids = torch.cat([targets, noise])
    return sampled_loss(h, V[ids], b[ids], log_expected[ids])


def test_sampled_loss_has_the_gradients_of_differences():
    h, V, b = (t.requires_grad_() for t in (drawn(5, 3), drawn(8, 3, seed=1), drawn(8, seed=2)))
    targets, noise = torch.tensor([0, 7, 3, 3, 1]), torch.tensor([2, 3, 3, 0])
    log_expected = torch.log(4 * torch.full((8,), 1 / 8, dtype=torch.float64))
    assert torch.autograd.gradcheck(
        lambda h, V, b: sampled(h, V, b, targets, noise, log_expected), (h, V, b)
    )


def test_expected_sampled_gradient_vanishes_at_the_true_scores():
    """With one word drawn, over all words and all draws: the softmax's optimum is that of the sampled loss."""
    n = 6
    scores = drawn(n, seed=4)
    p, q = torch.softmax(scores, 0), torch.softmax(drawn(n, seed=5), 0)
    V, h = scores[:, None], torch.ones(1, 1, dtype=torch.float64)
    b = torch.zeros(n, dtype=torch.float64, requires_grad=True)
    total = torch.zeros((), dtype=torch.float64)
    for x, w in itertools.product(range(n), range(n)):
        loss = sampled(h, V, b, torch.tensor([x]), torch.tensor([w]), q.log())
        total = total + p[x] * q[w] * loss
    total.backward()
    assert_allclose(b.grad, 0, atol=1e-12)


def test_sampled_gradient_approaches_the_exact_one():
    h, V, b = drawn(4, 3), drawn(20, 3, seed=1), drawn(20, seed=2)
    targets = torch.tensor([0, 7, 3, 19])
    q = torch.softmax(drawn(20, seed=3), 0)

    def gradient(loss):
        x = h.clone().requires_grad_()
        loss(x).backward()
        return x.grad.numpy()

    exact = gradient(lambda x: exact_loss(x, targets, V, b))
    errors = []
    for n in (20, 20_000):
        noise = torch.multinomial(q, n, True, generator=torch.Generator().manual_seed(0))
        log_expected = torch.log(n * q)
        found = gradient(lambda x, w=noise, e=log_expected: sampled(x, V, b, targets, w, e))
        errors.append(np.abs(found - exact).max())
    assert errors[1] < 0.03 < 0.1 < errors[0]


def test_the_bound_lies_below_the_likelihood_that_enumeration_gives():
    """Two words of three bits: log P(x) of eq 10 by summing over all 64 values of b (no LSTM: h_t = b_{x_t}).

    With the likelihood's expectation taken exactly, log P(x) - L is the divergence from the true posterior.
    """
    rng = np.random.default_rng(0)
    n_words, width = 2, 3
    x = [0, 1, 1, 0, 1]
    V = rng.standard_normal((n_words, width))
    s = rng.standard_normal((n_words, width))
    bits = np.array(list(itertools.product([0.0, 1.0], repeat=n_words * width)))
    b = bits.reshape(-1, n_words, width)

    def log_bernoulli(logits):
        return -(np.logaddexp(0, -logits) * b + np.logaddexp(0, logits) * (1 - b)).sum((1, 2))

    def log_likelihood(values):
        """log P(x | b) (eq 8), b (any, words, width)."""
        scores = np.einsum("nwd,vd->nwv", values, V)
        log_p = scores - np.logaddexp.reduce(scores, axis=2, keepdims=True)
        return sum(log_p[:, a, c] for a, c in itertools.pairwise(x))

    evidence = np.logaddexp.reduce(log_likelihood(b) + log_bernoulli(s))
    posterior = log_likelihood(b) + log_bernoulli(s) - evidence
    for scale in (0.0, 0.3, 3.0):
        g = s + scale * rng.standard_normal(s.shape)
        log_q = log_bernoulli(g)
        q = np.exp(log_q)
        assert_allclose(q.sum(), 1)
        kl = float(bernoulli_kl(torch.from_numpy(g), torch.from_numpy(s)).sum())
        assert_allclose(kl, (q * (log_q - log_bernoulli(s))).sum(), rtol=1e-10, atol=1e-12)
        bound = (q * log_likelihood(b)).sum() - kl
        assert bound < evidence
        assert_allclose(evidence - bound, (q * (log_q - posterior)).sum(), rtol=1e-9)
        # the point estimate of eq 19 puts the expectation inside a concave function: it can only be higher
        gamma = 1 / (1 + np.exp(-g))
        assert log_likelihood(gamma[None])[0] >= (q * log_likelihood(b)).sum()
