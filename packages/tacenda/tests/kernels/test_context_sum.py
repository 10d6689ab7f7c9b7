"""Predicted vectors from contexts: the sum written out, its gradient, and that cutting a text changes nothing."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.trees import context_sum, context_sum_backward
from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels.contexts import Context
from tacenda.testing.kernels.samples import run_specification

BACKENDS = ("reference", "cpu")


def problem(lengths=(5, 0, 9, 1), n=3, tails=2, width=5, words=6, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, words, sum(lengths)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    def normal(*shape):
        return rng.standard_normal(shape).astype(dtype)

    rates = np.linspace(0.5, 0.9, tails).astype(dtype)
    context = Context(normal(n, width), normal(width), rates, normal(tails, width))
    return normal(words, width), ids, offsets, context


def everything(ids, start=0):
    return np.array([start]), np.array([len(ids) + 1])


def written_out(table, ids, offsets, context, t):
    """r_t as a torch expression, every older word with its own power of the rate."""
    filled = offsets[:-1][np.diff(offsets) > 0]
    begin = int(filled[filled <= min(t, len(ids) - 1)][-1]) if len(filled) else 0
    c, b, rates, a = context
    row = b.clone()
    for p in range(begin, t):
        age = t - p
        if age <= len(c):
            row = row + c[age - 1] * table[ids[p]]
        else:
            powers = rates[:, None] ** (age - len(c) - 1)
            row = row + (a * powers).sum(0) * table[ids[p]]
    return row


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 20])
@pytest.mark.parametrize("tails", [0, 1, 3])
def test_every_word_before_counts_by_its_age(backend, n, tails):
    dtype = np.float64 if backend == "reference" else np.float32
    table, ids, offsets, context = problem(n=n, tails=tails, dtype=dtype)
    with kernels.use(backend):
        found = context_sum(table, ids, offsets, *everything(ids), context)
    given = torch.from_numpy(table), ids, offsets, Context(*map(torch.from_numpy, context))
    expected = [written_out(*given, t) for t in range(len(ids) + 1)]
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found.vectors, torch.stack(expected), tolerance, tolerance)


@pytest.mark.parametrize("width", [1, 5, 16, 17, 63])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_the_gradient_is_that_of_autograd(n, width):
    table, ids, offsets, context = problem(n=n, width=width)
    starts, ends = np.array([0, 7, 15]), np.array([7, 13, 16])
    with kernels.use("reference"):
        found = context_sum(table, ids, offsets, starts, ends, context)
        grad = np.random.default_rng(1).standard_normal(found.vectors.shape)
        result = context_sum_backward(
            table, ids, offsets, starts, ends, context, found.before, grad
        )
    assert found.vectors.dtype == np.float64

    leaves = [torch.from_numpy(each).requires_grad_() for each in (table, *context)]
    loss, row = torch.zeros(()), 0
    for s, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for t in range(start, end):
            r = _cut(leaves, ids, offsets, found.before[s], start, t)
            loss = loss + r @ torch.from_numpy(grad[row])
            row += 1
    loss.backward()
    of_table, *of_context = (
        leaf.grad if leaf.grad is not None else torch.zeros_like(leaf) for leaf in leaves
    )
    dense = np.zeros_like(table)
    dense[result.words] = result.rows
    np.testing.assert_allclose(dense, of_table, 1e-10, 1e-12)
    for actual, expected in zip(result[2:], (*of_context[:2], of_context[3]), strict=True):
        np.testing.assert_allclose(actual, expected, 1e-10, 1e-12)


def _cut(leaves, ids, offsets, before, start, t):
    """r_t where the tails at the span's start are constants."""
    table, c, b, rates, a = leaves
    n = len(c)
    filled = offsets[:-1][np.diff(offsets) > 0]
    begin = int(filled[filled <= min(t, len(ids) - 1)][-1])
    first = int(filled[filled <= start][-1])
    row = b + sum(
        (c[i - 1] * table[ids[t - i]] for i in range(1, min(n, t - begin) + 1)), torch.zeros(())
    )
    rates = rates.detach()
    u = torch.from_numpy(before) if begin == first else torch.zeros_like(a)
    for now in range(max(start, begin), t):
        if now - n >= begin:
            u = rates[:, None] * u + table[ids[now - n]]
    return row + (a * u).sum(0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_spans_with_their_tails_handed_on_give_the_rows_of_the_whole(backend):
    table, ids, offsets, context = problem((40, 3, 0, 30), dtype=np.float32)
    with kernels.use(backend):
        whole = context_sum(table, ids, offsets, *everything(ids), context)
        tails, rows = None, []
        for start, end in ((0, 1), (1, 2), (2, 17), (17, 17), (17, 60), (60, 74)):
            part = context_sum(table, ids, offsets, [start], [end], context, tails)
            rows.append(part.vectors)
            tails = part.after
    np.testing.assert_allclose(np.concatenate(rows), whole.vectors, 1e-6, 1e-6)
    np.testing.assert_allclose(tails, whole.after, 1e-6, 1e-6)


def test_results_do_not_depend_on_the_number_of_threads():
    table, ids, offsets, context = problem((300, 200), n=4, width=33, words=50, dtype=np.float32)
    starts = np.arange(0, 500, 64)
    ends = np.minimum(starts + 64, 500)
    results = []
    for threads in (1, 2, 3, 16):
        found = context_sum(table, ids, offsets, starts, ends, context, threads=threads)
        back = context_sum_backward(
            table, ids, offsets, starts, ends, context, found.before, found.vectors, threads=threads
        )
        results.append((*found, *back))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 6), max_size=5),
    st.integers(0, 4),
    st.integers(0, 2),
    st.integers(1, 18),
    st.data(),
)
def test_both_backends_agree_wherever_spans_and_sequences_are_cut(lengths, n, tails, width, data):
    table, ids, offsets, context = problem(lengths, n, tails, width, dtype=np.float32)
    cut = sorted(data.draw(st.lists(st.integers(0, len(ids)), min_size=1, max_size=5)))
    cut[-1] += data.draw(st.booleans())
    spans = np.array(cut[:-1], int), np.array(cut[1:], int)
    results = []
    for backend in BACKENDS:
        with kernels.use(backend):
            found = context_sum(table, ids, offsets, *spans, context)
            grad = np.sin(np.arange(found.vectors.size)).reshape(found.vectors.shape)
            back = context_sum_backward(table, ids, offsets, *spans, context, found.before, grad)
            results.append((*found, *back))
    for a, b in zip(*results, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {"ids": np.array([0, 1, 6])},
        {"ids": np.array([0, -1, 2])},
        {"ids": np.zeros((3, 1), int)},
        {"offsets": np.array([0, 2])},
        {"starts": np.array([3]), "ends": np.array([2])},
        {"starts": np.array([0]), "ends": np.array([5])},
        {"table": np.zeros((6, 4))},
        {"table": np.zeros((6, 5), np.int32)},
        {"tails": np.zeros((1, 2, 4))},
    ],
)
def test_arguments_that_do_not_fit_are_refused(change):
    table, _, _, context = problem()
    fit = {
        "table": table, "ids": np.array([0, 1, 2]), "offsets": np.array([0, 3]),
        "starts": np.array([0]), "ends": np.array([3]), "context": context,
    }  # fmt: skip
    run_specification(context_sum, **fit)
    with pytest.raises(KernelError):
        context_sum(**{**fit, **change})
