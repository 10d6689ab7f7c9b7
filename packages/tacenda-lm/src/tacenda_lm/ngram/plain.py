"""The look-ups of `lookup` and `words` in plain Python, for the first lines of a process, with the same results.

Importing numba takes as long as scoring some thousand words here. Arguments and results are those of the compiled
functions of the same names, which only `penalty` lacks. But ``words`` is a pair: a vocabulary, and whether text is
split only at ASCII whitespace. Places that are read from a table are clipped to the same bounds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.corpus.marks import START
from tacenda.corpus.text import tokens_of
from tacenda.tokenizers import ASCII_WHITESPACE
from tacenda.vocabulary import BOUNDARY, UNKNOWN, Vocabulary
from tacenda_lm.ngram import (
    BACKOFF,
    BLOCK,
    BLOCKS,
    EXACT_BACKOFF,
    EXACT_PROB,
    FAR,
    LISTS,
    MAX_CODED_LOG_PROB,
    MAX_LOG_PROB,
    N_VALUES,
    NEAR,
    PROB,
    PROBS,
    RECORDS,
    SIZE,
    VALUES,
    WIDTH,
    WORD,
)
from tacenda_lm.sequences import Float64, Ids, Offsets

_Data: TypeAlias = npt.NDArray[np.uint64]
_Int64: TypeAlias = npt.NDArray[np.int64]
_Rows: TypeAlias = list[list[int]]  # ``shape`` as Python's integers
_Words: TypeAlias = tuple[Vocabulary, bool]


def _bits(data: _Data, at: int, width: int) -> int:
    word, shift = divmod(at, 64)
    return (data.item(word) | data.item(word + 1) << 64) >> shift & (1 << width) - 1


def _float32(code: int) -> float:
    return float(np.uint32(code).view(np.float32))


def _value(data: _Data, at: int, code: int) -> float:
    return _float32(data.item(at + code // 2) >> code % 2 * 32 & 0xFFFFFFFF)


def _log_prob(data: _Data, rows: _Rows, n: int, place: int) -> float:
    row = rows[n]
    code = _bits(data, row[RECORDS] + place * row[WIDTH] + row[WORD], row[PROB])
    if row[PROB] == EXACT_PROB:
        return _float32(code | 1 << EXACT_PROB)
    return _value(data, row[PROBS], code)


def _backoff(data: _Data, rows: _Rows, n: int, place: int) -> float:
    row = rows[n]
    code = _bits(data, row[RECORDS] + place * row[WIDTH] + row[WORD] + row[PROB], row[BACKOFF])
    if row[BACKOFF] == EXACT_BACKOFF:
        return _float32(code)
    return _value(data, row[VALUES], code) if code < row[N_VALUES] else math.nan


def _first_after(data: _Data, rows: _Rows, n: int, place: int) -> int:
    row, limit = rows[n], rows[n + 1][SIZE]
    block, i = divmod(place, BLOCK)
    head = data.item(row[BLOCKS] + block)
    if head >> 63:
        number = head ^ 1 << 63
        if number >= row[LISTS]:
            return limit
        return min(data.item(row[FAR] + number * BLOCK + i), limit)
    near = row[RECORDS] + (place + 1) * row[WIDTH] - row[NEAR]
    return min(head + _bits(data, near, row[NEAR]), limit)


def _child(data: _Data, rows: _Rows, n: int, place: int, w: int) -> int:
    row = rows[n + 1]
    low, high = _first_after(data, rows, n, place), _first_after(data, rows, n, place + 1)

    def word(i: int) -> int:
        return _bits(data, row[RECORDS] + i * row[WIDTH], row[WORD])

    place = low + bisect_left(range(low, high), w, key=word)
    return place if place < high and word(place) == w else -1


def _find_endings(data: _Data, rows: _Rows, context: Sequence[int]) -> list[int]:
    """Return the places of the listed endings of a context, shortest first."""
    endings: list[int] = []
    for n in range(1, min(len(context), len(rows) - 1) + 1):
        place, *words = context[len(context) - n :]
        if not 0 <= place < rows[0][SIZE]:
            break
        for k, w in enumerate(words):
            place = _child(data, rows, k, place, w)
            if place < 0:
                return endings
        endings.append(place)
    return endings


def _next_word(data: _Data, rows: _Rows, before: list[int], w: int) -> tuple[float, list[int]]:
    """Return the score of a word, and the places of the listed n-grams that end in it."""
    places = [w]
    for n, context in enumerate(before):
        place = _child(data, rows, n, context, w)
        if place < 0:
            break
        places.append(place)
    score = _log_prob(data, rows, len(places) - 1, places[-1])
    for k in range(len(places) - 1, len(before)):
        score += _backoff(data, rows, k, before[k])
    return score, places


def sequence_scores(
    data: _Data,
    shape: _Int64,
    ids: Ids,
    offsets: Offsets,
    context: _Int64,
    out: Float64,
    matched: _Int64,
) -> int:
    """Do the same as `lookup.sequence_scores`."""
    rows = shape.tolist()
    start = _find_endings(data, rows, context.tolist())
    for begin, end in pairwise(offsets.tolist()):
        before = start
        for i in range(begin, end):
            w = int(ids[i])
            if not 0 <= w < rows[0][SIZE]:
                return i
            out[i], places = _next_word(data, rows, before, w)
            matched[i] = len(places)
            before = places[: len(rows) - 1]
    return -1


def resolve(data: _Data, shape: _Int64, context: _Int64, before: _Int64) -> int:
    """Do the same as `lookup.resolve`."""
    endings = _find_endings(data, shape.tolist(), context.tolist())
    before[: len(endings)] = endings
    return len(endings)


def penalty(data: _Data, shape: _Int64, context: _Int64) -> float:
    """Return the sum of the back-offs of all listed endings of a context."""
    rows = shape.tolist()
    places = _find_endings(data, rows, context.tolist())
    return sum((_backoff(data, rows, k, place) for k, place in enumerate(places)), 0.0)


def n_that_matter(data: _Data, shape: _Int64, before: _Int64, n: int) -> int:
    """Do the same as `lookup.n_that_matter`."""
    rows, places = shape.tolist(), before.tolist()
    while n > 0:
        k, place = n - 1, places[n - 1]
        if _first_after(data, rows, k, place + 1) > _first_after(data, rows, k, place):
            break
        if _backoff(data, rows, k, place) != 0:
            break
        n -= 1
    return int(n)


def step(
    data: _Data, shape: _Int64, before: _Int64, w: int, found: _Int64
) -> tuple[float, int, int]:
    """Do the same as `lookup.step`."""
    order = len(shape)
    score, places = _next_word(data, shape.tolist(), before[: before[order]].tolist(), w)
    found[: len(places)] = places
    found[order] = kept = n_that_matter(data, shape, found, min(len(places), order - 1))
    return score, len(places), kept


class WordTable:
    """The counterpart of `words.WordTable`, without a hash table: the vocabulary finds the words itself."""

    def __init__(self, vocabulary: Vocabulary, is_ascii: bool = False) -> None:
        self.words = vocabulary, is_ascii

    def encode(self, lines: object, eos: bool) -> None:
        """Return None: a list of strings has no faster way here than any other text."""


def _score(
    words: _Words, data: _Data, shape: _Int64, text: Any, bos: bool, eos: bool
) -> tuple[list[int], list[float]] | None:
    """Return the ids of a line and their scores; None for a line that `words.score_line` leaves."""
    vocabulary, is_ascii = words
    line = text.tobytes().decode("utf-8", "surrogatepass")
    tokens = tokens_of(line, ASCII_WHITESPACE if is_ascii else "whitespace")
    if BOUNDARY in tokens or START in tokens:
        return None
    ids = vocabulary.encode([*tokens, BOUNDARY] if eos else tokens)
    scores, matched = np.empty(len(ids)), np.empty(len(ids), np.int64)
    context = np.full(int(bos), vocabulary.boundary_id)
    sequence_scores(data, shape, ids, np.array([0, len(ids)]), context, scores, matched)
    is_coarse = shape[0, PROB] < EXACT_PROB
    if not (scores <= (MAX_CODED_LOG_PROB if is_coarse else MAX_LOG_PROB)).all():
        return None
    return ids.tolist(), (np.minimum(scores, 0.0) if is_coarse else scores).tolist()


def score_line(
    words: _Words, data: _Data, shape: _Int64, text: Any, bos: bool, eos: bool
) -> tuple[float, bool]:
    """Do the same as `words.score_line`."""
    scored = _score(words, data, shape, text, bos, eos)
    # added one after another: ``sum`` compensates for rounding, and that of numpy adds in another order
    return (0.0, False) if scored is None else (reduce(add, scored[1], 0.0), True)


def measure_line(
    words: _Words, data: _Data, shape: _Int64, text: Any
) -> tuple[float, float, float, int, int]:
    """Do the same as `words.measure_line`."""
    scored = _score(words, data, shape, text, True, True)
    if scored is None:
        return 0.0, 0.0, 0.0, -1, -1
    ids, scores = scored
    unknown = words[0].id_of(UNKNOWN)
    pairs = list(zip(ids[:-1], scores[:-1], strict=True))
    known = [score for w, score in pairs if w != unknown]
    oov = [score for w, score in pairs if w == unknown]
    return reduce(add, known, 0.0), reduce(add, oov, 0.0), scores[-1], len(pairs), len(oov)
