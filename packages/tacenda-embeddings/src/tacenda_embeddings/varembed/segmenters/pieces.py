"""A lexicon of pieces with log-probabilities, and the best way to build a word of them (Viterbi)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda_embeddings.varembed.segmenters.base import pack_names, unpack_names

__all__ = ["PieceLexicon"]


class PieceLexicon:
    """Pieces and their natural log-probabilities.

    A letter that no piece covers costs ``LETTER``; such letters in a row become one unknown piece.

    Parameters
    ----------
    pieces
        None empty, each once.
    log_probs
        One for each, finite.
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
