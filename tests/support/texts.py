"""Texts that are made up, in which there is something to learn."""

import numpy as np

from tacenda import Corpus


def text(n=150, seed=0):
    """Return sentences of twelve words, in which a word says much of the next one."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        word, sentence = int(rng.integers(12)), []
        for _ in range(int(rng.integers(1, 9))):
            sentence.append(f"w{word}")
            word = (word * 5 + int(rng.integers(3))) % 12
        sentences.append(sentence)
    return sentences


def decode(corpus):
    """Return the sentences of a corpus as lists of words."""
    return [corpus.vocabulary.decode(sentence) for sentence in corpus]


def random_text(n_sentences, n_words, seed, vocabulary=None):
    """Return a corpus of sentences of two to eight words in which there is nothing to learn."""
    rng = np.random.default_rng(seed)
    lines = [
        [f"w{i}" for i in rng.integers(n_words, size=rng.integers(2, 9))]
        for _ in range(n_sentences)
    ]
    return Corpus.from_sentences(lines, vocabulary=vocabulary)
