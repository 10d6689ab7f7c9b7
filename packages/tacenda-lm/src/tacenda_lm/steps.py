"""Parts of steps that several models share: gradients by row, masks of dropout, and running averages."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array

# a running average includes every step up to _STEPS_AVERAGED_EACH, and then every _AVERAGING_INTERVAL steps
_STEPS_AVERAGED_EACH, _AVERAGING_INTERVAL = 100, 10

Gradient: TypeAlias = tuple[Array | None, Array]
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
