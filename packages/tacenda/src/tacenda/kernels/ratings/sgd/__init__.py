"""One pass of stochastic gradient descent over the ratings of some users, a user at a time.

    r_ui ~ mean + b_u + c_i + x_u . q_i,     x_u = p_u + s_u,    s_u = sum_{j in N(u)} w_j / |N(u)|

p, q: factors of users and items; b, c: their biases; w: conditioning factors, by which the identities
N(u) of the items a user has rated say what to expect of the user (Mnih 2010, eqs 5.20 and 5.22, with
p_u = U_u - mu_U). With e = v_u (r - prediction), for each rating of user u, whose ratings weigh v_u, in a random order

    b += beta_u (e - eta_u b),   c_i += beta_i (e - eta_i c_i),
    q_i += alpha_i (e x - lambda_i q_i),   x += alpha_u (e q_i - lambda_u (x - s_u)),     both from old values

and after the user's last rating, with g the sum of e q_i over the ratings, for each j in N(u)

    w_j += gamma / |N(u)| (g - lambda_w w_j).

The penalties count once for every rating. Each user and each item has its own, so that rows of few ratings can be held
back more, as a prior of fixed width would.

A user's factors stay in the first-level cache for the whole visit, which is what makes this several
times as fast as ratings in random order once the tables are larger than the caches.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import as_offsets, check_array, check_range

__all__ = ["Penalties", "Rates", "Tables", "epoch"]

_Floats = NDArray[np.float32]
_Ints = NDArray[np.integer[Any]]
_FEW = 8  # times as long as a look at an id takes to find it first


class Tables(NamedTuple):
    """What is learned, all float32 in C order: p (users, factors), q (items, factors), b (users,),
    c (items,) and w (items, factors); no rows of w where there is no conditioning.
    """

    user_factors: _Floats
    item_factors: _Floats
    user_biases: _Floats
    item_biases: _Floats
    side_factors: _Floats


class Rates(NamedTuple):
    """Learning rates: alpha_u, alpha_i, beta_u, beta_i and gamma."""

    user_factors: float
    item_factors: float
    user_biases: float
    item_biases: float
    side: float = 0.0

    @classmethod
    def alike(cls, factors: float, biases: float, side: float = 0.0) -> Self:
        """The same for users and items."""
        return cls(factors, factors, biases, biases, side)


class Penalties(NamedTuple):
    """Weights of the squared parameters: lambda_u, lambda_i, eta_u and eta_i, each one number or one for every
    row, and lambda_w.
    """

    user_factors: float | _Floats = 0.0
    item_factors: float | _Floats = 0.0
    user_biases: float | _Floats = 0.0
    item_biases: float | _Floats = 0.0
    side: float = 0.0

    @classmethod
    def alike(cls, factors: float, biases: float, side: float = 0.0) -> Self:
        """The same for every user and item."""
        return cls(factors, factors, biases, biases, side)


def epoch(
    offsets: _Ints,
    item_ids: _Ints,
    values: _Floats,
    users: _Ints,
    tables: Tables,
    mean: float,
    rates: Rates,
    penalties: Penalties,
    seed: int,
    side_offsets: _Ints | None = None,
    side_ids: _Ints | None = None,
    weights: _Floats | None = None,
) -> tuple[NDArray[np.float64], Tables]:
    """Visit ``users`` in the order given; ``tables`` are changed in place.

    Parameters
    ----------
    offsets, item_ids, values
        All ratings by user: (users + 1,), (ratings,) and (ratings,) float32.
    users
        Which users to visit, in which order; a user without ratings is passed over.
    tables
        See `Tables`.
    mean
        Subtracted from every rating.
    rates
        A rate of 0 leaves what it belongs to as it is, so without biases theirs is 0.
    penalties
        See `Penalties`.
    seed
        Of the order of a user's ratings: a function of seed and user alone.
    side_offsets, side_ids
        N(u): (users + 1,) and (identities,), without duplicates; None: no conditioning.
    weights
        v (users,) float32; None: all ratings weigh 1.

    Returns
    -------
    The sum of (r - prediction)^2 over the ratings of each user visited, every one from before its update, (visited,);
    and ``tables``.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, or a number is out of range.

    Notes
    -----
    Re-entrant on different tables; releases the GIL; the same arguments give the same bits on one
    machine. Rates that are too large diverge to NaN, which the sums then show.
    """
    n_users, n_items = _check_tables(tables)
    penalties = _broadcast(penalties, n_users, n_items)
    users = np.asarray(users).astype(np.int64, copy=False)
    check_range(users, n_users, "users")
    offsets, item_ids = _check_packed(offsets, item_ids, users, n_items, n_users, "item")
    values = np.ascontiguousarray(values, np.float32)
    if values.shape != item_ids.shape:
        raise KernelError(
            f"values must be {item_ids.shape} as the item ids are, not {values.shape}"
        )
    if side_offsets is not None and side_ids is not None and len(tables.side_factors):
        same = side_ids is item_ids and side_offsets is offsets
        side_offsets, side_ids = (
            (offsets, item_ids)
            if same
            else _check_packed(side_offsets, side_ids, users, n_items, n_users, "side")
        )
    else:
        side_offsets = side_ids = None
    if weights is None:
        weights = np.ones(n_users, np.float32)
    check_array(weights, (n_users,), np.empty(0, np.float32), "weights")
    result: tuple[NDArray[np.float64], Tables] = resolve("rating_sgd")(
        offsets, item_ids, values, users, tables, mean, rates, penalties, seed,
        side_offsets, side_ids, weights,
    )  # fmt: skip
    return result


def _check_tables(tables: Tables) -> tuple[int, int]:
    """The numbers of users and items, if all tables agree about them. Raises KernelError."""
    users, factors = np.shape(tables.user_factors)
    items, sides = len(tables.item_factors), len(tables.side_factors)
    shapes = (
        (users, factors),
        (items, factors),
        (users,),
        (items,),
        (items if sides else 0, factors),
    )
    for name, array, shape in zip(Tables._fields, tables, shapes, strict=True):
        check_array(array, shape, np.empty(0, np.float32), name)
    return users, items


def _broadcast(penalties: Penalties, n_users: int, n_items: int) -> Penalties:
    """Penalties with one number for every row, float32. Raises KernelError."""
    rows = {"user": n_users, "item": n_items}
    found = {}
    for name in Penalties._fields[:4]:
        given = np.asarray(getattr(penalties, name), np.float32)
        n = rows[name[:4]]
        if given.shape not in ((), (n,)):
            raise KernelError(f"the penalties of {name} are {given.shape} and must be ({n},)")
        found[name] = np.ascontiguousarray(np.broadcast_to(given, (n,)))
    return Penalties(**found, side=penalties.side)


def _check_packed(
    offsets: _Ints, ids: _Ints, users: _Ints, n_items: int, n_users: int, what: str
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Offsets int64 and ids int32 for every user, those of the users visited in range. Raises KernelError."""
    ids = np.asarray(ids)
    offsets = as_offsets(offsets, len(ids), f"{what} offsets", n_users)
    lengths = np.diff(offsets)[users]
    # An epoch in many small batches should not look at all ids every time.
    looked_at = ids
    if lengths.sum() * _FEW < len(ids):
        firsts = offsets[users] - np.cumsum(lengths) + lengths
        looked_at = ids[np.repeat(firsts, lengths) + np.arange(lengths.sum())]
    check_range(looked_at, n_items, f"{what} ids")
    return offsets, ids.astype(np.int32, copy=False)
