"""The checks of what forward-backward is given, once for every backend."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.hidden_markov.block import Sequences
from tacenda.kernels.machinery.arrays import describe, in_c_order, is_floating

__all__ = ["check", "inner_tokens"]

_Array = NDArray[Any]


def check(blocks: _Array, emissions: _Array, starts: _Array, observed: Sequences) -> Sequences:
    """The observed sequences as int32 arrays in C order, offsets int64. Raises KernelError."""
    k = emissions.shape[-1] if emissions.ndim else 0
    for name, array, shape in (
        ("blocks", blocks, (-1, k, k)),
        ("emissions", emissions, (-1, k)),
        ("starts", starts, (-1, k)),
    ):
        fits = array.ndim == len(shape) and array.shape[1:] == shape[1:]
        if not fits or not is_floating(array) or not in_c_order(array):
            raise KernelError(
                f"{name} must be float32 or float64 {('n', *shape[1:])} in C order, "
                f"not {describe(array)}"
            )
        if array.dtype != blocks.dtype:
            raise KernelError(f"{name} is {array.dtype} and blocks {blocks.dtype}; one is needed")
    pairs, words, first, offsets = (np.ascontiguousarray(part) for part in observed)
    for name, rows in (("pairs", pairs), ("words", words), ("first", first), ("offsets", offsets)):
        if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
            raise KernelError(f"{name} must be integers in one dimension, not {rows.dtype}")
    offsets = offsets.astype(np.int64)
    if not len(offsets) or offsets[0] or offsets[-1] != len(words) or (np.diff(offsets) < 0).any():
        raise KernelError(f"offsets must rise from 0 to the number of tokens, {len(words)}")
    if len(pairs) != len(words) or len(first) != len(offsets) - 1:
        raise KernelError(
            f"{len(pairs)} pairs, {len(words)} words, {len(first)} first rows and "
            f"{len(offsets) - 1} sequences do not fit together"
        )
    found = Sequences(
        pairs.astype(np.int32), words.astype(np.int32), first.astype(np.int32), offsets
    )
    used = np.diff(offsets) > 0
    _check_rows("words", found.words, len(emissions))
    _check_rows("pairs", found.pairs[inner_tokens(offsets)], len(blocks))
    _check_rows("first", found.first[used], len(starts))
    return found


def inner_tokens(offsets: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The tokens that are not the first of their sequence: (tokens - sequences that have some,)."""
    inner = np.ones(int(offsets[-1]), bool)
    inner[offsets[:-1][np.diff(offsets) > 0]] = False
    return np.flatnonzero(inner)


def _check_rows(name: str, rows: _Array, n: int) -> None:
    if len(rows) and (rows.min() < 0 or rows.max() >= n):
        raise KernelError(f"{name} run from {rows.min()} to {rows.max()}, and there are {n} rows")
