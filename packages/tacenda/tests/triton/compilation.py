"""Run by test_triton.py in a process of its own: every kernel is compiled to machine code, and none is launched.

The interpreter takes more than the compiler does. Compiled is what a call launches, with its own constants.
"""

import numpy as np
import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from tacenda.kernels.dynamics import modal_recurrence
from tacenda.kernels.dynamics.modal_recurrence import triton as modal_triton
from tacenda.kernels.hidden_markov import block as hmm_block
from tacenda.kernels.hidden_markov import block_softmax as blocks
from tacenda.kernels.hidden_markov import class_softmax as classes
from tacenda.kernels.hidden_markov import streaming_logsumexp as sums
from tacenda.kernels.hidden_markov.block import Sequences
from tacenda.kernels.hidden_markov.block_softmax import Vectors
from tacenda.kernels.log_bilinear import context_sum, tree_softmax
from tacenda.kernels.log_bilinear.context_sum import Context
from tacenda.kernels.log_bilinear.tree_softmax import Codes
from tacenda.kernels.ratings import boltzmann, scores, visits
from tacenda.kernels.shared import adam_steps, row_steps, sparse_product

SHARED_MEMORY = 99 << 10  # bytes a program has on the smaller devices since 8.0


class Absent:
    """As much of a driver as compilation asks for: a Hopper device."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


@pytest.fixture
def compiled(monkeypatch):
    """The kernels that were called, as machine code."""
    run, found = JITFunction.run, []

    def only_compile(self, *arguments, grid, warmup, **options):
        kernel = run(self, *arguments, grid=grid, warmup=True, **options)
        found.append((self.fn.__name__, kernel))
        return kernel

    monkeypatch.setattr(JITFunction, "run", only_compile)
    driver.set_active(Absent())
    return found


def assert_all_compiled(compiled, names):
    assert {name for name, _ in compiled} == set(names.split())
    for name, kernel in compiled:
        assert kernel.asm["cubin"], name
        assert kernel.metadata.shared <= SHARED_MEMORY, name
        assert ".tf32" not in kernel.asm["ptx"], name


def test_forward_backward(compiled):
    for k in (20, 200):  # a block of one tile and of several
        tables = torch.ones(3, k, k), torch.ones(4, k), torch.ones(2, k)
        observed = Sequences(np.zeros(5, int), np.zeros(5, int), np.array([0, 1]), [0, 2, 5])
        found = hmm_block.forward(*tables, observed)
        hmm_block.backward(*tables, observed, found)
    assert_all_compiled(compiled, "_forward _messages _counts _sum")


@pytest.mark.parametrize("two_levels", [True, False])
def test_blocks(compiled, two_levels):
    k, width = (70, 40) if two_levels else (20, 20)
    made_of = Vectors(torch.ones(2, k, width), torch.ones(2, k, width), torch.ones(2, k))
    pairs = np.array([0, 1]), np.array([1, 0])
    given = (torch.ones(2, k), None) if two_levels else (None, torch.ones(2, k))
    A = blocks.forward(made_of, *pairs, *given)
    blocks.backward(made_of, *pairs, A, A, given[0])
    assert_all_compiled(compiled, "_forward _by_class _by_rows")


def test_words(compiled):
    words, states, cuts = torch.ones(200, 20), torch.ones(2, 20, 20), np.array([0, 0, 200])
    o = classes.forward(words, words[:, 0].contiguous(), states, cuts)
    classes.backward(words, words[:, 0].contiguous(), states, cuts, o, o)
    assert_all_compiled(compiled, "_forward _by_class _by_rows _sum")


def test_streaming_sums(compiled):
    rows, bias = torch.ones(70, 40), torch.ones(70)
    sums.backward(rows, rows, bias, sums.forward(rows, rows, bias), bias)
    assert_all_compiled(compiled, "_forward _backward")


@pytest.mark.parametrize(("n_real", "n_pairs"), [(3, 0), (0, 2), (10, 95)])
def test_scans(compiled, n_real, n_pairs, monkeypatch):
    """Of all states of sentences, and of a text that is cut."""
    monkeypatch.setattr(modal_triton, "CHUNK", 4)
    states = n_real + 2 * n_pairs
    given = torch.ones(n_real), torch.ones(n_pairs, 2), torch.ones(2, states)
    for ids, offsets in ((np.zeros(3, int), [0, 1, 3]), (np.zeros(9, int), [0, 9])):
        modal_recurrence.scan(*given, ids, offsets, out=torch.ones(len(ids), states))
    assert_all_compiled(compiled, "_run")


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_products_of_counts(compiled, dtype):
    counts = np.array([0, 1, 2]), np.array([0, 1], np.int32), np.ones(2, dtype)
    for width in (1, 300):
        dense, scale = torch.ones(2, width), torch.ones(2)
        sparse_product.multiply(*counts, dense)
        sparse_product.multiply(*counts, dense, row_scale=scale, column_scale=scale)
    assert_all_compiled(compiled, "_multiply")


@pytest.mark.parametrize("steps", [1, 60])
def test_trees(compiled, steps):
    codes = Codes([0, 1], [0, steps], np.zeros(steps, int), np.ones(steps, int))
    for width in (20, 300):
        given = torch.ones(2, width), np.zeros(2, int), codes, torch.ones(1, width), torch.ones(1)
        tree_softmax.forward(*given)
        tree_softmax.step(*given, torch.ones(2), torch.ones(1), torch.ones(1), 0.1)
        tree_softmax.backward(*given, torch.ones(2))
    assert_all_compiled(compiled, "_tokens _pieces _nodes")


@pytest.mark.parametrize(("n", "n_tails"), [(5, 0), (10, 4)])
def test_contexts(compiled, n, n_tails):
    for width in (1, 100):
        context = Context(
            torch.ones(n, width), torch.ones(width), torch.ones(n_tails), torch.ones(n_tails, width)
        )
        given = torch.ones(2, width), np.zeros(3, int), [0, 3], [1], [3], context
        found = context_sum.forward(*given)
        context_sum.forward(*given, tails=found.before)
        context_sum.backward(*given, found.before, found.vectors, far=torch.ones(2, width))
        context_sum.backward(*given, found.before, found.vectors)
    assert_all_compiled(compiled, "_forward _of_context _of_words _sum")


def test_steps_on_rows(compiled):
    for width in (1, 3000):
        row_steps.adagrad(torch.ones(2, width), torch.ones(2), [1], torch.ones(1, width), 0.1)
    assert_all_compiled(compiled, "_steps")


@pytest.mark.parametrize("width", [20, 100, 300])
def test_visits_and_scores_of_ratings(compiled, width):
    table, one = torch.ones(2, width), torch.ones(2)
    given = (
        [0, 2],
        np.zeros(2, np.int32),
        one,
        [1],
        visits.Side(table, one, one, one, one),
        table,
        one,
        one,
    )
    visits.visit(*given, 3.5, (0.1, 0.1), 7)
    visits.visit(*given, 3.5, (0.1, 0.1), 7, table[:1])
    scores.scores([0, -1], [1, 0], table, table, one, one, 3.5)
    assert_all_compiled(compiled, "_visit _scores")


@pytest.mark.parametrize("hidden", [20, 300])
@pytest.mark.parametrize("tied", [True, False])
def test_machines_of_ratings(compiled, hidden, tied):
    weights = torch.ones(2, hidden) if tied else torch.ones(2, 5, hidden)
    tables = weights, torch.ones(2, 5), torch.ones(hidden), torch.ones(2, hidden)
    given = np.array([0, 2]), np.zeros(2, np.int32), np.ones(2, np.int32), np.array([0])
    own = np.array([0, 2]), np.zeros(2, np.int32)
    boltzmann.divergence(*given, *tables, torch.ones(5), torch.ones(1), 2, 3, *own)
    assert_all_compiled(compiled, "_numbers _expect _draw _multiply")


def test_steps_of_adam(compiled):
    adam_steps.step(*(torch.ones(3) for _ in range(4)), 0.1, 1)
    assert_all_compiled(compiled, "_step")


def test_products_run_on_tensor_cores_where_torch_allows_it(compiled):
    """Those of float32; float64 stays as it is."""
    torch.set_float32_matmul_precision("high")
    try:
        for dtype, rounded in ((torch.float32, True), (torch.float64, False)):
            rows, bias = torch.ones(70, 40, dtype=dtype), torch.ones(70, dtype=dtype)
            sums.backward(rows, rows, bias, sums.forward(rows, rows, bias), bias)
            states, cuts = torch.ones(2, 20, 40, dtype=dtype), np.array([0, 0, 70])
            o = classes.forward(rows, bias, states, cuts)
            classes.backward(rows, bias, states, cuts, o, o)
            of_products = [k for name, k in compiled if name != "_sum"]
            assert of_products
            assert all((".tf32" in k.asm["ptx"]) == rounded for k in of_products)
            compiled.clear()
    finally:
        torch.set_float32_matmul_precision("highest")
