"""Arrays that grow by appending: in memory while small, in a ``.npy`` file beyond."""

import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from tacenda import store
from tacenda.errors import CorpusError, describe

SPILL_BYTES = 128 << 20
"""An array of this size moves from memory to a temporary file."""

PASS_ITEMS = 1 << 22
"""How many values a pass over a stored array holds in memory."""

_HEADER_BYTES: Final = 128


class Place:
    """A folder for arrays: a given one, or a temporary one, made when needed and removed with its last user."""

    def __init__(self, folder: Path | None = None) -> None:
        self.permanent = folder is not None
        self._folder = folder

    @property
    def folder(self) -> Path:
        """The folder; a temporary one is made when it is first asked for."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="tacenda-corpus-"))
            weakref.finalize(self, _remove, self._folder, os.getpid())
        return self._folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends must not take its parent's files along
        shutil.rmtree(folder, ignore_errors=True)


class GrowingArray:
    """A one-dimensional array that grows by appending; in a permanent place it is a file from the start."""

    def __init__(self, name: str, dtype: type[np.generic], place: Place) -> None:
        self._name = name
        self._dtype = np.dtype(dtype)
        self._place = place
        self._pieces: list[NDArray[Any]] = []
        self._file: IO[bytes] | None = None
        self.size = 0  # how many values there are
        if place.permanent:
            self._spill()

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        values = np.ascontiguousarray(values, dtype=self._dtype)
        self.size += len(values)
        if self._file is not None:
            self._write(self._file, values)
            return
        self._pieces.append(values)
        if self.size * self._dtype.itemsize > SPILL_BYTES:
            self._spill()

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the values so far in order, ``PASS_ITEMS`` or a few more at a time."""
        for start in range(0, self.size if self._file is not None else 0, PASS_ITEMS):
            yield self._read(start)
        group: list[NDArray[Any]] = []
        for piece in self._pieces:
            group.append(piece)
            if sum(map(len, group)) >= PASS_ITEMS:
                yield np.concatenate(group)
                group = []
        if group:
            yield np.concatenate(group)

    def finish(self, table: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the whole array, read-only; a memory map if it is in a file.

        With a table, every value is replaced with ``table[value]``, block by block.
        """
        if self._file is None:
            if table is not None:
                self._pieces = [table[piece] for piece in self._pieces]
            whole = np.concatenate([*self._pieces, np.empty(0, self._dtype)])
            self._pieces = []
            whole.flags.writeable = False
            return whole
        if table is not None:
            for start in range(0, self.size, PASS_ITEMS):
                block = np.ascontiguousarray(table[self._read(start)], dtype=self._dtype)
                self._file.seek(_HEADER_BYTES + start * self._dtype.itemsize)
                self._write(self._file, block)
        path = Path(self._file.name)
        with writing(path):
            self._file.seek(0)
            header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.size,)}
            np.lib.format.write_array_header_1_0(self._file, header)
            if self._file.tell() != _HEADER_BYTES:  # the values begin behind the room left for it
                raise CorpusError(f"{path} was given a header of {self._file.tell()} bytes")
            self._file.close()
        whole = load_array(path, self._dtype, self.size)
        weakref.finalize(whole, id, self._place)  # until then the file stays
        return whole

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with writing(Path(self._file.name)):
                self._file.close()

    def _spill(self) -> None:
        path = self._place.folder / f"{self._name}.npy"
        with writing(path):
            self._file = path.open("w+b")
            self._file.write(b"\0" * _HEADER_BYTES)
        for piece in self._pieces:
            self._write(self._file, piece)
        self._pieces = []

    def _write(self, file: IO[bytes], values: NDArray[Any]) -> None:
        with writing(Path(file.name)):
            file.write(values.data)

    def _read(self, start: int) -> NDArray[Any]:
        assert self._file is not None
        self._file.seek(_HEADER_BYTES + start * self._dtype.itemsize)
        n_bytes = min(PASS_ITEMS, self.size - start) * self._dtype.itemsize
        return np.frombuffer(self._file.read(n_bytes), dtype=self._dtype)


def lay_out(pieces: Iterable[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    """Join pieces to one array: in memory, or a read-only map of a temporary file where it is large."""
    growing = GrowingArray("values", dtype, Place())
    try:
        for piece in pieces:
            growing.append(piece)
        whole = growing.finish()
    except BaseException:
        growing.close()
        raise
    if not isinstance(whole, np.memmap):
        whole.flags.writeable = True  # as compiled code and torch like them best
    return whole


def forget_pages(array: NDArray[Any]) -> None:
    """Give back the memory that a mapped array takes; what is used again is read again."""
    if isinstance(array, np.memmap) and array.mode == "r":
        mapped = array._mmap  # type: ignore[attr-defined]  # numpy has no public API for this
        if hasattr(mapped, "madvise"):  # not on Windows
            mapped.madvise(mmap.MADV_DONTNEED)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an operating system's refusal to write, or to list a folder that somebody removes, into a CorpusError."""
    try:
        yield
    except OSError as error:
        raise CorpusError(
            f"cannot write {path}: {error.strerror or error}; make room or name another folder "
            "with cache= (without a cache, TMPDIR says where large corpora go)"
        ) from error


def load_array(path: Path, dtype: np.dtype[Any] | type[np.generic], size: int) -> NDArray[Any]:
    """A ``.npy`` file as a read-only memory map; CorpusError unless it is whole and as expected."""
    try:
        store.open_regular(path).close()  # numpy would wait for a pipe
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        surplus = path.stat().st_size - array.nbytes - array.offset  # type: ignore[attr-defined]
    except FileNotFoundError:
        raise CorpusError(f"{path} is missing; build the corpus again") from None
    except OSError as error:  # no damage: too little memory, too many open files
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # numpy reads the header as Python code, which may fail in any way
        raise CorpusError(
            f"{path} is damaged ({describe(error)}); build the corpus again"
        ) from error
    if array.dtype != dtype or array.shape != (size,) or surplus:
        raise CorpusError(
            f"{path} holds {array.dtype} of shape {array.shape} where {np.dtype(dtype)} of shape "
            f"({size},) is expected; build the corpus again"
        )
    return array
