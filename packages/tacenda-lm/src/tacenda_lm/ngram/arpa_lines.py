"""Compiled code that reads and writes most lines of ARPA files, whose format `arpa` describes.

It leaves lines that are not in the usual form, and some numbers, to Python.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import math

import numpy as np

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import LANES, copy_bytes
from tacenda_lm.ngram import SIZE
from tacenda_lm.ngram.lookup import backoff, log_prob, word_of
from tacenda_lm.ngram.traversal import find_contexts, next_contexts
from tacenda_lm.ngram.words import START_HASH, extend_hash, slot_of

_PLUS, _MINUS, _POINT, _ZERO, _NINE, _SMALL_E, _LARGE_E = b"+-.09eE"
_SPACE, _TAB, _LINE_FEED, _RETURN = b" \t\n\r"
_TENS = 10.0 ** np.arange(23)  # each is exact
_MAX_EXACT = 1 << 53  # float64 holds all integers up to this one
_DIGITS = 8  # of a number that is written
_DIGIT_PAIRS = np.array([divmod(i, 10) for i in range(100)], np.uint8) + np.uint8(_ZERO)
# bytes: two numbers, their tabs, and what is copied after a word take at most so many
_NUMBERS_ROOM = 48
LOG10_E = np.float32(1 / math.log(10))


@njit
def _read_number(text, i, end):
    """Read a decimal number that begins at byte i; return it and the byte after it, or -1 if it was not read.

    Numbers with at most 53 bits of digits and a power of ten up to 22 are read: they are rounded once, so they are what
    ``float`` gives (Clinger 1990).
    """
    negative = i < end and text[i] == _MINUS
    i += negative
    digits, scale, n = np.int64(0), 0, 0
    while i < end and _ZERO <= text[i] <= _NINE:
        digits = digits * 10 + (text[i] - _ZERO)
        n += 1
        i += 1
    if i < end and text[i] == _POINT:
        i += 1
        while i < end and _ZERO <= text[i] <= _NINE:
            digits = digits * 10 + (text[i] - _ZERO)
            scale -= 1
            n += 1
            i += 1
    if n == 0 or n > 18:
        return 0.0, -1
    if i < end and text[i] in (_SMALL_E, _LARGE_E):
        i += 1
        below = i < end and text[i] == _MINUS
        i += i < end and text[i] in (_PLUS, _MINUS)
        power, n = 0, 0
        while i < end and _ZERO <= text[i] <= _NINE and n < 4:
            power = power * 10 + (text[i] - _ZERO)
            n += 1
            i += 1
        if n == 0 or n == 4:
            return 0.0, -1
        scale += -power if below else power
    if digits > _MAX_EXACT or scale < -22 or scale > 22:
        return 0.0, -1
    # one operation on two exact numbers rounds once
    number = digits / _TENS[-scale] if scale < 0 else digits * _TENS[scale]
    return -number if negative else number, i


@njit
def _read_rest(text, i, end):
    """Read the back-off, if there is one, and the end of a line from byte i on.

    Return the back-off or 0, and where the next line begins, -1 if this one is not in the usual form.
    """
    backoff = 0.0
    if i < end and text[i] in (_SPACE, _TAB):
        backoff, i = _read_number(text, i + 1, end)
        if i < 0:
            return backoff, i
    if i < end and text[i] == _RETURN:
        i += 1
    return backoff, i + 1 if i < end and text[i] == _LINE_FEED else -1


@njit
def read_lines(text, at, n, names, packing, rows):
    """Read lines of n-grams from byte ``at`` on into rows; return how many were read, and where the next line begins.

    Stop at a line that is not in the usual form, or that does not end in ``text``. ``names`` is `_Names.lookup`. A row
    of ``rows`` (lines, columns) gets the key, the first word first, and then log-probability and back-off, base 10, as
    float64. Unigrams, whose words have no ids yet, get the bytes where the word begins and ends instead of a key.
    N-grams that no sentence can have get a key of zero.
    """
    words, cuts, slots, ids, start, boundary = names
    n_keys, end, values = rows.shape[1] - 2, len(text), rows.view(np.float64)
    for line in range(len(rows)):
        value, i = _read_number(text, at, end)
        if i < 0 or value > 0:
            return line, at
        rows[line, :n_keys] = np.uint64(0)
        is_impossible = False
        for k in range(n):
            if i >= end or text[i] not in (_SPACE, _TAB):
                return line, at
            begin = i + 1
            i = begin
            code = START_HASH
            while i < end and text[i] not in (_SPACE, _TAB, _LINE_FEED, _RETURN):
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
            is_impossible |= (w == start and k > 0) or (w == boundary and k < n - 1)
            shift = np.uint64(64 - packing.bits * (k % packing.per_column + 1))
            rows[line, k // packing.per_column] |= np.uint64(ids[w] + 1) << shift
        if is_impossible:
            rows[line, :n_keys] = np.uint64(0)
        backoff, i = _read_rest(text, i, end)
        if i < 0:
            return line, at
        values[line, n_keys], values[line, n_keys + 1] = value, backoff
        at = i
    return len(rows), at


@njit
def write_number(value, out, at):
    """Write a number as ``"%.8g" % value`` to ``out`` from ``at`` on; return where it ends.

    Return -1 for numbers below 1e-4, except 0, and from 1e7 on, as most of these have an exponent, and for those
    half-way between two of 8 digits.
    """
    if math.copysign(1.0, value) < 0:
        out[at] = _MINUS
        at += 1
    value = abs(value)
    if value == 0:
        out[at] = _ZERO
        return at + 1
    if not 1e-4 <= value < 1e7:
        return -1
    point = 0  # digits before the decimal point, or minus the number of zeros after it
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
    # 0.00123: a zero, room for the point, and zeros come before the digits. 12.3: the digits begin one byte further
    # right, and those before the point are then copied to the left.
    before = 2 - point if point <= 0 else 1
    for i in range(before):
        out[at + i] = _ZERO
    first = at + before
    left = np.uint32(digits)
    for i in range(_DIGITS - 2, -1, -2):
        pair = left % np.uint32(100)
        left //= np.uint32(100)
        out[first + i], out[first + i + 1] = _DIGIT_PAIRS[pair, 0], _DIGIT_PAIRS[pair, 1]
    for i in range(point):
        out[at + i] = out[first + i]
    out[at + max(point, 1)] = _POINT
    end = first + _DIGITS
    while out[end - 1] == _ZERO:
        end -= 1
    return end - (out[end - 1] == _POINT)


@njit
def _copy(text, begin, end, out, at):
    """Copy bytes to ``out`` from ``at`` on, in whole vectors; return where the copy ends."""
    for i in range(0, end - begin, LANES):
        copy_bytes(text, begin + i, out, at + i)
    return at + end - begin


@njit
def write_lines(data, shape, n, begin, text, cuts, boundary, out):
    """Write lines of n-grams from place ``begin`` on into ``out``; return the next place and the bytes written.

    Stop at a line for which there is no room, at that of ``<s>`` and ``</s>``, at numbers that `write_number` leaves,
    and at a word that is no type, in a damaged table.
    """
    start, at, before, place = len(cuts) - 2, 0, 0, begin
    contexts, ends = np.empty((2, n - 1), np.int64)
    # where the words of the line before begin, counted from its first; those that stay the same are copied
    begun = np.zeros(n, np.int64)
    find_contexts(data, shape, begin, contexts, ends)
    while place < shape[n - 1, SIZE]:
        size = at
        first = next_contexts(data, shape, place, contexts, ends) if place > begin else 0
        if size + begun[first] + _NUMBERS_ROOM > len(out):
            return place, size
        at = write_number(np.float64(log_prob(data, shape, n - 1, place) * LOG10_E), out, size)
        if at < 0:
            return place, size
        before, at = at, _copy(out, before, before + begun[first], out, at)
        for k in range(first, n):
            w = word_of(data, shape, k, contexts[k] if k < n - 1 else place)
            if w >= start or (n == 1 and w == boundary):
                return place, size
            if k < n - 1 and w == boundary:
                w = start
            if at + cuts[w + 1] - cuts[w] + _NUMBERS_ROOM > len(out):
                return place, size
            begun[k] = at - before
            out[at] = _SPACE if k else _TAB
            at = _copy(text, cuts[w], cuts[w + 1], out, at + 1)
        if n < len(shape):
            out[at] = _TAB
            value = np.float64(backoff(data, shape, n - 1, place) * LOG10_E)
            at = write_number(value, out, at + 1)
            if at < 0:
                return place, size
        out[at] = _LINE_FEED
        at += 1
        place += 1
    return place, at
