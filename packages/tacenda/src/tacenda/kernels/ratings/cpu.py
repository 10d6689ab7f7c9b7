"""Operations of the rating models on the CPU: one thread, reading rows as they come."""

import numpy as np

from tacenda.errors import KernelError
from tacenda.kernels.machinery import xorshift
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import (
    LANES,
    add,
    add_up,
    load,
    multiply,
    multiply_add,
    prefetch,
    spread,
    store,
)
from tacenda.kernels.ratings import _SETTLED, Divergence, Expected, Identities, Solved, Visited

# -- rating sgd -------------------------------------------------------------------------------------
#
# The epoch on the CPU: one thread, a user's factors in the first-level cache, items prefetched.


_ROWS_AHEAD = 16  # rows that are asked for before they are needed
_X, _BACK, _SUMS = 0, 1, 2  # rows of what a visit keeps of its user
_seeded, _next = njit(xorshift.seeded), njit(xorshift.advanced)


@njit
def _shuffle(places, n, seed, user):
    """See `tacenda.kernels.ratings.shuffle`."""
    state = _seeded(seed, np.uint64(user))
    for k in range(n):
        places[k] = k
    for k in range(n - 1, 0, -1):
        state = _next(state)
        j = np.int64((state >> np.uint64(33)) % np.uint64(k + 1))
        places[k], places[j] = places[j], places[k]


@njit
def _product(own, q, i):
    """The scalar product of x and q_i."""
    width, total = q.shape[1], spread(0)
    for d in range(0, width, LANES):
        n = width - d
        total = multiply_add(load(own, d, n), load(q, i * width + d, n), total)
    return add_up(total)


@njit
def _step(own, q, i, following, keeps, steps):
    """Both factors of a rating of item i, from their old values; returns the product for the rating that follows.

        x, q_i = keep_x x + step_x q_i, keep_q q_i + step_q x,     return x . q_following

    with keep_x = 1 - alpha_u lambda_u, step_x = alpha_u e, and likewise of the item.
    """
    (keep_x, keep_q), (step_x, step_q) = keeps, steps
    width = q.shape[1]
    here, there = i * width, following * width
    keeps_x, keeps_q, total = spread(keep_x), spread(keep_q), spread(0)
    steps_x, steps_q = spread(step_x), spread(step_q)
    for d in range(0, width, LANES):
        n = width - d
        old_x, old_q = load(own, d, n), load(q, here + d, n)
        new_x = multiply_add(steps_x, old_q, multiply(keeps_x, old_x))
        store(new_x, own, d, n)
        store(multiply_add(steps_q, old_x, multiply(keeps_q, old_q)), q, here + d, n)
        # the item that follows may be this one, so its factors are read after they were written
        total = multiply_add(new_x, load(q, there + d, n), total)
    return add_up(total)


@njit(fastmath={"contract", "reassoc", "nsz"})
def _conditioned_step(own, q, i, following, keeps, steps, error):
    """The same with x = keep_x x + step_x q_i + alpha_u lambda_u s, and g += error q_i."""
    (keep_x, keep_q), (step_x, step_q) = keeps, steps
    width, total = q.shape[1], np.float32(0)
    for d in range(width):
        old_x, old_q = own[_X, d], q[i, d]
        own[_X, d] = keep_x * old_x + step_x * old_q + own[_BACK, d]
        q[i, d] = keep_q * old_q + step_q * old_x
        own[_SUMS, d] += error * old_q
    for d in range(width):
        total += own[_X, d] * q[following, d]
    return total


@njit(fastmath={"contract"})
def _side_mean(w, ids, first, last, s):
    """Fill s with the mean of w_j over j in ``ids[first:last]``."""
    width = w.shape[1]
    s[:] = 0
    for k in range(first, last):
        if k + _ROWS_AHEAD < last:
            prefetch(w, np.int64(ids[k + _ROWS_AHEAD]) * width, width)
        j = ids[k]
        for d in range(width):
            s[d] += w[j, d]
    scale = np.float32(1.0 / max(last - first, 1))
    for d in range(width):
        s[d] *= scale


@njit(fastmath={"contract"})
def _side_step(w, ids, first, last, own, rate, penalty):
    """w_j += rate / |N(u)| (g - penalty w_j) for j in ``ids[first:last]``."""
    width = w.shape[1]
    step = np.float32(rate / max(last - first, 1))
    keep = np.float32(1) - step * penalty
    for k in range(first, last):
        if k + _ROWS_AHEAD < last:
            prefetch(w, np.int64(ids[k + _ROWS_AHEAD]) * width, width)
        j = ids[k]
        for d in range(width):
            w[j, d] = keep * w[j, d] + step * own[_SUMS, d]


@njit
def _visit_users(ratings, users, tables, mean, rates, penalties, seed, sides):
    """Visit the users; return the sum of squared errors before each update (visited,)."""
    offsets, item_ids, values, weights = ratings
    side, side_offsets, side_ids = sides
    p, q, b, c, w = tables
    alpha_u, alpha_i, beta_u, beta_i, gamma = rates
    lambda_u, lambda_i, eta_u, eta_i, lambda_w = penalties
    longest, width = 0, q.shape[1]
    for u in users:
        longest = max(longest, offsets[u + 1] - offsets[u])
    places = np.empty(longest, np.int64)
    own, s = np.zeros((3, width), np.float32), np.zeros(width, np.float32)
    errors = np.zeros(len(users))
    for v in range(len(users)):
        u = users[v]
        start, n = offsets[u], offsets[u + 1] - offsets[u]
        if n == 0:
            continue
        pull = alpha_u * lambda_u[u]
        keep_x = np.float32(1) - pull
        _shuffle(places, n, seed, u)
        for k in range(min(_ROWS_AHEAD, n)):
            prefetch(q, np.int64(item_ids[start + places[k]]) * width, width)
        if side:
            _side_mean(w, side_ids, side_offsets[u], side_offsets[u + 1], s)
        for d in range(width):
            own[_X, d] = p[u, d] + s[d]
            own[_BACK, d] = pull * s[d]
            own[_SUMS, d] = 0
        bias, total = b[u], 0.0
        following = np.int64(item_ids[start + places[0]])
        product = _product(own, q, following)
        for k in range(n):
            i, value = following, values[start + places[k]]
            if k + 1 < n:
                following = np.int64(item_ids[start + places[k + 1]])
            if k + _ROWS_AHEAD < n:
                prefetch(q, np.int64(item_ids[start + places[k + _ROWS_AHEAD]]) * width, width)
            e = value - mean - bias - c[i] - product
            total += np.float64(e) * np.float64(e)
            e *= weights[u]
            bias += beta_u * (e - eta_u[u] * bias)
            c[i] += beta_i * (e - eta_i[i] * c[i])
            keeps = keep_x, np.float32(1) - alpha_i * lambda_i[i]
            steps = alpha_u * e, alpha_i * e
            if side:
                product = _conditioned_step(own, q, i, following, keeps, steps, e)
            else:
                product = _step(own, q, i, following, keeps, steps)
        b[u], errors[v] = bias, total
        for d in range(width):
            p[u, d] = own[_X, d] - s[d]
        if side:
            _side_step(w, side_ids, side_offsets[u], side_offsets[u + 1], own, gamma, lambda_w)
    return errors


def rating_sgd(ratings, users, tables, mean, rates, penalties, seed, sides):
    known = sides if sides is not None else Identities(ratings.offsets, ratings.item_ids)
    numbers = tuple(np.float32(n) for n in rates), (*penalties[:4], np.float32(penalties.side))
    errors = _visit_users(
        tuple(ratings), users, tuple(tables), np.float32(mean), *numbers, np.uint64(seed),
        (sides is not None, *known),
    )  # fmt: skip
    return errors, tables


# -- rating visits ----------------------------------------------------------------------------------
#
# The visits on the CPU: one thread, one row after another, the rows of the other side fetched ahead.


_VISITS_AHEAD = 8  # rows that are asked for before they are needed


@njit(fastmath={"contract", "reassoc", "nsz"})
def _visit_rows(visits, side, others, mean, rates, seed, prior, found):
    """Visit the rows; ``prior`` and the sums found have no rows where there is no prior."""
    offsets, ids, values, rows = visits
    y, b, lambdas, etas, v = side
    z, c, w = others
    (alpha, beta), (errors, sums) = rates, found
    width, known = y.shape[1], len(prior) > 0
    s, g = np.zeros(width, np.float32), np.zeros(width, np.float32)
    for k in range(len(rows)):
        u, start, n = rows[k], offsets[k], offsets[k + 1] - offsets[k]
        if known:
            s[:] = prior[k]
        g[:] = 0
        first = np.int64(0)
        if n > 0:
            drawn = _next(_seeded(seed, np.uint64(u))) >> np.uint64(33)
            first = np.int64(drawn % np.uint64(n))
        keep, bias, total = np.float32(1) - alpha * lambdas[u], b[u], np.float32(0)
        for place in range(first, first + n):
            at = start + (place if place < n else place - n)
            if at + _VISITS_AHEAD < start + n:
                prefetch(z, np.int64(ids[at + _VISITS_AHEAD]) * width, width)
            i = ids[at]
            e = values[at] - mean - bias - c[i]
            for d in range(width):
                e -= (y[u, d] + s[d]) * z[i, d]
            total += e * e
            e *= v[u] * w[i]
            bias += beta * (e - etas[u] * bias)
            for d in range(width):
                g[d] += e * z[i, d]
                y[u, d] = keep * y[u, d] + alpha * e * z[i, d]
        b[u], errors[k] = bias, total
        if known:
            sums[k] = g


def rating_visits(visits, side, others, mean, rates, seed, prior):
    offsets, ids, values, rows = visits
    given = offsets, ids.astype(np.int32, copy=False), values, rows.astype(np.int64, copy=False)
    known = np.zeros((0, others.factors.shape[1]), np.float32) if prior is None else prior
    errors, sums = np.empty(len(rows), np.float32), np.empty_like(known)
    _visit_rows(
        given, tuple(side), tuple(others), np.float32(mean), tuple(map(np.float32, rates)),
        np.uint64(seed % (1 << 64)), known, (errors, sums),
    )  # fmt: skip
    return Visited(side.factors, side.biases, errors, sums)


# -- rating scores ----------------------------------------------------------------------------------
#
# Scores on the CPU: one thread, with rows fetched ahead.


_AHEAD = 4  # pairs whose rows are asked for beforehand


def rating_scores(users, items, x, q, b, c, mean):
    out = np.empty(len(users), np.float32)
    _scores(users, items, x, q, b, c, np.float32(mean), out)
    return out


@njit(fastmath={"contract", "reassoc", "nsz"})
def _scores(users, items, x, q, b, c, mean, out):
    """Fill out; -1 stands for what is unknown."""
    width = x.shape[1]
    for k in range(len(users)):
        # Users and items come in any order: without this each row would be waited for.
        if k + _AHEAD < len(users):
            prefetch(x, max(np.int64(users[k + _AHEAD]), 0) * width, width)
            prefetch(q, max(np.int64(items[k + _AHEAD]), 0) * width, width)
        u, i = users[k], items[k]
        score = mean
        if u >= 0:
            score += b[u]
        if i >= 0:
            score += c[i]
        if u >= 0 and i >= 0:
            for d in range(x.shape[1]):
                score += x[u, d] * q[i, d]
        out[k] = score


# -- rating solves ----------------------------------------------------------------------------------
#
# The solves on the CPU: for each row, gather the factors it has targets for, multiply them, and solve in float64.
#
# Eight rows are solved at once. The factors of a row's targets are gathered with the targets as a last column, so that
# Z^T Z has Z^T t below it; tiles of it are summed in registers, in float32. Then the eight systems lie next to each
# other, and every number of the Cholesky factorization is eight numbers, in float64. Its last row, which was y, becomes
# the solution of L v = y; noise that is added to v makes the row a draw.


_TOGETHER = 8  # systems that are solved at once, and rows of a tile
_GATHERED = 256  # rows of factors that lie one after another


def rating_solves(targets, table, means, precision, weights, noise, scaled):
    noisy, found = noise is not None, means.copy()
    e = np.empty((0, 0), np.float32) if noise is None else noise
    out = Solved(found, found.copy() if noisy else found)
    table, prior = np.ascontiguousarray(table), (means, precision)
    failed = _solve(tuple(targets), table, prior, weights, e, noisy, scaled, tuple(out))
    if failed >= 0:
        raise KernelError(f"the system of row {failed} is not positive definite")
    return out


@njit
def _add_gram(z, n, width, gram):
    """Add Z^T Z of the first n rows of ``z`` to the lower triangle of the first ``width`` rows of ``gram``."""
    padded = z.shape[1]
    for left in range(0, width, LANES):
        for i in range(left, width, _TOGETHER):
            at = i * padded + left
            a0, a1 = load(gram, at, LANES), load(gram, at + padded, LANES)
            a2, a3 = load(gram, at + 2 * padded, LANES), load(gram, at + 3 * padded, LANES)
            a4, a5 = load(gram, at + 4 * padded, LANES), load(gram, at + 5 * padded, LANES)
            a6, a7 = load(gram, at + 6 * padded, LANES), load(gram, at + 7 * padded, LANES)
            for k in range(n):
                row = load(z, k * padded + left, LANES)
                a0 = multiply_add(spread(z[k, i]), row, a0)
                a1 = multiply_add(spread(z[k, i + 1]), row, a1)
                a2 = multiply_add(spread(z[k, i + 2]), row, a2)
                a3 = multiply_add(spread(z[k, i + 3]), row, a3)
                a4 = multiply_add(spread(z[k, i + 4]), row, a4)
                a5 = multiply_add(spread(z[k, i + 5]), row, a5)
                a6 = multiply_add(spread(z[k, i + 6]), row, a6)
                a7 = multiply_add(spread(z[k, i + 7]), row, a7)
            store(a0, gram, at, LANES)
            store(a1, gram, at + padded, LANES)
            store(a2, gram, at + 2 * padded, LANES)
            store(a3, gram, at + 3 * padded, LANES)
            store(a4, gram, at + 4 * padded, LANES)
            store(a5, gram, at + 5 * padded, LANES)
            store(a6, gram, at + 6 * padded, LANES)
            store(a7, gram, at + 7 * padded, LANES)


@njit(fastmath={"contract"})
def _factorize(A):
    """Turn the systems A (width + 1, width, 8), whose last row is y, into L, its diagonal inverted, and L^{-1} y."""
    for i in range(A.shape[0]):
        a = A[i]
        for j in range(min(i + 1, A.shape[1])):
            b = A[j]
            s0, s1, s2, s3 = a[j, 0], a[j, 1], a[j, 2], a[j, 3]
            s4, s5, s6, s7 = a[j, 4], a[j, 5], a[j, 6], a[j, 7]
            for k in range(j):
                s0 -= a[k, 0] * b[k, 0]
                s1 -= a[k, 1] * b[k, 1]
                s2 -= a[k, 2] * b[k, 2]
                s3 -= a[k, 3] * b[k, 3]
                s4 -= a[k, 4] * b[k, 4]
                s5 -= a[k, 5] * b[k, 5]
                s6 -= a[k, 6] * b[k, 6]
                s7 -= a[k, 7] * b[k, 7]
            a[j, 0], a[j, 1], a[j, 2], a[j, 3] = s0, s1, s2, s3
            a[j, 4], a[j, 5], a[j, 6], a[j, 7] = s4, s5, s6, s7
            for lane in range(_TOGETHER):
                if i != j:
                    a[j, lane] *= b[j, lane]
                elif a[j, lane] > 0:
                    a[j, lane] = 1.0 / np.sqrt(a[j, lane])
                else:  # not positive definite
                    a[j, lane] = np.inf


@njit(fastmath={"contract"})
def _back(A, y):
    """Solve L^T x = y (width, 8) in place."""
    for i in range(A.shape[1] - 1, -1, -1):
        for lane in range(_TOGETHER):
            y[i, lane] *= A[i, i, lane]
        for j in range(i):
            for lane in range(_TOGETHER):
                y[j, lane] -= A[i, j, lane] * y[i, lane]


@njit
def _solve(rows, table, prior, weights, noise, noisy, scaled, out):
    """Fill means and draws; return the first row that cannot be solved, or -1."""
    (offsets, ids, targets), (means, precision) = rows, prior
    expected, draws = out
    n_rows, width = expected.shape
    padded = (width // LANES + 1) * LANES
    z, gram = np.zeros((_GATHERED, padded), np.float32), np.empty((padded, padded), np.float32)
    A, y = np.empty((width + 1, width, _TOGETHER)), np.empty(width)
    drawn = np.empty((width, _TOGETHER))
    for first in range(0, n_rows, _TOGETHER):
        for lane in range(_TOGETHER):
            u = min(first + lane, n_rows - 1)
            n, weight = offsets[u + 1] - offsets[u], weights[u]
            gram[:] = 0
            for start in range(offsets[u], offsets[u + 1], _GATHERED):
                m = min(offsets[u + 1] - start, _GATHERED)
                for k in range(m):
                    row = table[ids[start + k]]
                    for j in range(width):
                        z[k, j] = row[j]
                    z[k, width] = targets[start + k]
                _add_gram(z, m, width + 1, gram)
            # The prior's part, s_u P and s_u P m_u, and the targets', alpha Z^T Z and alpha Z^T t.
            scale = float(max(n, 1)) if scaled else 1.0
            y[:] = 0
            for i in range(width):
                for j in range(width):
                    y[j] += precision[i, j] * means[u, i]
                for j in range(i + 1):
                    A[i, j, lane] = scale * precision[i, j] + weight * gram[i, j]
            for j in range(width):
                A[width, j, lane] = scale * y[j] + weight * gram[width, j]
        _factorize(A)
        here = min(_TOGETHER, n_rows - first)
        for lane in range(here):
            for i in range(width):
                if not A[i, i, lane] < np.inf:
                    return first + lane
                if noisy:
                    drawn[i, lane] = A[width, i, lane] + noise[first + lane, i]
        _back(A, A[width])
        if noisy:
            _back(A, drawn)
        for lane in range(here):
            if not scaled or offsets[first + lane] < offsets[first + lane + 1]:
                for i in range(width):
                    expected[first + lane, i] = A[width, i, lane]
                    if noisy:
                        draws[first + lane, i] = drawn[i, lane]
    return -1


def link_draws(transposed, left, links, tau, noise):
    out, left = links.copy(), np.array(left, order="C")
    _link_draws(tuple(transposed), left, np.float32(tau), np.ascontiguousarray(noise), out)
    return out


@njit
def _link_draws(transposed, left, tau, noise, out):
    """Fill out, in place of the links before; ``left`` is brought up to date."""
    offsets, ids, values = transposed
    width = out.shape[1]
    for j in range(len(out)):
        size = tau
        for p in range(offsets[j], offsets[j + 1]):
            size += values[p] * values[p]
        for d in range(0, width, LANES):
            at, n = j * width + d, width - d
            total = multiply(spread(-tau), load(out, at, n))
            for p in range(offsets[j], offsets[j + 1]):
                total = multiply_add(spread(values[p]), load(left, ids[p] * width + d, n), total)
            change = multiply(spread(np.float32(1) / np.sqrt(size)), load(noise, at, n))
            change = multiply_add(spread(np.float32(1) / size), total, change)
            for p in range(offsets[j], offsets[j + 1]):
                place = ids[p] * width + d
                store(
                    multiply_add(spread(-values[p]), change, load(left, place, n)), left, place, n
                )
            store(add(load(out, at, n), change), out, at, n)


def choice_steps(offsets, ids, table, start, precision, confidence, steps):
    out = start.copy()
    _choice_steps(offsets, ids, table, precision, np.float32(confidence), steps, out)
    return out


@njit
def _choice_product(rows, table, p, precision, confidence, out):
    """Fill out with (P + a sum y y^T) p."""
    out[:] = 0
    for i in range(len(p)):
        _add(p[i], precision[i], out)
    for i in rows:
        _add(confidence * _dot(table[i], p), table[i], out)


@njit
def _choice_steps(offsets, ids, table, precision, confidence, steps, out):
    width = table.shape[1]
    product = np.empty(width, np.float32)
    r, p = np.empty(width, np.float32), np.empty(width, np.float32)
    pull = np.float32(1) + confidence
    for u in range(len(out)):
        x, rows = out[u], ids[offsets[u] : offsets[u + 1]]
        _choice_product(rows, table, x, precision, confidence, product)
        r[:] = -product
        for i in rows:
            _add(pull, table[i], r)
        p[:] = r
        size = _dot(r, r)
        for _ in range(steps):
            if size < _SETTLED:
                break
            _choice_product(rows, table, p, precision, confidence, product)
            step, before = size / _dot(p, product), size
            _add(step, p, x)
            _add(-step, product, r)
            # Sums apart from stores: whether a loop with both is vectorized depends on how far apart the arrays lie.
            size = _dot(r, r)
            ratio = size / before
            for j in range(width):
                p[j] = r[j] + ratio * p[j]


# -- boltzmann --------------------------------------------------------------------------------------
#
# Contrastive divergence on the CPU: one thread, reading the weights of a case's units as they come.
#
# A step of `boltzmann_descent` makes the parameters of all units smaller. Those of a unit that the case does not have
# are left alone until they are needed, when the steps they have missed are made up for together.


_uniform = njit(xorshift.uniform)


def boltzmann_divergence(cases, chosen, machine, seed):
    own, tied = _by_level(machine), machine.weights.ndim == 2
    gradients = tuple(np.zeros_like(part) for part in own[:4])
    error = _divergence(tuple(cases), chosen, own, np.uint64(seed), tied, gradients)
    return Divergence(float(error), gradients[0].reshape(machine.weights.shape), *gradients[1:])


def boltzmann_descent(cases, chosen, machine, seed, descent):
    own, tied = _by_level(machine), machine.weights.ndim == 2
    return float(
        _descend(tuple(cases), chosen, own, np.uint64(seed), tied, tuple(map(float, descent)))
    )


def _by_level(machine):
    """The parts of a machine, with weights (visible, levels, hidden); tied ones have one level."""
    shape = len(machine.weights), -1, len(machine.hidden_biases)
    return machine.weights.reshape(shape), *machine[1:]


def boltzmann_expectations(visible, cases, weights, b, p, s, o):
    W = weights.reshape(len(weights), -1, p.shape[1])
    chances = np.empty((len(visible), len(s)), np.float32)
    means = np.empty(len(visible), np.float32)
    _expect(visible, cases, (W, b, p, s, o), weights.ndim == 2, chances, means)
    return Expected(chances, means)


@njit(fastmath={"contract", "reassoc", "nsz"})
def _dot(x, y):
    """The inner product, in float32."""
    total = np.float32(0)
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit
def _add(scale, x, y):
    """Add scale x to y."""
    for j in range(len(x)):
        y[j] += scale * x[j]


@njit
def _add_both(scale, x, other_scale, other, y):
    """Add scale x and other_scale other to y."""
    for j in range(len(x)):
        y[j] += scale * x[j] + other_scale * other[j]


@njit
def _squash(x):
    """Replace x by the logistic function of it."""
    for j in range(len(x)):
        x[j] = np.float32(1) / (np.float32(1) + np.exp(-x[j]))


@njit
def _logits(tied, W, b, s, slope, h, logits):
    """Fill the logits of the levels of one visible unit."""
    along = slope + _dot(W[0], h) if tied else slope
    for k in range(len(s)):
        logits[k] = b[k] + s[k] * along
        if not tied:
            logits[k] += _dot(W[k], h)


@njit
def _exponentials(x, s):
    """Replace logits by what the probabilities are proportional to; return their sum, and their mean score."""
    highest = np.float32(-np.inf)
    for k in range(len(x)):
        highest = max(highest, x[k])
    total, mean = np.float32(0), np.float32(0)
    for k in range(len(x)):
        x[k] = np.exp(x[k] - highest)
        total += x[k]
        mean += s[k] * x[k]
    return total, mean / total


@njit
def _draw(u, parts):
    """The level that the number u falls on, in [0, sum of parts); without a branch that could not be foreseen."""
    k, reached = 0, np.float32(0)
    for at in range(len(parts) - 1):
        reached += parts[at]
        k += u > reached
    return k


@njit
def _scratch(offsets, cases, hidden, K):
    """Make the buffers of `_recall`: four vectors of hidden units, and levels and their chances of the longest case."""
    longest = 0
    for c in cases:
        longest = max(longest, offsets[c + 1] - offsets[c])
    units = np.empty((4, hidden), np.float32)
    return units, np.empty(longest, np.int64), np.empty((longest, K), np.float32)


@njit
def _recall(c, cases, machine, seed, tied, scratch):
    """Make a step of Gibbs sampling for case c; return its error.

    Leaves in ``scratch`` what the data say of the hidden units, what is recalled of them, and the levels recalled.
    """
    units, recalled, parts = scratch
    data, p, bias, h = units[0], units[1], units[2], units[3]
    offsets, ids, levels, slopes, side_offsets, side_ids = cases
    W, b, d, U, s = machine
    start, n = offsets[c], offsets[c + 1] - offsets[c]
    state, error = _seeded(seed, np.uint64(c)), 0.0
    # The hidden units' biases, with those of the case's identities.
    bias[:] = d
    for q in range(side_offsets[c], side_offsets[c + 1]):
        _add(np.float32(1), U[side_ids[q]], bias)
    # The positive phase: probabilities of the hidden units, given the ratings.
    data[:] = bias
    for i in range(n):
        r = levels[start + i]
        _add(s[r] if tied else np.float32(1), W[ids[start + i], 0 if tied else r], data)
    _squash(data)
    # The negative phase: hidden states, levels given these, and probabilities given the levels.
    for j in range(len(h)):
        state = _next(state)
        h[j] = np.float32(1) if _uniform(state) < data[j] else np.float32(0)
    # Loops that read the rows of all units, and one that draws, are faster than a single one: the processor reads
    # ahead where no draw decides how it goes on.
    for i in range(n):
        m = ids[start + i]
        _logits(tied, W[m], b[m], s, slopes[c], h, parts[i])
    for i in range(n):
        total, mean = _exponentials(parts[i], s)
        error += np.float64(mean - s[levels[start + i]]) ** 2
        state = _next(state)
        recalled[i] = _draw(_uniform(state) * total, parts[i])
    p[:] = bias
    for i in range(n):
        k = recalled[i]
        _add(s[k] if tied else np.float32(1), W[ids[start + i], 0 if tied else k], p)
    _squash(p)
    return error


@njit
def _follow(c, cases, s, tied, scratch, rates, tables):
    """Add to W, b and U, times their rates, what the data say less what is recalled.

    Probabilities replace the last hidden states; leaves in ``scratch`` what the hidden units differ by. Tied
    weights are scaled by the score.
    """
    units, recalled, _ = scratch
    data, p = units[0], units[1]
    offsets, ids, levels, _, side_offsets, side_ids = cases
    rate, bias_rate, side_rate = rates
    W, b, U = tables
    start = offsets[c]
    for i in range(offsets[c + 1] - start):
        m, r, k = ids[start + i], levels[start + i], recalled[i]
        b[m, r] += bias_rate
        b[m, k] -= bias_rate
        if tied:
            _add_both(rate * s[r], data, -rate * s[k], p, W[m, 0])
        else:
            _add(rate, data, W[m, r])
            _add(-rate, p, W[m, k])
    for j in range(len(data)):
        data[j] -= p[j]
    for q in range(side_offsets[c], side_offsets[c + 1]):
        _add(side_rate, data, U[side_ids[q]])


@njit
def _divergence(cases, chosen, machine, seed, tied, gradients):
    """Add the cases' gradients to those of W, b, d and U; return the error."""
    d_W, d_b, d_d, d_U = gradients
    s, one = machine[4], np.float32(1)
    scratch = _scratch(cases[0], chosen, len(d_d), len(s))
    error = 0.0
    for c in chosen:
        error += _recall(c, cases, machine, seed, tied, scratch)
        _follow(c, cases, s, tied, scratch, (one, one, one), (d_W, d_b, d_U))
        _add(one, scratch[0][0], d_d)
    return error


@njit
def _shrink(keep, step, m, made, x):
    """Bring row m of x, of which ``made[m]`` steps have been made, to where the penalties of all steps leave it."""
    missed = step - made[m]
    if missed:
        row, factor = x[m].ravel(), keep**missed
        for j in range(len(row)):
            row[j] = np.float32(factor * row[j])
        made[m] = step


@njit
def _descend(cases, chosen, machine, seed, tied, descent):
    """Step after every case; return the error."""
    W, b, d, U, s = machine
    offsets, ids, _, _, side_offsets, side_ids = cases
    rate, bias_rate, penalty, bias_penalty, side_penalty = descent
    scratch = _scratch(offsets, chosen, len(d), len(s))
    keep = 1 - rate * penalty
    keep_biases = 1 - bias_rate * bias_penalty
    keep_sides = 1 - rate * side_penalty
    # The penalty of a step comes when a row is needed next, and must not make what the step has added smaller.
    rates = (
        np.float32(rate / keep),
        np.float32(bias_rate / keep_biases),
        np.float32(rate / keep_sides),
    )
    made_W, made_b = np.zeros(len(W), np.int64), np.zeros(len(b), np.int64)
    made_U = np.zeros(len(U), np.int64)
    exact = d.astype(np.float64)  # in which penalties count that are below the rounding of float32
    error = 0.0
    for step in range(len(chosen)):
        c = chosen[step]
        for i in range(offsets[c], offsets[c + 1]):
            _shrink(keep, step, ids[i], made_W, W)
            _shrink(keep_biases, step, ids[i], made_b, b)
        for q in range(side_offsets[c], side_offsets[c + 1]):
            _shrink(keep_sides, step, side_ids[q], made_U, U)
        error += _recall(c, cases, machine, seed, tied, scratch)
        _follow(c, cases, s, tied, scratch, rates, (W, b, U))
        for j in range(len(d)):
            exact[j] = keep_biases * exact[j] + bias_rate * scratch[0][0, j]
            d[j] = np.float32(exact[j])
    for m in range(len(W)):
        _shrink(keep, len(chosen), m, made_W, W)
        _shrink(keep_biases, len(chosen), m, made_b, b)
    for m in range(len(U)):
        _shrink(keep_sides, len(chosen), m, made_U, U)
    return error


@njit
def _expect(visible, cases, machine, tied, chances, means):
    """Fill chances and means; a negative number means the last row of its table."""
    W, b, p, s, o = machine
    w_size, p_size = W.shape[1] * W.shape[2], p.shape[1]
    for n in range(len(visible)):
        if n + _AHEAD < len(visible):
            m, c = visible[n + _AHEAD], cases[n + _AHEAD]
            prefetch(W, np.int64(m if m >= 0 else len(W) - 1) * w_size, w_size)
            prefetch(p, np.int64(c if c >= 0 else len(p) - 1) * p_size, p_size)
        m, c = visible[n], cases[n]
        m = m if m >= 0 else len(W) - 1
        c = c if c >= 0 else len(p) - 1
        _logits(tied, W[m], b[m], s, o[c], p[c], chances[n])
        total, means[n] = _exponentials(chances[n], s)
        chances[n] /= total
