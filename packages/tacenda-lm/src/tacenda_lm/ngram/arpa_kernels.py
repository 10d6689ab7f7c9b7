"""Compiled reading of the lines of an ARPA file in the usual form; others are left to ``arpa_reader``.

Such a line is a number, the words of an n-gram, all in the vocabulary, and perhaps a number, with one space or tab
between them.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from tacenda.kernels.machinery.compiled import njit
from tacenda_lm.ngram.text_kernels import START, hashed, slot_of

__all__ = ["read_ngrams", "read_unigrams"]

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
    found = digits / _TENS[-scale] if scale < 0 else digits * _TENS[scale]
    return -found if negative else found, i


@njit
def _rest(text, i, end):
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
def read_unigrams(text, at, places, values):
    """As `read_ngrams`, for unigrams, of which the words are not known yet.

    ``places`` (lines, 2) takes where each word begins and ends in ``text``, ``values`` (lines, 2) log-probability and
    back-off, base 10.
    """
    end = len(text)
    for line in range(len(places)):
        value, i = _number(text, at, end)
        if i < 0 or value > 0 or i >= end or text[i] not in (32, 9):
            return line, at
        begin = i + 1
        i = begin
        while i < end and text[i] not in (32, 9, 10, 13):
            i += 1
        places[line, 0], places[line, 1] = begin, i
        backoff, i = _rest(text, i, end)
        if i < 0 or places[line, 0] == places[line, 1]:
            return line, at
        values[line, 0], values[line, 1] = value, backoff
        at = i
    return len(places), at


@njit
def read_ngrams(
    text, at, n_lines, n, words, cuts, slots, start, boundary, bits, per_column, rows, values
):
    """Read up to ``n_lines`` lines of n-grams from byte ``at`` on; return how many were read, and where it stopped.

    It stops at a line that is not in the usual form, or that does not end in ``text``. ``words``, ``cuts`` and
    ``slots`` are the vocabulary with ``<s>``, whose number is ``start``; ``boundary`` is the id of ``</s>``, which both
    have in a table. ``rows`` (lines, columns) takes the key, the first word first, and then log-probability and
    back-off, base 10, as float64; ``values`` is the same memory as float64.
    """
    n_keys, end = rows.shape[1] - 2, len(text)
    for line in range(n_lines):
        value, i = _number(text, at, end)
        if i < 0 or value > 0:
            return line, at
        for k in range(n_keys):
            rows[line, k] = np.uint64(0)
        for k in range(n):
            if i >= end or text[i] not in (32, 9):
                return line, at
            begin = i + 1
            i = begin
            code = START
            while i < end and text[i] not in (32, 9, 10, 13):
                code = hashed(code, text[i])
                i += 1
            w = np.int64(slots[slot_of(code, text, begin, i, words, cuts, slots)])
            if w < 0 or (w == start and k > 0) or (w == boundary and k < n - 1):
                return line, at
            w = boundary if w == start else w
            rows[line, k // per_column] |= np.uint64(w + 1) << np.uint64(
                64 - bits * (k % per_column + 1)
            )
        backoff, i = _rest(text, i, end)
        if i < 0:
            return line, at
        values[line, n_keys], values[line, n_keys + 1] = value, backoff
        at = i
    return n_lines, at
