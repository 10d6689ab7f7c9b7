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
_Pass: TypeAlias = Callable[[_Ints], int]
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
    make_pass = start(pairs, classes, n_classes)
    for _ in track(range(passes), "word classes", unit="pass"):
        moved = 0
        for begin in range(0, len(order), _WORDS_AT_ONCE):
            moved += make_pass(order[begin : begin + _WORDS_AT_ONCE])
            pairs.forget()
        if moved <= _MIN_MOVED * len(order):
            break
    return classes.astype(np.int32)


def _start_bigram(pairs: WordPairs, classes: _Ints, n_classes: int) -> _Pass:
    """Return the pass that moves words to better ``classes``, in place, for the likelihood of class bigrams."""
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


def _start_predictive(pairs: WordPairs, classes: _Ints, n_classes: int) -> _Pass:
    """Return the pass that moves words to better ``classes``, in place, for the product p(c' | w) p(w' | c')."""
    counts = pairs.counts.astype(np.float64)
    N = np.zeros((len(counts), n_classes))
    for first, second, n in pairs.blocks():
        np.add.at(N, (first, classes[second]), n)
    sizes = np.bincount(classes, minlength=n_classes)
    mass = np.bincount(classes, counts, minlength=n_classes)
    return lambda order: int(_predictive_pass(order, pairs.before, counts, classes, sizes, N, mass))


def _merge(ids: Ids, n_types: int, n_classes: int, boundary: int) -> npt.NDArray[np.int32]:
    """Return Brown clusters, none empty: words that do not occur fill empty classes, or join the rarest word."""
    clusters = agglomerate(ids, n_types, n_classes - 1, boundary=boundary)
    classes = np.zeros(n_types, np.int32)
    classes[clusters.order] = 1 + clusters.classes()
    unseen = np.setdiff1d(np.arange(n_types), [*clusters.order, boundary])
    left = np.arange(1 + clusters.n_classes, n_classes)
    classes[unseen] = classes[clusters.order[-1]] if len(clusters.order) else n_classes - 1
    classes[unseen[: len(left)]] = left
    return classes


@njit(fastmath=_FAST)
def _g(n):  # type: ignore[no-untyped-def]
    return n * math.log(n) if n > 0 else 0.0


@njit(fastmath=_FAST)
def _count_by_class(near, word, classes, sums):  # type: ignore[no-untyped-def]
    """Count the neighbors of a word on one side, except itself, by their class."""
    sums[:] = 0
    for place in range(near.borders[word], near.borders[word + 1]):
        if near.words[place] != word:
            sums[classes[near.words[place]]] += near.counts[place]


@njit(fastmath=_FAST)
def _add_gains(near, N, G, score):  # type: ignore[no-untyped-def]
    """Add to score[q] sum_c g(N[c, q] + near[c]) - g(N[c, q]), with G = g(N)."""
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
            G[c, q] = _g(N[c, q])
            GT[q, c] = G[c, q]


@njit(fastmath=_FAST)
def _place_word(q, sign, left, right, own, count, tables, mass):  # type: ignore[no-untyped-def]
    """Put a word into class q (sign 1), or take it out (sign -1)."""
    N, G, NT, GT = tables
    _shift(left, N, G, NT, GT, q, sign)
    _shift(right, NT, GT, N, G, q, sign)
    N[q, q] += sign * (left[q] + right[q] + own)
    NT[q, q] = N[q, q]
    G[q, q] = _g(N[q, q])
    GT[q, q] = G[q, q]
    mass[q] += sign * count


@njit(fastmath=_FAST)
def _assign(word, score, classes, sizes):  # type: ignore[no-untyped-def]
    """Assign a word to the class of the highest score, its own unless another gains, and return that class."""
    home = best = classes[word]
    for q in range(1, len(score)):  # class 0 is closed
        if score[q] > score[best] + 1e-9:
            best = q
    sizes[home] -= 1
    sizes[best] += 1
    classes[word] = best
    return best


@njit(fastmath=_FAST)
def _bigram_pass(order, words, classes, sizes, tables, mass):  # type: ignore[no-untyped-def]
    """Make one pass over the words, and return how many moved.

    ``words`` are the `Neighbors` before and after each word, the counts of words next to themselves, and the counts of
    words. ``tables`` are N (M, M), the counts of pairs of classes, its terms g(N), and the transposes of both;
    ``mass`` (M,) are the tokens of each class. ``tables`` and ``mass`` are updated.
    """
    before, after, own, counts = words
    N, G, NT, GT = tables
    M = len(mass)
    left, right, score = np.empty(M), np.empty(M), np.empty(M)
    moved = 0
    for word in order:
        home = classes[word]
        if sizes[home] == 1:
            continue
        _count_by_class(before, word, classes, left)
        _count_by_class(after, word, classes, right)
        # take the word out, and score what every class would gain by it
        _place_word(home, -1.0, left, right, own[word], counts[word], tables, mass)
        score[:] = 0
        _add_gains(left, N, G, score)
        _add_gains(right, NT, GT, score)
        for q in range(M):
            # left and right share the class's own cell, but were counted as if they were in two
            for near in (left[q], right[q]):
                if near > 0:
                    score[q] -= _g(N[q, q] + near) - G[q, q]
            score[q] += _g(N[q, q] + left[q] + right[q] + own[word]) - G[q, q]
            score[q] -= 2 * (_g(mass[q] + counts[word]) - _g(mass[q]))
        best = _assign(word, score, classes, sizes)
        _place_word(best, 1.0, left, right, own[word], counts[word], tables, mass)
        moved += best != home
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
        begin, end = before.borders[word], before.borders[word + 1]
        # the word is taken out of the rows of the words before it, and every class is scored with it
        score[:] = 0
        mass[home] -= n
        for place in range(begin, end):
            row, x = N[before.words[place]], before.counts[place]
            row[home] -= x
            # most cells are 0, with the same term; the others are positive, which `_g` would test again
            for q in range(M):
                if row[q] > 0:
                    score[q] += (row[q] + x) * math.log(row[q] + x) - row[q] * math.log(row[q])
                else:
                    score[q] += _g(x)
        for q in range(M):
            score[q] -= _g(mass[q] + n) - _g(mass[q])
        best = _assign(word, score, classes, sizes)
        mass[best] += n
        for place in range(begin, end):
            N[before.words[place], best] += before.counts[place]
        moved += best != home
    return moved
