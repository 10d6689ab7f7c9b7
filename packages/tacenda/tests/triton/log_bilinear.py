"""Run by test_triton.py in a process of its own: the interpreter is chosen when triton is imported."""

import gc

import numpy as np
import pytest
import torch

from support.trees import context_sum, context_sum_backward, tree_softmax, tree_softmax_step
from tacenda.kernels import UnsupportedShape, contexts, trees
from tacenda.kernels.contexts import Context
from tacenda.kernels.shared import adagrad
from tacenda.kernels.trees import Codes, triton
from tacenda.testing.kernels import SAMPLES


def samples(operation):
    """Return the samples of an operation with spans, nodes and sums as arguments of their own."""
    parts = trees.Nodes, trees.NodeSums, contexts.Spans
    return [
        (label, tuple(x for each in given for x in (each if isinstance(each, parts) else (each,))))
        for label, given in SAMPLES[operation]()
    ]


def random_tree(rng, n_words, n_nodes=9, most=3, depth=6):
    """Words with some codes each, of some steps each; they need not make up a tree."""
    codes = rng.integers(1, most + 1, n_words)
    steps = rng.integers(1, depth + 1, codes.sum())
    n = int(steps.sum())
    return Codes(
        np.concatenate([[0], np.cumsum(codes)]), np.concatenate([[0], np.cumsum(steps)]),
        rng.integers(0, n_nodes, n), rng.choice([-1, 1], n),
    )  # fmt: skip


def problem(tokens=14, width=37, seed=0):
    """Arguments of a step."""
    rng = np.random.default_rng(seed)
    codes = random_tree(rng, 6)
    r = rng.standard_normal((tokens, width), np.float32)
    q, b = rng.standard_normal((9, width), np.float32), rng.standard_normal(9, np.float32)
    grad = rng.standard_normal(tokens, np.float32)
    sums, bias_sums = rng.random(9, np.float32), rng.random(9, np.float32)
    return r, rng.integers(0, 6, tokens), codes, q, b, grad, sums, bias_sums, 0.1


def assert_steps(device, arguments):
    """What is returned, and what has moved."""
    device.check(tree_softmax_step, *arguments, changed=(3, 4, 6, 7))


@pytest.mark.parametrize("case", samples("tree_softmax"), ids=lambda case: case[0])
def test_log_probabilities_on_awkward_shapes(device, case):
    device.check(tree_softmax, *case[1])


@pytest.mark.parametrize("case", samples("tree_softmax_step"), ids=lambda case: case[0])
def test_steps_on_awkward_shapes(device, case):
    assert_steps(device, case[1])


@pytest.mark.parametrize("piece", [3, 256])
def test_steps_on_nodes_that_are_visited_often_and_never(device, piece, monkeypatch):
    monkeypatch.setattr(triton, "PIECE", piece)
    assert_steps(device, problem())


def test_words_that_are_all_but_impossible(device):
    """Their logarithms are below what float32 can take the exponential of."""
    r, words, codes, q, b, *rest = problem()
    assert_steps(device, (r, words, codes, q * np.float32(60), b, *rest))


def test_nan_is_seen_in_the_tokens_that_meet_it(device):
    r, words, codes, q, b, *_ = problem()
    r[3, 5] = np.nan
    found = tree_softmax(*device.tensors((r, words, codes, q, b)))
    assert torch.isnan(found).nonzero().ravel().tolist() == [3]


def test_words_may_lie_on_the_device(device):
    r, words, *rest = device.tensors(problem())
    there = torch.from_numpy(words).to(device.name)
    arguments = rest[:3]
    found = tree_softmax(r, there, *arguments)
    assert torch.equal(found, tree_softmax(r, words, *arguments))


def test_codes_are_copied_once_and_forgotten_with_the_codes(device):
    r, words, codes, q, b, *_ = device.tensors(problem())
    before, found = len(triton._copies), []
    for _ in range(2):
        tree_softmax(r, words, codes, q, b)
        found += triton._copies[codes].values()
    assert found[0] is found[1]
    assert len(triton._copies) == before + 1
    del codes
    gc.collect()
    assert len(triton._copies) == before


def test_float64_is_left_to_others(device):
    r, words, codes, q, b, *_ = device.tensors(problem())
    with pytest.raises(UnsupportedShape, match="float64"):
        tree_softmax(r.double(), words, codes, q.double(), b.double())


# -- contexts ----------------------------------------------------------------------------------------

CONTEXTS = [case for case in samples("context_sum") if "lengths [5, 0, 63, 1]" not in case[0]]


@pytest.mark.parametrize("case", CONTEXTS, ids=lambda case: case[0])
def test_contexts_on_awkward_shapes(device, case):
    device.check(context_sum, *case[1])


def text(n=2, n_tails=2, width=5):
    """Sequences of 6, 0, 9 and 1 words; spans within them and over their ends, one without positions."""
    rng = np.random.default_rng(n)
    context = Context(*(
        part.astype(np.float32)
        for part in (
            rng.standard_normal((n, width)), rng.standard_normal(width), rng.uniform(0.5, 0.9, n_tails),
            rng.standard_normal((n_tails, width)),
        )
    ))  # fmt: skip
    table = rng.standard_normal((4, width)).astype(np.float32)
    starts, ends = np.array([1, 5, 9, 9, 13]), np.array([4, 8, 9, 12, 17])
    spans = rng.integers(0, 4, 16), np.array([0, 6, 6, 15, 16]), starts, ends
    return table, *spans, context


@pytest.mark.parametrize(("n", "n_tails", "width"), [(2, 2, 5), (0, 1, 5), (3, 0, 5), (5, 3, 70)])
def test_contexts_and_their_gradients(device, n, n_tails, width):
    given = text(n, n_tails, width)
    _, expected = device.check(context_sum, *given)
    device.check(context_sum, *given, expected.before)
    device.check(context_sum_backward, *given, expected.before, np.cos(expected.vectors))


def test_more_positions_than_a_program_holds_are_left_to_others(device):
    table, *spans, context = device.tensors(text())
    many = context._replace(weights=torch.ones((65, 5), device=device.name))
    with pytest.raises(UnsupportedShape, match="65 positions"):
        context_sum(table, *spans, many)


# -- steps on rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", list(SAMPLES["adagrad"]()), ids=lambda case: case[0])
def test_steps_on_rows(device, case):
    device.check(adagrad, *case[1], changed=(0, 1), tolerance=1e-5)


def test_rows_of_float64_are_left_to_others(device):
    table = torch.ones((2, 3), dtype=torch.float64, device=device.name)
    with pytest.raises(UnsupportedShape, match="float64"):
        adagrad(table, table[:, 0].contiguous(), [1], table[:1], 0.1)
