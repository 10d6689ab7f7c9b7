"""The pairs of neighboring words of a text, and how often each occurs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus.pair_counts import count_stream
from tacenda.corpus.storage import forget_pages
from tacenda.offsets import runs
from tacenda_lm.sequences import Ids, pieces

_COUNTING_BYTES: Final = 256 << 20  # of memory for counting pairs; the rest goes to a file
_PAIRS_PER_BLOCK: Final = 1 << 20


class Neighbors(NamedTuple):
    """The words next to every word on one side, ascending: read-only arrays for compiled code."""

    borders: npt.NDArray[np.int64]  # (types + 1,), where each word's neighbors begin
    words: Ids  # (pairs,)
    counts: npt.NDArray[np.int32]  # (pairs,), how often each is there

    @classmethod
    def of(
        cls, borders: npt.NDArray[np.int64], words: Ids, counts: npt.NDArray[np.int32]
    ) -> Neighbors:
        """Return the neighbors in plain read-only arrays, mapped or not, so that code is compiled for one type."""
        neighbors = cls(*(np.asarray(array).view() for array in (borders, words, counts)))  # type: ignore[arg-type]
        for array in neighbors:
            array.flags.writeable = False
        return neighbors


class WordPairs:
    """The words ``after`` each word of a text and those ``before`` it, and how often; ``counts`` are of single words.

    ``ids`` (tokens,) are the text as one row, below ``n_types``, with ``</s>`` after every sentence. The last ``</s>``
    is also the word before the first sentence. The text is counted twice, from its beginning and from its end.
    """

    def __init__(self, ids: Ids, n_types: int) -> None:
        self._counted = [
            count_stream(pieces(ids, backwards=way), n_types, 1, memory_budget=_COUNTING_BYTES)
            for way in (False, True)
        ]
        self.counts = self._counted[0].unigram
        nothing = np.zeros(n_types + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)
        self.before, self.after = (
            Neighbors.of(*(counted.lags[0] if counted.lags else nothing))
            for counted in self._counted
        )

    def blocks(self) -> Iterator[tuple[Ids, Ids, npt.NDArray[np.int32]]]:
        """Yield distinct pairs of a word and the next, and how often they occur, in blocks."""
        borders, words, counts = self.after
        for first, last in runs(borders, _PAIRS_PER_BLOCK):
            block = slice(int(borders[first]), int(borders[last]))
            sizes = np.diff(borders[first : last + 1])
            left = np.repeat(np.arange(first, last, dtype=np.int32), sizes)
            yield left, words[block], counts[block]
            self.forget()

    def forget(self) -> None:
        """Release the memory of pairs that are in mapped files."""
        for array in (each for counted in self._counted for lag in counted.lags for each in lag):
            forget_pages(array)
