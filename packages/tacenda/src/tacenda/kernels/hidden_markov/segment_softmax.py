"""Softmaxes over short runs of rows on a GPU: over the states of a class, over the words of a class.

A segment is a run of rows y, and the k vectors x of one class; two segments have the same rows or none in common. For
every x_i of its class

    p_j[i] = w[i] exp(y_j . x_i + b_j) / sum of the same over the rows j' of the segment,    or
    p_j[i] = exp(y_j . x_i + b_j - l_i)                                                      with norms l,

and with counts N and D = N - p (n / w), n[i] = sum_j N_j[i] (D = N with norms): dx_i += sum_j D_j[i] y_j,
dy_j += sum_i D_j[i] x_i, db_j += sum_i D_j[i]. One program makes every sum, without atomics. Imports torch and triton.
Tensors lie on one device, floats in one dtype and C order.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.kernels.machinery.gpu import group_rows, precision, product, tile
from tacenda.kernels.machinery.tensors import to_device

_Ids = np.ndarray[Any, np.dtype[np.int64]]
_TILE, _WIDTH = 64, 32


class Segments(NamedTuple):
    """The segments, as arrays on the host."""

    classes: _Ids  # (segments,), sorted: the class whose x it has
    begins: _Ids  # (segments,): its first row of y
    sizes: _Ids  # (segments,): its rows of y, at least one
    places: _Ids  # (segments,): its first row of p and of N, which are (rows of all segments, k)


@triton.jit
def _scores(  # type: ignore[no-untyped-def]
    x, y, b, rows, there, columns, inside, width, WIDTH: tl.constexpr, PRECISION: tl.constexpr
):
    """The scores y_j . x_i + b_j of a tile, -inf beyond its ends."""
    scores = product(y + rows * width, x + columns * width, width, there, inside, WIDTH, PRECISION)
    scores += tl.load(b + rows, there, 0.0)[:, None]
    return tl.where(there[:, None] & inside[None, :], scores, float("-inf"))


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    x, y, b, w, norms, classes, begins, sizes, places, p, k, width,
    NORMED: tl.constexpr, ONE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Fill p of one segment and one tile of x.

    With norms p is an exponential. Without, a first pass over the segment finds the largest score and the sum of the
    exponentials below it, rescaling the sum where the largest rises, and a second pass makes the scores again and
    stores p. ONE says that every segment is one tile, whose scores are still at hand in the second pass.
    """
    g = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = i < k
    columns = tl.load(classes + g) * k + i
    begin = tl.load(begins + g)
    n = tl.load(sizes + g)
    at = tl.load(places + g)
    row = tl.arange(0, ROWS)
    if NORMED:
        shift = tl.load(norms + columns, inside, 0.0)
        scale = tl.full((COLUMNS,), 1.0, p.dtype.element_ty)
    else:
        # The first pass. Where all scores so far are -inf nothing is subtracted, since -inf - -inf is no number.
        scores = _scores(x, y, b, begin + row, row < n, columns, inside, width, WIDTH, PRECISION)
        largest = tl.max(scores, 0)
        shift = tl.where(largest == float("-inf"), 0.0, largest)
        total = tl.sum(tl.exp(scores - shift[None, :]), 0)
        for first in range(ROWS, n, ROWS):
            j = first + row
            more = _scores(x, y, b, begin + j, j < n, columns, inside, width, WIDTH, PRECISION)
            raised = tl.maximum(largest, tl.max(more, 0))
            shift = tl.where(raised == float("-inf"), 0.0, raised)
            total = total * tl.exp(largest - shift) + tl.sum(tl.exp(more - shift[None, :]), 0)
            largest = raised
        scale = tl.load(w + g * k + i, inside, 0.0) / tl.where(inside, total, 1.0)
    # The second pass, or with norms the only one.
    for first in range(0, n, ROWS):
        j = first + row
        if not ONE:
            scores = _scores(x, y, b, begin + j, j < n, columns, inside, width, WIDTH, PRECISION)
        found = tl.exp(scores - shift[None, :]) * scale[None, :]
        tl.store(p + (at + j)[:, None] * k + i[None, :], found, (j < n)[:, None] & inside[None, :])


@triton.jit
def _slope(N, p, ratio, NORMED: tl.constexpr, at, inside):  # type: ignore[no-untyped-def]
    """D = N - p n / w of a tile at the addresses ``at``; ``ratio`` is n / w, shaped to fit the tile."""
    slope = tl.load(N + at, inside, 0.0)
    if not NORMED:
        slope -= tl.load(p + at, inside, 0.0) * ratio
    return slope


@triton.jit
def _by_class(  # type: ignore[no-untyped-def]
    y, N, p, ratio, begins, sizes, places, borders, dx, k, width,
    NORMED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, OUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum dx of one class and one tile of its x over the class's segments, which stand together."""
    c = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    d = tl.program_id(2) * OUT + tl.arange(0, OUT)
    inside = i < k
    total = tl.zeros((COLUMNS, OUT), dx.dtype.element_ty)
    for g in range(tl.load(borders + c), tl.load(borders + c + 1)):
        begin = tl.load(begins + g)
        n = tl.load(sizes + g)
        at = tl.load(places + g)
        # A tile of D^T times the rows of y that it belongs to.
        own = tl.load(ratio + g * k + i, inside, 0.0)[:, None]
        for first in range(0, n, ROWS):
            j = first + tl.arange(0, ROWS)
            here = inside[:, None] & (j < n)[None, :]
            D = _slope(N, p, own, NORMED, (at + j)[None, :] * k + i[:, None], here)
            rows = (begin + j)[:, None] * width + d[None, :]
            values = tl.load(y + rows, (j < n)[:, None] & (d < width)[None, :], 0.0)
            total += tl.dot(D, values, input_precision=PRECISION)
    rows = (c * k + i)[:, None] * width + d[None, :]
    tl.store(dx + rows, total, inside[:, None] & (d < width)[None, :])


@triton.jit
def _by_rows(  # type: ignore[no-untyped-def]
    x, N, p, ratio, classes, begins, sizes, places, order, borders, dy, db, k, width,
    NORMED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, OUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum dy and db of one tile of a run of rows over the segments that have the run, whatever their class."""
    q = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(2) * OUT + tl.arange(0, OUT)
    # Any segment of the run says how long it is, for all have the same rows.
    first = tl.load(borders + q)
    head = tl.load(order + first)
    n = tl.load(sizes + head)
    there = j < n
    total = tl.zeros((ROWS, OUT), dy.dtype.element_ty)
    bias = tl.zeros((ROWS,), dy.dtype.element_ty)
    for place in range(first, tl.load(borders + q + 1)):
        g = tl.load(order + place)
        c = tl.load(classes + g)
        at = tl.load(places + g)
        # Tiles of D times the vectors x of the segment's class; each row of D adds to its bias.
        for column in range(0, k, COLUMNS):
            i = column + tl.arange(0, COLUMNS)
            inside = i < k
            own = tl.load(ratio + g * k + i, inside, 0.0)[None, :]
            here = there[:, None] & inside[None, :]
            D = _slope(N, p, own, NORMED, (at + j)[:, None] * k + i[None, :], here)
            columns = (c * k + i)[:, None] * width + d[None, :]
            values = tl.load(x + columns, inside[:, None] & (d < width)[None, :], 0.0)
            total += tl.dot(D, values, input_precision=PRECISION)
            bias += tl.sum(D, 1)
    rows = tl.load(begins + head) + j
    here = there[:, None] & (d < width)[None, :]
    tl.store(dy + rows[:, None] * width + d[None, :], total, here)
    # The programs of all tiles of the width have found the same biases; one of them stores them.
    tl.store(db + rows, bias, there & (tl.program_id(2) == 0))


def forward(
    x: torch.Tensor,
    y: torch.Tensor,
    b: torch.Tensor,
    segments: Segments,
    weights: torch.Tensor | None,
    norms: torch.Tensor | None,
    p: torch.Tensor,
) -> None:
    """Fill ``p``.

    x is (classes, k, width), y (rows, width) and b (rows,), and either weights (segments, k) or norms (classes, k) are
    given.
    """
    k, width = x.shape[1:]
    if not p.numel():
        return
    ids = to_device(segments, x.device)
    longest = int(segments.sizes.max())
    columns, rows = tile(k, _TILE), tile(longest, 2 * _TILE)
    with torch.cuda.device_of(x):
        _forward[(len(segments.sizes), triton.cdiv(k, columns))](
            x, y, b, x if weights is None else weights, x if norms is None else norms, *ids, p, k, width,
            NORMED=norms is not None, ONE=norms is None and longest <= rows,
            ROWS=rows, COLUMNS=columns, WIDTH=tile(width, _WIDTH), PRECISION=precision(x), num_warps=8, num_stages=2,
        )  # fmt: skip


def backward(
    x: torch.Tensor,
    y: torch.Tensor,
    segments: Segments,
    p: torch.Tensor,
    counts: torch.Tensor,
    ratio: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients dx, dy and db; ``ratio`` is n / w (segments, k), or None where there were norms."""
    classes, k, width = x.shape
    dx, dy, db = torch.zeros_like(x), torch.zeros_like(y), y.new_zeros(len(y))
    if not counts.numel():
        return dx, dy, db
    # Segments by the run of rows they have, for dy and db, and by class, for dx.
    _, runs = np.unique(segments.begins, return_inverse=True)
    order, ends = group_rows(runs, int(runs.max()) + 1)
    borders = group_rows(segments.classes, classes)[1]
    at = to_device((*segments, order, ends, borders), x.device)
    (of_class, begins, sizes, places), (order_at, ends_at, borders_at) = at[:4], at[4:]
    columns, rows = tile(k, _TILE), tile(int(segments.sizes.max()), _TILE)
    out = tile(width, _TILE)
    tiles: dict[str, Any] = {"NORMED": ratio is None, "ROWS": rows, "COLUMNS": columns, "OUT": out}
    tiles |= {"PRECISION": precision(x), "num_warps": 8, "num_stages": 2}
    over, ratio = max(1, triton.cdiv(width, out)), counts if ratio is None else ratio
    with torch.cuda.device_of(x):
        _by_class[(classes, triton.cdiv(k, columns), over)](
            y, counts, p, ratio, begins, sizes, places, borders_at, dx, k, width, **tiles
        )
        _by_rows[(len(ends) - 1, triton.cdiv(int(segments.sizes.max()), rows), over)](
            x, counts, p, ratio, of_class, begins, sizes, places, order_at, ends_at, dy, db, k, width, **tiles
        )  # fmt: skip
    return dx, dy, db
