"""The checks of what a softmax by class is given, once for every backend."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.machinery.arrays import describe, in_c_order, is_floating

__all__ = ["check"]

_Array = NDArray[Any]


def check(
    words: _Array, bias: _Array, states: _Array, offsets: _Array, *tables: _Array
) -> NDArray[np.int64]:
    """The offsets as int64; ``tables`` have a row a word and a column a state of its class."""
    if words.ndim != 2 or not is_floating(words):
        raise KernelError(f"words must be (words, width) floats, not {describe(words)}")
    if states.ndim != 3 or states.shape[2] != words.shape[1]:
        raise KernelError(
            f"states must be (classes, k, {words.shape[1]}), not {tuple(states.shape)}: the width of words"
        )
    if bias.shape != words.shape[:1] or any(
        table.shape != (len(words), states.shape[1]) for table in tables
    ):
        raise KernelError(f"there must be one row for each of {len(words)} words")
    if any(
        array.dtype != words.dtype or not in_c_order(array)
        for array in (words, bias, states, *tables)
    ):
        raise KernelError(f"all arrays must be {words.dtype}, as words is, and in C order")
    cuts = np.asarray(offsets).astype(np.int64)
    if (
        cuts.shape != (len(states) + 1,)
        or cuts[0]
        or cuts[-1] != len(words)
        or (np.diff(cuts) < 0).any()
    ):
        raise KernelError(
            f"offsets must rise from 0 to {len(words)} words over {len(states)} classes"
        )
    return cuts
