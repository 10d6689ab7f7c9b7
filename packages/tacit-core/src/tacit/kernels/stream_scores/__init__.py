"""Log-probabilities of the words of a text under a log-bilinear model with a tree: one pass, nothing kept.

What `tacit.kernels.context_sum` and `tacit.kernels.tree_softmax` do one after the other (Mnih 2010, eqs 4.5 to
4.7), a token at a time: its predicted vector never leaves the first-level cache. The fast way to run a fitted model.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels.context_sum import Context
from tacit.kernels.dispatch import resolve
from tacit.kernels.tree_softmax import Codes

__all__ = ["Scores", "scores"]

_Floats = NDArray[np.floating[Any]]
_Ints = NDArray[np.integer[Any]]


class Scores(NamedTuple):
    """Natural log-probabilities float64 (tokens - first,), and the tails (tails, width) behind the last word."""

    log_probs: NDArray[np.float64]
    tails: _Floats


def scores(
    table: _Floats,
    ids: _Ints,
    offsets: _Ints,
    context: Context,
    codes: Codes,
    node_vectors: _Floats,
    node_biases: _Floats,
    first: int = 0,
    tails: _Floats | None = None,
    far: _Floats | None = None,
) -> Scores:
    """Log P(w_t | the words before it in its sequence) for all t from ``first`` on.

    Parameters
    ----------
    table, ids, offsets, context
        As in `tacit.kernels.context_sum.forward`.
    codes, node_vectors, node_biases
        As in `tacit.kernels.tree_softmax.forward`.
    first
        The first position to score.
    tails
        u (tails, width) at that position; where left out it is summed up from the beginning of the sequence.
    far
        As in `tacit.kernels.context_sum.forward`.

    Returns
    -------
    See `Scores`. The same numbers as the two operations give, up to the order of sums. Re-entrant; releases the
    GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, or a number is out of range.
    """
    result: Scores = resolve("stream_scores")(
        table, ids, offsets, context, codes, node_vectors, node_biases, first, tails, far
    )
    return result
