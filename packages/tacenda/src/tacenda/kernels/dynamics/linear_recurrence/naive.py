"""The linear recurrence as a plain loop in float64: the specification."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dynamics.linear_recurrence.arguments import (
    check_like,
    check_out,
    check_packed,
    square,
)

_Array = NDArray[Any]


class Gradients(NamedTuple):
    """Of a scalar loss: F (states, states), u (tokens, states) and initial (sequences, states)."""

    F: _Array
    u: _Array
    initial: _Array


def forward(
    F: _Array,
    u: _Array,
    offsets: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    out: _Array | None = None,
    threads: int = 1,
) -> _Array:
    """See `tacenda.kernels.dynamics.linear_recurrence.forward`; ``threads`` is without effect."""
    u, offsets = check_packed(u, offsets, "u")
    F, out = square(F, u).astype(np.float64), check_out(out, u)
    initial = check_like(initial, (len(offsets) - 1, u.shape[1]), u, "initial")
    for s in range(len(offsets) - 1):
        a = initial[s].astype(np.float64)
        tokens = range(int(offsets[s]), int(offsets[s + 1]))
        for t in reversed(tokens) if reverse else tokens:
            a = F @ a + u[t]
            out[t] = a
    return out


def backward(
    F: _Array,
    a: _Array,
    offsets: _Array,
    grad: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.dynamics.linear_recurrence.backward`; ``threads`` is without effect."""
    a, offsets = check_packed(a, offsets, "a")
    F = square(F, a).astype(np.float64)
    grad = check_like(grad, a.shape, a, "grad")
    initial = check_like(initial, (len(offsets) - 1, a.shape[1]), a, "initial")
    d_F, d_u, d_initial = np.zeros(F.shape), np.zeros_like(grad), np.zeros_like(initial)
    for s in range(len(offsets) - 1):
        tokens = list(range(int(offsets[s]), int(offsets[s + 1])))
        tokens = tokens if reverse else tokens[::-1]
        carried = np.zeros(len(F))
        for position, t in enumerate(tokens):
            adjoint = grad[t] + carried
            before = a[tokens[position + 1]] if position + 1 < len(tokens) else initial[s]
            d_u[t] = adjoint
            d_F += np.outer(adjoint, before)
            carried = F.T @ adjoint
        d_initial[s] = carried
    return Gradients(d_F.astype(a.dtype), d_u, d_initial)
