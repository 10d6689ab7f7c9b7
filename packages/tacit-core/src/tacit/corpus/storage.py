"""One-dimensional arrays that grow by appending, in memory while they are small and in a file beyond."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.errors import CorpusError

SPILL_BYTES: Final = 256 << 20
PASS_ITEMS: Final = 1 << 22
_HEADER_BYTES: Final = 128


class Place:
    """A folder for arrays: given, or temporary, made when needed and removed with its last user."""

    def __init__(self, folder: Path | None = None) -> None:
        self.permanent = folder is not None
        self._folder = folder

    @property
    def folder(self) -> Path:
        """The folder; a temporary one exists from the first time it is asked for."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="tacit-corpus-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder


class GrowingArray:
    """An array of unknown length. In a permanent place it is a ``.npy`` file from the start."""

    def __init__(self, name: str, dtype: type[np.generic], place: Place) -> None:
        self._name = name
        self._dtype = np.dtype(dtype)
        self._place = place
        self._pieces: list[NDArray[Any]] = []
        self._file: IO[bytes] | None = None
        self._size = 0
        if place.permanent:
            self._spill()

    def __len__(self) -> int:
        return self._size

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        values = np.ascontiguousarray(values, dtype=self._dtype)
        self._size += len(values)
        if self._file is not None:
            self._file.write(values.data)
            return
        self._pieces.append(values)
        if self._size * self._dtype.itemsize > SPILL_BYTES:
            self._spill()

    def _spill(self) -> None:
        self._file = (self._place.folder / f"{self._name}.npy").open("w+b")
        self._file.write(b"\0" * _HEADER_BYTES)
        for piece in self._pieces:
            self._file.write(piece.data)
        self._pieces = []

    def blocks(self) -> Iterator[NDArray[Any]]:
        """The values so far, in blocks; what is written into a block of a file is not kept."""
        if self._file is None:
            yield from self._pieces
            return
        position = 0
        while position < self._size:
            block = self._read(position)
            yield block
            position += len(block)

    def replace(self, table: NDArray[Any]) -> None:
        """Put ``table[value]`` in the place of every value, block by block."""
        if self._file is None:
            self._pieces = [table[piece] for piece in self._pieces]
            return
        position = 0
        while position < self._size:
            block = table[self._read(position)]
            self._seek(position)
            self._file.write(np.ascontiguousarray(block, dtype=self._dtype).data)
            position += len(block)

    def finish(self) -> NDArray[Any]:
        """The whole array, read-only; a memory map where it lies in a file."""
        if self._file is None:
            whole = np.concatenate(self._pieces) if self._pieces else np.empty(0, self._dtype)
            self._pieces = []
            whole.flags.writeable = False
            return whole
        path = Path(self._file.name)
        self._file.seek(0)
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._size,)}
        np.lib.format.write_array_header_1_0(self._file, header)
        if self._file.tell() != _HEADER_BYTES:
            raise CorpusError(f"numpy wrote a header of {self._file.tell()} bytes to {path}")
        self.close()
        return load_array(path, self._dtype, self._size)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _seek(self, position: int) -> None:
        assert self._file is not None
        self._file.seek(_HEADER_BYTES + position * self._dtype.itemsize)

    def _read(self, position: int) -> NDArray[Any]:
        assert self._file is not None
        self._seek(position)
        n_bytes = min(PASS_ITEMS, self._size - position) * self._dtype.itemsize
        return np.frombuffer(self._file.read(n_bytes), dtype=self._dtype)


def load_array(path: Path, dtype: np.dtype[Any] | type[np.generic], size: int) -> NDArray[Any]:
    """A ``.npy`` file as a read-only memory map. Raises CorpusError unless it is whole and as expected."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise CorpusError(f"{path} is missing; build the corpus again") from None
    except (ValueError, EOFError, OSError) as error:
        raise CorpusError(f"{path} is damaged ({error}); build the corpus again") from error
    expected = (size,)
    if array.dtype != dtype or array.shape != expected:
        raise CorpusError(
            f"{path} holds {array.dtype} of shape {array.shape}, not {np.dtype(dtype)} of shape {expected}; "
            "build the corpus again"
        )
    return array
