"""Texts that are made up, in which there is something to learn."""

import numpy as np


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
