"""The normaliser of a softmax over very many columns, without the matrix of their scores.

    l_i = log sum_j exp(x_i . y_j + b_j)

The scores are made tile by tile, and of each row only the largest one so far and the sum of the exponentials below
it are kept (Milakov and Gimelshein 2018; Dao et al. 2022, section 3.1). The backward pass makes the tiles again:

    p_ij = exp(x_i . y_j + b_j - l_i),   dx_i = g_i sum_j p_ij y_j,   dy_j = sum_i g_i p_ij x_i,   db_j = sum_i g_i p_ij

For a flat transition matrix of Z states that is Z x d numbers of memory instead of Z x Z. Where there is room for p of
some rows, one of the four products, and the exponentials, are made once instead of twice for these. On a CUDA device
everything is a torch tensor.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import check_array, check_floats, common_device

__all__ = ["Gradients", "backward", "forward", "place"]

_Floats = NDArray[np.floating[Any]]


class Gradients(NamedTuple):
    """Gradients in the shapes of ``rows``, ``columns`` and ``bias``."""

    rows: _Floats
    columns: _Floats
    bias: _Floats


def place(rows: _Floats, columns: _Floats, limit: int) -> _Floats | None:
    """Make room for `forward` to keep p of the first rows, in at most ``limit`` bytes.

    Returns None on a GPU, whose kernels make scores again in less time than memory would bring them.
    """
    if not isinstance(rows, np.ndarray):
        return None
    room = limit // (columns.itemsize * len(columns))
    return np.empty((min(room, len(rows)), len(columns)), columns.dtype)


def forward(rows: _Floats, columns: _Floats, bias: _Floats, kept: _Floats | None = None) -> _Floats:
    """Find the natural logarithm of the sum of exponentials of every row's scores.

    Parameters
    ----------
    rows
        x (rows, width), float32 or float64.
    columns
        y (columns, width), at least one, in the same dtype.
    bias
        b (columns,), in the same dtype; -inf leaves a column out.
    kept
        (some rows, columns), from `place`: takes p of the first rows, for `backward`.

    Returns
    -------
    l (rows,), in the same dtype. Memory beside it: one tile of a few megabytes. NaN propagates.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit.
    """
    device = _checked(rows, columns, bias, kept)
    result: _Floats = resolve("streaming_logsumexp", device)(rows, columns, bias, kept)
    return result


def backward(
    rows: _Floats,
    columns: _Floats,
    bias: _Floats,
    found: _Floats,
    gradient: _Floats,
    kept: _Floats | None = None,
) -> Gradients:
    """The gradient of ``(gradient * forward(rows, columns, bias)).sum()``.

    Parameters
    ----------
    rows, columns, bias
        As in `forward`.
    found
        l (rows,), what `forward` returned for them.
    gradient
        g (rows,).
    kept
        What `forward` filled for them.

    Raises
    ------
    KernelError
        As in `forward`.
    """
    device = _checked(rows, columns, bias, kept, found=found, gradient=gradient)
    result: Gradients = resolve("streaming_logsumexp_backward", device)(
        rows, columns, bias, found, gradient, kept
    )
    return result


def _checked(
    rows: _Floats, columns: _Floats, bias: _Floats, kept: _Floats | None, **of_rows: _Floats
) -> str:
    """The device of the arrays, if they fit together; ``of_rows`` have one number for each row."""
    device = common_device(rows=rows, columns=columns, bias=bias, **of_rows)
    check_floats(rows, 2, "rows")
    check_floats(columns, 2, "columns")
    if rows.shape[1] != columns.shape[1] or not len(columns):
        raise KernelError(
            f"rows {tuple(rows.shape)} and columns {tuple(columns.shape)} must be of one width, "
            "with at least one column"
        )
    shapes = {"bias": (bias, columns.shape[:1])}
    shapes |= {name: (array, rows.shape[:1]) for name, array in of_rows.items()}
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise KernelError(f"{name} must be {tuple(shape)}, not {tuple(array.shape)}")
    if any(array.dtype != rows.dtype for array in (columns, bias, *of_rows.values())):
        raise KernelError(f"all arrays must be {rows.dtype}, as rows is")
    if kept is not None:
        check_array(kept, (min(len(kept), len(rows)), len(columns)), rows, "kept")
    return device
