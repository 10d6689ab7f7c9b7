r"""Reading ARPA files, plain or compressed; every rule of the format is checked.

A file has the line ``\data\``; for each order n a line ``ngram n=COUNT``; for each order the line
``\n-grams:`` and its n-grams, one per line: a base-10 log-probability, the words and, if longer n-grams begin
with it, perhaps a base-10 back-off, separated by tabs or spaces; and the line ``\end\``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tacenda.corpus.lines import read_blocks, text_file
from tacenda.errors import CorpusError, DataError
from tacenda.progress import Progress, track
from tacenda.vocabulary import BOUNDARY, UNKNOWN, Vocabulary
from tacenda_lm.ngram.arpa_table import Listed, table_of
from tacenda_lm.ngram.arpa_writer import START
from tacenda_lm.ngram.settings import MAX_ORDER
from tacenda_lm.ngram.table import Table
from tacenda_lm.sequences import Float64

__all__ = ["read_arpa"]

_LINES = 1 << 16
_LOWEST = -100.0  # log10 of what stands for "-inf" and for a missing <unk>, as in KenLM


def read_arpa(path: str | os.PathLike[str]) -> tuple[Vocabulary, Table, dict[str, Any]]:
    """Return the vocabulary, the table, and notes on what the file left out (JSON values).

    The vocabulary has the words in the order of the file, without counts. Where the file has no ``<unk>``, one
    is added with a base-10 log-probability of -100.

    Raises
    ------
    DataError
        The file cannot be read or breaks the format; the message names the line.
    """
    try:
        return _Reader(text_file(path)).read()
    except CorpusError as error:
        raise DataError(str(error)) from error


class _Reader:
    """Reads one file, and knows the line it is at for error messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0  # of the line read last
        self._lines = (line for block in read_blocks(path) for line in block)

    def read(self) -> tuple[Vocabulary, Table, dict[str, Any]]:
        """The whole file, as `read_arpa` returns it."""
        counts = self._header()
        bar: Progress[object] = track(None, "reading n-grams", total=sum(counts), unit="n-gram")
        with bar:
            words, listed = self._unigrams(counts[0], len(counts) == 1)
            bar.update(counts[0])
            notes: dict[str, Any] = {}
            if UNKNOWN not in words:
                notes["unknown"] = f"the file has no {UNKNOWN}: added with log10 p = {_LOWEST:g}"
                words.append(UNKNOWN)
                listed = Listed(
                    np.arange(len(words))[:, None],
                    np.append(listed.log_prob, _LOWEST),
                    np.append(listed.backoff, 0.0),
                )
            ids = {word: i for i, word in enumerate(words)}
            ids[START] = len(words)
            orders = [listed]
            for n, count in enumerate(counts[1:], 2):
                self._marker(rf"\{n}-grams:")
                parts = [self._block(n, ids, lines) for lines in self._section(n, count, bar)]
                orders.append(self._joined(n, parts, ids))
            self._marker("\\end\\")
        vocabulary = Vocabulary(words, np.zeros(len(words), np.int64))
        try:
            table, n_added = table_of(orders, len(words))
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from error
        if n_added:
            notes["n_grams_implied"] = n_added
        return vocabulary, table, notes

    # -- lines -------------------------------------------------------------------------------------

    def _next(self) -> str:
        """The next line that is not empty."""
        for line in self._lines:
            self.number += 1
            if line.strip():
                return line.strip()
        self._fail(r"the file ends here, before \end\: it is cut short")

    def _marker(self, wanted: str) -> None:
        """Read a line that must be as ``wanted``."""
        line = self._next()
        if line != wanted:
            self._fail(f"expected {wanted}, found {line!r:.60}: the counts at the top are wrong")

    def _header(self) -> list[int]:
        r"""The counts of all orders; read up to the line ``\1-grams:``."""
        while (line := self._next()) != "\\data\\":
            if line.startswith("\\"):
                self._fail(rf"expected \data\, found {line!r:.60}: this is no ARPA file")
        counts: list[int] = []
        while (line := self._next()) != r"\1-grams:":
            match = re.fullmatch(r"ngram\s+(\d+)\s*=\s*(\d+)", line)
            if not match or int(match[1]) != len(counts) + 1:
                self._fail(f"expected 'ngram {len(counts) + 1}=COUNT', found {line!r:.60}")
            counts.append(int(match[2]))
        if not 1 <= len(counts) <= MAX_ORDER or not counts[0]:
            self._fail(f"the counts are of {len(counts)} orders; 1 to {MAX_ORDER} can be read")
        return counts

    def _section(self, n: int, count: int, bar: Any) -> Iterator[list[str]]:
        """The lines of an order's n-grams, many at a time; ``self.number`` is that of the line before them."""
        left = count
        while left:
            lines = [
                line.rstrip(" \t\r").replace("\t", " ")
                for line in islice(self._lines, min(left, _LINES))
            ]
            for i, line in enumerate(lines):
                if not line or (line[0] == "\\" and " " not in line):
                    self.number += i + 1
                    self._fail(f"order {n} ends after {count - left + i} n-grams of {count}")
            if not lines:
                self.number += 1
                self._fail(
                    f"the file ends after {count - left} {n}-grams of {count}: it is cut short"
                )
            yield lines
            self.number += len(lines)
            left -= len(lines)
            bar.update(len(lines))

    def _fail(self, what: str, line: int | None = None) -> NoReturn:
        raise DataError(f"{self.path}, line {self.number if line is None else line}: {what}")

    # -- n-grams -----------------------------------------------------------------------------------

    def _unigrams(self, count: int, highest: bool) -> tuple[list[str], Listed]:
        """The words and their unigrams; ``<s>`` gives its back-off to ``</s>``, which is one type with it."""
        words: list[str] = []
        numbers: list[tuple[Float64, Float64]] = []
        for lines in self._section(1, count, track(None, "", disable=True)):
            fields = [line.split(" ") for line in lines]
            for i, each in enumerate(fields):
                if len(each) not in (2, 3) or not each[1]:
                    self._fail(
                        "a unigram is a number, a word, perhaps a number", self.number + i + 1
                    )
            words += [each[1] for each in fields]
            last = [each[2] if len(each) == 3 else "0" for each in fields]
            numbers.append(self._numbers([each[0] for each in fields], last, range(len(lines))))
        probs, backoffs = (np.concatenate(column) for column in zip(*numbers, strict=True))
        if UNKNOWN not in words and "<UNK>" in words:
            words[words.index("<UNK>")] = UNKNOWN
        if len(set(words)) < len(words):
            twice = next(word for word in words if words.count(word) > 1)
            self._fail(f"the unigram {twice!r} is listed twice")
        if BOUNDARY not in words:
            self._fail(f"there is no unigram {BOUNDARY}: an end of sentence cannot be predicted")
        end = words.index(BOUNDARY)
        backoffs[end] = 0.0
        if START in words:  # both marks are one type in the table
            start = words.index(START)
            backoffs[end] = backoffs[start]
            words.pop(start)
            probs, backoffs = np.delete(probs, start), np.delete(backoffs, start)
        if highest:
            backoffs[:] = 0.0
        return words, Listed(np.arange(len(words))[:, None], probs, backoffs)

    def _block(self, n: int, ids: dict[str, int], lines: list[str]) -> Listed:
        """The n-grams of some lines; all lines of one width are split at once."""
        n_spaces = np.array([line.count(" ") for line in lines])
        rows = np.empty((len(lines), n), np.int64)
        probs, backoffs = np.empty(len(lines)), np.zeros(len(lines))
        strange = np.flatnonzero((n_spaces != n) & (n_spaces != n + 1))
        if len(strange):
            i = int(strange[0])
            self._fail(
                f"a {n}-gram is a number, {n} words, perhaps a number, not {lines[i]!r:.60}",
                self.number + i + 1,
            )
        for width in (n + 1, n + 2):  # fields, without and with a back-off
            places = np.flatnonzero(n_spaces == width - 1)
            if not len(places):
                continue
            chosen = lines if len(places) == len(lines) else [lines[i] for i in places.tolist()]
            fields = " ".join(chosen).split(" ")
            for k in range(n):
                column = fields[k + 1 :: width]
                try:
                    rows[places, k] = list(map(ids.__getitem__, column))
                except KeyError as error:
                    i = int(places[column.index(error.args[0])])
                    self._fail(f"the word {error.args[0]!r} is no unigram", self.number + i + 1)
            last = fields[n + 1 :: width] if width == n + 2 else ["0"] * len(places)
            numbers = self._numbers(fields[0::width], last, places.tolist())
            probs[places], backoffs[places] = numbers
        return Listed(rows, probs, backoffs)

    def _numbers(
        self, probs: Sequence[str], backoffs: Sequence[str], places: Sequence[int]
    ) -> tuple[Float64, Float64]:
        """The log-probabilities and back-offs (base 10) of the lines at these places of a block, checked."""
        found = []
        for texts in (probs, backoffs):
            try:
                values = np.array(list(map(float, texts)))
            except ValueError:
                i = next(i for i, text in enumerate(texts) if not _is_number(text))
                self._fail(f"{texts[i]!r:.40} is not a number", self.number + places[i] + 1)
            found.append(np.maximum(values, _LOWEST))
        wrong = np.flatnonzero(~(found[0] <= 0))
        if len(wrong):
            i = int(wrong[0])
            self._fail(
                f"the log-probability {probs[i]} is above zero, so the probability above one",
                self.number + places[i] + 1,
            )
        wrong = np.flatnonzero(~np.isfinite(found[1]))
        if len(wrong):
            i = int(wrong[0])
            self._fail(f"the back-off {backoffs[i]} is not finite", self.number + places[i] + 1)
        return found[0], found[1]

    def _joined(self, n: int, parts: list[Listed], ids: dict[str, int]) -> Listed:
        """An order's n-grams, with one id for ``<s>`` and ``</s>``, after a check that each stands where it can."""
        if not parts:
            return Listed(np.empty((0, n), np.int64), np.empty(0), np.empty(0))
        rows, probs, backoffs = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        start, end = ids[START], ids[BOUNDARY]
        if (rows[:, 1:] == start).any() or (rows[:, :-1] == end).any():
            raise DataError(
                f"{self.path}: a {n}-gram has {START} after its first word or {BOUNDARY} before its last; "
                "only models whose sentences have one of each can be read"
            )
        rows[rows == start] = end
        return Listed(rows, probs, backoffs)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
