"""A ridge regression for every row of a sparse table: block solves for factorizations.

    A_u = s_u P + alpha sum_i z_i z_i^T,     x_u = A_u^{-1} (s_u P m_u + alpha sum_i t_ui z_i) + L_u^{-T} e_u

over the items i that row u has targets for, with A_u = L_u L_u^T; s_u is 1, or the number of targets. Without
noise e this is the step of alternating least squares and the fold-in of a user; with standard normal noise
x_u is a draw from its posterior N(A_u^{-1} (...), A_u^{-1}), the step of Gibbs sampling (Salakhutdinov and
Mnih 2008, eqs 11-13). A bias is a column of ones in z.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve

__all__ = ["solve"]

_Floats = NDArray[np.float32]
_Ints = NDArray[np.integer[Any]]


def solve(
    offsets: _Ints,
    ids: _Ints,
    targets: _Floats,
    table: _Floats,
    means: _Floats,
    precision: NDArray[np.float64],
    weight: float = 1.0,
    noise: _Floats | None = None,
    scaled: bool = False,
) -> _Floats:
    """X for every row, (rows, width) float32.

    Parameters
    ----------
    offsets, ids, targets
        The t_ui by row: (rows + 1,), (targets,) and (targets,) float32.
    table
        z (columns, width) float32.
    means
        m (rows, width) float32, or (width,) for all rows.
    precision
        P (width, width), symmetric and positive definite where a row has fewer targets than width.
    weight
        alpha, the precision of a target.
    noise
        e (rows, width) float32; None: none.
    scaled
        Whether s_u is the number of targets; a row without any is then its mean.

    Returns
    -------
    Products over targets are in float32, the solves in float64. Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, an id is out of range or A_u is not positive definite.
    """
    result: _Floats = resolve("rating_solves")(
        offsets, ids, targets, table, means, precision, weight, noise, scaled
    )
    return result
