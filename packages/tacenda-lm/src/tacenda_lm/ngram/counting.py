"""Counting: the distinct n-grams of a text of every order, with their counts, in bounded memory; imports numba.

A sentence is read as ``<s> w_1 ... w_m </s>``, and both marks have the id of ``</s>``: in the first place of an n-gram
the id can only mean ``<s>``, in the last place only ``</s>``.

Each word is counted with the N - 1 before it, or as many as there are. These rows (see `rows`) are sorted by their last
words, so the n-grams of every lower order come out of one pass: those with the same last n words are neighbors (as in
lmplz: Heafield et al., "Scalable Modified Kneser-Ney Language Model Estimation", ACL 2013).
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np

from tacenda.corpus import Corpus
from tacenda.errors import DataError
from tacenda.kernels.machinery.compiled import njit
from tacenda.progress import Progress, track
from tacenda_lm.ngram.rows import Int64, Packing, Rows
from tacenda_lm.ngram.spooling import Scratch, Sorter, Spool

_MAX_TOKENS = 2**31  # with as many ends of sentences, counts fit into 32 bits
_MAX_COUNT = 103  # larger counts are tallied as this one in the counts of counts
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


class Counted(NamedTuple):
    """The distinct n-grams of a text.

    A row of ``orders`` has the key of an n-gram, the last word first, and one column with its counts, which
    `split_counts` splits. A row with fewer words in its key is a shorter n-gram at the beginning of a sentence.
    """

    packing: Packing
    unigrams: Int64  # (2, types): adjusted counts, and occurrences, in which <s> is not counted
    orders: list[Spool]  # n-grams of 2, 3 ... words, sorted
    counts_of_counts: Int64  # (order, 2, highest count + 1): of adjusted counts, and of occurrences


def split_counts(column: Rows) -> tuple[Int64, Int64]:
    """Return the adjusted counts and the occurrences in a column of counts, both int64 (n-grams,)."""
    return (column >> _HALF).view(np.int64), (column & _LOW_HALF).view(np.int64)


def count_sorted_rows(corpus: Corpus, order: int, scratch: Scratch) -> Iterator[Rows]:
    """Yield the distinct rows of a text, sorted: each word after the ``order`` - 1 before it, and how often it occurs.

    A ``</s>`` written inside a sentence ends it. Rows of two texts, sorted together and added up, are the rows of both.
    Raises DataError for a text of more than 2^31 tokens, or where the disk is full.
    """
    if corpus.n_tokens > _MAX_TOKENS:
        raise DataError(
            f"the text has {corpus.n_tokens:,} tokens, and at most {_MAX_TOKENS:,} can be counted: fit a part of it"
        )
    boundary = corpus.vocabulary.boundary_id
    packing = Packing.of(len(corpus.vocabulary))
    n_keys = packing.columns(order)
    sorter = Sorter(scratch, n_keys, n_keys + 1, adds=True)
    bar: Progress[object] = track(None, "counting n-grams", total=corpus.n_tokens, unit="token")
    with closing(bar):
        for whole_ids, whole_offsets in corpus.blocks(scratch.rows_of_block(order)):
            ids, offsets = whole_ids, whole_offsets
            written = np.flatnonzero(ids == boundary)
            if len(written):
                # cut sentences there; two cuts without a word between them are one, so that no sentence is empty
                ids, cuts = np.delete(ids, written), np.union1d(offsets, written)
                offsets = np.unique(cuts - np.searchsorted(written, cuts))
            rows = np.zeros((len(ids) + len(offsets) - 1, n_keys + 1), np.uint64)
            write_text_rows(ids, offsets, boundary, order, *packing, rows)
            sorter.append(rows)
            bar.update(len(whole_ids))
    yield from sorter.read_sorted()


def count_by_order(rows: Iterable[Rows], n_types: int, order: int, scratch: Scratch) -> Counted:
    """Find the n-grams of all orders in the rows of `count_sorted_rows`; their counts must be below 2^32.

    All ``n_types`` types are unigrams, even those that are not in the text.
    """
    packing = Packing.of(n_types)
    spools = [Spool(scratch, packing.columns(n) + 1) for n in range(2, order + 1)]
    tally = np.zeros((order, 2, _MAX_COUNT + 1), np.int64)
    unigrams = np.zeros((2, n_types), np.int64)
    # the last row of each order, to which the next block may add
    open_rows: list[Rows] = [np.empty((0, packing.columns(n) + 1), np.uint64) for n in range(order)]

    def add(n: int, block: Rows) -> None:
        """Store complete rows of order n, and add the rows of the order below that come from them."""
        if not len(block):
            return
        adjusted, occurrences = split_counts(block[:, -1])
        words = packing.last(block, n)
        is_whole = words >= 0
        for counts, row in ((adjusted, tally[n - 1, 0]), (occurrences, tally[n - 1, 1])):
            row += np.bincount(np.minimum(counts[is_whole], _MAX_COUNT), minlength=len(row))
        if n == 1:
            unigrams[0, words], unigrams[1, words] = adjusted, occurrences
            return
        spools[n - 2].append(block)
        begun = open_rows[n - 1]
        out = np.empty((len(block) + len(begun), packing.columns(n - 1) + 1), np.uint64)
        out[: len(begun)] = begun
        column, mask = packing.without_last(n)
        n_out = drop_first_words(block, packing.columns(n), column, mask, out, len(begun))
        open_rows[n - 1] = out[n_out - 1 : n_out].copy()
        add(n - 1, out[: n_out - 1])

    for block in rows:
        # in the highest order the adjusted counts are the occurrences: no longer n-grams say what comes before
        block[:, -1] |= block[:, -1] << _HALF
        add(order, block)
    for n in range(order, 1, -1):
        last, open_rows[n - 1] = open_rows[n - 1], np.empty((0, 1), np.uint64)
        add(n - 1, last)
    tally[0, :, 0] += n_types - tally[0, 0].sum()  # types that the text does not have
    return Counted(packing, unigrams, spools, tally)


# -- compiled loops ------------------------------------------------------------------------------------


@njit
def write_text_rows(ids, offsets, boundary, order, bits, per_column, rows):
    """Write one row for each word and each end of a sentence: it, the words before it, latest first, and a count of 1.

    ``ids`` (tokens,) and ``offsets`` (sentences + 1,) are a text; ``rows`` (tokens + sentences, columns) are zeros. The
    first word follows ``<s>``, which has the id ``boundary``; no word comes before that, which is packed as 0.
    """
    last = rows.shape[1] - 1
    i = 0
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        for t in range(begin, end + 1):
            column, shift = 0, 64 - bits
            for k in range(min(order, t - begin + 2)):
                w = boundary if t - k in (end, begin - 1) else ids[t - k]
                rows[i, column] |= np.uint64(w + 1) << np.uint64(shift)
                shift -= bits
                if k % per_column == per_column - 1:
                    column += 1
                    shift = 64 - bits
            rows[i, last] = np.uint64(1)
            i += 1


@njit
def drop_first_words(rows, n_keys, column, mask, out, n_out):
    """Append the distinct n-grams without their first words to ``out``; return how many rows that then has.

    ``rows`` are sorted, and their keys have the latest word first; in ``column``, ``mask`` covers the bits of the words
    that stay. The column after the key has the occurrences in its lower half, and in its upper half the adjusted count:
    the number of distinct words before the n-gram, or its occurrences where it begins with ``<s>``. ``out`` has
    ``n_out`` rows, the last of which may continue.
    """
    keys_out = out.shape[1] - 1
    for i in range(len(rows)):
        same = n_out > 0
        for k in range(keys_out):
            key = rows[i, k] & mask if k == column else rows[i, k]
            same = same and out[n_out - 1, k] == key
        if not same:
            for k in range(keys_out):
                out[n_out, k] = rows[i, k] & mask if k == column else rows[i, k]
            out[n_out, keys_out] = np.uint64(0)
            n_out += 1
        occurrences = rows[i, n_keys] & _LOW_HALF
        is_beginning = rows[i, column] & ~mask == 0  # there is no word before
        adjusted = occurrences if is_beginning else np.uint64(1)
        out[n_out - 1, keys_out] += (adjusted << _HALF) + occurrences
    return n_out
