"""Batch sources: rows of arrays, ranges of token positions, blocks of whole users, plain sweeps.

The order of epoch e is drawn from a generator seeded by (seed, e); nothing is carried from one
epoch to the next, so an epoch can be entered at any batch.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import ConfigurationError

_WHOLE = 1 << 26  # bytes: arrays up to this size are hashed whole, larger ones in samples
_SAMPLES = 64


def epoch_generator(seed: int, epoch: int) -> np.random.Generator:
    """The generator of one epoch, independent of that of every other epoch."""
    return np.random.default_rng(np.random.SeedSequence([seed, epoch]))


def fingerprint_arrays(arrays: Sequence[NDArray[Any]], *settings: object) -> str:
    """Hex digest of shapes, dtypes and contents; of 64 samples of 1 MiB where an array is large."""
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


def _check(batch_size: int, n_items: int, what: str) -> None:
    if batch_size < 1:
        raise ConfigurationError(f"batch_size is {batch_size}; give a number of {what}, at least 1")
    if n_items < 1:
        raise ConfigurationError(f"there is nothing to fit on: 0 {what}; give at least one")


class ArrayBatches:
    """Minibatches of rows of one or several arrays of equal length.

    Yields a tuple with one array (batch, ...) for each array given; ``drop_last`` leaves out a
    last, smaller batch.
    """

    def __init__(
        self,
        *arrays: NDArray[Any],
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> None:
        lengths = {len(array) for array in arrays}
        if len(lengths) != 1:
            raise ConfigurationError(
                f"the arrays of a batch source have lengths {sorted(lengths)}; they must be equal"
            )
        self.n_items = lengths.pop()
        _check(batch_size, self.n_items, "rows")
        self.arrays = arrays
        self.batch_size, self.seed = batch_size, seed
        self.shuffle, self.drop_last = shuffle, drop_last
        if self.n_batches(0) == 0:
            raise ConfigurationError(
                f"{self.n_items} rows make no batch of {batch_size}; lower batch_size"
            )

    def n_batches(self, epoch: int) -> int:
        whole, rest = divmod(self.n_items, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[NDArray[Any], ...]]:
        order = np.arange(self.n_items)
        if self.shuffle:
            epoch_generator(self.seed, epoch).shuffle(order)
        for index in range(skip, self.n_batches(epoch)):
            rows = order[index * self.batch_size : (index + 1) * self.batch_size]
            yield tuple(array[rows] for array in self.arrays)

    def fingerprint(self) -> str:
        settings = ("rows", self.batch_size, self.seed, self.shuffle, self.drop_last)
        return fingerprint_arrays(self.arrays, *settings)


class RangeBatches:
    """Contiguous ranges of positions of a long array, as slices: for token streams.

    The array itself is not touched (it may be a memory map); the model slices it, and may reach
    back before ``start`` for context. Shuffling permutes whole ranges; with ``jitter`` their
    borders are moved by a random offset each epoch.
    """

    def __init__(
        self,
        ids: NDArray[Any],
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        jitter: bool = False,
    ) -> None:
        self.ids = ids
        self.n_items = len(ids)
        _check(batch_size, self.n_items, "positions")
        self.batch_size, self.seed, self.shuffle, self.jitter = batch_size, seed, shuffle, jitter

    def _borders(self, epoch: int) -> NDArray[np.int64]:
        offset = 0
        if self.jitter:
            offset = int(epoch_generator(self.seed, epoch).integers(self.batch_size))
        inner = np.arange(offset or self.batch_size, self.n_items, self.batch_size)
        return np.concatenate(([0], inner, [self.n_items])).astype(np.int64)

    def n_batches(self, epoch: int) -> int:
        return len(self._borders(epoch)) - 1

    def batches(self, epoch: int, skip: int = 0) -> Iterator[slice]:
        borders = self._borders(epoch)
        order = np.arange(len(borders) - 1)
        if self.shuffle:
            epoch_generator(self.seed + 1, epoch).shuffle(order)
        for index in order[skip:]:
            yield slice(int(borders[index]), int(borders[index + 1]))

    def fingerprint(self) -> str:
        settings = ("ranges", self.batch_size, self.seed, self.shuffle, self.jitter)
        return fingerprint_arrays((self.ids,), *settings)


class BlockBatches:
    """Batches of whole blocks (users with all their ratings, sentences with all their tokens).

    ``offsets`` (n_blocks + 1) as in a CSR matrix. A batch is an int64 array of block numbers,
    closed as soon as their sizes sum to ``batch_size`` or more; empty blocks are left out.
    """

    def __init__(
        self, offsets: NDArray[Any], *, batch_size: int, seed: int = 0, shuffle: bool = True
    ) -> None:
        self.offsets = np.asarray(offsets, np.int64)
        sizes = np.diff(self.offsets)
        self._blocks = np.flatnonzero(sizes > 0)
        self._sizes = sizes
        _check(batch_size, len(self._blocks), "blocks that are not empty")
        self.batch_size, self.seed, self.shuffle = batch_size, seed, shuffle

    def _cut(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = self._blocks.copy()
        if self.shuffle:
            epoch_generator(self.seed, epoch).shuffle(order)
        ends = np.cumsum(self._sizes[order])
        borders = [0]
        while borders[-1] < len(order):
            before = ends[borders[-1] - 1] if borders[-1] else 0
            border = int(np.searchsorted(ends, before + self.batch_size)) + 1
            borders.append(min(border, len(order)))
        return order, np.array(borders, np.int64)

    def n_batches(self, epoch: int) -> int:
        return len(self._cut(epoch)[1]) - 1

    def batches(self, epoch: int, skip: int = 0) -> Iterator[NDArray[np.int64]]:
        order, borders = self._cut(epoch)
        for index in range(skip, len(borders) - 1):
            yield order[borders[index] : borders[index + 1]]

    def fingerprint(self) -> str:
        return fingerprint_arrays(
            (self.offsets,), "blocks", self.batch_size, self.seed, self.shuffle
        )


class Sweeps:
    """For models that sweep over their own data (EM, ALS, Gibbs); a batch is a sweep's number."""

    def __init__(self, data: str = "", per_epoch: int = 1) -> None:
        """``data`` identifies the model's data, for the checkpoint."""
        if per_epoch < 1:
            raise ConfigurationError(f"per_epoch is {per_epoch}; give at least one sweep an epoch")
        self.data, self.per_epoch = data, per_epoch

    def n_batches(self, epoch: int) -> int:
        return self.per_epoch

    def batches(self, epoch: int, skip: int = 0) -> Iterator[int]:
        yield from range(epoch * self.per_epoch + skip, (epoch + 1) * self.per_epoch)

    def fingerprint(self) -> str:
        return f"sweeps:{self.per_epoch}:{self.data}"
