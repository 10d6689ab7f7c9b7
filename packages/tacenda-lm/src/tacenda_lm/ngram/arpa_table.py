"""From the n-grams of an ARPA file to a table, with those that a pruned model left out.

A look-up goes from shorter to longer n-grams, so of every n-gram that is listed the one without its last word and the
one without its first word must be listed too. A missing one is added with the probability that backing off gives it,
and with a back-off factor of one, so that no probability changes.
"""

from __future__ import annotations

import math

import numpy as np

from tacenda.errors import ArtifactError, DataError
from tacenda_lm.ngram.counts import Int64
from tacenda_lm.ngram.packing import TableWriter
from tacenda_lm.ngram.rows import Packing, Rows
from tacenda_lm.ngram.spooling import Scratch, default_budget
from tacenda_lm.ngram.table import Sums, Table
from tacenda_lm.sequences import Float64

__all__ = ["table_of"]

_LN10 = math.log(10)


def table_of(orders: list[Rows], packing: Packing, words: list[str]) -> tuple[Table, Sums, int]:
    """Return the table, what its probabilities sum to, and how many n-grams were added.

    ``orders`` holds the n-grams of each order as rows in any order, the unigrams by id: the key, the first word first,
    log-probability and back-off, float64, base 10. Raises DataError where one is listed twice.
    """
    from tacenda_lm.ngram import row_kernels

    for n, rows in enumerate(orders[1:], 2):
        n_keys = packing.columns(n)
        row_kernels.sort_rows(rows, n_keys)
        same = np.flatnonzero((rows[1:, :n_keys] == rows[:-1, :n_keys]).all(axis=1))
        if len(same):
            twice = " ".join(words[w] for w in packing.words(rows[same[:1]], n)[0])
            raise DataError(f"the {n}-gram {twice!r} is listed twice: one probability for each")
    prefixes = [_prefixes(orders, n, packing) for n in range(2, len(orders) + 1)]
    if all((places >= 0).all() for places in prefixes):
        table = _packed(orders, prefixes, packing)
        try:
            return table, table.sums(), 0
        except ArtifactError:  # an n-gram is listed without its last words
            pass
    n_added = _complete(orders, packing)
    table = _packed(
        orders, [_prefixes(orders, n, packing) for n in range(2, len(orders) + 1)], packing
    )
    return table, table.sums(), n_added


def _prefixes(orders: list[Rows], n: int, packing: Packing) -> Int64:
    """The place of every n-gram of n words without its last one in the order below, -1 where it is not listed."""
    from tacenda_lm.ngram import row_kernels

    rows, below = orders[n - 1], orders[n - 2]
    places = np.empty(len(rows), np.int64)
    row_kernels.parents(rows, *packing.without_last(n), below, packing.columns(n - 1), places)
    return places


def _packed(orders: list[Rows], prefixes: list[Int64], packing: Packing) -> Table:
    """The table of sorted n-grams, of which none is missing."""
    with Scratch(default_budget()) as scratch:
        writer = TableWriter(len(orders), len(orders[0]), scratch)
        for n, rows in enumerate(orders, 1):
            log_probs, _ = _values(rows)
            writer.add_ngrams(n, packing.last(rows, n), log_probs * _LN10)
            if n > 1:
                n_after = np.bincount(prefixes[n - 2], minlength=len(orders[n - 2]))
                writer.add_contexts(n - 1, n_after, _values(orders[n - 2])[1] * _LN10)
                writer.end_order(n - 1)
        writer.end_order(len(orders))
        return Table(*writer.finish())


def _values(rows: Rows) -> Float64:
    """Log-probabilities and back-offs of rows, base 10: views (2, n-grams)."""
    return rows[:, -2:].view(np.float64).T


def _complete(orders: list[Rows], packing: Packing) -> int:
    """Add the n-grams that are missing, in place; return how many."""
    from tacenda_lm.ngram import row_kernels

    n_added = 0
    for n in range(len(orders), 2, -1):
        words = packing.words(orders[n - 1], n)
        for part in (words[:, :-1], words[:, 1:]):
            wanted = np.unique(packing.keys(part), axis=0)
            missing = wanted[_places(wanted, orders[n - 2]) < 0]
            rows = np.hstack([missing, np.zeros((len(missing), 2), np.uint64)])
            _values(rows)[0] = np.nan
            orders[n - 2] = np.concatenate([orders[n - 2], rows])
            row_kernels.sort_rows(orders[n - 2], missing.shape[1])
            n_added += len(missing)
    for n in range(2, len(orders)):
        log_probs, _ = _values(orders[n - 1])
        added = np.flatnonzero(np.isnan(log_probs))
        if len(added):
            below, backoffs = _values(orders[n - 2])
            suffix = packing.keys(packing.words(orders[n - 1][added], n)[:, 1:])
            prefix = _prefixes(orders, n, packing)[added]
            log_probs[added] = backoffs[prefix] + below[_places(suffix, orders[n - 2])]
    return n_added


def _places(keys: Rows, rows: Rows) -> Int64:
    """The place of every key (keys, columns) in sorted rows, -1 where it is not there."""
    from tacenda_lm.ngram import row_kernels

    n_keys = keys.shape[1]
    by_key = np.lexsort(keys.T[::-1])
    found = np.empty(len(keys), np.int64)
    row_kernels.parents(keys[by_key], 0, np.uint64(2**64 - 1), rows, n_keys, found)
    places = np.empty(len(keys), np.int64)
    places[by_key] = found
    return places
