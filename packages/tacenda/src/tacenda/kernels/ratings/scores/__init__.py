"""Scores of many (user, item) pairs: mean + b_u + c_i + x_u . q_i."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve

__all__ = ["scores"]

_Floats = NDArray[np.float32]
_Ints = NDArray[np.integer[Any]]


def scores(
    users: _Ints,
    items: _Ints,
    user_factors: _Floats,
    item_factors: _Floats,
    user_biases: _Floats,
    item_biases: _Floats,
    mean: float,
) -> _Floats:
    """One score for each pair, (pairs,) float32.

    Parameters
    ----------
    users, items
        (pairs,); -1 for what is unknown, which then adds nothing.
    user_factors, item_factors
        x (users, factors) and q (items, factors), float32.
    user_biases, item_biases
        b (users,) and c (items,), float32.
    mean
        Added to every score.

    Returns
    -------
    Sums are in float32. Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit or a number is out of range.
    """
    result: _Floats = resolve("rating_scores")(
        users, items, user_factors, item_factors, user_biases, item_biases, mean
    )
    return result
