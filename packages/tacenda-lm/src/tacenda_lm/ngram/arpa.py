r"""ARPA files, the form of a back-off model that KenLM, SRILM and most decoders read; imports numba.

A file has the line ``\data\``; for each order n a line ``ngram n=COUNT``; for each order the line
``\n-grams:`` and its n-grams, one per line: a base-10 log-probability, the words and, if longer n-grams begin
with it, perhaps a base-10 back-off, separated by tabs or spaces; and the line ``\end\``.

Lines in the usual form, with one space or tab between fields, are read by compiled code; what it leaves is read, or
refused, line by line in Python. Every rule of the format is checked. Lines are written likewise.

``<s>``, which is never predicted, has the log-probability -99 unless the model comes from a file that says otherwise (0
in files of lmplz), and the back-off of the beginning of a sentence; ``</s>`` has a probability and no back-off. Both
are one type in a table. No sentence has an n-gram with ``<s>`` after its first word or ``</s>`` before its last: it
is left out, and a warning says how many were. ``<UNK>`` is ``<unk>`` in all orders unless a file has both, as
in KenLM.

A look-up goes from shorter to longer n-grams, so of every n-gram that is listed the one without its last word and the
one without its first word must be listed too. A missing one, which a pruned model left out, is added with the
probability that backing off gives it, and with a back-off factor of one, so that no probability changes.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import codecs
import gzip
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias

import numpy as np

from tacenda import store
from tacenda.corpus.lines import LONGEST_ROW, START, byte_chunks, text_file, whole_number
from tacenda.errors import ArtifactError, CorpusError, DataError
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import LANES, copy_bytes
from tacenda.progress import Progress, track
from tacenda.vocabulary import BOUNDARY, UNKNOWN, Vocabulary, pack_words
from tacenda_lm.ngram.columns import SIZE
from tacenda_lm.ngram.counting import (
    Int64,
    Packing,
    Rows,
    Scratch,
    default_budget,
    find_keys,
    sort_rows,
)
from tacenda_lm.ngram.lookup import backoff, find_contexts, log_prob, next_contexts, word_of
from tacenda_lm.ngram.packing import TableWriter
from tacenda_lm.ngram.table import MAX_ORDER, Sums, Table
from tacenda_lm.ngram.words import START_HASH, extend_hash, hash_table, slot_of
from tacenda_lm.sequences import Float64

_BYTES = 1 << 22  # held at a time
_WRITTEN = 1 << 18  # bytes of lines at a time
_LINES = 1 << 16  # of a block
_SLOW = 1 << 10  # lines read in Python from one that is not in the usual form
_MISSING = -100.0  # log10 p of a missing <unk>, as in KenLM
_LEAST = -1e37  # log10 of less than float32 holds, read as -inf
_CAPITALS = "<UNK>"  # how SRILM may write <unk>
_LN10 = math.log(10)
_LOG10 = np.float32(1 / _LN10)
_NUMBERS = 48  # bytes that two numbers, their tabs and what is copied beyond a word take at most
_DIGITS = 8  # of a number that is written
_PAIRS = np.array([[48 + i // 10, 48 + i % 10] for i in range(100)], np.uint8)  # two digits
_Line: TypeAlias = tuple[list[Any], float, float]  # words or their ids, and two numbers, base 10
_OTHER_PACKINGS = {".bz2", ".lzma", ".xz", ".zip", ".zst"}


# -- writing -------------------------------------------------------------------------------------------


def write_arpa(
    path: str | os.PathLike[str] | IO[bytes],
    vocabulary: Vocabulary,
    table: Table,
    start_log_prob: float,
) -> None:
    """Write a table, gzipped if the path ends in .gz; the file appears only when it is complete.

    ``path`` may be a file that is open for bytes. ``start_log_prob`` is what ``<s>`` is given, in base 10. Raises
    DataError for a word that the format cannot hold, a name that promises another packing, or a path that cannot be
    written.
    """
    for word in vocabulary.words:
        if word == START or not word or any(space in word for space in " \t\n\r"):
            raise DataError(
                f"the word {word!r:.80} cannot be written to an ARPA file, where spaces separate words and "
                f"{START} marks the beginning of a sentence: rename it in the text"
            )
    if not isinstance(path, str | os.PathLike) and hasattr(path, "write"):
        _write(path, vocabulary, table, start_log_prob)
        return
    path = store.path_of(path, DataError)
    if path.suffix in _OTHER_PACKINGS:
        raise DataError(
            f"{path} has the ending of another compression: ARPA files are written plain, or gzipped if they end in .gz"
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


def _write(
    file: IO[bytes] | gzip.GzipFile, vocabulary: Vocabulary, table: Table, start_log_prob: float
) -> None:
    """Write the counts, then the n-grams of each order."""
    sizes = table.sizes
    sizes[0] += 1  # <s> and </s> are one type in the table
    counts = "".join(f"ngram {n}={size}\n" for n, size in enumerate(sizes, 1))
    file.write(f"\\data\\\n{counts}".encode())
    text, cuts = pack_words([*vocabulary.words, START])
    spelled = np.append(text, np.zeros(LANES, np.uint8)), cuts
    bar: Progress[object] = track(None, "writing n-grams", total=sum(sizes), unit="n-gram")
    with closing(bar):
        for n in range(1, table.order + 1):
            file.write(f"\n\\{n}-grams:\n".encode())
            for n_lines, lines in _lines(spelled, vocabulary.boundary_id, table, n, start_log_prob):
                file.write(lines)
                bar.update(n_lines)
    file.write(b"\n\\end\\\n")


def _lines(
    spelled: tuple[Any, Int64], boundary: int, table: Table, n: int, start_log_prob: float
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of one order, many at a time, and how many they are; ``spelled`` are the words and ``<s>``."""
    out = np.empty(_WRITTEN, np.uint8)
    done = 0
    while done < table.sizes[n - 1]:
        end, size = _write_lines(*table.arguments, n, done, *spelled, boundary, out)
        if end == done:  # a line that compiled code leaves
            end, lines = done + 1, _line(spelled, boundary, table, n, done, start_log_prob)
        else:
            lines = out[:size].tobytes()
        yield end - done, lines
        done = end


def _line(
    spelled: tuple[Any, Int64],
    boundary: int,
    table: Table,
    n: int,
    place: int,
    start_log_prob: float,
) -> bytes:
    """Return the line of one n-gram; of the type that is ``<s>`` and ``</s>``, both lines."""
    text, cuts = spelled
    ids, found = table.words_of(n, place, place + 1)[0], table.unpack(n, place, place + 1)
    ids[:-1][ids[:-1] == boundary] = table.n_types
    words = b" ".join(text[cuts[w] : cuts[w + 1]].tobytes() for w in ids)
    value, *backoff = (np.append(found.log_prob, found.backoff) * _LOG10).tolist()
    lines = [(value, words, *backoff)]
    if n == 1 and place == boundary:  # <s> has the back-off, and </s> the probability
        lines = [(start_log_prob, START.encode(), *backoff), (value, words)]
    return b"".join(
        b"\t".join([b"%.8g" % p, w, *(b"%.8g" % b for b in more)]) + b"\n" for p, w, *more in lines
    )


# -- reading -------------------------------------------------------------------------------------------


def read_arpa(path: str | os.PathLike[str]) -> tuple[Vocabulary, Table, Sums, dict[str, Any]]:
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
        with closing(bar):
            words, values = self._unigrams(counts[0])
            bar.update(counts[0])
            if len(counts) == 1:
                values[:, 1] = 0.0
            if UNKNOWN not in words:
                added = f"the file has no {UNKNOWN}: added with log10 p = {_MISSING:g}"
                self.notes["unknown"] = added
                words.append(UNKNOWN)
                values = np.append(values, [[_MISSING, 0.0]], axis=0)
            names = _Names(words)
            orders = [names.rows(np.arange(len(words))[:, None], values)]
            for n, count in enumerate(counts[1:], 2):
                self._marker(rf"\{n}-grams:")
                orders.append(self._ngrams(n, count, names, bar))
            self._marker("\\end\\")
        try:
            table, sums, n_added = _build_table(orders, names.packing, words)
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from error
        if n_added:
            self.notes["n_grams_implied"] = n_added
        return Vocabulary(words, np.zeros(len(words), np.int64)), table, sums, self.notes

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

    def _is_cut(self) -> bool:
        """Whether the next line was cut only because too little was held; then more is held now."""
        return self._held.find(b"\n", self._at) < 0 and self._fill()

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

    def _fail(self, what: str) -> NoReturn:
        raise DataError(f"{self.path}, line {self.number}: {what}")

    # -- n-grams -----------------------------------------------------------------------------------

    def _unigrams(self, count: int) -> tuple[list[str], Float64]:
        """Read the words and their numbers; ``<s>`` gives its back-off to ``</s>``, which is one type with it."""
        words: list[str] = []
        parts: list[Float64] = []
        for found in self._order(1, count, _Names([BOUNDARY, UNKNOWN]), 2):
            if isinstance(found, list):
                words += [line[0][0] for line in found]
                parts.append(np.array([line[1:] for line in found]))
            else:
                words += self._decode(found[:, :2].tolist())
                parts.append(found[:, 2:].view(np.float64))
        values = _as_float32(np.concatenate(parts))
        if UNKNOWN not in words and _CAPITALS in words:
            words[words.index(_CAPITALS)] = UNKNOWN
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
        """Return the words at some places of what is held, one a line."""
        try:
            return [self._held[i:j].decode("utf-8") for i, j in places]
        except UnicodeDecodeError:  # find the line
            for i, _ in places:
                self._at = self._held.rfind(b"\n", 0, i) + 1
                self._line()
            raise

    def _ngrams(self, n: int, count: int, names: _Names, bar: Progress[object]) -> Rows:
        """Read the n-grams of an order, as `_Names.rows` has them, except n-grams that no sentence can have."""
        n_keys = names.packing.columns(n)
        parts = [np.empty((0, n_keys + 2), np.uint64)]
        for found in self._order(n, count, names, n_keys):
            if isinstance(found, list):
                ids = np.array([line[0] for line in found], np.int64)
                parts.append(names.rows(ids, np.array([line[1:] for line in found])))
            else:
                parts.append(found)
            bar.update(len(found))
        rows = np.concatenate(parts)
        kept = rows[:, 0] != 0
        if not kept.all():
            left_out = self.notes.get("n_grams_left_out", 0) + np.count_nonzero(~kept)
            self.notes["n_grams_left_out"] = int(left_out)
            rows = rows[kept]
        _as_float32(rows[:, -2:].view(np.float64))
        return rows

    def _order(
        self, n: int, count: int, names: _Names, n_keys: int
    ) -> Iterator[Rows | list[_Line]]:
        """Yield the n-grams of an order: rows of lines in the usual form, and lists of lines in any other."""
        done = 0
        while done < count:
            rows = np.empty((min(count - done, _LINES), n_keys + 2), np.uint64)
            text = np.frombuffer(self._held, np.uint8)
            read, after = _read_lines(text, self._at, n, names.lookup, names.packing, rows)
            yield rows[:read].copy() if read < len(rows) else rows
            self._at = after
            self.number += read
            done += read
            if read < len(rows) and not self._is_cut():
                odd = [
                    (words if n == 1 else self._ids(words, names), log_prob, backoff)
                    for words, log_prob, backoff in self._read_odd_lines(n, done, count)
                ]
                done += len(odd)
                yield odd

    def _read_odd_lines(self, n: int, done: int, count: int) -> Iterator[_Line]:
        """Read some lines in any form that the format allows: the words of each, and its two numbers, base 10.

        ``done`` of the ``count`` n-grams of the order were read before.
        """
        for i in range(done, min(count, done + _SLOW)):
            line = self._line()
            if line is None:
                self.number += 1
                self._fail(f"the file ends after {i} {n}-grams of {count}: it is cut short")
            line = line.rstrip(" \t\r").replace("\t", " ")
            if not line or (line[0] == "\\" and " " not in line):
                self._fail(f"order {n} ends after {i} n-grams of {count}")
            fields = line.split(" ")
            if len(fields) not in (n + 1, n + 2) or not fields[1]:
                self._fail(f"a {n}-gram is a number, {n} words, perhaps a number, not {line!r:.60}")
            log_prob = self._float(fields[0])
            backoff = self._float(fields[n + 1]) if len(fields) == n + 2 else 0.0
            if log_prob > 0:
                what = f"the log-probability {fields[0]:.40} is above zero"
                self._fail(f"{what}, so the probability above one")
            if backoff == math.inf:
                self._fail(f"the back-off {fields[n + 1]:.40} is not finite")
            yield fields[1 : n + 1], log_prob, backoff

    def _float(self, text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if math.isnan(found):
            self._fail(f"{text!r:.40} is not a number")
        return found

    def _ids(self, words: list[str], names: _Names) -> list[int]:
        """The ids of the words of an n-gram, one for both marks; all -1, whose key is zero, if it is of no sentence."""
        try:
            ids = [names.ids[word] for word in words]
        except KeyError as error:
            self._fail(f"the word {error.args[0]!r} is no unigram")
        return [-1] * len(ids) if START in words[1:] or BOUNDARY in words[:-1] else ids


class _Names:
    """The words of a file and ``<s>``, by which the lines of longer n-grams name them."""

    def __init__(self, words: list[str]) -> None:
        self.packing = Packing.of(len(words))
        self.ids = {word: i for i, word in enumerate([*words, START])}
        self.ids.setdefault(_CAPITALS, self.ids[UNKNOWN])
        # for compiled code: spellings and hash table, the id of each, and the numbers of both marks
        marks = self.ids[START], self.ids[BOUNDARY]
        self.ids[START] = self.ids[BOUNDARY]
        table = hash_table(*pack_words(list(self.ids)))
        self.lookup = (*table, np.array(list(self.ids.values())), *marks)

    def rows(self, words: Int64, values: Float64) -> Rows:
        """Return n-grams as rows: the key, the first word first, and both numbers as float64."""
        return np.hstack([self.packing.keys(words), values.view(np.uint64)])


def _as_float32(values: Float64) -> Float64:
    """Return the values; those that float32 cannot hold are -inf from now on."""
    values[values < _LEAST] = -np.inf
    return values


def _build_table(orders: list[Rows], packing: Packing, words: list[str]) -> tuple[Table, Sums, int]:
    """Return the table, what its probabilities sum to, and how many n-grams were added.

    ``orders`` holds the n-grams of each order as rows in any order, the unigrams by id: the key, the first word first,
    log-probability and back-off, float64, base 10. Raises DataError where one is listed twice.
    """
    for n, rows in enumerate(orders[1:], 2):
        n_keys = packing.columns(n)
        sort_rows(rows, n_keys)
        same = np.flatnonzero((rows[1:, :n_keys] == rows[:-1, :n_keys]).all(axis=1))
        if len(same):
            twice = " ".join(words[w] for w in packing.words(rows[same[:1]], n)[0])
            raise DataError(f"the {n}-gram {twice!r} is listed twice: one probability for each")
    prefixes = _prefixes(orders, packing)
    if all((places >= 0).all() for places in prefixes):
        table = _pack_table(orders, prefixes, packing)
        try:
            return table, table.sums(), 0
        except ArtifactError:  # an n-gram is listed without its last words
            pass
    n_added = _complete(orders, packing)
    prefixes = _prefixes(orders, packing)
    table = _pack_table(orders, prefixes, packing)
    return table, table.sums(), n_added


def _prefixes(orders: list[Rows], packing: Packing) -> list[Int64]:
    """Return the place of every n-gram without its last word in the order below, -1 where it is not listed."""
    return [packing.find_parents(orders[n], n + 1, orders[n - 1]) for n in range(1, len(orders))]


def _pack_table(orders: list[Rows], prefixes: list[Int64], packing: Packing) -> Table:
    """Return the table of sorted n-grams; none may be missing."""
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
    """Log-probabilities and back-offs of rows, base 10: views (2, n-grams)."""
    return rows[:, -2:].view(np.float64).T


def _complete(orders: list[Rows], packing: Packing) -> int:
    """Add the n-grams that are missing, in place; return how many."""
    n_added = 0
    for n in range(len(orders), 2, -1):
        words = packing.words(orders[n - 1], n)
        for part in (words[:, :-1], words[:, 1:]):
            wanted = np.unique(packing.keys(part), axis=0)
            missing = wanted[_find_places(wanted, orders[n - 2]) < 0]
            rows = np.hstack([missing, np.zeros((len(missing), 2), np.uint64)])
            _values(rows)[0] = np.nan  # known when all lower orders are complete
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
    """The place of every key (keys, columns) in sorted rows, -1 where it is not there."""
    by_key = np.lexsort(keys.T[::-1])
    found = np.empty(len(keys), np.int64)
    find_keys(keys[by_key], 0, np.uint64(2**64 - 1), rows, keys.shape[1], found)
    places = np.empty(len(keys), np.int64)
    places[by_key] = found
    return places


# -- compiled reading of the usual form ----------------------------------------------------------------


_TENS = 10.0 ** np.arange(23)  # each is exact
_EXACT = 1 << 53


@njit
def _number(text, i, end):
    """Read a decimal number that begins at byte i; return it, and the byte after it or -1.

    Numbers with at most 53 bits of digits and a power of ten up to 22 are rounded once, and so are what ``float`` gives
    (Clinger 1990). Others are not read.
    """
    negative = i < end and text[i] == 45
    i += negative
    digits, scale, n = np.int64(0), 0, 0
    while i < end and 48 <= text[i] <= 57:
        digits = digits * 10 + (text[i] - 48)
        n += 1
        i += 1
    if i < end and text[i] == 46:
        i += 1
        while i < end and 48 <= text[i] <= 57:
            digits = digits * 10 + (text[i] - 48)
            scale -= 1
            n += 1
            i += 1
    if n == 0 or n > 18:
        return 0.0, -1
    if i < end and (text[i] | 32) == 101:
        i += 1
        below = i < end and text[i] == 45
        i += i < end and text[i] in (43, 45)
        power, n = 0, 0
        while i < end and 48 <= text[i] <= 57 and n < 4:
            power = power * 10 + (text[i] - 48)
            n += 1
            i += 1
        if n == 0 or n == 4:
            return 0.0, -1
        scale += -power if below else power
    if digits > _EXACT or scale < -22 or scale > 22:
        return 0.0, -1
    # one operation on two exact numbers rounds once
    found = digits / _TENS[-scale] if scale < 0 else digits * _TENS[scale]
    return -found if negative else found, i


@njit
def _read_rest(text, i, end):
    """Read what follows the words of a line: its back-off, 0 if there is none, and its end.

    Return the back-off, and where the next line begins or -1.
    """
    backoff = 0.0
    if i < end and text[i] in (32, 9):
        backoff, i = _number(text, i + 1, end)
        if i < 0:
            return backoff, i
    if i < end and text[i] == 13:
        i += 1
    return backoff, i + 1 if i < end and text[i] == 10 else -1


@njit
def _read_lines(text, at, n, names, packing, rows):
    """Read lines of n-grams from byte ``at`` on into rows; return how many were read, and where it stopped.

    It stops at a line that is not in the usual form, or that does not end in ``text``. ``names`` are the vocabulary
    with ``<s>``, as `_Names` has it. ``rows`` (lines, columns) takes the key, the first word first, and then
    log-probability and back-off, base 10, as float64. The words of unigrams are not known yet: instead of a key it
    takes where each begins and ends in ``text``. N-grams of no sentence have a key of zero.
    """
    words, cuts, slots, ids, start, boundary = names
    n_keys, end, values = rows.shape[1] - 2, len(text), rows.view(np.float64)
    for line in range(len(rows)):
        value, i = _number(text, at, end)
        if i < 0 or value > 0:
            return line, at
        rows[line, :n_keys] = np.uint64(0)
        is_cut = False
        for k in range(n):
            if i >= end or text[i] not in (32, 9):
                return line, at
            begin = i + 1
            i = begin
            code = START_HASH
            while i < end and text[i] not in (32, 9, 10, 13):
                code = extend_hash(code, text[i])
                i += 1
            if n == 1:
                if i == begin:
                    return line, at
                rows[line, 0], rows[line, 1] = begin, i
                break
            w = np.int64(slots[slot_of(code, text, begin, i, words, cuts, slots)])
            if w < 0:
                return line, at
            is_cut |= (w == start and k > 0) or (w == boundary and k < n - 1)
            shift = np.uint64(64 - packing.bits * (k % packing.per_column + 1))
            rows[line, k // packing.per_column] |= np.uint64(ids[w] + 1) << shift
        if is_cut:
            rows[line, :n_keys] = np.uint64(0)
        backoff, i = _read_rest(text, i, end)
        if i < 0:
            return line, at
        values[line, n_keys], values[line, n_keys + 1] = value, backoff
        at = i
    return len(rows), at


# -- compiled writing ----------------------------------------------------------------------------------


@njit
def _write_number(value, out, at):
    """Write a number as ``"%.8g" % value`` from place ``at`` of ``out`` on; return where it ends, or -1.

    -1 is for numbers that would have an exponent, and for those half-way between two of 8 digits.
    """
    if math.copysign(1.0, value) < 0:
        out[at] = 45
        at += 1
    value = abs(value)
    if value == 0:
        out[at] = 48
        return at + 1
    if not 1e-4 <= value < 1e7:
        return -1
    point = 0  # digits before the point, or minus the zeros behind it
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
    for i in range(2 - point if point <= 0 else 1):
        out[at + i] = 48
    first = at + (2 - point if point <= 0 else 1)
    left = np.uint32(digits)
    for i in range(_DIGITS - 2, -1, -2):
        pair = left % np.uint32(100)
        left //= np.uint32(100)
        out[first + i], out[first + i + 1] = _PAIRS[pair, 0], _PAIRS[pair, 1]
    for i in range(point):
        out[at + i] = out[first + i]
    out[at + max(point, 1)] = 46
    end = first + _DIGITS
    while out[end - 1] == 48:
        end -= 1
    return end - (out[end - 1] == 46)


@njit
def _copy(text, begin, end, out, at):
    """Copy bytes to place ``at``, and some that follow them; return where the copy ends."""
    for i in range(0, end - begin, LANES):
        copy_bytes(text, begin + i, out, at + i)
    return at + end - begin


@njit
def _write_lines(data, shape, n, begin, text, cuts, boundary, out):
    """Write lines of n-grams from place ``begin`` on into ``out``; return where it stopped, and how many bytes it took.

    It stops at a line for which there is no room, that of the type of both marks, and one with a number that is left.
    """
    start, at, before, place = len(cuts) - 2, 0, 0, begin
    contexts, ends = np.empty((2, n - 1), np.int64)
    begun = np.zeros(n, np.int64)  # where each word of the line before is, counted from the first
    find_contexts(data, shape, begin, contexts, ends)
    while place < shape[n - 1, SIZE]:
        size = at
        first = next_contexts(data, shape, place, contexts, ends) if place > begin else 0
        if size + begun[first] + _NUMBERS > len(out):
            return place, size
        at = _write_number(np.float64(log_prob(data, shape, n - 1, place) * _LOG10), out, size)
        if at < 0:
            return place, size
        before, at = at, _copy(out, before, before + begun[first], out, at)
        for k in range(first, n):
            w = word_of(data, shape, k, contexts[k] if k < n - 1 else place)
            if k < n - 1 and w == boundary:
                w = start
            if (
                (n == 1 and w == boundary)
                or w > start
                or at + cuts[w + 1] - cuts[w] + _NUMBERS > len(out)
            ):
                return place, size
            begun[k] = at - before
            out[at] = 32 if k else 9
            at = _copy(text, cuts[w], cuts[w + 1], out, at + 1)
        if n < len(shape):
            out[at] = 9
            at = _write_number(np.float64(backoff(data, shape, n - 1, place) * _LOG10), out, at + 1)
            if at < 0:
                return place, size
        out[at] = 10
        at += 1
        place += 1
    return place, at
