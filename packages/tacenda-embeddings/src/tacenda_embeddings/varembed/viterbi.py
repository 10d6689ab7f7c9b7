"""The most probable segmentation of words into pieces, by Viterbi search in compiled loops.

Import this only when a word must be segmented: it imports numba.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Letters = npt.NDArray[np.uint32]

#: An odd multiplier of a hash whose high bits are the place in the table.
_FACTOR = np.uint64(11400714819323198485)


class Lexicon(NamedTuple):
    """Distinct non-empty pieces, each with its log-probability, in a hash table with open addressing."""

    letters: Letters  # (letters,) of all pieces, as code points
    bounds: Ints  # (pieces + 1,): the letters of piece i are letters[bounds[i] : bounds[i + 1]]
    log_probs: Floats  # (pieces,)
    table: (
        Ints  # (a power of two,): pieces at the places of their hashes or after these, -1 for none
    )

    @classmethod
    def build(cls, pieces: Sequence[str], log_probs: Floats) -> "Lexicon":
        """Return the lexicon of pieces with natural log-probabilities (pieces,)."""
        letters, bounds = _list_letters(pieces)
        table = np.full(2 ** (2 * len(pieces) + 1).bit_length(), -1, np.int64)
        _fill(table, letters, bounds)
        return cls(letters, bounds, np.asarray(log_probs, np.float64), table)


def find_best_pieces(
    words: Sequence[str], lexicon: Lexicon, letter: float, banned: Ints | None = None
) -> tuple[list[tuple[str, ...]], Floats]:
    """Find the most probable pieces of each word; return them, and their log-probabilities (words,).

    ``letter`` is the log-probability of a letter which is no piece; adjacent ones become one piece. Word i is segmented
    without the piece ``banned[i]``. Of equally probable segmentations, the one with the longer last piece is returned.
    """
    letters, bounds = _list_letters(words)
    if banned is None:
        banned = np.full(len(words), -1)
    cuts, scores = np.zeros(len(letters), bool), np.zeros(len(words))
    _segment(letters, bounds, *lexicon, letter, banned, cuts, scores)
    text, found = "".join(words), []
    places = np.append(np.flatnonzero(cuts), len(text)).tolist()
    first = np.searchsorted(places, bounds).tolist()
    for i, j in pairwise(first):
        found.append(tuple(text[start:stop] for start, stop in pairwise(places[i : j + 1])))
    return found, scores


def _list_letters(words: Sequence[str]) -> tuple[Letters, Ints]:
    """Return the code points of all words (letters,), and their bounds (words + 1,)."""
    text = "".join(words).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(text, np.uint32), np.cumsum([0, *map(len, words)])


# -- compiled loops ------------------------------------------------------------------------------------


@njit
def _fill(table: Any, letters: Any, bounds: Any) -> None:
    """Put every piece into the first free place from that of its hash."""
    mask = np.uint64(len(table) - 1)
    for piece in range(len(bounds) - 1):
        key = np.uint64(0)
        for i in range(bounds[piece], bounds[piece + 1]):
            key = _hash(key, letters[i])
        place = (key >> np.uint64(32)) & mask
        while table[place] >= 0:
            place = (place + np.uint64(1)) & mask
        table[place] = piece


@njit(inline=True)
def _hash(key: Any, letter: Any) -> Any:
    """Return the hash of letters from the hash of all but the last one."""
    return (key ^ np.uint64(letter)) * _FACTOR + np.uint64(1)


@njit
def _find(table: Any, letters: Any, bounds: Any, key: Any, word: Any) -> Any:
    """Return the piece with the letters of ``word``, whose hash is ``key``; -1 if there is none."""
    mask = np.uint64(len(table) - 1)
    place = (key >> np.uint64(32)) & mask
    while table[place] >= 0:
        piece = table[place]
        start = bounds[piece]
        if bounds[piece + 1] - start == len(word):
            i = 0
            while i < len(word) and letters[start + i] == word[i]:
                i += 1
            if i == len(word):
                return piece
        place = (place + np.uint64(1)) & mask
    return -1


@njit
def _segment(
    letters: Any, bounds: Any, piece_letters: Any, piece_bounds: Any, log_probs: Any, table: Any,
    letter: float, banned: Any, cuts: Any, scores: Any,
) -> None:  # fmt: skip
    """Set ``cuts`` (letters,) at the first letter of every piece, and ``scores`` (words,)."""
    longest = 0
    for piece in range(len(log_probs)):
        longest = max(longest, piece_bounds[piece + 1] - piece_bounds[piece])
    most = 0
    for w in range(len(scores)):
        most = max(most, bounds[w + 1] - bounds[w])
    best = np.empty(most + 1)
    begin, known = np.empty(most + 1, np.int64), np.empty(most + 1, np.bool_)
    for w in range(len(scores)):
        word = letters[bounds[w] : bounds[w + 1]]
        best[: len(word) + 1] = -np.inf
        best[0] = 0.0
        for start in range(len(word)):
            key = np.uint64(0)
            for end in range(start + 1, min(start + longest, len(word)) + 1):
                key = _hash(key, word[end - 1])
                piece = _find(table, piece_letters, piece_bounds, key, word[start:end])
                if piece >= 0 and piece != banned[w] and best[start] + log_probs[piece] > best[end]:
                    best[end], begin[end] = best[start] + log_probs[piece], start
                    known[end] = True
            if best[start] + letter > best[start + 1]:
                best[start + 1], begin[start + 1] = best[start] + letter, start
                known[start + 1] = False
        scores[w] = best[len(word)]
        end, follows_unknown = len(word), False
        while end > 0:
            # adjacent unknown letters are one piece: the cut between them is taken back
            if follows_unknown and not known[end]:
                cuts[bounds[w] + end] = False
            follows_unknown = not known[end]
            end = begin[end]
            cuts[bounds[w] + end] = True
