"""The checks of what forward-backward over features is given, once for every backend."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.hidden_markov.features import Classed, Model

__all__ = ["check"]


def check(model: Model, observed: Classed) -> Classed:
    """The observed sequences, int64 in C order. Raises KernelError."""
    left = model.left
    if left.ndim != 3 or left.dtype not in (np.float32, np.float64):
        raise KernelError(
            f"left must be (classes, k, features) floats, not {left.dtype} {left.shape}"
        )
    k = left.shape[1]
    shapes: dict[str, tuple[int, ...]] = {
        "left": left.shape,
        "reached": left.shape,
        "emissions": (len(model.emissions), k),
        "starts": (len(left), k),
    }
    for name, shape in shapes.items():
        array: NDArray[Any] = getattr(model, name)
        if array.shape != shape or array.dtype != left.dtype or not array.flags.c_contiguous:
            raise KernelError(
                f"{name} must be {left.dtype} {shape} in C order, not {array.dtype} {array.shape}"
            )
    found = Classed(*(np.ascontiguousarray(part, np.int64) for part in observed))
    offsets = found.offsets
    tokens = len(found.words)
    if not len(offsets) or offsets[0] or offsets[-1] != tokens or (np.diff(offsets) < 0).any():
        raise KernelError(f"offsets must rise from 0 to the number of tokens, {tokens}")
    if len(found.classes) != tokens:
        raise KernelError(f"there are {len(found.classes)} classes and {tokens} words")
    for name, rows, n in (
        ("classes", found.classes, len(left)),
        ("words", found.words, len(model.emissions)),
    ):
        if tokens and (rows.min() < 0 or rows.max() >= n):
            raise KernelError(f"{name} run from {rows.min()} to {rows.max()}, and there are {n}")
    return found
