r"""Lines of text files, plain or compressed, in blocks of bounded size, for all readers of text.

Only ``\n`` and ``\r\n`` end a line; other characters that Unicode counts as line separators do not. A byte-order mark
at the start of a file is dropped. Compression (gzip, bzip2, xz, a zip archive of one file) is known by content, not by
name. A file named ``*.jsonl`` has a JSON object a line, with a text in a field.

A few kilobytes of a compressed file may unpack to gigabytes. Therefore a line may have at most `LONGEST_LINE`
characters in running text and `LONGEST_ROW` in a file of rows.
"""

import bz2
import codecs
import gzip
import io
import json
import lzma
import os
import zipfile
import zlib
from codecs import IncrementalDecoder
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from tacenda.corpus.marks import PART_OF_MARKS, Marks, line_without_marks
from tacenda.errors import CorpusError, DataError
from tacenda.progress import Progress, track
from tacenda.reading import path_of

#: How much text is held, decoded and tokenized at a time: the strings of a block fit into a processor's cache.
BLOCK_BYTES = 1 << 17
#: The most characters of a line of text: a corpus in one line of a hundred megabytes can still be read.
LONGEST_LINE: Final = 1 << 27
#: The most characters of a line in files whose lines are rows: n-grams, ratings, treebanks, clusters.
LONGEST_ROW: Final = 1 << 20
#: The most words of a sentence in such a file, whose rows are in memory together.
LONGEST_SENTENCE: Final = 1 << 18

_JSON_LINES_SUFFIXES: Final = (".jsonl", ".ndjson")
_COMPRESSED_SUFFIXES: Final = (".gz", ".xz", ".bz2", ".zip")
_TEXT_SUFFIXES: Final = (".txt", *_JSON_LINES_SUFFIXES, *_COMPRESSED_SUFFIXES)

#: Untokenized text: a file, files, a string, or lines.
Lines: TypeAlias = str | os.PathLike[str] | Iterable[str] | Iterable[os.PathLike[str]]


# ---- the forms of a text ----


def open_text(text: object) -> tuple[Any, bool]:
    """Return a text as a string, a list of files or an iterator of sentences, and whether sentences are token lists.

    A ``Path`` is a file and a ``str`` is text. Raises CorpusError if a file is missing or is a directory, if a string,
    or the first one of a list, is the name of a file, and for an object that is no text.
    """
    if isinstance(text, bytes | Mapping) or not isinstance(text, Iterable | os.PathLike):
        raise CorpusError(
            f"a text is a path, a string or sentences, not {text!r:.40}, a {type(text).__name__}"
        )
    if isinstance(text, str):
        refuse_file_name(text)
        return text, False
    sentences: Iterator[Any] = iter([text] if isinstance(text, os.PathLike) else text)
    for first in sentences:
        sentences = chain([first], sentences)
        if isinstance(first, os.PathLike):
            return list(map(text_file, sentences)), False
        if isinstance(first, str) and isinstance(text, list | tuple):
            refuse_file_name(first)
        return sentences, not isinstance(first, str)
    return sentences, True


def text_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a text file. Raises CorpusError if it is missing or is a directory."""
    file = path_of(path, CorpusError)
    if file.is_dir():
        raise CorpusError(
            f"{file} is a directory, not a text file; give the files in it, "
            f'e.g. sorted(Path("{file}").glob("*.txt"))'
        )
    if not file.exists():
        raise CorpusError(f"there is no file {str(file)!r}; check its name and folder")
    return file


def refuse_file_name(text: str) -> None:
    """Raise CorpusError if a string of text is the name of a file, which must be given as a ``Path``."""
    if "\n" in text or "\0" in text or not 0 < len(text) < 4096:
        return
    if os.path.isfile(text):  # noqa: PTH113 (for every line that is measured: a Path costs more)
        raise CorpusError(
            f"{text!r} is the name of a file, but a string is text itself; to read the file give Path({text!r})"
        )
    if len(text.split()) == 1 and text.endswith(_TEXT_SUFFIXES):
        raise CorpusError(
            f"there is no file {text!r}, and a string is text itself; to read a file give its Path(...)"
        )


def text_blocks(
    text: Lines,
    encoding: str = "utf-8",
    errors: str = "strict",
    marks: Marks = "keep",
    text_field: str | None = None,
) -> Iterator[list[str]]:
    """Yield the lines of files, of a string, or of an iterable of lines in blocks, with a progress bar.

    ``marks`` says what is done with ``<s>`` and ``</s>``; see `Marks`. ``text_field`` is a field of JSON objects, one
    per line; see `texts_of`. Raises CorpusError as `open_text` and `read_blocks` do.
    """
    files, _ = open_text(text)
    if not isinstance(files, list):
        lines: Any = io.StringIO(files, newline="\n") if isinstance(files, str) else files
        yield from texts_of(line_blocks(lines), "the text", marks, text_field)
        return
    total = sum(path.stat().st_size for path in files)
    bar: Progress[object] = track(None, "Tokenizing", total=total, unit="B")
    with closing(bar):
        for path in files:
            chunks = byte_chunks(path, bar.update)
            blocks = decode_blocks(chunks, str(path), encoding, errors, longest=LONGEST_LINE)
            yield from texts_of(blocks, str(path), marks, field_of(str(path), text_field))


def line_blocks(lines: Iterable[object]) -> Iterator[list[str]]:
    """Yield lines from an iterable in blocks, as `read_blocks` does. Raises CorpusError for other objects."""
    block: list[str] = []
    size = 0
    bar: Progress[object] = track(lines, "Tokenizing", unit=" lines")
    with closing(bar):
        for number, line in enumerate(bar, start=1):
            if not isinstance(line, str):
                advice = "give lines as strings"
                if isinstance(line, os.PathLike):
                    advice = 'give several files as a list, e.g. sorted(folder.glob("*.txt"))'
                elif isinstance(line, list | tuple):
                    advice = "for sentences that are tokenized already use Corpus.from_sentences"
                raise CorpusError(
                    f"line {number} of the text is a {type(line).__name__}, not a string; {advice}"
                )
            block.append(line_without_end(line, number))
            size += len(line)
            if size >= BLOCK_BYTES:
                yield block
                block, size = [], 0
    if block:
        yield block


def line_without_end(line: str, number: int) -> str:
    """Return a line of an iterable without its end, and the first one without a byte-order mark."""
    if number == 1:
        line = line.removeprefix("\ufeff")
    return line[:-2] if line.endswith("\r\n") else line.removesuffix("\n")


# ---- the bytes of a file, plain or compressed ----


class File(Protocol):
    """A file to read, named in messages by its ``str``: a ``Path``, or a file elsewhere."""

    def open(self, mode: str, /) -> Any:
        """Open it; a buffered binary stream, of which ``peek`` shows the beginning."""


def _open_zip(raw: Any) -> Any:
    """Open the one file in a zip archive. Raises CorpusError if there are none or several, or it needs a password."""
    try:
        archive = zipfile.ZipFile(raw)
        names = [each.filename for each in archive.infolist() if not each.is_dir()]
        names = [name for name in names if not name.startswith("__MACOSX/")]
        if len(names) == 1:
            return archive.open(names[0])
    # a password; as NotImplementedError, a compression that Python lacks; or a damaged list of files
    except (RuntimeError, UnicodeError) as error:
        raise CorpusError(f"its file cannot be unpacked ({error}): unpack it yourself") from error
    examples = f", such as {names[0]!r}" if names else ""
    raise CorpusError(
        f"it is a zip archive of {len(names)} files{examples}: unpack it and name the text; of a document such as "
        "*.docx, save the text"
    )


_COMPRESSIONS: Final[tuple[tuple[bytes, Callable[..., Any], str], ...]] = (
    (b"\x1f\x8b", gzip.open, "gzip"),
    (b"\xfd7zXZ\x00", lzma.open, "xz"),
    # a text may begin with "BZh": after the size comes the magic number of a block or of the end
    *((b"BZh%d1AY&SY" % size, bz2.open, "bzip2") for size in range(1, 10)),
    *((b"BZh%d\x17rE8P\x90" % size, bz2.open, "bzip2") for size in range(1, 10)),
    (b"PK\x03\x04", _open_zip, "zip"),
    (b"PK\x05\x06", _open_zip, "zip"),  # without files
)
#: The first bytes of compressed files.
COMPRESSED: Final = tuple(magic for magic, _, _ in _COMPRESSIONS)
#: How many bytes tell a compressed file.
MAGIC_BYTES: Final = max(map(len, COMPRESSED))


def byte_chunks(path: File, advance: Callable[[int], object] | None = None) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file in pieces, then one empty piece. Raises CorpusError as `read_blocks`.

    ``advance`` is called with the number of bytes that were read from the disk, for a progress bar.
    """
    compression = "text"
    try:
        with path.open("rb") as raw:
            start = raw.peek(MAGIC_BYTES)
            stream: Any = raw
            for magic, opener, name in _COMPRESSIONS:
                if start.startswith(magic):
                    compression = name
                    stream = opener(raw)
            position = 0
            while data := stream.read(BLOCK_BYTES):
                yield data
                if advance is not None and raw.seekable():
                    advance(raw.tell() - position)
                    position = raw.tell()
            yield b""
    except CorpusError as error:
        raise CorpusError(f"cannot read {path}: {error}") from error
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise CorpusError(f"{path} is a damaged {compression} file: {error}") from error
    except MemoryError as error:  # the header of an xz file may ask for gigabytes
        raise CorpusError(f"{path} needs more memory to be unpacked than there is") from error
    except OSError as error:
        kind = "" if compression == "text" else f"the {compression} file "
        raise CorpusError(f"cannot read {kind}{path}: {error.strerror or error}") from error


# ---- the lines of bytes ----


def read_blocks(
    path: File, encoding: str = "utf-8", errors: str = "strict", *, longest: int = LONGEST_ROW
) -> Iterator[list[str]]:
    """Yield the lines of a file in blocks, without their ends.

    A block has the lines that end in about ``BLOCK_BYTES`` of text, so memory is bounded by a block and by a line of
    ``longest`` characters. Raises CorpusError for a longer line, for bytes that the encoding does not have, or for a
    damaged archive.
    """
    yield from decode_blocks(byte_chunks(path), str(path), encoding, errors, longest=longest)


def numbered_lines(path: str | Path, *, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a file of rows, for the readers of data sets.

    A byte-order mark at the beginning is dropped, and a bounded part of the file is in memory. ``encoding`` is None if
    the user cannot choose it: then it is UTF-8. Raises DataError, which names the file and possibly the line, if the
    file cannot be opened, is damaged compressed data, or has bytes that the encoding does not have.
    """
    advice = "convert the file to utf-8" if encoding is None else "name its encoding"
    try:
        file = text_file(path)
        blocks = decode_blocks(byte_chunks(file), str(file), encoding or "utf-8", advice=advice)
        yield from enumerate(chain.from_iterable(blocks), 1)
    except CorpusError as error:
        raise DataError(str(error)) from error


def find_codec(encoding: str) -> codecs.CodecInfo:
    """Return the codec of an encoding. Raises CorpusError for one that Python lacks, or that is not for text."""
    try:
        # raises for codecs from bytes to bytes
        io.TextIOWrapper(io.BytesIO(), encoding)
        codecs.getincrementaldecoder(encoding)
        return codecs.lookup(encoding)
    except (LookupError, TypeError, ValueError) as error:
        reason = str(error).partition(";")[0]
        raise CorpusError(f"encoding is {encoding!r}: {reason}; use e.g. 'utf-8'") from error


def decode_blocks(
    chunks: Iterable[bytes],
    name: str,
    encoding: str = "utf-8",
    errors: str = "strict",
    *,
    longest: int = LONGEST_ROW,
    first_byte: int = 0,
    advice: str = 'name its encoding, or pass errors="replace"',
) -> Iterator[list[str]]:
    """Yield lines in blocks as `read_blocks` does, from pieces of bytes of which the last is empty.

    ``name`` is the name of the file in error messages, ``first_byte`` is where in it the first piece begins, and
    ``advice`` says what to do about bytes that the encoding does not have.
    """
    if errors not in ("strict", "replace", "ignore"):
        raise CorpusError(f"errors is {errors!r}; use 'strict', 'replace' or 'ignore'")
    decoder = find_codec(encoding).incrementaldecoder(errors)
    tail: list[str] = []
    n_lines = n_tail = 0
    n_bytes = first_byte
    at_start = True
    for data in chunks:
        state = decoder.getstate()
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            decoder.setstate(state)
            place = _place_of(error, data, decoder, n_lines, n_bytes)
            raise CorpusError(f"{name} is not {encoding} at {place}; {advice}") from error
        except UnicodeError as error:
            raise CorpusError(f"{name} is not {encoding}: {error}; name its encoding") from error
        n_bytes += len(data)
        if at_start and text:
            text, at_start = text.removeprefix("\ufeff"), False
        head, newline, rest = text.rpartition("\n")
        # only the first line of a piece can be longer than a piece: it may have begun in an earlier one
        if n_tail + (text.find("\n") if newline else len(rest)) > longest:
            raise CorpusError(
                f"{name}, line {n_lines + 1}: the line has more than {longest:,} characters; check that this is the "
                "right file, or break its lines"
            )
        if newline:
            # joined first, because a carriage return and its line feed may be in different pieces
            block = "".join([*tail, head, "\n"]).replace("\r\n", "\n")[:-1].split("\n")
            n_lines += len(block)
            tail, n_tail = [], 0
            yield block
        if rest:
            tail.append(rest)
            n_tail += len(rest)
    if tail:
        yield ["".join(tail)]


def _place_of(
    error: UnicodeDecodeError, data: bytes, decoder: IncrementalDecoder, n_lines: int, n_bytes: int
) -> str:
    """Return the line and the offset of the bytes in a piece that a decoder refused, with the reason.

    The decoder is in its state before the piece, and ``n_lines`` and ``n_bytes`` came before it.
    """
    bad = error.object[error.start : min(error.end, error.start + 4)].hex()
    # from the end: bytes of the piece before may come first, and the mark of utf-8-sig may be missing
    at = len(data) - len(error.object) + error.start
    line = n_lines + decoder.decode(data[: max(at, 0)]).count("\n") + 1
    return f"line {line}, byte offset {n_bytes + at} (0x{bad}: {error.reason})"


# ---- JSON objects with a text ----


def field_of(name: str, text_field: str | None) -> str | None:
    """Return the field of the text in a file of this name; None if its lines are the text itself.

    Files named ``*.jsonl`` or ``*.ndjson``, compressed or not, have the field ``text`` unless another is named.
    """
    name = name.lower()
    for suffix in _COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    return text_field or ("text" if name.endswith(_JSON_LINES_SUFFIXES) else None)


def texts_of(
    blocks: Iterable[list[str]],
    name: str,
    marks: Marks,
    field: str | None = None,
    *,
    skippable: bool = True,
) -> Iterator[list[str]]:
    """Yield lines of running text, with the marks of sentences treated as ``marks`` says.

    With a ``field``, each line given is a JSON object that has a text of one or more lines in it. ``name`` is that of
    the file in error messages, and ``skippable`` whether these may advise ``marks="skip"``. Raises CorpusError, which
    names the line, for a line that is no such object, and for a mark that is refused.
    """
    if field is not None:
        blocks, name = _read_records(blocks, name, field), f"the text in {name}"
    if marks == "keep":
        yield from blocks
        return
    n_lines = 0
    for block in blocks:
        lines = block
        if any(PART_OF_MARKS in line for line in block):
            lines = [
                line_without_marks(line, marks, f"{name}, line {number}", skippable)
                for number, line in enumerate(block, n_lines + 1)
            ]
        yield lines
        n_lines += len(block)


def _read_records(blocks: Iterable[list[str]], name: str, field: str) -> Iterator[list[str]]:
    """Yield the lines of the texts of JSON objects, in blocks. Raises CorpusError, which names the line."""
    n_lines = 0
    for block in blocks:
        texts: list[str] = []
        for number, line in enumerate(block, n_lines + 1):
            if line and not line.isspace():
                try:
                    text = _read_text(line, field).replace("\r\n", "\n")
                    texts += text.removesuffix("\n").split("\n")
                except CorpusError as error:
                    raise CorpusError(f"{name}, line {number}: {error}") from error
        yield texts
        n_lines += len(block)


def _read_text(line: str, field: str) -> str:
    """Return the text of a JSON object. Raises CorpusError, without the place of the line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorpusError(
            f"it is not a JSON object, as lines of *.jsonl must be ({error})"
        ) from error
    if not isinstance(record, dict):
        raise CorpusError(
            "it is not a JSON object, as lines of *.jsonl must be: rename a file of plain text"
        )
    if field not in record:
        texts = [name for name, value in record.items() if isinstance(value, str)]
        advice = f', such as text_field="{texts[0]}"' if texts else ""
        raise CorpusError(
            f"the object has no field {field!r}: name the field with the text{advice}"
        )
    if not isinstance(text := record[field], str):
        raise CorpusError(f"its field {field!r} is {text!r:.40}, not a text: leave out the line")
    return text
