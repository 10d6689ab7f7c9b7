"""Batch sources: rows of arrays, blocks of whole users or sentences, plain sweeps.

The order of epoch e is drawn from a generator seeded with (seed, e). Nothing is carried from one
epoch to the next, so a fit can resume at any batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import ConfigurationError, check_whole

_WHOLE_BYTES = 1 << 26  # arrays up to this size are hashed whole, larger ones in samples
_N_SAMPLES = 64
_BLOCKS_PER_SHUFFLE = 1 << 20  # blocks that are shuffled together


def fingerprint_arrays(arrays: Sequence[NDArray[Any]], *settings: object) -> str:
    """Hash shapes, dtypes and contents (64 samples of 1 MiB of a large array); a hex digest."""
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=16)
    for array in arrays:
        digest.update(f"{array.shape}{array.dtype.str}".encode())
        if array.nbytes <= _WHOLE_BYTES or array.ndim == 0:
            parts = [array]
        else:
            rows = max(1, (1 << 20) * len(array) // array.nbytes)
            starts = np.linspace(0, len(array) - rows, _N_SAMPLES).astype(np.int64)
            parts = [array[start : start + rows] for start in starts]
        for part in parts:  # not copied where it is in C order
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


class BatchSource(Protocol):
    """Batches whose order depends on the epoch alone, so that two integers say where a fit is."""

    def n_batches(self, epoch: int) -> int | None:
        """Return the number of batches of an epoch (epochs count from 0); None if it is not known."""
        ...

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Any]:
        """Yield the batches of an epoch without the first ``skip``; the same ones at every call."""
        ...

    def fingerprint(self) -> str:
        """Identify data, order and batch size; a checkpoint of another fingerprint is refused."""
        ...


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
        check_whole("batch_size", batch_size)
        check_whole("seed", seed, 0)
        if not self.n_items:
            raise ConfigurationError("the arrays have no rows to fit on; give at least one")
        self.arrays = arrays
        self.batch_size, self.seed = batch_size, seed

    def n_batches(self, epoch: int) -> int:
        """Return how many batches every epoch has."""
        return -(-self.n_items // self.batch_size)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield the rows of each batch, one array for each given, in an order that depends on seed and epoch."""
        order = np.arange(self.n_items)
        np.random.default_rng(np.random.SeedSequence([self.seed, epoch])).shuffle(order)
        for start in range(skip * self.batch_size, self.n_items, self.batch_size):
            rows = order[start : start + self.batch_size]
            yield tuple(array[rows] for array in self.arrays)

    def fingerprint(self) -> str:
        """Identify the arrays, the batch size and the seed."""
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

    A million blocks are shuffled together. Where there are more, each million is, and so is their order, so that the
    memory this takes does not grow with the data.
    """

    def __init__(self, offsets: NDArray[Any], *, batch_size: int, seed: int = 0) -> None:
        self.offsets = np.asarray(offsets, np.int64)
        self._starts = np.arange(0, max(len(self.offsets) - 1, 1), _BLOCKS_PER_SHUFFLE)
        n_items = int(self.offsets[-1] - self.offsets[0]) if len(self.offsets) else 0
        check_whole("batch_size", batch_size)
        check_whole("seed", seed, 0)
        if n_items < 1:
            raise ConfigurationError("all blocks are empty; give at least one item to fit on")
        self.batch_size, self.seed = batch_size, seed
        self._counted: tuple[int, int] | None = None  # an epoch and its batches

    def n_batches(self, epoch: int) -> int:
        """Return how many batches an epoch has, which takes its shuffle; the last answer is remembered."""
        if self._counted is None or self._counted[0] != epoch:
            self._counted = epoch, sum(1 for _ in self.batches(epoch))
        return self._counted[1]

    def batches(self, epoch: int, skip: int = 0) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of the blocks of each batch, in an order that depends on seed and epoch."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, epoch]))
        starts = self._starts.copy()
        if len(starts) > 1:
            rng.shuffle(starts)
        index, order = 0, np.empty(0, np.int64)
        for start in starts.tolist():
            sizes = np.diff(self.offsets[start : start + _BLOCKS_PER_SHUFFLE + 1])
            blocks = start + np.flatnonzero(sizes > 0)
            rng.shuffle(blocks)
            # a batch may reach into the next million
            order = np.concatenate([order, blocks])  # after what the last batch left
            ends = np.cumsum(self.offsets[order + 1] - self.offsets[order])
            begin, before = 0, 0
            while (end := int(np.searchsorted(ends, before + self.batch_size)) + 1) <= len(order):
                if index >= skip:
                    yield order[begin:end]
                index, begin, before = index + 1, end, int(ends[end - 1])
            order = order[begin:]
        if len(order) and index >= skip:
            yield order

    def fingerprint(self) -> str:
        """Identify the sizes of the blocks, the batch size and the seed."""
        return fingerprint_arrays((self.offsets,), "blocks", self.batch_size, self.seed)


class Sweeps:
    """For models that sweep over their own data (EM, ALS, Gibbs): one batch, its number, an epoch.

    ``data`` identifies the model's data, for checkpoints.
    """

    def __init__(self, data: str = "") -> None:
        self.data = data

    def n_batches(self, epoch: int) -> int:
        """Return 1."""
        return 1

    def batches(self, epoch: int, skip: int = 0) -> Iterator[int]:
        """Yield the number of the epoch."""
        if not skip:
            yield epoch

    def fingerprint(self) -> str:
        """Identify the data by the model's description."""
        return f"sweeps:{self.data}"
