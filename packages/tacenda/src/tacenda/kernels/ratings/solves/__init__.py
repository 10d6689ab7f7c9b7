"""A ridge regression for every row of a sparse table: block solves for factorizations.

    A_u = s_u P + alpha_u sum_i z_i z_i^T,     x_u = A_u^{-1} (s_u P m_u + alpha_u sum_i t_ui z_i) + L_u^{-T} e_u

over the items i that row u has targets for, with A_u = L_u L_u^T; s_u is 1, or the number of targets. Without
noise e this is the step of alternating least squares and the fold-in of a user; with standard normal noise
x_u is a draw from its posterior N(A_u^{-1} (...), A_u^{-1}), the step of Gibbs sampling (Salakhutdinov and
Mnih 2008, eqs 11-13). A bias is a column of ones in z.

On a CUDA device targets, table, means and noise are torch tensors there; all else may be arrays or tensors.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import (
    as_offsets,
    as_type,
    broadcast,
    check_array,
    check_range,
    common_device,
    given,
)

__all__ = ["AT_ONCE", "bytes_needed", "solve"]

AT_ONCE = 1 << 25
"""How many numbers of gathered rows, or of systems, a device holds at a time."""


_Floats = NDArray[np.float32]
_Doubles = NDArray[np.float64]
_Ints = NDArray[np.integer[Any]]


def bytes_needed(rows: int, targets: int, width: int) -> int:
    """Return the bytes that a device needs for the solves beside arguments and result, at most."""
    numbers = width * max(2 * targets, rows * width)
    return 28 * min(numbers, AT_ONCE) + 16 * targets + 4 * width * rows


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
    device = common_device(targets=given(targets), table=given(table), noise=noise)
    ids, targets, table, means = map(given, (ids, targets, table, means))
    table = as_type(table, np.float32, table)
    targets, means = (as_type(each, np.float32, table) for each in (targets, means))
    if noise is not None:
        noise = as_type(noise, np.float32, table)
    offsets = as_offsets(offsets, len(ids))
    rows, (columns, width) = len(offsets) - 1, table.shape
    check_range(ids, columns, "ids")
    check_array(targets, tuple(ids.shape), table, "targets")
    means = broadcast(means, (rows, width), "means")
    precision = as_type(given(precision), np.float64, table)
    check_array(precision, (width, width), precision, "precision")
    weights = broadcast(as_type(given(weight), np.float64, table), (rows,), "weights")
    if noise is not None:
        check_array(noise, (rows, width), table, "noise")
    result: _Floats = resolve("rating_solves", device)(
        offsets,
        as_type(ids, np.int32),
        targets,
        table,
        means,
        precision,
        weights,
        noise,
        bool(scaled),
    )
    return result
