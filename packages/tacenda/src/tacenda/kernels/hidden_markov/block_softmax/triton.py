"""Blocks of transitions on a GPU: a pair is a segment of `segment_softmax`, the states it reaches.

Vectors are read where they lie, not gathered. Tensors are torch's, all on one device; sources and targets are arrays on
the host, where they are checked. float32 is not rounded to TF32. NaN propagates. Works under Triton's interpreter.
"""

from typing import Any

import numpy as np
import torch

from tacenda.kernels.hidden_markov import segment_softmax
from tacenda.kernels.hidden_markov.block_softmax import Gradients, Vectors
from tacenda.kernels.hidden_markov.block_softmax.arguments import check, check_one
from tacenda.kernels.hidden_markov.segment_softmax import Segments
from tacenda.kernels.machinery.tensors import on_host, one_device

__all__ = ["backward", "forward"]


def forward(
    vectors: Vectors,
    sources: Any,
    targets: Any,
    weights: Any = None,
    norms: Any = None,
    threads: int = 1,
) -> Any:
    """See `tacenda.kernels.hidden_markov.block_softmax.forward`; ``threads`` is without effect."""
    check_one(weights, norms)
    x, y, b = _tensors(vectors, weights=weights, norms=norms)
    classes, k, width = x.shape
    shapes = {"weights": (weights, (len(sources), k)), "norms": (norms, (classes, k))}
    segments = _segments(*check(vectors, on_host(sources), on_host(targets), **shapes), k)
    A = x.new_empty((len(sources), k, k))
    flat = y.view(classes * k, width), b.view(-1)
    segment_softmax.forward(x, *flat, segments, weights, norms, A.view(-1, k))
    return A


def backward(
    vectors: Vectors,
    sources: Any,
    targets: Any,
    blocks: Any,
    counts: Any,
    weights: Any = None,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.block_softmax.backward`; ``threads`` is without effect."""
    x, y, b = _tensors(vectors, blocks=blocks, counts=counts, weights=weights)
    k, width = x.shape[1:]
    size = (len(sources), k, k)
    given = {"blocks": (blocks, size), "counts": (counts, size), "weights": (weights, size[:2])}
    segments = _segments(*check(vectors, on_host(sources), on_host(targets), **given), k)
    departures = counts.sum(1)
    ratio = None if weights is None else departures / weights
    tables = blocks.view(-1, k), counts.view(-1, k)
    dx, dy, db = segment_softmax.backward(x, y.view(len(x) * k, width), segments, *tables, ratio)
    found: list[Any] = [dx, dy.view(y.shape), db.view(b.shape), departures]
    return Gradients(*found)


def _tensors(vectors: Vectors, **more: Any) -> list[torch.Tensor]:
    one_device({**vectors._asdict(), **more})
    return list(vectors)


def _segments(sources: Any, targets: Any, k: int) -> Segments:
    return Segments(
        sources, targets * k, np.full(len(sources), k, np.int64), np.arange(len(sources)) * k
    )
