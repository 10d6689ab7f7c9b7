"""Batch sources: rows of arrays, blocks of whole users or sentences, plain sweeps.

The order of epoch e is drawn from a generator seeded with (seed, e). Nothing is carried from one
epoch to the next, so a fit can resume at any batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import ConfigurationError

__all__ = ["ArrayBatches", "BlockBatches", "Sweeps", "fingerprint_arrays"]

_WHOLE = 1 << 26  # bytes: arrays up to this size are hashed whole, larger ones in samples
_SAMPLES = 64


def fingerprint_arrays(arrays: Sequence[NDArray[Any]], *settings: object) -> str:
    """Hash shapes, dtypes and contents (64 samples of 1 MiB of a large array); a hex digest."""
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=16)
    for array in arrays:
        digest.update(f"{array.shape}{array.dtype.str}".encode())
        if array.nbytes <= _WHOLE or array.ndim == 0:
            digest.update(np.ascontiguousarray(array).tobytes())
            continue
        rows = max(1, (1 << 20) * len(array) // array.nbytes)
        for start in np.linspace(0, len(array) - rows, _SAMPLES).astype(np.int64):
            digest.update(np.ascontiguousarray(array[start : start + rows]).tobytes())
    return digest.hexdigest()


def _shuffled(items: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.int64]:
    """The items in the order of an epoch, which is independent of that of every other epoch."""
    order = items.copy()
    np.random.default_rng(np.random.SeedSequence([seed, epoch])).shuffle(order)
    return order


def _check(batch_size: int, n_items: int, what: str) -> None:
    """Refuse a batch size below 1, and data without items."""
    if batch_size < 1:
        raise ConfigurationError(f"batch_size is {batch_size}; give a number of {what}, at least 1")
    if n_items < 1:
        raise ConfigurationError(f"there is nothing to fit on: 0 {what}; give at least one")


class ArrayBatches:
    """Shuffled minibatches of rows of one or several arrays of equal length.

    Yields a tuple with one array (batch, ...) for each array given; the last batch may be smaller.
    """

    def __init__(self, *arrays: NDArray[Any], batch_size: int, seed: int = 0) -> None:
        lengths = {len(array) for array in arrays}
        if len(lengths) != 1:
            raise ConfigurationError(
                f"the arrays of a batch source have lengths {sorted(lengths)}; they must be equal"
            )
        self.n_items = lengths.pop()
        _check(batch_size, self.n_items, "rows")
        self.arrays = arrays
        self.batch_size, self.seed = batch_size, seed

    def n_batches(self, epoch: int) -> int:
        return -(-self.n_items // self.batch_size)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[NDArray[Any], ...]]:
        order = _shuffled(np.arange(self.n_items), self.seed, epoch)
        for start in range(skip * self.batch_size, self.n_items, self.batch_size):
            rows = order[start : start + self.batch_size]
            yield tuple(array[rows] for array in self.arrays)

    def fingerprint(self) -> str:
        return fingerprint_arrays(self.arrays, "rows", self.batch_size, self.seed)


class BlockBatches:
    """Shuffled batches of whole blocks (users with all their ratings, sentences with all their tokens).

    Parameters
    ----------
    offsets
        (n_blocks + 1,) as in a CSR matrix.
    batch_size
        A batch, an int64 array of block numbers, is closed as soon as the sizes of its blocks sum to
        this or more. Empty blocks are left out.
    """

    def __init__(self, offsets: NDArray[Any], *, batch_size: int, seed: int = 0) -> None:
        self.offsets = np.asarray(offsets, np.int64)
        self._sizes = np.diff(self.offsets)
        self._blocks = np.flatnonzero(self._sizes > 0)
        _check(batch_size, len(self._blocks), "blocks that are not empty")
        self.batch_size, self.seed = batch_size, seed

    def _cut(self, epoch: int) -> tuple[NDArray[np.int64], list[int]]:
        """The blocks of an epoch in order, and where in that order the batches begin and end."""
        order = _shuffled(self._blocks, self.seed, epoch)
        ends = np.cumsum(self._sizes[order])
        borders = [0]
        while borders[-1] < len(order):
            before = ends[borders[-1] - 1] if borders[-1] else 0
            border = int(np.searchsorted(ends, before + self.batch_size)) + 1
            borders.append(min(border, len(order)))
        return order, borders

    def n_batches(self, epoch: int) -> int:
        return len(self._cut(epoch)[1]) - 1

    def batches(self, epoch: int, skip: int = 0) -> Iterator[NDArray[np.int64]]:
        order, borders = self._cut(epoch)
        for index in range(skip, len(borders) - 1):
            yield order[borders[index] : borders[index + 1]]

    def fingerprint(self) -> str:
        return fingerprint_arrays((self.offsets,), "blocks", self.batch_size, self.seed)


class Sweeps:
    """For models that sweep over data of their own (EM, ALS, Gibbs): one batch, its number, an epoch.

    Parameters
    ----------
    data
        Identifies the model's data, for checkpoints.
    """

    def __init__(self, data: str = "") -> None:
        self.data = data

    def n_batches(self, epoch: int) -> int:
        return 1

    def batches(self, epoch: int, skip: int = 0) -> Iterator[int]:
        if not skip:
            yield epoch

    def fingerprint(self) -> str:
        return f"sweeps:{self.data}"
