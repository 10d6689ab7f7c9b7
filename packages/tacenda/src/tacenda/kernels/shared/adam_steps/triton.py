"""The step of Adam on a GPU: one kernel that reads four arrays once and writes three.

Works under Triton's interpreter.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.shared.adam_steps import BETA_1, BETA_2, EPSILON

_AT_ONCE = 1024


@triton.jit
def _step(  # type: ignore[no-untyped-def]
    table, mean, square, gradient, n, keep, keep_square, rate, scale, epsilon, AT_ONCE: tl.constexpr
):
    """Make the step of some numbers; ``rate`` and ``scale`` hold what corrects both means."""
    at = tl.program_id(0).to(tl.int64) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = at < n
    g, m = tl.load(gradient + at, inside, 0.0), tl.load(mean + at, inside, 0.0)
    m += (1 - keep) * (g - m)
    v = keep_square * tl.load(square + at, inside, 0.0) + (1 - keep_square) * g * g
    tl.store(mean + at, m, inside)
    tl.store(square + at, v, inside)
    moved = rate * m / (tl.sqrt(v) * scale + epsilon)
    tl.store(table + at, tl.load(table + at, inside, 0.0) - moved, inside)


def step(
    table: Any, mean: Any, square: Any, gradient: Any, rate: float, t: int
) -> tuple[Any, Any, Any]:
    """See `tacenda.kernels.shared.adam_steps.step`."""
    parts = table, mean, square
    if any(part.dtype != torch.float32 or not part.is_contiguous() for part in parts):
        # a launch takes its numbers as float32
        raise UnsupportedShape(f"tables of {table.dtype}, or in another order than C's")
    gradient = gradient.contiguous()
    if n := table.numel():
        with torch.cuda.device_of(table):
            _step[(triton.cdiv(n, _AT_ONCE),)](
                table, mean, square, gradient, n, BETA_1, BETA_2, rate / (1 - BETA_1**t),
                1 / (1 - BETA_2**t) ** 0.5, EPSILON, AT_ONCE=_AT_ONCE,
            )  # fmt: skip
    return table, mean, square
