"""The training text cut in two, to choose options by the later part of it."""

from __future__ import annotations

from itertools import islice

from tacenda import Corpus


def cut(corpus: Corpus, n_sentences: int, n_held_back: int) -> tuple[Corpus, Corpus]:
    """The first sentences of a corpus and those that follow them, in the vocabulary of the whole."""
    words = corpus.vocabulary
    sentences = map(words.decode, corpus.sentences())
    first = Corpus.from_sentences(islice(sentences, n_sentences), vocabulary=words)
    return first, Corpus.from_sentences(islice(sentences, n_held_back), vocabulary=words)
