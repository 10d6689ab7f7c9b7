"""The solves as a plain loop in float64, and the checks of their arguments."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.ratings.sgd.arguments import check_packed, check_values

_Array = NDArray[Any]


class Checked(NamedTuple):
    """The arguments as the loops need them."""

    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    targets: NDArray[np.float32]
    table: NDArray[np.float32]
    means: NDArray[np.float32]
    precision: NDArray[np.float64]
    noise: NDArray[np.float32] | None


def check(
    offsets: _Array,
    ids: _Array,
    targets: _Array,
    table: _Array,
    means: _Array,
    precision: _Array,
    noise: _Array | None,
) -> Checked:
    """Raises KernelError where shapes, dtypes or numbers do not fit."""
    rows, (columns, width) = len(offsets) - 1, np.shape(table)
    packed = check_packed(offsets, ids, rows, columns, "column")
    means = np.broadcast_to(np.asarray(means, np.float32), (rows, width))
    precision = np.ascontiguousarray(precision, np.float64)
    if precision.shape != (width, width):
        raise KernelError(f"precision must be ({width}, {width}), not {precision.shape}")
    if noise is not None and np.shape(noise) != (rows, width):
        raise KernelError(f"noise must be ({rows}, {width}), not {np.shape(noise)}")
    return Checked(
        *packed,
        check_values(targets, len(packed.ids)),
        np.ascontiguousarray(table, np.float32),
        np.ascontiguousarray(means),
        precision,
        None if noise is None else np.ascontiguousarray(noise, np.float32),
    )


def solve(
    offsets: _Array,
    ids: _Array,
    targets: _Array,
    table: _Array,
    means: _Array,
    precision: _Array,
    weight: float = 1.0,
    noise: _Array | None = None,
    scaled: bool = False,
) -> NDArray[np.float32]:
    """See `tacenda.kernels.ratings.solves.solve`."""
    given = check(offsets, ids, targets, table, means, precision, noise)
    out = given.means.copy()
    for u in range(len(out)):
        span = slice(given.offsets[u], given.offsets[u + 1])
        z = given.table[given.ids[span]].astype(np.float64)
        if scaled and not len(z):
            continue
        P = given.precision * (len(z) if scaled else 1)
        A = P + weight * z.T @ z
        try:
            L = np.linalg.cholesky(A)
        except np.linalg.LinAlgError as error:
            raise KernelError(f"the system of row {u} is not positive definite") from error
        x = np.linalg.solve(A, P @ given.means[u] + weight * z.T @ given.targets[span])
        if given.noise is not None:
            x += np.linalg.solve(L.T, given.noise[u].astype(np.float64))
        out[u] = x
    return out
