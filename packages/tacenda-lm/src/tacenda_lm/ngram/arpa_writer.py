"""Writing ARPA files, the form of a back-off model that KenLM, SRILM and most decoders read.

Logarithms have base 10. ``<s>``, which is never predicted, has the log-probability -99 unless the model comes from a
file that says otherwise (0 in those of lmplz), and the back-off of the beginning of a sentence; ``</s>`` has a
probability and no back-off.
"""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterator
from typing import IO

import numpy as np

from tacenda import store
from tacenda.corpus.lines import START
from tacenda.errors import DataError
from tacenda.progress import Progress, track
from tacenda.vocabulary import BOUNDARY, Vocabulary
from tacenda_lm.ngram.table import Table

__all__ = ["write_arpa"]

_LOG10 = 1 / math.log(10)


_OTHER_PACKINGS = {".bz2", ".lzma", ".xz", ".zip", ".zst"}


def write_arpa(
    path: str | os.PathLike[str], vocabulary: Vocabulary, table: Table, start_log_prob: float
) -> None:
    """Write a table, gzipped if the path ends in .gz; the file appears only when it is complete.

    ``start_log_prob`` is what ``<s>`` is given, in base 10. Raises DataError for a word that the format cannot hold, a
    name that promises another packing, or a path that cannot be written.
    """
    _check_words(vocabulary)
    path = store.path_of(path, DataError)
    if path.suffix in _OTHER_PACKINGS:
        raise DataError(
            f"{path} would not be packed as its name says: ARPA files are plain or end in .gz"
        )
    try:
        with store.replacing(path) as part, part.open("wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                    _write(packed, vocabulary, table, start_log_prob)
            else:
                _write(raw, vocabulary, table, start_log_prob)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error


def _check_words(vocabulary: Vocabulary) -> None:
    """Raise DataError for a word with a space in it, or the mark of a beginning."""
    for word in vocabulary.words:
        if word == START or not word or any(space in word for space in " \t\n\r"):
            raise DataError(
                f"the word {word!r:.80} cannot stand in an ARPA file, where spaces separate words and "
                f"{START} marks the beginning of a sentence: rename it in the text"
            )


def _write(
    file: IO[bytes] | gzip.GzipFile, vocabulary: Vocabulary, table: Table, start_log_prob: float
) -> None:
    """Write the counts, then the n-grams of each order."""
    sizes = table.sizes
    sizes[0] += 1  # <s> and </s> are one type in the table
    counts = "".join(f"ngram {n}={size}\n" for n, size in enumerate(sizes, 1))
    file.write(f"\\data\\\n{counts}".encode())
    bar: Progress[object] = track(None, "writing n-grams", total=sum(sizes), unit="n-gram")
    with bar:
        for n in range(1, table.order + 1):
            file.write(f"\n\\{n}-grams:\n".encode())
            for lines in _lines(vocabulary, table, n, start_log_prob):
                file.write("".join(lines).encode("utf-8", "surrogatepass"))
                bar.update(len(lines))
    file.write(b"\n\\end\\\n")


def _lines(
    vocabulary: Vocabulary, table: Table, n: int, start_log_prob: float
) -> Iterator[list[str]]:
    """The lines of one order, many at a time."""
    last = np.array(vocabulary.words, dtype=object)
    earlier = last.copy()
    earlier[vocabulary.boundary_id] = START
    if n == 1:
        yield from _unigrams(vocabulary, table, start_log_prob)
        return
    for begin, stop in table.blocks(n):
        rows, found = table.words_of(n, slice(begin, stop)), table.unpacked(n, begin, stop)
        columns = [earlier[column] for column in rows.T[:-1]] + [last[rows[:, -1]]]
        texts = map(" ".join, zip(*columns, strict=True))
        probs = (found.log_prob * _LOG10).tolist()
        if n < table.order:
            backoffs = (found.backoff * _LOG10).tolist()
            triples = zip(probs, texts, backoffs, strict=True)
            yield [f"{p:.8g}\t{text}\t{b:.8g}\n" for p, text, b in triples]
        else:
            yield [f"{p:.8g}\t{text}\n" for p, text in zip(probs, texts, strict=True)]


def _unigrams(vocabulary: Vocabulary, table: Table, start_log_prob: float) -> Iterator[list[str]]:
    """The lines of all words, and that of ``<s>``."""
    lines, found = [], table.unpacked(1)
    for i, word in enumerate(vocabulary.words):
        p = float(found.log_prob[i]) * _LOG10
        backoff = f"\t{float(found.backoff[i]) * _LOG10:.8g}" if table.order > 1 else ""
        if word == BOUNDARY:
            lines.append(f"{start_log_prob:.8g}\t{START}{backoff}\n")
            backoff = ""
        lines.append(f"{p:.8g}\t{word}{backoff}\n")
    yield lines
