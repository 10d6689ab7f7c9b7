"""Operations of the rating models on the CPU: one thread, reading rows as they come."""

import numpy as np

from tacenda.errors import KernelError
from tacenda.kernels.machinery import xorshift
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.rows import add_scaled, dot
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
from tacenda.kernels.ratings import CONVERGED, Identities, Solved, Visited

# -- rating sgd -------------------------------------------------------------------------------------
#
# The epoch on the CPU: one thread, a user's factors in the first-level cache, items prefetched.


_ROWS_AHEAD = 16  # rows are prefetched so many ratings earlier
_X, _PULL, _SUMS = 0, 1, 2  # rows of the scratch of a visit: x, alpha_u lambda_u s, and g
_seed_state, _advance = njit(xorshift.seed_state), njit(xorshift.advance)


@njit
def _shuffle(places, n, seed, user):
    """Fill ``places`` with the permutation of `tacenda.kernels.ratings.shuffle`."""
    state = _seed_state(seed, np.uint64(user))
    for k in range(n):
        places[k] = k
    for k in range(n - 1, 0, -1):
        state = _advance(state)
        j = np.int64((state >> np.uint64(33)) % np.uint64(k + 1))
        places[k], places[j] = places[j], places[k]


@njit
def _multiply(scratch, q, i):
    """Return the scalar product of x and q_i."""
    width, total = q.shape[1], spread(0)
    for d in range(0, width, LANES):
        n = width - d
        total = multiply_add(load(scratch, d, n), load(q, i * width + d, n), total)
    return add_up(total)


@njit
def _step(scratch, q, i, following, keeps, steps):
    """Step both factors of a rating of item i, from their old values; return the product for the next rating.

        x, q_i = keep_x x + step_x q_i, keep_q q_i + step_q x,     return x . q_following

    with keep_x = 1 - alpha_u lambda_u, step_x = alpha_u e, and the same for the item.
    """
    (keep_x, keep_q), (step_x, step_q) = keeps, steps
    width = q.shape[1]
    here, there = i * width, following * width
    keeps_x, keeps_q, total = spread(keep_x), spread(keep_q), spread(0)
    steps_x, steps_q = spread(step_x), spread(step_q)
    for d in range(0, width, LANES):
        n = width - d
        old_x, old_q = load(scratch, d, n), load(q, here + d, n)
        new_x = multiply_add(steps_x, old_q, multiply(keeps_x, old_x))
        store(new_x, scratch, d, n)
        store(multiply_add(steps_q, old_x, multiply(keeps_q, old_q)), q, here + d, n)
        # the next item may be this one, so its factors are read after they were written
        total = multiply_add(new_x, load(q, there + d, n), total)
    return add_up(total)


@njit(fastmath={"contract", "reassoc", "nsz"})
def _step_conditioned(scratch, q, i, following, keeps, steps, error):
    """Step as `_step`, with x = keep_x x + step_x q_i + alpha_u lambda_u s, and add error q_i to g."""
    (keep_x, keep_q), (step_x, step_q) = keeps, steps
    width, total = q.shape[1], np.float32(0)
    for d in range(width):
        old_x, old_q = scratch[_X, d], q[i, d]
        scratch[_X, d] = keep_x * old_x + step_x * old_q + scratch[_PULL, d]
        q[i, d] = keep_q * old_q + step_q * old_x
        scratch[_SUMS, d] += error * old_q
    for d in range(width):
        total += scratch[_X, d] * q[following, d]
    return total


@njit(fastmath={"contract"})
def _average_side(w, ids, first, last, s):
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
def _step_side(w, ids, first, last, scratch, rate, penalty):
    """Step w_j += rate / |N(u)| (g - penalty w_j) for j in ``ids[first:last]``."""
    width = w.shape[1]
    step = np.float32(rate / max(last - first, 1))
    keep = np.float32(1) - step * penalty
    for k in range(first, last):
        if k + _ROWS_AHEAD < last:
            prefetch(w, np.int64(ids[k + _ROWS_AHEAD]) * width, width)
        j = ids[k]
        for d in range(width):
            w[j, d] = keep * w[j, d] + step * scratch[_SUMS, d]


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
    scratch, s = np.zeros((3, width), np.float32), np.zeros(width, np.float32)
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
            _average_side(w, side_ids, side_offsets[u], side_offsets[u + 1], s)
        for d in range(width):
            scratch[_X, d] = p[u, d] + s[d]
            scratch[_PULL, d] = pull * s[d]
            scratch[_SUMS, d] = 0
        bias, total = b[u], 0.0
        following = np.int64(item_ids[start + places[0]])
        product = _multiply(scratch, q, following)
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
                product = _step_conditioned(scratch, q, i, following, keeps, steps, e)
            else:
                product = _step(scratch, q, i, following, keeps, steps)
        b[u], errors[v] = bias, total
        for d in range(width):
            p[u, d] = scratch[_X, d] - s[d]
        if side:
            _step_side(w, side_ids, side_offsets[u], side_offsets[u + 1], scratch, gamma, lambda_w)
    return errors


def rating_sgd(ratings, users, tables, mean, rates, penalties, seed, sides):
    known = sides if sides is not None else Identities(ratings.offsets, ratings.item_ids)
    numbers = tuple(np.float32(n) for n in rates), (*penalties[:4], np.float32(penalties.side))
    errors = _visit_users(
        tuple(ratings), users, tuple(tables), np.float32(mean), *numbers, xorshift.wrap_seed(seed),
        (sides is not None, *known),
    )  # fmt: skip
    return errors, tables


# -- rating visits ----------------------------------------------------------------------------------
#
# The visits on the CPU: one thread, one row after another, the rows of the other side fetched ahead.


_VISITS_AHEAD = 8  # rows are prefetched so many ratings earlier


@njit(fastmath={"contract", "reassoc", "nsz"})
def _visit_rows(visits, side, others, mean, rates, seed, prior, found):
    """Visit the rows; ``prior`` and the sums have no rows without a prior."""
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
            drawn = _advance(_seed_state(seed, np.uint64(u))) >> np.uint64(33)
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
        xorshift.wrap_seed(seed), known, (errors, sums),
    )  # fmt: skip
    return Visited(side.factors, side.biases, errors, sums)


# -- rating scores ----------------------------------------------------------------------------------
#
# Scores on the CPU: one thread, with rows fetched ahead.


_PAIRS_AHEAD = 4  # rows are prefetched so many pairs earlier


def rating_scores(users, items, x, q, b, c, mean):
    out = np.empty(len(users), np.float32)
    _score_pairs(users, items, x, q, b, c, np.float32(mean), out)
    return out


@njit(fastmath={"contract", "reassoc", "nsz"})
def _score_pairs(users, items, x, q, b, c, mean, out):
    """Fill out; -1 stands for an unknown user or item."""
    width = x.shape[1]
    for k in range(len(users)):
        # Users and items are in any order, so that most rows are not in the cache.
        if k + _PAIRS_AHEAD < len(users):
            prefetch(x, max(np.int64(users[k + _PAIRS_AHEAD]), 0) * width, width)
            prefetch(q, max(np.int64(items[k + _PAIRS_AHEAD]), 0) * width, width)
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
# Z^T Z has Z^T t below it; tiles of it are summed in registers, in float32. The eight systems are interleaved, so that
# every number of the Cholesky factorization is eight numbers, in float64. Its last row, y before, becomes the solution
# of L v = y; noise added to v makes the row a draw.


_SYSTEMS_AT_ONCE = 8  # also the rows of a tile
_ROWS_AT_ONCE = 256  # of factors, gathered before they are multiplied


def rating_solves(targets, table, means, precision, weights, noise, scaled):
    noisy, expected = noise is not None, means.copy()
    e = np.empty((0, 0), np.float32) if noise is None else noise
    out = Solved(expected, expected.copy() if noisy else expected)
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
        for i in range(left, width, _SYSTEMS_AT_ONCE):
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
            for lane in range(_SYSTEMS_AT_ONCE):
                if i != j:
                    a[j, lane] *= b[j, lane]
                elif a[j, lane] > 0:
                    a[j, lane] = 1.0 / np.sqrt(a[j, lane])
                else:  # not positive definite
                    a[j, lane] = np.inf


@njit(fastmath={"contract"})
def _substitute_back(A, y):
    """Solve L^T x = y (width, 8) in place."""
    for i in range(A.shape[1] - 1, -1, -1):
        for lane in range(_SYSTEMS_AT_ONCE):
            y[i, lane] *= A[i, i, lane]
        for j in range(i):
            for lane in range(_SYSTEMS_AT_ONCE):
                y[j, lane] -= A[i, j, lane] * y[i, lane]


@njit
def _fill_gram(rows, table, u, z, gram):
    """Fill ``gram`` with Z^T Z of the factors of row u, and below it Z^T t; ``z`` holds some factors at a time."""
    offsets, ids, targets = rows
    width = table.shape[1]
    gram[:] = 0
    for start in range(offsets[u], offsets[u + 1], len(z)):
        n = min(offsets[u + 1] - start, len(z))
        for k in range(n):
            row = table[ids[start + k]]
            for j in range(width):
                z[k, j] = row[j]
            z[k, width] = targets[start + k]
        _add_gram(z, n, width + 1, gram)


@njit
def _solve(rows, table, prior, weights, noise, noisy, scaled, out):
    """Fill means and draws; return the first row that cannot be solved, or -1."""
    (offsets, _, _), (means, precision), (expected, draws) = rows, prior, out
    n_rows, width = expected.shape
    padded = (width // LANES + 1) * LANES
    z, gram = np.zeros((_ROWS_AT_ONCE, padded), np.float32), np.empty((padded, padded), np.float32)
    A, y = np.empty((width + 1, width, _SYSTEMS_AT_ONCE)), np.empty(width)
    drawn = np.empty((width, _SYSTEMS_AT_ONCE))
    for first in range(0, n_rows, _SYSTEMS_AT_ONCE):
        for lane in range(_SYSTEMS_AT_ONCE):
            u = min(first + lane, n_rows - 1)
            n, weight = offsets[u + 1] - offsets[u], weights[u]
            _fill_gram(rows, table, u, z, gram)
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
        here = min(_SYSTEMS_AT_ONCE, n_rows - first)
        for lane in range(here):
            for i in range(width):
                if not A[i, i, lane] < np.inf:
                    return first + lane
                if noisy:
                    drawn[i, lane] = A[width, i, lane] + noise[first + lane, i]
        _substitute_back(A, A[width])
        if noisy:
            _substitute_back(A, drawn)
        for lane in range(here):
            if not scaled or offsets[first + lane] < offsets[first + lane + 1]:
                for i in range(width):
                    expected[first + lane, i] = A[width, i, lane]
                    if noisy:
                        draws[first + lane, i] = drawn[i, lane]
    return -1


# -- rating links -----------------------------------------------------------------------------------
#
# The draws of links on the CPU: one row after another, as each draw changes the residuals of the next.


def link_draws(transposed, left, links, tau, noise):
    out, left = links.copy(), np.array(left, order="C")
    _link_draws(tuple(transposed), left, np.float32(tau), np.ascontiguousarray(noise), out)
    return out


@njit
def _link_draws(transposed, left, tau, noise, out):
    """Replace the links in ``out`` one after another, and update the residuals ``left``."""
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
            step = multiply(spread(np.float32(1) / np.sqrt(size)), load(noise, at, n))
            step = multiply_add(spread(np.float32(1) / size), total, step)
            for p in range(offsets[j], offsets[j + 1]):
                place = ids[p] * width + d
                store(multiply_add(spread(-values[p]), step, load(left, place, n)), left, place, n)
            store(add(load(out, at, n), step), out, at, n)


# -- rating choices ---------------------------------------------------------------------------------
#
# The steps on the CPU: conjugate gradients for one row after another.


def choice_steps(offsets, ids, table, start, precision, confidence, steps):
    out = start.copy()
    _choice_steps(offsets, ids, table, precision, np.float32(confidence), steps, out)
    return out


@njit
def _multiply_system(rows, table, p, precision, confidence, out):
    """Fill out with (P + a sum y y^T) p."""
    out[:] = 0
    for i in range(len(p)):
        add_scaled(p[i], precision[i], out)
    for i in rows:
        add_scaled(confidence * dot(table[i], p), table[i], out)


@njit
def _choice_steps(offsets, ids, table, precision, confidence, steps, out):
    """Step every row of ``out``, which has the start, by conjugate gradients."""
    width = table.shape[1]
    product = np.empty(width, np.float32)
    r, p = np.empty(width, np.float32), np.empty(width, np.float32)
    pull = np.float32(1) + confidence
    for u in range(len(out)):
        x, rows = out[u], ids[offsets[u] : offsets[u + 1]]
        _multiply_system(rows, table, x, precision, confidence, product)
        r[:] = -product
        for i in rows:
            add_scaled(pull, table[i], r)
        p[:] = r
        size = dot(r, r)
        for _ in range(steps):
            if size < CONVERGED:
                break
            _multiply_system(rows, table, p, precision, confidence, product)
            step, before = size / dot(p, product), size
            add_scaled(step, p, x)
            add_scaled(-step, product, r)
            # A loop without stores: with them, whether it is vectorized depends on the distance between the arrays.
            size = dot(r, r)
            ratio = size / before
            for j in range(width):
                p[j] = r[j] + ratio * p[j]
