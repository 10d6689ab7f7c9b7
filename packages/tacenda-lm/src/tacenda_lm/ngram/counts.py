"""Counting: the distinct n-grams of a text, order by order, as sorted integer arrays.

An n-gram w_1 ... w_n is a number: its place among the n-grams of its order, sorted by (number of w_1 ...
w_{n-1}, w_n). The numbers of unigrams are the word ids. A sentence is read as ``<s> w_1 ... w_m </s>``, and
both marks have the id of ``</s>``: in the first place of an n-gram the id can only mean ``<s>``, in the last place
only ``</s>``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.progress import track
from tacenda_lm.sequences import Ids, Offsets

__all__ = ["Grams", "Int64", "count_grams"]

Int64 = npt.NDArray[np.int64]


class Grams(NamedTuple):
    """The distinct n-grams of one order, sorted by (prefix, word); all arrays are (n-grams,)."""

    prefix: Int64  # number of w_1 ... w_{n-1} in the order below
    word: Int64  # id of w_n
    suffix: Int64  # number of w_2 ... w_n in the order below
    occurrences: Int64
    at_start: npt.NDArray[np.bool_]  # whether w_1 is <s>


def count_grams(ids: Ids, offsets: Offsets, n_types: int, boundary: int, order: int) -> list[Grams]:
    """Count the n-grams of every order from 1 to ``order``; the unigrams are all types, even those not in the text.

    A ``</s>`` written inside a sentence ends it. The count of the unigram ``</s>`` is that of ends, without ``<s>``.
    """
    ids, offsets = _split_at(ids, offsets, boundary)
    stream, age = _read(ids, offsets, boundary)
    unigrams = np.bincount(stream[age > 0], minlength=n_types)
    nothing = np.zeros(n_types, np.int64)
    found = [Grams(nothing, np.arange(n_types), nothing, unigrams, np.zeros(n_types, bool))]
    number = stream  # of the n-gram that ends at each place; -1 where too few words stand before
    for n in track(range(2, order + 1), "counting n-grams", unit="order"):
        places = np.flatnonzero(age >= n - 1)
        keys = number[places - 1] * n_types + stream[places]
        sorting = np.argsort(keys)
        keys = keys[sorting]
        is_first = np.ones(len(keys), bool)
        is_first[1:] = keys[1:] != keys[:-1]
        first = np.flatnonzero(is_first)
        example = places[sorting[first]]  # a place where each n-gram ends
        prefix, word = np.divmod(keys[first], n_types)
        count = np.diff(np.append(first, len(keys)))
        found.append(Grams(prefix, word, number[example], count, age[example] == n - 1))
        number = np.full(len(stream), -1)
        number[places[sorting]] = np.cumsum(is_first) - 1
    return found


def _read(ids: Ids, offsets: Offsets, boundary: int) -> tuple[Int64, Int64]:
    """The text with both marks (tokens + 2 sentences,), and the distance of each place from its ``<s>``."""
    lengths = np.diff(offsets) + 2
    starts = np.cumsum(lengths) - lengths
    age = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    stream = np.full(len(age), boundary, np.int64)
    inside = age > 0
    inside[starts + lengths - 1] = False
    stream[inside] = ids
    return stream, age


def _split_at(ids: Ids, offsets: Offsets, boundary: int) -> tuple[Ids, Offsets]:
    """Cut sentences where a ``</s>`` is written in them; empty ones are left out."""
    written = np.flatnonzero(ids == boundary)
    if not len(written):
        return ids, offsets
    kept = np.delete(ids, written)
    cuts = np.unique(np.concatenate([offsets, written]))
    return kept, np.unique(cuts - np.searchsorted(written, cuts))
