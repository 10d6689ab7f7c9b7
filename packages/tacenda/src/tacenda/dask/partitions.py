"""Text files anywhere, cut into partitions: whole lines, of which each worker of a cluster reads some.

An address is one of fsspec: a path, ``s3://bucket/news-*.txt``, ``gs://``, ``hdfs://``, ``https://`` and so on. A line
belongs to the partition in whose range of bytes it begins, but for one that begins exactly at the range's first byte,
which belongs to the partition before (the rule of ``fsspec.utils.read_block``). Compressed files and files in an
encoding other than UTF-8, ASCII and Latin-1 are not cut: each is one partition.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Real
from typing import Final, TypeAlias

import fsspec
from fsspec.core import OpenFile
from fsspec.utils import read_block

from tacenda.corpus.lines import (
    BLOCK_BYTES,
    COMPRESSED,
    LONGEST_LINE,
    MAGIC_BYTES,
    byte_chunks,
    decode_blocks,
    field_of,
    find_codec,
    texts_of,
)
from tacenda.corpus.marks import Marks
from tacenda.errors import ConfigurationError, CorpusError

Address: TypeAlias = str | os.PathLike[str] | OpenFile
Addresses: TypeAlias = Address | Iterable[Address]

#: Encodings in which the byte of a line feed is never part of another character.
_DIVISIBLE_ENCODINGS: Final = frozenset({"utf-8", "ascii", "iso8859-1"})


@dataclass(frozen=True)
class Partition:
    """Some lines of a file, which any process that can reach the file can read, as often as it likes.

    ``name`` is the address of the file, for messages, and ``size`` its bytes, None where its file system does not tell.
    The bytes run from ``begin`` to ``end``, None for a file that is not cut.
    """

    file: OpenFile
    name: str
    size: int | None
    begin: int = 0
    end: int | None = None

    @property
    def n_bytes(self) -> int:
        """The approximate number of bytes; 0 where nobody knows."""
        return (self.size or 0) if self.end is None else self.end - self.begin

    def __str__(self) -> str:
        return self.name

    def open(self, _: str, /) -> io.BufferedReader:
        """Open the whole file, for `tacenda.corpus.lines.byte_chunks`."""
        return io.BufferedReader(self.file.fs.open(self.file.path, "rb"), BLOCK_BYTES)

    def blocks(
        self,
        encoding: str = "utf-8",
        errors: str = "strict",
        marks: Marks = "keep",
        text_field: str | None = None,
    ) -> Iterator[list[str]]:
        """Yield its lines in blocks, as `tacenda.corpus.lines` reads those of a file on disk.

        Raises CorpusError for bytes that the encoding does not have, a mark that is refused, or a file that cannot be
        read, or has another size than when the partitions were cut.
        """
        name = self.name if not self.begin else f"{self.name} from byte {self.begin} on"
        try:
            if self.file.fs.size(self.file.path) != self.size:
                raise CorpusError(
                    f"{self.name} has been written to since its size was looked up: start again when it is whole"
                )
            first, chunks = (0, byte_chunks(self)) if self.end is None else self._read_range()
        except OSError as error:
            raise _read_error(self.name, error) from error
        blocks = decode_blocks(
            chunks, name, encoding, errors, longest=LONGEST_LINE, first_byte=first
        )
        yield from texts_of(blocks, name, marks, field_of(self.name, text_field))

    def _read_range(self) -> tuple[int, Iterator[bytes]]:
        """Return the place of its first byte in the file, and its bytes in pieces."""
        assert self.end is not None
        # not ``with self.file``, which would close what other threads have opened
        with self.file.fs.open(self.file.path, "rb") as file:
            data = read_block(file, self.begin, self.end - self.begin, b"\n")
            first = file.tell() - len(data)
        pieces = (data[start : start + BLOCK_BYTES] for start in range(0, len(data), BLOCK_BYTES))
        if not self.begin:
            return first, chain(pieces, [b""])
        # an empty line, which is skipped: only the first line of a file may begin with a mark of order
        return first - 1, chain([b"\n"], pieces, [b""])


def partitions(addresses: Addresses, n_bytes: int, encoding: str = "utf-8") -> list[Partition]:
    """Cut files into partitions of about ``n_bytes`` bytes, in the order of the addresses; a glob's files are sorted.

    Raises CorpusError if there is no such file, no file matches, or ``n_bytes`` is not positive; and ConfigurationError
    if the package for that kind of address is not installed.
    """
    if not (isinstance(n_bytes, Real) and n_bytes >= 1):
        raise CorpusError(f"a partition cannot have {n_bytes!r:.80} bytes: give at least 1")
    try:
        one = isinstance(addresses, str | os.PathLike | OpenFile)
        listed = [
            address if isinstance(address, OpenFile) else os.fspath(address)
            for address in ([addresses] if one else addresses)
        ]
    except TypeError:
        raise CorpusError(
            f"{addresses!r:.80} names no file to read: give an address, or several in a list"
        ) from None
    found: list[Partition] = []
    for address in listed:
        for file in [address] if isinstance(address, OpenFile) else _open(address):
            found += _divide(file, n_bytes, encoding)
    if not found:
        raise CorpusError("there is no file to read: give at least one address")
    return found


def _open(address: str) -> Sequence[OpenFile]:
    try:
        files: Sequence[OpenFile] = fsspec.open_files(address, mode="rb")
    except ImportError as error:
        raise ConfigurationError(
            f"{address} cannot be read here: {error}; workers of a cluster need it too"
        ) from error
    except (OSError, ValueError, TypeError) as error:  # such as ftp:/// without a host
        raise _read_error(address, error) from error
    if not files:
        raise CorpusError(f"no file matches {address}: check the address")
    return files


def _divide(file: OpenFile, n_bytes: int, encoding: str) -> Iterator[Partition]:
    name = file.full_name.removeprefix("file://")
    try:
        about = file.fs.info(file.path)
        if about.get("type") == "directory":
            raise CorpusError(f"{name} is a directory: name the files in it, e.g. {name}/*.txt")
        with file.fs.open(file.path, "rb") as opened:
            start = opened.read(MAGIC_BYTES)
    except OSError as error:
        raise _read_error(name, error) from error
    size, may_cut = about.get("size"), find_codec(encoding).name in _DIVISIBLE_ENCODINGS
    if size is None or not may_cut or start.startswith(COMPRESSED):
        yield Partition(file, name, size)
        return
    n = max(1, round(size / n_bytes))
    for i in range(n):
        yield Partition(file, name, size, size * i // n, size * (i + 1) // n)


def _read_error(name: str, error: Exception) -> CorpusError:
    if isinstance(error, FileNotFoundError):
        return CorpusError(f"there is no file {name}: check the address")
    return CorpusError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}")
