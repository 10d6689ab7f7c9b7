r"""Lines of text files, plain or compressed, in blocks of bounded size.

Only ``\n`` and ``\r\n`` end a line; other characters that Unicode counts as line separators do
not. A byte-order mark at the start of a file is dropped. Compression is known by content, not by
name.
"""

import bz2
import codecs
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tacenda.errors import CorpusError
from tacenda.progress import Progress, track

BLOCK_BYTES = 1 << 17  # the strings of a block fit into a processor's cache
"""How much text is held, decoded and tokenized at a time."""

_TEXT_SUFFIXES: Final = (".txt", ".gz", ".xz", ".bz2")
_COMPRESSIONS: Final[tuple[tuple[bytes, Callable[..., Any], str], ...]] = (
    (b"\x1f\x8b", gzip.open, "gzip"),
    (b"\xfd7zXZ\x00", lzma.open, "xz"),
    (b"BZh", bz2.open, "bzip2"),
)

Text = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
Advance = Callable[[int], object]


def as_paths(text: Text) -> list[Path] | None:
    """The files a source means, or None where it is an iterable of lines.

    One string or path is one file. A list is files if its elements are paths, or strings of which
    the first exists or is named like a text file; otherwise its strings are lines.
    """
    if isinstance(text, str | os.PathLike):
        return [_checked(Path(text))]
    if isinstance(text, list | tuple) and text and _means_path(text[0]):
        return [_checked(Path(item)) for item in text]
    return None


def _means_path(item: object) -> bool:
    if isinstance(item, os.PathLike):
        return True
    if not isinstance(item, str) or "\n" in item or "\0" in item or not 0 < len(item) < 4096:
        return False
    if len(item.split()) == 1 and item.endswith(_TEXT_SUFFIXES):
        return True
    try:
        return Path(item).is_file()
    except OSError:
        return False


def _checked(path: Path) -> Path:
    try:
        if path.is_dir():
            raise CorpusError(
                f"{path} is a directory where a text file is meant; give the files in it, "
                f'e.g. sorted(Path("{path}").glob("*.txt"))'
            )
        if path.exists():
            return path
    except CorpusError:  # a ValueError too
        raise
    except (OSError, ValueError):  # a name too long or with a NUL: a text given in place of a path
        pass
    text = str(path)  # the end of a long path says more than its middle
    shown = text if len(text) < 200 else f"{text[:60]}...{text[-60:]}"
    raise CorpusError(
        f"there is no file {shown!r}; to tokenize a string itself, give a list of lines: [text]"
    )


def blocks_of(
    text: Text, paths: Sequence[Path] | None, encoding: str, errors: str
) -> Iterator[list[str]]:
    """Blocks of the lines of a source: of its files, or where paths is None of the iterable it is."""
    if paths is not None:
        return file_blocks(paths, encoding, errors)
    assert not isinstance(text, str | os.PathLike)
    return line_blocks(text)


def read_blocks(
    path: Path, encoding: str = "utf-8", errors: str = "strict", advance: Advance | None = None
) -> Iterator[list[str]]:
    """Blocks of the lines of a file, without their line ends; ``advance`` hears of bytes read.

    A block holds the lines that end in about ``BLOCK_BYTES`` of text, so memory is bounded by that
    and by the longest line. Raises CorpusError for bytes the encoding does not have, or a damaged
    archive.
    """
    try:
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        codecs.lookup_error(errors)
    except LookupError as error:
        raise CorpusError(f"{error}; use e.g. encoding='utf-8', errors='replace'") from error
    tail: list[str] = []
    n_lines = n_bytes = 0
    at_start = True
    for data in _chunks(path, advance):
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise _undecodable(path, encoding, error, n_bytes - pending, n_lines) from error
        except UnicodeError as error:
            raise CorpusError(f"{path} is not {encoding}: {error}; name its encoding") from error
        n_bytes += len(data)
        if at_start and text:
            text, at_start = text.removeprefix("\ufeff"), False
        head, newline, rest = text.rpartition("\n")
        if newline:
            # a carriage return and its line feed may come in different chunks: look at them joined
            block = "".join([*tail, head, "\n"]).replace("\r\n", "\n")[:-1].split("\n")
            n_lines += len(block)
            tail = [rest] if rest else []
            yield block
        elif rest:
            tail.append(rest)
    if tail:
        yield ["".join(tail)]


def _chunks(path: Path, advance: Advance | None) -> Iterator[bytes]:
    """Decompressed bytes in pieces, then one empty piece."""
    compression = "text"
    try:
        with path.open("rb") as raw:
            start = raw.peek(6)[:6]
            stream: Any = raw
            for magic, opener, name in _COMPRESSIONS:
                if start.startswith(magic):
                    stream, compression = opener(raw), name
            position = 0
            while data := stream.read(BLOCK_BYTES):
                yield data
                if advance is not None and raw.seekable():
                    advance(raw.tell() - position)
                    position = raw.tell()
            yield b""
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(f"{path} is a damaged {compression} file: {error}") from error
    except OSError as error:
        what = "cannot read" if compression == "text" else f"cannot read the {compression} file"
        raise CorpusError(f"{what} {path}: {error.strerror or error}") from error


def _undecodable(
    path: Path, encoding: str, error: UnicodeDecodeError, start: int, n_lines: int
) -> CorpusError:
    bad = error.object[error.start : min(error.end, error.start + 4)]
    line = n_lines + error.object[: error.start].count(b"\n") + 1
    return CorpusError(
        f"{path} is not {encoding} at line {line}, byte offset {start + error.start} "
        f'(0x{bad.hex()}: {error.reason}); name its encoding, or pass errors="replace"'
    )


def file_blocks(paths: Sequence[Path], encoding: str, errors: str) -> Iterator[list[str]]:
    """Blocks of the lines of files, one after the other, with a progress bar."""
    total = sum(path.stat().st_size for path in paths)
    bar: Progress[object] = track(None, "Tokenizing", total=total, unit="B")
    with bar:
        for path in paths:
            yield from read_blocks(path, encoding, errors, bar.update)


def line_blocks(lines: Iterable[object]) -> Iterator[list[str]]:
    """Lines from an iterable, gathered into blocks; a line end at the end of a line is dropped."""
    block: list[str] = []
    size = 0
    bar: Progress[object] = track(lines, "Tokenizing", unit=" lines")
    with bar:
        for number, line in enumerate(bar):
            if not isinstance(line, str):
                raise CorpusError(
                    f"line {number} of the text is a {type(line).__name__}, not a string; "
                    "for sentences that are tokenized already use Corpus.from_sentences"
                )
            block.append(line.rstrip("\r\n"))
            size += len(line)
            if size >= BLOCK_BYTES:
                yield block
                block, size = [], 0
    if block:
        yield block
