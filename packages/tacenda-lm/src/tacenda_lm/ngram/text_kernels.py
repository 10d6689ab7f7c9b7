"""Compiled splitting of text at whitespace, and the words of a vocabulary by their bytes: from strings to scores.

A text is UTF-8, uint8 (bytes,). The words of a vocabulary are those of ``vocabulary.pack_words``, ``words`` uint8
(bytes,) and ``cuts`` int64 (words + 1,), and ``slots`` int32 a hash table that holds their numbers, -1 where it is
empty.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from tacenda.kernels.machinery.compiled import njit
from tacenda_lm.ngram.lookup import sequence_scores

__all__ = [
    "START",
    "encode_lines",
    "hash_words",
    "hashed",
    "number_of",
    "score_line",
    "slot_of",
]

_PRIME = np.uint64(0x100000001B3)
START = np.uint64(0xCBF29CE484222325)


@njit
def _find(text, begin, end, words, cuts, slots):
    """The slot of a word of the text, text[begin:end]: that of its number, or the empty one where it would be."""
    code = START
    for i in range(begin, end):
        code = hashed(code, text[i])
    return slot_of(code, text, begin, end, words, cuts, slots)


@njit(inline=True)
def hashed(code, byte):
    """The hash of a word and one more byte, which begins with `START` (FNV-1a)."""
    return (code ^ np.uint64(byte)) * _PRIME


@njit(inline=True)
def slot_of(code, text, begin, end, words, cuts, slots):
    """As `_find`, with the hash of the word."""
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
def hash_words(words, cuts, slots):
    """Fill ``slots``, of which there must be more than words, and a power of two."""
    slots[:] = -1
    for i in range(len(cuts) - 1):
        slots[_find(words, cuts[i], cuts[i + 1], words, cuts, slots)] = i


@njit
def number_of(word, words, cuts, slots):
    """The number of a word, its bytes; -1 where it is not there."""
    return np.int64(slots[_find(word, 0, len(word), words, cuts, slots)])


@njit
def _space(text, i, is_ascii):
    """How many bytes the whitespace at byte i has; 0 if there is none.

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
    if byte == 0xE2:  # those of U+2000 to U+205F
        if second == 0x80:
            return 3 if 0x80 <= third <= 0x8A or third in (0xA8, 0xA9, 0xAF) else 0
        return 3 if second == 0x81 and third == 0x9F else 0
    if byte == 0xE3:  # ideographic space
        return 3 if second == 0x80 and third == 0x80 else 0
    return 0


@njit(inline=True)
def _token(text, i, end, is_ascii):
    """Where the next token from byte i on begins and ends, and its hash; both are ``end`` if there is none."""
    while i < end:
        n = _space(text, i, is_ascii)
        if n == 0:
            break
        i += n
    begin, code = i, START
    while i < end:
        byte = text[i]
        # most bytes are those of letters, of which nothing more is asked
        if (byte <= 32 or 0xC2 <= byte <= 0xE3) and _space(text, i, is_ascii):
            break
        code = hashed(code, byte)
        i += 1
    return begin, i, code


@njit(inline=True)
def _id_of(text, begin, end, code, words, cuts, slots, boundary, unknown):
    """The id of a token; -1 for the marks of a sentence's beginning and end, about which others decide."""
    found = np.int64(slots[slot_of(code, text, begin, end, words, cuts, slots)])
    if found >= 0:
        return found if found != boundary else np.int64(-1)
    if end - begin == 3 and text[begin] == 60 and text[begin + 1] == 115 and text[begin + 2] == 62:
        return np.int64(-1)
    return np.int64(unknown)


@njit(inline=True)
def _encode(words, cuts, slots, text, at, end, boundary, unknown, is_ascii, eos, ids, n):
    """Write the ids of the line text[at:end] from place n of ``ids`` on; return where they end, -1 as `_id_of` does."""
    while True:
        begin, at, code = _token(text, at, end, is_ascii)
        if begin == at:
            break
        w = _id_of(text, begin, at, code, words, cuts, slots, boundary, unknown)
        if w < 0:
            return np.int64(-1)
        ids[n] = w
        n += 1
    if eos:
        ids[n] = boundary
        n += 1
    return np.int64(n)


@njit
def score_line(text, data, shape, words, cuts, slots, boundary, unknown, is_ascii, bos, eos):
    """Sum the log-probabilities of a line; the second result is False where it has marks of its own.

    ``is_ascii`` is the rule of whitespace; ``bos`` and ``eos`` say whether it begins after ``<s>``, and whether
    ``</s>`` is counted.
    """
    ids, end = np.empty(len(text) // 2 + 2, np.int32), len(text)
    n = _encode(words, cuts, slots, text, 0, end, boundary, unknown, is_ascii, eos, ids, 0)
    if n < 0:
        return 0.0, False
    context, offsets = np.full(np.int64(bos), boundary, np.int64), np.array([0, n])
    scores, matched = np.empty(n, np.float64), np.empty(n, np.int64)
    sequence_scores(data, shape, ids, offsets, context, scores, matched)
    total = 0.0
    for score in scores:
        total += score
    return total, True


@njit
def encode_lines(words, cuts, slots, text, boundary, unknown, is_ascii, eos, ids, offsets):
    """Write the ids of all lines, and where each begins and the last ends; return False where one has marks of its own.

    The lines of ``text`` end in a line feed each; ``ids`` has room for half as many as there are bytes, and one for
    every line; ``offsets`` is (lines + 1,).
    """
    n = line = at = 0
    offsets[0] = 0
    for i in range(len(text)):
        if text[i] != 10:
            continue
        n = _encode(words, cuts, slots, text, at, i, boundary, unknown, is_ascii, eos, ids, n)
        if n < 0:
            return False
        line += 1
        offsets[line] = n
        at = i + 1
    return True
