"""Parts of steps that several models share: the sums of gradients by row, masks of dropout, and running averages."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array

# a running average includes every step up to _STEPS_AVERAGED_EACH, and then every _AVERAGING_INTERVAL steps
_STEPS_AVERAGED_EACH, _AVERAGING_INTERVAL = 100, 10

Gradient: TypeAlias = tuple[npt.NDArray[np.integer[Any]] | None, npt.NDArray[np.floating[Any]]]
"""Distinct rows of a table, None for all of them, and the gradients of these rows (rows, width)."""


def averaging_weight(steps: int, averaging: float) -> float:
    """Return the weight of the parameters after step ``steps`` in their running average; 0 if they are left out.

    Early on, the average covers about the last tenth of the steps so far, and later the last 1 / (1 - averaging) steps.
    """
    # parameters hardly change in ten steps, and adding them up would take as long as a step of a small model
    interval = 1 if steps <= _STEPS_AVERAGED_EACH else _AVERAGING_INTERVAL
    if steps % interval:
        return 0.0
    return 1 - min(averaging**interval, steps / (steps + 10 * interval))


def draw_dropout_mask(
    shape: tuple[int, ...], share: float, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Draw 0 for about this share of the elements (in steps of 2^-16), and for the others 1 / (1 - share)."""
    limit = min(round(share * 65536), 65535)  # some are kept, however large the share
    size = math.prod(shape)
    # each 64-bit word is four 16-bit numbers: much faster than drawing small numbers
    words = rng.integers(0, 2**64, -(-size // 4), dtype=np.uint64)
    drawn = words.view(np.uint16)[:size].reshape(shape)
    return np.asarray((drawn >= limit) * np.float32(65536 / (65536 - limit)), np.float32)


def sum_by_row(
    rows: npt.NDArray[np.integer[Any]], gradients: npt.NDArray[np.floating[Any]]
) -> Gradient:
    """Return the distinct rows of a table among ``rows`` (reads,), ascending, and the summed gradient of each.

    ``gradients`` (reads, width) are those of the reads, in any order.
    """
    distinct, places = np.unique(rows, return_inverse=True)
    return distinct, sum_rows(places, gradients, len(distinct))


def sum_rows(
    places: npt.NDArray[np.integer[Any]], values: npt.NDArray[np.floating[Any]], n: int
) -> npt.NDArray[Any]:
    """Return sums (n, width): that of place i is the sum of the ``values`` (reads, width) whose place is i."""
    # a sparse product adds in one pass over the values; np.add.at and sorting copy them or jump around
    ones, reads = np.ones(len(places), values.dtype), len(places)
    adder = csc_array((ones, places, np.arange(reads + 1)), shape=(n, reads))
    return np.asarray(adder @ values)
