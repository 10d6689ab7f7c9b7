"""The solves on a GPU: rows with about as many targets are gathered together, multiplied and solved as one batch.

Rows are padded to a power of two of targets with a row of zeros, so that less than twice the targets are gathered.
Products of float32 factors are float32 (cuBLAS); systems are float64 and solved by Cholesky, whose factor also turns
noise into a draw.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tacenda.array_ops import to_tensors
from tacenda.errors import KernelError
from tacenda.kernels.ratings import NUMBERS_AT_ONCE, Solved


def rating_solves(targets, table, means, precision, weights, noise, scaled):
    offsets, values = targets.offsets, targets.values
    columns, width = table.shape
    out = Solved(means.clone(), means.clone())
    ids, starts, sizes = to_tensors((targets.ids, offsets[:-1], np.diff(offsets)), table.device)
    ids = torch.cat([ids.long(), ids.new_full((1,), columns, dtype=torch.int64)])
    values = torch.cat([values, values.new_zeros(1)])
    padded = torch.cat([table, table.new_zeros(1, width)])
    failed = []
    for rows, most in _list_batches(np.diff(offsets), width, scaled=scaled):
        (u,) = to_tensors((rows,), table.device)
        place = torch.arange(most, device=table.device)
        at = torch.where(place < sizes[u, None], starts[u, None] + place, len(ids) - 1)
        Z = padded[ids[at]]
        weight = weights[u, None, None]
        scale = sizes[u, None, None].double() if scaled else 1.0
        A = scale * precision + weight * (Z.mT @ Z).double()
        y = scale * (means[u].double() @ precision)[:, :, None]
        y += weight * (Z.mT @ values[at][:, :, None]).double()
        L, info = torch.linalg.cholesky_ex(A)
        # on CUDA info is 0 for NaN: https://github.com/pytorch/pytorch/issues/64818
        bad = (info > 0) | L.diagonal(dim1=-2, dim2=-1).isnan().any(-1)
        failed.append(torch.where(bad, u, len(means)).min())
        y = torch.linalg.solve_triangular(L, y, upper=False)
        if noise is not None:
            y = torch.cat([y, y + noise[u].double()[:, :, None]], 2)
        x = torch.linalg.solve_triangular(L.mT, y, upper=True).float()
        out.means[u], out.draws[u] = x[:, :, 0], x[:, :, -1]
    first = int(torch.stack(failed).min()) if failed else len(means)
    if first < len(means):
        raise KernelError(f"the system of row {first} is not positive definite")
    return out


def _list_batches(
    sizes: NDArray[Any], width: int, *, scaled: bool
) -> list[tuple[NDArray[Any], int]]:
    """Return batches of rows to solve together, and the targets to pad them to.

    With ``scaled``, rows without targets are left out, as their solutions are their means.
    """
    powers = np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.uint8)
    order = np.argsort(powers, kind="stable")
    order = order[sizes[order] > 0] if scaled else order
    batches = []
    for power in np.unique(powers[order]):
        rows, most = order[powers[order] == power], 1 << int(power)
        at_once = max(NUMBERS_AT_ONCE // (max(width, 1) * max(most, width)), 1)
        batches += [(rows[at : at + at_once], most) for at in range(0, len(rows), at_once)]
    return batches
