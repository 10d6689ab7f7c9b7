"""Awkward inputs for the operations of the log-bilinear models."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tacenda import kernels
from tacenda.kernels.log_bilinear import context_sum as sums
from tacenda.kernels.log_bilinear.context_sum import Context
from tacenda.kernels.log_bilinear.stream_scores import pack
from tacenda.kernels.log_bilinear.tree_softmax import Codes
from tacenda.testing.kernels.shared import SPECIFICATION, Case

#: Three words, the last with two codes.
_CODES = Codes(
    [0, 1, 2, 4], [0, 1, 3, 6, 9], [0, 0, 1, 0, 1, 2, 0, 1, 2], [1, -1, 1, -1, -1, 1, -1, -1, -1]
)


def tree_softmax() -> Iterator[Case]:
    """No tokens, one word and no node, words with several codes, widths beside a vector register's."""
    yield from _tree_problems()


def tree_softmax_step() -> Iterator[Case]:
    """The same, nodes with steps behind them and nodes without."""
    for label, (r, words, codes, q, b) in _tree_problems():
        grad = np.linspace(-1, 1, len(words), dtype=np.float32)
        sums = np.linspace(1e-8, 2, len(q), dtype=np.float32)
        yield label, (r, words, codes, q, b, grad, sums, sums[::-1].copy(), 0.1, 1)


def tree_softmax_backward() -> Iterator[Case]:
    """The same, without a step."""
    for label, (*given, grad, _, _, _, threads) in tree_softmax_step():
        yield label, (*given, grad, threads)


def tree_softmax_distribution() -> Iterator[Case]:
    """All words of the same."""
    for label, (vectors, _, *rest) in _tree_problems():
        yield label, (vectors, *rest)


def context_sum() -> Iterator[Case]:
    """No tokens, empty sequences, no positions, no tails, spans over ends; own vectors of far words or none."""
    for label, (*text, spans, far) in _contexts():
        yield label, (*text[:3], *spans, text[3], None, far, 1)


def context_sum_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for label, (table, ids, offsets, context, spans, far) in _contexts():
        with kernels.use(SPECIFICATION):
            found = sums.forward(table, ids, offsets, spans[0], spans[1], context, None, far)
        grad = np.cos(found.vectors)
        yield label, (table, ids, offsets, *spans, context, found.before, grad, far, 1)


def stream_scores() -> Iterator[Case]:
    """The same texts under a tree of three words, from the beginning and from the middle."""
    for label, (table, ids, offsets, context, _, far) in _contexts():
        q = np.cos(table[:3] * 3)
        packed = pack(table, context, _CODES, q, q[:, 0], far)
        for first in {0, len(ids) // 2}:
            yield f"{label}, from {first}", (packed, ids, offsets, first, None)


def _tree_problems() -> Iterator[tuple[str, tuple[Any, ...]]]:
    one = Codes([0, 1], [0, 0], np.empty(0, np.int32), np.empty(0, np.int8))
    for codes in (one, _CODES):
        for tokens, width in ((0, 3), (1, 1), (9, 15), (20, 33)):
            rng = np.random.default_rng(tokens)
            r = rng.standard_normal((tokens, width), np.float32)
            q = rng.standard_normal((codes.n_nodes, width), np.float32)
            words = rng.integers(0, codes.n_words, tokens).astype(np.int32)
            b = rng.standard_normal(codes.n_nodes).astype(np.float32)
            yield f"{codes.n_words} words, {tokens} tokens, {width} wide", (r, words, codes, q, b)


def _contexts() -> Iterator[tuple[str, tuple[Any, ...]]]:
    for lengths in ([], [0], [1], [5, 0, 63, 1]):
        for n, tails, width in ((0, 1, 1), (2, 0, 15), (3, 2, 17)):
            rng = np.random.default_rng(n)
            tokens = sum(lengths)
            table = rng.standard_normal((3, width), np.float32)
            context = Context(
                rng.standard_normal((n, width), np.float32),
                rng.standard_normal(width, np.float32),
                np.linspace(0.5, 0.9, tails, dtype=np.float32),
                rng.standard_normal((tails, width), np.float32),
            )
            ids = rng.integers(0, 3, tokens).astype(np.int32)
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            borders = np.array([0, tokens // 3, tokens, tokens + 1])
            spans = borders[:-1], borders[1:]
            for far in (None, np.tanh(table)):
                label = f"{tokens} tokens, {n} positions, {tails} tails, {width} wide, far={far is not None}"
                yield label, (table, ids, offsets, context, spans, far)


CASES = (
    context_sum,
    context_sum_backward,
    stream_scores,
    tree_softmax,
    tree_softmax_step,
    tree_softmax_backward,
    tree_softmax_distribution,
)
