"""`Table`: the listed n-grams of a model with their log-probabilities and back-offs.

N-grams of all orders lie one after another, unigrams first, each order sorted by (prefix, last word), so that
the n-grams that continue one n-gram are neighbours: those that continue place i are ``first[i]`` to
``first[i + 1]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError, DataError
from tacenda.offsets import checked_offsets, rises
from tacenda_lm.ngram.counts import Int64
from tacenda_lm.sequences import Float64

__all__ = ["MAX_ORDER", "Sums", "Table"]

MAX_ORDER = 16  # the longest n-grams of any model
_ROUNDING = 1e-3  # of a sum of float32 probabilities


class Sums(NamedTuple):
    """What the probabilities after contexts sum to, from the lowest to the highest, and one that is above one."""

    low: float
    high: float
    above_one: tuple[list[int], int] | None  # a context and the word after it

    @property
    def are_one(self) -> bool:
        """Whether all are one, but for rounding."""
        return self.low > 1 - _ROUNDING and self.high < 1 + _ROUNDING


@dataclass(frozen=True)
class Table:
    """A back-off model over ids; natural logarithms."""

    starts: Int64  # (order + 1,): the n-grams of order n are places starts[n - 1] to starts[n]
    word: npt.NDArray[np.int32]  # (n-grams,): the last word of each; word[i] = i for unigrams
    first: Int64  # (n-grams below the highest order + 1,): where the continuations of each begin
    log_prob: npt.NDArray[np.float32]  # (n-grams,): log p(last word | the words before)
    backoff: npt.NDArray[
        np.float32
    ]  # (n-grams below the highest order,): for words not listed after it

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.starts) - 1

    @property
    def n_types(self) -> int:
        """The number of word types, which is that of the unigrams."""
        return int(self.starts[1])

    @property
    def sizes(self) -> list[int]:
        """How many n-grams each order lists."""
        return [int(size) for size in np.diff(self.starts)]

    @cached_property
    def records(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """The table as ``lookup`` reads it: int32 (n-grams + 1, 4), and the same memory as float32.

        Columns: last word, log-probability (float32), back-off (float32), first. The last row exists
        for its ``first`` alone. Raises DataError if there are more n-grams than an int32 can count.
        """
        if len(self.word) > np.iinfo(np.int32).max:
            raise DataError(f"a table of {len(self.word)} n-grams is too large: raise min_count")
        nodes = np.zeros((len(self.word) + 1, 4), np.int32)
        values = nodes.view(np.float32)
        nodes[:-1, 0] = self.word
        values[:-1, 1] = self.log_prob
        values[: len(self.backoff), 2] = self.backoff
        nodes[: len(self.first), 3] = self.first
        return nodes, values

    @classmethod
    def of_orders(
        cls,
        prefixes: list[Int64],
        words: list[Int64],
        log_probs: list[Float64],
        backoffs: list[Float64],
    ) -> Self:
        """Lay the n-grams of all orders end to end; each order is sorted by (prefix, word), all arrays are (n-grams,).

        A prefix is the number, in the order below, of all words but the last. The highest order has no back-offs.
        """
        starts = np.cumsum([0, *map(len, words)])
        first = [
            starts[n] + np.searchsorted(prefixes[n], np.arange(len(words[n - 1])))
            for n in range(1, len(words))
        ]
        return cls(
            starts.astype(np.int64),
            np.concatenate(words).astype(np.int32),
            np.concatenate([*first, [starts[-1]]]).astype(np.int64),
            np.concatenate(log_probs).astype(np.float32),
            np.concatenate([np.empty(0), *backoffs]).astype(np.float32),
        )

    def words_of(self, order: int, places: Int64 | None = None) -> npt.NDArray[np.int32]:
        """Return the words of n-grams of one order, by default of all: int32 (n-grams, order)."""
        if places is None:
            places = np.arange(self.starts[order - 1], self.starts[order])
        columns = []
        for n in range(order, 0, -1):
            columns.append(self.word[places])
            if n > 1:
                below = self.first[self.starts[n - 2] : self.starts[n - 1] + 1]
                places = self.starts[n - 2] + np.searchsorted(below, places, side="right") - 1
        return np.stack(columns[::-1], axis=1)

    def sums(self) -> Sums:
        """Sum the probabilities of the unigrams and those after every context, and look for one that is above one.

        Raises ArtifactError where an n-gram is listed without its last words.
        """
        from tacenda_lm.ngram import lookup

        found = np.empty(2)
        node, word = lookup.check_distributions(*self.records, self.starts, found)
        if node < 0:
            return Sums(float(found[0]), float(found[1]), None)
        order = int(np.searchsorted(self.starts, node, side="right"))
        words = self.words_of(order, np.array([node]))[0].tolist()
        if word < 0:
            raise ArtifactError(f"the n-gram {words} is listed without its last words")
        return Sums(float(found[0]), float(found[1]), (words, int(word)))

    # -- artefact ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by name, as an artefact holds them."""
        return {name: getattr(self, name) for name in _DTYPES}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, npt.NDArray[Any]], n_types: int, is_normalized: bool = True
    ) -> Self:
        """Rebuild the table of an artefact. Raises ArtifactError.

        It is checked so that no look-up can leave it, no probability is above one, and those after a context sum to
        one where they should.
        """
        dims: dict[str, int] = {}
        shapes = {"starts": ("ends",), "word": ("n-grams",), "log_prob": ("n-grams",)}
        shapes |= {"first": ("contexts and one",), "backoff": ("contexts",)}
        found = {
            name: require(arrays, name, shape=shapes[name], dtype=dtype, finite=True, dims=dims)
            for name, dtype in _DTYPES.items()
        }
        table = cls(**found)
        table._check(n_types)
        sums = table.sums()
        if sums.above_one is not None:
            raise ArtifactError("its back-offs give a word a probability above one")
        if is_normalized and not sums.are_one:
            raise ArtifactError(
                f"its probabilities sum to {sums.low:.4g} at the lowest and {sums.high:.4g} at the highest, not to "
                "one: the model is damaged"
            )
        return table

    def _check(self, n_types: int) -> None:
        """Raise ArtifactError unless every place and word that a look-up follows is inside the table."""
        starts, first, word = self.starts, self.first, self.word
        checked_offsets(starts, len(word), what="the array 'starts'", error=ArtifactError)
        if not 2 <= len(starts) <= MAX_ORDER + 1 or starts[1] != n_types:
            raise ArtifactError(
                f"the array 'starts' tells of {len(starts) - 1} orders and {starts[1:2]} types, where "
                f"there are at most {MAX_ORDER} orders, and {n_types} types"
            )
        inner = int(starts[-2])
        if len(self.backoff) != inner or len(first) != inner + 1:
            raise ArtifactError(f"'first' and 'backoff' must tell of {inner} contexts")
        # the continuations of an order's first n-gram begin where the order above begins
        if (first[starts[:-1]] != starts[1:]).any() or not rises(first):
            raise ArtifactError("the array 'first' does not cut 'word': the model is damaged")
        if word.min() < 0 or word.max() >= n_types or (word[:n_types] != np.arange(n_types)).any():
            raise ArtifactError(f"the array 'word' holds an id off 0 to {n_types - 1}")
        ascending = word[1:] > word[:-1]
        ascending[first[first < len(word)] - 1] = (
            True  # where another context begins, words start anew
        )
        if not ascending.all():
            raise ArtifactError("the array 'word' is not sorted: the model is damaged")
        if (self.log_prob > 1e-6).any():
            raise ArtifactError("the array 'log_prob' holds a probability above one")


_DTYPES: dict[str, type[np.generic]] = {
    "starts": np.int64,
    "word": np.int32,
    "first": np.int64,
    "log_prob": np.float32,
    "backoff": np.float32,
}
