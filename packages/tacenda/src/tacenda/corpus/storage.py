"""Storage of corpora: arrays that grow in memory or in files, and the folder of a corpus.

A corpus in a folder consists of ``.npy`` arrays in a sub-folder and the manifest ``corpus.json``, which names the
sub-folder and is written last. A killed build therefore leaves the previous corpus intact, and a sub-folder that the
next build removes.
"""

import io
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, get_origin, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tacenda import reading, store
from tacenda.errors import CorpusError, describe

SPILL_BYTES = 128 << 20
"""An array of more bytes moves from memory to a temporary file."""

PASS_ITEMS = 1 << 22
"""How many values a pass over a stored array holds in memory."""

_HEADER_BYTES: Final = 128

MANIFEST: Final = "corpus.json"
_FORMAT: Final = "tacenda-corpus"
_VERSION: Final = 1
_PREFIX: Final = "build-"  # of the sub-folders

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
        """Yield the values so far in order, ``PASS_ITEMS`` at a time."""
        n, size = self.size, self._dtype.itemsize
        for start in range(0, n, PASS_ITEMS):
            self._file.seek(self._begin + start * size)
            data = self._file.read(min(PASS_ITEMS, n - start) * size)
            self._file.seek(0, os.SEEK_END)  # where the next value is appended
            yield np.frombuffer(data, dtype=self._dtype)

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


# ---- the folder of a corpus ----


@dataclass(frozen=True)
class Manifest:
    """The content of ``corpus.json``."""

    data: str  # the sub-folder of the arrays
    n_tokens: int
    n_sentences: int
    n_types: int
    n_text_bytes: int
    vocabulary: dict[str, Any]  # Vocabulary.config_dict()
    origin: dict[str, Any]  # Corpus.origin
    fingerprint: str | None  # of sources and settings; None where they cannot be compared
    format: str = _FORMAT
    version: int = _VERSION


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a corpus folder; CorpusError if there is none that this release reads."""
    path = folder / MANIFEST
    if not path.is_file():
        raise CorpusError(
            f"{folder} holds no corpus ({MANIFEST} is missing); give a folder that was the cache= of Corpus.from_text"
        )
    try:
        entries = reading.read_json(path)
    except (ValueError, OSError) as error:
        raise CorpusError(
            f"{path} cannot be read ({error}); remove {folder} and build the corpus again"
        ) from error
    if not isinstance(entries, dict) or entries.get("format") != _FORMAT:
        raise CorpusError(
            f"{path} does not describe a corpus; give a folder made by Corpus.from_text"
        )
    if entries.get("version") != _VERSION:
        raise CorpusError(
            f"{path} has format version {entries.get('version')!r}, this release reads {_VERSION}; "
            "update tacenda, or build the corpus in another folder"
        )
    hints = get_type_hints(Manifest)
    for name, hint in hints.items():
        kind = str if name == "fingerprint" else get_origin(hint) or hint
        value = entries.get(name, ...)
        sound = type(value) is kind or (name == "fingerprint" and value is None)
        if not sound or (kind is int and value < 0):
            raise CorpusError(
                f"{path} is damaged at {name!r}; remove {folder} and build the corpus again"
            )
    manifest = Manifest(**{name: entries[name] for name in hints})
    # only a plain name: a path could lead out of the corpus's folder
    if not manifest.data.startswith(_PREFIX) or set(manifest.data) & set("/\\:\0"):
        raise CorpusError(
            f"{path} names the folder {manifest.data!r}, which no corpus has; build it again"
        )
    return manifest


@contextmanager
def new_data(folder: Path) -> Iterator[Path]:
    """Yield a new sub-folder for the arrays of a corpus; it is removed at the end unless the manifest names it.

    Raises CorpusError if the folder is a file or holds files other than those of a corpus.
    """
    if folder.exists() and not folder.is_dir():
        raise CorpusError(f"the cache {folder} is a file; give a folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if name != MANIFEST and not name.startswith((_PREFIX, "."))]
    if foreign:
        raise CorpusError(
            f"the cache folder {folder} holds other files, such as {foreign[0]!r}; give a new or empty folder"
        )
    try:
        with ExitStack() as stack:
            with writing(folder):
                _sweep(folder)
                data = stack.enter_context(store.new_folder(folder, _PREFIX))
            yield data
    finally:
        with writing(folder):
            _sweep(folder)


def _sweep(folder: Path) -> None:
    """Remove the sub-folders that the manifest does not name, except those of builds that are still running."""
    keep = {MANIFEST}
    with suppress(CorpusError):
        keep.add(read_manifest(folder).data)
    store.sweep(folder, keep, lambda name: name.startswith(_PREFIX))
