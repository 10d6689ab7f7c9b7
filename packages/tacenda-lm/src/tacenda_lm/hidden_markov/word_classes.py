"""Word classes for block-sparse emissions, found by exchange or by agglomeration.

``exchange`` maximizes the likelihood of a class bigram model, p(w' | w) = p(c' | c) p(w' | c') (Kneser and Ney 1993;
Martin, Liermann and Ney 1998; the criterion of Brown et al. 1992):

    F = sum_{c c'} g(N(c, c')) - sum_c g(N(c, .)) - sum_c g(N(., c)) + a constant,    g(n) = n log n;

``predictive`` maximizes that of p(c' | w) p(w' | c') (Uszkoreit and Brants 2008), which costs less with many classes.
Both deal the words to the classes in turn, the most frequent first, and move every word in turn to the class that is
best for it, which never lowers F. ``brown`` instead merges words to classes, from the most frequent ones on (see
`agglomeration`). An exchange that starts from Brown clusters finds a higher F, by 0.004 to 0.013 nats per word on Penn
Treebank, but a hidden Markov model with these classes is no better.

In an exchange, class 0 has only the end of a sentence. Import this module only where it is needed: it imports numba.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError
from tacenda.kernels.machinery.compiled import njit
from tacenda.progress import track
from tacenda_lm.hidden_markov.agglomeration import agglomerate
from tacenda_lm.hidden_markov.settings import Method
from tacenda_lm.hidden_markov.word_pairs import WordPairs
from tacenda_lm.sequences import Ids

_Ints: TypeAlias = npt.NDArray[np.int64]
# makes a pass over some words, and returns how many moved
_Move: TypeAlias = Callable[[_Ints], int]
_FAST = {"contract", "reassoc"}
_WORDS_AT_ONCE = 4096  # whose neighbors are in memory at a time
_MIN_MOVED = 1e-3  # share of the words; if fewer move in a pass, it is the last


def word_classes(
    ids: Ids,
    n_types: int,
    n_classes: int,
    *,
    boundary: int,
    method: Method = "exchange",
    passes: int = 20,
) -> npt.NDArray[np.int32]:
    """Return the class of every word: int32 (types,), from 0 to n_classes - 1.

    ``ids`` are the text as one row, with ``boundary``, the id of ``</s>``, after every sentence.
    ``</s>`` is alone in class 0, unless that is the only class, and no class is empty. An exchange ends after so many
    ``passes`` over the words, or when few still move. Raises ConfigurationError if there are more classes than words.
    """
    if n_classes == 1:
        return np.zeros(n_types, np.int32)
    if n_classes > n_types:
        raise ConfigurationError(
            f"VLHMM: n_classes is {n_classes}, and the text has only {n_types} different words: give fewer classes, "
            "such as a tenth of the words"
        )
    if method == "brown":
        return _merge(ids, n_types, n_classes, boundary)
    pairs = WordPairs(ids, n_types)
    order = np.argsort(-pairs.counts, kind="stable")
    order = order[order != boundary]
    classes = np.zeros(n_types, np.int64)
    classes[order] = 1 + np.arange(len(order)) % (n_classes - 1)
    # what never occurs has no neighbors to choose by; it stays where it was dealt to
    order = order[pairs.counts[order] > 0]
    start = _start_predictive if method == "predictive" else _start_bigram
    move = start(pairs, classes, n_classes)
    for _ in track(range(passes), "word classes", unit="pass"):
        moved = 0
        for begin in range(0, len(order), _WORDS_AT_ONCE):
            moved += move(order[begin : begin + _WORDS_AT_ONCE])
            pairs.forget()
        if moved <= _MIN_MOVED * len(order):
            break
    return classes.astype(np.int32)


def _start_bigram(pairs: WordPairs, classes: _Ints, n_classes: int) -> _Move:
    """Return a function that moves words to better ``classes``, in place, for the likelihood of class bigrams."""
    counts = pairs.counts.astype(np.float64)
    own, N = np.zeros(len(counts)), np.zeros((n_classes, n_classes))
    for first, second, n in pairs.blocks():
        own[first[first == second]] = n[first == second]
        np.add.at(N, (classes[first], classes[second]), n)
    G = N * np.log(np.maximum(N, 1))
    tables = N, G, np.ascontiguousarray(N.T), np.ascontiguousarray(G.T)
    words = pairs.before, pairs.after, own, counts
    sizes = np.bincount(classes, minlength=n_classes)
    mass = np.bincount(classes, counts, minlength=n_classes)
    return lambda order: int(_bigram_pass(order, words, classes, sizes, tables, mass))


def _start_predictive(pairs: WordPairs, classes: _Ints, n_classes: int) -> _Move:
    """Return a function that moves words to better ``classes``, in place, for the product p(c' | w) p(w' | c')."""
    counts = pairs.counts.astype(np.float64)
    N = np.zeros((len(counts), n_classes))
    for first, second, n in pairs.blocks():
        np.add.at(N, (first, classes[second]), n)
    sizes = np.bincount(classes, minlength=n_classes)
    mass = np.bincount(classes, counts, minlength=n_classes)
    return lambda order: int(_predictive_pass(order, pairs.before, counts, classes, sizes, N, mass))


def _merge(ids: Ids, n_types: int, n_classes: int, boundary: int) -> npt.NDArray[np.int32]:
    """Return Brown clusters, none empty: words that do not occur fill empty classes, or join the rarest word."""
    found = agglomerate(ids, n_types, n_classes - 1, boundary=boundary)
    classes = np.zeros(n_types, np.int32)
    classes[found.order] = 1 + found.classes()
    unseen = np.setdiff1d(np.arange(n_types), [*found.order, boundary])
    left = np.arange(1 + found.n_classes, n_classes)
    classes[unseen] = classes[found.order[-1]] if len(found.order) else n_classes - 1
    classes[unseen[: len(left)]] = left
    return classes


@njit(fastmath=_FAST)
def _entropy(n):  # type: ignore[no-untyped-def]
    return n * math.log(n) if n > 0 else 0.0


@njit(fastmath=_FAST)
def _count_by_class(neighbors, counts, begin, end, word, classes, sums):  # type: ignore[no-untyped-def]
    """Count the neighbors of a word, except itself, by their class."""
    sums[:] = 0
    for place in range(begin, end):
        if neighbors[place] != word:
            sums[classes[neighbors[place]]] += counts[place]


@njit(fastmath=_FAST)
def _add_gains(near, N, G, score):  # type: ignore[no-untyped-def]
    """Add to score[q] sum_c g(N[c, q] + near[c]) - g(N[c, q]), with g(n) = n log n and G = g(N)."""
    M = len(score)
    for c in range(M):
        x = near[c]
        if x > 0:
            row, known = N[c], G[c]
            for q in range(M):
                score[q] += (row[q] + x) * math.log(row[q] + x) - known[q]


@njit(fastmath=_FAST)
def _shift(near, N, G, NT, GT, q, sign):  # type: ignore[no-untyped-def]
    """Add sign near[c] to N[c, q] for all c but q, in the matrix, its transpose and the terms of both."""
    for c in range(len(near)):
        if near[c] > 0 and c != q:
            N[c, q] += sign * near[c]
            NT[q, c] = N[c, q]
            G[c, q] = _entropy(N[c, q])
            GT[q, c] = G[c, q]


@njit(fastmath=_FAST)
def _move(q, sign, left, right, own, count, pairs, mass):  # type: ignore[no-untyped-def]
    """Put a word into class q (sign 1), or take it out (sign -1)."""
    N, G, NT, GT = pairs
    _shift(left, N, G, NT, GT, q, sign)
    _shift(right, NT, GT, N, G, q, sign)
    N[q, q] += sign * (left[q] + right[q] + own)
    NT[q, q] = N[q, q]
    G[q, q] = _entropy(N[q, q])
    GT[q, q] = G[q, q]
    mass[q] += sign * count


@njit(fastmath=_FAST)
def _bigram_pass(order, words, classes, sizes, pairs, mass):  # type: ignore[no-untyped-def]
    """Make one pass over the words, and return how many moved.

    ``words`` are the `Neighbors` before and after each word, the counts of words next to themselves, and the counts of
    words. ``pairs`` are N (M, M), the counts of pairs of classes, its terms n log n, and the transposes of both;
    ``mass`` (M,) are the tokens of each class. ``pairs`` and ``mass`` are updated.
    """
    before, after, own, counts = words
    N, G, NT, GT = pairs
    M = len(mass)
    left, right, score = np.empty(M), np.empty(M), np.empty(M)
    moved = 0
    for word in order:
        home = classes[word]
        if sizes[home] == 1:
            continue
        _count_by_class(
            before[1], before[2], before[0][word], before[0][word + 1], word, classes, left
        )
        _count_by_class(
            after[1], after[2], after[0][word], after[0][word + 1], word, classes, right
        )
        # take the word out, and score what every class would gain by it
        _move(home, -1.0, left, right, own[word], counts[word], pairs, mass)
        score[:] = 0
        _add_gains(left, N, G, score)
        _add_gains(right, NT, GT, score)
        best = home
        for q in range(M):
            # left and right share the class's own cell, but were counted as if they were in two
            for near in (left[q], right[q]):
                if near > 0:
                    score[q] -= _entropy(N[q, q] + near) - G[q, q]
            score[q] += _entropy(N[q, q] + left[q] + right[q] + own[word]) - G[q, q]
            score[q] -= 2 * (_entropy(mass[q] + counts[word]) - _entropy(mass[q]))
        for q in range(1, M):  # class 0 is closed
            if score[q] > score[best] + 1e-9:
                best = q
        _move(best, 1.0, left, right, own[word], counts[word], pairs, mass)
        if best != home:
            sizes[home] -= 1
            sizes[best] += 1
            classes[word] = best
            moved += 1
    return moved


@njit(fastmath=_FAST)
def _predictive_pass(order, before, counts, classes, sizes, N, mass):  # type: ignore[no-untyped-def]
    """Make one pass for p(class | word before) p(word | class), and return how many moved.

    N (words, M) counts how often a class follows a word. A move of ``word`` changes the rows of the words before it.
    """
    M = len(mass)
    score = np.empty(M)
    moved = 0
    for word in order:
        home, n = classes[word], counts[word]
        if sizes[home] == 1:  # no class may become empty
            continue
        begin, end = before[0][word], before[0][word + 1]
        # the word is taken out of the rows of the words before it, and every class is scored with it
        score[:] = 0
        mass[home] -= n
        for place in range(begin, end):
            row, x = N[before[1][place]], before[2][place]
            row[home] -= x
            for q in range(M):
                if row[q] > 0:
                    score[q] += (row[q] + x) * math.log(row[q] + x) - row[q] * math.log(row[q])
                else:
                    score[q] += _entropy(x)
        best = home
        for q in range(M):
            score[q] -= _entropy(mass[q] + n) - _entropy(mass[q])
        for q in range(1, M):  # class 0 is closed
            if score[q] > score[best] + 1e-9:
                best = q
        mass[best] += n
        for place in range(begin, end):
            N[before[1][place], best] += before[2][place]
        if best != home:
            sizes[home] -= 1
            sizes[best] += 1
            classes[word] = best
            moved += 1
    return moved
