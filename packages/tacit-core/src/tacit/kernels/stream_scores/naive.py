"""The scores of a text by the two operations they are made of: the specification."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.kernels.context_sum import naive as context_sum
from tacit.kernels.stream_scores.arguments import check_first
from tacit.kernels.tree_softmax import naive as tree_softmax
from tacit.kernels.tree_softmax.codes import Codes

if TYPE_CHECKING:
    from tacit.kernels.context_sum import Context
    from tacit.kernels.stream_scores import Scores

_Array = NDArray[Any]


def scores(
    table: _Array,
    ids: _Array,
    offsets: _Array,
    context: "Context",
    codes: Codes,
    node_vectors: _Array,
    node_biases: _Array,
    first: int = 0,
    tails: _Array | None = None,
    far: _Array | None = None,
) -> "Scores":
    """See `tacit.kernels.stream_scores.scores`."""
    from tacit.kernels.stream_scores import Scores

    first = check_first(first, ids)
    before = None if tails is None else np.asarray(tails)[None]
    span = np.array([first]), np.array([len(ids)])
    found = context_sum.forward(table, ids, offsets, *span, context, before, far)
    words = np.asarray(ids)[first:]
    scored = tree_softmax.forward(found.vectors, words, codes, node_vectors, node_biases)
    return Scores(scored.log_probs, found.after[0])
