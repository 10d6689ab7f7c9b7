"""The operations of hidden Markov models on the CPU, in the letters of their specifications."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.array_ops import sum_rows
from tacenda.kernels.hidden_markov import (
    Counts,
    FeatureCounts,
    Forward,
    SumGradients,
    VectorGradients,
    WordGradients,
    inner_tokens,
)
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.rows import exp2_of_fraction
from tacenda.kernels.machinery.threads import in_parts

# -- the softmax of the columns of a small matrix, while it is in cache -----------------------------
#
# numba's own exp is a call for each number unless Intel's SVML is installed; this exp compiles to vector instructions:
# exp(x) = 2^n 2^f with n the nearest integer to x / log 2. 2^f is a polynomial, and n is added to the exponent bits.


_FAST = {"contract", "reassoc"}


@njit(fastmath=_FAST)
def _normalize_columns(block, bits, powers, scratch, weights):
    """Replace a block (rows, k) of scores by their softmax over the rows, times ``weights`` (k,).

    ``bits`` and ``powers`` are as in `_exponentiate`, and ``scratch`` is (2, k).
    """
    k = block.shape[1]
    largest, scale = scratch[0], scratch[1]
    # With the largest of each column subtracted, no exponential overflows.
    for i in range(k):
        largest[i] = block[0, i]
    for j in range(1, block.shape[0]):
        row = block[j]
        for i in range(k):
            largest[i] = max(largest[i], row[i])
    _exponentiate(block, bits, powers, largest)
    scale[:] = 0
    for j in range(block.shape[0]):
        row = block[j]
        for i in range(k):
            scale[i] += row[i]
    for i in range(k):
        scale[i] = weights[i] / scale[i]
    for j in range(block.shape[0]):
        row = block[j]
        for i in range(k):
            row[i] *= scale[i]


@njit(fastmath=_FAST)
def _exponentiate(block, bits, powers, shift):
    """Replace a block by exp(block - shift), where NaN stays NaN.

    ``bits`` is the block's memory as int32, and ``powers`` (rows, k) int32 is scratch.
    """
    k = block.shape[1]
    if block.itemsize == 8:
        for j in range(block.shape[0]):
            for i in range(k):
                block[j, i] = math.exp(block[j, i] - shift[i])
        return
    for j in range(block.shape[0]):
        row, power = block[j], powers[j]
        for i in range(k):
            # x / log 2, clipped so that 2^n is a normal number; comparisons with NaN are false, so NaN becomes -126.
            given = (np.float32(row[i]) - np.float32(shift[i])) * np.float32(1.4426950408889634)
            x = given if given > np.float32(-126) else np.float32(-126)
            x = x if x < np.float32(127) else np.float32(127)
            # Split into the nearest whole number n and a fraction f.
            n = np.floor(x + np.float32(0.5))
            f = x - n
            power_of_f = exp2_of_fraction(f)
            number = given == given  # False for NaN alone, which stays
            row[i] = power_of_f if number else given
            power[i] = np.int32(n) if number else 0
    # Multiply by 2^n by adding n to the exponent, which begins at bit 23 of a float32. This is a separate pass, so that
    # each loop reads and writes its numbers as one type and the compiler vectorizes both.
    for j in range(block.shape[0]):
        row, power = bits[j], powers[j]
        for i in range(k):
            row[i] += power[i] << 23


# -- forward-backward: rows in registers, counts summed pair by pair --------------------------------
#
# A pass reads a block once for every token. The counts are computed afterwards, from the messages of the backward pass,
# with the tokens sorted by pair: a block of counts is then in cache while it is summed, and threads work on different
# pairs, so that they need no copies of the counts.


_Array = NDArray[Any]


@njit(fastmath=_FAST)
def _filter(model, observed, a, c, begin, end):
    """Filter the sequences begin .. end: fill a, and the c_t."""
    A, o, s = model
    pairs, words, first, offsets = observed
    k = o.shape[1]
    zero = a.dtype.type(0)
    for n in range(begin, end):
        for t in range(offsets[n], offsets[n + 1]):
            now, emitted, total = a[t], o[words[t]], zero
            if t == offsets[n]:
                start = s[first[n]]
                for j in range(k):
                    now[j] = start[j] * emitted[j]
                # Summed in a loop of its own: where a loop also writes, the order in which the compiler sums
                # depends on where the arrays lie.
                for j in range(k):
                    total += now[j]
            else:
                block, before = A[pairs[t]], a[t - 1]
                for j in range(k):
                    row, reached = block[j], zero
                    for i in range(k):
                        reached += row[i] * before[i]
                    now[j] = reached * emitted[j]
                    total += now[j]
            # After a token of probability zero, all states are zero. Nothing is multiplied by 1 / c_t, which
            # overflows if c_t is subnormal.
            c[t] = total
            if total != zero:
                for j in range(k):
                    now[j] /= total


@njit(fastmath=_FAST)
def _smooth(A, o, observed, found, v, posteriors, begin, end):
    """Go back through the sequences begin .. end: fill the messages v and the posteriors."""
    (pairs, words, _, offsets), (a, c) = observed, found
    k = o.shape[1]
    b = np.empty(k, a.dtype)
    zero = a.dtype.type(0)
    for n in range(begin, end):
        b[:] = 1
        for t in range(offsets[n + 1] - 1, offsets[n] - 1, -1):
            emitted, message, now, posterior = o[words[t]], v[t], a[t], posteriors[t]
            total = c[t] if c[t] != zero else a.dtype.type(np.inf)
            for j in range(k):
                posterior[j] = now[j] * b[j]
                message[j] = emitted[j] * b[j] / total
            # b_{t-1} = A_u^T v_t, as a sum of rows, which are contiguous in memory.
            if t > offsets[n]:
                block = A[pairs[t]]
                b[:] = 0
                for j in range(k):
                    row, x = block[j], message[j]
                    for i in range(k):
                        b[i] += row[i] * x


@njit(fastmath=_FAST)
def _count_pairs(A, a, v, tokens, borders, N, begin, end):
    """Fill the counts of the pairs begin .. end from the messages; ``tokens`` are sorted by pair."""
    k = a.shape[1]
    for u in range(begin, end):
        counts, block = N[u], A[u]
        # The sum of outer products v_t a_{t-1}^T over the tokens of the pair ...
        for place in range(borders[u], borders[u + 1]):
            t = tokens[place]
            message, before = v[t], a[t - 1]
            for j in range(k):
                row, x = counts[j], message[j]
                for i in range(k):
                    row[i] += x * before[i]
        # ... times A_u, once for all of them.
        if borders[u + 1] > borders[u]:
            for j in range(k):
                row, probabilities = counts[j], block[j]
                for i in range(k):
                    row[i] *= probabilities[i]


def hmm_block(blocks, emissions, starts, observed, threads):
    a = np.empty((len(observed.words), emissions.shape[1]), blocks.dtype)
    c = np.empty(len(a), blocks.dtype)
    arguments = (blocks, emissions, starts), tuple(observed), a, c
    in_parts(_filter, len(observed.offsets) - 1, threads, *arguments)
    with np.errstate(divide="ignore"):
        return Forward(np.log(c, dtype=np.float64), a)


def hmm_block_backward(blocks, emissions, starts, observed, found, threads):
    pairs, words, first, offsets = observed
    a = found.states
    c = np.exp(found.log_probs).astype(blocks.dtype)
    v, posteriors = np.empty_like(a), np.empty_like(a)
    arguments = blocks, emissions, tuple(observed), (a, c), v, posteriors
    in_parts(_smooth, len(offsets) - 1, threads, *arguments)
    # Threads work on different pairs, so no two of them write to one block of counts.
    inner = inner_tokens(offsets)
    tokens = inner[np.argsort(pairs[inner], kind="stable")]
    borders = np.searchsorted(pairs[tokens], np.arange(len(blocks) + 1))
    counts = np.zeros_like(blocks)
    in_parts(_count_pairs, len(blocks), threads, blocks, a, v, tokens, borders, counts)
    begins = np.diff(offsets) > 0
    emitted = sum_rows(words, posteriors, len(emissions))
    started = sum_rows(first[begins], posteriors[offsets[:-1][begins]], len(starts))
    return Counts(counts, emitted, started, posteriors)


# -- forward-backward over features: all sequences at once, one product for those in a class --------


def hmm_features(model, observed):
    a = np.empty((len(observed.words), model.emissions.shape[1]), model.left.dtype)
    c = np.empty(len(a), a.dtype)
    # Step t of all sequences at once. Tokens are grouped by the class before, for the features of the state that is
    # left, and then by their own, for those of the state that is reached.
    for t, tokens in _iterate_steps(observed.offsets):
        if t == 0:
            a[tokens] = model.starts[observed.classes[tokens]]
        else:
            m = np.empty((len(tokens), model.left.shape[2]), a.dtype)
            for group, own in _group_by_class(observed.classes[tokens - 1]):
                m[own] = a[tokens[own] - 1] @ model.left[group]
            for group, own in _group_by_class(observed.classes[tokens]):
                a[tokens[own]] = m[own] @ model.reached[group].T
        now = a[tokens] * model.emissions[observed.words[tokens]]
        c[tokens] = total = now.sum(axis=1)
        a[tokens] = now / np.where(total == 0, 1, total)[:, None]
    with np.errstate(divide="ignore"):
        return Forward(np.log(c, dtype=np.float64), a)


def hmm_features_backward(model, observed, found):
    classes, words, offsets = observed
    a, dtype = found.states, model.left.dtype
    c = np.exp(found.log_probs).astype(dtype)
    c = np.where(c == 0, np.inf, c).astype(dtype)[:, None]
    b, v = np.ones_like(a), np.zeros_like(a)
    w = np.zeros((len(a), model.left.shape[2]), dtype)
    for t, tokens in reversed(list(_iterate_steps(offsets))):
        v[tokens] = model.emissions[words[tokens]] * b[tokens] / c[tokens]
        if t == 0:
            continue
        for group, own in _group_by_class(classes[tokens]):
            w[tokens[own]] = v[tokens[own]] @ model.reached[group]
        for group, own in _group_by_class(classes[tokens - 1]):
            b[tokens[own] - 1] = w[tokens[own]] @ model.left[group].T
    posteriors = a * b
    # The gradients are sums over all tokens except the first of each sequence: one product for each class.
    dx, dy = np.zeros_like(model.left), np.zeros_like(model.reached)
    inner, m = inner_tokens(offsets), np.zeros_like(w)
    for group, own in _group_by_class(classes[inner - 1]):
        before = a[inner[own] - 1]
        dx[group] = before.T @ w[inner[own]]
        m[inner[own]] = before @ model.left[group]
    for group, own in _group_by_class(classes[inner]):
        dy[group] = v[inner[own]].T @ m[inner[own]]
    begins = offsets[:-1][np.diff(offsets) > 0]
    emitted = sum_rows(words, posteriors, len(model.emissions))
    started = sum_rows(classes[begins], posteriors[begins], len(model.starts))
    return FeatureCounts(dx, dy, emitted, started)


def _iterate_steps(offsets: _Array) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each distance from the beginning of a sequence, and the tokens at this distance."""
    lengths = np.diff(offsets)
    for t in range(int(lengths.max(initial=0))):
        yield t, offsets[:-1][lengths > t] + t


def _group_by_class(classes: _Array) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each class that occurs, and its places."""
    order = np.argsort(classes, kind="stable")
    distinct, begins = np.unique(classes[order], return_index=True)
    ends = np.append(begins[1:], len(order))
    for group, begin, end in zip(distinct.tolist(), begins, ends[: len(distinct)], strict=True):
        yield group, order[begin:end]


# -- blocks of transitions: scores of a few pairs by BLAS, then their softmax, in cache -------------


_SCORES_AT_ONCE = 1 << 16  # 256 KB in float32


@njit(fastmath=_FAST)
def _gather(table, rows, out):
    """Copy the matrices ``rows`` of a table one after another."""
    for n in range(len(rows)):
        source, place = table[rows[n]], out[n]
        for j in range(source.shape[0]):
            for d in range(source.shape[1]):
                place[j, d] = source[j, d]


@njit
def _find_run_end(sources, u, end):
    """Return the first pair after u, before ``end``, that has another source; ``end`` if there is none."""
    stop = u + 1
    while stop < end and sources[stop] == sources[u]:
        stop += 1
    return stop


@njit(fastmath=_FAST)
def _fill_blocks(vectors, pairs, scales, A, A_bits, first, last):
    """Fill the blocks of the pairs of the sources first .. last; exactly one of w and norms has rows."""
    (x, y, b), (sources, targets, borders), (w, norms) = vectors, pairs, scales
    k, width = x.shape[1], x.shape[2]
    most = max(1, _SCORES_AT_ONCE // (k * k))
    y_targets = np.empty((most, k, width), x.dtype)
    powers, scratch = np.empty((k, k), np.int32), np.empty((2, k), x.dtype)
    u, end = borders[first], borders[last]
    while u < end:
        # As many pairs of one source as fit the cache make one product: their targets are laid side by side.
        c, stop = sources[u], _find_run_end(sources, u, min(end, u + most))
        n = stop - u
        _gather(y, targets[u:stop], y_targets)
        np.dot(y_targets[:n].reshape(n * k, width), x[c].T, A[u:stop].reshape(n * k, k))
        for pair in range(u, stop):
            block, bias = A[pair], b[targets[pair]]
            for j in range(k):
                row = block[j]
                for i in range(k):
                    row[i] += bias[j]
            if len(w):
                _normalize_columns(block, A_bits[pair], powers, scratch, w[pair])
            else:
                _exponentiate(block, A_bits[pair], powers, norms[c])
        u = stop


@njit(fastmath=_FAST)
def _fill_pair_gradients(vectors, pairs, blocks, gradients, first, last):
    """Fill the gradients of the pairs of the sources first .. last: D_u x_c in ``dy_pairs``, sum_i D_u in ``db_pairs``.

    dx is summed, as the pairs are sorted by source.
    """
    (x, y, _), (sources, targets, borders), (A, N, w) = vectors, pairs, blocks
    dx, dy_pairs, db_pairs, departures = gradients
    k, width = x.shape[1], x.shape[2]
    most = max(1, _SCORES_AT_ONCE // (k * k))
    y_targets, D = np.empty((most, k, width), x.dtype), np.empty((most, k, k), x.dtype)
    u, end = borders[first], borders[last]
    while u < end:
        c, stop = sources[u], _find_run_end(sources, u, min(end, u + most))
        n = stop - u
        _gather(y, targets[u:stop], y_targets)
        for pair in range(u, stop):
            leaving, counts, block, D_u = departures[pair], N[pair], A[pair], D[pair - u]
            # n_u: the counts of leaving each state of the source.
            leaving[:] = 0
            for j in range(k):
                row = counts[j]
                for i in range(k):
                    leaving[i] += row[i]
            # D_u = N_u - (A_u / w_u) n_u, or N_u where the blocks were made with norms.
            if len(w):
                w_u = w[pair]
                for j in range(k):
                    row, probabilities, out = counts[j], block[j], D_u[j]
                    for i in range(k):
                        out[i] = row[i] - probabilities[i] * (leaving[i] / w_u[i])
            else:
                D_u[:] = counts
            for j in range(k):
                row, total = D_u[j], x.dtype.type(0)
                for i in range(k):
                    total += row[i]
                db_pairs[pair, j] = total
        # Both products over all pairs of the run: dx_c += sum_u D_u^T y_c', and D_u x_c.
        flat = D[:n].reshape(n * k, k)
        dx[c] += np.dot(flat.T, y_targets[:n].reshape(n * k, width))
        np.dot(flat, x[c], dy_pairs[u:stop].reshape(n * k, width))
        u = stop


@njit(fastmath=_FAST)
def _sum_by_target(dy_pairs, db_pairs, order, borders, dy, db, begin, end):
    """Sum the gradients of the pairs for the targets begin .. end; ``order`` has the pairs sorted by target."""
    for to in range(begin, end):
        table, bias = dy[to], db[to]
        for place in range(borders[to], borders[to + 1]):
            added, added_bias = dy_pairs[order[place]], db_pairs[order[place]]
            for j in range(table.shape[0]):
                bias[j] += added_bias[j]
                for d in range(table.shape[1]):
                    table[j, d] += added[j, d]


def block_softmax(vectors, sources, targets, weights, norms, threads):
    classes, k, _ = vectors.left.shape
    A = np.empty((len(sources), k, k), vectors.left.dtype)
    none = np.empty((0, k), A.dtype)
    scales = tuple(none if array is None else array for array in (weights, norms))
    borders = np.searchsorted(sources, np.arange(classes + 1))  # of each source's pairs
    arguments = tuple(vectors), (sources, targets, borders), scales, A, A.view(np.int32)
    in_parts(_fill_blocks, classes, threads, *arguments)
    return A


def block_softmax_backward(vectors, sources, targets, blocks, counts, weights, threads):
    x, y, b = vectors
    classes, k, width = x.shape
    pairs = len(sources)
    w = np.empty((0, k), x.dtype) if weights is None else weights
    dx, dy, db = np.zeros_like(x), np.zeros_like(y), np.zeros_like(b)
    dy_pairs = np.empty((pairs, k, width), x.dtype)
    db_pairs, departures = (np.empty((pairs, k), x.dtype) for _ in range(2))
    borders = np.searchsorted(sources, np.arange(classes + 1))  # of each source's pairs
    arguments = tuple(vectors), (sources, targets, borders), (blocks, counts, w)
    gradients = dx, dy_pairs, db_pairs, departures
    in_parts(_fill_pair_gradients, classes, threads, *arguments, gradients)
    # Targets are not sorted, so the gradients of each pair are stored, and summed afterwards by target.
    order = np.argsort(targets, kind="stable")
    ends = np.searchsorted(targets[order], np.arange(classes + 1))
    in_parts(_sum_by_target, classes, threads, dy_pairs, db_pairs, order, ends, dy, db)
    return VectorGradients(dx, dy, db, departures)


# -- the softmax by class: products by BLAS, the rest while a class is in cache ---------------------


@njit(fastmath=_FAST)
def _fill_classes(y, b, x, offsets, o, bits):
    """Fill o, one class after another: the product of its words and states, then the softmax of each state."""
    k = x.shape[1]
    scratch, ones = np.empty((2, k), o.dtype), np.ones(k, o.dtype)
    for c in range(len(x)):
        begin, end = offsets[c], offsets[c + 1]
        if begin == end:
            continue
        block = o[begin:end]
        np.dot(y[begin:end], x[c].T, block)
        for w in range(end - begin):
            row, bias = block[w], b[begin + w]
            for j in range(k):
                row[j] += bias
        powers = np.empty((end - begin, k), np.int32)
        _normalize_columns(block, bits[begin:end], powers, scratch, ones)


@njit(fastmath=_FAST)
def _fill_class_gradients(y, x, offsets, o, E, dy, db, dx):
    """Fill the gradients, one class after another: D = E - o sum E, then its products with states and words."""
    k = x.shape[1]
    total = np.empty(k, o.dtype)
    for c in range(len(x)):
        begin, end = offsets[c], offsets[c + 1]
        if begin == end:
            continue
        # The counts of each state of the class, and each count minus its share of them.
        D = E[begin:end].copy()
        total[:] = 0
        for w in range(end - begin):
            for j in range(k):
                total[j] += D[w, j]
        for w in range(end - begin):
            row, found, bias = D[w], o[begin + w], o.dtype.type(0)
            for j in range(k):
                row[j] -= found[j] * total[j]
            # Summed in a loop of its own: where a loop also writes, the order in which the compiler sums depends on
            # where the arrays lie.
            for j in range(k):
                bias += row[j]
            db[begin + w] = bias
        np.dot(D, x[c], dy[begin:end])
        np.dot(D.T, y[begin:end], dx[c])


def class_softmax(words, bias, states, offsets):
    o = np.empty((len(words), states.shape[1]), words.dtype)
    _fill_classes(words, bias, states, offsets, o, o.view(np.int32))
    return o


def class_softmax_backward(words, bias, states, offsets, found, counts):
    dy, db, dx = np.zeros_like(words), np.zeros_like(bias), np.zeros_like(states)
    _fill_class_gradients(words, states, offsets, found, counts, dy, db, dx)
    return WordGradients(dy, db, dx)


# -- the streaming log-sum-exp: products of tiles by BLAS, the rest in cache ------------------------


_ROWS, _COLUMNS = 512, 1024  # of a tile: 2 MB in float32
_CACHED_ROWS = 32  # of all scores, which stay in cache


def streaming_logsumexp(rows, columns, bias, kept):
    n = 0 if kept is None else len(kept)
    found = np.empty(len(rows), rows.dtype)
    for i in range(0, n, _ROWS):
        block = slice(i, min(i + _ROWS, n))
        found[block] = _fill_softmax(rows[block], columns, bias, kept[block])
    for i in range(n, len(rows), _ROWS):
        found[i : i + _ROWS] = _sum_over_tiles(rows[i : i + _ROWS], columns, bias)
    return found


def _fill_softmax(rows: _Array, columns: _Array, bias: _Array, out: _Array) -> _Array:
    """Return the logarithms of the sums, and fill ``out`` (rows, columns) with the softmax."""
    np.dot(rows, columns.T, out=out)
    found = np.empty(len(rows), rows.dtype)
    # One product of all rows, then a few rows at a time, which stay in cache from the bias to the final scaling.
    for i in range(0, len(rows), _CACHED_ROWS):
        tile = out[i : i + _CACHED_ROWS]
        tile += bias
        shift = _find_shift(tile.max(axis=1))
        tile -= shift[:, None]
        total = np.exp(tile, out=tile).sum(axis=1)
        with np.errstate(divide="ignore"):
            found[i : i + _CACHED_ROWS] = shift + np.log(total)
        tile *= (1 / np.where(total == 0, 1, total))[:, None]
    return found


def _sum_over_tiles(rows: _Array, columns: _Array, bias: _Array) -> _Array:
    """Return the logarithms of the sums, with one tile of scores in memory at a time."""
    largest = np.full(len(rows), -np.inf, rows.dtype)
    total = np.zeros(len(rows), rows.dtype)
    for j in range(0, len(columns), _COLUMNS):
        tile = rows @ columns[j : j + _COLUMNS].T
        tile += bias[j : j + _COLUMNS]
        # The largest score so far is subtracted from every exponent; when it rises, the total is scaled down.
        raised = np.maximum(largest, tile.max(axis=1))
        shift = _find_shift(raised)
        tile -= shift[:, None]
        total = total * np.exp(largest - shift) + np.exp(tile, out=tile).sum(axis=1)
        largest = raised
    with np.errstate(divide="ignore"):
        return np.asarray(largest + np.log(total))


def _find_shift(largest: _Array) -> _Array:
    """Return the shift of scores below their maximum: 0 if all are -inf, since -inf - -inf is NaN."""
    return np.where(np.isneginf(largest), 0, largest).astype(largest.dtype)


def streaming_logsumexp_backward(rows, columns, bias, found, gradient, kept):
    n = 0 if kept is None else len(kept)
    weighted = rows * gradient[:, None]
    grads = SumGradients(np.zeros_like(rows), np.zeros_like(columns), np.zeros_like(bias))
    # The kept rows of p are used; p of the other rows is computed again, tile by tile.
    if n and kept is not None:
        np.dot(kept, columns, out=grads.rows[:n])
        np.dot(kept.T, weighted[:n], out=grads.columns)
        np.dot(gradient[:n], kept, out=grads.bias)
    for i in range(n, len(rows), _ROWS):
        block = slice(i, i + _ROWS)
        for j in range(0, len(columns), _COLUMNS):
            strip = slice(j, j + _COLUMNS)
            tile = rows[block] @ columns[strip].T
            tile += bias[strip]
            # log p: the sum over all columns is known already
            tile -= _find_shift(found[block])[:, None]
            np.exp(tile, out=tile)
            grads.rows[block] += tile @ columns[strip]
            grads.columns[strip] += tile.T @ weighted[block]
            grads.bias[strip] += gradient[block] @ tile
    grads.rows[...] *= gradient[:, None]
    return grads
