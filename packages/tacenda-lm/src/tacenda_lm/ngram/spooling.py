"""Streams of rows that are larger than memory: kept as they come, or sorted.

A `Sorter` takes rows in any order within a limit of memory: what is full is sorted and written to disk as a run, and
the runs are merged when they are read back, a block at a time. A `Spool` keeps rows as they come, in memory while
they are few and in a file beyond. Both read back in blocks, so memory stays bounded however many rows there are.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.corpus.storage import Place
from tacenda.errors import DataError
from tacenda_lm.ngram.rows import Rows

__all__ = ["Scratch", "Sorter", "Spool", "default_budget"]

_LEAST = 1 << 12  # rows of a block, however small the budget
_MOST = 3 << 26  # bytes of a sorter, and of what is kept in memory: with more nothing is faster
_MOST_RUNS = (
    48  # more are merged into one, which bounds the number of open files and of small reads
)


def default_budget() -> int:
    """Return a quarter of the memory, in bytes, of the machine or of what the process may use of it."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        found = 8 << 30
    with suppress(OSError, ValueError):  # a container's limit, where there is one
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return max(found // 4, 1)


class Scratch:
    """A folder for what does not fit into memory, made when it is needed, and the memory that may be used.

    The folder is removed by `close`, or else with the last reference.

    Attributes
    ----------
    budget
        Bytes that sorting and what is kept between two passes may take together.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._place = Place()
        self._n_files = 0
        self._in_memory = 0

    def new_file(self) -> Path:
        """Return the name of a file that is not there yet."""
        try:
            folder = self._place.folder
        except OSError as error:
            raise _cannot_write("the temporary folder", error) from error
        self._n_files += 1
        return folder / f"{self._n_files}"

    def reserve(self, n_bytes: int) -> bool:
        """Tell whether so many more bytes may be kept in memory, and count them if so."""
        if self._in_memory + n_bytes > min(self.budget // 12, _MOST):
            return False
        self._in_memory += n_bytes
        return True

    def release(self, n_bytes: int) -> None:
        """Count bytes no longer."""
        self._in_memory -= n_bytes

    def rows_of_block(self, width: int) -> int:
        """How many rows of so many columns are worked on at once."""
        return max(min(self.budget // 128, 1 << 24) // (8 * width), _LEAST)

    def close(self) -> None:
        """Remove the folder."""
        if self._n_files:
            shutil.rmtree(self._place.folder, ignore_errors=True)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Spool:
    """Rows that are kept in the order in which they come, and read back from the beginning."""

    def __init__(self, scratch: Scratch, width: int) -> None:
        self._scratch = scratch
        self.width = width
        self._held: list[Rows] = []
        self._file: Path | None = None
        self._writing: Any = None
        self.n_rows = 0

    def append(self, rows: Rows) -> None:
        """Add rows at the end."""
        self.n_rows += len(rows)
        if self._file is None:
            if self._scratch.reserve(rows.nbytes):
                self._held.append(np.array(rows))
                return
            self._file = self._scratch.new_file()
            self._to_file(self._held)
            self._scratch.release(sum(each.nbytes for each in self._held))
            self._held = []
        self._to_file([rows])

    def _to_file(self, blocks: Iterable[Rows]) -> None:
        assert self._file is not None
        try:
            if self._writing is None:
                self._writing = self._file.open("ab")  # it may have been read in between
            for rows in blocks:
                self._writing.write(np.ascontiguousarray(rows).data)
        except OSError as error:
            raise _cannot_write(self._file.parent, error) from error

    def __call__(self) -> Iterator[Rows]:
        """Yield all rows in blocks."""
        yield from self.read(self._scratch.rows_of_block(self.width))

    def read(self, size: int) -> Iterator[Rows]:
        """Yield all rows in blocks of about ``size``."""
        if self._file is None:
            yield from self._held
            return
        if self._writing is not None:
            try:
                self._writing.close()
            except OSError as error:
                raise _cannot_write(self._file.parent, error) from error
            self._writing = None
        with self._file.open("rb") as file:
            while True:
                rows = np.fromfile(file, np.uint64, size * self.width).reshape(-1, self.width)
                if not len(rows):
                    return
                yield rows

    def whole(self) -> npt.NDArray[np.uint64]:
        """Return all rows of one column, (rows,); a mapped file if they are in a file, which must not be removed."""
        if self._file is None:
            return np.concatenate([np.empty((0, 1), np.uint64), *self._held])[:, 0]
        for _ in self.read(1):
            break  # which has brought all to the file
        return np.memmap(self._file, np.uint64, mode="r")

    def drained(self) -> Iterator[Rows]:
        """Yield all rows in blocks, and forget them."""
        if self._file is not None:
            yield from self()
        self._held.reverse()
        while self._held:
            rows = self._held.pop()
            self._scratch.release(rows.nbytes)
            yield rows
        self.remove()

    def remove(self) -> None:
        """Forget the rows."""
        self._scratch.release(sum(each.nbytes for each in self._held))
        self._held = []
        if self._writing is not None:
            self._writing.close()
            self._writing = None
        if self._file is not None:
            self._file.unlink(missing_ok=True)
            self._file = None


class Sorter:
    """Rows that are taken in any order, and read back once, in the order of their keys.

    Parameters
    ----------
    scratch
        Where runs are written, and how much memory there is.
    n_keys, width
        Columns of the key, and of a whole row.
    adds
        Whether rows of equal keys become one with the sum of their columns after the key, of which there is one.
    """

    def __init__(self, scratch: Scratch, n_keys: int, width: int, adds: bool = False) -> None:
        self._scratch, self._n_keys, self._width, self._adds = scratch, n_keys, width, adds
        self._capacity = max(min(scratch.budget // 10, _MOST) // (8 * width), 2 * _LEAST)
        self._buffer: Rows = np.empty((_LEAST, width), np.uint64)
        self._n = 0
        self._runs: list[Spool] = []

    def append(self, rows: Rows) -> None:
        """Take some rows."""
        while len(rows):
            if self._n == self._capacity:
                self._make_room()
            taken = min(len(rows), self._capacity - self._n)
            if self._n + taken > len(self._buffer):
                size = min(max(2 * len(self._buffer), self._n + taken), self._capacity)
                grown = np.empty((size, self._width), np.uint64)
                grown[: self._n] = self._buffer[: self._n]
                self._buffer = grown
            self._buffer[self._n : self._n + taken] = rows[:taken]
            self._n += taken
            rows = rows[taken:]

    def sorted(self) -> Iterator[Rows]:
        """Yield all rows in the order of their keys, in blocks, and forget them."""
        if not self._runs:
            rows = self._sort(self._buffer[: self._n])
            self._buffer = np.empty((0, self._width), np.uint64)
            yield from self._cut(rows)
            return
        self._write_run()
        self._buffer = np.empty((0, self._width), np.uint64)
        runs, self._runs = self._runs, []
        yield from self._merged(runs)

    def _cut(self, rows: Rows) -> Iterator[Rows]:
        """Rows in blocks of the size that is worked on at once."""
        size = self._scratch.rows_of_block(self._width)
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def _sort(self, rows: Rows) -> Rows:
        from tacenda_lm.ngram import row_kernels

        row_kernels.sort_rows(rows, self._n_keys)
        return rows[: row_kernels.combine(rows, self._n_keys)] if self._adds else rows

    def _make_room(self) -> None:
        """Sort what is held, and write it to disk unless adding up has made it much less."""
        if self._adds:
            self._n = len(self._sort(self._buffer[: self._n]))
            if self._n <= self._capacity // 2:
                return
        self._write_run()

    def _write_run(self) -> None:
        run = Spool(self._scratch, self._width)
        run._file = self._scratch.new_file()  # a run is never kept in memory
        run.append(self._sort(self._buffer[: self._n]))
        self._runs.append(run)
        self._n = 0
        if len(self._runs) == _MOST_RUNS:
            runs, self._runs = self._runs, []
            merged = Spool(self._scratch, self._width)
            merged._file = self._scratch.new_file()
            self._buffer = np.empty((0, self._width), np.uint64)  # merging needs its memory
            for rows in self._merged(runs):
                merged.append(rows)
            self._runs = [merged]

    def _merged(self, runs: list[Spool]) -> Iterator[Rows]:
        """Merge sorted runs: what is not above the last key that every run has shown can be sorted in memory."""
        from tacenda_lm.ngram.row_kernels import first_not_below

        size = max(4 * self._scratch.rows_of_block(self._width) // len(runs), _LEAST // 4)
        blocks = [run.read(size) for run in runs]
        held = [next(each, None) for each in blocks]
        while any(each is not None for each in held):
            shown = [each[-1] for each in held if each is not None]
            key = min(shown, key=lambda row: row[: self._n_keys].tolist())
            parts = []
            for i, rows in enumerate(held):
                if rows is None:
                    continue
                cut = first_not_below(rows, key, self._n_keys, True)
                parts.append(rows[:cut])
                held[i] = rows[cut:] if cut < len(rows) else next(blocks[i], None)
            yield from self._cut(self._sort(np.concatenate(parts)))
        for run in runs:
            run.remove()


def _cannot_write(folder: object, error: OSError) -> DataError:
    return DataError(
        f"cannot write n-grams to {folder}: {error.strerror or error}; "
        "make room, set TMPDIR to a folder with room, or raise memory_gb"
    )
