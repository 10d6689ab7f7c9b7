"""The operations of hidden Markov models on a GPU, in Triton.

Tensors are torch's, float32 or float64; ids and offsets are arrays on the host. float32 products are not rounded to
TF32 unless torch allows it. NaN propagates, and every kernel works under Triton's interpreter.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.array_ops import to_tensors
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.hidden_markov import (
    Counts,
    Forward,
    SumGradients,
    VectorGradients,
    WordGradients,
    inner_tokens,
)
from tacenda.kernels.machinery.gpu import group_rows, precision, product, sum_rows, tile

# -- softmaxes over short runs of rows: the states of a class, or its words --------------------------
#
# A segment is a run of rows y, and the k vectors x of one class; two segments have the same rows or none in common. For
# every x_i of its class
#
#     p_j[i] = w[i] exp(y_j . x_i + b_j) / sum of the same over the rows j' of the segment,    or
#     p_j[i] = exp(y_j . x_i + b_j - l_i)                                                      with norms l,
#
# and with counts N and D = N - p (n / w), n[i] = sum_j N_j[i] (D = N with norms): dx_i += sum_j D_j[i] y_j, dy_j +=
# sum_i D_j[i] x_i, db_j += sum_i D_j[i]. One program makes every sum, without atomics.


_Ids = np.ndarray[Any, np.dtype[np.int64]]
_TILE = 64  # rows, and columns, of a tile of scores
_WIDTH = 32  # of the vectors that a product reads at a time


class Segments(NamedTuple):
    """Segments, as arrays (segments,) on the host."""

    classes: _Ids  # the class whose x a segment has, sorted
    begins: _Ids  # its first row of y
    sizes: _Ids  # its number of rows of y, at least one
    places: _Ids  # its first row of p and of N, which are (rows of all segments, k)


@triton.jit
def _score_tile(
    x, y, b, rows, has_row, columns, has_column, width, WIDTH: tl.constexpr, PRECISION: tl.constexpr
):
    """Return the scores y_j . x_i + b_j of a tile, -inf beyond its ends."""
    scores = product(
        y + rows * width, x + columns * width, width, has_row, has_column, WIDTH, PRECISION
    )
    scores += tl.load(b + rows, has_row, 0.0)[:, None]
    return tl.where(has_row[:, None] & has_column[None, :], scores, float("-inf"))


@triton.jit
def _fill_segment(
    x, y, b, w, norms, classes, begins, sizes, places, p, k, width,
    NORMED: tl.constexpr, ONE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Fill p of one segment and one tile of x.

    With norms p is an exponential. Without, a first pass over the segment finds the largest score and the sum of the
    exponentials below it, rescaling the sum where the largest rises, and a second pass computes the scores again and
    stores p. ONE says that every segment is one tile, whose scores the second pass still has.
    """
    g = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    has_i = i < k
    columns = tl.load(classes + g) * k + i
    begin = tl.load(begins + g)
    size = tl.load(sizes + g)
    place = tl.load(places + g)
    row = tl.arange(0, ROWS)
    if NORMED:
        shift = tl.load(norms + columns, has_i, 0.0)
        scale = tl.full((COLUMNS,), 1.0, p.dtype.element_ty)
    else:
        # The first pass. Where all scores so far are -inf nothing is subtracted, since -inf - -inf is no number.
        scores = _score_tile(
            x, y, b, begin + row, row < size, columns, has_i, width, WIDTH, PRECISION
        )
        largest = tl.max(scores, 0)
        shift = tl.where(largest == float("-inf"), 0.0, largest)
        total = tl.sum(tl.exp(scores - shift[None, :]), 0)
        for first in range(ROWS, size, ROWS):
            j = first + row
            more = _score_tile(
                x, y, b, begin + j, j < size, columns, has_i, width, WIDTH, PRECISION
            )
            raised = tl.maximum(largest, tl.max(more, 0))
            shift = tl.where(raised == float("-inf"), 0.0, raised)
            total = total * tl.exp(largest - shift) + tl.sum(tl.exp(more - shift[None, :]), 0)
            largest = raised
        scale = tl.load(w + g * k + i, has_i, 0.0) / tl.where(has_i, total, 1.0)
    # The second pass, or with norms the only one.
    for first in range(0, size, ROWS):
        j = first + row
        if not ONE:
            scores = _score_tile(
                x, y, b, begin + j, j < size, columns, has_i, width, WIDTH, PRECISION
            )
        found = tl.exp(scores - shift[None, :]) * scale[None, :]
        has_both = (j < size)[:, None] & has_i[None, :]
        tl.store(p + (place + j)[:, None] * k + i[None, :], found, has_both)


@triton.jit
def _load_slope(N, p, ratio, NORMED: tl.constexpr, at, exists):
    """Return D = N - p n / w of a tile at the addresses ``at``; ``ratio`` is n / w, shaped to fit the tile."""
    slope = tl.load(N + at, exists, 0.0)
    if not NORMED:
        slope -= tl.load(p + at, exists, 0.0) * ratio
    return slope


@triton.jit
def _sum_by_class(
    y, N, p, ratio, begins, sizes, places, borders, dx, k, width,
    NORMED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, OUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum dx of one class and one tile of its x over the segments of the class, which follow one another."""
    c = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    d = tl.program_id(2) * OUT + tl.arange(0, OUT)
    has_i, has_d = i < k, d < width
    total = tl.zeros((COLUMNS, OUT), dx.dtype.element_ty)
    for g in range(tl.load(borders + c), tl.load(borders + c + 1)):
        begin = tl.load(begins + g)
        size = tl.load(sizes + g)
        place = tl.load(places + g)
        ratio_g = tl.load(ratio + g * k + i, has_i, 0.0)[:, None]
        # A tile of D^T times the rows of y that it belongs to.
        for first in range(0, size, ROWS):
            j = first + tl.arange(0, ROWS)
            has_j = j < size
            at = (place + j)[None, :] * k + i[:, None]
            D = _load_slope(N, p, ratio_g, NORMED, at, has_i[:, None] & has_j[None, :])
            rows = (begin + j)[:, None] * width + d[None, :]
            values = tl.load(y + rows, has_j[:, None] & has_d[None, :], 0.0)
            total += tl.dot(D, values, input_precision=PRECISION)
    rows = (c * k + i)[:, None] * width + d[None, :]
    tl.store(dx + rows, total, has_i[:, None] & has_d[None, :])


@triton.jit
def _sum_by_rows(
    x, N, p, ratio, classes, begins, sizes, places, order, borders, dy, db, k, width,
    NORMED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, OUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum dy and db of one tile of a run of rows over the segments that have the run, whatever their class."""
    q = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(2) * OUT + tl.arange(0, OUT)
    # All segments of the run have the same rows.
    first = tl.load(borders + q)
    head = tl.load(order + first)
    has_j, has_d = j < tl.load(sizes + head), d < width
    total = tl.zeros((ROWS, OUT), dy.dtype.element_ty)
    bias = tl.zeros((ROWS,), dy.dtype.element_ty)
    for n in range(first, tl.load(borders + q + 1)):
        g = tl.load(order + n)
        c = tl.load(classes + g)
        place = tl.load(places + g)
        # Tiles of D times the vectors x of the segment's class; each row of D adds to its bias.
        for column in range(0, k, COLUMNS):
            i = column + tl.arange(0, COLUMNS)
            has_i = i < k
            ratio_g = tl.load(ratio + g * k + i, has_i, 0.0)[None, :]
            at = (place + j)[:, None] * k + i[None, :]
            D = _load_slope(N, p, ratio_g, NORMED, at, has_j[:, None] & has_i[None, :])
            columns = (c * k + i)[:, None] * width + d[None, :]
            values = tl.load(x + columns, has_i[:, None] & has_d[None, :], 0.0)
            total += tl.dot(D, values, input_precision=PRECISION)
            bias += tl.sum(D, 1)
    rows = tl.load(begins + head) + j
    tl.store(dy + rows[:, None] * width + d[None, :], total, has_j[:, None] & has_d[None, :])
    # The programs of all tiles of the width have found the same biases; one of them stores them.
    tl.store(db + rows, bias, has_j & (tl.program_id(2) == 0))


def segment_softmax(
    x: torch.Tensor,
    y: torch.Tensor,
    b: torch.Tensor,
    segments: Segments,
    weights: torch.Tensor | None,
    norms: torch.Tensor | None,
    p: torch.Tensor,
) -> None:
    """Fill p (rows of all segments, k).

    x is (classes, k, width), y (rows, width) and b (rows,); give either weights (segments, k) or norms (classes, k).
    """
    k, width = x.shape[1:]
    if not p.numel():
        return
    ids = to_tensors(segments, x.device)
    longest = int(segments.sizes.max())
    columns, rows = tile(k, _TILE), tile(longest, 2 * _TILE)
    with torch.cuda.device_of(x):
        _fill_segment[(len(segments.sizes), triton.cdiv(k, columns))](
            x, y, b, x if weights is None else weights, x if norms is None else norms, *ids, p, k, width,
            NORMED=norms is not None, ONE=norms is None and longest <= rows,
            ROWS=rows, COLUMNS=columns, WIDTH=tile(width, _WIDTH), PRECISION=precision(x), num_warps=8, num_stages=2,
        )  # fmt: skip


def segment_softmax_backward(
    x: torch.Tensor,
    y: torch.Tensor,
    segments: Segments,
    p: torch.Tensor,
    counts: torch.Tensor,
    ratio: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients dx, dy and db; ``ratio`` is n / w (segments, k), or None with norms."""
    classes, k, width = x.shape
    dx, dy, db = torch.zeros_like(x), torch.zeros_like(y), y.new_zeros(len(y))
    if not counts.numel():
        return dx, dy, db
    # Segments by the run of rows they have, for dy and db, and by class, for dx.
    _, runs = np.unique(segments.begins, return_inverse=True)
    order, run_borders = group_rows(runs, int(runs.max()) + 1)
    class_borders = group_rows(segments.classes, classes)[1]
    arrays = (*segments, order, run_borders, class_borders)
    of_class, *own, order, run_borders, class_borders = to_tensors(arrays, x.device)
    longest = int(segments.sizes.max())
    columns, rows, out = tile(k, _TILE), tile(longest, _TILE), tile(width, _TILE)
    tiles: dict[str, Any] = {"NORMED": ratio is None, "ROWS": rows, "COLUMNS": columns, "OUT": out}
    tiles |= {"PRECISION": precision(x), "num_warps": 8, "num_stages": 2}
    width_tiles = max(1, triton.cdiv(width, out))
    ratio = counts if ratio is None else ratio
    with torch.cuda.device_of(x):
        _sum_by_class[(classes, triton.cdiv(k, columns), width_tiles)](
            y, counts, p, ratio, *own, class_borders, dx, k, width, **tiles
        )
        _sum_by_rows[(len(run_borders) - 1, triton.cdiv(longest, rows), width_tiles)](
            x, counts, p, ratio, of_class, *own, order, run_borders, dy, db, k, width, **tiles
        )
    return dx, dy, db


# -- forward-backward: one program for each sequence, with the state in registers --------------------
#
# A program goes through its sequence and reads the block of each token once, in tiles of whole rows; nothing is padded.
# Sequences are not split: parallelism is over them. Expected counts are summed afterwards, by one program for each pair
# and tile of its block, token by token in the order of the text, without atomics: results repeat. No product uses a
# tensor core or TF32.


_TILE_BYTES = 1 << 16  # of a block: as many as the registers of eight warps hold
_MAX_STATES = 1 << 13  # of a class, as a tile has whole rows
_COUNT_TILE = 64


@triton.jit
def _multiply(block, state, k, TILES: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr):
    """Return the product A a (K,) of one block and a state, ROWS rows of the block at a time."""
    i = tl.arange(0, K)
    # Registers cannot be indexed, so the sums of a strip are written to their place by a selection.
    found = tl.zeros((TILES, ROWS), state.dtype)
    for strip in range(TILES):
        j = strip * ROWS + tl.arange(0, ROWS)
        inside = (j < k)[:, None] & (i < k)[None, :]
        rows = tl.load(block + j[:, None] * k + i[None, :], inside, 0.0)
        sums = tl.sum(rows * state[None, :], 1)
        found = tl.where((tl.arange(0, TILES) == strip)[:, None], sums[None, :], found)
    return tl.reshape(found, (K,))


@triton.jit
def _multiply_transposed(
    block, message, k, TILES: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr
):
    """Return the product A^T v (K,) of one block and a message, ROWS rows of the block at a time."""
    i = tl.arange(0, K)
    # The strip's own part of the message is selected as in `_multiply`: everything else counts as zero.
    parts = tl.reshape(message, (TILES, ROWS))
    found = tl.zeros((K,), message.dtype)
    for strip in range(TILES):
        j = strip * ROWS + tl.arange(0, ROWS)
        inside = (j < k)[:, None] & (i < k)[None, :]
        rows = tl.load(block + j[:, None] * k + i[None, :], inside, 0.0)
        own = tl.sum(tl.where((tl.arange(0, TILES) == strip)[:, None], parts, 0.0), 0)
        found += tl.sum(rows * own[:, None], 0)
    return found


@triton.jit
def _filter_sequence(
    A, o, s, pairs, words, first, offsets, a, c, k,
    TILES: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Filter sequence n, one program each: the state stays in registers from token to token."""
    n = tl.program_id(0)
    begin = tl.load(offsets + n)
    end = tl.load(offsets + n + 1)
    i = tl.arange(0, K)
    inside = i < k
    row = tl.load(first + n).to(tl.int64) * k
    state = tl.load(s + row + i, inside & (end > begin), 0.0)
    for step in range(end - begin):
        t = begin + step
        if step > 0:
            block = A + tl.load(pairs + t).to(tl.int64) * k * k
            state = _multiply(block, state, k, TILES, ROWS, K)
        state *= tl.load(o + tl.load(words + t).to(tl.int64) * k + i, inside, 0.0)
        # Scale to a sum of one; after a token of probability zero the state is zero. The reciprocal of a subnormal
        # total would overflow.
        total = tl.sum(state, 0)
        state = state / tl.where(total != 0, total, 1.0)
        tl.store(a + t * k + i, state, inside)
        tl.store(c + t, total)


@triton.jit
def _smooth_sequence(
    A, o, pairs, words, offsets, a, c, v, posteriors, k,
    TILES: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Go back through sequence n with b in registers; store its messages v and its posteriors."""
    n = tl.program_id(0)
    begin = tl.load(offsets + n)
    end = tl.load(offsets + n + 1)
    i = tl.arange(0, K)
    inside = i < k
    b = tl.full((K,), 1.0, a.dtype.element_ty)
    for back in range(end - begin):
        t = end - 1 - back
        total = tl.load(c + t)
        emitted = tl.load(o + tl.load(words + t).to(tl.int64) * k + i, inside, 0.0)
        message = emitted * b / tl.where(total != 0, total, float("inf"))
        tl.store(posteriors + t * k + i, tl.load(a + t * k + i, inside, 0.0) * b, inside)
        tl.store(v + t * k + i, message, inside)
        # Send the message to the token before, if this is not the first of its sequence.
        if t > begin:
            block = A + tl.load(pairs + t).to(tl.int64) * k * k
            b = _multiply_transposed(block, message, k, TILES, ROWS, K)


@triton.jit
def _count_pair(A, a, v, tokens, borders, N, k, TILE: tl.constexpr):
    """Sum one tile of the counts of pair u over its tokens, in the order of the text."""
    u = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    i = tl.program_id(2) * TILE + tl.arange(0, TILE)
    begin = tl.load(borders + u)
    end = tl.load(borders + u + 1)
    total = tl.zeros((TILE, TILE), N.dtype.element_ty)
    for place in range(begin, end):
        t = tl.load(tokens + place)
        message = tl.load(v + t * k + j, j < k, 0.0)
        total += message[:, None] * tl.load(a + (t - 1) * k + i, i < k, 0.0)[None, :]
    # Once all tokens are summed, the counts are the sum times A_u.
    at = u * k * k + j[:, None] * k + i[None, :]
    inside = (j < k)[:, None] & (i < k)[None, :]
    # A block that leads to no token has no counts, whatever is in it.
    counts = tl.where(end > begin, total * tl.load(A + at, inside, 0.0), 0.0)
    tl.store(N + at, counts, inside)


def hmm_block(blocks, emissions, starts, observed, threads):
    tokens, k = len(observed.words), emissions.shape[1]
    a, c = blocks.new_empty((tokens, k)), blocks.new_empty(tokens)
    if a.numel():
        with torch.cuda.device_of(blocks):
            ids = to_tensors(observed, blocks.device)
            _filter_sequence[(len(observed.first),)](
                blocks, emissions, starts, *ids, a, c, k, **_choose_tiles(k, blocks)
            )
    return Forward(c.double().log(), a)


def hmm_block_backward(blocks, emissions, starts, observed, found, threads):
    log_probs, a = found
    device = blocks.device
    pairs, words, first, offsets = observed
    k = emissions.shape[1]
    c = torch.as_tensor(log_probs).exp().to(blocks.dtype)
    v, posteriors = torch.empty_like(a), torch.empty_like(a)
    counts = torch.zeros_like(blocks)
    inner = inner_tokens(offsets)
    order, borders = group_rows(pairs[inner], len(blocks))
    with torch.cuda.device_of(blocks):
        if v.numel():
            at = to_tensors((pairs, words, offsets), device)
            _smooth_sequence[(len(first),)](
                blocks, emissions, *at, a, c, v, posteriors, k, **_choose_tiles(k, blocks)
            )
        if counts.numel() and len(inner):
            size = min(_COUNT_TILE, triton.next_power_of_2(k))
            tiles = triton.cdiv(k, size)
            _count_pair[(len(blocks), tiles, tiles)](
                blocks, a, v, *to_tensors((inner[order], borders), device), counts, k, TILE=size
            )
    begins = np.diff(offsets) > 0
    heads, starting = group_rows(first[begins], len(starts))
    emitted = sum_rows(posteriors, *group_rows(words, len(emissions)))
    started = sum_rows(posteriors, offsets[:-1][begins][heads], starting)
    return Counts(counts, emitted, started, posteriors)


def _choose_tiles(k: int, blocks: torch.Tensor) -> dict[str, Any]:
    """Choose how a program reads a block: TILES of ROWS rows of K numbers, and the number of its warps."""
    if k > _MAX_STATES:
        raise UnsupportedShape(f"a GPU serves at most {_MAX_STATES} states of a class, not {k}")
    K = int(triton.next_power_of_2(max(k, 1)))
    rows = max(1, min(K, _TILE_BYTES // (K * blocks.element_size())))
    warps = max(1, min(8, rows * K // 1024))
    return {"TILES": K // rows, "ROWS": rows, "K": K, "num_warps": warps}


# -- blocks of transitions: a pair is a segment, made of the states it reaches; nothing is gathered -


def block_softmax(vectors, sources, targets, weights, norms, threads):
    x, y, b = vectors
    k, width = x.shape[1:]
    A: Any = x.new_empty((len(sources), k, k))
    segment_softmax(
        x, y.reshape(-1, width), b.reshape(-1), _segment_pairs(sources, targets, k), weights, norms,
        A.view(-1, k),
    )  # fmt: skip
    return A


def block_softmax_backward(vectors, sources, targets, blocks, counts, weights, threads):
    x, y, b = vectors
    k, width = x.shape[1:]
    departures = counts.sum(1)
    ratio = None if weights is None else departures / weights
    dx, dy, db = segment_softmax_backward(
        x, y.reshape(-1, width), _segment_pairs(sources, targets, k), blocks.view(-1, k),
        counts.view(-1, k), ratio,
    )  # fmt: skip
    return VectorGradients(dx, dy.view(y.shape), db.view(b.shape), departures)


def _segment_pairs(sources: Any, targets: Any, k: int) -> Segments:
    """Return the pairs as segments: the k states of the target, and the k rows of the pair's block."""
    pairs = len(sources)
    return Segments(sources, targets * k, np.full(pairs, k, np.int64), np.arange(pairs) * k)


# -- the softmax by class: a class is a segment, made of its words -----------------------------------


def class_softmax(words, bias, states, offsets):
    o = words.new_empty((len(words), states.shape[1]))
    segments = _segment_classes(offsets)
    weights = words.new_ones((len(segments.sizes), states.shape[1]))
    segment_softmax(states, words, bias, segments, weights, None, o)
    return o


def class_softmax_backward(words, bias, states, offsets, found, counts):
    segments = _segment_classes(offsets)
    totals = sum_rows(counts, np.arange(len(words)), np.append(segments.begins, len(words)))
    dx, dy, db = segment_softmax_backward(states, words, segments, found, counts, totals)
    return WordGradients(dy, db, dx)


def _segment_classes(offsets: Any) -> Segments:
    """Return the classes that have words as segments: the rows of their words."""
    used = np.flatnonzero(np.diff(offsets))
    return Segments(used, offsets[used], np.diff(offsets)[used], offsets[used])


# -- the streaming log-sum-exp: one program for each tile of rows, over the columns tile by tile ------
#
# Scores are in registers only. The backward pass computes them twice, for the gradient with respect to the rows and for
# the one with respect to the columns, so that every sum is made by one program, without atomics, and results repeat.


_OUT = 128  # columns of a gradient in one program


@triton.jit
def _find_log_sums(
    x, y, b, found, n_rows, n_columns, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Find the log-sum-exp of one tile of rows: the largest score and the total below it, tile after tile."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    has_i = i < n_rows
    largest = tl.full((ROWS,), float("-inf"), x.dtype.element_ty)
    total = tl.zeros((ROWS,), x.dtype.element_ty)
    for first in range(0, n_columns, COLUMNS):
        j = first + tl.arange(0, COLUMNS).to(tl.int64)
        has_j = j < n_columns
        scores = product(x + i * width, y + j * width, width, has_i, has_j, WIDTH, PRECISION)
        scores += tl.load(b + j, has_j, float("-inf"))[None, :]
        raised = tl.maximum(largest, tl.max(scores, 1))
        # When the largest score rises, the total is scaled down. If all scores so far are -inf there is nothing to
        # scale, and -inf - -inf would be NaN.
        shift = tl.where(raised == float("-inf"), 0.0, raised)
        total = total * tl.exp(largest - shift) + tl.sum(tl.exp(scores - shift[:, None]), 1)
        largest = raised
    # The logarithm of 0 is not computed: the result is -inf.
    some = total != 0
    logarithm = tl.where(some, tl.log(tl.where(some, total, 1.0)), float("-inf"))
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    tl.store(found + i, shift + logarithm, has_i)


@triton.jit
def _sum_gradients(
    x, y, b, found, g, gradient, bias_gradient, n_x, n_y, width,
    OF_ROWS: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr, WIDTH: tl.constexpr, OUT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum the gradient of one tile of x over all y: x are the rows with OF_ROWS, and otherwise the columns.

    The scores of a tile of both sides are computed again, and from them g p, whose product with the tile's y is added
    to the gradient. The scores of rows and columns beyond the ends are -inf, so that their p is 0.
    """
    i = tl.program_id(0).to(tl.int64) * OWN + tl.arange(0, OWN)
    d = tl.program_id(1) * OUT + tl.arange(0, OUT)
    has_i, has_d = i < n_x, d < width
    total = tl.zeros((OWN, OUT), x.dtype.element_ty)
    weights = tl.zeros((OWN,), x.dtype.element_ty)
    for first in range(0, n_y, OTHER):
        j = first + tl.arange(0, OTHER).to(tl.int64)
        has_j = j < n_y
        scores = product(x + i * width, y + j * width, width, has_i, has_j, WIDTH, PRECISION)
        if OF_ROWS:
            scores += tl.load(b + j, has_j, 0.0)[None, :]
            scores -= tl.load(found + i, has_i, 0.0)[:, None]
            weight = tl.load(g + i, has_i, 0.0)[:, None]
        else:
            scores += tl.load(b + i, has_i, 0.0)[:, None]
            scores -= tl.load(found + j, has_j, 0.0)[None, :]
            weight = tl.load(g + j, has_j, 0.0)[None, :]
        scores = tl.where(has_i[:, None] & has_j[None, :], scores, float("-inf"))
        weighted = tl.exp(scores) * weight
        values = tl.load(y + j[:, None] * width + d[None, :], has_j[:, None] & has_d[None, :], 0.0)
        total += tl.dot(weighted, values, input_precision=PRECISION)
        weights += tl.sum(weighted, 1)
    tl.store(gradient + i[:, None] * width + d[None, :], total, has_i[:, None] & has_d[None, :])
    if not OF_ROWS:
        tl.store(bias_gradient + i, weights, has_i & (tl.program_id(1) == 0))


def streaming_logsumexp(rows, columns, bias, kept):
    if kept is not None:
        raise UnsupportedShape("on a GPU no rows are kept for the backward pass")
    x, y, b = rows.contiguous(), columns.contiguous(), bias.contiguous()
    found = x.new_empty(len(x))
    if len(x):
        with torch.cuda.device_of(x):
            _find_log_sums[(triton.cdiv(len(x), _TILE),)](
                x, y, b, found, len(x), len(y), x.shape[1],
                ROWS=_TILE, COLUMNS=_TILE, WIDTH=tile(x.shape[1], _WIDTH),
                PRECISION=precision(x), num_warps=8, num_stages=2,
            )  # fmt: skip
    return found


def streaming_logsumexp_backward(rows, columns, bias, found, gradient, kept):
    if kept is not None:
        raise UnsupportedShape("on a GPU no rows are kept for the backward pass")
    # -inf - -inf is NaN: a row without a column has no share in any
    given = (rows, columns, bias, found.masked_fill(found.isneginf(), 0), gradient)
    x, y, b, norms, g = (tensor.contiguous() for tensor in given)
    grads = SumGradients(*(torch.zeros_like(part) for part in (x, y, b)))
    width = x.shape[1]
    sizes = {"WIDTH": tile(width, _WIDTH), "OUT": tile(width, _OUT), "PRECISION": precision(x)}
    if not len(x):
        return grads
    sides = (True, x, y, grads.rows), (False, y, x, grads.columns)
    for of_rows, own, other, slope in sides:
        grid = triton.cdiv(len(own), _TILE), max(1, triton.cdiv(width, sizes["OUT"]))
        with torch.cuda.device_of(x):
            _sum_gradients[grid](
                own, other, b, norms, g, slope, grads.bias, len(own), len(other), width,
                OF_ROWS=of_rows, OWN=_TILE, OTHER=_TILE, **sizes, num_warps=8, num_stages=2,
            )  # fmt: skip
    return grads
