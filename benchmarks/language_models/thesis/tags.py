"""How far vectors of words tell parts of speech: a figure beside the pictures of section 3.4.3 and 4.6.7."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tacenda import datasets
from tacenda.datasets import conllu

NEAREST = 5


def tags_of(words: Sequence[str]) -> list[str | None]:
    """The most frequent universal tag of each word in UD English EWT, case aside; None where it is not there."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in conllu.read(datasets.locate("ud-english-ewt")["train"]):
        for word, tag in zip(sentence.words, sentence.upos, strict=True):
            seen[word.lower()][tag] += 1
    return [
        seen[word.lower()].most_common(1)[0][0] if word.lower() in seen else None for word in words
    ]


def agreement(vectors: npt.NDArray[np.float32], tags: Sequence[str | None]) -> dict[str, float]:
    """Of the words that have a tag: share of the nearest words by the cosine that have the same one, in per cent.

    Returns
    -------
    the share, the one that words drawn at random would have, and the number of words.
    """
    with_tag = [i for i, tag in enumerate(tags) if tag is not None]
    names = np.array([tags[i] for i in with_tag])
    unit = vectors[with_tag]
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :NEAREST]
    same = float((names[nearest] == names[:, None]).mean())
    n = len(names)
    counts = np.array(list(Counter(names.tolist()).values()))
    chance = float((counts * (counts - 1)).sum() / (n * (n - 1)))
    return {"same %": round(100 * same, 1), "chance %": round(100 * chance, 1), "tagged": n}
