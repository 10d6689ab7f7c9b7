"""The inner loops of Brown clustering: pairs of classes merged, each time the one that costs least.

What a merger of a and b costs is kept for every pair (Liang 2005, section 4.2), in nats of the text:

    loss(a, b) = 2 h(n_a, n_b) - sum_c (h(N_ac, N_bc) + h(N_ca, N_cb)) - the cells of a and b among themselves,
    h(x, y) = g(x + y) - g(x) - g(y),    g(n) = n log n.

A merger, and a new word taken out of those that wait, changes one context only for all other pairs, so only the
classes that stand beside the smaller part of it are looked at.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit

__all__ = ["BOUNDARY", "FIRST", "WAITING", "Window", "insert_words", "merge_all"]

BOUNDARY, WAITING, FIRST = (
    0,
    1,
    2,
)  # places of </s>, of the words not yet taken in, of the first class
_TABLE = 1 << 16
_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

_FAST = {"contract"}


class Window(NamedTuple):
    """The classes of the moment; a place that no class has is zero, and its losses are infinite.

    Attributes
    ----------
    N
        How often a class is followed by another (places, places).
    NT
        Its transpose.
    loss
        (places, places), of a pair at [smaller, larger].
    mass
        Tokens of each class (places,).
    leader
        The most frequent word of each class, by its rank (places,); -1 where there is none.
    place
        Of the class that a word leads (words,); of others anything.
    joined
        The word that leads the class a word was merged into (words,), itself if it leads.
    merged
        (words, 2), leaders of the classes merged, in the order of the mergers.
    table
        g(n) for small n.
    """

    N: _Ints
    NT: _Ints
    loss: _Floats
    mass: _Ints
    leader: _Ints
    place: _Ints
    joined: _Ints
    merged: _Ints
    table: _Floats

    @classmethod
    def empty(cls, waiting: _Ints, n_words: int, n_classes: int) -> "Window":
        """Before the first word; ``waiting`` (2, 2) counts pairs of ``</s>`` and words."""
        places = FIRST + min(n_classes, n_words) + 1
        N = np.zeros((places, places), np.int64)
        N[:FIRST, :FIRST] = waiting
        small = np.arange(1, _TABLE)
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
    return table[n] if n < len(table) else n * math.log(n)


@njit(fastmath=_FAST)
def _h(x, y, table):  # type: ignore[no-untyped-def]
    if x == 0 or y == 0:
        return 0.0
    return _g(x + y, table) - _g(x, table) - _g(y, table)


@njit(fastmath=_FAST)
def _join_context(large, small, sign, loss, table):  # type: ignore[no-untyped-def]
    """What it changes in all losses that two contexts become one (sign 1), or one becomes two (sign -1).

    ``large`` and ``small`` (places,) say how often each class stands beside either context.
    """
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
    """The losses of all pairs with the class at place ``m``, from the counts."""
    N, NT, loss, mass, leader, _, _, _, table = window
    beside = np.empty((2, len(N)), np.int64)
    n_after = n_before = 0
    for c in range(len(N)):
        if c != m and N[m, c] > 0:
            beside[0, n_after] = c
            n_after += 1
        if c != m and NT[m, c] > 0:
            beside[1, n_before] = c
            n_before += 1
    for b in range(FIRST, len(N)):
        if b == m or leader[b] < 0:
            continue
        gain = 0.0
        for direction in range(2):
            own, other = (N[m], N[b]) if direction == 0 else (NT[m], NT[b])
            n = n_after if direction == 0 else n_before
            for place in range(n):
                c = beside[direction, place]
                if c != b:
                    gain += _h(own[c], other[c], table)
        gain += _g(N[m, m] + N[m, b] + N[b, m] + N[b, b], table)
        gain -= _g(N[m, m], table) + _g(N[m, b], table) + _g(N[b, m], table) + _g(N[b, b], table)
        loss[min(m, b), max(m, b)] = 2 * _h(mass[m], mass[b], table) - gain


@njit(fastmath=_FAST)
def _merge(i, j, window):  # type: ignore[no-untyped-def]
    """The class at ``j`` joins that at ``i``."""
    N, NT, loss, mass, leader, _, joined, _, table = window
    for counts in (N, NT):
        # rows are left neighbours in one and right ones in the other; of i and j themselves all is computed anew
        large, small = counts[i].copy(), counts[j].copy()
        some, others = (large > 0).sum(), (small > 0).sum()
        if some < others:
            large, small = small, large
        large[i] = large[j] = small[i] = small[j] = 0
        _join_context(large, small, 1.0, loss, table)
    for c in range(len(N)):
        N[i, c] += N[j, c]
        N[j, c] = 0
    for c in range(len(N)):
        N[c, i] += N[c, j]
        N[c, j] = 0
    for c in range(len(N)):
        NT[c, i], NT[c, j] = N[i, c], 0
        NT[i, c], NT[j, c] = N[c, i], 0
    loss[j, :] = loss[:, j] = np.inf
    mass[i] += mass[j]
    mass[j] = 0
    joined[leader[j]] = leader[i]
    leader[j] = -1
    _set_losses(i, window)


@njit(fastmath=_FAST)
def _merge_best(done, window, slack):  # type: ignore[no-untyped-def]
    """Merges the pair that costs least, of equal ones that of the most frequent words; the place left free."""
    loss, leader = window.loss, window.leader
    least = np.inf
    for a in range(FIRST, len(loss)):
        row = loss[a]
        for b in range(a + 1, len(loss)):
            least = min(least, row[b])
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
    while joined[word] != word:
        joined[word] = joined[joined[word]]
        word = joined[word]
    return word


@njit(fastmath=_FAST)
def _insert(word, at, neighbours, window, count):  # type: ignore[no-untyped-def]
    """Takes a word out of those that wait, to a class of its own at place ``at``."""
    N, NT, loss, mass, leader, place, joined, _, table = window
    for direction in range(2):
        borders, words, counts = neighbours[direction]
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
def insert_words(begin, end, n_classes, after, before, counts, window, slack):  # type: ignore[no-untyped-def]
    """Takes in the words from ``begin`` to ``end``; where there are more than ``n_classes`` classes two are merged.

    ``after`` and ``before`` are the neighbours of the words, by rank: borders, words (-1 for ``</s>``, and one number
    above all for words never taken in), counts. Losses that differ by no more than ``slack`` are the same.
    """
    free = FIRST + begin if begin <= n_classes else 0
    for at in range(FIRST, len(window.mass)):
        if window.leader[at] < 0 and begin > n_classes:
            free = at
    for word in range(begin, end):
        _insert(word, free, (after, before), window, counts[word])
        free += 1
        if word >= n_classes:
            free = _merge_best(word - n_classes, window, slack)


@njit(fastmath=_FAST)
def merge_all(done, n_classes, window, slack):  # type: ignore[no-untyped-def]
    """Merges the last ``n_classes`` classes to one."""
    for n in range(done, done + n_classes - 1):
        _merge_best(n, window, slack)
