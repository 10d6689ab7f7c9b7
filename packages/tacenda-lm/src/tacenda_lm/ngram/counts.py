"""Counting: the distinct n-grams of a text of every order, with their counts, in bounded memory.

A sentence is read as ``<s> w_1 ... w_m </s>``, and both marks have the id of ``</s>``: in the first place of an n-gram
the id can only mean ``<s>``, in the last place only ``</s>``.

Each word is counted with the N - 1 before it, or as many as there are. These rows are sorted by their last words (see
``rows``), so the n-grams of every lower order come out of one pass: in that order, those with the same last n words
are neighbours (as in lmplz: Heafield et al., "Scalable Modified Kneser-Ney Language Model Estimation", ACL 2013).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.errors import DataError
from tacenda.progress import Progress, track
from tacenda_lm.ngram.rows import Packing, Rows
from tacenda_lm.ngram.spooling import Scratch, Sorter, Spool
from tacenda_lm.sequences import Ids, Offsets

__all__ = [
    "HIGHEST_COUNT",
    "Counted",
    "Int64",
    "by_order",
    "count_ngrams",
    "counts_of",
    "sorted_rows",
]

Int64 = npt.NDArray[np.int64]

HIGHEST_COUNT = 103
"""Counts from this one on are counted together in the counts of counts."""
_MOST_TOKENS = 2**31  # with as many ends of sentences, what is counted fits 32 bits


class Counted(NamedTuple):
    """The distinct n-grams of a text.

    A row of ``orders`` holds the key of an n-gram, the last word first, and a column with its counts, which
    `counts_of` splits. A row whose key ends in nothing is no n-gram but a shorter one at the beginning of a sentence.
    """

    packing: Packing
    unigrams: Int64  # (2, types): adjusted counts, and occurrences without those of <s>
    orders: list[Spool]  # n-grams of 2, 3 ... words, sorted
    counts_of_counts: Int64  # (order, 2, HIGHEST_COUNT + 1): of adjusted counts, and of occurrences


def counts_of(column: Rows) -> tuple[Int64, Int64]:
    """Return the adjusted counts and the occurrences that a column (n-grams,) holds, int64."""
    return (column >> np.uint64(32)).astype(np.int64), (column & np.uint64(2**32 - 1)).astype(
        np.int64
    )


def count_ngrams(
    blocks: Iterable[tuple[Ids, Offsets]],
    n_tokens: int,
    n_types: int,
    boundary: int,
    order: int,
    scratch: Scratch,
) -> Counted:
    """Count the n-grams of every order from 1 to ``order``.

    Parameters
    ----------
    blocks
        The text in blocks of whole sentences: ids (tokens,) and offsets (sentences + 1,). A ``</s>`` written inside a
        sentence ends it.
    n_tokens
        How many tokens the text has, for the progress bar and to refuse what cannot be counted.
    n_types, boundary
        The number of types, all of which are unigrams, even those not in the text; and the id of ``</s>``.
    order
        The length of the longest n-grams.
    scratch
        Where to keep what does not fit into memory.

    Raises
    ------
    DataError
        The text has more than 2^31 tokens, or the disk is full.
    """
    if n_tokens > _MOST_TOKENS:
        raise DataError(f"a text of {n_tokens} tokens is too long: {_MOST_TOKENS} can be counted")
    return by_order(
        sorted_rows(blocks, n_tokens, n_types, boundary, order, scratch), n_types, order, scratch
    )


def sorted_rows(
    blocks: Iterable[tuple[Ids, Offsets]],
    n_tokens: int,
    n_types: int,
    boundary: int,
    order: int,
    scratch: Scratch,
) -> Iterator[Rows]:
    """Yield the distinct rows of a text, sorted, each word with the ``order`` - 1 before it, and how often it occurs.

    The arguments are those of `count_ngrams`. Rows of two texts, sorted together and added up, are those of both.
    """
    from tacenda_lm.ngram import row_kernels

    packing = Packing.of(n_types)
    n_keys = packing.columns(order)
    sorter = Sorter(scratch, n_keys, n_keys + 1, adds=True)
    bar: Progress[object] = track(None, "counting n-grams", total=n_tokens, unit="token")
    with bar:
        for whole_ids, whole_offsets in blocks:
            ids, offsets = _split_at(whole_ids, whole_offsets, boundary)
            rows = np.zeros((len(ids) + len(offsets) - 1, n_keys + 1), np.uint64)
            row_kernels.rows_of_text(ids, offsets, boundary, order, *packing, rows)
            sorter.append(rows)
            bar.update(len(whole_ids))
    yield from sorter.sorted()


def _split_at(ids: Ids, offsets: Offsets, boundary: int) -> tuple[Ids, Offsets]:
    """Cut sentences where a ``</s>`` is written in them; empty ones are left out."""
    written = np.flatnonzero(ids == boundary)
    if not len(written):
        return ids, offsets
    kept = np.delete(ids, written)
    cuts = np.unique(np.concatenate([offsets, written]))
    return kept, np.unique(cuts - np.searchsorted(written, cuts))


def by_order(rows: Iterable[Rows], n_types: int, order: int, scratch: Scratch) -> Counted:
    """Find the n-grams of all orders in `sorted_rows`; their counts must be below 2^32."""
    from tacenda_lm.ngram import row_kernels

    packing = Packing.of(n_types)
    spools = [Spool(scratch, packing.columns(n) + 1) for n in range(2, order + 1)]
    tally = np.zeros((order, 2, HIGHEST_COUNT + 1), np.int64)
    unigrams = np.zeros((2, n_types), np.int64)
    open_rows: list[Rows] = [np.empty((0, packing.columns(n) + 1), np.uint64) for n in range(order)]

    def take(n: int, found: Rows) -> None:
        """Keep rows of order n, of which no more come, and hand them down."""
        if not len(found):
            return
        adjusted, occurrences = counts_of(found[:, -1])
        words = packing.last(found, n)
        real = words >= 0
        for counts, row in ((adjusted, tally[n - 1, 0]), (occurrences, tally[n - 1, 1])):
            row += np.bincount(np.minimum(counts[real], HIGHEST_COUNT), minlength=len(row))
        if n == 1:
            unigrams[0, words], unigrams[1, words] = adjusted, occurrences
            return
        spools[n - 2].append(found)
        begun = open_rows[n - 1]
        out = np.empty((len(found) + len(begun), packing.columns(n - 1) + 1), np.uint64)
        out[: len(begun)] = begun
        column, kept = packing.without_last(n)
        n_out = row_kernels.shortened(found, packing.columns(n), column, kept, out, len(begun))
        open_rows[n - 1] = out[n_out - 1 : n_out].copy()
        take(n - 1, out[: n_out - 1])

    for found in rows:
        found[:, -1] |= found[:, -1] << np.uint64(32)  # the counts of the highest order are both
        take(order, found)
    for n in range(order, 1, -1):
        rest, open_rows[n - 1] = open_rows[n - 1], np.empty((0, 1), np.uint64)
        take(n - 1, rest)
    missing = int(n_types - tally[0, 0].sum())
    tally[0, :, 0] += missing  # types that the text does not have
    return Counted(packing, unigrams, spools, tally)
