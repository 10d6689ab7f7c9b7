"""What a compact form of a model loses: cosines with the whole model's vectors, and two tasks done with either.

The tasks are word similarity (does the cosine order pairs of words as people do?) and tagging by a linear map

    W = argmin ||X W - Y||^2 + lambda ||W||^2

from vectors X (tokens, width + 1) to tags Y (tokens, tags), 1 for the right tag; the tag of a token is that of its
largest value. This is found exactly and at once, and so differs between two forms only as far as the vectors do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.datasets.conllu import Sentence
from tacenda.datasets.word_similarity import WordPair
from tacenda.errors import DataError
from tacenda.tokenizers import Tokenizer
from tacenda_embeddings.text_vectors import Rows, blocks_of_words, embed_alone, embed_file

_RIDGE = 1e-3  # of the mean square of a column
_SENTENCES = 500  # embedded at a time


class Cosines(NamedTuple):
    """Cosines of the vectors of two models."""

    mean: float
    least: float
    n_vectors: int
    of: str  # what they are the vectors of


def cosines(
    model: Any,
    other: Any,
    text: Path | None,
    tokenizer: str | Tokenizer,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Cosines:
    """Compare the vectors of a model with those of another form of it, on a text or else word by word.

    Tokens without a vector in either, as a word without a known morpheme, are not counted. Raises CorpusError if
    the file cannot be read, and DataError if it has no vectors.
    """
    pairs: Iterator[tuple[Rows, Rows]]
    if text is None:
        pairs = (
            (embed_alone(model, part), embed_alone(other, part)) for part in blocks_of_words(model)
        )
    else:
        both = (embed_file(each, text, tokenizer, encoding, errors) for each in (model, other))
        pairs = ((a, b) for (_, a), (_, b) in zip(*both, strict=True))
    total, least, n = 0.0, 1.0, 0
    for first, second in pairs:
        found = _cosines(first, second)
        total, n = total + float(found.sum(dtype=np.float64)), n + len(found)
        least = min(least, float(found.min(initial=1.0)))
    if n == 0:
        raise DataError("there are no vectors to compare: give a text with words of the vocabulary")
    return Cosines(total / n, least, n, "words" if text is None else "tokens of the text")


class Similarity(NamedTuple):
    """Spearman's correlation of cosines with people's scores."""

    correlation: float
    n_pairs: int


def similarity(model: Any, pairs: Iterable[WordPair]) -> Similarity:
    """Return how well the cosines of word pairs agree with people's scores.

    Pairs of which a word has no vector are left out. Raises DataError if fewer than three are left.
    """
    from scipy.stats import spearmanr

    listed = list(pairs)
    first, second = (
        embed_alone(model, words)
        for words in ([pair.first for pair in listed], [pair.second for pair in listed])
    )
    counted = (first != 0).any(axis=1) & (second != 0).any(axis=1)
    if counted.sum() < 3:
        raise DataError(
            "fewer than three pairs have vectors: give pairs of words of the vocabulary"
        )
    scores = np.array([pair.score for pair in listed])[counted]
    found = spearmanr(_cosines(first[counted], second[counted]), scores)
    return Similarity(float(found.statistic), int(counted.sum()))


def tagging_accuracy(model: Any, train: Iterable[Sentence], test: Iterable[Sentence]) -> float:
    """Return the share of test tokens whose universal tag a linear map from the vectors finds.

    Raises DataError if there are no sentences to learn from or to test on.
    """
    train = [each for each in train if each.words]
    names = np.array(list(dict.fromkeys(tag for each in train for tag in each.upos)))
    number = {name: i for i, name in enumerate(names.tolist())}
    moments: Any = 0.0
    products: Any = 0.0
    for X, tags in _features(model, train):
        Y = np.eye(len(names))[[number[tag] for tag in tags]]
        moments, products = moments + X.T @ X, products + X.T @ Y
    right = n = 0
    if len(names):
        ridge = _RIDGE * np.trace(moments) / len(moments)
        W = np.linalg.solve(moments + ridge * np.eye(len(moments)), products)
        for X, tags in _features(model, test):
            right += int((names[(X @ W).argmax(axis=1)] == np.array(tags)).sum())
            n += len(tags)
    if n == 0:
        raise DataError("there are no tagged sentences to learn from, or none to test on")
    return right / n


def _features(
    model: Any, sentences: Iterable[Sentence]
) -> Iterator[tuple[npt.NDArray[np.float64], list[str]]]:
    """Yield vectors with a one at the end (tokens, width + 1) of some sentences at a time, and their tags."""
    remaining = (each for each in sentences if each.words)
    while batch := list(islice(remaining, _SENTENCES)):
        rows = np.concatenate(model.transform([list(each.words) for each in batch]))
        ones = np.ones((len(rows), 1))
        yield np.hstack([rows, ones]), [tag for each in batch for tag in each.upos]


def _cosines(first: Rows, second: Rows) -> Rows:
    """Return the cosines of rows, without those that are zero in either."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    dots = np.einsum("ij,ij->i", first, second)
    found: Rows = dots[lengths > 0] / lengths[lengths > 0]
    return found
