"""The solves, the specification: one row after another."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError

_Array = NDArray[Any]


def solve(
    offsets: _Array,
    ids: _Array,
    targets: _Array,
    table: _Array,
    means: _Array,
    precision: _Array,
    weights: _Array,
    noise: _Array | None,
    scaled: bool,
) -> NDArray[np.float32]:
    """x_u = A_u^{-1} (s_u P m_u + alpha_u sum_i t_ui z_i) + L_u^{-T} e_u (Salakhutdinov and Mnih 2008, eqs 11-13)."""
    out = means.copy()
    for u in range(len(out)):
        span = slice(offsets[u], offsets[u + 1])
        z = table[ids[span]].astype(np.float64)
        if scaled and not len(z):
            continue
        P = precision * (len(z) if scaled else 1)
        A = P + weights[u] * z.T @ z
        try:
            L = np.linalg.cholesky(A)
        except np.linalg.LinAlgError as error:
            raise KernelError(f"the system of row {u} is not positive definite") from error
        x = np.linalg.solve(A, P @ means[u] + weights[u] * z.T @ targets[span])
        if noise is not None:
            x += np.linalg.solve(L.T, noise[u].astype(np.float64))
        out[u] = x
    return out
