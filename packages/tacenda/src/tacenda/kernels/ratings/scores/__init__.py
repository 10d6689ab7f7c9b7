"""Scores of many (user, item) pairs: mean + b_u + c_i + x_u . q_i."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import check_array, check_range

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
    """Score pairs of a user and an item.

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
    One score for each pair, (pairs,) float32. Sums are in float32. Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, or a number is out of range.
    """
    users, items = np.ascontiguousarray(users), np.ascontiguousarray(items)
    if users.shape != items.shape:
        raise KernelError(f"users and items must be as many, not {users.shape} and {items.shape}")
    x, q, b, c = (
        np.ascontiguousarray(table)
        for table in (user_factors, item_factors, user_biases, item_biases)
    )
    like = np.empty(0, np.float32)
    check_array(x, x.shape[:2], like, "user_factors")
    check_array(q, (len(q), *x.shape[1:]), like, "item_factors")
    check_array(b, x.shape[:1], like, "user_biases")
    check_array(c, q.shape[:1], like, "item_biases")
    check_range(users, len(x), "users", lowest=-1)
    check_range(items, len(q), "items", lowest=-1)
    result: _Floats = resolve("rating_scores")(
        users.astype(np.int64, copy=False), items.astype(np.int64, copy=False), x, q, b, c, mean
    )
    return result
