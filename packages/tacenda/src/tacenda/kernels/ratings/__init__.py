"""Operations of the rating models: gradient descent, block solves, scores, restricted Boltzmann machines.

Tables are float32. On a CUDA device floating arrays are torch tensors there; numbers of users, items and cases, and
offsets, may be arrays or tensors. Operations are re-entrant on different tables and release the GIL; the same arguments
give the same bits on one kind of device. Rates that are too large diverge to NaN, which the errors returned then show.
"""

from typing import Annotated, Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import Array, Float32, Int, Int32, Int64, Offsets, below
from tacenda.errors import KernelError
from tacenda.kernels.machinery.xorshift import states, uniforms
from tacenda.kernels.operation import cast, check_range, convert_like, host, in_place, operation

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

    -1 is for what is unknown, which then adds nothing.
    """
    out = np.empty(len(users), np.float32)
    for k, (u, i) in enumerate(zip(users, items, strict=True)):
        score = float(mean)
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
    """The learned parameters p, q, b, c and w; w has no rows where there is no conditioning."""

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
    """All ratings by user, and v, how much those of each user weigh (1 if None)."""

    offsets: Offsets[Array, "users ratings"]
    item_ids: Int32[Array, "ratings", host]
    values: Float32[Array, "ratings", cast]
    weights: Float32[Array, "users"] | None = None


class Identities(NamedTuple):
    """N(u), the items that each user is known to have rated, without duplicates."""

    offsets: Offsets[Array, "users identities"]
    item_ids: Int32[Array, "identities", host]


_FEW = 8  # times as long as a look at an id takes to find it first


def _complete_sgd(
    ratings: ByUser,
    users: Any,
    tables: Tables,
    mean: float,
    rates: Rates,
    penalties: Penalties,
    seed: int,
    sides: Identities | None,
) -> tuple[Any, ...]:
    """Return the arguments of `rating_sgd` with penalties and weights for every row. Raises KernelError."""
    n_users, n_items = len(tables.user_factors), len(tables.item_factors)
    if len(tables.side_factors) not in (0, n_items):
        raise KernelError(
            f"side_factors must have {n_items} rows or none, not {len(tables.side_factors)}"
        )
    found = {}
    for name in Penalties._fields[:4]:
        n = n_users if name.startswith("user") else n_items
        found[name] = _broadcast(np.asarray(getattr(penalties, name), np.float32), (n,), name)
    _check_ids(ratings.offsets, ratings.item_ids, users, n_items, "item ids")
    if not len(tables.side_factors):
        sides = None
    if sides is not None and sides.item_ids is not ratings.item_ids:
        _check_ids(sides.offsets, sides.item_ids, users, n_items, "side ids")
    if ratings.weights is None:
        ratings = ratings._replace(weights=np.ones(n_users, np.float32))
    penalties = Penalties(**found, side=penalties.side)
    return ratings, users, tables, mean, rates, penalties, seed, sides


def _check_ids(offsets: Any, ids: Any, users: Any, n_items: int, what: str) -> None:
    """Check the ids of the users visited: an epoch in many small batches should not look at all ids every time."""
    lengths = np.diff(offsets)[users]
    if lengths.sum() * _FEW < len(ids):
        firsts = offsets[users] - np.cumsum(lengths) + lengths
        ids = ids[np.repeat(firsts, lengths) + np.arange(lengths.sum())]
    check_range(ids, n_items, what)


def _broadcast(array: Any, shape: tuple[int, ...], name: str) -> Any:
    """Return an array or tensor broadcast to a shape, in C order. Raises KernelError."""
    try:
        if isinstance(array, np.ndarray):
            return np.ascontiguousarray(np.broadcast_to(array, shape))
        return array.broadcast_to(shape).contiguous()
    except (ValueError, RuntimeError):
        raise KernelError(
            f"{name} are {tuple(array.shape)} and must be {shape}, or broadcast to it"
        ) from None


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
    """Visit ``users`` in the order given, and step along the gradient of each of their ratings, in place.

        r_ui ~ mean + b_u + c_i + x_u . q_i,    x_u = p_u + s_u,    s_u = sum_{j in N(u)} w_j / |N(u)|

    p, q: factors of users and items; b, c: their biases; w: conditioning factors, by which the identities N(u) of the
    items a user has rated, ``sides``, say what to expect of the user (Mnih 2010, eqs 5.20 and 5.22, with
    p_u = U_u - mu_U). With e = v_u (r - prediction), for each rating of user u, in a random order

        b += beta_u (e - eta_u b),    c_i += beta_i (e - eta_i c_i),
        q_i += alpha_i (e x - lambda_i q_i),    x += alpha_u (e q_i - lambda_u (x - s_u)),    both from old values

    and after the user's last rating, with g the sum of e q_i over the ratings, for each j in N(u)

        w_j += gamma / |N(u)| (g - lambda_w w_j).

    The penalties count once for every rating. Each user and each item has its own, so that rows of few ratings can be
    held back more, as a prior of fixed width would. A rate of 0 leaves what it belongs to as it is. The order of a
    user's ratings is a function of seed and user alone; a user without ratings is passed over.

    A user's factors stay in the first-level cache for the whole visit, which is what makes this several times as fast
    as ratings in random order once the tables are larger than the caches.

    Returns
    -------
    The sum of (r - prediction)^2 over the ratings of each user visited, every one from before its update, (visited,);
    and ``tables``.
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
    for table, found in zip(tables, (p, q, b, c, w), strict=True):
        table[...] = found
    return errors, tables


def shuffle(n: int, seed: int, user: int) -> list[int]:
    """Return a permutation of 0 .. n - 1, which depends on both numbers: Fisher-Yates."""
    random, places = states(seed, user), list(range(n))
    for k in range(n - 1, 0, -1):
        j = (int(next(random)) >> 33) % (k + 1)
        places[k], places[j] = places[j], places[k]
    return places


# -- gradient descent, many rows at once -------------------------------------------------------------


class Visits(NamedTuple):
    """The ratings of the rows that are visited, one row after another, and which row of the side each is.

    No row is visited twice. Many ratings first is fastest on a device.
    """

    offsets: Offsets[Array, "visited ratings"]
    ids: Int[Array, "ratings", below("others")]
    values: Float32[Array, "ratings"]
    rows: Int[Array, "visited", below("rows")]


class Side(NamedTuple):
    """One side of the table, numbered as in the model: y and b, changed in place, lambda, eta and v."""

    factors: Float32[Array, "rows width", in_place]
    biases: Float32[Array, "rows", in_place]
    factor_penalties: Float32[Array, "rows"]
    bias_penalties: Float32[Array, "rows"]
    weights: Float32[Array, "rows"]


class Others(NamedTuple):
    """The other side of the table, which is held: z, c and w."""

    factors: Float32[Array, "others width"]
    biases: Float32[Array, "others"]
    weights: Float32[Array, "others"]


class Visited(NamedTuple):
    """Parameters that visits changed, and sums over the ratings visited."""

    factors: Any  # those of the side, changed in place
    biases: Any
    #: The sum of (r - prediction)^2 over the ratings of each row (visited,), every one from before its step.
    errors: Any
    #: The sum of e z_i likewise (visited, width); no rows without a prior.
    sums: Any


@operation
def rating_visits(
    visits: Visits,
    side: Side,
    others: Others,
    mean: float,
    rates: tuple[float, float],
    seed: int,
    prior: Float32[Array, "visited width"] | None = None,
) -> Visited:
    """Visit rows, each on its own, while the other side of the table stays as it is.

        r_ui ~ mean + b_u + c_i + x_u . z_i,    x_u = y_u + s_u

    For each row u, and each of its ratings in an order that depends on seed and row alone, with
    e = v_u w_i (r - prediction), as a rating weighs v_u w_i,

        y_u += alpha (e z_i - lambda_u y_u),    b_u += beta (e - eta_u b_u),    both from old values.

    s_u is what is known of the row beforehand, the mean of its ``prior``; without one it is zero. Rows do not see each
    other, so they can be visited side by side: users with the items held, then items with the users held. `rating_sgd`
    changes both sides at every rating instead, one user after another. A rate of 0 leaves what it belongs to as it is.

    The order is that of the arrays, from a place drawn at random to the end, and then from the beginning.
    """
    y, b = side.factors.astype(np.float64), side.biases.astype(np.float64)
    z, c = others.factors.astype(np.float64), others.biases.astype(np.float64)
    alpha, beta = rates
    n_rows = len(visits.rows)
    errors, sums = np.zeros(n_rows), np.zeros((n_rows, y.shape[1]))
    for k, u in enumerate(visits.rows):
        start, n = int(visits.offsets[k]), int(visits.offsets[k + 1] - visits.offsets[k])
        s = np.zeros(y.shape[1]) if prior is None else prior[k].astype(np.float64)
        first = (int(next(states(seed, int(u)))) >> 33) % max(n, 1)
        for place in range(first, first + n):
            i, r = visits.ids[start + place % n], visits.values[start + place % n]
            e = r - mean - b[u] - c[i] - (y[u] + s) @ z[i]
            errors[k] += e * e
            e *= float(side.weights[u]) * float(others.weights[i])
            sums[k] += e * z[i]
            y[u] += alpha * (e * z[i] - side.factor_penalties[u] * y[u])
            b[u] += beta * (e - side.bias_penalties[u] * b[u])
    side.factors[...], side.biases[...] = y, b
    found = sums if prior is not None else sums[:0]
    return Visited(side.factors, side.biases, errors.astype(np.float32), found.astype(np.float32))


# -- a ridge regression for every row ----------------------------------------------------------------

#: How many numbers of gathered rows, or of systems, a device holds at a time.
AT_ONCE = 1 << 25


class Targets(NamedTuple):
    """The targets t_ui, row after row, and the rows of the table that they belong to."""

    offsets: Offsets[Array, "rows targets"]
    ids: Int32[Array, "targets", below("columns")]
    values: Float32[Array, "targets", cast]


_SETTLED = 1e-20  # the square of a gradient after which a row is left alone


def bytes_needed(rows: int, targets: int, width: int) -> int:
    """Return the bytes that a device needs for the solves, at most, besides arguments and result."""
    numbers = width * max(2 * targets, rows * width)
    return 28 * min(numbers, AT_ONCE) + 16 * targets + 4 * width * rows


def _complete_solves(
    targets: Targets, table: Any, means: Any, precision: Any, weight: Any, noise: Any, scaled: bool
) -> tuple[Any, ...]:
    """Return the arguments of `rating_solves` with means and weights for every row. Raises KernelError."""
    rows, width = len(targets.offsets) - 1, table.shape[1]
    means = _broadcast(convert_like(means, np.float32, table), (rows, width), "means")
    weights = _broadcast(convert_like(weight, np.float64, table), (rows,), "weights")
    precision = convert_like(precision, np.float64, table)
    if tuple(precision.shape) != (width, width):
        raise KernelError(f"precision must be {(width, width)}, not {tuple(precision.shape)}")
    return targets, table, means, precision, weights, noise, bool(scaled)


class Solved(NamedTuple):
    """Solutions for every row (rows, width), float32: expected, and drawn; the same without noise."""

    means: Any
    draws: Any


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
    least squares and the fold-in of a user; with standard normal noise x_u is a draw from its posterior
    N(A_u^{-1} (...), A_u^{-1}), the step of Gibbs sampling (Salakhutdinov and Mnih 2008, eqs 11-13), and its mean is
    returned too. A bias is a column
    of ones in z. Products over targets are in float32, the solves in float64.

    Parameters
    ----------
    table
        z.
    means
        m (rows, width), or (width,) for all rows.
    precision
        P (width, width), symmetric and positive definite where a row has fewer targets than width; on the host or where
        the table is.
    weight
        alpha, the precision of a target: one number, or (rows,).
    noise
        e; zeros if None.
    scaled
        Whether s_u is the number of targets and not 1; a row without any is then its mean.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, an id is out of range or A_u is not positive definite.
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
        except np.linalg.LinAlgError as error:
            raise KernelError(f"the system of row {u} is not positive definite") from error
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
    tau: SupportsFloat,
    noise: Float32[Array, "rows width", cast],
) -> NDArray[Any]:
    """Draw the links w_j of a sparse regression one after the other, each given all others: (rows, width), float32.

        X = F W + E,    rows of E ~ N(0, Lambda^{-1}),    w_j ~ N(0, (tau Lambda)^{-1})

    A step of Gibbs sampling from their posterior, at the price of two products with F.

    Parameters
    ----------
    transposed
        F, column after column: the rows u that column j has, and f_uj.
    left
        X - F W for the ``links`` W before.
    noise
        Rows from N(0, Lambda^{-1}).
    """
    out, left = np.array(links), left.astype(np.float64)
    for j in range(len(out)):
        span = slice(transposed.offsets[j], transposed.offsets[j + 1])
        u, f = transposed.ids[span], transposed.values[span].astype(np.float64)
        size = f @ f + float(tau)
        change = (f @ left[u] - float(tau) * out[j]) / size + noise[j] / size**0.5
        left[u] -= f[:, None] * change
        out[j] += change
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
    """Take ``steps`` of conjugate gradients from ``start`` towards what `rating_solves` finds for choices, in float32.

        (P + a sum_i y_i y_i^T) x_u = (1 + a) sum_i y_i

    over the items i that row u has chosen, with the precision P and a, the ``confidence``; a step costs as much as
    two looks at the factors of these items, and one at P. Three steps of each of many sweeps come to the same as exact
    solves (Takacs, Pilaszy and Tikk 2011); a row without choices that starts at zero stays there.
    """
    out = np.array(start)
    for u in range(len(out)):
        y = table[ids[offsets[u] : offsets[u + 1]]].astype(np.float64)
        A = precision + confidence * y.T @ y
        x = start[u].astype(np.float64)
        r = (1 + confidence) * y.sum(axis=0) - A @ x
        p, size = r, r @ r
        for _ in range(steps):
            if size < _SETTLED:
                break
            step = size / (p @ A @ p)
            x, r = x + step * p, r - step * A @ p
            p, size = r + (r @ r) / size * p, r @ r
        out[u] = x
    return out


# -- restricted Boltzmann machines of ratings --------------------------------------------------------


class Cases(NamedTuple):
    """Observations of every case, a user or an item: its ratings, case after case, and its identities.

    ``ids`` are visible units, ``levels`` the numbers of the levels, ``slopes`` o: how much higher than usual its
    ratings are. ``side_ids`` are the identities of a case, by which the hidden units are conditioned.
    """

    offsets: Offsets[Array, "cases ratings"]
    ids: Int32[Array, "ratings", below("visible")]
    levels: Int32[Array, "ratings", below("K")]
    slopes: Float32[Array, "cases", cast]
    side_offsets: Offsets[Array, "cases identities"] | None = None
    side_ids: Int32[Array, "identities", below("visible")] | None = None


class Machine(NamedTuple):
    """A restricted Boltzmann machine: a or W, b, d, U and s; no rows of U where there is no conditioning."""

    #: a (visible, hidden) for tied weights, or W (visible, K, hidden).
    weights: Float32[Array, "visible *weights", cast]
    visible_biases: Float32[Array, "visible K", cast]
    hidden_biases: Float32[Array, "hidden", cast]
    side_weights: Float32[Array, "sides hidden", cast]
    #: Scores of the levels, ascending, about zero.
    scores: Float32[Array, "K", cast]


class Divergence(NamedTuple):
    """Sums over the cases: an error, and the directions that raise the likelihood."""

    error: SupportsFloat  # the squared error of the mean scores that the first hidden states give
    weights: Any
    visible_biases: Any
    hidden_biases: Any
    side_weights: Any


class Descent(NamedTuple):
    """Learning rates, and the weights of the squared parameters: theta += rate (gradient - penalty theta)."""

    rate: float  # of the weights, those of identities too
    bias_rate: float  # of the biases of visible and hidden units
    penalty: float = 0.0
    bias_penalty: float = 0.0
    side_penalty: float = 0.0  # of the weights of identities

    @property
    def shrinks(self) -> bool:
        """Whether penalties make parameters smaller without turning their signs."""
        weights, sides = self.rate * self.penalty, self.rate * self.side_penalty
        products = weights, sides, self.bias_rate * self.bias_penalty
        return min(self.rate, self.bias_rate) >= 0 and all(0 <= each < 1 for each in products)


class Expected(NamedTuple):
    """Probabilities of the levels (pairs, K) and mean scores (pairs,), float32."""

    chances: NDArray[Any]
    means: NDArray[Any]


def _check_weights(weights: Any, biases: Any, hidden: int) -> None:
    visible, K = biases.shape
    if tuple(weights.shape) not in ((visible, hidden), (visible, K, hidden)):
        raise KernelError(
            f"weights must be {(visible, hidden)} or {(visible, K, hidden)}, not {tuple(weights.shape)}"
        )


def _complete_cases(
    cases: Cases, chosen: Any, machine: Machine, seed: int, *step: Descent
) -> tuple[Any, ...]:
    """Return arguments with no identities where there is no conditioning. Raises KernelError."""
    if step and not step[0].shrinks:
        raise KernelError(f"rates must be at least 0, and times their penalties below 1: {step[0]}")
    _check_weights(machine.weights, machine.visible_biases, len(machine.hidden_biases))
    sides = len(machine.side_weights)
    if sides not in (0, len(machine.visible_biases)):
        raise KernelError(
            f"side_weights must have {len(machine.visible_biases)} rows or none, not {sides}"
        )
    if cases.side_offsets is None or cases.side_ids is None or not sides:
        nothing = np.zeros(len(cases.offsets), np.int64), np.empty(0, np.int32)
        cases = cases._replace(side_offsets=nothing[0], side_ids=nothing[1])
    return cases, chosen, machine, seed % (1 << 64), *step


@operation(prepare=_complete_cases)
def boltzmann_divergence(
    cases: Cases,
    chosen: Int64[Array, "chosen", below("cases"), host],
    machine: Machine,
    seed: int,
) -> Divergence:
    """Find the contrastive-divergence gradients of the cases ``chosen``, added up, in new arrays.

    A case c has one visible unit for everything it has a rating with, of K levels; only these take part. With hidden
    units h and the levels' scores s

        P(r_m = k | h) ~ exp(b_mk + s_k o_c + W_mk . h),    P(h_j = 1 | r) = sigma(d_j + sum_f U_fj + sum_m W_{m r_m j})

    (Mnih 2010, eqs 5.7, 5.8 and 5.12). Tied weights W_mk = s_k a_m make the levels ordered and their number of weights
    K times smaller. The gradient is that of one step of Gibbs sampling from the data (eqs 5.4 to 5.6, 5.15), with
    probabilities instead of hidden states wherever these are not fed back. Cost: ratings x H x (K + 3) multiply-adds;
    nothing of the size of all visible units by cases appears.

    A case's random numbers are a function of seed and case alone, the same on every device.
    """
    s = machine.scores.astype(np.float64)
    W, b, d, U = _untie(machine.weights, s), *machine[1:4]
    d_W, d_b, d_d, d_U = np.zeros(W.shape), np.zeros(b.shape), np.zeros(d.shape), np.zeros(U.shape)
    error = 0.0
    for c in chosen:
        m, r, f = _parts_of(cases, c)
        bias = d.astype(np.float64) + U[f].sum(axis=0)
        found = _recall((c, m, r, cases.slopes[c]), W, b, bias, s, seed)
        error += found.error
        _follow(found, m, r, f, 1.0, 1.0, (d_W, d_b, d_d, d_U))
    if machine.weights.ndim == 2:
        d_W = np.einsum("mkh,k->mh", d_W, s)
    return Divergence(error, *(part.astype(np.float32) for part in (d_W, d_b, d_d, d_U)))


@operation(prepare=_complete_cases)
def boltzmann_descent(
    cases: Cases,
    chosen: Int64[Array, "chosen", below("cases"), host],
    machine: Annotated[Machine, in_place],
    seed: int,
    descent: Descent,
) -> float:
    """Step along the contrastive-divergence gradient of one case after another, in place (Mnih 2010, section 5.4.2).

    The arguments are as in `boltzmann_divergence`; parameters are changed after every case, in the order of ``chosen``:
    theta += rate (gradient - penalty theta). A case without ratings and identities makes the parameters smaller, as
    every step does.

    A visible unit that a case does not have is left alone: it is made smaller by (1 - rate penalty)^n when a case that
    has it comes n steps later, or at the end. A run of cases costs as much as their ratings, and one visit of all
    tables.

    Returns
    -------
    The squared error of the mean scores that the first hidden states give, each case before its step, in float64.
    """
    s = machine.scores.astype(np.float64)
    a, own_b, own_d, own_U = (part.astype(np.float64) for part in machine[:4])
    rate, bias_rate, penalty, bias_penalty, side_penalty = descent
    error = 0.0
    for c in chosen:
        m, r, f = _parts_of(cases, c)
        W, bias = _untie(a, s), own_d + own_U[f].sum(axis=0)
        found = _recall((c, m, r, cases.slopes[c]), W, own_b, bias, s, seed)
        error += found.error
        a *= 1 - rate * penalty
        own_U *= 1 - rate * side_penalty
        own_b *= 1 - bias_rate * bias_penalty
        own_d *= 1 - bias_rate * bias_penalty
        d_W = np.zeros(W.shape)
        _follow(found, m, r, f, rate, bias_rate, (d_W, own_b, own_d, own_U))
        a += np.einsum("mkh,k->mh", d_W, s) if a.ndim == 2 else d_W
    for part, own in zip(machine, (a, own_b, own_d, own_U), strict=False):
        part[...] = own
    return error


def _check_pairs(
    visible: Any, cases: Any, weights: Any, biases: Any, activations: Any, *_: Any
) -> None:
    _check_weights(weights, biases, activations.shape[1])


@operation(prepare=_check_pairs)
def boltzmann_expectations(
    visible: Int64[Array, "pairs", below("visible", -1)],
    cases: Int64[Array, "pairs", below("cases", -1)],
    weights: Float32[Array, "visible *weights"],
    visible_biases: Float32[Array, "visible K"],
    activations: Float32[Array, "cases hidden"],
    scores: Float32[Array, "K"],
    slopes: Float32[Array, "cases"],
) -> Expected:
    """Find the distribution over the levels of pairs of a visible unit and a case, by mean field (eq 5.11).

        P(r_m = k) ~ exp(b_mk + s_k o_c + W_mk . p_c)

    -1 is the last row of the tables, which is there for what is unknown. p, ``activations``, are the probabilities of
    the hidden units of every case; the rest is as in `Machine` and `Cases`. A pair does not depend on the others.
    """
    s = scores.astype(np.float64)
    W = _untie(weights, s)
    chances = np.empty((len(visible), len(s)))
    for n, (m, c) in enumerate(zip(visible, cases, strict=True)):
        chances[n] = _softmax(visible_biases[m] + s * slopes[c] + W[m] @ activations[c])
    return Expected(chances.astype(np.float32), (chances @ s).astype(np.float32))


def _parts_of(cases: Cases, c: int) -> tuple[Any, Any, Any]:
    """Return the visible units and levels of a case, and its identities."""
    own = slice(cases.offsets[c], cases.offsets[c + 1])
    sides = slice(cases.side_offsets[c], cases.side_offsets[c + 1])  # type: ignore[index]
    return cases.ids[own], cases.levels[own], cases.side_ids[sides]  # type: ignore[index]


class _Recalled(NamedTuple):
    """The outcome of one step of Gibbs sampling for a case."""

    data: Any  # probabilities of the hidden units given the ratings
    p: Any  # and given the levels recalled
    levels: Any
    error: float


def _recall(
    case: tuple[int, Any, Any, Any], W: Any, b: Any, bias: Any, s: Any, seed: int
) -> _Recalled:
    """Make a step of Gibbs sampling, h ~ P(h | r) (eq 5.12) and r ~ P(r | h) (eq 5.8)."""
    c, m, r, slope = case
    random = uniforms(seed, c)
    data = _sigmoid(bias + W[m, r].sum(axis=0))
    h = np.array([float(next(random) < chance) for chance in data])
    chances = _softmax(b[m] + s * slope + W[m] @ h)
    error = float(((chances @ s - s[r]) ** 2).sum())
    recalled = np.array([_draw(next(random), row) for row in chances], int)
    return _Recalled(data, _sigmoid(bias + W[m, recalled].sum(axis=0)), recalled, error)


def _follow(
    found: _Recalled, m: Any, r: Any, f: Any, rate: float, bias_rate: float, into: tuple[Any, ...]
) -> None:
    """Add what the data say less what is recalled, times the rates."""
    W, b, d, U = into
    np.add.at(W, (m, r), rate * found.data)
    np.subtract.at(W, (m, found.levels), rate * found.p)
    np.add.at(b, (m, r), bias_rate)
    np.subtract.at(b, (m, found.levels), bias_rate)
    d += bias_rate * (found.data - found.p)
    U[f] += rate * (found.data - found.p)


def _untie(weights: Any, s: Any) -> Any:
    """Return W (visible, K, hidden); tied weights are a_m with W_mk = s_k a_m."""
    return weights[:, None, :] * s[:, None] if weights.ndim == 2 else weights.astype(np.float64)


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def _softmax(x: Any) -> Any:
    p = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return p / p.sum(axis=-1, keepdims=True)


def _draw(u: float, chances: Any) -> int:
    """Return the level that the number u in [0, 1) falls on."""
    return min(int(np.searchsorted(np.cumsum(chances), u, "left")), len(chances) - 1)
