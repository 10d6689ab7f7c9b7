"""The modal recurrence as a plain loop over dense matrices in float64: the specification."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dynamics.linear_recurrence.arguments import check_like, check_out, check_packed
from tacenda.kernels.dynamics.modal_recurrence.arguments import check_eigenvalues, check_scan

_Array = NDArray[Any]


class Gradients(NamedTuple):
    """Of a scalar loss: real (n_real,), complex (n_pairs, 2), u (tokens, states) and initial
    (sequences, states).
    """

    real: _Array
    complex: _Array
    u: _Array
    initial: _Array


class Scan(NamedTuple):
    """What every token sees coming (tokens, width), and the last states (sequences, states)."""

    before: _Array | None
    last: _Array


def block_diagonal(real: _Array, complex: _Array) -> NDArray[np.float64]:
    """Lambda (states, states), the states in the order of the package's docstring."""
    n, pairs = len(real), len(complex)
    x, y = n + np.arange(pairs), n + pairs + np.arange(pairs)
    matrix = np.zeros((n + 2 * pairs, n + 2 * pairs))
    matrix[np.arange(n), np.arange(n)] = real
    matrix[x, x] = matrix[y, y] = complex[:, 0]
    matrix[x, y], matrix[y, x] = complex[:, 1], -complex[:, 1]
    return matrix


def forward(
    real: _Array,
    complex: _Array,
    u: _Array,
    offsets: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    out: _Array | None = None,
    threads: int = 1,
) -> _Array:
    """See `tacenda.kernels.dynamics.modal_recurrence.forward`; ``threads`` is without effect."""
    u, offsets = check_packed(u, offsets, "u")
    check_eigenvalues(real, complex, u.shape[1])
    matrix, out = block_diagonal(real, complex), check_out(out, u)
    initial = check_like(initial, (len(offsets) - 1, u.shape[1]), u, "initial")
    for s in range(len(offsets) - 1):
        m = initial[s].astype(np.float64)
        tokens = range(int(offsets[s]), int(offsets[s + 1]))
        for t in reversed(tokens) if reverse else tokens:
            m = matrix @ m + u[t]
            out[t] = m
    return out


def scan(
    real: _Array,
    complex: _Array,
    table: _Array,
    ids: _Array,
    offsets: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    out: _Array | None = None,
    column: int = 0,
) -> Scan:
    """See `tacenda.kernels.dynamics.modal_recurrence.scan`."""
    check_eigenvalues(real, complex, np.shape(table)[-1])
    table, ids, offsets, initial = check_scan(table, ids, offsets, initial, out, column)
    matrix, last = block_diagonal(real, complex), np.empty_like(initial)
    for s in range(len(offsets) - 1):
        m = last_m = initial[s].astype(np.float64)
        tokens = range(int(offsets[s]), int(offsets[s + 1]))
        for t in reversed(tokens) if reverse else tokens:
            if out is not None:
                out[t, column : column + len(matrix)] = m
            last_m = m + table[ids[t]]
            m = matrix @ last_m
        last[s] = last_m
    return Scan(out, last)


def backward(
    real: _Array,
    complex: _Array,
    m: _Array,
    offsets: _Array,
    grad: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.dynamics.modal_recurrence.backward`; ``threads`` is without effect."""
    m, offsets = check_packed(m, offsets, "m")
    check_eigenvalues(real, complex, m.shape[1])
    grad = check_like(grad, m.shape, m, "grad")
    initial = check_like(initial, (len(offsets) - 1, m.shape[1]), m, "initial")
    matrix = block_diagonal(real, complex)
    d_matrix = np.zeros_like(matrix)
    d_u = np.zeros_like(grad)
    d_initial = np.zeros((len(offsets) - 1, len(matrix)), grad.dtype)
    for s in range(len(offsets) - 1):
        tokens = list(range(int(offsets[s]), int(offsets[s + 1])))
        tokens = tokens if reverse else tokens[::-1]
        carried = np.zeros(len(matrix))
        for position, t in enumerate(tokens):
            adjoint = grad[t] + carried
            before = m[tokens[position + 1]] if position + 1 < len(tokens) else initial[s]
            d_u[t] = adjoint
            d_matrix += np.outer(adjoint, before)
            carried = matrix.T @ adjoint
        d_initial[s] = carried
    n, pairs = len(real), len(complex)
    x, y = n + np.arange(pairs), n + pairs + np.arange(pairs)
    d_complex = np.stack(
        [d_matrix[x, x] + d_matrix[y, y], d_matrix[x, y] - d_matrix[y, x]], axis=-1
    )
    dtype = grad.dtype
    return Gradients(np.diag(d_matrix)[:n].astype(dtype), d_complex.astype(dtype), d_u, d_initial)
