"""The checks of what the scores of a stream are given, once for every backend."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.machinery.arrays import as_offsets

if TYPE_CHECKING:
    from tacenda.kernels.log_bilinear.stream_scores.packed import Packed

_Array = NDArray[Any]


def check(
    packed: "Packed", ids: _Array, offsets: _Array, first: int, tails: _Array | None
) -> tuple[NDArray[np.int32], NDArray[np.int64], _Array]:
    """``ids`` and ``offsets`` as the loops need them, and tails at ``first`` to be changed, zeros for None."""
    ids = np.asarray(ids)
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
        raise KernelError(f"ids must be (tokens,) integers, not {ids.dtype} {ids.shape}")
    known = min(len(packed.words), packed.codes.n_words)
    if len(ids) and (ids.min() < 0 or ids.max() >= known):
        raise KernelError(f"ids run from {ids.min()} to {ids.max()}, and there are {known} words")
    if not 0 <= first <= len(ids):
        raise KernelError(f"first is {first}, and there are {len(ids)} ids")
    shape = (len(packed.rates), packed.width)
    u = np.zeros(shape, np.float32) if tails is None else np.array(tails, np.float32, order="C")
    if u.shape != shape:
        raise KernelError(f"tails must be {shape}, not {u.shape}")
    return np.ascontiguousarray(ids, np.int32), as_offsets(offsets, len(ids)), u
