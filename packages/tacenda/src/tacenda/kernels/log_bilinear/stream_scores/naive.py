"""The scores of a text by the two operations they are made of: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.log_bilinear.context_sum import Context
from tacenda.kernels.log_bilinear.context_sum import naive as context_sum
from tacenda.kernels.log_bilinear.stream_scores import Scores
from tacenda.kernels.log_bilinear.stream_scores.packed import Packed
from tacenda.kernels.log_bilinear.tree_softmax import naive as tree_softmax

_Array = NDArray[Any]


def scores(
    packed: Packed,
    ids: _Array,
    offsets: _Array,
    first: int = 0,
    tails: _Array | None = None,
) -> Scores:
    """See `tacenda.kernels.log_bilinear.stream_scores.scores`; the predicted vectors are not rounded."""
    table, far, weights, bias, tail_weights = (
        part[:, : packed.width]
        for part in (packed.words, packed.far, packed.weights, packed.bias, packed.tail_weights)
    )
    context = Context(weights, bias[0], packed.rates, tail_weights)
    span = np.array([first]), np.array([len(ids)])
    before = None if tails is None else tails[None]
    found = context_sum.forward(table, ids, offsets, *span, context, before, far)
    log_probs = tree_softmax.forward(found.vectors, ids[first:], packed.codes, *packed.nodes())
    return Scores(log_probs, found.after[0])
