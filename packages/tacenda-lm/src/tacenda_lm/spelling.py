"""`LetterModel`: how probable a spelling is, by the letters of the words that are known.

A letter n-gram over the types of a vocabulary, each counted once, because a word that is not among them is more like
the rare types than like the frequent ones. Words begin and end, so that q(s) is over whole strings s = l_1 ... l_m:

    q(s) = prod_{i=1}^{m+1} p_n(l_i | l_{i-n+1} ... l_{i-1}),   l_{m+1} = the end,

    p_k(l | h) = (N(h l) + T(h) p_{k-1}(l | h')) / (N(h) + T(h))

(Witten and Bell, 1991, method C, interpolated as in Chen and Goodman, 1999, section 2.5), with N(h) the letters that
follow h, T(h) how many different ones, h' = h without its first letter, and p_k = p_{k-1} where h was never seen. Below
the unigrams p_0 is spread evenly over the code points that no word has, so a string in a script that the vocabulary
does not know has a probability too. The q(s) of all strings, the empty one included, sum to one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_lm.sequences import Float64

__all__ = ["LetterModel"]

_Ids = npt.NDArray[np.int64]
_BEGIN, _END, _UNSEEN, _FIRST = 0, 1, 2, 3  # ids; those of letters begin at the last
_CODE_POINTS = sys.maxunicode + 1


class _Level(NamedTuple):
    """The k-grams of letters of one length."""

    keys: _Ids  # (k-grams,): id of the (k-1)-gram before its last letter, times all letters, plus the last; ascending
    counts: Float64  # (k-grams,): N(h l)
    following: Float64  # (contexts,): N(h)
    types: Float64  # (contexts,): T(h)


class LetterModel:
    """A letter n-gram fitted to words.

    Parameters
    ----------
    words
        The types to learn from, each once.
    order
        n, the letters that an n-gram spans.
    """

    def __init__(self, words: Sequence[str], order: int = 6) -> None:
        text = _code_points(words)
        self._alphabet = np.unique(text)
        letters, since = self._letters(words)
        self._levels: list[_Level] = []
        grams = letters
        for k in range(1, order + 1):
            contexts, places = _contexts(grams, since, k)
            keys = contexts * self._size + letters[places]
            found, own, counts = np.unique(keys, return_inverse=True, return_counts=True)
            before = found // self._size
            n = int(contexts.max(initial=0)) + 1
            weights = counts.astype(np.float64)
            following = np.bincount(before, weights, minlength=n)
            types = np.bincount(before, minlength=n).astype(np.float64)
            self._levels.append(_Level(found, weights, np.asarray(following, np.float64), types))
            grams = _spread(own, places, letters, k)

    @property
    def _size(self) -> int:
        """How many ids of letters there are."""
        return len(self._alphabet) + _FIRST

    def log_probs(self, words: Sequence[str]) -> Float64:
        """Return log q of each string: natural, float64 (words,)."""
        if not len(words):
            return np.empty(0)
        letters, since = self._letters(words)
        p = np.where(letters == _UNSEEN, 1 / (_CODE_POINTS - len(self._alphabet)), 0.0)
        grams = letters
        for k, level in enumerate(self._levels, start=1):
            contexts, places = _contexts(grams, since, k)
            known = contexts < len(level.types)
            contexts, places = contexts[known], places[known]
            keys = contexts * self._size + letters[places]
            own = np.minimum(level.keys.searchsorted(keys), len(level.keys) - 1)
            seen = level.keys[own] == keys
            types = level.types[contexts]
            counts = np.where(seen, level.counts[own], 0.0)
            with np.errstate(invalid="ignore"):
                mixed = (counts + types * p[places]) / (level.following[contexts] + types)
            p[places] = np.where(types > 0, mixed, p[places])
            grams = _spread(own[seen], places[seen], letters, k)
        predicted = letters != _BEGIN
        ends = np.flatnonzero(letters[predicted] == _END) + 1
        starts = np.concatenate([[0], ends[:-1]])
        return np.asarray(np.add.reduceat(np.log(p[predicted]), starts), np.float64)

    def _letters(self, words: Sequence[str]) -> tuple[_Ids, _Ids]:
        """Ids of the letters of all words, each with its begin and end, and how far each is from its begin."""
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        text = _code_points(words)
        found = np.minimum(self._alphabet.searchsorted(text), max(len(self._alphabet) - 1, 0))
        known = self._alphabet[found] == text if len(self._alphabet) else np.zeros(len(text), bool)
        begins = np.cumsum(lengths + 2) - (lengths + 2)
        letters = np.empty(len(text) + 2 * len(words), np.int64)
        inside = np.ones(len(letters), bool)
        inside[begins] = inside[begins + lengths + 1] = False
        letters[inside] = np.where(known, found + _FIRST, _UNSEEN)
        letters[begins], letters[begins + lengths + 1] = _BEGIN, _END
        since = np.arange(len(letters)) - np.repeat(begins, lengths + 2)
        return letters, since


def _code_points(words: Sequence[str]) -> npt.NDArray[np.uint32]:
    """The characters of all words one after another; lone surrogates are characters too."""
    return np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.uint32)


def _contexts(grams: _Ids, since: _Ids, k: int) -> tuple[_Ids, _Ids]:
    """Where a letter is predicted from k - 1 before it that were seen: the ids of those, and the places.

    ``grams`` are the ids of the (k-1)-grams that end at each place; -1 where there is none.
    """
    places = np.flatnonzero(since >= max(k - 1, 1))
    if k == 1:  # the empty context
        return np.zeros(len(places), np.int64), places
    contexts = grams[places - 1]
    return contexts[contexts >= 0], places[contexts >= 0]


def _spread(own: _Ids, places: _Ids, letters: _Ids, k: int) -> _Ids:
    """The ids of the k-grams that end at each place, -1 where none does."""
    grams = np.full(len(letters), -1, np.int64)
    grams[places] = own
    if k == 1:  # the begin is a context like a letter, but is never predicted
        grams = np.where(letters == _UNSEEN, -1, letters)
    return grams
