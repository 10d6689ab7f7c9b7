"""Writing ARPA files, whose format `arpa` describes; imports numba.

Compiled code writes most lines. Those with a number that it leaves, and those of ``<s>`` and ``</s>``, are written in
Python.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import gzip
import math
import os
import re
from collections.abc import Iterator
from contextlib import closing
from typing import IO, Any

import numpy as np

from tacenda import reading, store
from tacenda.corpus.marks import START
from tacenda.errors import ArtifactError, DataError
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import LANES, copy_bytes
from tacenda.packed_strings import pack_words
from tacenda.progress import Progress, track
from tacenda.vocabulary import Vocabulary
from tacenda_lm.ngram.columns import SIZE
from tacenda_lm.ngram.lookup import backoff, find_contexts, log_prob, next_contexts, word_of
from tacenda_lm.ngram.rows import Int64
from tacenda_lm.ngram.table import Table

_BYTES_AT_ONCE = 1 << 18  # of lines
_LOG10_E = np.float32(1 / math.log(10))
# bytes: two numbers, their tabs, and what is copied after a word take at most so many
_NUMBERS_ROOM = 48
_DIGITS = 8  # of a number
_MINUS, _POINT, _ZERO = b"-.0"
_TAB, _LINE_FEED, _SPACE = b"\t\n "
_TENS = 10.0 ** np.arange(23)  # each is exact
_DIGIT_PAIRS = np.array([divmod(i, 10) for i in range(100)], np.uint8) + np.uint8(_ZERO)
_UNWRITABLE = re.compile("[ \\t\\n\\r\\ud800-\\udfff]")  # separators, and halves of surrogate pairs
_OTHER_COMPRESSIONS = {".bz2", ".lzma", ".xz", ".zip", ".zst"}


def write_arpa(
    path: str | os.PathLike[str] | IO[bytes],
    vocabulary: Vocabulary,
    table: Table,
    start_log_prob: float,
) -> None:
    """Write a table to a path, gzipped if it ends in .gz, or to an open binary file.

    A file at a path appears only when it is complete. ``start_log_prob`` is the log-probability of ``<s>``, base 10.
    Raises DataError for a word that the format cannot express, a path that cannot be written or has the ending of
    another compression, and a file that is not open for writing bytes. Other errors of an open file are passed on.
    """
    for word in vocabulary.words:
        if word in (START, "") or _UNWRITABLE.search(word):
            raise DataError(
                f"the word {word!r:.80} cannot be written to an ARPA file, which is UTF-8, with spaces between words "
                f"and {START} at the beginning of a sentence: rename it in the text"
            )
    if not isinstance(path, str | os.PathLike) and hasattr(path, "write"):
        try:
            path.write(b"")
        except (TypeError, ValueError) as error:  # of text, for reading, or closed
            raise DataError(
                f'cannot write to {path!r:.120}: open it in binary mode, such as with "wb"'
            ) from error
        _write(path, vocabulary, table, start_log_prob)
        return
    path = reading.path_of(path, DataError)
    suffix = path.suffix.lower()
    if suffix in _OTHER_COMPRESSIONS:
        raise DataError(
            f"{path} has the ending of another compression: ARPA files are written plain, or gzipped if they end in .gz"
        )
    with store.replacing(path) as part, part.open("wb") as raw:
        if suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                _write(packed, vocabulary, table, start_log_prob)
        else:
            _write(raw, vocabulary, table, start_log_prob)


def _write(
    file: IO[bytes] | gzip.GzipFile, vocabulary: Vocabulary, table: Table, start_log_prob: float
) -> None:
    """Write the header and the n-grams of each order."""
    sizes = table.sizes
    sizes[0] += 1  # <s> and </s> are one type in the table
    counts = "".join(f"ngram {n}={size}\n" for n, size in enumerate(sizes, 1))
    file.write(f"\\data\\\n{counts}".encode())
    text, cuts = pack_words([*vocabulary.words, START])
    spelled = np.append(text, np.zeros(LANES, np.uint8)), cuts  # words are copied by whole vectors
    bar: Progress[object] = track(None, "writing n-grams", total=sum(sizes), unit="n-gram")
    with closing(bar):
        for n in range(1, table.order + 1):
            file.write(f"\n\\{n}-grams:\n".encode())
            for n_lines, lines in _format_order(
                spelled, vocabulary.boundary_id, table, n, start_log_prob
            ):
                file.write(lines)
                bar.update(n_lines)
    file.write(b"\n\\end\\\n")


def _format_order(
    spelled: tuple[Any, Int64], boundary: int, table: Table, n: int, start_log_prob: float
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of one order, many at a time, and their number; ``spelled`` are the packed words and ``<s>``."""
    out = np.empty(_BYTES_AT_ONCE, np.uint8)
    done = 0
    while done < table.sizes[n - 1]:
        end, size = _write_lines(*table.arguments, n, done, *spelled, boundary, out)
        if end == done:  # a line that compiled code leaves
            end, lines = done + 1, _format_ngram(spelled, boundary, table, n, done, start_log_prob)
        else:
            lines = out[:size].tobytes()
        yield end - done, lines
        done = end


def _format_ngram(
    spelled: tuple[Any, Int64],
    boundary: int,
    table: Table,
    n: int,
    place: int,
    start_log_prob: float,
) -> bytes:
    """Return the line of one n-gram; for the type that is ``<s>`` and ``</s>``, both lines. Raises ArtifactError."""
    text, cuts = spelled
    ids, numbers = table.words_of(n, place, place + 1)[0], table.unpack(n, place, place + 1)
    if ids.max() >= table.n_types:  # a large table is not checked when it is loaded
        raise ArtifactError(f"the n-gram {ids.tolist()} has a word that is no type: it is damaged")
    ids[:-1][ids[:-1] == boundary] = table.n_types
    words = b" ".join(text[cuts[w] : cuts[w + 1]].tobytes() for w in ids)
    value = float(numbers.log_prob[0] * _LOG10_E)
    backoffs = (numbers.backoff * _LOG10_E).tolist()  # none in the highest order
    if n == 1 and place == boundary:  # <s> has the back-off, and </s> the probability
        start = _format_line(start_log_prob, START.encode(), backoffs)
        return start + _format_line(value, words, [])
    return _format_line(value, words, backoffs)


def _format_line(log_prob10: float, words: bytes, backoffs10: list[float]) -> bytes:
    numbers = [b"%.8g" % value for value in backoffs10]
    return b"\t".join([b"%.8g" % log_prob10, words, *numbers]) + b"\n"


# -- compiled writing ----------------------------------------------------------------------------------


@njit
def _write_number(value, out, at):
    """Write a number as ``"%.8g" % value`` to ``out`` from ``at`` on; return where it ends.

    Return -1 for numbers below 1e-4, except 0, and from 1e7 on, as most of these have an exponent, and for those
    half-way between two of 8 digits.
    """
    if math.copysign(1.0, value) < 0:
        out[at] = _MINUS
        at += 1
    value = abs(value)
    if value == 0:
        out[at] = _ZERO
        return at + 1
    if not 1e-4 <= value < 1e7:
        return -1
    point = 0  # digits before the decimal point, or minus the number of zeros after it
    while value >= _TENS[point]:
        point += 1
    while point <= 0 and value * _TENS[1 - point] < 1:
        point -= 1
    scaled = value * _TENS[_DIGITS - point]
    digits = np.int64(scaled)
    rest = scaled - digits
    if abs(rest - 0.5) < 1e-6:
        return -1
    digits += rest > 0.5
    if digits == 10**_DIGITS:
        digits //= 10
        point += 1
    # 0.00123: a zero, room for the point, and zeros come before the digits. 12.3: the digits begin one byte further
    # right, and those before the point are then copied to the left.
    before = 2 - point if point <= 0 else 1
    for i in range(before):
        out[at + i] = _ZERO
    first = at + before
    left = np.uint32(digits)
    for i in range(_DIGITS - 2, -1, -2):
        pair = left % np.uint32(100)
        left //= np.uint32(100)
        out[first + i], out[first + i + 1] = _DIGIT_PAIRS[pair, 0], _DIGIT_PAIRS[pair, 1]
    for i in range(point):
        out[at + i] = out[first + i]
    out[at + max(point, 1)] = _POINT
    end = first + _DIGITS
    while out[end - 1] == _ZERO:
        end -= 1
    return end - (out[end - 1] == _POINT)


@njit
def _copy(text, begin, end, out, at):
    """Copy bytes to ``out`` from ``at`` on, in whole vectors; return where the copy ends."""
    for i in range(0, end - begin, LANES):
        copy_bytes(text, begin + i, out, at + i)
    return at + end - begin


@njit
def _write_lines(data, shape, n, begin, text, cuts, boundary, out):
    """Write lines of n-grams from place ``begin`` on into ``out``; return the next place and the bytes written.

    Stop at a line for which there is no room, at that of ``<s>`` and ``</s>``, at numbers that `_write_number` leaves,
    and at a word that is no type, in a damaged table.
    """
    start, at, before, place = len(cuts) - 2, 0, 0, begin
    contexts, ends = np.empty((2, n - 1), np.int64)
    # where the words of the line before begin, counted from its first; those that stay the same are copied
    begun = np.zeros(n, np.int64)
    find_contexts(data, shape, begin, contexts, ends)
    while place < shape[n - 1, SIZE]:
        size = at
        first = next_contexts(data, shape, place, contexts, ends) if place > begin else 0
        if size + begun[first] + _NUMBERS_ROOM > len(out):
            return place, size
        at = _write_number(np.float64(log_prob(data, shape, n - 1, place) * _LOG10_E), out, size)
        if at < 0:
            return place, size
        before, at = at, _copy(out, before, before + begun[first], out, at)
        for k in range(first, n):
            w = word_of(data, shape, k, contexts[k] if k < n - 1 else place)
            if w >= start or (n == 1 and w == boundary):
                return place, size
            if k < n - 1 and w == boundary:
                w = start
            if at + cuts[w + 1] - cuts[w] + _NUMBERS_ROOM > len(out):
                return place, size
            begun[k] = at - before
            out[at] = _SPACE if k else _TAB
            at = _copy(text, cuts[w], cuts[w + 1], out, at + 1)
        if n < len(shape):
            out[at] = _TAB
            value = np.float64(backoff(data, shape, n - 1, place) * _LOG10_E)
            at = _write_number(value, out, at + 1)
            if at < 0:
                return place, size
        out[at] = _LINE_FEED
        at += 1
        place += 1
    return place, at
