"""The unigram segmenter: pieces and their probabilities by EM and pruning (Kudo 2018, section 3.2).

A word is a sequence of pieces drawn independently. Starting from every substring that several words share,
EM fits the probabilities, with the variational-Bayes M-step that drives rare pieces out, and the pieces
whose loss costs the least likelihood are dropped until as many are left as wanted. Each word counts once:
what is wanted are morphemes, not frequent words. A mark tells pieces that begin a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from tacenda.progress import track
from tacenda_embeddings.varembed.segmenters.base import shortened
from tacenda_embeddings.varembed.segmenters.lattice import Lattice
from tacenda_embeddings.varembed.segmenters.pieces import PieceLexicon, best_pieces

__all__ = ["BEGIN", "UnigramSegmenter"]

BEGIN = "▁"
LONGEST = 14  # letters of a piece, the mark included
LEAST_TYPES = 3  # words that must share a substring for it to be a candidate
CANDIDATES = 40  # for every piece that is kept
SHRINK = 0.7  # of the pieces survive a round of pruning
STEPS = 2  # of EM in a round
RARE = 0.5  # expected occurrences under which a piece is dropped at once


class UnigramSegmenter:
    """Pieces with probabilities; the most probable segmentation of a word is its morphemes."""

    name: ClassVar[str] = "unigram"
    skips_unknown: ClassVar[bool] = False

    def __init__(self, lexicon: PieceLexicon) -> None:
        self.lexicon = lexicon

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> Self:
        """From distinct words, each counted once; every letter stays a piece."""
        marked = sorted({BEGIN + shortened(word) for word in words if word})
        pieces, single = _candidates(marked, n_morphemes)
        log_probs = _fit(Lattice(marked, pieces, LONGEST), pieces, single, n_morphemes)
        kept = np.flatnonzero(np.isfinite(log_probs)).tolist()
        return cls(PieceLexicon([pieces[i] for i in kept], log_probs[kept].tolist()))

    def segment(self, word: str) -> tuple[str, ...]:
        """The most probable pieces."""
        if not word:
            return ()
        pieces = self.lexicon.segment(BEGIN + shortened(word))
        # the mark by itself is no morpheme
        return pieces[1:] if pieces[0] == BEGIN and len(pieces) > 1 else pieces

    def segment_all(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """The same for many."""
        return [self.segment(word) for word in track(words, "segmenting", unit=" words")]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Pieces and log-probabilities."""
        return self.lexicon.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """From what `arrays` gave. Raises ArtifactError."""
        return cls(PieceLexicon.from_arrays(arrays))


def _candidates(words: Sequence[str], n_morphemes: int) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Letters and shared substrings, and which of them are letters."""
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
    """Log-probabilities (pieces,) of those that are kept, -inf for the others."""
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
    """What dropping each piece would cost in log-likelihood: its uses built of other pieces instead."""
    alive = np.flatnonzero(np.isfinite(log_probs)).tolist()
    costs = {pieces[i]: float(log_probs[i]) for i in alive}
    loss = np.empty(len(droppable))
    for row, i in enumerate(track(droppable.tolist(), "unigram segmenter: pruning")):
        own = costs.pop(pieces[i])
        loss[row] = expected[i] * (own - best_pieces(pieces[i], costs, LONGEST, -1e6)[1])
        costs[pieces[i]] = own
    return loss
