"""From the n-grams of an ARPA file to a table: sorted, and completed where a pruned model left gaps.

A look-up goes from shorter to longer n-grams, so of every n-gram that is listed the one without its last word and
the one without its first word must be listed too. A missing one is added with the probability that backing off
gives it, and with a back-off factor of one, so that no probability changes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacenda.errors import DataError
from tacenda_lm.ngram.counts import Int64
from tacenda_lm.ngram.table import Table
from tacenda_lm.sequences import Float64

__all__ = ["Listed", "table_of"]

_LN10 = math.log(10)


class Listed(NamedTuple):
    """The n-grams of one order as a file lists them."""

    words: Int64  # (n-grams, order), ids
    log_prob: Float64  # (n-grams,), base 10
    backoff: Float64  # (n-grams,), base 10; 0 where there is none


class _Level(NamedTuple):
    """One order of the table; an n-gram's key is the number of its prefix * types + its last word."""

    keys: Int64  # sorted
    own: Int64  # the place of each n-gram of the file


def table_of(orders: list[Listed], n_types: int) -> tuple[Table, int]:
    """Return the table, and how many n-grams were added.

    Parameters
    ----------
    orders
        The n-grams of each order; the unigrams are all types in the order of their ids.
    n_types
        The number of types.

    Raises
    ------
    DataError
        An n-gram is listed twice.
    """
    rows = [each.words for each in orders]
    while True:
        levels = _sorted(rows, n_types)
        suffixes, missing = _suffixes(levels, n_types)
        if missing is None:
            break
        order, words = missing
        rows[order - 1] = np.concatenate([rows[order - 1], words])
    log_probs: list[Float64] = []
    backoffs: list[Float64] = []
    n_added = 0
    for n, (level, listed, suffix) in enumerate(zip(levels, orders, suffixes, strict=True), 1):
        own = level.own[: len(listed.words)]
        _check_once(own, n)
        log_prob = np.full(len(level.keys), np.nan)
        backoff = np.zeros(len(level.keys))
        log_prob[own], backoff[own] = listed.log_prob * _LN10, listed.backoff * _LN10
        added = np.flatnonzero(np.isnan(log_prob))
        if len(added):
            prefix = level.keys[added] // n_types
            log_prob[added] = backoffs[-1][prefix] + log_probs[-1][suffix[added]]
            n_added += len(added)
        log_probs.append(log_prob)
        backoffs.append(backoff)
    prefixes, last_words = zip(*(np.divmod(level.keys, n_types) for level in levels), strict=True)
    return Table.of_orders(list(prefixes), list(last_words), log_probs, backoffs[:-1]), n_added


def _sorted(rows: list[Int64], n_types: int) -> list[_Level]:
    """Every order's n-grams, with the beginnings of longer ones, sorted and numbered."""
    numbers = [each[:, 0].astype(np.int64) for each in rows]
    levels = [_Level(np.arange(n_types), numbers[0])]
    for k in range(1, len(rows)):
        keys = [numbers[n] * n_types + rows[n][:, k] for n in range(k, len(rows))]
        distinct, places = np.unique(np.concatenate(keys), return_inverse=True)
        cuts = np.cumsum([len(each) for each in keys])[:-1]
        numbers[k:] = np.split(places, cuts)
        levels.append(_Level(distinct, numbers[k]))
    return levels


def _suffixes(levels: list[_Level], n_types: int) -> tuple[list[Int64], tuple[int, Int64] | None]:
    """For each n-gram the number, in the order below, of what it is without its first word.

    If some of these are not listed, stop at the lowest such order and return it with the missing words.
    """
    found = [np.zeros(n_types, np.int64)]
    for k in range(1, len(levels)):
        prefix, word = np.divmod(levels[k].keys, n_types)
        if k == 1:
            found.append(word)
            continue
        wanted = found[-1][prefix] * n_types + word
        below = levels[k - 1].keys
        places = np.minimum(np.searchsorted(below, wanted), len(below) - 1)
        missing = np.flatnonzero(below[places] != wanted)
        if len(missing):
            return found, (k, _words(levels, k, missing)[:, 1:])
        found.append(places)
    return found, None


def _words(levels: list[_Level], k: int, places: Int64) -> Int64:
    """The words of n-grams at these places of the order k + 1: (n-grams, k + 1)."""
    n_types = len(levels[0].keys)
    columns = []
    for level in levels[k:0:-1]:
        places, word = np.divmod(level.keys[places], n_types)
        columns.append(word)
    return np.stack([places, *columns[::-1]], axis=1)


def _check_once(own: Int64, order: int) -> None:
    """Raise DataError if two n-grams of the file came to the same place."""
    times = np.bincount(own, minlength=1)
    if times.max() < 2:
        return
    line = int(np.flatnonzero(own == times.argmax())[1])
    raise DataError(f"{order}-gram number {line + 1} is listed twice: one probability for each")
