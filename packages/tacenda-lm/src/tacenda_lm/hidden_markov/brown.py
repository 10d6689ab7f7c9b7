"""Agglomerative word classes: Brown clustering (Brown et al. 1992, section 3; Liang 2005, section 4.2).

The most frequent C words are a class each; every next word, the most frequent first, makes one class too many, and the
two classes are merged that lose least of the mutual information of neighbouring classes. At last the C classes are
merged to one: a binary tree, whose paths are the words' bit strings. Words not yet taken in stand as neighbours all the
same, as if they were one word, and so does ``</s>``, which is never merged. O(V C^2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from tacenda.progress import Progress, track
from tacenda_lm.sequences import Ids

__all__ = ["Agglomeration", "agglomerate"]

_Ints = npt.NDArray[np.int64]
_Neighbours = tuple[_Ints, _Ints, _Ints]
_PIECE = 200  # words between two moves of the progress bar
_SLACK = 1e-12  # of the text's n log n: what is lost to rounding in a loss that is kept up to date


class Agglomeration(NamedTuple):
    """Words by rank, the most frequent first, and what became of them.

    Attributes
    ----------
    order
        Their ids (words,), those that occur and are not ``</s>``.
    merged
        Leaders of the classes merged, by rank, in the order of the mergers (words - 1, 2); the first of both
        is the more frequent word, and leads on.
    n_classes
        C, or the number of words if that is less.
    """

    order: _Ints
    merged: _Ints
    n_classes: int

    def classes(self) -> _Ints:
        """The class of each word (words,), 0 to C - 1, numbered by the most frequent word of each."""
        leaders = np.arange(len(self.order))
        for first, second in self.merged[: len(self.order) - self.n_classes][::-1].tolist():
            leaders[second] = leaders[first]
        return np.unique(leaders, return_inverse=True)[1]

    def paths(self) -> list[str]:
        """The bit string of each class; "" if there is one class only."""
        leading = np.setdiff1d(
            np.arange(len(self.order)), self.merged[: len(self.order) - self.n_classes, 1]
        )
        found = {}
        if len(leading):
            found[0] = ""
        for first, second in self.merged[len(self.order) - self.n_classes :][::-1].tolist():
            found[first], found[second] = found[first] + "0", found[first] + "1"
        return [found[leader] for leader in leading.tolist()]


def agglomerate(
    stream: Ids, n_types: int, n_classes: int, *, boundary: int, min_count: int = 1
) -> Agglomeration:  # fmt: skip
    """Brown clusters of the words of a text.

    Parameters
    ----------
    stream
        The text as one row of ids, ``boundary`` before and after every sentence.
    n_types
        Words, those that do not occur included.
    n_classes
        C, at least 1.
    boundary
        The id of ``</s>``.
    min_count
        Rarer words wait for ever: they are neighbours as one, and have no class.
    """
    from tacenda_lm.hidden_markov.merging import Window, insert_words, merge_all

    counts = np.bincount(stream[1:], minlength=n_types)
    order = np.argsort(-counts, kind="stable")
    order = order[(order != boundary) & (counts[order] >= min_count)]
    rank = np.full(n_types, len(order))  # of what is never taken in
    rank[order], rank[boundary] = np.arange(len(order)), -1
    first, second = rank[stream[:-1]], rank[stream[1:]]
    waiting = np.zeros((2, 2), np.int64)
    np.add.at(waiting, ((first >= 0).astype(int), (second >= 0).astype(int)), 1)
    after, before = (
        _neighbours(first, second, len(order)),
        _neighbours(second, first, len(order)),
    )
    window = Window.empty(waiting, len(order), n_classes)
    slack = _SLACK * len(stream) * np.log(max(len(stream), 2))
    given = after, before, counts[order], window, slack
    bar: Progress[object] = track(None, "Brown clusters", total=len(order), unit="word")
    with bar:
        for begin in range(0, len(order), _PIECE):
            end = min(begin + _PIECE, len(order))
            insert_words(begin, end, n_classes, *given)
            bar.update(end - begin)
    n_classes = min(n_classes, len(order))
    merge_all(len(order) - n_classes, n_classes, window, slack)
    return Agglomeration(order, window.merged, n_classes)


def _neighbours(of: _Ints, neighbours: _Ints, n_words: int) -> _Neighbours:
    """For every word the words beside it and how often: borders, words (-1 for ``</s>``), counts."""
    some = (of >= 0) & (of < n_words)
    pairs = of[some], neighbours[some] + 1
    found = csr_matrix((np.ones(some.sum(), np.int64), pairs), shape=(n_words, n_words + 2))
    found.sum_duplicates()
    found.sort_indices()
    return (
        found.indptr.astype(np.int64),
        found.indices.astype(np.int64) - 1,
        found.data.astype(np.int64),
    )
