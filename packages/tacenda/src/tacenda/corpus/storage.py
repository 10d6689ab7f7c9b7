"""Arrays that grow by appending, in memory while they are small and in files when they are large."""

import io
import mmap
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tacenda import reading, store
from tacenda.errors import CorpusError, describe

SPILL_BYTES = 128 << 20
"""An array of more bytes moves from memory to a temporary file."""

PASS_ITEMS = 1 << 22
"""How many values a pass over a stored array holds in memory."""

_HEADER_BYTES: Final = 128

#: Raises CorpusError for an OSError while a file is written, or a folder is listed.
writing = partial(
    store.writing,
    error=CorpusError,
    advice="; make room or name another folder with cache= (without a cache, TMPDIR says where large corpora go)",
)


class GrowingArray:
    """A one-dimensional array that grows by appending, in memory while it is small and in a file when it is large.

    With a ``path``, the array is in a ``.npy`` file from the start. Otherwise an array of more than ``in_memory`` bytes
    (by default `SPILL_BYTES`) is moved to an unnamed file in ``folder`` (by default the system's for temporary files).
    The operating system removes that file with the last array that uses it, or when the process is killed.
    """

    def __init__(
        self,
        dtype: DTypeLike,
        path: Path | None = None,
        *,
        in_memory: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self._dtype, self._path, self._folder = np.dtype(dtype), path, folder
        self._where = path or folder or Path(tempfile.gettempdir())
        self._max_in_memory = SPILL_BYTES if in_memory is None else in_memory
        self._file: Any = io.BytesIO()
        self._begin = 0 if path is None else _HEADER_BYTES
        self.size = 0  # number of values
        if path is not None:
            with writing(path):
                self._file = path.open("w+b")
                self._file.write(b"\0" * _HEADER_BYTES)

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end. Raises CorpusError if they cannot be written."""
        self.size += len(values)
        values, memory = np.ascontiguousarray(values, dtype=self._dtype), self._file
        if isinstance(memory, io.BytesIO) and self.size * values.itemsize <= self._max_in_memory:
            memory.write(values.data)
            return
        with writing(self._where):
            if isinstance(memory, io.BytesIO):
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - it stays
                self._file.write(memory.getbuffer())
            self._file.write(values.data)
            self._file.flush()  # so that a full disk is found here, not where the file is read

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the values so far in order, ``PASS_ITEMS`` at a time. Take all of them before you append more."""
        size = self._dtype.itemsize
        for start in range(0, self.size, PASS_ITEMS):
            self._file.seek(self._begin + start * size)
            data = self._file.read(min(PASS_ITEMS, self.size - start) * size)
            yield np.frombuffer(data, dtype=self._dtype)
        self._file.seek(self._begin + self.size * size)

    def finish(self, table: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the whole array; a read-only memory map if it is in a file.

        With a table, every value is replaced with ``table[value]``, block by block. Raises CorpusError if the file
        cannot be written.
        """
        memory = self._file if isinstance(self._file, io.BytesIO) else None
        with nullcontext() if memory else writing(self._where):
            if table is not None:
                for n, block in enumerate(self.blocks()):
                    self._file.seek(self._begin + n * PASS_ITEMS * self._dtype.itemsize)
                    self._file.write(np.ascontiguousarray(table[block], dtype=self._dtype).data)
            if memory:
                return np.ndarray(self.size, self._dtype, memory.getbuffer())
            if self._path is None:
                with self._file:  # a map keeps its own handle
                    self._file.flush()
                    return np.memmap(self._file, self._dtype, "r", shape=(self.size,))
            self._file.seek(0)
            header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.size,)}
            np.lib.format.write_array_header_1_0(self._file, header)
            self._file.close()
            return load_array(self._path, self._dtype, self.size)


def lay_out(pieces: Iterable[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    """Join pieces to one array, a read-only memory map of a temporary file if it is large."""
    growing = GrowingArray(dtype)
    for piece in pieces:
        growing.append(piece)
    return growing.finish()


def forget_pages(array: NDArray[Any]) -> None:
    """Release the memory of a mapped array; pages that are used again are read again."""
    if isinstance(array, np.memmap) and array.mode == "r":
        mapped = array._mmap  # type: ignore[attr-defined]  # numpy has no public API for this
        if hasattr(mapped, "madvise"):  # not on Windows
            mapped.madvise(mmap.MADV_DONTNEED)


def load_array(path: Path, dtype: np.dtype[Any] | type[np.generic], size: int) -> NDArray[Any]:
    """Return a ``.npy`` file as a read-only memory map. Raises CorpusError unless it is complete and as expected."""
    try:
        # raises for a pipe, for which numpy would wait
        reading.open_regular(path).close()
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        surplus = path.stat().st_size - array.nbytes - array.offset  # type: ignore[attr-defined]
    except FileNotFoundError:
        raise CorpusError(f"{path} is missing; build the corpus again") from None
    except OSError as error:  # such as too little memory or too many open files
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
