r"""Reading ARPA files, plain or compressed; every rule of the format is checked.

A file has the line ``\data\``; for each order n a line ``ngram n=COUNT``; for each order the line
``\n-grams:`` and its n-grams, one per line: a base-10 log-probability, the words and, if longer n-grams begin
with it, perhaps a base-10 back-off, separated by tabs or spaces; and the line ``\end\``.

Lines in the usual form go through compiled code; what it leaves is read, or refused, line by line here.
"""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tacenda.corpus.lines import LONGEST_ROW, START, byte_chunks, text_file, whole_number
from tacenda.errors import CorpusError, DataError
from tacenda.progress import Progress, track
from tacenda.vocabulary import BOUNDARY, UNKNOWN, Vocabulary, pack_words
from tacenda_lm.ngram.arpa_table import table_of
from tacenda_lm.ngram.counts import Int64
from tacenda_lm.ngram.layout import MAX_ORDER
from tacenda_lm.ngram.rows import Packing, Rows
from tacenda_lm.ngram.table import Sums, Table
from tacenda_lm.ngram.word_table import word_arrays
from tacenda_lm.sequences import Float64

__all__ = ["read_arpa"]

_BYTES = 1 << 22  # held at a time
_LINES = 1 << 16  # of a block
_SLOW = 1 << 10  # lines of a block that has one not in the usual form
_LOWEST = -100.0  # log10 of what stands for "-inf" and for a missing <unk>, as in KenLM


class _Listed(NamedTuple):
    """Some n-grams of one order as a file lists them."""

    words: Int64  # (n-grams, order), ids
    log_prob: Float64  # (n-grams,), base 10
    backoff: Float64  # (n-grams,), base 10; 0 where there is none


def read_arpa(
    path: str | os.PathLike[str],
) -> tuple[Vocabulary, Table, Sums, dict[str, Any]]:
    """Return the vocabulary, the table, what its probabilities sum to, and notes on what the file left out (JSON).

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
        self._chunks = byte_chunks(path)
        self._held, self._at, self._ended = b"", 0, False
        self.notes: dict[str, Any] = {}

    def read(self) -> tuple[Vocabulary, Table, Sums, dict[str, Any]]:
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
            names = _Names(words)
            orders = [names.rows(listed)]
            for n, count in enumerate(counts[1:], 2):
                self._marker(rf"\{n}-grams:")
                orders.append(self._ngrams(n, count, names, bar))
            self._marker("\\end\\")
        vocabulary = Vocabulary(words, np.zeros(len(words), np.int64))
        try:
            table, sums, n_added = table_of(orders, names.packing, words)
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from error
        if n_added:
            notes["n_grams_implied"] = n_added
        return vocabulary, table, sums, notes

    # -- lines -------------------------------------------------------------------------------------

    def _fill(self) -> bool:
        """Read on, so that more lines are held whole; False at the end of the file."""
        parts = [self._held[self._at :]]
        size = 0
        while size < _BYTES and not self._ended:
            data = next(self._chunks)
            if not size and not self._held:
                data = data.removeprefix(codecs.BOM_UTF8)
            self._ended = not data
            parts.append(data)
            size += len(data)
        self._held, self._at = b"".join(parts), 0
        return size > 0

    def _line(self) -> str | None:
        """The next line, without its end; None where the file has ended."""
        while (end := self._held.find(b"\n", self._at)) < 0 and not self._ended:
            if len(self._held) - self._at > LONGEST_ROW or not self._fill():
                break
        data = self._held[self._at : end if end >= 0 else len(self._held)]
        if end < 0 and not data:
            return None
        self.number += 1
        if len(data) > LONGEST_ROW:
            self._fail(
                f"the line has more than {LONGEST_ROW:,} characters; make sure that it is the file you mean"
            )
        self._at += len(data) + 1
        try:
            return data.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            self._fail(f"it is not UTF-8 ({error.reason} at byte {error.start} of the line)")

    def _next(self, wanted: str = "\\end\\: it is cut short") -> str:
        """The next line that is not empty; at the end of the file, the error names what is ``wanted`` before."""
        while (line := self._line()) is not None:
            if line.strip():
                return line.strip()
        self._fail(f"the file ends here, before {wanted}")

    def _marker(self, wanted: str) -> None:
        """Read a line that must be as ``wanted``."""
        line = self._next()
        if line != wanted:
            self._fail(f"expected {wanted}, found {line!r:.60}: the counts at the top are wrong")

    def _header(self) -> list[int]:
        r"""The counts of all orders; read up to the line ``\1-grams:``."""
        while (line := self._next("\\data\\: this is no ARPA file")) != "\\data\\":
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

    def _lines(self, n: int, done: int, count: int, most: int) -> list[str]:
        """Up to ``most`` lines of an order's n-grams, of which ``done`` of ``count`` were read before.

        There is at least one; ``self.number`` stays that of the line before them.
        """
        lines: list[str] = []
        first = self.number
        while len(lines) < min(count - done, most):
            line = self._line()
            if line is None and lines:
                break
            if line is None:
                self.number += 1
                self._fail(f"the file ends after {done} {n}-grams of {count}: it is cut short")
            line = line.rstrip(" \t\r").replace("\t", " ")
            if not line or (line[0] == "\\" and " " not in line):
                self._fail(f"order {n} ends after {done + len(lines)} n-grams of {count}")
            lines.append(line)
        self.number = first
        return lines

    def _fail(self, what: str, line: int | None = None) -> NoReturn:
        raise DataError(f"{self.path}, line {self.number if line is None else line}: {what}")

    # -- n-grams -----------------------------------------------------------------------------------

    def _unigrams(self, count: int, highest: bool) -> tuple[list[str], _Listed]:
        """The words and their unigrams; ``<s>`` gives its back-off to ``</s>``, which is one type with it."""
        from tacenda_lm.ngram.arpa_kernels import read_unigrams

        words: list[str] = []
        parts: list[Float64] = []
        while (done := len(words)) < count:
            places = np.empty((min(count - done, _LINES), 2), np.int64)
            values = np.empty(places.shape)
            text = np.frombuffer(self._held, np.uint8)
            read, after = read_unigrams(text, self._at, places, values)
            try:
                words += [self._held[i:j].decode("utf-8") for i, j in places[:read].tolist()]
                self._at = after
                self.number += read
            except UnicodeDecodeError:  # which line it is comes out below
                read = 0
            parts.append(values[:read])
            if read < len(places) and not (self._held.find(b"\n", self._at) < 0 and self._fill()):
                parts.append(self._odd_unigrams(count, words))
        probs, backoffs = np.maximum(np.concatenate(parts), _LOWEST).T
        if UNKNOWN not in words and "<UNK>" in words:
            words[words.index("<UNK>")] = UNKNOWN
        if len(set(words)) < len(words):
            twice = next(word for word, times in Counter(words).items() if times > 1)
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

    def _odd_unigrams(self, count: int, words: list[str]) -> Float64:
        """Read lines, one of them in an unusual form or wrong: add their words, return their numbers (lines, 2)."""
        lines = self._lines(1, len(words), count, _SLOW)
        fields = [line.split(" ") for line in lines]
        for i, each in enumerate(fields):
            if len(each) not in (2, 3) or not each[1]:
                self._fail("a unigram is a number, a word, perhaps a number", self.number + i + 1)
        words += [each[1] for each in fields]
        last = [each[2] if len(each) == 3 else "0" for each in fields]
        numbers = self._numbers([each[0] for each in fields], last, range(len(lines)))
        self.number += len(lines)
        return np.stack(numbers, axis=1)

    def _ngrams(self, n: int, count: int, names: _Names, bar: Progress[object]) -> Rows:
        """The n-grams of an order, as `_Names.rows` has them."""
        from tacenda_lm.ngram.arpa_kernels import read_ngrams

        parts = [np.empty((0, names.packing.columns(n) + 2), np.uint64)]
        done = 0
        while done < count:
            rows = np.empty((min(count - done, _LINES), parts[0].shape[1]), np.uint64)
            text = np.frombuffer(self._held, np.uint8)
            read, self._at = read_ngrams(
                *(text, self._at, len(rows), n, *names.arrays, *names.marks, *names.packing),
                *(rows, rows.view(np.float64)),
            )
            parts.append(rows[:read].copy() if read < len(rows) else rows)
            self.number += read
            if read < len(rows) and not (self._held.find(b"\n", self._at) < 0 and self._fill()):
                # a line that is not in the usual form, or is wrong
                lines = self._lines(n, done + read, count, _SLOW)
                parts.append(names.rows(self._joined(n, self._block(n, names.ids, lines), names)))
                self.number += len(lines)
                read += len(lines)
            done += read
            bar.update(read)
        found = np.concatenate(parts)
        values = found[:, -2:].view(np.float64)
        np.maximum(values, _LOWEST, out=values)
        return found

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

    def _joined(self, n: int, listed: _Listed, names: _Names) -> _Listed:
        """N-grams with one id for ``<s>`` and ``</s>``, after a check that each stands where it can."""
        rows = listed.words
        start, end = names.marks
        if (rows[:, 1:] == start).any() or (rows[:, :-1] == end).any():
            raise DataError(
                f"{self.path}: a {n}-gram has {START} after its first word or {BOUNDARY} before its last; "
                "only models whose sentences have one of each can be read"
            )
        rows[rows == start] = end
        return listed


class _Names:
    """The words of a file and ``<s>``, by which the lines of longer n-grams name them."""

    def __init__(self, words: list[str]) -> None:
        self.packing = Packing.of(len(words))
        self.ids = {word: i for i, word in enumerate(words)}
        self.ids[START] = len(words)
        self.marks = len(words), self.ids[BOUNDARY]
        self.arrays = word_arrays(*pack_words([*words, START]))

    def rows(self, listed: _Listed) -> Rows:
        """Return n-grams as rows: the key, the first word first, and both numbers as float64."""
        numbers = np.stack([listed.log_prob, listed.backoff], axis=1)
        return np.hstack([self.packing.keys(listed.words), numbers.view(np.uint64)])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
