"""Loops in machine vectors against plain numba loops: python -m benchmarks.vectors [--repeats 9].

Times the loops that `tacenda.kernels.machinery.vectors` is kept for, each compared with a plain one.
Both forms run in one process, one after the other, again and again, on
one thread; what is compared is the thread's own CPU time.
"""

# ruff: noqa: E402 - BLAS reads its number of threads when it is first imported
import os

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

from benchmarks import reporting
from benchmarks.reporting import Row, Table, main
from tacenda.kernels.ratings import ByUser, Penalties, Rates, Tables, rating_sgd
from tacenda.kernels.ratings import cpu as ratings_cpu
from tacenda.kernels.trees import Context, Spans, context_sum, context_sum_backward
from tacenda.kernels.trees import cpu as trees_cpu

TOKENS, WORDS = 20_000, 32_768
USERS, ITEMS = 3000, 3700
REORDERED = {"contract", "reassoc", "nsz"}
PROTOCOL = {
    "timing": "CPU seconds of one thread, both forms interleaved in one process; ratios of the medians",
    "SGD": f"{USERS:,} users of 20 to 300 ratings, {ITEMS:,} items, popularity i^-0.6; an epoch",
    "context": f"{TOKENS:,} tokens of {WORDS:,} words with Zipf's frequencies, one sequence",
}


# -- the plain loops -------------------------------------------------------------------------------


@numba.njit(nogil=True, error_model="numpy", fastmath=REORDERED)
def plain_product(own, q, i):
    total = np.float32(0)
    for d in range(q.shape[1]):
        total += own[0, d] * q[i, d]
    return total


@numba.njit(nogil=True, error_model="numpy", fastmath=REORDERED)
def plain_step(own, q, i, following, keeps, steps):
    (keep_x, keep_q), (step_x, step_q) = keeps, steps
    for d in range(q.shape[1]):
        x, old = own[0, d], q[i, d]
        q[i, d] = keep_q * old + step_q * x
        own[0, d] = keep_x * x + step_x * old
    return plain_product(own, q, following)


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def plain_predict(table, context, ids, stretch, u, out, place):
    c, b, rates, a = context
    t0, t1, begin, current = stretch
    n, width = len(c), table.shape[1]
    for t in range(t0, t1):
        row, leaving = place + t - t0, t - 1 - n
        for d in range(width):
            out[row, d] = b[d]
        for k in range(len(rates)):
            if not (current and t == t0):
                for d in range(width):
                    u[k, d] *= rates[k]
                if leaving >= begin:
                    w0 = ids[leaving]
                    for d in range(width):
                        u[k, d] += table[w0, d]
            for d in range(width):
                out[row, d] += a[k, d] * u[k, d]
        i, near = 0, min(n, t - begin)
        while i + 4 <= near:
            w0, w1, w2, w3 = ids[t - 1 - i], ids[t - 2 - i], ids[t - 3 - i], ids[t - 4 - i]
            for d in range(width):
                x = out[row, d] + c[i, d] * table[w0, d] + c[i + 1, d] * table[w1, d]
                out[row, d] = x + c[i + 2, d] * table[w2, d] + c[i + 3, d] * table[w3, d]
            i += 4
        while i < near:
            w0 = ids[t - 1 - i]
            for d in range(width):
                out[row, d] += c[i, d] * table[w0, d]
            i += 1


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def plain_gradients(table, rates, gradients, ids, stretch, u, grad):
    d_c, d_b, d_a = gradients
    t0, t1, begin, current = stretch
    n, width = len(d_c), table.shape[1]
    for t in range(t0, t1):
        row, leaving = t - t0, t - 1 - n
        for d in range(width):
            d_b[d] += grad[row, d]
        for k in range(len(rates)):
            if not (current and t == t0):
                for d in range(width):
                    u[k, d] *= rates[k]
                if leaving >= begin:
                    w0 = ids[leaving]
                    for d in range(width):
                        u[k, d] += table[w0, d]
            for d in range(width):
                d_a[k, d] += grad[row, d] * u[k, d]
        for i in range(min(n, t - begin)):
            w0 = ids[t - 1 - i]
            for d in range(width):
                d_c[i, d] += grad[row, d] * table[w0, d]


def recompiled(dispatcher: Any, **plain: Any) -> Any:
    """The same compiled function calling other ones."""
    function = dispatcher.py_func
    other = FunctionType(function.__code__, {**function.__globals__, **plain})
    return numba.njit(nogil=True, error_model="numpy")(other)


PLAIN = {
    "_visit_users": recompiled(ratings_cpu._visit_users, _product=plain_product, _step=plain_step),
    "_predict_spans": recompiled(trees_cpu._predict_spans, predict=plain_predict),
    "_move_spans": recompiled(
        trees_cpu._move_spans,
        _add_gradients=plain_gradients,
        _by_position=recompiled(trees_cpu._by_position, predict=plain_predict),
    ),
}


@contextmanager
def plain(module: ModuleType, name: str) -> Iterator[None]:
    ours = getattr(module, name)
    setattr(module, name, PLAIN[name])
    try:
        yield
    finally:
        setattr(module, name, ours)


# -- the comparisons -------------------------------------------------------------------------------


def row(loop: str, case: str, fast: Any, slow: Any, repeats: int) -> Row:
    works = {"seconds": fast, "plain seconds": slow}
    taken = reporting.interleaved(works, repeats, time.thread_time)
    found = {name: reporting.summary(own) for name, own in taken.items()}
    ratio = found["plain seconds"]["median"] / found["seconds"]["median"]
    return {"loop": loop, "case": case, "plain over vectors": ratio, **found}


def sgd_rows(repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    popularity = np.arange(1, ITEMS + 1) ** -0.6
    lengths = rng.integers(20, 300, USERS)
    rated = [rng.choice(ITEMS, n, False, popularity / popularity.sum()) for n in lengths]
    ids, offsets = np.concatenate(rated).astype(np.int32), np.append(0, np.cumsum(lengths))
    values = rng.integers(1, 6, len(ids)).astype(np.float32)
    rates, penalties = Rates(*[0.005] * 5), Penalties(*[0.02] * 5)
    for width in (20, 50, 100):
        sizes = (USERS, width), (ITEMS, width), USERS, ITEMS, (0, width)
        tables = Tables(*(rng.normal(0, 0.1, size).astype(np.float32) for size in sizes))
        arguments = ByUser(offsets, ids, values), np.arange(USERS), tables, 3.0, rates, penalties, 1

        def ours(arguments: Any = arguments) -> None:
            rating_sgd(*arguments)

        def theirs(ours: Any = ours) -> None:
            with plain(ratings_cpu, "_visit_users"):
                ours()

        yield row("SGD of PMF", f"{width} factors", ours, theirs, repeats)


def text_rows(repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, WORDS + 1)
    ids = rng.choice(WORDS, TOKENS, p=frequency / frequency.sum()).astype(np.int32)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32) * np.float32(0.1)

    for width, n, tails in ((208, 10, 4), (100, 5, 0)):
        rates = np.linspace(0.9, 0.995, tails, dtype=np.float32)
        context = Context(normal(n, width), normal(width), rates, normal(tails, width))
        table, grad, starts = normal(WORDS, width), normal(TOKENS, width), np.arange(0, TOKENS, 128)
        ends = np.minimum(starts + 128, TOKENS)
        spans = Spans(ids, np.array([0, TOKENS]), starts, ends)
        before = np.zeros((len(starts), tails, width), np.float32)
        case = f"width {width}, {n} words, {tails} tails"

        def forward(table: Any = table, context: Any = context) -> Any:
            one = Spans(ids, np.array([0, TOKENS]), np.array([0]), np.array([TOKENS]))
            return context_sum(table, one, context)

        def backward(table: Any = table, more: Any = (spans, context, before, grad)) -> None:
            context_sum_backward(table, *more)

        for name, call in (("_predict_spans", forward), ("_move_spans", backward)):

            def theirs(name: str = name, call: Any = call) -> None:
                with plain(trees_cpu, name):
                    call()

            loop = "context_sum" if name == "_predict_spans" else "context_sum_backward"
            yield row(loop, case, call, theirs, repeats)


def rows(options: Any) -> Iterator[Row]:
    yield from sgd_rows(options.repeats)
    yield from text_rows(options.repeats)


if __name__ == "__main__":
    main(__doc__, Table("kernel-vectors", PROTOCOL, rows, seeds=None), repeats=9)
