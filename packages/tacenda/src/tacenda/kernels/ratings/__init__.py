"""Operations of the rating models: scores, gradient descent, and a regression for every row.

Tables are float32. A CUDA device runs `rating_scores`, `rating_visits` and `rating_solves`; floating arrays are torch
tensors there, and numbers of users and items, and offsets, may be arrays or tensors. Operations are re-entrant on
different tables and release the GIL; the same arguments give the same bits on one kind of device. With too large rates
the parameters and the errors become NaN.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.array_ops import zeros
from tacenda.arrays import Array, Float32, Int, Int32, Int64, Offsets, below
from tacenda.errors import KernelError
from tacenda.kernels.machinery.arguments import cast, check_range, convert_like, host, in_place
from tacenda.kernels.machinery.xorshift import generate_states
from tacenda.kernels.operation import operation

# -- scores ------------------------------------------------------------------------------------------


@operation
def rating_scores(
    users: Int64[Array, "pairs", below("users", -1)],
    items: Int64[Array, "pairs", below("items", -1)],
    user_factors: Float32[Array, "users factors"],
    item_factors: Float32[Array, "items factors"],
    user_biases: Float32[Array, "users"],
    item_biases: Float32[Array, "items"],
    mean: float,
) -> NDArray[Any]:
    """Score pairs of a user and an item: mean + b_u + c_i + x_u . q_i, (pairs,) float32.

    -1 stands for an unknown user or item, which adds nothing.
    """
    out = np.empty(len(users), np.float32)
    for k, (u, i) in enumerate(zip(users, items, strict=True)):
        score = mean
        if u >= 0:
            score += float(user_biases[u])
        if i >= 0:
            score += float(item_biases[i])
        if u >= 0 and i >= 0:
            score += float(user_factors[u].astype(np.float64) @ item_factors[i])
        out[k] = score
    return out


# -- gradient descent, a user at a time --------------------------------------------------------------


class Tables(NamedTuple):
    """The learned parameters p, q, b, c and w; w has no rows without conditioning."""

    user_factors: Float32[Array, "users factors", in_place]
    item_factors: Float32[Array, "items factors", in_place]
    user_biases: Float32[Array, "users", in_place]
    item_biases: Float32[Array, "items", in_place]
    side_factors: Float32[Array, "sides factors", in_place]


class Rates(NamedTuple):
    """Learning rates: alpha_u, alpha_i, beta_u, beta_i and gamma."""

    user_factors: float
    item_factors: float
    user_biases: float
    item_biases: float
    side: float = 0.0


class Penalties(NamedTuple):
    """Weights of the squared parameters: lambda_u, lambda_i, eta_u and eta_i, of all rows or of each, and lambda_w."""

    user_factors: Any = 0.0
    item_factors: Any = 0.0
    user_biases: Any = 0.0
    item_biases: Any = 0.0
    side: float = 0.0


class ByUser(NamedTuple):
    """All ratings by user, and v, the weight of each user's ratings (1 if None)."""

    offsets: Offsets[Array, "users ratings"]
    item_ids: Int32[Array, "ratings", host]
    values: Float32[Array, "ratings", cast]
    weights: Float32[Array, "users"] | None = None


class Identities(NamedTuple):
    """N(u), the items that each user is known to have rated, without duplicates."""

    offsets: Offsets[Array, "users identities"]
    item_ids: Int32[Array, "identities", host]


#: Ids are checked together unless those of the visited users are so many times fewer: to gather an id takes as long
#: as to check some of them.
_CHECKS_PER_GATHER = 8


def _complete_sgd(
    ratings: ByUser, users: Any, tables: Tables, penalties: Penalties, sides: Identities | None
) -> dict[str, Any]:
    """Return penalties and weights for every row, and the identities if they are used. Raises KernelError."""
    n_users, n_items = len(tables.user_factors), len(tables.item_factors)
    if len(tables.side_factors) not in (0, n_items):
        raise KernelError(
            f"side_factors must have {n_items} rows or none, not {len(tables.side_factors)}"
        )
    by_row = {}
    for name, given in zip(Penalties._fields[:4], penalties[:4], strict=True):
        n = n_users if name.startswith("user") else n_items
        by_row[name] = _broadcast(name, given, np.float32, (n,), tables.user_factors)
    _check_ids(ratings.offsets, ratings.item_ids, users, n_items, "item ids")
    if not len(tables.side_factors):
        sides = None
    if sides is not None and not (
        sides.item_ids is ratings.item_ids and sides.offsets is ratings.offsets
    ):
        _check_ids(sides.offsets, sides.item_ids, users, n_items, "side ids")
    if ratings.weights is None:
        ratings = ratings._replace(weights=np.ones(n_users, np.float32))
    penalties = Penalties(**by_row, side=penalties.side)
    return {"ratings": ratings, "penalties": penalties, "sides": sides}


def _check_ids(offsets: Any, ids: Any, users: Any, n_items: int, what: str) -> None:
    """Check the ids of the visited users only, so that an epoch in small batches need not check all ids every time."""
    lengths = np.diff(offsets)[users]
    if lengths.sum() * _CHECKS_PER_GATHER < len(ids):
        firsts = offsets[users] - np.cumsum(lengths) + lengths
        ids = ids[np.repeat(firsts, lengths) + np.arange(lengths.sum())]
    check_range(ids, n_items, what)


def _broadcast(name: str, given: Any, dtype: Any, shape: tuple[int, ...], like: Any) -> Any:
    """Return a number or an array in a dtype, broadcast to a shape, where ``like`` is. Raises KernelError."""
    is_here = like.__class__ is np.ndarray
    if is_here and given.__class__ is float:
        return np.full(shape, given, dtype)
    if is_here and given.__class__ is np.ndarray and (given.dtype, given.shape) == (dtype, shape):
        return np.ascontiguousarray(given)
    array = convert_like(name, given, dtype, like)
    spread = zeros(shape, array)
    try:
        spread[...] = array
    except (ValueError, RuntimeError):
        found = tuple(array.shape)
        raise KernelError(f"{name} must be {shape}, or broadcast to it, not {found}") from None
    return spread


@operation(prepare=_complete_sgd)
def rating_sgd(
    ratings: ByUser,
    users: Int64[Array, "visited", below("users"), host],
    tables: Tables,
    mean: float,
    rates: Rates,
    penalties: Penalties,
    seed: int,
    sides: Identities | None = None,
) -> tuple[NDArray[np.float64], Tables]:
    """Visit ``users`` in the order given, and take a gradient step for each of their ratings, in place.

        r_ui ~ mean + b_u + c_i + x_u . q_i,    x_u = p_u + s_u,    s_u = sum_{j in N(u)} w_j / |N(u)|

    p, q are factors of users and items, b, c their biases, and w conditioning factors of N(u), the items that user u is
    known to have rated, ``sides`` (Mnih 2010, eqs 5.20 and 5.22, with p_u = U_u - mu_U). With e = v_u (r - prediction),
    for each rating of user u, in a random order

        b += beta_u (e - eta_u b),    c_i += beta_i (e - eta_i c_i),
        q_i += alpha_i (e x - lambda_i q_i),    x += alpha_u (e q_i - lambda_u (x - s_u)),    both from old values

    and after the user's last rating, with g the sum of e q_i over the ratings, for each j in N(u)

        w_j += gamma / |N(u)| (g - lambda_w w_j).

    A penalty applies once for every rating. Each user and each item has its own, so that rows of few ratings can be
    shrunk more, as by a prior of fixed width. Parameters with a rate of 0 do not change; with ``sides`` p is rounded,
    as s is added and subtracted. The order of a user's ratings is a function of seed and user alone; users without
    ratings are skipped.

    A user's factors stay in the first-level cache for the whole visit, so that for tables larger than the caches this
    is several times as fast as ratings in random order.

    Returns the sum of (r - prediction)^2 over the ratings of each visited user, each before its update, float64
    (visited,); and ``tables``.
    """
    offsets, item_ids, values, weights = ratings
    p, q, b, c, w = (table.astype(np.float64) for table in tables)
    lambda_u, lambda_i, eta_u, eta_i = (np.asarray(each) for each in penalties[:4])
    errors = np.zeros(len(users))
    for k, u in enumerate(users):
        start, stop = offsets[u], offsets[u + 1]
        if start == stop:
            continue
        known = np.empty(0, int)
        if sides is not None:
            known = sides.item_ids[sides.offsets[u] : sides.offsets[u + 1]]
        s = w[known].sum(axis=0) / max(len(known), 1)
        x, g = p[u] + s, np.zeros_like(s)
        for place in shuffle(int(stop - start), seed, int(u)):
            i = item_ids[start + place]
            e = values[start + place] - mean - b[u] - c[i] - x @ q[i]
            errors[k] += e * e
            e *= float(weights[u])  # type: ignore[index]
            g += e * q[i]
            b[u] += rates.user_biases * (e - eta_u[u] * b[u])
            c[i] += rates.item_biases * (e - eta_i[i] * c[i])
            old_q, old_x = q[i].copy(), x.copy()
            q[i] += rates.item_factors * (e * old_x - lambda_i[i] * old_q)
            x += rates.user_factors * (e * old_q - lambda_u[u] * (old_x - s))
        p[u] = x - s
        for j in known:
            w[j] += rates.side / len(known) * (g - penalties.side * w[j])
    for table, new in zip(tables, (p, q, b, c, w), strict=True):
        table[...] = new
    return errors, tables


def shuffle(n: int, seed: int, user: int) -> list[int]:
    """Return a permutation of 0 .. n - 1, a function of seed and user, by the method of Fisher and Yates."""
    random, places = generate_states(seed, user), list(range(n))
    for k in range(n - 1, 0, -1):
        j = (int(next(random)) >> 33) % (k + 1)
        places[k], places[j] = places[j], places[k]
    return places


# -- gradient descent, many rows at once -------------------------------------------------------------


class Visits(NamedTuple):
    """The ratings of the visited rows, one row after another, and the numbers of the rows, each at most once.

    On a GPU, visits are fastest with the longest rows first.
    """

    offsets: Offsets[Array, "visited ratings"]
    ids: Int[Array, "ratings", below("others")]
    values: Float32[Array, "ratings"]
    rows: Int[Array, "visited", below("rows")]


class Side(NamedTuple):
    """The side of the table that is trained: y and b, changed in place, lambda, eta and v."""

    factors: Float32[Array, "rows width", in_place]
    biases: Float32[Array, "rows", in_place]
    factor_penalties: Float32[Array, "rows"]
    bias_penalties: Float32[Array, "rows"]
    weights: Float32[Array, "rows"]


class Others(NamedTuple):
    """The other side of the table, which is fixed: z, c and w."""

    factors: Float32[Array, "others width"]
    biases: Float32[Array, "others"]
    weights: Float32[Array, "others"]


class VisitRates(NamedTuple):
    """Learning rates of the side: alpha and beta."""

    factors: float
    biases: float


class Visited(NamedTuple):
    """Parameters that visits changed, and sums over the visited ratings."""

    #: The factors and biases of the side, changed in place.
    factors: Any
    biases: Any
    #: The sum of (r - prediction)^2 over the ratings of each row (visited,), each before its step.
    errors: Any
    #: The sum of e z_i over the ratings of each row (visited, width), each before its step; no rows without a prior.
    sums: Any


@operation
def rating_visits(
    visits: Visits,
    side: Side,
    others: Others,
    mean: float,
    rates: VisitRates,
    seed: int,
    prior: Float32[Array, "visited width"] | None = None,
) -> Visited:
    """Visit rows independently, and take a gradient step for each of their ratings; the other side is fixed.

        r_ui ~ mean + b_u + c_i + x_u . z_i,    x_u = y_u + s_u

    For each row u, and each of its ratings in an order that depends on seed and row alone, with
    e = v_u w_i (r - prediction), where v_u w_i is the weight of a rating,

        y_u += alpha (e z_i - lambda_u y_u),    b_u += beta (e - eta_u b_u),    both from old values.

    s_u is the prior mean of the row's factors, its row of ``prior``, or zero. Rows are independent, so they can be
    visited in parallel: users with fixed items, then items with fixed users. `rating_sgd` changes both sides at every
    rating instead, one user after another. Parameters with a rate of 0 do not change.

    The order is that of the arrays, from a random place to the end, and then from the beginning.
    """
    y, b = side.factors.astype(np.float64), side.biases.astype(np.float64)
    z, c = others.factors.astype(np.float64), others.biases.astype(np.float64)
    alpha, beta = rates
    n_rows = len(visits.rows)
    errors, sums = np.zeros(n_rows), np.zeros((n_rows, y.shape[1]))
    for k, u in enumerate(visits.rows):
        start, n = int(visits.offsets[k]), int(visits.offsets[k + 1] - visits.offsets[k])
        s = np.zeros(y.shape[1]) if prior is None else prior[k].astype(np.float64)
        first = (int(next(generate_states(seed, int(u)))) >> 33) % max(n, 1)
        for place in range(first, first + n):
            i, r = visits.ids[start + place % n], visits.values[start + place % n]
            e = r - mean - b[u] - c[i] - (y[u] + s) @ z[i]
            errors[k] += e * e
            e *= float(side.weights[u]) * float(others.weights[i])
            sums[k] += e * z[i]
            y[u] += alpha * (e * z[i] - side.factor_penalties[u] * y[u])
            b[u] += beta * (e - side.bias_penalties[u] * b[u])
    side.factors[...], side.biases[...] = y, b
    sums = sums if prior is not None else sums[:0]
    return Visited(side.factors, side.biases, errors.astype(np.float32), sums.astype(np.float32))


# -- a ridge regression for every row ----------------------------------------------------------------

#: The largest number of gathered numbers, or of numbers of systems, on a device at a time.
NUMBERS_AT_ONCE = 1 << 25


class Targets(NamedTuple):
    """The targets t_ui, row after row, and the row of the table of each."""

    offsets: Offsets[Array, "rows targets"]
    ids: Int32[Array, "targets", below("columns")]
    values: Float32[Array, "targets", cast]


CONVERGED = 1e-20  # the squared length of a gradient at which the steps of a row end


def bytes_of_solves(rows: int, targets: int, width: int) -> int:
    """Return the most bytes that a device needs for `rating_solves`, besides arguments and result."""
    numbers = width * max(2 * targets, rows * width)
    # Z^T Z is float32; it as float64, A and L have eight bytes a number
    return (4 + 3 * 8) * min(numbers, NUMBERS_AT_ONCE) + 16 * targets + 4 * width * rows


def _complete_solves(
    targets: Targets, table: Any, means: Any, precision: Any, weight: Any
) -> dict[str, Any]:
    """Return means and weights for every row, and the precision, where the table is. Raises KernelError."""
    rows, width = len(targets.offsets) - 1, table.shape[1]
    means = _broadcast("means", means, np.float32, (rows, width), table)
    weight = _broadcast("weight", weight, np.float64, (rows,), table)
    precision = convert_like("precision", precision, np.float64, table)
    if tuple(precision.shape) != (width, width):
        raise KernelError(f"precision must be {(width, width)}, not {tuple(precision.shape)}")
    return {"means": means, "precision": precision, "weight": weight}


class Solved(NamedTuple):
    """Solutions for every row (rows, width), float32."""

    means: Any  # without noise
    draws: Any  # with noise


@operation(prepare=_complete_solves)
def rating_solves(
    targets: Targets,
    table: Float32[Array, "columns width", cast],
    means: Any,
    precision: Any,
    weight: Any = 1.0,
    noise: Float32[Array, "rows width", cast] | None = None,
    scaled: bool = False,
) -> Solved:
    """Solve a ridge regression for every row u of a sparse table.

        A_u = s_u P + alpha_u sum_i z_i z_i^T,    x_u = A_u^{-1} (s_u P m_u + alpha_u sum_i t_ui z_i) + L_u^{-T} e_u

    over the items i that row u has targets for, with A_u = L_u L_u^T. Without noise e this is the step of alternating
    least squares and the fold-in of a user. With standard normal noise x_u is a draw from its posterior
    N(A_u^{-1} (...), A_u^{-1}), the step of Gibbs sampling (Salakhutdinov and Mnih 2008, eqs 11-13). A bias is a column
    of ones in z. Products over targets are in float32, the solves in float64.

    Parameters
    ----------
    table
        z.
    means
        m (rows, width), or (width,) for all rows.
    precision
        P (width, width), symmetric, and positive definite if a row has fewer targets than width; on the host or on the
        device of the table.
    weight
        alpha, the precision of a target: one number, or (rows,).
    noise
        e; zeros if None.
    scaled
        Whether s_u is the number of targets of row u, and not 1. The solution for a row without targets is its mean.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, an id is out of range, or A_u is not positive definite, or has NaN.
    """
    out = Solved(np.array(means), np.array(means))
    for u in range(len(means)):
        span = slice(targets.offsets[u], targets.offsets[u + 1])
        z = table[targets.ids[span]].astype(np.float64)
        if scaled and not len(z):
            continue
        P = precision * (len(z) if scaled else 1)
        A = P + weight[u] * z.T @ z
        try:
            L = np.linalg.cholesky(A)
        except np.linalg.LinAlgError:
            L = np.full_like(A, np.nan)
        if np.isnan(L.diagonal()).any():
            raise KernelError(f"the system of row {u} is not positive definite")
        x = np.linalg.solve(A, P @ means[u] + weight[u] * z.T @ targets.values[span])
        out.means[u] = x
        if noise is not None:
            x += np.linalg.solve(L.T, noise[u].astype(np.float64))
        out.draws[u] = x
    return out


@operation
def link_draws(
    transposed: Targets,
    left: Float32[Array, "columns width", cast],
    links: Float32[Array, "rows width", cast],
    tau: float,
    noise: Float32[Array, "rows width", cast],
) -> NDArray[Any]:
    """Draw the links w_j of a sparse regression one after another, each given all others.

        X = F W + E,    rows of E ~ N(0, Lambda^{-1}),    w_j ~ N(0, (tau Lambda)^{-1})

    This is a step of Gibbs sampling from the posterior of W, at the cost of two products with F.

    ``transposed`` is F, column after column: the rows u that column j has, and f_uj. ``links`` are the previous W, and
    ``left`` the residuals X - F W for it; ``noise`` has a row from N(0, Lambda^{-1}) for each link. Returns the new W
    (rows, width), float32.
    """
    out, left = np.array(links), left.astype(np.float64)
    for j in range(len(out)):
        span = slice(transposed.offsets[j], transposed.offsets[j + 1])
        u, f = transposed.ids[span], transposed.values[span].astype(np.float64)
        size = f @ f + tau
        step = (f @ left[u] - tau * out[j]) / size + noise[j] / size**0.5
        left[u] -= f[:, None] * step
        out[j] += step
    return out


@operation
def choice_steps(
    offsets: Offsets[Array, "rows chosen"],
    ids: Int32[Array, "chosen", below("columns")],
    table: Float32[Array, "columns width"],
    start: Float32[Array, "rows width"],
    precision: Float32[Array, "width width"],
    confidence: float,
    steps: int,
) -> NDArray[Any]:
    """Take steps of conjugate gradients towards the solutions of `rating_solves` for implicit feedback.

        (P + a sum_i y_i y_i^T) x_u = (1 + a) sum_i y_i

    over the items i that row u has chosen, with the precision P and a, the ``confidence``. A step reads the factors of
    these items twice, and P once. Three steps in each of many sweeps reach the result of exact solves (Takacs, Pilaszy
    and Tikk 2011). A row without choices that starts at zero stays zero.

    ``offsets`` and ``ids`` are the chosen items, row after row, ``table`` has y, and ``start`` x before the first step.
    Returns x (rows, width), float32.
    """
    out = np.array(start)
    for u in range(len(out)):
        y = table[ids[offsets[u] : offsets[u + 1]]].astype(np.float64)
        A = precision + confidence * y.T @ y
        x = start[u].astype(np.float64)
        r = (1 + confidence) * y.sum(axis=0) - A @ x
        p, size = r, r @ r
        for _ in range(steps):
            if size < CONVERGED:
                break
            step = size / (p @ A @ p)
            x, r = x + step * p, r - step * A @ p
            p, size = r + (r @ r) / size * p, r @ r
        out[u] = x
    return out
