"""Log-probabilities of the words of a text under a log-bilinear model with a tree: one pass, nothing kept.

What `context_sum` and `tree_softmax` do one after the other (Mnih 2010, eqs 4.5 to
4.7), a few tokens at a time, with node vectors in 8 bits: the fast way to run a fitted model.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.log_bilinear.stream_scores.packed import Packed, pack, rounded
from tacenda.kernels.machinery.arrays import as_offsets, check_range

__all__ = ["Packed", "Scores", "pack", "rounded", "scores"]

_Floats = NDArray[np.floating[Any]]
_Ints = NDArray[np.integer[Any]]


class Scores(NamedTuple):
    """Natural log-probabilities float64 (tokens - first,), and the tails float32 (tails, width) after the last word."""

    log_probs: NDArray[np.float64]
    tails: _Floats


def scores(
    packed: Packed,
    ids: _Ints,
    offsets: _Ints,
    first: int = 0,
    tails: _Floats | None = None,
) -> Scores:
    """Log P(w_t | the words before it in its sequence) for all t from ``first`` on.

    Parameters
    ----------
    packed
        The model; see `pack`.
    ids, offsets
        As in `tacenda.kernels.log_bilinear.context_sum.forward`.
    first
        The first position to score.
    tails
        u (tails, width) at that position; where left out it is summed up from the beginning of the sequence.

    Returns
    -------
    See `Scores`. The numbers that the two operations give for the rounded node vectors, up to the order of sums and,
    beside the reference, the rounding of a predicted vector to `Packed.limit` steps of its largest element: an
    activation is off by no more than half a step times the sum of the node vector's magnitudes. The same wherever a
    text is cut. A vector that is not finite has a score of NaN. Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, or a number is out of range.
    """
    ids = np.asarray(ids)
    check_range(ids, min(len(packed.words), packed.codes.n_words), "ids")
    if not 0 <= first <= len(ids):
        raise KernelError(f"first is {first}, and there are {len(ids)} ids")
    offsets, shape = as_offsets(offsets, len(ids)), (len(packed.rates), packed.width)
    if tails is not None:
        tails = np.ascontiguousarray(tails, np.float32)
        if tails.shape != shape:
            raise KernelError(f"tails must be {shape}, not {tails.shape}")
    ids = np.ascontiguousarray(ids, np.int32)
    result: Scores = resolve("stream_scores")(packed, ids, offsets, first, tails)
    return result
