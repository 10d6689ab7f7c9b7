"""The checks of what blocks are made from, once for every backend."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.hidden_markov.block_softmax import Vectors
from tacenda.kernels.machinery.arrays import describe, in_c_order, is_floating

__all__ = ["check"]

_Array = NDArray[Any]


def check(
    vectors: Vectors,
    sources: _Array,
    targets: _Array,
    **more: tuple[_Array | None, tuple[int, ...]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sources and targets as int64; ``more`` are arrays with the shapes they must have."""
    left, reached, bias = vectors
    if left.ndim != 3 or not is_floating(left):
        raise KernelError(f"left must be (classes, k, width) floats, not {describe(left)}")
    shapes = {"left": (left, left.shape), "reached": (reached, left.shape)}
    for name, (array, shape) in {**shapes, "bias": (bias, left.shape[:2]), **more}.items():
        if array is None:
            continue
        fits = array.shape == shape and array.dtype == left.dtype and in_c_order(array)
        if not fits:
            raise KernelError(
                f"{name} must be {left.dtype} {tuple(shape)} in C order, not {describe(array)}"
            )
    pairs = np.asarray(sources), np.asarray(targets)
    for name, classes in zip(("sources", "targets"), pairs, strict=True):
        if classes.ndim != 1 or classes.shape != pairs[0].shape:
            raise KernelError(f"{name} must be one class a pair, not of shape {classes.shape}")
        if len(classes) and (
            classes.dtype.kind not in "iu" or classes.min() < 0 or classes.max() >= len(left)
        ):
            raise KernelError(f"{name} must be whole numbers from 0 to {len(left) - 1}")
    if (np.diff(pairs[0]) < 0).any():
        raise KernelError("the pairs must be sorted by their sources")
    return pairs[0].astype(np.int64), pairs[1].astype(np.int64)


def check_one(weights: _Array | None, norms: _Array | None) -> None:
    """Raise KernelError unless exactly one is given."""
    if (weights is None) == (norms is None):
        raise KernelError("give either weights or norms")
