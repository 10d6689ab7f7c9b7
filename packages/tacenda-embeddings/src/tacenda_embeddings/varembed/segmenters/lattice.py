"""All segmentations of many words at once: expected counts of pieces by the forward-backward algorithm.

Words of one length are treated together, so that every step is an array operation over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Lattice"]

_Table = npt.NDArray[np.int32]
_WORDS = 20_000  # of one length, treated together


class Lattice:
    """Which pieces end where in which words; unchanged while their probabilities are fitted.

    Parameters
    ----------
    words
        None empty.
    pieces
        Distinct; together they hold every letter of the words.
    longest
        Letters of a piece at most.
    """

    def __init__(self, words: Sequence[str], pieces: Sequence[str], longest: int) -> None:
        self.n_pieces = len(pieces)
        ids = {piece: i for i, piece in enumerate(pieces)}
        by_length: dict[int, list[str]] = {}
        for word in words:
            by_length.setdefault(len(word), []).append(word)
        self._tables = [
            _table(group[i : i + _WORDS], ids, length, min(length, longest))
            for length, group in sorted(by_length.items())
            for i in range(0, len(group), _WORDS)
        ]

    def expected_counts(self, log_probs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """How often each piece is used in expectation over all segmentations of every word (pieces,).

        ``log_probs`` (pieces,); -inf for a piece that is not used.
        """
        padded = np.append(log_probs, -np.inf)  # what is no piece has the last place
        found = np.zeros(self.n_pieces + 1)
        with np.errstate(invalid="ignore"):  # -inf less -inf, where nothing leads
            for table in self._tables:
                self._add(found, table, padded)
        return found[:-1]

    def log_likelihood(self, log_probs: npt.NDArray[np.float64]) -> float:
        """Natural log of the product of all words' probabilities."""
        padded = np.append(log_probs, -np.inf)
        return sum(float(_forward(padded[table])[-1].sum()) for table in self._tables)

    @staticmethod
    def _add(
        found: npt.NDArray[np.float64], table: _Table, padded: npt.NDArray[np.float64]
    ) -> None:
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
    """(end - 1, letters - 1, word): the piece of so many letters that ends there; one past all for none."""
    none = len(ids)
    table = np.full((length, longest, len(words)), none, np.int32)
    for column, word in enumerate(words):
        for end in range(1, length + 1):
            for letters in range(1, min(end, longest) + 1):
                table[end - 1, letters - 1, column] = ids.get(word[end - letters : end], none)
    return table


def _forward(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Log-probability of every beginning of every word, (length + 1, words)."""
    length, longest, n = scores.shape
    before = np.full((length + 1, n), -np.inf)
    before[0] = 0.0
    for end in range(1, length + 1):
        m = min(end, longest)
        before[end] = np.logaddexp.reduce(before[end - m : end][::-1] + scores[end - 1, :m], axis=0)
    return before
