"""Operations of several models: steps of optimizers, and sparse counts times a dense matrix.

On a CUDA device floating arrays are torch tensors there, unless said otherwise. NaN and infinity propagate, and all
operations release the GIL. No result depends on the number of threads.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import Array, Float, Int, Number, below
from tacenda.errors import KernelError
from tacenda.kernels.machinery.arguments import any_dtype, any_layout, in_place
from tacenda.kernels.operation import operation

# -- steps of optimizers -----------------------------------------------------------------------------

BETA_1, BETA_2 = 0.9, 0.999  # decay of Adam's mean and of its mean square of gradients
EPSILON = 1e-8  # keeps divisions finite before the first gradient


@operation
def adagrad(
    table: Float[Array, "all width", in_place],
    sums: Float[Array, "all", in_place],
    rows: Int[Array, "some", below("all")],
    gradient: Float[Array, "some width"],
    rate: float,
    threads: int = 1,
) -> tuple[Any, Any]:
    """Step some rows of a table W, in place.

        s_j += mean(g_j^2),    W_j -= rate g_j / (sqrt(s_j) + epsilon)

    AdaGrad (Duchi et al. 2011) has an accumulator for every number. Here a row has one, the sum of the mean squares of
    its gradients: a column of memory instead of another table, which suits rows of rare and frequent words.

    ``rows`` are the rows j to step, each at most once, and ``gradient`` has g for each of them. On the CPU, ``threads``
    share the rows. Returns W and s.
    """
    for j, g in zip(rows.tolist(), gradient.astype(np.float64), strict=True):
        s = float(sums[j]) + g @ g / max(len(g), 1)
        table[j] = table[j] - rate * g / (np.sqrt(s) + EPSILON)
        sums[j] = s
    return table, sums


def _check_step(t: int) -> None:
    if t < 1:
        raise KernelError(f"adam: t must be at least 1, the number of the first step, not {t}")


@operation(prepare=_check_step)
def adam(
    table: Float[Array, "*shape", in_place, any_layout],
    mean: Float[Array, "*shape", in_place, any_layout],
    square: Float[Array, "*shape", in_place, any_layout],
    gradient: Float[Array, "*shape", any_layout],
    rate: float,
    t: int,
) -> tuple[Any, Any, Any]:
    """Take step number ``t``, from 1, on a table W; table, mean and square are changed in place, and returned.

        m += (1 - beta_1) (g - m),    v = beta_2 v + (1 - beta_2) g^2,
        W -= rate m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon)

    (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1.)
    """
    for at in np.ndindex(table.shape):
        g = float(gradient[at])
        m = BETA_1 * float(mean[at]) + (1 - BETA_1) * g
        v = BETA_2 * float(square[at]) + (1 - BETA_2) * g**2
        mean[at], square[at] = m, v
        m, v = m / (1 - BETA_1**t), v / (1 - BETA_2**t)
        table[at] -= rate * m / (v**0.5 + EPSILON)
    return table, mean, square


# -- sparse counts times a dense matrix --------------------------------------------------------------


def _check_sparse(indptr: Any, indices: Any, threads: int) -> None:
    if threads < 1:
        raise KernelError(f"threads must be at least 1, not {threads}")
    if indptr[0] < 0 or indptr[-1] > len(indices):
        raise KernelError(
            f"indptr runs from {indptr[0]} to {indptr[-1]}, and there are {len(indices)} indices"
        )
    begins, ends = indptr[:-1], indptr[1:]
    if isinstance(indptr, np.ndarray) and (ends < begins).any():
        row = np.flatnonzero((ends < begins) | (ends > len(indices)))[0]
        raise KernelError(
            f"row {row} of the sparse operand runs from {begins[row]} to {ends[row]}: indptr does not ascend"
        )


@operation(prepare=_check_sparse)
def sparse_product(
    indptr: Int[Array, "rows+1"],
    indices: Int[Array, "nonzeros"],
    data: Number[Array, "nonzeros"],
    dense: Float[Array, "columns width", any_layout],
    row_scale: Float[Array, "rows", any_dtype, any_layout] | None = None,
    column_scale: Float[Array, "columns", any_dtype, any_layout] | None = None,
    threads: int = 1,
) -> NDArray[Any]:
    """Multiply sparse counts by a dense matrix: diag(r) E diag(c) X, with the diagonal whitening of E folded in.

    Fitting an LDS to text spends most of its time here: every EM iteration and every step of the randomized SVD
    multiplies the lagged counts Psi_k = W E_k W - u u^T by a few hundred dense columns.

    Parameters
    ----------
    indptr, indices, data
        E in CSR: (rows + 1,), (nonzeros,), (nonzeros,), arrays or tensors. Within a row the indices ascend (duplicates
        are added): the CPU refuses others, and a GPU adds them in the order given. int32 and float32 values are not
        converted, other types are; int32 values are rounded to float32 (exact up to 2^24).
    dense
        X (columns, width), float32. Columns of padding and layouts other than C order cost a copy.
    row_scale, column_scale
        r (rows,) and c (columns,); 1 if None.
    threads
        The rows are shared between them on the CPU.

    Returns (rows, width), float32. The nonzeros of a row are added in order, in float32, so the relative error grows
    like the square root of their number. Raises KernelError if shapes do not agree, or an index is out of range, or on
    the CPU out of order.
    """
    rows, columns = len(indptr) - 1, len(dense)
    r = np.ones(rows) if row_scale is None else row_scale.astype(np.float64)
    c = np.ones(columns) if column_scale is None else column_scale.astype(np.float64)
    x, y = dense.astype(np.float64), np.zeros((rows, dense.shape[1]))
    for i in range(rows):
        for p in range(int(indptr[i]), int(indptr[i + 1])):
            k = int(indices[p])
            if not 0 <= k < columns:
                raise KernelError(f"row {i} has a column index {k} outside 0 .. {columns - 1}")
            y[i] += r[i] * float(data[p]) * c[k] * x[k]
    return y.astype(np.float32)
