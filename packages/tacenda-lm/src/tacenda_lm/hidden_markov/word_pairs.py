"""Which words stand before and after each word of a text, and how often; in files where these are many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus.pair_counts import count_stream, row_blocks
from tacenda.corpus.storage import forget_pages
from tacenda_lm.sequences import Ids, pieces

__all__ = ["Neighbours", "WordPairs"]

_COUNTING: Final = 256 << 20  # bytes for counting; the rest goes to a file
_ENTRIES: Final = 1 << 20  # of a block

Offsets = npt.NDArray[np.int64]


class Neighbours(NamedTuple):
    """For every word the words beside it, ascending: read-only, as compiled code takes them."""

    borders: Offsets  # (types + 1,), where each word's neighbours begin
    words: Ids  # (pairs,)
    counts: npt.NDArray[np.int32]  # (pairs,), how often they stand there

    @classmethod
    def of(cls, borders: Offsets, words: Ids, counts: npt.NDArray[np.int32]) -> Neighbours:
        """Return arrays, in memory or mapped, as compiled code takes both: one type, so that it is compiled once."""
        found = cls(*(np.asarray(array).view() for array in (borders, words, counts)))  # type: ignore[arg-type]
        for array in found:
            array.flags.writeable = False
        return found


class WordPairs:
    """The pairs of neighbouring words of a text.

    ``stream`` is the text as one row of ids (tokens,) below ``n_types``, with the id of ``</s>`` before and after every
    sentence. It is counted in both directions: as its end meets its start, each gives the transpose of the other.

    Attributes
    ----------
    after
        The words after each, and how often: `Neighbours`.
    before
        The words before each.
    """

    def __init__(self, stream: Ids, n_types: int) -> None:
        # the last </s> is the first, once more
        circle = stream[:-1]
        self._counted = [
            count_stream(pieces(circle, backwards=way), n_types, 1, memory_budget=_COUNTING)
            for way in (False, True)
        ]
        nothing = np.zeros(n_types + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)
        self.before, self.after = (
            Neighbours.of(*(found.lags[0] if found.lags else nothing)) for found in self._counted
        )

    def blocks(self) -> Iterator[tuple[Ids, Ids, npt.NDArray[np.int32]]]:
        """Yield pairs of a word and the next, and how often they occur, some at a time."""
        borders, words, counts = self.after
        for first, last in row_blocks([borders], _ENTRIES):
            here = slice(int(borders[first]), int(borders[last]))
            lengths = np.diff(borders[first : last + 1])
            yield (
                np.repeat(np.arange(first, last, dtype=np.int32), lengths),
                words[here],
                counts[here],
            )
            self.forget()

    def forget(self) -> None:
        """Give back the memory that the pairs take, where they lie in files."""
        arrays: list[npt.NDArray[Any]] = [
            array for found in self._counted for lag in found.lags for array in lag
        ]
        for array in arrays:
            forget_pages(array)
