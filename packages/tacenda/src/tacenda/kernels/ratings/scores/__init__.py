"""Scores of many (user, item) pairs: mean + b_u + c_i + x_u . q_i.

On a CUDA device factors and biases are torch tensors there; the numbers of the pairs may be arrays or tensors.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import (
    as_type,
    check_array,
    check_range,
    common_device,
    given,
    in_c_order,
)

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
    users, items = as_type(given(users), np.int64), as_type(given(items), np.int64)
    if users.shape != items.shape:
        raise KernelError(
            f"users and items must be as many, not {tuple(users.shape)} and {tuple(items.shape)}"
        )
    tables = map(given, (user_factors, item_factors, user_biases, item_biases))
    x, q, b, c = (in_c_order(table) for table in tables)
    device = common_device(user_factors=x, item_factors=q, user_biases=b, item_biases=c)
    if str(x.dtype).removeprefix("torch.") != "float32":
        raise KernelError(f"user_factors must be float32, not {x.dtype}")
    check_array(x, tuple(x.shape[:2]), x, "user_factors")
    check_array(q, (len(q), *x.shape[1:]), x, "item_factors")
    check_array(b, tuple(x.shape[:1]), x, "user_biases")
    check_array(c, tuple(q.shape[:1]), x, "item_biases")
    check_range(users, len(x), "users", lowest=-1)
    check_range(items, len(q), "items", lowest=-1)
    result: _Floats = resolve("rating_scores", device)(users, items, x, q, b, c, float(mean))
    return result
