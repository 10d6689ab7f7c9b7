"""Classes for words outside the vocabulary, learned from a text: its shapes, and the suffixes that tell most.

`Vocabulary.from_counts` makes a class of every frequent suffix; `merge_classes` leaves those that tell which words come
before and after. Let n_c(v) count the frequent word v beside the unknown words of class c, with sums n_c. Splitting a
suffix off its class raises the log-likelihood of the neighbors,

    sum_c sum_v n_c(v) log(n_c(v) / n_c),

each side by itself, and the suffix with the highest gain is split off first, until there are enough classes, or none
gains more than half a nat for each of its neighbors, as chance would give. That is the mutual information of classes
and neighbors; a large class gains more by a split than a small one, so none stays large that has something to tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacenda.vocabulary import UNKNOWN, Vocabulary, rank
from tacenda.word_classes import SUFFIX_LETTERS, learned_names

N_CLASSES: Final = 400
_N_NEIGHBORS: Final = 100  # the most frequent words, which are told apart; all others count as one

Ints = NDArray[np.int64]


def list_classes(vocabulary: Vocabulary) -> Ints:
    """Return the ids of the classes, the coarse ones before their finer ones."""
    ids = vocabulary.oov_ids[vocabulary.oov_ids != vocabulary.unknown_id]
    words = vocabulary.words
    return np.array(sorted(ids, key=lambda i: (len(learned_names(words[i])), words[i])), np.int64)


def count_neighbors(
    blocks: Iterable[NDArray[np.int32]], offsets: Ints, vocabulary: Vocabulary
) -> Ints:
    """Count the words before and after the unknown words of a text, within its sentences.

    Parameters
    ----------
    blocks
        The ids of the text, in order.
    offsets
        (sentences + 1,), where sentences begin, and the end.
    vocabulary
        Of the ids.

    Returns
    -------
    int64 (classes, 2, neighbors), in the order of `list_classes`; counts of two texts add up.
    """
    classes, n_types = list_classes(vocabulary), len(vocabulary)
    special = (vocabulary.boundary_id, vocabulary.unknown_id, *classes)
    frequent = np.setdiff1d(np.arange(min(n_types, _N_NEIGHBORS + len(special))), special)
    n_columns = _N_NEIGHBORS + 1
    row, column = np.full(n_types, -1), np.full(n_types, _N_NEIGHBORS)
    row[classes] = np.arange(len(classes))
    column[frequent[:_N_NEIGHBORS]] = np.arange(len(frequent[:_N_NEIGHBORS]))
    found = np.zeros((2, len(classes) * n_columns), np.int64)
    done, last = 0, np.empty(0, np.int32)
    for block in blocks:
        ids, begin = np.concatenate([last, block]), done - len(last)
        first, end = np.searchsorted(offsets, [begin + 1, begin + len(ids)])
        linked = np.ones(len(ids), bool)  # to the one before
        linked[offsets[first:end] - begin] = False
        for side, (words, others) in enumerate(((ids[1:], ids[:-1]), (ids[:-1], ids[1:]))):
            at = np.flatnonzero(linked[1:] & (row[words] >= 0))
            keys = row[words[at]] * n_columns + column[others[at]]
            found[side] += np.bincount(keys, minlength=found.shape[1])
        done, last = begin + len(ids), ids[-1:]
    return found.reshape(2, len(classes), n_columns).swapaxes(0, 1)


def merge_classes(vocabulary: Vocabulary, neighbors: Ints, min_count: int) -> Vocabulary:
    """Return a vocabulary with fewer classes, none of them with fewer than ``min_count`` occurrences in the text.

    ``neighbors`` are counted by `count_neighbors`.
    """
    ids = list_classes(vocabulary)
    names = [vocabulary.words[i] for i in ids]
    chosen = _choose(names, vocabulary.counts[ids], neighbors, min_count)
    counts = Counter(dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True)))
    for name in names:
        coarser = (each for each in learned_names(name) if each in chosen)
        count = counts.pop(name)
        counts[next(coarser, UNKNOWN)] += count
    ranked = dict(rank(counts))
    rules = vocabulary.normalization, vocabulary.oov, vocabulary.spelled
    return Vocabulary(ranked, ranked.values(), *rules)


def _choose(names: list[str], counts: Ints, neighbors: Ints, min_count: int) -> set[str]:
    """Return the names of the classes that stay: shapes, and suffixes worth splitting off them, none of them rare."""
    n, places = len(names), {name: i for i, name in enumerate(names)}
    # of each class, itself and the coarser ones that it could be part of; its shape is last and repeated
    paths = np.empty((n, SUFFIX_LETTERS + 1), np.int64)
    # occurrences and neighbors of the words that a class would have: also those of finer classes, unless chosen
    tokens, joint = np.zeros_like(counts), np.zeros(neighbors.shape)
    for i, name in enumerate(names):
        path = [places[each] for each in learned_names(name)]
        paths[i] = path + path[-1:] * (SUFFIX_LETTERS + 1 - len(path))
        for each in path:
            tokens[each] += counts[i]
            joint[each] += neighbors[i]
    holder = paths[:, -1]  # the chosen class that has the words of each class: at first its shape
    chosen = holder == np.arange(n)
    gain, outdated = np.full(n, -np.inf), ~chosen
    while np.count_nonzero(chosen) < min(N_CLASSES, n):
        gain[outdated] = -np.inf
        rows = np.flatnonzero(outdated & ~chosen & (tokens >= min_count))
        own, rest = joint[rows], joint[holder[rows]] - joint[rows]
        gain[rows] = _likelihood(own) + _likelihood(rest) - _likelihood(own + rest)
        gain[rows] -= 0.5 * np.count_nonzero(own, axis=(1, 2))
        best = int(np.argmax(gain))
        if not gain[best] > 0:
            break
        chosen[best], former = True, holder[best]
        for coarser in paths[best, 1:]:  # which lose its words
            tokens[coarser] -= tokens[best]
            joint[coarser] -= joint[best]
            if coarser == former:
                break
        holder = np.where((holder == former) & (paths == best).any(axis=1), best, holder)
        outdated = (holder == best) | (holder == former)
    for i in reversed(np.flatnonzero(chosen)):  # merge classes that were left with too few words
        if tokens[i] < min_count:
            chosen[i] = False
            tokens[next((j for j in paths[i] if chosen[j]), i)] += tokens[i]
    return {names[i] for i in np.flatnonzero(chosen)}


def _likelihood(counts: NDArray[Any]) -> NDArray[Any]:
    """Return the log-likelihood (rows,) of counts (rows, 2, columns) under their own shares on each side."""
    sums = counts.sum(axis=-1)
    own = (counts * np.log(np.maximum(counts, 1.0))).sum(axis=-1)
    return np.asarray((own - sums * np.log(np.maximum(sums, 1.0))).sum(axis=-1))
