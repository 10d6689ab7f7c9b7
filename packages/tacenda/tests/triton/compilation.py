"""Run by test_triton.py in a process of its own: every kernel is compiled to machine code, and none is launched.

The interpreter takes more than the compiler does. Compiled is what a call launches, with its own constants, for compute
capability 8.0; what was compiled is then assembled for 9.0 too. With ``-s`` the most that each kernel needs of a card
is printed in the end.
"""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from tacenda.kernels import boltzmann, contexts, ratings, trees
from tacenda.kernels.boltzmann import boltzmann_divergence
from tacenda.kernels.contexts import Context, context_sum, context_sum_backward
from tacenda.kernels.hidden_markov import (
    Sequences,
    Vectors,
    block_softmax,
    block_softmax_backward,
    class_softmax,
    class_softmax_backward,
    hmm_block,
    hmm_block_backward,
    streaming_logsumexp,
    streaming_logsumexp_backward,
)
from tacenda.kernels.ratings import Side, rating_scores, rating_visits
from tacenda.kernels.sequences import Modes, modal_scan
from tacenda.kernels.sequences import triton as modal_triton
from tacenda.kernels.shared import adagrad, adam, sparse_product
from tacenda.kernels.trees import (
    Codes,
    tree_softmax,
    tree_softmax_step,
)

SHARED_MEMORY = 99 << 10  # bytes a program has on the smaller devices since 8.0
REGISTERS = 1 << 16  # of all threads of a program
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
#: The approximate instructions that the tests under the interpreter imitate (`conftest.approximations`).
APPROXIMATE = {"ex2.approx.f32", "sqrt.approx.ftz.f32", "sqrt.approx.f32", "div.full.f32"}
#: Kernels that need more registers than a thread has, and may keep so many bytes of each in memory.
SPILLED = {
    "_sum_by_rows": 120,
    "_fill_segment": 72,
    "_score_tokens": 48,
    "_sum_by_class": 8,
    "_visit_rows": 8,
}
SPILLED_OF_FLOAT64 = {**SPILLED, "_sum_by_rows": 424, "_fill_segment": 240, "_sum_by_class": 16}


class Absent:
    """As much of a driver as compilation asks for: a device of compute capability 8.0."""

    def get_current_target(self):
        return GPUTarget("cuda", 80, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


@pytest.fixture(scope="module")
def needed():
    """The most that each kernel needs, by name and compute capability: registers, bytes of stack, shared memory."""
    found = {}
    yield found
    print(f"\n{'kernel':24} {'for':>5} {'registers':>10} {'stack':>6} {'shared memory':>14}")
    for (name, capability), numbers in sorted(found.items()):
        registers, stack, shared = numbers
        print(f"{name:24} sm_{capability} {registers:10} {stack:6} {shared:14,}")


@pytest.fixture
def compiled(monkeypatch, needed, tmp_path):
    """The kernels that were called, as machine code."""
    run, found = JITFunction.run, []

    def only_compile(self, *arguments, grid, warmup, **options):
        kernel = run(self, *arguments, grid=grid, warmup=True, **options)
        found.append((self.fn.__name__, kernel))
        return kernel

    monkeypatch.setattr(JITFunction, "run", only_compile)
    driver.set_active(Absent())
    yield found
    for name, kernel in found:
        ptx, shared = kernel.asm["ptx"], kernel.metadata.shared
        spilled = (SPILLED_OF_FLOAT64 if ".f64" in ptx else SPILLED).get(name, 0)
        file = tmp_path / "kernel.cubin"
        file.write_bytes(kernel.asm["cubin"])
        assembled = tmp_path / "assembled.cubin"
        _run_tool("ptxas", "-arch=sm_90a", "-", "-o", assembled, input=ptx)
        for capability, code in ((80, file), (90, assembled)):
            now = (*_registers_and_stack(code), shared)
            before = needed.get((name, capability), (0, 0, 0))
            needed[name, capability] = tuple(map(max, before, now))
            assert 32 * kernel.metadata.num_warps * now[0] <= REGISTERS, (name, now)
            assert now[1] <= spilled, (name, now)
        assert shared <= SHARED_MEMORY, (name, shared)
        instructions = re.findall(r"\b\w+\.(?:approx|full)[.\w]*f32\b", ptx)
        assert set(instructions) <= APPROXIMATE, (name, set(instructions))


def _run_tool(name, *arguments, **options):
    command = [TOOLS / name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


def _registers_and_stack(code):
    """What a thread needs, by the machine code: registers, and bytes of memory for what they do not hold."""
    found = re.search(r"REG:(\d+) STACK:(\d+)", _run_tool("cuobjdump", "-res-usage", code))
    return map(int, found.groups())


def assert_all_compiled(compiled, names):
    assert {name for name, _ in compiled} == set(names.split())
    for name, kernel in compiled:
        assert kernel.asm["cubin"], name
        assert ".tf32" not in kernel.asm["ptx"], name


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype)


FLOATS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@FLOATS
@pytest.mark.parametrize("k", [1, 20, 128, 8192])
def test_forward_backward(compiled, k, dtype):
    tables = (ones(*shape, dtype=dtype) for shape in ((1, k, k), (4, k), (2, k)))
    observed = Sequences(np.zeros(5, int), np.zeros(5, int), np.array([0, 1]), [0, 2, 5])
    given = *tables, observed
    hmm_block_backward(*given, hmm_block(*given))
    assert_all_compiled(compiled, "_filter_sequence _smooth_sequence _count_pair _sum")


@FLOATS
@pytest.mark.parametrize("two_levels", [True, False])
@pytest.mark.parametrize(("k", "width"), [(1, 1), (20, 20), (70, 40), (128, 256)])
def test_blocks(compiled, k, width, two_levels, dtype):
    states = ones(2, k, width, dtype=dtype)
    made_of = Vectors(states, states, states[:, :, 0])
    pairs, each = (np.array([0, 1]), np.array([1, 0])), ones(2, k, dtype=dtype)
    given = (each, None) if two_levels else (None, each)
    A = block_softmax(made_of, *pairs, *given)
    block_softmax_backward(made_of, *pairs, A, A, given[0])
    assert_all_compiled(compiled, "_fill_segment _sum_by_class _sum_by_rows")


@FLOATS
@pytest.mark.parametrize(("k", "width"), [(1, 1), (20, 20), (128, 256)])
def test_words(compiled, k, width, dtype):
    words, states = ones(200, width, dtype=dtype), ones(2, k, width, dtype=dtype)
    given = words, words[:, 0], states, np.array([0, 0, 200])
    o = class_softmax(*given)
    class_softmax_backward(*given, o, o)
    assert_all_compiled(compiled, "_fill_segment _sum_by_class _sum_by_rows _sum")


@FLOATS
@pytest.mark.parametrize(("n", "width"), [(1, 1), (70, 40), (70, 256)])
def test_streaming_sums(compiled, n, width, dtype):
    rows, bias = ones(n, width, dtype=dtype), ones(n, dtype=dtype)
    streaming_logsumexp_backward(rows, rows, bias, streaming_logsumexp(rows, rows, bias), bias)
    assert_all_compiled(compiled, "_find_log_sums _sum_gradients")


@FLOATS
@pytest.mark.parametrize(
    ("n_real", "n_pairs", "reverse"), [(1, 0, True), (1, 1, False), (10, 95, True)]
)
def test_scans(compiled, n_real, n_pairs, reverse, dtype, monkeypatch):
    """Of all states of sentences, and of a text that is cut."""
    monkeypatch.setattr(modal_triton, "CHUNK", 4)
    states = n_real + 2 * n_pairs
    modes = Modes(ones(n_real, dtype=dtype), ones(n_pairs, 2, dtype=dtype))
    table, out = ones(2, states, dtype=dtype), ones(9, states, dtype=dtype)
    for ids, offsets in ((np.zeros(3, int), [0, 1, 3]), (np.zeros(9, int), [0, 9])):
        modal_scan(modes, table, ids, offsets, reverse=reverse, out=out[: len(ids)])
    assert_all_compiled(compiled, "_run")


@pytest.mark.parametrize("width", [1, 300])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_products_of_counts(compiled, dtype, width):
    counts = np.array([0, 1, 2]), np.array([0, 1], np.int32), np.ones(2, dtype)
    dense = ones(2, width)
    sparse_product(*counts, dense)
    for of_scales in (torch.float32, torch.float64):
        scale = ones(2, dtype=of_scales)
        sparse_product(*counts, dense, row_scale=scale, column_scale=scale)
    assert_all_compiled(compiled, "_sparse_product")


@pytest.mark.parametrize(
    ("steps", "width"), [(1, 1), (60, 20), (60, 300), (640, 100), (2000, 100), (4096, 4096)]
)
def test_trees(compiled, steps, width):
    codes = Codes([0, 1], [0, steps], np.zeros(steps, int), np.ones(steps, int))
    given = ones(2, width), np.zeros(2, int), codes, trees.Nodes(ones(1, width), ones(1))
    tree_softmax(*given)
    tree_softmax_step(*given, ones(2), trees.NodeSums(ones(1), ones(1)), np.float32(0.1))
    assert_all_compiled(compiled, "_score_tokens _sum_pieces _step_nodes")


@pytest.mark.parametrize(
    ("n", "n_tails", "width"), [(1, 1, 1), (5, 0, 100), (10, 4, 100), (64, 0, 100), (64, 64, 100)]
)
def test_contexts(compiled, n, n_tails, width):
    context = Context(ones(n, width), ones(width), ones(n_tails), ones(n_tails, width))
    given = ones(2, width), contexts.Spans(np.zeros(3, int), [0, 3], [1], [3]), context
    found = context_sum(*given)
    context_sum(*given, tails=found.before)
    context_sum_backward(*given, found.before, found.vectors)
    assert_all_compiled(compiled, "_predict _sum_weight_gradients _fill_word_gradients _sum")


@pytest.mark.parametrize("width", [1, 3000, 1 << 14])
def test_steps_on_rows(compiled, width):
    adagrad(ones(2, width), ones(2), [1], ones(1, width), np.float32(0.1))
    assert_all_compiled(compiled, "_step_row")


@pytest.mark.parametrize("width", [1, 20, 100, 200, 300])
def test_visits_and_scores_of_ratings(compiled, width):
    table, one = ones(2, width), ones(2)
    visits = ratings.Visits([0, 2], np.zeros(2, np.int32), one, [1])
    given = visits, Side(table, one, one, one, one), ratings.Others(table, one, one)
    mean, rates = np.float32(3.5), (np.float32(0.1), np.float32(0.1))
    rating_visits(*given, mean, rates, 7)
    rating_visits(*given, mean, rates, 7, table[:1])
    rating_scores([0, -1], [1, 0], table, table, one, one, mean)
    assert_all_compiled(compiled, "_visit_rows _score_pairs")


@pytest.mark.parametrize(("hidden", "levels"), [(1, 1), (20, 5), (300, 5), (500, 100)])
@pytest.mark.parametrize("tied", [True, False])
def test_machines_of_ratings(compiled, hidden, levels, tied):
    weights = ones(2, hidden) if tied else ones(2, levels, hidden)
    tables = weights, ones(2, levels), ones(hidden), ones(2, hidden)
    own = np.array([0, 2]), np.zeros(2, np.int32)
    cases = boltzmann.Cases(*own, np.zeros(2, np.int32), ones(1), *own)
    boltzmann_divergence(cases, np.array([0]), boltzmann.Machine(*tables, ones(levels)), 3)
    assert_all_compiled(compiled, "_draw_numbers _expect _draw_levels _sparse_product")


@pytest.mark.parametrize("n", [1, 3])
def test_steps_of_adam(compiled, n):
    adam(*(ones(n) for _ in range(4)), np.float32(0.1), 1)
    assert_all_compiled(compiled, "_step_numbers")


@pytest.mark.parametrize(
    "allow",
    [
        lambda: torch.set_float32_matmul_precision("high"),
        lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    ],
)
def test_products_run_on_tensor_cores_where_torch_allows_it(compiled, allow):
    """Those of float32; float64 stays as it is."""
    allow()
    try:
        for dtype, rounded in ((torch.float32, True), (torch.float64, False)):
            rows, bias = torch.ones(70, 40, dtype=dtype), torch.ones(70, dtype=dtype)
            streaming_logsumexp_backward(
                rows, rows, bias, streaming_logsumexp(rows, rows, bias), bias
            )
            states, cuts = torch.ones(2, 20, 40, dtype=dtype), np.array([0, 0, 70])
            o = class_softmax(rows, bias, states, cuts)
            class_softmax_backward(rows, bias, states, cuts, o, o)
            of_products = [k for name, k in compiled if name != "_sum"]
            assert of_products
            assert all((".tf32" in k.asm["ptx"]) == rounded for k in of_products)
            compiled.clear()
    finally:
        torch.backends.cuda.matmul.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")
