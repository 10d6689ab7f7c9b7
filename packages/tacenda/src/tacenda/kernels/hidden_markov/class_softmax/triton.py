"""The softmax by class on a GPU: a class is a segment of `tacenda.kernels.hidden_markov.segment_softmax`, its words.

Tensors are torch's, all on one device; the offsets are an array on the host, where they are checked. float32 is not
rounded to TF32. NaN propagates. Works under Triton's interpreter.
"""

from typing import Any

import numpy as np

from tacenda.kernels.hidden_markov import segment_softmax
from tacenda.kernels.hidden_markov.class_softmax import Gradients
from tacenda.kernels.hidden_markov.class_softmax.arguments import check
from tacenda.kernels.hidden_markov.row_sums import sum_rows
from tacenda.kernels.hidden_markov.segment_softmax import Segments
from tacenda.kernels.machinery.tensors import on_host, one_device

__all__ = ["backward", "forward"]


def forward(words: Any, bias: Any, states: Any, offsets: Any) -> Any:
    """See `tacenda.kernels.hidden_markov.class_softmax.forward`."""
    one_device({"words": words, "bias": bias, "states": states})
    cuts = check(words, bias, states, on_host(offsets))
    o = words.new_empty((len(words), states.shape[1]))
    segments = _segments(cuts)
    weights = words.new_ones((len(segments.sizes), states.shape[1]))
    segment_softmax.forward(states, words, bias, segments, weights, None, o)
    return o


def backward(
    words: Any, bias: Any, states: Any, offsets: Any, found: Any, counts: Any
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.class_softmax.backward`."""
    given = {"words": words, "bias": bias, "states": states, "found": found, "counts": counts}
    one_device(given)
    cuts = check(words, bias, states, on_host(offsets), found, counts)
    segments = _segments(cuts)
    totals = sum_rows(counts, np.arange(len(words)), np.append(segments.begins, len(words)))
    dx, dy, db = segment_softmax.backward(states, words, segments, found, counts, totals)
    slopes: list[Any] = [dy, db, dx]
    return Gradients(*slopes)


def _segments(cuts: Any) -> Segments:
    used = np.flatnonzero(np.diff(cuts))  # a class may have no words
    return Segments(used, cuts[used], np.diff(cuts)[used], cuts[used])
