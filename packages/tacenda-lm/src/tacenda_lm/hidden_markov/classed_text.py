"""Text as classes of words: which transition block leads to each token, which row of emissions has it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.storage import PASS_ITEMS, forget_pages
from tacenda.kernels.hidden_markov.block import Sequences
from tacenda_lm.sequences import Ids, Offsets, laid_end_to_end, pieces, with_ends

__all__ = ["Lexicon", "Observed", "pairs_of", "sentences_at", "text_of"]


class Lexicon(NamedTuple):
    """Which word belongs to which class."""

    classes: npt.NDArray[np.int32]  # (words,), the class of each id
    order: npt.NDArray[np.int64]  # (words,), ids sorted by class
    places: npt.NDArray[np.int64]  # (words,), where each id stands in order
    offsets: npt.NDArray[np.int64]  # (classes + 1,), where each class begins in order

    @classmethod
    def of(cls, classes: npt.NDArray[np.int32], n_classes: int) -> Lexicon:
        """Return the lexicon of a clustering."""
        order = np.argsort(classes, kind="stable").astype(np.int64)
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        offsets = np.searchsorted(classes[order], np.arange(n_classes + 1))
        return cls(classes, order, places, offsets)

    @property
    def n_classes(self) -> int:
        """M, empty classes included."""
        return len(self.offsets) - 1


class Observed(NamedTuple):
    """Sequences of a text, with the pairs of classes that occur in them."""

    sources: npt.NDArray[np.int64]  # (pairs,), sorted
    targets: npt.NDArray[np.int64]  # (pairs,)
    sequences: Sequences  # pairs are numbers of the above, words are places in the lexicon, first are classes

    @classmethod
    def of(cls, ids: Ids, offsets: Offsets, lexicon: Lexicon) -> Observed:
        """Return all sequences, each from the start of a sentence."""
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


def pairs_of(
    ids: Ids, offsets: Offsets, lexicon: Lexicon, enough: int | None = None
) -> npt.NDArray[np.int64]:
    """Return the pairs of classes that follow each other in a sentence, sorted: source times classes plus target.

    With ``enough``, no more of the text is read when there are so many.
    """
    keys = np.empty(0, np.int64)
    for at, piece in zip(range(0, len(ids), PASS_ITEMS), pieces(ids, overlap=1), strict=False):
        classes = lexicon.classes[piece].astype(np.int64)
        inner = np.ones(len(piece), bool)
        inner[0] = False
        begins = offsets[slice(*np.searchsorted(offsets, (at, at + len(piece))))] - at
        inner[begins] = False
        reached = np.flatnonzero(inner)
        found = classes[reached - 1] * lexicon.n_classes + classes[reached]
        keys = np.union1d(keys, found)
        if enough is not None and len(keys) >= enough:
            break
    return keys


def sentences_at(ids: Ids, offsets: Offsets, chosen: npt.NDArray[np.int64]) -> tuple[Ids, Offsets]:
    """Return the chosen sequences, end to end, and where each begins."""
    begins = offsets[chosen]
    lengths = offsets[chosen + 1] - begins
    cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    at = np.repeat(begins - cuts[:-1], lengths) + np.arange(cuts[-1])
    found = np.asarray(ids[at])
    forget_pages(ids)
    forget_pages(offsets)
    return found, cuts


def text_of(corpus: Corpus) -> tuple[Ids, Offsets]:
    """Return the sentences of a corpus, ``</s>`` after each, and where each begins; mapped from a file as it is."""
    boundary = corpus.vocabulary.boundary_id
    if isinstance(corpus.ids, np.memmap):
        return laid_end_to_end(with_ends(*block, boundary) for block in corpus.blocks())
    return with_ends(corpus.ids, corpus.offsets, boundary)
