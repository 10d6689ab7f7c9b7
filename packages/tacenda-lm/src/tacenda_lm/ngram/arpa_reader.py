r"""Reading ARPA files, plain or compressed; every rule of the format is checked.

A file has the line ``\data\``; for each order n a line ``ngram n=COUNT``; for each order the line
``\n-grams:`` and its n-grams, one per line: a base-10 log-probability, the words and, if longer n-grams begin
with it, perhaps a base-10 back-off, separated by tabs or spaces; and the line ``\end\``.

The n-grams are then sorted into a table, and completed where a pruned model left gaps. A look-up goes from shorter to
longer n-grams, so of every n-gram that is listed the one without its last word and the one without its first word must
be listed too. A missing one is added with the probability that backing off gives it, and with a back-off factor of
one, so that no probability changes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tacenda.corpus.lines import read_blocks, text_file, whole_number
from tacenda.corpus.marks import START
from tacenda.errors import CorpusError, DataError
from tacenda.progress import Progress, track
from tacenda.vocabulary import BOUNDARY, UNKNOWN, Vocabulary
from tacenda_lm.ngram.counts import Int64
from tacenda_lm.ngram.table import MAX_ORDER, Table
from tacenda_lm.sequences import Float64

__all__ = ["read_arpa"]

_LINES = 1 << 16
_LN10 = math.log(10)
_LOWEST = -100.0  # log10 of what stands for "-inf" and for a missing <unk>, as in KenLM


class _Listed(NamedTuple):
    """The n-grams of one order as a file lists them."""

    words: Int64  # (n-grams, order), ids
    log_prob: Float64  # (n-grams,), base 10
    backoff: Float64  # (n-grams,), base 10; 0 where there is none


def read_arpa(path: str | os.PathLike[str]) -> tuple[Vocabulary, Table, dict[str, Any]]:
    """Return the vocabulary, the table, and notes on what the file left out (JSON values).

    The vocabulary has the words in the order of the file, without counts. Where the file has no ``<unk>``, one is added
    with a base-10 log-probability of -100. Raises DataError for a file that cannot be read or breaks the format, naming
    the line.
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
        self.notes: dict[str, Any] = {}
        self._lines = (line for block in read_blocks(path) for line in block)

    def read(self) -> tuple[Vocabulary, Table, dict[str, Any]]:
        """The whole file, as `read_arpa` returns it."""
        counts = self._header()
        bar: Progress[object] = track(None, "reading n-grams", total=sum(counts), unit="n-gram")
        with bar:
            words, listed = self._unigrams(counts[0], len(counts) == 1)
            bar.update(counts[0])
            notes: dict[str, Any] = dict(self.notes)
            if UNKNOWN not in words:
                notes["unknown"] = f"the file has no {UNKNOWN}: added with log10 p = {_LOWEST:g}"
                words.append(UNKNOWN)
                listed = _Listed(
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
            table, n_added = _table_of(orders, len(words))
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
            match = re.fullmatch(r"ngram\s+([0-9]+)\s*=\s*([0-9]+)", line)
            count = whole_number(match[2]) if match else None
            if match is None or count is None or whole_number(match[1]) != len(counts) + 1:
                self._fail(f"expected 'ngram {len(counts) + 1}=COUNT', found {line!r:.60}")
            counts.append(count)
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

    def _unigrams(self, count: int, highest: bool) -> tuple[list[str], _Listed]:
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
            self.notes["start_log_prob"] = float(probs[start])
            words.pop(start)
            probs, backoffs = np.delete(probs, start), np.delete(backoffs, start)
        if highest:
            backoffs[:] = 0.0
        return words, _Listed(np.arange(len(words))[:, None], probs, backoffs)

    def _block(self, n: int, ids: dict[str, int], lines: list[str]) -> _Listed:
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
        return _Listed(rows, probs, backoffs)

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

    def _joined(self, n: int, parts: list[_Listed], ids: dict[str, int]) -> _Listed:
        """An order's n-grams, with one id for ``<s>`` and ``</s>``, after a check that each stands where it can."""
        if not parts:
            return _Listed(np.empty((0, n), np.int64), np.empty(0), np.empty(0))
        rows, probs, backoffs = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        start, end = ids[START], ids[BOUNDARY]
        if (rows[:, 1:] == start).any() or (rows[:, :-1] == end).any():
            raise DataError(
                f"{self.path}: a {n}-gram has {START} after its first word or {BOUNDARY} before its last; "
                "only models whose sentences have one of each can be read"
            )
        rows[rows == start] = end
        return _Listed(rows, probs, backoffs)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Level(NamedTuple):
    """One order of the table; an n-gram's key is the number of its prefix * types + its last word."""

    keys: Int64  # sorted
    own: Int64  # the place of each n-gram of the file


def _table_of(orders: list[_Listed], n_types: int) -> tuple[Table, int]:
    """Return the table, and how many n-grams were added. Raises DataError where one is listed twice.

    The unigrams of ``orders`` are all types in the order of their ids.
    """
    rows = [each.words for each in orders]
    while True:
        levels = _sorted(rows, n_types)
        suffixes, missing = _suffixes(levels, n_types)
        if missing is None:
            break
        order, words = missing
        rows[order - 1] = np.concatenate([rows[order - 1], words])
    log_probs: list[Float64] = []
    backoffs: list[Float64] = []
    n_added = 0
    for n, (level, listed, suffix) in enumerate(zip(levels, orders, suffixes, strict=True), 1):
        own = level.own[: len(listed.words)]
        _check_once(own, n)
        log_prob = np.full(len(level.keys), np.nan)
        backoff = np.zeros(len(level.keys))
        log_prob[own], backoff[own] = listed.log_prob * _LN10, listed.backoff * _LN10
        added = np.flatnonzero(np.isnan(log_prob))
        if len(added):
            prefix = level.keys[added] // n_types
            log_prob[added] = backoffs[-1][prefix] + log_probs[-1][suffix[added]]
            n_added += len(added)
        log_probs.append(log_prob)
        backoffs.append(backoff)
    prefixes, last_words = zip(*(np.divmod(level.keys, n_types) for level in levels), strict=True)
    return Table.of_orders(list(prefixes), list(last_words), log_probs, backoffs[:-1]), n_added


def _sorted(rows: list[Int64], n_types: int) -> list[_Level]:
    """Every order's n-grams, with the beginnings of longer ones, sorted and numbered."""
    numbers = [each[:, 0].astype(np.int64) for each in rows]
    levels = [_Level(np.arange(n_types), numbers[0])]
    for k in range(1, len(rows)):
        keys = [numbers[n] * n_types + rows[n][:, k] for n in range(k, len(rows))]
        distinct, places = np.unique(np.concatenate(keys), return_inverse=True)
        cuts = np.cumsum([len(each) for each in keys])[:-1]
        numbers[k:] = np.split(places, cuts)
        levels.append(_Level(distinct, numbers[k]))
    return levels


def _suffixes(levels: list[_Level], n_types: int) -> tuple[list[Int64], tuple[int, Int64] | None]:
    """For each n-gram the number, in the order below, of what it is without its first word.

    If some of these are not listed, stop at the lowest such order and return it with the missing words.
    """
    found = [np.zeros(n_types, np.int64)]
    for k in range(1, len(levels)):
        prefix, word = np.divmod(levels[k].keys, n_types)
        if k == 1:
            found.append(word)
            continue
        wanted = found[-1][prefix] * n_types + word
        below = levels[k - 1].keys
        places = np.minimum(np.searchsorted(below, wanted), len(below) - 1)
        missing = np.flatnonzero(below[places] != wanted)
        if len(missing):
            return found, (k, _words(levels, k, missing)[:, 1:])
        found.append(places)
    return found, None


def _words(levels: list[_Level], k: int, places: Int64) -> Int64:
    """The words of n-grams at these places of the order k + 1: (n-grams, k + 1)."""
    n_types = len(levels[0].keys)
    columns = []
    for level in levels[k:0:-1]:
        places, word = np.divmod(level.keys[places], n_types)
        columns.append(word)
    return np.stack([places, *columns[::-1]], axis=1)


def _check_once(own: Int64, order: int) -> None:
    """Raise DataError if two n-grams of the file came to the same place."""
    times = np.bincount(own, minlength=1)
    if times.max() < 2:
        return
    line = int(np.flatnonzero(own == times.argmax())[1])
    raise DataError(f"{order}-gram number {line + 1} is listed twice: one probability for each")
