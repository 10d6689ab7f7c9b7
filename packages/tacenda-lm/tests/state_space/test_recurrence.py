"""The recurrence of the state-space model: its gradients against autograd, the most probable state included."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from support.gradients import dense
from tacenda_lm.state_space import recurrence
from tacenda_lm.state_space.recurrence import Inputs, Parameters, Piece, Recurrence

VARIANCE, UNKNOWN = 0.7, 2
TYPES, STEPS, TEXTS, FEATURES, JOINT, RUNS = 6, 5, 3, 2, 3, 7


def problem(internal=4, order=3, lengths=2, scale=0.6, seed=0, dtype=np.float64):
    """Parameters and a piece with unknown tokens, a text that begins again and one that has ended."""
    rng = np.random.default_rng(seed)
    state = internal + (order - 1) * FEATURES + JOINT * (lengths > 0)

    def normal(*shape):
        return (scale * rng.standard_normal(shape)).astype(dtype)

    p = Parameters(
        normal(internal, state), normal(TYPES, state), normal(TYPES, FEATURES), normal(TYPES, 1), normal(RUNS, JOINT),
        variance=VARIANCE,
    )  # fmt: skip
    p.features[UNKNOWN] = 0
    words = rng.integers(TYPES, size=(STEPS, TEXTS))
    live = np.ones((STEPS, TEXTS), dtype)
    live[2, 1] = live[3:, 2] = 0
    seen = live * (words != UNKNOWN)
    inputs = Inputs(
        rng.integers(TYPES, size=(STEPS, TEXTS, order - 1)), rng.integers(-1, RUNS, (STEPS, TEXTS, lengths))
    )  # fmt: skip
    keep = 2.0 * (rng.random((STEPS, TEXTS, state)) < 0.6).astype(dtype)
    return p, Piece(inputs, words, live, seen), normal(TEXTS, internal), keep


def loss_in_torch(leaves, piece, before, exact, keep):
    """The summed loss by autograd; the most probable state by so many steps of ascent that autograd sees them all."""
    live, seen = torch.from_numpy(piece.live), torch.from_numpy(piece.seen)
    internal, q = len(leaves.transition), torch.from_numpy(before)
    table = torch.cat([leaves.joint, torch.zeros_like(leaves.joint[:1])])
    loss = torch.zeros((), dtype=torch.float64)
    for t in range(len(piece.words)):
        words = torch.from_numpy(piece.words[t])
        parts = [q, leaves.features[torch.from_numpy(piece.inputs.words[t])].flatten(1)]
        if piece.inputs.runs.shape[-1]:
            parts.append(table[torch.from_numpy(piece.inputs.runs[t])].sum(1))
        predicted = torch.cat(parts, 1)
        u = (predicted * torch.from_numpy(keep[t])) @ leaves.outputs.T + leaves.biases[:, 0]
        loss = loss - (torch.log_softmax(u, 1)[torch.arange(len(words)), words] * live[t]).sum()
        one_hot = torch.nn.functional.one_hot(words, TYPES)
        e = torch.zeros_like(u)
        for _ in range(150 if exact else 1):
            there = torch.softmax(u + VARIANCE * e @ leaves.outputs @ leaves.outputs.T, 1)
            new = (one_hot - there) * seen[t][:, None]
            e = e + 0.3 * (new - e) if exact else new
        if internal:
            s = predicted + VARIANCE * e @ leaves.outputs
            q = s @ leaves.transition.T * live[t][:, None]
    return loss


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("internal", "order", "lengths"), [(4, 3, 2), (3, 1, 0), (0, 3, 1)])
def test_gradients_are_those_of_autograd(exact, internal, order, lengths):
    p, piece, before, keep = problem(internal, order, lengths)
    passes = Recurrence(replace(p, exact=exact))
    found = passes.forward(piece, before, keep)
    loss, gradients = passes.backward(piece, found, keep)
    leaves = p.map(lambda each: torch.from_numpy(each).requires_grad_())
    expected = loss_in_torch(leaves, piece, before, exact, keep)
    assert loss == pytest.approx(expected.item(), rel=1e-9)
    expected.backward()
    for name, leaf in leaves.items():
        if name not in gradients:
            assert not lengths
            continue
        found = dense(leaf.shape, *gradients[name])
        want = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kept", [True, False])
def test_the_compiled_loop_finds_what_products_find(dtype, kept, monkeypatch):
    p, piece, before, keep = problem(dtype=dtype)
    passes, given = Recurrence(p), (piece, before, keep if kept else None)
    compiled = passes.forward(*given)
    monkeypatch.setattr(recurrence, "SMALL_VOCABULARY", 0)
    for found, expected in zip(compiled, passes.forward(*given), strict=True):
        assert found.dtype == expected.dtype == dtype
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-12
        )
