"""Forward-backward on a GPU: one program for each sequence, with the state in registers.

A program walks through its sequence and reads the block of each token once, in tiles of whole rows; what belongs to no
token is never looked at, so nothing is padded. Sequences are not split: parallelism is over them. Expected counts are
made afterwards, one program for each pair and tile of its block, token by token in the order of the text: no atomics,
so one run is like another.

Tensors are torch's, float32 or float64; ids are arrays on the host. Sums and products have the precision of the tensors
(no tensor core, no TF32). NaN propagates. Works under Triton's interpreter.
"""

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.hidden_markov.block import Backward, Forward, Sequences, inner_tokens
from tacenda.kernels.machinery.gpu import group_rows, sum_rows
from tacenda.kernels.machinery.tensors import to_device

_BYTES = 1 << 16  # of a tile of a block: what the registers of eight warps hold
_MOST = 1 << 13  # states, of which a tile has a whole row
_TILE = 64  # of the counts


@triton.jit
def _reached(block, state, k, TILES: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """The product A a (K,) of one block and a state, ROWS rows of the block at a time."""
    i = tl.arange(0, K)
    # A program cannot write to a place in its registers by number, so the sums of a tile are selected into theirs.
    found = tl.zeros((TILES, ROWS), state.dtype)
    for tile in range(TILES):
        j = tile * ROWS + tl.arange(0, ROWS)
        inside = (j < k)[:, None] & (i < k)[None, :]
        rows = tl.load(block + j[:, None] * k + i[None, :], inside, 0.0)
        sums = tl.sum(rows * state[None, :], 1)
        found = tl.where((tl.arange(0, TILES) == tile)[:, None], sums[None, :], found)
    return tl.reshape(found, (K,))


@triton.jit
def _sent_back(block, message, k, TILES: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """The product A^T v (K,) of one block and a message, ROWS rows of the block at a time."""
    i = tl.arange(0, K)
    # The tile's own part of the message is selected as in `_reached`: everything else counts as zero.
    parts = tl.reshape(message, (TILES, ROWS))
    found = tl.zeros((K,), message.dtype)
    for tile in range(TILES):
        j = tile * ROWS + tl.arange(0, ROWS)
        inside = (j < k)[:, None] & (i < k)[None, :]
        rows = tl.load(block + j[:, None] * k + i[None, :], inside, 0.0)
        own = tl.sum(tl.where((tl.arange(0, TILES) == tile)[:, None], parts, 0.0), 0)
        found += tl.sum(rows * own[:, None], 0)
    return found


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
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
    for t in range(begin, end):
        if t > begin:
            block = A + tl.load(pairs + t).to(tl.int64) * k * k
            state = _reached(block, state, k, TILES, ROWS, K)
        state *= tl.load(o + tl.load(words + t).to(tl.int64) * k + i, inside, 0.0)
        # Scale to a sum of one; a token of probability zero leaves a state of zeros behind.
        total = tl.sum(state, 0)
        possible = total != 0
        state *= tl.where(possible, 1 / tl.where(possible, total, 1.0), 0.0)
        tl.store(a + t * k + i, state, inside)
        tl.store(c + t, total)


@triton.jit
def _messages(  # type: ignore[no-untyped-def]
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
        possible = total != 0
        scale = tl.where(possible, 1 / tl.where(possible, total, 1.0), 0.0)
        emitted = tl.load(o + tl.load(words + t).to(tl.int64) * k + i, inside, 0.0)
        message = emitted * b * scale
        tl.store(posteriors + t * k + i, tl.load(a + t * k + i, inside, 0.0) * b, inside)
        tl.store(v + t * k + i, message, inside)
        # What the token before it is told: nothing comes before the first token of a sequence.
        if t > begin:
            block = A + tl.load(pairs + t).to(tl.int64) * k * k
            b = _sent_back(block, message, k, TILES, ROWS, K)


@triton.jit
def _counts(A, a, v, tokens, borders, N, k, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
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


def forward(
    blocks: torch.Tensor,
    emissions: torch.Tensor,
    starts: torch.Tensor,
    observed: Sequences,
    threads: int,
) -> Forward:
    """See `tacenda.kernels.hidden_markov.block.forward`; ``threads`` is without effect."""
    tokens, k = len(observed.words), emissions.shape[1]
    a, c = blocks.new_empty((tokens, k)), blocks.new_empty(tokens)
    if a.numel():
        with torch.cuda.device_of(blocks):
            ids = to_device(observed, blocks.device)
            _forward[(len(observed.first),)](
                blocks, emissions, starts, *ids, a, c, k, **_tiles(k, blocks)
            )
    return Forward(c.double().log(), a)


def backward(
    blocks: torch.Tensor,
    emissions: torch.Tensor,
    starts: torch.Tensor,
    observed: Sequences,
    found: Forward,
    threads: int,
) -> Backward:
    """See `tacenda.kernels.hidden_markov.block.backward`; ``threads`` is without effect."""
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
            at = to_device((pairs, words, offsets), device)
            _messages[(len(first),)](
                blocks, emissions, *at, a, c, v, posteriors, k, **_tiles(k, blocks)
            )
        if counts.numel() and len(inner):
            size = min(_TILE, triton.next_power_of_2(k))
            tiles = triton.cdiv(k, size)
            _counts[(len(blocks), tiles, tiles)](
                blocks, a, v, *to_device((inner[order], borders), device), counts, k, TILE=size
            )
    begins = np.diff(offsets) > 0
    heads, starting = group_rows(first[begins], len(starts))
    emitted = sum_rows(posteriors, *group_rows(words, len(emissions)))
    started = sum_rows(posteriors, offsets[:-1][begins][heads], starting)
    return Backward(*(counts, emitted, started, posteriors))


def _tiles(k: int, blocks: torch.Tensor) -> dict[str, Any]:
    """How a program reads a block: TILES of ROWS rows of K numbers, and with how many warps."""
    if k > _MOST:
        raise UnsupportedShape(f"on a GPU at most {_MOST} states of a class are served, not {k}")
    K = int(triton.next_power_of_2(max(k, 1)))
    rows = max(1, min(K, _BYTES // (K * blocks.element_size())))
    warps = max(1, min(8, rows * K // 1024))
    return {"TILES": K // rows, "ROWS": rows, "K": K, "num_warps": warps}
