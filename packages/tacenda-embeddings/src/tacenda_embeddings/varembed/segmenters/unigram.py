"""The unigram segmenter: pieces and their probabilities by EM and pruning (Kudo 2018, section 3.2).

A word is a sequence of pieces drawn independently. Starting from every substring that several words share,
EM fits the probabilities, with the variational-Bayes M-step that drives rare pieces out, and the pieces
whose loss costs the least likelihood are dropped until as many are left as wanted. Each word counts once,
because what is wanted are morphemes and not frequent words. A mark tells pieces that begin a word.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.progress import track
from tacenda_embeddings.varembed.segmenters import pack_names, shortened, unpack_names

__all__ = ["BEGIN", "PieceLexicon", "UnigramSegmenter"]

_Table = npt.NDArray[np.int32]

BEGIN = "▁"
LONGEST = 14  # letters of a piece, the mark included
LEAST_TYPES = 3  # words that must share a substring for it to be a candidate
CANDIDATES = 40  # for every piece that is kept
SHRINK = 0.7  # of the pieces survive a round of pruning
STEPS = 2  # of EM in a round
RARE = 0.5  # expected occurrences under which a piece is dropped at once
WORDS = 20_000  # of one length, treated together by the lattice


class UnigramSegmenter:
    """Pieces with probabilities; the most probable segmentation of a word is its morphemes."""

    name: ClassVar[str] = "unigram"
    skips_unknown: ClassVar[bool] = False

    def __init__(self, lexicon: PieceLexicon) -> None:
        self.lexicon = lexicon

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> Self:
        """Learn from distinct words, each counted once; every letter stays a piece."""
        marked = sorted({BEGIN + shortened(word) for word in words if word})
        pieces, single = _candidates(marked, n_morphemes)
        log_probs = _fit(Lattice(marked, pieces, LONGEST), pieces, single, n_morphemes)
        kept = np.flatnonzero(np.isfinite(log_probs)).tolist()
        return cls(PieceLexicon([pieces[i] for i in kept], log_probs[kept].tolist()))

    def segment(self, word: str) -> tuple[str, ...]:
        """Return the most probable pieces."""
        if not word:
            return ()
        pieces = self.lexicon.segment(BEGIN + shortened(word))
        # the mark by itself is no morpheme
        return pieces[1:] if pieces[0] == BEGIN and len(pieces) > 1 else pieces

    def segment_all(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the same for many."""
        return [self.segment(word) for word in track(words, "segmenting", unit=" words")]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return pieces and log-probabilities."""
        return self.lexicon.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a segmenter from what `arrays` gave. Raises ArtifactError."""
        return cls(PieceLexicon.from_arrays(arrays))


def _candidates(words: Sequence[str], n_morphemes: int) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Return letters and shared substrings, and which of them are letters."""
    shared: Counter[str] = Counter()
    for word in track(words, "unigram segmenter: substrings", unit=" words"):
        n = len(word)
        shared.update({word[i:j] for i in range(n) for j in range(i + 2, min(n, i + LONGEST) + 1)})
    letters = sorted(set().union(*words))
    found = sorted(
        (piece for piece, count in shared.items() if count >= LEAST_TYPES),
        key=lambda piece: (-shared[piece] * (len(piece) - 1), piece),
    )[: CANDIDATES * n_morphemes]
    return letters + found, np.arange(len(letters) + len(found)) < len(letters)


def _fit(
    lattice: Lattice, pieces: Sequence[str], single: npt.NDArray[np.bool_], n_morphemes: int
) -> npt.NDArray[np.float64]:
    """Return log-probabilities (pieces,) of the pieces that are kept, -inf for the others."""
    alive = np.ones(len(pieces), bool)
    log_probs = np.full(len(pieces), -np.log(max(len(pieces), 1)))
    while True:
        expected = np.zeros(len(pieces))
        for _ in range(STEPS):
            expected = lattice.expected_counts(log_probs)
            alive &= (expected > RARE) | single
            # VB M-step under a flat Dirichlet of vanishing weight: exp(digamma(c) - digamma(sum c))
            counts = np.maximum(expected, 0.1)
            found = digamma(counts) - digamma(counts[alive].sum())
            log_probs = np.where(alive, found, -np.inf)
        excess = int(alive.sum()) - n_morphemes
        droppable = np.flatnonzero(alive & ~single)
        if excess <= 0 or not len(droppable):
            return log_probs
        loss = _losses(pieces, droppable, log_probs, expected)
        n = min(excess, len(droppable), max(1, int((1 - SHRINK) * alive.sum())))
        alive[droppable[np.argsort(loss, kind="stable")[:n]]] = False
        log_probs = np.where(alive, log_probs, -np.inf)


def _losses(
    pieces: Sequence[str],
    droppable: npt.NDArray[np.int64],
    log_probs: npt.NDArray[np.float64],
    expected: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return what it costs in log-likelihood to build the uses of each piece from other pieces."""
    alive = np.flatnonzero(np.isfinite(log_probs)).tolist()
    costs = {pieces[i]: float(log_probs[i]) for i in alive}
    loss = np.empty(len(droppable))
    for row, i in enumerate(track(droppable.tolist(), "unigram segmenter: pruning")):
        own = costs.pop(pieces[i])
        loss[row] = expected[i] * (own - best_pieces(pieces[i], costs, LONGEST, -1e6)[1])
        costs[pieces[i]] = own
    return loss


class Lattice:
    """All segmentations of many words at once: which pieces end where in which words.

    It does not change while the probabilities of the pieces are fitted. Words of one length are treated
    together, so that every step is an array operation over all of them. No word is empty, ``pieces`` are distinct
    and hold every letter of the words, and no piece has more than ``longest`` letters.
    """

    def __init__(self, words: Sequence[str], pieces: Sequence[str], longest: int) -> None:
        self.n_pieces = len(pieces)
        ids = {piece: i for i, piece in enumerate(pieces)}
        by_length: dict[int, list[str]] = {}
        for word in words:
            by_length.setdefault(len(word), []).append(word)
        self._tables = [
            _table(group[i : i + WORDS], ids, length, min(length, longest))
            for length, group in sorted(by_length.items())
            for i in range(0, len(group), WORDS)
        ]

    def expected_counts(self, log_probs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return how often each piece is expected in all segmentations of every word (pieces,).

        By the forward-backward algorithm; ``log_probs`` (pieces,) holds -inf for a piece that is not used.
        """
        padded = np.append(log_probs, -np.inf)  # the last place stands for what is no piece
        found = np.zeros(self.n_pieces + 1)
        with np.errstate(invalid="ignore"):  # -inf less -inf, where no segmentation leads
            for table in self._tables:
                self._add(found, table, padded)
        return found[:-1]

    @staticmethod
    def _add(
        found: npt.NDArray[np.float64], table: _Table, padded: npt.NDArray[np.float64]
    ) -> None:
        """Add the expected counts of the words of one table."""
        scores = padded[table]
        length, longest, n = table.shape
        before = _forward(scores)
        after = np.full((length + 1, n), -np.inf)
        after[length] = 0.0
        for end in range(length, 0, -1):
            m = min(end, longest)
            ways = (after[end] + scores[end - 1, :m])[::-1]
            after[end - m : end] = np.logaddexp(after[end - m : end], ways)
        for end in range(1, length + 1):
            m = min(end, longest)
            ways = before[end - m : end][::-1] + scores[end - 1, :m] + after[end] - before[length]
            weights = np.nan_to_num(np.exp(ways), nan=0.0).ravel()
            found += np.bincount(table[end - 1, :m].ravel(), weights, minlength=len(found))


def _table(words: list[str], ids: dict[str, int], length: int, longest: int) -> _Table:
    """Return by (end - 1, letters - 1, word) the piece of so many letters that ends there, or one past all."""
    none = len(ids)
    table = np.full((length, longest, len(words)), none, np.int32)
    for column, word in enumerate(words):
        for end in range(1, length + 1):
            for letters in range(1, min(end, longest) + 1):
                table[end - 1, letters - 1, column] = ids.get(word[end - letters : end], none)
    return table


def _forward(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the log-probability of every beginning of every word, (length + 1, words)."""
    length, longest, n = scores.shape
    before = np.full((length + 1, n), -np.inf)
    before[0] = 0.0
    for end in range(1, length + 1):
        m = min(end, longest)
        before[end] = np.logaddexp.reduce(before[end - m : end][::-1] + scores[end - 1, :m], axis=0)
    return before


# -- the most probable pieces of a word ----------------------------------------------------------------


class PieceLexicon:
    """Pieces, none empty, each once, and their natural log-probabilities, finite.

    A letter that no piece covers costs ``LETTER``; such letters in a row become one unknown piece.
    """

    LETTER = -30.0

    def __init__(self, pieces: Sequence[str], log_probs: Sequence[float]) -> None:
        self.pieces = tuple(pieces)
        self.log_probs = np.asarray(log_probs, np.float64)
        self._costs = dict(zip(self.pieces, self.log_probs.tolist(), strict=True))
        self._longest = max(map(len, self.pieces), default=0)

    def segment(self, word: str) -> tuple[str, ...]:
        """Return the most probable pieces of a word, in order; of equals, those with the longer last piece."""
        return best_pieces(word, self._costs, self._longest, self.LETTER)[0]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return names and log-probabilities (pieces,) float64."""
        return {
            **pack_names("segmenter.pieces", self.pieces),
            "segmenter.log_probs": self.log_probs,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a lexicon from what `arrays` gave. Raises ArtifactError."""
        pieces = unpack_names("segmenter.pieces", arrays)
        log_probs = require(
            arrays, "segmenter.log_probs", shape=(len(pieces),), dtype=np.float64, finite=True
        )
        if "" in pieces or len(set(pieces)) != len(pieces):
            raise ArtifactError("a piece of the segmenter is empty or there twice: it is damaged")
        return cls(pieces, log_probs.tolist())


def best_pieces(
    word: str, costs: Mapping[str, float], longest: int, letter: float
) -> tuple[tuple[str, ...], float]:
    """Find the most probable pieces of a word by Viterbi search; return them and their log-probability.

    ``costs`` has the log-probability of each piece, none longer than ``longest``; ``letter`` is that of a letter
    which is no piece.
    """
    n = len(word)
    best = [0.0] + [-math.inf] * n
    cut, known = [0] * (n + 1), [True] * (n + 1)
    for end in range(1, n + 1):
        for start in range(max(0, end - longest), end):
            cost = costs.get(word[start:end])
            if cost is not None and best[start] + cost > best[end]:
                best[end], cut[end], known[end] = best[start] + cost, start, True
        if best[end - 1] + letter > best[end]:
            best[end], cut[end], known[end] = best[end - 1] + letter, end - 1, False
    found: list[str] = []
    end, joins = n, False  # joins: the piece found last is unknown, and so may be the one before it
    while end:
        piece, unknown = word[cut[end] : end], not known[end]
        if unknown and joins:
            found[-1] = piece + found[-1]
        else:
            found.append(piece)
        end, joins = cut[end], unknown
    return tuple(reversed(found)), best[n]
