"""`WordTable`: a vocabulary in which compiled code looks up the words of strings; imports numba.

A text is UTF-8, uint8 (bytes,). Compiled code is given a plain tuple, `Words`, which Python passes much faster than a
named one: the bytes of all words, uint8 (bytes,), and the places where each begins, int64 (words + 1,), as
``pack_words`` returns them; a hash table of their numbers, int32, -1 where it is empty; the ids of ``</s>``
and ``<unk>``; and whether text is split only at ASCII whitespace.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.corpus.lines import refuse_file_name
from tacenda.errors import ArtifactError
from tacenda.forks import cached_property
from tacenda.kernels.machinery.compiled import njit
from tacenda.vocabulary import BOUNDARY, UNKNOWN, Vocabulary
from tacenda_lm.ngram import EXACT_PROB, MAX_CODED_LOG_PROB, MAX_LOG_PROB, PROB
from tacenda_lm.ngram.lookup import sequence_scores
from tacenda_lm.sequences import Ids, Offsets

Arrays: TypeAlias = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int32]]
Words: TypeAlias = tuple[
    npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int32], int, int, bool
]
_PRIME = np.uint64(0x100000001B3)
START_HASH = np.uint64(0xCBF29CE484222325)


class WordTable:
    """A vocabulary for compiled code, whose words are looked up as spelled; its hash table is made on first use.

    ``is_ascii`` says whether text is split only at ASCII whitespace.
    """

    def __init__(self, vocabulary: Vocabulary, is_ascii: bool = False) -> None:
        self.vocabulary, self.is_ascii = vocabulary, is_ascii

    @cached_property
    def words(self) -> Words:
        """The first argument of the functions of this module. Raises ArtifactError if a special type is missing."""
        arrays = hash_table(*self.vocabulary.packed())
        ids = []
        for word in (BOUNDARY, UNKNOWN):  # found without unpacking the words
            text = np.frombuffer(word.encode(), np.uint8)
            ids.append(int(arrays[2][_find(text, 0, len(text), *arrays)]))
            if ids[-1] < 0:
                raise ArtifactError(f"the vocabulary of the model has no {word}: it is damaged")
        return (*arrays, ids[0], ids[1], self.is_ascii)

    def encode(self, lines: object, eos: bool) -> tuple[Ids, Offsets] | None:
        """Return ids (tokens,) and offsets (lines + 1,) of a list of strings; with ``eos``, each ends in ``</s>``.

        Return None for anything else, if a line contains a line feed, ``<s>`` or ``</s>``, and if the first begins with
        a byte-order mark. Raises CorpusError if it is the name of a file.
        """
        if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
            return None
        joined = "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")
        if not lines or joined.count(b"\n") != len(lines) or lines[0].startswith("\ufeff"):
            return None
        refuse_file_name(lines[0])
        text = np.frombuffer(joined, np.uint8)
        ids = np.empty(len(text) // 2 + 2 * len(lines), np.int32)
        offsets = np.empty(len(lines) + 1, np.int64)
        done = _encode_lines(self.words, text, eos, ids, offsets)
        return (ids[: offsets[-1]], offsets) if done else None

    def __reduce__(self) -> tuple[Any, ...]:
        return WordTable, (self.vocabulary, self.is_ascii)


def hash_table(text: npt.NDArray[np.uint8], cuts: npt.NDArray[np.int64]) -> Arrays:
    """Return words packed by ``pack_words``, and a hash table of their numbers."""
    # one type of arrays for compiled code, whether they come from a saved model or were packed now
    text, cuts = text.view(), np.array(cuts)
    text.flags.writeable = False
    slots = np.full(1 << max(2 * (len(cuts) - 1), 1).bit_length(), -1, np.int32)
    _fill(text, cuts, slots)
    return text, cuts, slots


@njit
def _fill(words, cuts, slots):
    for i in range(len(cuts) - 1):
        slots[_find(words, cuts[i], cuts[i + 1], words, cuts, slots)] = i


@njit
def _find(text, begin, end, words, cuts, slots):
    """Return the slot of the word text[begin:end]: the one with its number, or the empty one where it would be."""
    code = START_HASH
    for i in range(begin, end):
        code = extend_hash(code, text[i])
    return slot_of(code, text, begin, end, words, cuts, slots)


@njit(inline=True)
def extend_hash(code, byte):
    """Return the hash of a word with one more byte; that of no bytes is `START_HASH` (FNV-1a)."""
    return (code ^ np.uint64(byte)) * _PRIME


@njit(inline=True)
def slot_of(code, text, begin, end, words, cuts, slots):
    """Return the slot of a word, as `_find` does, given its hash ``code``."""
    mask = np.uint64(len(slots) - 1)
    at = (code ^ code >> np.uint64(29)) & mask
    while slots[at] >= 0:
        first = cuts[slots[at]]
        if cuts[slots[at] + 1] - first == end - begin:
            i = 0
            while i < end - begin and words[first + i] == text[begin + i]:
                i += 1
            if i == end - begin:
                break
        at = (at + np.uint64(1)) & mask
    return at


@njit
def _space(text, i, is_ascii):
    """Return how many bytes the whitespace at byte i has; 0 if there is none.

    The rule is that of ``str.split``, or with ``is_ascii`` that of ``bytes.split``.
    """
    byte = text[i]
    if byte <= 32:
        return 1 if byte == 32 or 9 <= byte <= 13 or (28 <= byte <= 31 and not is_ascii) else 0
    if byte < 0xC2 or byte > 0xE3 or is_ascii:
        return 0
    second = text[i + 1] if i + 1 < len(text) else 0
    if byte == 0xC2:  # next line, no-break space
        return 2 if second in (0x85, 0xA0) else 0
    third = text[i + 2] if i + 2 < len(text) else 0
    if byte == 0xE1:  # ogham space
        return 3 if second == 0x9A and third == 0x80 else 0
    if byte == 0xE2:  # U+2000 to U+205F
        if second == 0x80:
            return 3 if 0x80 <= third <= 0x8A or third in (0xA8, 0xA9, 0xAF) else 0
        return 3 if second == 0x81 and third == 0x9F else 0
    if byte == 0xE3:  # ideographic space
        return 3 if second == 0x80 and third == 0x80 else 0
    return 0


@njit(inline=True)
def _token(text, i, end, is_ascii):
    """Return where the next token from byte i on begins and ends, both ``end`` if there is none, and its hash."""
    while i < end:
        n = _space(text, i, is_ascii)
        if n == 0:
            break
        i += n
    begin, code = i, START_HASH
    while i < end:
        byte = text[i]
        # letters, which most bytes are, need no further check
        if (byte <= 32 or 0xC2 <= byte <= 0xE3) and _space(text, i, is_ascii):
            break
        code = extend_hash(code, byte)
        i += 1
    return begin, i, code


@njit(inline=True)
def _encode(words, text, at, end, eos, ids, n):
    """Write the ids of the line text[at:end] from place n of ``ids`` on; return where they end.

    Return -1 if ``<s>`` or ``</s>`` is written in the line, which the callers handle.
    """
    spelled, cuts, slots, boundary, unknown, is_ascii = words
    while True:
        begin, at, code = _token(text, at, end, is_ascii)
        if begin == at:
            break
        w = np.int64(slots[slot_of(code, text, begin, at, spelled, cuts, slots)])
        if w == boundary or _is_start(text, begin, at):
            return np.int64(-1)
        ids[n] = unknown if w < 0 else w
        n += 1
    if eos:
        ids[n] = boundary
        n += 1
    return np.int64(n)


@njit(inline=True)
def _is_start(text, begin, end):
    """Return whether text[begin:end] is <s>."""
    return end - begin == 3 and text[begin] == 60 and text[begin + 1] == 115 and text[end - 1] == 62


@njit(inline=True)
def _score(words, data, shape, text, bos, eos):
    """Return how many ids a line has, the ids, and their log-probabilities.

    The number is -1 for a line that is left to the callers: special tokens are written in it, or a damaged table gives
    an impossible probability.
    """
    ids = np.empty(len(text) // 2 + 2, np.int32)
    n = _encode(words, text, 0, len(text), eos, ids, 0)
    scores, matched = np.empty(max(n, 0), np.float64), np.empty(max(n, 0), np.int64)
    if n > 0:
        context, offsets = np.full(np.int64(bos), words[3], np.int64), np.array([0, n])
        sequence_scores(data, shape, ids, offsets, context, scores, matched)
        is_coarse = shape[0, PROB] < EXACT_PROB
        limit = MAX_CODED_LOG_PROB if is_coarse else MAX_LOG_PROB
        for i in range(n):
            if not scores[i] <= limit:
                return np.int64(-1), ids, scores
            if is_coarse:  # rounding may have made a probability greater than one
                scores[i] = min(scores[i], 0.0)
    return n, ids, scores


@njit
def score_line(words, data, shape, text, bos, eos):
    """Return the log-probability of a line, and True; or 0 and False for a line that `_score` leaves.

    ``bos`` and ``eos`` say whether the line follows ``<s>``, and whether ``</s>`` is scored too.
    """
    n, _, scores = _score(words, data, shape, text, bos, eos)
    if n < 0:
        return 0.0, False
    total = 0.0
    for score in scores:
        total += score
    return total, True


@njit
def measure_line(words, data, shape, text):
    """Return the log-probabilities of known words, of unknown words and of ``</s>`` in a line, and two counts.

    The counts are the number of words, -1 for a line that `_score` leaves, and the number of unknown words.
    """
    n, ids, scores = _score(words, data, shape, text, True, True)
    if n < 0:
        return 0.0, 0.0, 0.0, n, n
    known, oov, n_oov = 0.0, 0.0, 0
    for i in range(n - 1):
        if ids[i] == words[4]:
            oov += scores[i]
            n_oov += 1
        else:
            known += scores[i]
    return known, oov, scores[n - 1], n - 1, n_oov


@njit
def _encode_lines(words, text, eos, ids, offsets):
    """Write the ids of all lines and their offsets (lines + 1,); return False if special tokens are written in them.

    Every line of ``text`` ends in a line feed. ``ids`` has room for half as many ids as there are bytes, and for one
    more in every line.
    """
    n = line = at = 0
    offsets[0] = 0
    for i in range(len(text)):
        if text[i] != 10:
            continue
        n = _encode(words, text, at, i, eos, ids, n)
        if n < 0:
            return False
        line += 1
        offsets[line] = n
        at = i + 1
    return True
