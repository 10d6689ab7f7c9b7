"""Blocks of transitions on a GPU: a pair is a segment of `segment_softmax`, made of the states it reaches.

Vectors are read where they lie, not gathered. Tensors are torch's; sources and targets are arrays on the host. float32
is not rounded to TF32 unless torch allows it. NaN propagates. Works under Triton's interpreter.
"""

from typing import Any

import numpy as np

from tacenda.kernels.hidden_markov import segment_softmax
from tacenda.kernels.hidden_markov.block_softmax import Gradients, Vectors
from tacenda.kernels.hidden_markov.segment_softmax import Segments


def forward(
    vectors: Vectors, sources: Any, targets: Any, weights: Any, norms: Any, threads: int
) -> Any:
    """See `tacenda.kernels.hidden_markov.block_softmax.forward`; ``threads`` is without effect."""
    x, y, b = vectors
    k, width = x.shape[1:]
    A: Any = x.new_empty((len(sources), k, k))  # type: ignore[attr-defined]
    segment_softmax.forward(
        x, y.reshape(-1, width), b.reshape(-1), _segments(sources, targets, k), weights, norms,
        A.view(-1, k),
    )  # fmt: skip
    return A


def backward(
    vectors: Vectors,
    sources: Any,
    targets: Any,
    blocks: Any,
    counts: Any,
    weights: Any,
    threads: int,
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.block_softmax.backward`; ``threads`` is without effect."""
    x, y, b = vectors
    k, width = x.shape[1:]
    departures = counts.sum(1)
    ratio = None if weights is None else departures / weights
    dx, dy, db = segment_softmax.backward(
        x, y.reshape(-1, width), _segments(sources, targets, k), blocks.view(-1, k),
        counts.view(-1, k), ratio,
    )  # fmt: skip
    return Gradients(*(dx, dy.view(y.shape), db.view(b.shape), departures))


def _segments(sources: Any, targets: Any, k: int) -> Segments:
    """The pairs as segments: the k states of the target, and the k rows of the pair's block."""
    pairs = len(sources)
    return Segments(sources, targets * k, np.full(pairs, k, np.int64), np.arange(pairs) * k)
