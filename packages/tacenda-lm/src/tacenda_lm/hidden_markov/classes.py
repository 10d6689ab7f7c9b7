"""Word classes for block-sparse emissions, found by exchange or by agglomeration.

``exchange`` maximises the likelihood of a class bigram model, p(w' | w) = p(c' | c) p(w' | c') (Kneser and Ney 1993;
Martin, Liermann and Ney 1998; the criterion of Brown et al. 1992):

    F = sum_{c c'} g(N(c, c')) - sum_c g(N(c, .)) - sum_c g(N(., c)) + a constant,    g(n) = n log n;

``predictive`` that of p(c' | w) p(w' | c') (Uszkoreit and Brants 2008), which costs less where classes are many. Both
start from classes of similar mass, dealt out by frequency, and move every word in turn to the class that is best for
it, which never lowers F. ``brown`` merges words to classes instead, from the most frequent ones (see `brown`).
Exchange that starts from Brown clusters finds a higher F, 0.004 to 0.013 nats a word on Penn Treebank, in whose classes
a hidden Markov model is no better.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from tacenda.errors import ConfigurationError
from tacenda.progress import track
from tacenda_lm.hidden_markov.brown import agglomerate
from tacenda_lm.sequences import Ids

__all__ = ["Method", "class_likelihood", "word_classes"]

Method = Literal["exchange", "predictive", "brown"]
_Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]
_STILL = 1e-3  # of the words moved in a pass: what is left is not worth another


def word_classes(
    stream: Ids, n_types: int, n_classes: int, *, boundary: int, method: Method = "exchange", passes: int = 20
) -> npt.NDArray[np.int32]:  # fmt: skip
    """The class of every word: int32 (types,), from 0 to n_classes - 1.

    Parameters
    ----------
    stream
        The text as one row of ids, ``boundary`` before and after every sentence.
    n_types
        Words, those that do not occur included.
    n_classes
        Classes; none is empty.
    boundary
        The id of ``</s>``, which is alone in class 0.
    method
        What is maximised, and how.
    passes
        Over the words at most, where they are exchanged; it ends where few still move.

    Raises
    ------
    ConfigurationError
        There are fewer words than classes.
    """
    if not 2 <= n_classes <= n_types:
        raise ConfigurationError(
            f"VLHMM: n_classes is {n_classes}, and must be from 2 to the number of words, {n_types}"
        )
    counts = np.bincount(stream[1:], minlength=n_types).astype(np.float64)
    order = np.argsort(-counts, kind="stable")
    order = order[order != boundary]
    if method == "brown":
        return _merged(stream, n_types, n_classes, boundary)
    classes = np.zeros(n_types, np.int64)
    classes[order] = 1 + np.arange(len(order)) % (n_classes - 1)
    # what never occurs has no neighbours to choose by; it stays where it was dealt to
    order = order[counts[order] > 0]
    start = _predictive if method == "predictive" else _bigram
    improve = start(stream, counts, classes, n_classes, order)
    for _ in track(range(passes), "word classes", unit="pass"):
        if improve() <= _STILL * len(order):
            break
    return classes.astype(np.int32)


def class_likelihood(stream: Ids, classes: npt.NDArray[np.integer[Any]], method: Method) -> float:
    """F of the module's docstring: what a clustering is good for, in nats, but for a constant of the text."""
    M, before = int(classes.max()) + 1, stream[:-1].astype(np.int64)
    after = classes[stream[1:]].astype(np.int64)
    left = before if method == "predictive" else classes[before]
    _, joint = np.unique(left.astype(np.int64) * M + after, return_counts=True)
    found = _terms(joint) - _terms(np.bincount(after))
    return found - (0.0 if method == "predictive" else _terms(np.bincount(left)))


def _merged(stream: Ids, n_types: int, n_classes: int, boundary: int) -> npt.NDArray[np.int32]:
    """Brown clusters, none empty: words that do not occur fill what is left, and stand with the rarest word else."""
    found = agglomerate(stream, n_types, n_classes - 1, boundary=boundary)
    classes = np.zeros(n_types, np.int32)
    classes[found.order] = 1 + found.classes()
    unseen = np.setdiff1d(np.arange(n_types), [*found.order, boundary])
    left = np.arange(1 + found.n_classes, n_classes)
    classes[unseen] = classes[found.order[-1]] if len(found.order) else n_classes - 1
    classes[unseen[: len(left)]] = left
    return classes


def _terms(counts: npt.NDArray[np.integer[Any]]) -> float:
    some = counts[counts > 0].astype(np.float64)
    return float((some * np.log(some)).sum())


def _neighbours(of: Ids, neighbours: Ids, n_types: int) -> _Pairs:
    """For every word its neighbours and how often: borders, words, counts."""
    found = csr_matrix((np.ones(len(of)), (of, neighbours)), shape=(n_types, n_types))
    found.sum_duplicates()
    found.sort_indices()
    return found.indptr.astype(np.int64), found.indices.astype(np.int64), found.data


def _bigram(
    stream: Ids,
    counts: npt.NDArray[np.float64],
    classes: npt.NDArray[np.int64],
    M: int,
    order: npt.NDArray[np.int64],
) -> Any:
    from tacenda_lm.hidden_markov.exchange import bigram_pass

    first, second = stream[:-1], stream[1:]
    after = _neighbours(first, second, len(counts))
    before = _neighbours(second, first, len(counts))
    own = np.bincount(first[first == second], minlength=len(counts)).astype(np.float64)
    N = np.zeros((M, M))
    np.add.at(N, (classes[first], classes[second]), 1)
    NT = np.ascontiguousarray(N.T)
    G = N * np.log(np.maximum(N, 1))
    GT = np.ascontiguousarray(G.T)
    sizes, mass = np.bincount(classes, minlength=M), np.bincount(classes, counts, minlength=M)
    return lambda: bigram_pass(
        order, before, after, own, counts, classes, sizes, N, G, NT, GT, mass
    )  # fmt: skip


def _predictive(
    stream: Ids,
    counts: npt.NDArray[np.float64],
    classes: npt.NDArray[np.int64],
    M: int,
    order: npt.NDArray[np.int64],
) -> Any:
    from tacenda_lm.hidden_markov.exchange import predictive_pass

    before = _neighbours(stream[1:], stream[:-1], len(counts))
    N = np.zeros((len(counts), M))
    np.add.at(N, (stream[:-1], classes[stream[1:]]), 1)
    sizes, mass = np.bincount(classes, minlength=M), np.bincount(classes, counts, minlength=M)
    return lambda: predictive_pass(order, before, counts, classes, sizes, N, mass)
