r"""Numbered lines of a text file, plain, ``.xz`` or ``.gz``: what every format reader starts from.

Only ``\n`` ends a line (a carriage return before it is dropped), so that a word which holds an
exotic line separator such as U+2028 stays in one piece.
"""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from tacenda.errors import DataError


def open_bytes(path: Path) -> BinaryIO:
    """Open ``path`` for reading, decompressed if its name ends in ``.xz`` or ``.gz``.

    Raises
    ------
    DataError
        The file is missing, is a folder or may not be read.
    """
    try:
        if path.suffix == ".xz":
            return cast(BinaryIO, lzma.open(path, "rb"))
        if path.suffix == ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        return path.open("rb")
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist: check the name") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder where a file is meant: name a file in it") from error
    except OSError as error:
        raise DataError(f"{path} cannot be opened: {error.strerror or error}") from error


def numbered_lines(path: str | Path, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield ``(line number from 1, line without its end)``, one line in memory at a time.

    A byte-order mark at the beginning is dropped.

    Raises
    ------
    DataError
        The file cannot be opened, is compressed data that is damaged or cut short, or
        holds bytes that are not ``encoding``; the message names file and line.
    """
    path = Path(path)
    number = 0
    with open_bytes(path) as stream:
        try:
            for number, raw in enumerate(stream, 1):
                line = raw.decode(encoding)
                if number == 1:
                    line = line.removeprefix("\ufeff")
                yield number, line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}, line {number}: byte {error.start} is not {encoding}: convert the file"
            ) from error
        except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
            raise DataError(
                f"{path} is damaged after line {number} ({error}): obtain the file again"
            ) from error
