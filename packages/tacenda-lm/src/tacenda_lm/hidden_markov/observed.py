"""Text as `tacenda.kernels.hidden_markov.block` takes it: which block leads to each token, which row emits it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.kernels.hidden_markov.block import Sequences
from tacenda_lm.sequences import Ids, Offsets, with_ends

__all__ = ["Lexicon", "Observed", "sentences_at", "text_of"]


class Lexicon(NamedTuple):
    """Which word belongs to which class.

    Attributes
    ----------
    classes
        int32 (words,), the class of each id.
    order
        int64 (words,), ids sorted by class.
    places
        int64 (words,), where each id stands in ``order``.
    offsets
        int64 (classes + 1,), where each class begins in ``order``.
    """

    classes: npt.NDArray[np.int32]
    order: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, classes: npt.NDArray[np.int32], n_classes: int) -> Lexicon:
        """The lexicon of a clustering."""
        order = np.argsort(classes, kind="stable").astype(np.int64)
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return cls(
            classes, order, places, np.searchsorted(classes[order], np.arange(n_classes + 1))
        )

    @property
    def n_classes(self) -> int:
        """M, empty ones included."""
        return len(self.offsets) - 1


class Observed(NamedTuple):
    """Sequences of a text, with the pairs of classes that occur in them.

    Attributes
    ----------
    sources
        int64 (pairs,), sorted.
    targets
        int64 (pairs,).
    sequences
        With ``pairs`` numbering the above, ``words`` the places of `Lexicon`, ``first`` classes.
    """

    sources: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    sequences: Sequences

    @classmethod
    def of(cls, ids: Ids, offsets: Offsets, lexicon: Lexicon) -> Observed:
        """All sequences, each from the start of a sentence."""
        classes = lexicon.classes[ids].astype(np.int64)
        begins = offsets[:-1][np.diff(offsets) > 0]
        inner = np.ones(len(ids), bool)
        inner[begins] = False
        reached = np.flatnonzero(inner)
        keys = classes[reached - 1] * lexicon.n_classes + classes[reached]
        distinct, numbers = np.unique(keys, return_inverse=True)
        pairs = np.zeros(len(ids), np.int32)
        pairs[reached] = numbers
        first = np.zeros(len(offsets) - 1, np.int32)
        first[np.diff(offsets) > 0] = classes[begins]
        sequences = Sequences(pairs, lexicon.places[ids].astype(np.int32), first, offsets)
        return cls(*np.divmod(distinct, lexicon.n_classes), sequences)


def sentences_at(ids: Ids, offsets: Offsets, chosen: npt.NDArray[np.int64]) -> tuple[Ids, Offsets]:
    """The chosen sequences, end to end, and where they begin."""
    lengths = np.diff(offsets)[chosen]
    cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    at = np.repeat(offsets[:-1][chosen] - cuts[:-1], lengths) + np.arange(cuts[-1])
    return ids[at], cuts


def text_of(corpus: Corpus) -> tuple[Ids, Offsets]:
    """Sentences, ``</s>`` after each, and where they begin."""
    return with_ends(corpus.ids, corpus.offsets, corpus.vocabulary.boundary_id)
