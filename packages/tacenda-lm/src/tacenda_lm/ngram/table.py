"""`Table`: the n-grams of a model with their log-probabilities and back-offs, packed in one array and used from there.

The n-grams of each order are sorted by their words, so those that continue one n-gram are neighbors. Only the last word
of each is stored, as in KenLM's trie (Heafield 2011, "KenLM: Faster and Smaller Language Model Queries"), in a record
of as many bits as are needed, from the lowest up:

    word       as many bits as the highest id has; none for unigrams, where record i is word i
    log_prob   31 bits: a float32 without its sign, as it is never positive; or a code of ``prob_bits``
    backoff    a code, as back-offs have few distinct values, or else a float32; none in the highest order
    near       the place where the n-grams that continue it begin, minus that of its block; none in the highest order

A block is 64 n-grams. It has one number: the place in the next order where the n-grams that continue its first one
begin. Where distances in a block need more than ``near_bits``, the number is instead that of a list of all 64 places,
marked by the highest bit. The n-grams that continue a record end where those of the next record begin; a word among
them is found by binary search. ``near_bits`` is chosen to make records and lists smallest.

A 5-gram among 40,000 words costs 16 + 31 bits, 5.9 bytes; a 4-gram with 2^17 distinct back-offs and 9 near bits 73 + 1
bits, 9.3 bytes (KenLM's trie: 5.9 and, with 2^25 5-grams, 13). With 8 bits for log-probabilities and back-offs these
are 3 and 5.3 bytes.

The array consists of 64-bit words, section after section: for each order the records (with one more at the end, whose
``near`` ends the last range), the numbers of the blocks, the lists, and the values of the codes of back-offs and of
log-probabilities (float32, two in a word). ``layout`` has for each order the numbers named in `LAYOUT`; the rest
follows from them. A table may be a mapped file that nothing has read: look-ups keep every place that they read from it
within the array's bounds (see ``lookup``), so only the layout must be right for safety.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Int64, UInt64, named
from tacenda.errors import ArtifactError
from tacenda.forks import cached_property
from tacenda_lm.ngram import (
    BLOCK,
    EXACT_BACKOFF,
    EXACT_PROB,
    MAX_CODED_LOG_PROB,
    MAX_LOG_PROB,
)
from tacenda_lm.sequences import Float64, Ids, Offsets, check_word
from tacenda_lm.states import not_of_this_model

MAX_ORDER = 16  # the longest n-grams of any model
LAYOUT = ("n-grams", "prob_bits", "backoff_bits", "near_bits", "lists", "backoffs")
"""Of each order: its n-grams, the bits of three fields, how many blocks have a list, distinct back-offs if coded."""

_MAX_NGRAMS = 1 << 48  # of an order: more do not exist
_ROUNDING = 1e-3  # of a sum of float32 probabilities
_MAX_NGRAMS_TO_CHECK = 1 << 16  # of a table that is checked whole when it is loaded
_NGRAMS_PER_BLOCK = 1 << 16  # unpacked at once


class Sums(NamedTuple):
    """The lowest and the highest sum of the probabilities after a context, up to the first fault that is found."""

    low: float
    high: float
    # a context and a word after it that has a probability above one
    above_one: tuple[list[int], int] | None = None
    without_suffix: list[int] | None = None  # an n-gram listed without that of its last words

    @property
    def are_one(self) -> bool:
        """Whether all sums are one up to rounding."""
        return self.low > 1 - _ROUNDING and self.high < 1 + _ROUNDING


class Order(NamedTuple):
    """Unpacked n-grams of an order: arrays (n-grams,), the last two empty in the highest order."""

    word: npt.NDArray[np.int32]  # the last word of each
    log_prob: npt.NDArray[np.float32]  # log p(last word | the words before), natural
    backoff: npt.NDArray[np.float32]  # natural logarithm, for words not listed after it
    n_after: npt.NDArray[np.int64]  # how many n-grams continue each


# words that the process may still look up in plain Python; importing numba takes as long as looking up all of them
_n_plain_words_left = 2000


def lookups(n_words: int | None = None, *, strings: bool = False) -> Any:
    """Return the module that looks up ``n_words`` words: ``plain`` for the first ones of a process, or a compiled one.

    The compiled module is ``lookup``, and ``words`` for ``strings``. All give the same bits. ``plain`` lacks the
    functions for distributions, for which ``n_words`` is None.
    """
    global _n_plain_words_left
    if n_words is not None and "numba" not in sys.modules:
        _n_plain_words_left -= n_words
        if _n_plain_words_left >= 0:
            from tacenda_lm.ngram import plain

            return plain
    return _import_compiled(strings)


@cache
def _import_compiled(strings: bool) -> Any:
    """Return the module ``words`` for strings, and otherwise ``lookup``; both import numba."""
    from tacenda_lm.ngram import lookup, words

    return words if strings else lookup


def to_context(words: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the word ids of a state: int64 (words,). Raises DataError unless all are integers."""
    try:
        return np.frombuffer(array("q", words), np.int64)
    except (TypeError, OverflowError) as error:
        raise not_of_this_model() from error


class Table(Arrays):
    """A back-off model over ids; natural logarithms."""

    data: UInt64[Array, "words", named("ngrams.data")]
    layout: Int64[Array, "orders fields", named("ngrams.layout")]  # fields: those of `LAYOUT`
    storage: object = None  # kept as long as the table, such as the folder of a mapped file

    def __post_init__(self) -> None:
        # a view, so that compiled code meets one type of array whether it is mapped or not
        object.__setattr__(self, "data", self.data.view(np.ndarray))
        self.data.flags.writeable = False

    @cached_property
    def arguments(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """The first arguments of every function in ``lookup``."""
        return self.data, _compute_shape(self.layout)[0]

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
        """The number of n-grams of each order."""
        return [int(size) for size in self.layout[:, 0]]

    @property
    def is_coarse(self) -> bool:
        """Whether log-probabilities are codes of few bits, so that probabilities sum to one only approximately."""
        return bool(self.layout[0, 1] < EXACT_PROB)

    # -- look-ups ----------------------------------------------------------------------------------

    def find_endings(self, words: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Return the places of the listed endings of a context and their number, as ``lookup.step`` takes them."""
        places = np.zeros(self.order + 1, np.int64)
        context = to_context(words[-len(places) :])
        places[-1] = lookups(len(context)).resolve(*self.arguments, context, places)
        return places

    def trim(self, words: tuple[int, ...]) -> tuple[int, ...]:
        """Return the last words of a context that can change later scores."""
        places = self.find_endings(words)
        n = lookups(1).n_that_matter(*self.arguments, places, places[-1])
        return words[len(words) - n :]

    def score_sequences(
        self, ids: Ids, offsets: Offsets, before: Sequence[int]
    ) -> tuple[Float64, npt.NDArray[np.int64]]:
        """Return log-probabilities and n-gram lengths of sequences that all follow the words ``before``.

        Raises DataError for an id that is no word.
        """
        scores, matched = np.empty(len(ids), np.float64), np.empty(len(ids), np.int64)
        bad = lookups(len(ids)).sequence_scores(
            *self.arguments, ids, offsets, to_context(before), scores, matched
        )
        if bad >= 0:
            check_word(int(ids[bad]), self.n_types, f" (at place {bad})")
        return self.check_scores(scores), matched

    def check_scores(self, scores: Float64) -> Float64:
        """Return log-probabilities; in a table of few bits, those above zero become zero.

        Raises ArtifactError if one is no log-probability: a mapped table was not checked before.
        """
        is_coarse = self.is_coarse
        if not (scores <= (MAX_CODED_LOG_PROB if is_coarse else MAX_LOG_PROB)).all():
            raise ArtifactError(
                "a word has an impossible probability: the table of this model is damaged; fit or copy the model again"
            )
        return np.minimum(scores, 0.0) if is_coarse else scores

    # -- unpacked ----------------------------------------------------------------------------------

    def unpack(self, order: int, begin: int = 0, end: int | None = None) -> Order:
        """Return the n-grams of an order from place ``begin`` to ``end``, bounds of a slice."""
        from tacenda_lm.ngram import traversal  # compiled, like `lookups`

        places = range(self.sizes[order - 1])[begin:end]
        n, n_contexts = len(places), len(places) if order < self.order else 0
        unpacked = Order(
            np.empty(n, np.int32),
            np.empty(n, np.float32),
            np.empty(n_contexts, np.float32),
            np.empty(n_contexts, np.int64),
        )
        traversal.unpack(*self.arguments, order, places.start, *unpacked)
        return unpacked

    def words_of(self, order: int, begin: int = 0, end: int | None = None) -> npt.NDArray[np.int32]:
        """Return the words of the n-grams that `unpack` returns: int32 (n-grams, order)."""
        from tacenda_lm.ngram import traversal

        places = range(self.sizes[order - 1])[begin:end]
        words = np.empty((len(places), order), np.int32)
        traversal.spell(*self.arguments, order, places.start, words)
        return words

    def blocks(self, order: int) -> Iterator[tuple[int, int]]:
        """Yield where blocks of the n-grams of an order begin and end, for `unpack`."""
        size = self.sizes[order - 1]
        for begin in range(0, size, _NGRAMS_PER_BLOCK):
            yield begin, min(begin + _NGRAMS_PER_BLOCK, size)

    # -- checks ------------------------------------------------------------------------------------

    def sums(self) -> Sums:
        """Sum the probabilities of the unigrams and those after every context. Raises ArtifactError if unsorted."""
        from tacenda_lm.ngram import traversal

        starts = np.cumsum([0, *self.sizes[:-1]])
        bounds = np.empty(2)
        found, n, place, word = traversal.check_table(*self.arguments, starts, MAX_LOG_PROB, bounds)
        low, high = bounds.tolist()
        if found == traversal.GOOD:
            return Sums(low, high)
        if found == traversal.NOT_SORTED:
            raise ArtifactError(f"the {n + 1}-grams are not sorted: the model is damaged")
        words = self.words_of(n + 1, place, place + 1)[0].tolist()
        if found == traversal.NO_SUFFIX:
            return Sums(low, high, without_suffix=words)
        return Sums(low, high, above_one=(words, int(word)))

    def check(self, is_normalized: bool = True) -> None:
        """Read the whole table and check it. Raises ArtifactError.

        N-grams must be sorted and listed with their last words, no probability above one, and those after a context
        must sum to one where ``is_normalized`` says so.
        """
        sums = self.sums()
        if sums.without_suffix is not None:
            raise ArtifactError(
                f"the n-gram {sums.without_suffix} is listed, but not that of its last words: the model is damaged"
            )
        if sums.above_one is not None and not self.is_coarse:
            raise ArtifactError(
                "the back-offs of the table give a word a probability above one: the model is damaged"
            )
        if not (sums.low > 0 and sums.high < np.inf) or (is_normalized and not sums.are_one):
            raise ArtifactError(
                f"the probabilities of the table sum to {sums.low:.4g} at the lowest and {sums.high:.4g} at the "
                "highest, not to one: the model is damaged"
            )

    def check_layout(self, n_types: int, is_normalized: bool) -> None:
        """Check a table that was saved. Raises ArtifactError.

        The layout is checked so that no look-up can leave the table. A small table is read and checked whole. A large
        one may be a mapped file, so it is not read here: errors in it are found when it is used, or by `check`.
        """
        layout, order = self.layout, self.order
        if layout.shape[1] != len(LAYOUT):
            raise ArtifactError(
                f"the array 'ngrams.layout' has {layout.shape[1]} columns, and not the {len(LAYOUT)} that a table has"
            )
        if not 1 <= order <= MAX_ORDER or layout[0, 0] != n_types:
            raise ArtifactError(
                f"the array 'ngrams.layout' has {order} orders and {layout[:1, 0]} types, where "
                f"there are at most {MAX_ORDER} orders, and {n_types} types"
            )
        if not _is_possible(layout) or _compute_shape(layout)[1] != len(self.data):
            raise ArtifactError(
                "the array 'ngrams.layout' does not fit 'ngrams.data': the model is damaged"
            )
        if sum(self.sizes) <= _MAX_NGRAMS_TO_CHECK:
            self.check(is_normalized)


def _is_possible(layout: npt.NDArray[np.int64]) -> bool:
    """Return whether all numbers of a layout are in range, so that `_compute_shape` can be computed from them."""
    size, prob, backoff, near, lists, backoffs = layout.T
    if (layout < 0).any() or layout[-1, 2:].any():  # the highest order has no back-offs and places
        return False
    inner_backoff, inner_backoffs = backoff[:-1], backoffs[:-1]
    is_float = (inner_backoff == EXACT_BACKOFF) & (inner_backoffs == 0)
    n_codes = np.int64(1) << np.minimum(inner_backoff, EXACT_BACKOFF)
    is_code = (inner_backoff < EXACT_BACKOFF) & (inner_backoffs >= 1) & (inner_backoffs <= n_codes)
    return bool(
        (size <= _MAX_NGRAMS).all()
        and (near <= 48).all()
        and (((prob >= 1) & (prob <= 16)) | (prob == EXACT_PROB)).all()
        and (lists <= size // BLOCK + 1).all()
        and (is_float | is_code).all()
    )


def _compute_shape(layout: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
    """Return the ``shape`` of look-ups, int64 (order, the columns of `tacenda_lm.ngram`), and the words of the data."""
    order, n_types = len(layout), int(layout[0, 0])
    shape = []
    end = 0
    for n, (size, prob, backoff, near, lists, backoffs) in enumerate(layout.tolist()):
        word = (n_types - 1).bit_length() if n else 0
        width = word + prob + backoff + near
        inner = n < order - 1
        records = end
        # one more word, as a field is read from two words
        blocks = records + -(-(size + inner) * width // 64) + 1
        far = blocks + (size // BLOCK + 1 if inner else 0)
        values = far + lists * BLOCK
        probs = values + -(-backoffs // 2)
        end = probs + ((1 << prob) // 2 if prob < EXACT_PROB else 0)
        row = (size, width, records * 64, word, prob, backoff, near)
        shape.append((*row, blocks, far, lists, values, probs, backoffs))
    return np.array(shape, np.int64), end
