"""Operations of several models: steps of optimizers, sparse times dense, rows of unit length, hidden units summed out.

On a CUDA device floating arrays are torch tensors there, unless said otherwise. NaN and infinity propagate, and all
operations release the GIL. No result depends on a number of threads.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import Array, Float, Int, below
from tacenda.errors import KernelError
from tacenda.kernels.machinery.memory import WIDE, aligned_zeros
from tacenda.kernels.operation import any_dtype, any_layout, in_place, operation

# -- steps of optimizers -----------------------------------------------------------------------------

BETA_1, BETA_2 = 0.9, 0.999  # decay of Adam's mean and of its mean square of gradients
EPSILON = 1e-8  # keeps the division finite where there was no gradient so far


@operation
def adagrad(
    table: Float[Array, "all width", in_place],
    sums: Float[Array, "all", in_place],
    rows: Int[Array, "some", below("all")],
    gradient: Float[Array, "some width"],
    rate: float,
    threads: int = 1,
) -> tuple[Any, Any]:
    """Step some rows of a table, each at most once; ``table`` and ``sums`` are changed in place, and returned.

        s_j += mean(g_j ** 2),    W_j -= rate g_j / (sqrt(s_j) + epsilon)

    This is AdaGrad (Duchi et al. 2011) with one accumulator a row, which costs a column of memory instead of another
    table and suits rows of words, rare and frequent.
    """
    for j, g in zip(rows.tolist(), gradient.astype(np.float64), strict=True):
        s = float(sums[j]) + (g**2).mean()
        table[j] = table[j] - rate * g / (np.sqrt(s) + EPSILON)
        sums[j] = s
    return table, sums


@operation
def adam(
    table: Float[Array, "*shape", in_place, any_layout],
    mean: Float[Array, "*shape", in_place, any_layout],
    square: Float[Array, "*shape", in_place, any_layout],
    gradient: Float[Array, "*shape", any_layout],
    rate: float,
    t: int,
) -> tuple[Any, Any, Any]:
    """Make step number ``t``, from 1, of a table W; table, mean and square are changed in place, and returned.

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


def _check_sparse(indptr: Any, indices: Any, data: Any, *others: Any) -> tuple[Any, ...]:
    *scaled, threads = others
    indptr, indices, data = (
        array if hasattr(array, "shape") else np.asarray(array) for array in (indptr, indices, data)
    )
    if threads < 1:
        raise KernelError(f"threads must be at least 1, not {threads}")
    if indptr.ndim != 1 or not len(indptr) or indices.ndim != 1 or data.shape != indices.shape:
        raise KernelError(
            "indptr (rows + 1,), indices and data (nonzeros,) must be vectors that agree, not of shapes "
            f"{tuple(indptr.shape)}, {tuple(indices.shape)} and {tuple(data.shape)}"
        )
    if indptr[0] < 0 or indptr[-1] > len(indices):
        raise KernelError(
            f"indptr runs from {indptr[0]} to {indptr[-1]}, and there are {len(indices)} indices"
        )
    dense, row_scale, column_scale = scaled
    lengths = (
        ("row_scale", row_scale, len(indptr) - 1),
        ("column_scale", column_scale, len(dense)),
    )
    for name, scale, length in lengths:
        if scale is not None and len(scale) != length:
            raise KernelError(
                f"{name} has {len(scale)} rows, and the sparse operand needs {length}"
            )
    return indptr, indices, data, *others


@operation(prepare=_check_sparse)
def sparse_product(
    indptr: Any,
    indices: Any,
    data: Any,
    dense: Float[Array, "columns width", any_layout],
    row_scale: Float[Array, "rows", any_dtype, any_layout] | None = None,
    column_scale: Float[Array, "columns", any_dtype, any_layout] | None = None,
    threads: int = 1,
) -> NDArray[Any]:
    """Multiply: diag(r) E diag(c) X, (rows, width) float32, the diagonal whitening of counts E folded in.

    This is where fitting an LDS to text spends its time: every EM iteration and every step of the randomized SVD
    multiplies the lagged counts Psi_k = W E_k W - u u^T by a few hundred dense columns.

    Parameters
    ----------
    indptr, indices, data
        E in CSR: (rows + 1,), (nonzeros,), (nonzeros,), arrays or tensors. Within a row the indices ascend (duplicates
        are added). int32 and float32 values are read as they are, other types converted first; int32 values are
        rounded to float32 (exact up to 2^24).
    dense
        X, float32. Columns of padding and layout other than C order cost a copy.
    row_scale, column_scale
        r and c; 1 where left out.

    Returns
    -------
    Sums run over a row's nonzeros in order, in float32, so the relative error grows like the square root of their
    number.

    Raises
    ------
    KernelError
        Shapes do not agree, or an index is out of range or, on the CPU, out of order.
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


# -- rows of unit length -------------------------------------------------------------------------------

TINY = 1e-12  # rows whose squared length is less are divided by the root of this: a row of zeros stays one


@operation
def unit_rows(X: Float[Array, "rows columns", in_place, any_layout]) -> Any:
    """Bring every row x_i of X to unit length, in place, and return X; rows of zeros stay.

    X may be a part of the columns of a larger matrix.
    """
    for i, x in enumerate(X.astype(np.float64)):
        X[i] = x / np.sqrt(max(x @ x, TINY))
    return X


# -- hidden units of Boltzmann machines summed out ---------------------------------------------------


class PackedInputs(NamedTuple):
    """The input of hidden units from every word, for `hidden_sums`. Made by `pack_inputs`; read-only."""

    #: a, as they were given.
    inputs: Float[Array, "types hidden"]
    #: The least and the largest a of every hidden unit, (hidden,).
    lows: NDArray[np.floating]
    highs: NDArray[np.floating]
    #: float32 (panels, hidden, 16): exp(a - (low + high) / 2) of sixteen words at a time, zeros after the last. No
    #: panels where a unit's numbers are too far apart for float32, or are not float32.
    panels: NDArray[np.float32]


_FARTHEST = 160.0  # exp of half of it, and its inverse, are far from the limits of float32


def pack_inputs(inputs: Any) -> PackedInputs:
    """Prepare what hidden units get from every word (types, hidden), of which there is at least one."""
    inputs = np.ascontiguousarray(inputs)
    if inputs.ndim != 2 or not len(inputs) or inputs.dtype not in (np.float32, np.float64):
        raise KernelError(
            "inputs must be float32 or float64 (types, hidden) with at least one row, a word, "
            f"not {inputs.dtype} {inputs.shape}"
        )
    types, hidden = inputs.shape
    lows, highs = inputs.min(axis=0), inputs.max(axis=0)
    panels = aligned_zeros(0, WIDE).reshape(0, hidden, WIDE)
    if inputs.dtype == np.float32 and (not hidden or (highs - lows).max() <= _FARTHEST):
        count = -(-types // WIDE)
        panels = aligned_zeros(count * hidden, WIDE).reshape(count, hidden, WIDE)
        scaled = np.exp(inputs - (lows + highs) / 2)
        whole = types // WIDE * WIDE
        panels[: whole // WIDE] = scaled[:whole].reshape(-1, WIDE, hidden).swapaxes(1, 2)
        panels[whole // WIDE :, :, : types - whole] = scaled[whole:].T
    return PackedInputs(inputs, lows, highs, panels)


@operation
def hidden_sums(words: PackedInputs, contexts: Float[Array, "contexts hidden"]) -> NDArray[Any]:
    """Sum hidden units out, for every word and many contexts at once: s (contexts, types), new.

        s_tw = sum_j log(1 + exp(a_wj + b_tj)),    b of ``contexts``

    is the logarithm of the sum, over all states of the binary hidden units, of exp of what they get from word w and
    from context t (Mnih 2010, eq 3.5): minus the free energy, but for the bias of the word. Cost: one fused
    multiply-add and one product for each context, word and hidden unit, as prod_j (1 + exp(a_wj) exp(b_tj)) needs no
    logarithm and no exponential inside.

    The result need not be contiguous; in float32 it is off by the order of 1e-6. A context does not depend on the
    others.
    """
    a = words.inputs.astype(np.float64)
    found = np.empty((len(contexts), len(a)))
    for t, b in enumerate(contexts.astype(np.float64)):
        found[t] = np.logaddexp(0, a + b).sum(axis=1)
    return found.astype(contexts.dtype)
