"""`Table`: the n-grams of a model with their log-probabilities and back-offs, used as they lie packed in an array.

``layout`` describes how they are packed, ``packing`` does it, and ``lookup`` finds n-grams in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda_lm.ngram.counts import Int64
from tacenda_lm.ngram.layout import LAYOUT, check_layout, sections

__all__ = ["Order", "Sums", "Table"]

_ROUNDING = 1e-3  # of a sum of float32 probabilities
_FEW = 1 << 16  # a table of so many n-grams is checked whole when it is loaded
_SAMPLE = 1 << 16  # n-grams unpacked at once


class Sums(NamedTuple):
    """What the probabilities after contexts sum to, from the lowest to the highest, and one that is above one."""

    low: float
    high: float
    above_one: tuple[list[int], int] | None  # a context and the word after it

    @property
    def are_one(self) -> bool:
        """Whether all are one, but for rounding."""
        return self.low > 1 - _ROUNDING and self.high < 1 + _ROUNDING


class Order(NamedTuple):
    """The n-grams of an order, unpacked; all arrays are (n-grams,), of the highest order the last two are empty."""

    word: npt.NDArray[np.int32]  # the last word of each
    log_prob: npt.NDArray[np.float32]  # log p(last word | the words before), natural
    backoff: npt.NDArray[np.float32]  # for words not listed after it
    n_after: Int64  # how many n-grams continue each


class Table:
    """A back-off model over ids; natural logarithms.

    Parameters
    ----------
    data
        uint64 (words,), see ``layout``.
    layout
        int64 (order, len(LAYOUT)); checked by `from_arrays`.
    storage
        What must not go away as long as the table is there, such as the folder of a mapped file.
    """

    def __init__(self, data: npt.NDArray[np.uint64], layout: Int64, storage: object = None) -> None:
        # a view, so that compiled code meets one type of array whether it is mapped or not
        self.data = data.view(np.ndarray)
        self.data.flags.writeable = False
        self.layout = np.array(layout, np.int64)
        self.shape, _ = sections(self.layout)
        self._storage = storage

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.layout)

    @property
    def n_types(self) -> int:
        """The number of word types, which is that of the unigrams."""
        return int(self.layout[0, 0])

    @property
    def sizes(self) -> list[int]:
        """How many n-grams each order lists."""
        return [int(size) for size in self.layout[:, 0]]

    @property
    def is_coarse(self) -> bool:
        """Whether log-probabilities are codes of few bits, so that sums are one, and none above it, only nearly."""
        return bool(self.layout[0, 1] < 31)

    @cached_property
    def arguments(self) -> tuple[npt.NDArray[np.uint64], Int64]:
        """The first arguments of every function in ``lookup``."""
        return self.data, self.shape

    # -- unpacked ----------------------------------------------------------------------------------

    def unpacked(self, order: int, begin: int = 0, end: int | None = None) -> Order:
        """Return the n-grams of an order, or those from place ``begin`` to ``end`` of it."""
        from tacenda_lm.ngram import lookup

        size = self.sizes[order - 1]
        begin, end = max(begin, 0), size if end is None else min(end, size)
        inner = end - begin if order < self.order else 0
        found = Order(
            np.empty(end - begin, np.int32),
            np.empty(end - begin, np.float32),
            np.empty(inner, np.float32),
            np.empty(inner, np.int64),
        )
        lookup.unpack(*self.arguments, order, begin, *found)
        return found

    def words_of(self, order: int, places: slice | Int64 = slice(None)) -> npt.NDArray[np.int32]:
        """Return the words of n-grams of one order, by default of all: int32 (n-grams, order)."""
        from tacenda_lm.ngram import lookup

        if isinstance(places, slice):
            begin, end, _ = places.indices(self.sizes[order - 1])
            found = np.empty((end - begin, order), np.int32)
            lookup.spell(*self.arguments, order, begin, found)
            return found
        found = np.empty((len(places), order), np.int32)
        for i, place in enumerate(places.tolist()):
            lookup.spell(*self.arguments, order, place, found[i : i + 1])
        return found

    def blocks(self, order: int) -> Iterator[tuple[int, int]]:
        """Yield where blocks of the n-grams of an order begin and end, for `unpacked`."""
        size = self.sizes[order - 1]
        for begin in range(0, size, _SAMPLE):
            yield begin, min(begin + _SAMPLE, size)

    # -- what must hold ----------------------------------------------------------------------------

    def sums(self) -> Sums:
        """Sum the probabilities of the unigrams and those after every context, and look for one that is above one.

        Raises ArtifactError where the table is not sorted, or an n-gram is listed without its last words.
        """
        from tacenda_lm.ngram import checks

        contexts = self.sizes[:-1]
        starts = np.cumsum([0, *contexts])
        found = np.empty(2)
        order, node, word = checks.check_distributions(*self.arguments, starts, found)
        if order < 0:
            return Sums(float(found[0]), float(found[1]), None)
        if word == checks.NOT_SORTED:
            raise ArtifactError(f"the {order}-grams are not sorted: the model is damaged")
        words = self.words_of(order, np.array([node]))[0].tolist() if order else []
        if word < 0:
            raise ArtifactError(
                f"the n-gram {words} is listed without its last words: the model is damaged"
            )
        return Sums(float(found[0]), float(found[1]), (words, int(word)))

    def check(self, is_normalized: bool = True) -> None:
        """Read the whole table and check it. Raises ArtifactError.

        N-grams must be sorted, no probability above one, and those after a context must sum to one where
        ``is_normalized`` says so.
        """
        sums = self.sums()
        if sums.above_one is not None and not self.is_coarse:
            raise ArtifactError("its back-offs give a word a probability above one")
        if not (sums.low > 0 and sums.high < np.inf) or (is_normalized and not sums.are_one):
            raise ArtifactError(
                f"its probabilities sum to {sums.low:.4g} at the lowest and {sums.high:.4g} at the highest, not to "
                "one: the model is damaged"
            )

    # -- artefact ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by name, as an artefact holds them."""
        return {"ngrams.data": self.data, "ngrams.layout": self.layout}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, npt.NDArray[Any]], n_types: int, is_normalized: bool = True
    ) -> Self:
        """Take the table of an artefact. Raises ArtifactError.

        The layout is checked so that no look-up can leave the table. A small table is read and checked whole; a large
        one may be a mapped file, of which nothing is read here: what is wrong in it is found where it is used, or by
        `check`.
        """
        layout = require(arrays, "ngrams.layout", shape=("order", len(LAYOUT)), dtype=np.int64)
        data = require(arrays, "ngrams.data", shape=("words",), dtype=np.uint64)
        check_layout(layout, len(data), n_types)
        table = cls(data, layout)
        if sum(table.sizes) <= _FEW:
            table.check(is_normalized)
        return table
