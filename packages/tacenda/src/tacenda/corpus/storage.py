"""Arrays that grow by appending: in memory while small, in a file beyond."""

import io
import mmap
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacenda import store
from tacenda.errors import CorpusError, describe

SPILL_BYTES = 128 << 20
"""An array of this size moves from memory to a temporary file."""

PASS_ITEMS = 1 << 22
"""How many values a pass over a stored array holds in memory."""

_HEADER_BYTES: Final = 128


class GrowingArray:
    """A one-dimensional array that grows by appending: in memory while small, then in a file.

    The file is a ``.npy`` file from the start if a ``path`` is given. Otherwise it has no name: it goes with the last
    array that needs it, and a killed process leaves nothing behind.
    """

    def __init__(self, dtype: type[np.generic], path: Path | None = None) -> None:
        self._dtype, self._path = np.dtype(dtype), path
        self._file: Any = io.BytesIO()
        self.size = 0  # how many values there are
        if path is not None:
            with self._writing():
                self._file = path.open("w+b")
                self._file.write(b"\0" * _HEADER_BYTES)

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        with self._writing():
            self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
            self.size += len(values)
            if self._is_in_memory and self.size * self._dtype.itemsize > SPILL_BYTES:
                memory, self._file = self._file, tempfile.TemporaryFile()  # noqa: SIM115 - it stays
                self._file.write(memory.getbuffer())

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the values so far in order, ``PASS_ITEMS`` at a time."""
        for start in range(0, self.size, PASS_ITEMS):
            self._seek(start)
            n_bytes = min(PASS_ITEMS, self.size - start) * self._dtype.itemsize
            yield np.frombuffer(self._file.read(n_bytes), dtype=self._dtype)
        self._seek(self.size)

    def finish(self, table: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the whole array, read-only; a memory map if it is in a file.

        With a table, every value is replaced with ``table[value]``, block by block.
        """
        with self._writing():
            for n, block in enumerate(self.blocks() if table is not None else ()):
                self._seek(n * PASS_ITEMS)
                self._file.write(np.ascontiguousarray(table[block], dtype=self._dtype).data)  # type: ignore[index]
            whole: NDArray[Any]
            if self._path is not None:
                self._file.seek(0)
                header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.size,)}
                np.lib.format.write_array_header_1_0(self._file, header)
                if (
                    self._file.tell() != _HEADER_BYTES
                ):  # the values begin behind the room left for it
                    raise CorpusError(f"{self._path} has a header of {self._file.tell()} bytes")
                self._file.close()
                whole = load_array(self._path, self._dtype, self.size)
            elif self._is_in_memory:
                whole = np.ndarray(self.size, self._dtype, self._file.getbuffer())
            else:
                self._file.flush()
                whole = np.memmap(self._file, self._dtype, "r", shape=(self.size,))
        whole.flags.writeable = False
        return whole

    @property
    def _is_in_memory(self) -> bool:
        return isinstance(self._file, io.BytesIO)

    def _seek(self, n: int) -> None:
        """Go to the place of the n-th value."""
        self._file.seek((_HEADER_BYTES if self._path else 0) + n * self._dtype.itemsize)

    def _writing(self) -> AbstractContextManager[None]:
        return writing(self._path or Path(tempfile.gettempdir()))


def lay_out(pieces: Iterable[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    """Join pieces to one array: in memory, or a read-only map of a temporary file where it is large."""
    growing = GrowingArray(dtype)
    for piece in pieces:
        growing.append(piece)
    whole = growing.finish()
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
