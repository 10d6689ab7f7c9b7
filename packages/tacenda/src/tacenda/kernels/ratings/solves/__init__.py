"""A ridge regression for every row of a sparse table: block solves for factorizations.

    A_u = s_u P + alpha_u sum_i z_i z_i^T,     x_u = A_u^{-1} (s_u P m_u + alpha_u sum_i t_ui z_i) + L_u^{-T} e_u

over the items i that row u has targets for, with A_u = L_u L_u^T; s_u is 1, or the number of targets. Without
noise e this is the step of alternating least squares and the fold-in of a user; with standard normal noise
x_u is a draw from its posterior N(A_u^{-1} (...), A_u^{-1}), the step of Gibbs sampling (Salakhutdinov and
Mnih 2008, eqs 11-13). A bias is a column of ones in z.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import as_offsets, check_array, check_range

__all__ = ["solve"]

_Floats = NDArray[np.float32]
_Doubles = NDArray[np.float64]
_Ints = NDArray[np.integer[Any]]


def solve(
    offsets: _Ints,
    ids: _Ints,
    targets: _Floats,
    table: _Floats,
    means: _Floats,
    precision: _Doubles,
    weight: float | _Doubles = 1.0,
    noise: _Floats | None = None,
    scaled: bool = False,
) -> _Floats:
    """Solve for every row: x (rows, width), float32.

    Parameters
    ----------
    offsets, ids, targets
        The targets t_ui, row after row: (rows + 1,), (targets,) and (targets,) float32.
    table
        z (columns, width) float32.
    means
        m (rows, width) float32, or (width,) for all rows.
    precision
        P (width, width), symmetric and positive definite where a row has fewer targets than width.
    weight
        alpha, the precision of a target: one number, or (rows,).
    noise
        e (rows, width) float32; zeros if None.
    scaled
        Whether s_u is the number of targets; a row without any is then its mean.

    Returns
    -------
    Products over targets are in float32, the solves in float64. Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, an id is out of range or A_u is not positive definite.
    """
    ids, targets = np.ascontiguousarray(ids), np.ascontiguousarray(targets, np.float32)
    table = np.ascontiguousarray(table, np.float32)
    offsets = as_offsets(offsets, len(ids))
    rows, (columns, width) = len(offsets) - 1, table.shape
    check_range(ids, columns, "ids")
    check_array(targets, ids.shape, table, "targets")
    means = np.ascontiguousarray(np.broadcast_to(np.asarray(means, np.float32), (rows, width)))
    precision = np.ascontiguousarray(precision, np.float64)
    check_array(precision, (width, width), precision, "precision")
    weights = np.asarray(weight, np.float64)
    if weights.shape not in ((), (rows,)):
        raise KernelError(f"the weights are {weights.shape} and must be ({rows},)")
    if noise is not None:
        noise = np.ascontiguousarray(noise, np.float32)
        check_array(noise, (rows, width), table, "noise")
    result: _Floats = resolve("rating_solves")(
        offsets, ids.astype(np.int32, copy=False), targets, table, means, precision,
        np.ascontiguousarray(np.broadcast_to(weights, (rows,))), noise, bool(scaled),
    )  # fmt: skip
    return result
