"""The checks of what an epoch of SGD is given, once for every backend."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError

if TYPE_CHECKING:
    from tacenda.kernels.ratings.sgd import Tables

_Array = NDArray[Any]


class Packed(NamedTuple):
    """Numbers by user: offsets (users + 1,) int64, ids int32."""

    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]


def check_tables(tables: "Tables") -> tuple[int, int]:
    """The numbers of users and items, if all tables agree about them."""
    p, q, b, c, w = tables
    users, factors = np.shape(p)
    items = len(q)
    expected = {
        "user_factors": (p, (users, factors)),
        "item_factors": (q, (items, factors)),
        "user_biases": (b, (users,)),
        "item_biases": (c, (items,)),
        "side_factors": (w, (items if len(w) else 0, factors)),
    }
    for name, (array, shape) in expected.items():
        if array.shape != shape or array.dtype != np.float32 or not array.flags.c_contiguous:
            raise KernelError(
                f"{name} must be float32 {shape} in C order, not {array.dtype} {array.shape}"
            )
    return users, items


def check_offsets(offsets: _Array, ids: _Array, users: int, what: str) -> Packed:
    """``offsets`` into ``ids`` for each of ``users``; the ids themselves are not looked at."""
    offsets, ids = np.asarray(offsets), np.asarray(ids)
    ascending = offsets.shape == (users + 1,) and (np.diff(offsets) >= 0).all()
    if not ascending or offsets[0] != 0 or offsets[-1] != len(ids):
        raise KernelError(
            f"{what} offsets must ascend from 0 to {len(ids)} in {users + 1} steps, not "
            f"{offsets.shape}"
        )
    return Packed(offsets.astype(np.int64, copy=False), ids.astype(np.int32, copy=False))


def check_ids(low: int, high: int, items: int, what: str) -> None:
    """From ``low`` to ``high`` there are only numbers of ``items``."""
    if low < 0 or high >= items:
        raise KernelError(f"{what} ids run from {low} to {high}, of {items} items")


def check_packed(offsets: _Array, ids: _Array, users: int, items: int, what: str) -> Packed:
    """``ids`` below ``items``, and ``offsets`` into them for each of ``users``."""
    packed = check_offsets(offsets, ids, users, what)
    if len(packed.ids):
        check_ids(int(packed.ids.min()), int(packed.ids.max()), items, what)
    return packed


def check_users(users: _Array, n_users: int) -> NDArray[np.int64]:
    """``users`` as int64 numbers below ``n_users``."""
    users = np.asarray(users).astype(np.int64, copy=False)
    if len(users) and (users.min() < 0 or users.max() >= n_users):
        raise KernelError(f"users run from {users.min()} to {users.max()}, of {n_users}")
    return users


def check_values(values: _Array, n: int) -> NDArray[np.float32]:
    """``values`` (n,) as float32."""
    values = np.ascontiguousarray(values, np.float32)
    if values.shape != (n,):
        raise KernelError(f"values must be ({n},) as there are {n} item ids, not {values.shape}")
    return values
