"""One pass of stochastic gradient descent over the ratings of some users, a user at a time.

    r_ui ~ mean + b_u + c_i + x_u . q_i,     x_u = p_u + s_u,    s_u = sum_{j in N(u)} w_j / |N(u)|

p, q: factors of users and items; b, c: their biases; w: conditioning factors, by which the identities
N(u) of the items a user has rated say what to expect of the user (Mnih 2010, eqs 5.20 and 5.22, with
p_u = U_u - mu_U). With e = r - prediction, for each rating of user u in a random order

    b += beta (e - lambda_b b),   c_i likewise,
    q_i += alpha (e x - lambda q_i),   x += alpha (e q_i - lambda (x - s_u)),     both from old values

and after the user's last rating, with g the sum of e q_i over the ratings, for each j in N(u)

    w_j += gamma / |N(u)| (g - lambda_w w_j).

A user's factors stay in the first-level cache for the whole visit, which is what makes this several
times as fast as ratings in random order once the tables are larger than the caches.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve

__all__ = ["Coefficients", "Tables", "epoch"]

_Floats = NDArray[np.float32]
_Ints = NDArray[np.integer[Any]]


class Tables(NamedTuple):
    """What is learned, all float32 in C order: p (users, factors), q (items, factors), b (users,),
    c (items,) and w (items, factors); no rows of w where there is no conditioning.
    """

    user_factors: _Floats
    item_factors: _Floats
    user_biases: _Floats
    item_biases: _Floats
    side_factors: _Floats


class Coefficients(NamedTuple):
    """Learning rates, or weights of the penalties: alpha, beta, gamma, or the three lambdas."""

    factors: float
    biases: float
    side: float = 0.0


def epoch(
    offsets: _Ints,
    item_ids: _Ints,
    values: _Floats,
    users: _Ints,
    tables: Tables,
    mean: float,
    rates: Coefficients,
    penalties: Coefficients,
    seed: int,
    side_offsets: _Ints | None = None,
    side_ids: _Ints | None = None,
) -> tuple[float, Tables]:
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
    rates, penalties
        A rate of 0 leaves what it belongs to as it is, so without biases theirs is 0.
    seed
        Of the order of a user's ratings: a function of seed and user alone.
    side_offsets, side_ids
        N(u): (users + 1,) and (identities,), without duplicates; None: no conditioning.

    Returns
    -------
    The sum of e^2, each taken before its update, in float64; and ``tables``.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, or a number of a user visited is out of range.

    Notes
    -----
    Re-entrant on different tables; releases the GIL; the same arguments give the same bits on one
    machine. Rates that are too large diverge to NaN, which the sum then shows.
    """
    result: tuple[float, Tables] = resolve("rating_sgd")(
        offsets, item_ids, values, users, tables, mean, rates, penalties, seed,
        side_offsets, side_ids,
    )  # fmt: skip
    return result
