"""Rows that may be more than fit into memory.

A `Sorter` sorts what fits and writes it to disk as a run; the runs are merged when they are read back. A `Spool` keeps
rows in the order in which they come, in memory while they are few and then in a file. Both use a `Scratch`, which says
how much memory there is and makes the folder of the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from weakref import finalize

import numpy as np
import numpy.typing as npt

from tacenda import store
from tacenda.devices import available_memory
from tacenda.offsets import rechunk
from tacenda_lm.ngram.rows import Rows, add_up, first_not_below, sort_rows

_MIN_BLOCK_ROWS = 1 << 12  # however small the budget
_MAX_BYTES = 3 << 26  # of a sorter, and of all rows kept in memory: more makes nothing faster
_UNKNOWN_MEMORY = 8 << 30  # bytes that are assumed where the system does not tell
_MAX_RUNS = 48  # more are merged into one, which bounds the open files and the small reads
_writing = partial(
    store.writing, advice="; make room, set TMPDIR to a folder with room, or raise memory_gb"
)


def default_budget() -> int:
    """Return a quarter of the memory in bytes: that of the machine, or of the container where it has a limit."""
    return max((available_memory("cpu") or _UNKNOWN_MEMORY) // 4, 1)


class Scratch:
    """A memory budget, and a folder for what exceeds it, which is made when it is needed.

    ``budget`` is the number of bytes that sorting and rows kept between two passes may take together. The folder is
    removed by `close`, or else with the last reference.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._folder: Path | None = None
        self._n_files = 0
        self._in_memory = 0

    def name_new_file(self) -> Path:
        """Return a path in the folder that no file has yet."""
        if self._folder is None:
            with _writing("n-grams to the temporary folder"):
                self._folder = Path(mkdtemp(prefix="tacenda-n-grams-"))
            finalize(self, _remove, self._folder, os.getpid())
        self._n_files += 1
        return self._folder / f"{self._n_files}"

    def reserve(self, n_bytes: int) -> bool:
        """Return whether ``n_bytes`` more may be kept in memory, and count them if so."""
        if self._in_memory + n_bytes > min(self.budget // 12, _MAX_BYTES):
            return False
        self._in_memory += n_bytes
        return True

    def release(self, blocks: Iterable[Rows]) -> None:
        """Stop counting the bytes of these blocks."""
        self._in_memory -= sum(block.nbytes for block in blocks)

    def rows_of_block(self, width: int) -> int:
        """Return how many rows of ``width`` columns to work on at once."""
        return max(min(self.budget // 128, 1 << 24) // (8 * width), _MIN_BLOCK_ROWS)

    def close(self) -> None:
        """Remove the folder now: after an error, its files would fill the disk as long as the traceback lives."""
        if self._folder is not None:
            rmtree(self._folder, ignore_errors=True)


def _remove(folder: Path, owner: int) -> None:
    """Remove a folder, unless a forked child of its owner ends: the files are still its parent's."""
    if os.getpid() == owner:
        rmtree(folder, ignore_errors=True)


class Spool:
    """A list of rows, in memory while the scratch has room and then in a file; with ``in_file`` always in a file."""

    def __init__(self, scratch: Scratch, width: int, in_file: bool = False) -> None:
        self._scratch = scratch
        self.width = width
        self._held: list[Rows] = []
        self._file: Path | None = scratch.name_new_file() if in_file else None
        self.n_rows = 0

    def append(self, rows: Rows) -> None:
        """Add rows at the end."""
        self.n_rows += len(rows)
        if self._file is None:
            if self._scratch.reserve(rows.nbytes):
                self._held.append(np.array(rows))
                return
            self._file = self._scratch.name_new_file()
            self._scratch.release(self._held)
        unwritten, self._held = [*self._held, rows], []
        with _writing(f"n-grams to {self._file.parent}"), self._file.open("ab") as file:
            for block in unwritten:
                file.write(np.ascontiguousarray(block).data)

    def __call__(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in blocks; those of a file in blocks of ``size`` rows."""
        if self._file is None:
            yield from self._held
            return
        size = size or self._scratch.rows_of_block(self.width)
        with self._file.open("rb") as file:
            while True:
                rows = np.fromfile(file, np.uint64, size * self.width).reshape(-1, self.width)
                if not len(rows):
                    return
                yield rows

    def read_whole(self) -> npt.NDArray[np.uint64]:
        """Return all rows of one column, (rows,); rows of a file are mapped, so it must not be removed."""
        if self._file is None:
            return np.concatenate([np.empty((0, 1), np.uint64), *self._held])[:, 0]
        return np.memmap(self._file, np.uint64, mode="r")

    def drain(self) -> Iterator[Rows]:
        """Yield all rows in blocks, and remove them."""
        if self._file is not None:
            yield from self()
        self._held.reverse()
        while self._held:
            rows = self._held.pop()
            self._scratch.release([rows])
            yield rows
        self.remove()

    def remove(self) -> None:
        """Remove all rows from memory and from disk."""
        self._scratch.release(self._held)
        self._held = []
        if self._file is not None:
            self._file.unlink(missing_ok=True)
            self._file = None


class Sorter:
    """An external sort: rows are appended in any order, and read back once in the order of their keys.

    Parameters
    ----------
    scratch
        The memory budget, and the folder of the runs.
    n_keys, width
        Columns of the key, and of a whole row.
    adds
        Whether rows of equal keys are merged, and the one column after the key is summed.
    """

    def __init__(self, scratch: Scratch, n_keys: int, width: int, adds: bool = False) -> None:
        self._scratch, self._n_keys, self._width, self._adds = scratch, n_keys, width, adds
        n_bytes = min(scratch.budget // 10, _MAX_BYTES)
        self._capacity = max(n_bytes // (8 * width), 2 * _MIN_BLOCK_ROWS)
        self._buffer: Rows = np.empty((_MIN_BLOCK_ROWS, width), np.uint64)
        self._n = 0
        self._runs: list[Spool] = []

    def append(self, rows: Rows) -> None:
        """Add rows, in any order."""
        while len(rows):
            if self._n == self._capacity:
                if self._adds:
                    self._n = len(self._sort(self._buffer[: self._n]))
                # adding up may have made enough room
                if not self._adds or self._n > self._capacity // 2:
                    self._write_run()
            taken = min(len(rows), self._capacity - self._n)
            if self._n + taken > len(self._buffer):
                size = min(max(2 * len(self._buffer), self._n + taken), self._capacity)
                grown = np.empty((size, self._width), np.uint64)
                grown[: self._n] = self._buffer[: self._n]
                self._buffer = grown
            self._buffer[self._n : self._n + taken] = rows[:taken]
            self._n += taken
            rows = rows[taken:]

    def read_sorted(self) -> Iterator[Rows]:
        """Yield all rows in the order of their keys, in blocks, and remove them."""
        if self._runs:
            self._write_run()
            blocks = self._merge()
        else:
            blocks = iter([self._sort(self._buffer[: self._n])])
            self._buffer = np.empty((0, self._width), np.uint64)
        for rows in blocks:
            yield from rechunk([rows], self._scratch.rows_of_block(self._width))

    def _sort(self, rows: Rows) -> Rows:
        """Sort rows in place and merge equal keys; return the rows that are left."""
        sort_rows(rows, self._n_keys)
        return rows[: add_up(rows, self._n_keys)] if self._adds else rows

    def _write_run(self) -> None:
        run = Spool(self._scratch, self._width, in_file=True)
        run.append(self._sort(self._buffer[: self._n]))
        self._runs.append(run)
        self._n = 0
        if len(self._runs) == _MAX_RUNS:
            merged = Spool(self._scratch, self._width, in_file=True)
            for rows in self._merge():
                merged.append(rows)
            self._runs = [merged]

    def _merge(self) -> Iterator[Rows]:
        """Yield the rows of all runs in order.

        Of the blocks that are read, one of each run, all rows up to the lowest last key can be sorted in memory: no run
        has more of them.
        """
        self._buffer = np.empty((0, self._width), np.uint64)  # merging needs its memory
        runs, self._runs = self._runs, []
        size = max(4 * self._scratch.rows_of_block(self._width) // len(runs), _MIN_BLOCK_ROWS // 4)
        readers = [run(size) for run in runs]
        blocks = [next(reader, None) for reader in readers]
        while any(block is not None for block in blocks):
            last_rows = [block[-1] for block in blocks if block is not None]
            key = min(last_rows, key=lambda row: row[: self._n_keys].tolist())
            parts = []
            for i, rows in enumerate(blocks):
                if rows is None:
                    continue
                cut = first_not_below(rows, key, self._n_keys, True)
                parts.append(rows[:cut])
                blocks[i] = rows[cut:] if cut < len(rows) else next(readers[i], None)
            yield self._sort(np.concatenate(parts))
        for run in runs:
            run.remove()
