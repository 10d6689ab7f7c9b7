"""The softmax by class on a GPU: a class is a segment of `segment_softmax`, made of its words.

Tensors are torch's; the offsets are an array on the host. float32 is not rounded to TF32 unless torch allows it. NaN
propagates. Works under Triton's interpreter.
"""

from typing import Any

import numpy as np

from tacenda.kernels.hidden_markov import segment_softmax
from tacenda.kernels.hidden_markov.class_softmax import Gradients
from tacenda.kernels.hidden_markov.segment_softmax import Segments
from tacenda.kernels.machinery.gpu import sum_rows


def forward(words: Any, bias: Any, states: Any, offsets: Any) -> Any:
    """See `tacenda.kernels.hidden_markov.class_softmax.forward`."""
    o = words.new_empty((len(words), states.shape[1]))
    segments = _segments(offsets)
    weights = words.new_ones((len(segments.sizes), states.shape[1]))
    segment_softmax.forward(states, words, bias, segments, weights, None, o)
    return o


def backward(
    words: Any, bias: Any, states: Any, offsets: Any, found: Any, counts: Any
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.class_softmax.backward`."""
    segments = _segments(offsets)
    totals = sum_rows(counts, np.arange(len(words)), np.append(segments.begins, len(words)))
    dx, dy, db = segment_softmax.backward(states, words, segments, found, counts, totals)
    return Gradients(*(dy, db, dx))


def _segments(offsets: Any) -> Segments:
    """The classes that have words as segments: the rows of their words."""
    used = np.flatnonzero(np.diff(offsets))
    return Segments(used, offsets[used], np.diff(offsets)[used], offsets[used])
