"""Writing ARPA files, whose format `arpa` describes; imports numba.

`arpa_lines` writes most lines. Those with a number that it leaves, and those of ``<s>`` and ``</s>``, are written in
Python.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
from collections.abc import Iterator
from contextlib import closing
from typing import IO

import numpy as np

from tacenda import reading, store
from tacenda.corpus.marks import START
from tacenda.errors import ArtifactError, DataError
from tacenda.kernels.machinery.vectors import LANES
from tacenda.offsets import pack_words
from tacenda.progress import Progress, track
from tacenda.vocabulary import Vocabulary
from tacenda_lm.ngram.arpa_lines import LOG10_E, write_lines
from tacenda_lm.ngram.table import Table

_BYTES_AT_ONCE = 1 << 18  # of lines
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
    another compression, and a file that is not open for writing bytes, and ArtifactError for a damaged table. Other
    errors of an open file are passed on.
    """
    for word in vocabulary.words:
        if word in (START, "") or _UNWRITABLE.search(word):
            raise DataError(
                f"the word {word!r:.80} cannot be written to an ARPA file, which is UTF-8, with spaces between words "
                f"and {START} at the beginning of a sentence: rename it in the text"
            )
    writer = _Writer(vocabulary, table, start_log_prob)
    if not isinstance(path, str | os.PathLike) and hasattr(path, "write"):
        try:
            path.write(b"")
        except (TypeError, ValueError, OSError) as error:  # of text, for reading, or closed
            if not isinstance(error, TypeError | ValueError) and error.errno != errno.EBADF:
                raise
            raise DataError(
                f'cannot write to {path!r:.120}: open it in binary mode, such as with "wb"'
            ) from error
        writer.write(path)
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
                writer.write(packed)
        else:
            writer.write(raw)


class _Writer:
    """A writer of a table, whose words are packed for compiled code; the last one is ``<s>``."""

    def __init__(self, vocabulary: Vocabulary, table: Table, start_log_prob: float) -> None:
        self._table, self._start_log_prob = table, start_log_prob
        self._boundary = vocabulary.boundary_id
        text, self._cuts = pack_words([*vocabulary.words, START])
        self._text = np.append(text, np.zeros(LANES, np.uint8))  # words are copied by whole vectors

    def write(self, file: IO[bytes] | gzip.GzipFile) -> None:
        """Write the header and the n-grams of each order."""
        n_types, *longer = self._table.sizes
        sizes = [n_types + 1, *longer]  # <s> and </s> are one type in the table
        counts = "".join(f"ngram {n}={size}\n" for n, size in enumerate(sizes, 1))
        file.write(f"\\data\\\n{counts}".encode())
        bar: Progress[object] = track(None, "writing n-grams", total=sum(sizes), unit="n-gram")
        with closing(bar):
            for n in range(1, len(sizes) + 1):
                file.write(f"\n\\{n}-grams:\n".encode())
                for n_lines, lines in self._format_order(n):
                    file.write(lines)
                    bar.update(n_lines)
        file.write(b"\n\\end\\\n")

    def _format_order(self, n: int) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of one order, many at a time, and their number."""
        table, out = self._table, np.empty(_BYTES_AT_ONCE, np.uint8)
        done = 0
        while done < table.sizes[n - 1]:
            end, size = write_lines(
                *table.arguments, n, done, self._text, self._cuts, self._boundary, out
            )
            if end == done:  # a line that compiled code leaves
                end, lines = done + 1, self._format_ngram(n, done)
            else:
                lines = out[:size].tobytes()
            yield end - done, lines
            done = end

    def _format_ngram(self, n: int, place: int) -> bytes:
        """Return the line of an n-gram; for the type that is ``<s>`` and ``</s>``, both lines. Raises ArtifactError."""
        table, text, cuts = self._table, self._text, self._cuts
        ids, numbers = table.words_of(n, place, place + 1)[0], table.unpack(n, place, place + 1)
        if ids.max() >= table.n_types:  # a large table is not checked when it is loaded
            raise ArtifactError(
                f"the n-gram {ids.tolist()} has a word that is no type: it is damaged"
            )
        ids[:-1][ids[:-1] == self._boundary] = table.n_types
        words = b" ".join(text[cuts[w] : cuts[w + 1]].tobytes() for w in ids)
        value = float(numbers.log_prob[0] * LOG10_E)
        backoffs = (numbers.backoff * LOG10_E).tolist()  # none in the highest order
        if n == 1 and place == self._boundary:  # <s> has the back-off, and </s> the probability
            start = _format_line(self._start_log_prob, START.encode(), backoffs)
            return start + _format_line(value, words, [])
        return _format_line(value, words, backoffs)


def _format_line(log_prob10: float, words: bytes, backoffs10: list[float]) -> bytes:
    numbers = [b"%.8g" % value for value in backoffs10]
    return b"\t".join([b"%.8g" % log_prob10, words, *numbers]) + b"\n"
