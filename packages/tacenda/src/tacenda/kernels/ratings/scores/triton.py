"""Scores on a GPU: a program for some pairs, which reads the two rows of each and writes one number.

Plain torch would write both rows of every pair before it multiplied them. Works under Triton's interpreter.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from tacenda.kernels.machinery.gpu import tile
from tacenda.kernels.machinery.tensors import to_device

_PAIRS, _WIDTH = 32, 128


@triton.jit
def _scores(  # type: ignore[no-untyped-def]
    users, items, x, q, b, c, out, n, mean, width, PAIRS: tl.constexpr, WIDTH: tl.constexpr
):
    """Score one tile of pairs; -1 stands for what is unknown."""
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    d = tl.arange(0, WIDTH)
    u, i = (
        tl.load(users + pair, pair < n, -1).to(tl.int64),
        tl.load(items + pair, pair < n, -1).to(tl.int64),
    )
    found = mean + tl.load(b + u, u >= 0, 0.0) + tl.load(c + i, i >= 0, 0.0)
    both = ((u >= 0) & (i >= 0))[:, None]
    for at in range(0, width, WIDTH):
        inside = both & (at + d < width)[None, :]
        own = tl.load(x + u[:, None] * width + (at + d)[None, :], inside, 0.0)
        found += tl.sum(own * tl.load(q + i[:, None] * width + (at + d)[None, :], inside, 0.0), 1)
    tl.store(out + pair, found, pair < n)


def scores(
    users: Any,
    items: Any,
    x: torch.Tensor,
    q: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    mean: float,
) -> torch.Tensor:
    """See `tacenda.kernels.ratings.scores.scores`."""
    out = x.new_empty(len(users))
    if len(out):
        pairs = to_device((users, items), x.device)
        with torch.cuda.device_of(x):
            _scores[(triton.cdiv(len(out), _PAIRS),)](
                *pairs,
                x,
                q,
                b,
                c,
                out,
                len(out),
                mean,
                x.shape[1],
                PAIRS=_PAIRS,
                WIDTH=tile(x.shape[1], _WIDTH),
            )
    return out
