"""Operations of linear dynamical systems on a GPU, in plain torch.

The linear recurrence is products of matrices, each of one step of all sequences. A sequence of more than `CHUNK` tokens
is cut into chunks that run side by side from states of zeros. Their correct last states are a recurrence over the
chunks with a power of F, computed by this same function; then a second run without input adds the contribution of the
inherited states. That is twice the flops, in products that fill the device. The cuts of a sequence depend on F and its
length alone. Memory besides the result: a copy of it, sorted by steps.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import torch

from tacenda.array_ops import to_tensors
from tacenda.kernels.sequences import LEAST_SQUARED_LENGTH

CHUNK = 64
"""Tokens of a chunk."""


def linear_recurrence(F, u, offsets, reverse):
    lengths = np.diff(offsets)
    chunk = int(lengths.max(initial=1))
    if chunk > CHUNK:
        # in float64, where F^64 does not overflow before the states themselves do in float32
        power = torch.linalg.matrix_power(F.double(), CHUNK)
        if power.isfinite().all():
            chunk = CHUNK
    counts = -(-lengths // chunk)
    owner = np.repeat(np.arange(len(counts)), counts)
    borders = np.concatenate([[0], np.cumsum(counts)])
    place = (np.arange(len(owner)) - borders[:-1][owner]) * chunk
    step = -1 if reverse else 1
    first = (offsets[1:] - 1 if reverse else offsets[:-1])[owner] + step * place
    sizes = np.minimum(chunk, lengths[owner] - place)
    if not len(sizes):
        return torch.empty_like(u)
    # The rows of step t of all chunks with more than t tokens, longest first, one step after another. Sequences of 100
    # and 70 tokens have the chunks A, B and C, D of 64, 36, 64 and 6 tokens, which are in the order A, C, B, D:
    #     step       0         1      ...     5         6     ...   35       36   ...   63
    #     chunks  A C B D | A C B D | ... | A C B D | A C B | ... | A C B | A C | ... | A C
    #     running    4         4      ...     4         3     ...    3        2   ...    2
    order = np.argsort(-sizes, kind="stable")
    running = np.searchsorted(-sizes[order], -np.arange(sizes.max()))
    rows = np.concatenate([first[order[:n]] + step * t for t, n in enumerate(running)])
    (at,) = to_tensors((rows,), u.device)
    states = u[at]
    _advance(F, states, running)
    if len(owner) > np.count_nonzero(counts):
        ends, firsts = to_tensors(
            (_find_ends(order, sizes, running), np.flatnonzero(place == 0)), u.device
        )
        inherited = linear_recurrence(power, states[ends].double(), borders, False).roll(1, 0)
        inherited[firsts] = 0
        (turn,) = to_tensors((order,), u.device)
        _inherit(F, states, running, inherited[turn].to(F.dtype))
    out = torch.empty_like(u)
    out[at] = states
    return out


def _advance(F: torch.Tensor, states: torch.Tensor, running: Any) -> None:
    """Run a_t = F a_{t-1} + u_t for all chunks, in place; the rows of a step follow those of the step before."""
    begin = 0
    for before, now in pairwise(running):
        following = states[begin + before : begin + before + now]
        following.addmm_(states[begin : begin + now], F.T)
        begin += before


def _inherit(F: torch.Tensor, states: torch.Tensor, running: Any, inherited: torch.Tensor) -> None:
    """Add F^t times the state that each chunk inherits to its state of step t = 1, 2 ..."""
    begin = 0
    for now in running:
        inherited = inherited[:now] @ F.T
        states[begin : begin + now] += inherited
        begin += now


def _find_ends(order: Any, sizes: Any, running: Any) -> Any:
    """Return the rows of the last states among those sorted by steps, in the order of the chunks."""
    begins = np.concatenate([[0], np.cumsum(running)])
    ends = np.empty(len(order), np.int64)
    ends[order] = begins[sizes[order] - 1] + np.arange(len(order))
    return ends


def unit_rows(X):
    lengths = torch.linalg.vector_norm(X, dim=1, keepdim=True, dtype=torch.float64)
    return X.div_(lengths.clamp_(min=LEAST_SQUARED_LENGTH**0.5))
