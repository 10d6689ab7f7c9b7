"""The agglomeration of words to a binary tree (Brown et al. 1992, section 3; Liang 2005, section 4.2).

The most frequent C words begin as one class each. Every other word, the most frequent first, is inserted as a class of
its own, and then the two classes are merged that lose the least mutual information of neighboring classes. Finally the
C classes are merged to one: a binary tree, whose paths are the words' bit strings. Words that wait to be inserted count
as one neighbor of others, and so does ``</s>``, which is never merged. O(V C^2).

The loss of merging a and b is kept up to date for every pair (Liang 2005, section 4.2), in nats of the text:

    loss(a, b) = 2 h(n_a, n_b) - sum_c (h(N_ac, N_bc) + h(N_ca, N_cb)) - the cells of a and b among themselves,
    h(x, y) = g(x + y) - g(x) - g(y),    g(n) = n log n.

A merger, or a new word, changes only one context of all other pairs, so only the neighbors of the smaller part are
visited.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda.corpus.pair_counts import stack_row_blocks
from tacenda.kernels.counts import Counts
from tacenda.kernels.machinery.compiled import njit
from tacenda.progress import Progress, track
from tacenda_lm.hidden_markov.word_pairs import Neighbors, WordPairs
from tacenda_lm.sequences import Ids

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
_WORDS_AT_ONCE = 200  # inserted between two updates of the progress bar
_SLACK = 1e-12  # rounding error of a loss that is kept up to date, as a share of the text's n log n
# places of </s>, of the words that wait to be inserted, of the first class
BOUNDARY, WAITING, FIRST = 0, 1, 2
_TABLE_SIZE = 1 << 16  # of n log n for small n
_FAST = {"contract"}


class Agglomeration(NamedTuple):
    """Words by rank, the most frequent first, and the mergers of their classes.

    A class is led by its most frequent word.
    """

    order: _Ints  # (words,), ids of the words that occur, without </s>
    merged: _Ints  # (words - 1, 2), ranks of the leaders of the classes merged; the first leads the new class
    n_classes: int  # C, or the number of words if that is less

    def classes(self) -> _Ints:
        """Return the class of each word (words,), 0 to C - 1, numbered in the order of their most frequent words."""
        leaders = np.arange(len(self.order))
        for first, second in self.merged[: len(self.order) - self.n_classes][::-1].tolist():
            leaders[second] = leaders[first]
        return np.unique(leaders, return_inverse=True)[1]

    def paths(self) -> list[str]:
        """Return the bit string of each class; "" if there is one class only."""
        cut = len(self.order) - self.n_classes
        leading = np.setdiff1d(np.arange(len(self.order)), self.merged[:cut, 1])
        paths = {0: ""}
        for first, second in self.merged[cut:][::-1].tolist():
            paths[first], paths[second] = paths[first] + "0", paths[first] + "1"
        return [paths[leader] for leader in leading.tolist()]


def agglomerate(
    ids: Ids, n_types: int, n_classes: int, *, boundary: int, min_count: int = 1
) -> Agglomeration:
    """Find Brown clusters of the words of a text.

    ``ids`` are the text as one row, with ``boundary``, the id of ``</s>``, after every sentence.
    Words rarer than ``min_count`` are never inserted: they count as one neighbor of others, and have no class.
    """
    pairs = WordPairs(ids, n_types)
    counts = pairs.counts
    order = np.argsort(-counts, kind="stable")
    order = order[(order != boundary) & (counts[order] >= min_count)]
    rank = np.full(n_types, len(order))  # of words that are never inserted
    rank[order], rank[boundary] = np.arange(len(order)), -1
    waiting = np.zeros((2, 2), np.int64)
    for first, second, n in pairs.blocks():
        np.add.at(waiting, ((rank[first] >= 0).astype(int), (rank[second] >= 0).astype(int)), n)
    sides = pairs.after, pairs.before
    after, before = (_rank_neighbors(pairs, side, order, rank) for side in sides)
    window = Window.empty(waiting, len(order), n_classes)
    # losses are updated by adding and subtracting, so their last digits depend on the order of updates
    slack = _SLACK * len(ids) * np.log(max(len(ids), 2))
    given = after, before, counts[order], window, slack
    bar: Progress[object] = track(None, "Brown clusters", total=len(order), unit="word")
    with closing(bar):
        for begin in range(0, len(order), _WORDS_AT_ONCE):
            end = min(begin + _WORDS_AT_ONCE, len(order))
            _insert_words(begin, end, n_classes, *given)
            bar.update(end - begin)
    n_classes = min(n_classes, len(order))
    _merge_all(len(order) - n_classes, n_classes, window, slack)
    return Agglomeration(order, window.merged, n_classes)


def _rank_neighbors(pairs: WordPairs, of: Neighbors, order: _Ints, rank: _Ints) -> Neighbors:
    """Return the neighbors of words by rank: the words of ``order``, and -1 for ``</s>``, all ascending."""

    def rows() -> Iterator[Counts]:
        for start in range(0, len(order), _WORDS_AT_ONCE):
            block = order[start : start + _WORDS_AT_ONCE]
            begins, sizes = of.borders[block], of.borders[block + 1] - of.borders[block]
            borders = np.concatenate([[0], np.cumsum(sizes)])
            at = np.repeat(begins - borders[:-1], sizes) + np.arange(borders[-1])
            # rows of a sparse matrix, since scipy sorts and merges columns: </s> is column 0
            parts = of.counts[at], rank[of.words[at]] + 1, borders
            matrix = csr_array(parts, shape=(len(block), len(order) + 2))
            matrix.sum_duplicates()  # all words that are never inserted are one
            words = matrix.indices.astype(np.int32, copy=False) - np.int32(1)
            yield Counts(matrix.indptr.astype(np.int64), words, matrix.data)
            pairs.forget()

    return Neighbors.of(*stack_row_blocks(rows()))


class Window(NamedTuple):
    """The current classes, each at a place; counts of a free place are zero, and its losses are infinite."""

    N: _Ints  # (places, places), how often a class is followed by another
    NT: _Ints  # its transpose
    loss: _Floats  # (places, places), of a pair at [smaller, larger]
    mass: _Ints  # (places,), tokens of each class
    leader: _Ints  # (places,), rank of the most frequent word of each class; -1 for a free place
    place: _Ints  # (words,), of the class that a word leads; undefined for other words
    joined: _Ints  # (words,), the leader of the class a word was merged into, itself if it leads
    merged: _Ints  # (words - 1, 2), leaders of the classes merged, in the order of the mergers
    table: _Floats  # g(n) for small n

    @classmethod
    def empty(cls, waiting: _Ints, n_words: int, n_classes: int) -> Window:
        """Return the window before the first word; ``waiting`` (2, 2) counts pairs of ``</s>`` and words."""
        places = FIRST + min(n_classes, n_words) + 1
        N = np.zeros((places, places), np.int64)
        N[:FIRST, :FIRST] = waiting
        small = np.arange(1, _TABLE_SIZE)
        return cls(
            N,
            N.T.copy(),
            np.full((places, places), np.inf),
            np.zeros(places, np.int64),
            np.full(places, -1),
            np.zeros(n_words, np.int64),
            np.arange(n_words),
            np.zeros((max(n_words - 1, 0), 2), np.int64),
            np.concatenate([[0.0], small * np.log(small)]),
        )


@njit(fastmath=_FAST)
def _g(n, table):  # type: ignore[no-untyped-def]
    """Return n log n."""
    return table[n] if n < len(table) else n * math.log(n)


@njit(fastmath=_FAST)
def _h(x, y, table):  # type: ignore[no-untyped-def]
    """Return g(x + y) - g(x) - g(y)."""
    if x == 0 or y == 0:
        return 0.0
    return _g(x + y, table) - _g(x, table) - _g(y, table)


@njit(fastmath=_FAST)
def _join_context(large, small, sign, loss, table):  # type: ignore[no-untyped-def]
    """Update all losses where two contexts become one (sign 1), or one becomes two (sign -1).

    ``large`` and ``small`` (places,) say how often each class is next to either context.
    """
    # only pairs with a class next to the smaller context change; each is visited once
    for a in range(FIRST, len(small)):
        x, y = small[a], large[a]
        if x == 0:
            continue
        for b in range(FIRST, len(small)):
            w, z = small[b], large[b]
            if b == a or w + z == 0 or (w > 0 and b < a):
                continue
            if w == 0:
                gain = _g(x + y + z, table) - _g(y + z, table) - _g(x + y, table) + _g(y, table)
            else:
                gain = _h(x + y, w + z, table) - _h(y, z, table) - _h(x, w, table)
            loss[min(a, b), max(a, b)] -= sign * gain


@njit(fastmath=_FAST)
def _set_losses(m, window):  # type: ignore[no-untyped-def]
    """Compute the losses of all pairs with the class at place ``m`` from the counts."""
    N, NT, loss, mass, leader, _, _, _, table = window
    # first the classes that follow m, and those that m follows: nothing else adds to a gain
    neighbors = np.empty((2, len(N)), np.int64)
    n_after = n_before = 0
    for c in range(len(N)):
        if c != m and N[m, c] > 0:
            neighbors[0, n_after] = c
            n_after += 1
        if c != m and NT[m, c] > 0:
            neighbors[1, n_before] = c
            n_before += 1
    for b in range(FIRST, len(N)):
        if b == m or leader[b] < 0:
            continue
        gain = 0.0
        for direction in range(2):
            own, other = (N[m], N[b]) if direction == 0 else (NT[m], NT[b])
            n = n_after if direction == 0 else n_before
            for place in range(n):
                c = neighbors[direction, place]
                if c != b:
                    gain += _h(own[c], other[c], table)
        # the cells of both classes among themselves become one cell
        gain += _g(N[m, m] + N[m, b] + N[b, m] + N[b, b], table)
        gain -= _g(N[m, m], table) + _g(N[m, b], table) + _g(N[b, m], table) + _g(N[b, b], table)
        loss[min(m, b), max(m, b)] = 2 * _h(mass[m], mass[b], table) - gain


@njit(fastmath=_FAST)
def _merge(i, j, window):  # type: ignore[no-untyped-def]
    """Merge the class at place ``j`` into that at ``i``."""
    N, NT, loss, mass, leader, _, joined, _, table = window
    for counts in (N, NT):
        # rows are left neighbors in one and right ones in the other; losses of i and j are computed again at the end
        large, small = counts[i].copy(), counts[j].copy()
        if (large > 0).sum() < (small > 0).sum():
            large, small = small, large
        large[i] = large[j] = small[i] = small[j] = 0
        _join_context(large, small, 1.0, loss, table)
    # then the counts: row j into row i, column j into column i, and the transpose after them
    N[i] += N[j]
    N[:, i] += N[:, j]
    N[j], N[:, j] = 0, 0
    NT[:, i], NT[i] = N[i], N[:, i]
    NT[:, j], NT[j] = 0, 0
    loss[j, :] = loss[:, j] = np.inf
    mass[i] += mass[j]
    mass[j] = 0
    joined[leader[j]] = leader[i]
    leader[j] = -1
    _set_losses(i, window)


@njit(fastmath=_FAST)
def _merge_best(done, window, slack):  # type: ignore[no-untyped-def]
    """Merge the pair that costs least, or of equal ones that of the most frequent words; return the place left free."""
    loss, leader = window.loss, window.leader
    least = np.inf
    for a in range(FIRST, len(loss)):
        row = loss[a]
        for b in range(a + 1, len(loss)):
            least = min(least, row[b])
    # losses within the slack are equal; the pair led by the most frequent words is taken
    first, second = len(window.joined), len(window.joined)
    i = j = 0
    for a in range(FIRST, len(loss)):
        for b in range(a + 1, len(loss)):
            if loss[a, b] <= least + slack:
                one, two = min(leader[a], leader[b]), max(leader[a], leader[b])
                if one < first or (one == first and two < second):
                    first, second = one, two
                    i, j = (a, b) if leader[a] == one else (b, a)
    window.merged[done] = first, second
    _merge(i, j, window)
    return j


@njit(fastmath=_FAST)
def _leader_of(word, joined):  # type: ignore[no-untyped-def]
    """Find the word that leads a word's class, and shorten the path to it."""
    while joined[word] != word:
        joined[word] = joined[joined[word]]
        word = joined[word]
    return word


@njit(fastmath=_FAST)
def _insert(word, at, neighbors, window, count):  # type: ignore[no-untyped-def]
    """Move a waiting word into a new class at place ``at``."""
    N, NT, loss, mass, leader, place, joined, _, table = window
    # count the new class next to </s>, itself, the waiting words and the other classes
    for direction in range(2):
        borders, words, counts = neighbors[direction]
        M, MT = (N, NT) if direction == 0 else (NT, N)
        for n in range(borders[word], borders[word + 1]):
            near, x = words[n], counts[n]
            if near < 0:
                c = BOUNDARY
            elif near == word:
                c = at
            elif near > word:
                c = WAITING
            else:
                c = place[_leader_of(near, joined)]
            if c == at and direction == 1:
                continue  # a word after itself is counted once
            M[at, c] += x
            MT[c, at] = M[at, c]
    # the counts of the new class are subtracted from the counts of the waiting words
    for c in range(len(N)):
        if c != WAITING and c != at:
            N[WAITING, c] -= N[at, c]
            NT[WAITING, c] -= NT[at, c]
            N[c, WAITING], NT[c, WAITING] = NT[WAITING, c], N[WAITING, c]
    N[WAITING, WAITING] -= N[at, WAITING] + N[WAITING, at] + N[at, at]
    NT[WAITING, WAITING] = N[WAITING, WAITING]
    for counts in (NT, N):
        _join_context(counts[WAITING], counts[at], -1.0, loss, table)
    mass[at] = count
    leader[at], place[word] = word, at
    _set_losses(at, window)


@njit(fastmath=_FAST)
def _insert_words(begin, end, n_classes, after, before, counts, window, slack):  # type: ignore[no-untyped-def]
    """Insert the words from ``begin`` to ``end``, and merge two classes whenever there are more than ``n_classes``.

    ``after`` and ``before`` are the neighbors of the words, by rank: -1 is ``</s>``, and one number above all ranks the
    words that are never inserted. Losses that differ by no more than ``slack`` count as equal.
    """
    free = FIRST
    while window.leader[free] >= 0:
        free += 1
    for word in range(begin, end):
        _insert(word, free, (after, before), window, counts[word])
        free += 1
        if word >= n_classes:
            free = _merge_best(word - n_classes, window, slack)


@njit(fastmath=_FAST)
def _merge_all(done, n_classes, window, slack):  # type: ignore[no-untyped-def]
    """Merge the last ``n_classes`` classes into one."""
    for n in range(done, done + n_classes - 1):
        _merge_best(n, window, slack)
