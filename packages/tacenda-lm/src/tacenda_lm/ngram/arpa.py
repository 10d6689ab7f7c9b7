r"""Reading ARPA files, the text format of back-off models in KenLM, SRILM and most decoders; imports numba.

A file has the line ``\data\``; for each order n a line ``ngram n=COUNT``; for each order the line
``\n-grams:`` and its n-grams, one per line: a base-10 log-probability, the words and, if longer n-grams begin
with it, perhaps a base-10 back-off, separated by tabs or spaces; and the line ``\end\``.

`arpa_lines` reads lines in the usual form, with one space or tab between fields; Python reads, or refuses, the others
line by line. Every rule of the format is checked.

``<s>``, which is never predicted, has the log-probability -99 unless the model comes from a file with another one (0
in files of lmplz), and the back-off of the beginning of a sentence; ``</s>`` has a probability and no back-off. Both
are one type in a table. No sentence has an n-gram with ``<s>`` after its first word or ``</s>`` before its last: such
n-grams are left out, and a warning gives their number. ``<UNK>`` is ``<unk>`` in all orders unless a file has both, as
in KenLM.

Look-ups go from shorter to longer n-grams, so for every listed n-gram, the one without its last word and the one
without its first word must be listed too. A missing one, which a pruned model left out, is added with the probability
that backing off gives it and a back-off factor of one, so that no probability changes.
"""

from __future__ import annotations

import codecs
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from tacenda.corpus.lines import LONGEST_ROW, byte_chunks, text_file
from tacenda.corpus.marks import START
from tacenda.errors import CorpusError, DataError, warn
from tacenda.offsets import pack_words
from tacenda.progress import Progress, track
from tacenda.reading import whole_number
from tacenda.vocabulary import BOUNDARY, UNKNOWN, Vocabulary
from tacenda_lm.ngram.arpa_lines import read_lines
from tacenda_lm.ngram.packing import TableWriter
from tacenda_lm.ngram.rows import Int64, Packing, Rows, find_keys, sort_rows
from tacenda_lm.ngram.spooling import Scratch, default_budget
from tacenda_lm.ngram.table import MAX_ORDER, Sums, Table
from tacenda_lm.ngram.words import hash_table
from tacenda_lm.sequences import Float64

_BYTES_AT_ONCE = 1 << 22  # read from the file
_LINES_PER_BLOCK = 1 << 16
# read in Python from the first that is not in the usual form, before compiled code tries again
_ODD_LINES = 1 << 10
_UNKNOWN_LOG10 = -100.0  # log-probability of <unk> where it is missing, as in KenLM
_MIN_LOG10 = -1e37  # smaller numbers are read as -inf, as float32 cannot hold them
_MAX_BACKOFF_LOG10 = 1e38  # larger ones are refused, for the same reason
# without what only Python's ``float`` takes: underscores, digits of other scripts, spaces, NaN
_NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf(inity)?)", re.ASCII | re.IGNORECASE)
_CAPITAL_UNKNOWN = "<UNK>"  # how SRILM may write <unk>
_LN10 = math.log(10)
_Line: TypeAlias = tuple[list[Any], float, float]  # words or their ids, and two numbers, base 10


class ArpaModel(NamedTuple):
    """The model of a file."""

    vocabulary: Vocabulary  # the words in the order of the file, without counts
    table: Table
    is_normalized: bool  # whether all distributions sum to one
    notes: dict[str, Any]  # about what was added or left out, JSON values


def read_arpa(path: str | os.PathLike[str]) -> ArpaModel:
    """Read a file. If it has no ``<unk>``, one is added with a base-10 log-probability of -100.

    Warns of n-grams that are left out, and of distributions that do not sum to one. Raises DataError, which names the
    line, for a file that cannot be read or breaks the format.
    """
    try:
        return _Reader(text_file(path)).read()
    except CorpusError as error:
        raise DataError(str(error)) from error


class _Reader:
    """A reader of one file, which counts lines for error messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0  # of the line read last
        self._chunks = byte_chunks(path)
        # the bytes read from the file, the place of the next line among them, and whether the file has ended
        self._held, self._at, self._ended = b"", 0, False
        self.notes: dict[str, Any] = {}

    def read(self) -> ArpaModel:
        """Read the whole file."""
        counts = self._read_header()
        bar: Progress[object] = track(None, "reading n-grams", total=sum(counts), unit="n-gram")
        with closing(bar):
            words, values = self._read_unigrams(counts[0])
            bar.update(counts[0])
            if len(counts) == 1:
                values[:, 1] = 0.0
            if UNKNOWN not in words:
                added = f"the file has no {UNKNOWN}: added with log10 p = {_UNKNOWN_LOG10:g}"
                self.notes["unknown"] = added
                words.append(UNKNOWN)
                values = np.append(values, [[_UNKNOWN_LOG10, 0.0]], axis=0)
            names = _Names(words)
            orders = [names.rows(np.arange(len(words))[:, None], values)]
            for n, count in enumerate(counts[1:], 2):
                self._expect(rf"\{n}-grams:")
                orders.append(self._read_ngrams(n, count, names, bar))
            self._expect("\\end\\")
        try:
            table, sums, n_added = _build_table(orders, names.packing, words)
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from error
        if n_added:
            self.notes["n_grams_implied"] = n_added
        if "n_grams_left_out" in self.notes:
            warn(
                f"{self.path} has n-grams that no sentence can have, with {START} after the first word or {BOUNDARY} "
                f"before the last: {self.notes['n_grams_left_out']:,} are left out; sentences score as in KenLM"
            )
        if not sums.are_one:
            warn(
                f"{self.path} is not normalized: the probabilities after a context sum to {sums.low:.4g} at the lowest "
                f"and {sums.high:.4g} at the highest, so do not compare its perplexities with other models"
            )
        vocabulary = Vocabulary(words, np.zeros(len(words), np.int64))
        return ArpaModel(vocabulary, table, sums.are_one, self.notes)

    # -- lines -------------------------------------------------------------------------------------

    def _fill(self) -> bool:
        """Read more bytes; return False at the end of the file, and where the next line is too long."""
        parts = [self._held[self._at :]]
        if len(parts[0]) > LONGEST_ROW:
            return False
        size = 0
        while size < _BYTES_AT_ONCE and not self._ended:
            data = next(self._chunks)
            if not size and not self._held:
                data = data.removeprefix(codecs.BOM_UTF8)
            self._ended = not data
            parts.append(data)
            size += len(data)
        self._held, self._at = b"".join(parts), 0
        return size > 0

    def _read_line(self) -> str | None:
        """Return the next line without its end; None at the end of the file."""
        while (end := self._held.find(b"\n", self._at)) < 0 and self._fill():
            pass
        data = self._held[self._at : end if end >= 0 else len(self._held)]
        if end < 0 and not data:
            return None
        self.number += 1
        if len(data) > LONGEST_ROW:
            self._fail(
                f"the line has more than {LONGEST_ROW:,} characters; check that this is an ARPA file"
            )
        self._at += len(data) + 1
        try:
            return data.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            self._fail(f"it is not UTF-8 ({error.reason} at byte {error.start} of the line)")

    def _read_text(self, wanted: str = "\\end\\: it is cut short") -> str:
        """Return the next line that is not empty; at the end of the file, fail and say that ``wanted`` is missing."""
        while (line := self._read_line()) is not None:
            if line.strip():
                return line.strip()
        self._fail(f"the file ends here, before {wanted}")

    def _expect(self, wanted: str) -> None:
        """Read a line, and fail unless it is ``wanted``."""
        line = self._read_text()
        if line != wanted:
            self._fail(f"expected {wanted}, found {line!r:.60}: the counts at the top are wrong")

    def _read_header(self) -> list[int]:
        r"""Read up to the line ``\1-grams:``; return the counts of all orders."""
        while (line := self._read_text("\\data\\: this is no ARPA file")) != "\\data\\":
            if line.startswith("\\"):
                self._fail(rf"expected \data\, found {line!r:.60}: this is no ARPA file")
        counts: list[int] = []
        while (line := self._read_text()) != r"\1-grams:":
            match = re.fullmatch(r"ngram\s+([0-9]+)\s*=\s*([0-9]+)", line)
            count = whole_number(match[2]) if match else None
            if match is None or count is None or whole_number(match[1]) != len(counts) + 1:
                self._fail(f"expected 'ngram {len(counts) + 1}=COUNT', found {line!r:.60}")
            counts.append(count)
        if not 1 <= len(counts) <= MAX_ORDER:
            self._fail(f"the counts are of {len(counts)} orders; 1 to {MAX_ORDER} can be read")
        return counts

    def _fail(self, what: str) -> NoReturn:
        raise DataError(f"{self.path}, line {self.number}: {what}")

    # -- n-grams -----------------------------------------------------------------------------------

    def _read_unigrams(self, count: int) -> tuple[list[str], Float64]:
        """Read the words and their numbers; ``</s>``, which is one type with ``<s>``, gets the back-off of ``<s>``."""
        words: list[str] = []
        parts: list[Float64] = [np.empty((0, 2))]
        for block in self._read_order(1, count, _Names([BOUNDARY, UNKNOWN]), 2):
            if isinstance(block, list):
                words += [line[0][0] for line in block]
                parts.append(np.array([line[1:] for line in block]))
            else:
                words += self._decode(block[:, :2].tolist())
                parts.append(block[:, 2:].view(np.float64))
        values = np.concatenate(parts)
        values[values < _MIN_LOG10] = -np.inf
        if UNKNOWN not in words and _CAPITAL_UNKNOWN in words:
            words[words.index(_CAPITAL_UNKNOWN)] = UNKNOWN
        if len(set(words)) < len(words):
            twice = next(word for word, times in Counter(words).items() if times > 1)
            self._fail(f"the unigram {twice!r} is listed twice")
        if BOUNDARY not in words:
            self._fail(f"there is no unigram {BOUNDARY}: an end of sentence cannot be predicted")
        end = words.index(BOUNDARY)
        values[end, 1] = 0.0
        if START in words:
            start = words.index(START)
            values[end, 1] = values[start, 1]
            self.notes["start_log_prob"] = float(values[start, 0])
            words.pop(start)
            values = np.delete(values, start, axis=0)
        return words, values

    def _decode(self, places: list[list[int]]) -> list[str]:
        """Decode words, one a line, at places in the bytes that were read."""
        try:
            return [self._held[i:j].decode("utf-8") for i, j in places]
        except UnicodeDecodeError:
            # reading the lines again fails at the bad one, with its number
            for i, _ in places:
                self._at = self._held.rfind(b"\n", 0, i) + 1
                self._read_line()
            raise

    def _read_ngrams(self, n: int, count: int, names: _Names, bar: Progress[object]) -> Rows:
        """Read the n-grams of an order, as `_Names.rows` has them, except n-grams that no sentence can have."""
        n_keys = names.packing.columns(n)
        parts = [np.empty((0, n_keys + 2), np.uint64)]
        for block in self._read_order(n, count, names, n_keys):
            if isinstance(block, list):
                ids = np.array([line[0] for line in block], np.int64)
                parts.append(names.rows(ids, np.array([line[1:] for line in block])))
            else:
                parts.append(block)
            bar.update(len(block))
        rows = np.concatenate(parts)
        is_possible = rows[:, 0] != 0
        if not is_possible.all():
            left_out = self.notes.get("n_grams_left_out", 0) + np.count_nonzero(~is_possible)
            self.notes["n_grams_left_out"] = int(left_out)
            rows = rows[is_possible]
        values = _values(rows)
        values[values < _MIN_LOG10] = -np.inf
        return rows

    def _read_order(
        self, n: int, count: int, names: _Names, n_keys: int
    ) -> Iterator[Rows | list[_Line]]:
        """Yield the n-grams of an order in blocks: rows of lines in the usual form, or lists of other lines."""
        done = 0
        while done < count:
            rows = np.empty((min(count - done, _LINES_PER_BLOCK), n_keys + 2), np.uint64)
            text = np.frombuffer(self._held, np.uint8)
            read, after = read_lines(text, self._at, n, names.lookup, names.packing, rows)
            yield rows[:read].copy() if read < len(rows) else rows
            self._at = after
            self.number += read
            done += read
            if read == len(rows):
                continue
            # the next line is odd, or its end is not yet read
            if self._held.find(b"\n", self._at) >= 0 or not self._fill():
                odd = [
                    (words if n == 1 else self._find_ids(words, names), log_prob, backoff)
                    for words, log_prob, backoff in self._read_odd_lines(n, done, count)
                ]
                done += len(odd)
                yield odd

    def _read_odd_lines(self, n: int, done: int, count: int) -> Iterator[_Line]:
        """Read up to `_ODD_LINES` lines in any form that the format allows: words, and two numbers, base 10.

        ``done`` of the ``count`` n-grams of the order were read before.
        """
        for i in range(done, min(count, done + _ODD_LINES)):
            line = self._read_line()
            if line is None:
                self.number += 1
                self._fail(f"the file ends after {i} {n}-grams of {count}: it is cut short")
            line = line.rstrip(" \t\r").replace("\t", " ")
            if not line or (line[0] == "\\" and " " not in line):
                self._fail(f"order {n} ends after {i} n-grams of {count}")
            fields = line.split(" ")
            if len(fields) not in (n + 1, n + 2) or not fields[1]:
                self._fail(f"a {n}-gram is a number, {n} words, perhaps a number, not {line!r:.60}")
            log_prob = self._parse_number(fields[0])
            backoff = self._parse_number(fields[n + 1]) if len(fields) == n + 2 else 0.0
            if log_prob > 0:
                self._fail(
                    f"the log-probability {fields[0]:.40} is above zero, so the probability above one"
                )
            if backoff > _MAX_BACKOFF_LOG10:
                self._fail(f"the back-off {fields[n + 1]:.40} is not finite in float32")
            yield fields[1 : n + 1], log_prob, backoff

    def _parse_number(self, text: str) -> float:
        if not _NUMBER.fullmatch(text):
            self._fail(f"{text!r:.40} is not a number")
        return float(text)

    def _find_ids(self, words: list[str], names: _Names) -> list[int]:
        """Return the ids of an n-gram's words; all are -1, whose key is zero, if no sentence can have the n-gram."""
        try:
            ids = [names.ids[word] for word in words]
        except KeyError as error:
            self._fail(f"the word {error.args[0]!r} is no unigram")
        return [-1] * len(ids) if START in words[1:] or BOUNDARY in words[:-1] else ids


class _Names:
    """An index of the words of a file and ``<s>``, which has the id of ``</s>``."""

    def __init__(self, words: list[str]) -> None:
        self.packing = Packing.of(len(words))
        self.ids = {word: i for i, word in enumerate([*words, START])}
        self.ids.setdefault(_CAPITAL_UNKNOWN, self.ids[UNKNOWN])
        # for compiled code: spellings, hash table of their numbers, the id of each, and the numbers of <s> and </s>
        marks = self.ids[START], self.ids[BOUNDARY]
        self.ids[START] = self.ids[BOUNDARY]
        table = hash_table(*pack_words(list(self.ids)))
        self.lookup = (*table, np.array(list(self.ids.values())), *marks)

    def rows(self, words: Int64, values: Float64) -> Rows:
        """Return n-grams (n-grams, n) as rows: the key, the first word first, and ``values`` (n-grams, 2)."""
        return np.hstack([self.packing.keys(words), values.view(np.uint64)])


def _build_table(orders: list[Rows], packing: Packing, words: list[str]) -> tuple[Table, Sums, int]:
    """Return the table, what its probabilities sum to, and how many n-grams were added.

    ``orders`` holds the n-grams of each order as rows in any order, the unigrams by id: the key, the first word first,
    log-probability and back-off, float64, base 10. Raises DataError where one is listed twice, and where back-offs give
    a word a probability above one.
    """
    for n, rows in enumerate(orders[1:], 2):
        n_keys = packing.columns(n)
        sort_rows(rows, n_keys)
        same = np.flatnonzero((rows[1:, :n_keys] == rows[:-1, :n_keys]).all(axis=1))
        if len(same):
            *context, last = packing.words(rows[same[0] : same[0] + 1], n)[0].tolist()
            twice = f"{_spell_context(context, words)} {words[last]}"
            raise DataError(f"the {n}-gram {twice!r} is listed twice: keep one of the lines")
    n_added, prefixes = 0, _find_prefixes(orders, packing)
    is_complete = all((places >= 0).all() for places in prefixes)
    if is_complete:
        table = _pack_table(orders, prefixes, packing)
        sums = table.sums()
        is_complete = sums.without_suffix is None
    if not is_complete:
        n_added = _add_missing(orders, packing)
        table = _pack_table(orders, _find_prefixes(orders, packing), packing)
        sums = table.sums()
    if sums.above_one is not None:
        context, word = sums.above_one
        raise DataError(
            f"back-offs give {words[word]!r} after {_spell_context(context, words)!r} a probability above one; correct "
            "the file"
        )
    return table, sums, n_added


def _spell_context(ids: list[int], words: list[str]) -> str:
    """Return the words of a context, in which the id of ``</s>`` means ``<s>``."""
    return " ".join(START if words[i] == BOUNDARY else words[i] for i in ids)


def _find_prefixes(orders: list[Rows], packing: Packing) -> list[Int64]:
    """Return the place of every n-gram without its last word in the order below, -1 where that is not listed."""
    return [packing.find_parents(orders[n], n + 1, orders[n - 1]) for n in range(1, len(orders))]


def _pack_table(orders: list[Rows], prefixes: list[Int64], packing: Packing) -> Table:
    """Return the table of sorted n-grams, none of them missing."""
    writer = TableWriter(len(orders), len(orders[0]), Scratch(default_budget()))
    for n, rows in enumerate(orders, 1):
        log_probs, _ = _values(rows)
        writer.add_ngrams(n, packing.last(rows, n), log_probs * _LN10)
        if n > 1:
            n_after = np.bincount(prefixes[n - 2], minlength=len(orders[n - 2]))
            writer.add_contexts(n - 1, n_after, _values(orders[n - 2])[1] * _LN10)
            writer.end_order(n - 1)
    writer.end_order(len(orders))
    return writer.finish()


def _values(rows: Rows) -> Float64:
    """Return views of the log-probabilities and the back-offs of rows, base 10: (2, n-grams)."""
    return rows[:, -2:].view(np.float64).T


def _add_missing(orders: list[Rows], packing: Packing) -> int:
    """Add missing prefixes and suffixes of n-grams to ``orders`` in place; return how many."""
    n_added = 0
    for n in range(len(orders), 2, -1):
        words = packing.words(orders[n - 1], n)
        for part in (words[:, :-1], words[:, 1:]):
            wanted = np.unique(packing.keys(part), axis=0)
            missing = wanted[_find_places(wanted, orders[n - 2]) < 0]
            rows = np.hstack([missing, np.zeros((len(missing), 2), np.uint64)])
            _values(rows)[0] = np.nan  # computed below, when all lower orders are complete
            orders[n - 2] = np.concatenate([orders[n - 2], rows])
            sort_rows(orders[n - 2], missing.shape[1])
            n_added += len(missing)
    for n in range(2, len(orders)):
        log_probs, _ = _values(orders[n - 1])
        added = np.flatnonzero(np.isnan(log_probs))
        if len(added):
            below, backoffs = _values(orders[n - 2])
            suffix = packing.keys(packing.words(orders[n - 1][added], n)[:, 1:])
            prefix = packing.find_parents(orders[n - 1], n, orders[n - 2])[added]
            log_probs[added] = backoffs[prefix] + below[_find_places(suffix, orders[n - 2])]
    return n_added


def _find_places(keys: Rows, rows: Rows) -> Int64:
    """Return the place of every key (keys, columns) in sorted rows, -1 where it is missing."""
    order = np.lexsort(keys.T[::-1])
    places_in_order, places = np.empty((2, len(keys)), np.int64)
    find_keys(keys[order], 0, np.uint64(2**64 - 1), rows, keys.shape[1], places_in_order)
    places[order] = places_in_order
    return places
