"""A small text with structure in it, and tokens that break things, for the kits of models of text."""

from __future__ import annotations

import numpy as np

Sentences = list[list[str]]

#: Tokens that no training text holds, and that hosts do pass on.
STRANGE = ["", " ", "\n\t", "\x00", "🙂🏽‍♀️", "e\u0301", "שלום", "中文", "</s>", "<unk>", "x" * 5000]


def sample_sentences(n_sentences: int = 300, seed: int = 0) -> Sentences:
    """Return sentences of 3 to 12 words out of 48, where each word class calls for the next."""
    rng = np.random.default_rng(seed)
    sentences = []
    for length in rng.integers(3, 13, n_sentences):
        classes = (rng.integers(6) + np.arange(length) + (rng.random(length) < 0.2)) % 6
        words = np.minimum(rng.geometric(0.3, length) - 1, 7)
        sentences.append([f"{'abcdef'[c]}{w}" for c, w in zip(classes, words, strict=True)])
    return sentences
