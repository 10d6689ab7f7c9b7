"""The modal recurrence on a GPU: a program runs one chunk of a sequence, for all states or some of them.

A state, or a pair of states, is independent of all others, so that nothing is shared among the lanes of a program, and
every number is read once and written once. A sequence of more than `CHUNK` tokens is cut into chunks, which run side
by side from states of zeros; the states that the chunks inherit then are a recurrence over the chunks,

    b_{t+1} = A b_t + B u_t          A = B = Lambda over tokens, and A = Lambda^CHUNK, B = I over ends of chunks,

which is cut again if it is long, and a second run over the tokens begins with the inherited states. The cuts of a
sequence depend on its length alone, and sums are made in the order of the tokens: a sequence has the same states in
every batch, at every call.

Tensors are torch's; ids and offsets may be arrays on the host. Memory besides the results: four rows of states for
each chunk. NaN propagates. Works under Triton's interpreter.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.array_ops import to_tensors
from tacenda.kernels.sequences import Scan

CHUNK = 128
"""Tokens of a chunk: so many that reading the rows of a long sequence twice is all that cutting it costs."""
_LANES = 128  # real states and pairs of a program


@triton.jit
def _run(
    factors, inputs, rows, first, lengths, initial, before, last,
    n_real, n_pairs, states, width, step,
    LANES: tl.constexpr, GATHER: tl.constexpr, KEEP: tl.constexpr, UNDECAYED: tl.constexpr,
):  # fmt: skip
    """Run one chunk: the inputs of token t are row ``rows[t]`` with GATHER, else row t.

    KEEP writes b_t of every token to ``before``, rows of ``width``. ``last`` is filled with b + u of the last token
    with UNDECAYED, and otherwise with the state after it.
    """
    chunk = tl.program_id(0).to(tl.int64)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    lanes = n_real + n_pairs
    there = lane < lanes
    paired = there & (lane >= n_real)
    # A = a - i ar and B = c - i cr, as numbers that multiply x + i y; ar and cr are zero for a real state
    a = tl.load(factors + lane, there, 0.0)
    ar = tl.load(factors + lanes + lane, there, 0.0)
    c = tl.load(factors + 2 * lanes + lane, there, 0.0)
    cr = tl.load(factors + 3 * lanes + lane, there, 0.0)
    x = tl.load(initial + chunk * states + lane, there, 0.0)
    y = tl.load(initial + chunk * states + n_pairs + lane, paired, 0.0)
    sum_x, sum_y = x, y
    t = tl.load(first + chunk)
    for _ in range(tl.load(lengths + chunk)):
        if KEEP:
            tl.store(before + t * width + lane, x, there)
            tl.store(before + t * width + n_pairs + lane, y, paired)
        row = t
        if GATHER:
            row = tl.load(rows + t).to(tl.int64)
        u = tl.load(inputs + row * states + lane, there, 0.0)
        v = tl.load(inputs + row * states + n_pairs + lane, paired, 0.0)
        sum_x, sum_y = x + u, y + v
        x, y = a * x + ar * y + (c * u + cr * v), a * y - ar * x + (c * v - cr * u)
        t += step
    if UNDECAYED:
        x, y = sum_x, sum_y
    tl.store(last + chunk * states + lane, x, there)
    tl.store(last + chunk * states + n_pairs + lane, y, paired)


class _Chunks(NamedTuple):
    """Pieces of sequences, on the host, in the order in which they run: token t of piece i is ``first[i] + step t``."""

    first: Any
    lengths: Any
    step: int
    borders: Any  # (sequences + 1,): the pieces of each sequence

    @classmethod
    def cut(cls, offsets: Any, reverse: bool) -> "_Chunks":
        """Cut sequences into pieces of `CHUNK` tokens and a last one of fewer; an empty one is one piece."""
        lengths = np.diff(offsets)
        counts = np.maximum(-(-lengths // CHUNK), 1)
        borders = np.zeros(len(offsets), np.int64)
        np.cumsum(counts, out=borders[1:])
        owner = np.repeat(np.arange(len(counts)), counts)
        place = (np.arange(borders[-1]) - borders[owner]) * CHUNK
        step = -1 if reverse else 1
        first = (offsets[1:] - 1 if reverse else offsets[:-1])[owner] + step * place
        return cls(first, np.minimum(CHUNK, lengths[owner] - place), step, borders)

    @property
    def are_several(self) -> bool:
        """Whether any sequence has several pieces."""
        return len(self.first) >= len(self.borders)


class _Factors(NamedTuple):
    """A and B of the recurrence, complex (lanes,); ``n_real`` of the lanes are real states."""

    A: torch.Tensor
    B: torch.Tensor
    n_real: int

    def over_chunks(self) -> "_Factors":
        """Return the factors of the recurrence over the ends of chunks."""
        return _Factors(self.A**CHUNK, torch.ones_like(self.B), self.n_real)

    def parts(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the real and imaginary parts of A and then of B: (4, lanes)."""
        return torch.stack([self.A.real, self.A.imag, self.B.real, self.B.imag]).to(dtype)


def modal_scan(modes, table, ids, offsets, initial, reverse, out, column):
    real, pairs = modes
    values = torch.complex(*pairs.double().T)
    Lambda = torch.cat([real.double().to(values.dtype), values])
    (rows,) = to_tensors((ids,), table.device)
    chunks = _Chunks.cut(offsets, reverse)
    target = None if out is None else out[:, column:]
    factors = _Factors(Lambda, Lambda, len(real))
    last = _run_sequences(factors, table, rows, chunks, initial, target, undecayed=True)
    return Scan(out, last)


def _run_sequences(
    factors: _Factors,
    inputs: torch.Tensor,
    rows: torch.Tensor | None,
    chunks: _Chunks,
    initial: torch.Tensor,
    before: torch.Tensor | None,
    undecayed: bool,
) -> torch.Tensor:
    """Run all sequences from ``initial``; return the state after the last token of each."""
    if not chunks.are_several:
        return _launch(factors, inputs, rows, chunks, initial, before, undecayed)
    # run every chunk from zeros, then find the inherited states by a recurrence over the chunks, in their order
    zeros = initial.new_zeros((len(chunks.first), initial.shape[1]))
    ends = _launch(factors, inputs, rows, chunks, zeros, None, False)
    inherited = torch.empty_like(zeros)
    over = _Chunks.cut(chunks.borders, False)
    _run_sequences(factors.over_chunks(), ends, None, over, initial, inherited, False)
    last = _launch(factors, inputs, rows, chunks, inherited, before, undecayed)
    return last[to_tensors((chunks.borders[1:] - 1,), last.device)[0]]


def _launch(
    factors: _Factors,
    inputs: torch.Tensor,
    rows: torch.Tensor | None,
    chunks: _Chunks,
    initial: torch.Tensor,
    before: torch.Tensor | None,
    undecayed: bool,
) -> torch.Tensor:
    """Run every chunk from its initial state; return the state after its last token."""
    last = torch.empty_like(initial)
    n_lanes, states = len(factors.A), initial.shape[1]
    if not last.numel():
        return last
    first, lengths = to_tensors((chunks.first, chunks.lengths), initial.device)
    lanes = min(_LANES, max(16, triton.next_power_of_2(n_lanes)))
    with torch.cuda.device_of(initial):
        _run[(len(first), triton.cdiv(n_lanes, lanes))](
            factors.parts(initial.dtype), inputs, rows if rows is not None else first, first, lengths,
            initial, last if before is None else before, last,
            factors.n_real, n_lanes - factors.n_real, states,
            0 if before is None else before.stride(0), chunks.step,
            LANES=lanes, GATHER=rows is not None, KEEP=before is not None, UNDECAYED=undecayed,
            num_warps=max(1, lanes // 32),
        )  # fmt: skip
    return last
