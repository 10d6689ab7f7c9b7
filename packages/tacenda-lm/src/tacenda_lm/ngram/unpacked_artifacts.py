"""Tables as artefacts held them before they were packed: five arrays, with the n-grams of all orders end to end.

Models saved so are loaded, and saved in the form of today.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.offsets import checked_offsets, rises
from tacenda_lm.ngram.counts import Int64
from tacenda_lm.ngram.layout import MAX_ORDER
from tacenda_lm.sequences import Float64

__all__ = ["orders_of"]

_ARRAYS: dict[str, tuple[str, type[np.generic]]] = {
    "starts": ("ends", np.int64),  # the n-grams of order n are places starts[n - 1] to starts[n]
    "word": ("n-grams", np.int32),  # the last word of each; word[i] = i for unigrams
    "first": ("contexts and one", np.int64),  # where the continuations of each begin
    "log_prob": ("n-grams", np.float32),
    "backoff": ("contexts", np.float32),
}


def orders_of(
    arrays: dict[str, npt.NDArray[Any]], n_types: int
) -> tuple[list[Int64], list[Int64], list[Float64], list[Float64]]:
    """Return the arguments of `Table.of_orders`. Raises ArtifactError for arrays that are no table."""
    dims: dict[str, int] = {}
    starts, word, first, log_prob, backoff = (
        require(arrays, name, shape=(size,), dtype=dtype, finite=True, dims=dims)
        for name, (size, dtype) in _ARRAYS.items()
    )
    checked_offsets(starts, len(word), what="the array 'starts'", error=ArtifactError)
    if not 2 <= len(starts) <= MAX_ORDER + 1 or starts[1] != n_types:
        raise ArtifactError(
            f"the array 'starts' tells of {len(starts) - 1} orders and {starts[1:2]} types, where "
            f"there are at most {MAX_ORDER} orders, and {n_types} types"
        )
    inner = int(starts[-2])
    if len(backoff) != inner or len(first) != inner + 1:
        raise ArtifactError(f"'first' and 'backoff' must tell of {inner} contexts")
    # the continuations of an order's first n-gram begin where the order above begins
    if (first[starts[:-1]] != starts[1:]).any() or not rises(first):
        raise ArtifactError("the array 'first' does not cut 'word': the model is damaged")
    if word.min() < 0 or word.max() >= n_types or (word[:n_types] != np.arange(n_types)).any():
        raise ArtifactError(f"the array 'word' holds an id off 0 to {n_types - 1}")
    if (log_prob > 1e-6).any():
        raise ArtifactError("the array 'log_prob' holds a probability above one")
    orders = [slice(*ends) for ends in pairwise(starts)]
    prefixes = [np.zeros(n_types, np.int64)]
    for below in orders[:-1]:
        n_after = np.diff(first[below.start : below.stop + 1])
        prefixes.append(np.repeat(np.arange(len(n_after)), n_after))
    return (
        prefixes,
        [word[order].astype(np.int64) for order in orders],
        [log_prob[order].astype(np.float64) for order in orders],
        [backoff[order].astype(np.float64) for order in orders[:-1]],
    )
