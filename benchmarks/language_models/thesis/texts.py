"""What is learned from and tested, and the frequency bins of its words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.language_models import contexts
from tacenda import Corpus
from tacenda_lm.sequences import Ids, Offsets, with_ends

PROTOCOL = "a line is a sentence, empty lines left out; </s> is predicted; <unk> is an ordinary word; closed vocabulary"
BINS = 10
PARTS = 8

_Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Texts:
    """Training, validation and test text over one vocabulary.

    Attributes
    ----------
    data
        The name of the data set.
    """

    data: str
    train: Corpus
    valid: Corpus
    test: Corpus

    @classmethod
    def of(cls, data: str) -> Texts:
        """A data set by its name, with its own split."""
        texts = contexts.Texts(data)
        return cls(data, texts.train, texts.valid, texts.test)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How often every type occurs in the training text, ``</s>`` once a sentence: (types,)."""
        return self.train.type_counts

    @cached_property
    def bins(self) -> npt.NDArray[np.int64]:
        """The frequency bin of every type."""
        return frequency_bins(self.counts)

    @cached_property
    def tested(self) -> Ids:
        """The words to predict of the test text, in the order of the scores."""
        return tokens(self.test)[0]

    @cached_property
    def before(self) -> Ids:
        """The word before each of them; ``</s>`` before the first of a sentence."""
        ids, offsets = tokens(self.test)
        found = np.roll(ids, 1)
        found[offsets[:-1]] = self.test.vocabulary.boundary_id
        return found


def tokens(corpus: Corpus) -> tuple[Ids, Offsets]:
    """All words to predict, ``</s>`` at the end of every sentence, and the offsets of the sentences."""
    return with_ends(corpus.ids, corpus.offsets, corpus.vocabulary.boundary_id)


def frequency_bins(counts: _Ints, n_bins: int = BINS) -> npt.NDArray[np.int64]:
    """The bin of every type, rarest types first, so that each holds about as many tokens (section 3.4.2)."""
    order = np.argsort(counts, kind="stable")
    mass = counts[order] / counts.sum()
    middle = np.cumsum(mass) - mass / 2
    bins = np.empty(len(counts), np.int64)
    bins[order] = np.minimum((middle * n_bins).astype(np.int64), n_bins - 1)
    return bins


def without_part(corpus: Corpus, part: int, parts: int = PARTS) -> Corpus:
    """The text but for one of so many stretches of as many sentences each (section 4.6.6)."""
    n = corpus.n_sentences
    first, last = n * part // parts, n * (part + 1) // parts
    cut = corpus.offsets[first], corpus.offsets[last]
    ids = np.concatenate([corpus.ids[: cut[0]], corpus.ids[cut[1] :]])
    later = corpus.offsets[last + 1 :] - (cut[1] - cut[0])
    offsets = np.concatenate([corpus.offsets[: first + 1], later])
    return Corpus(ids, offsets, corpus.vocabulary, corpus.origin)
