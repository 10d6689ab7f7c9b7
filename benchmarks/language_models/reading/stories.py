"""What a linear model of log reading times gains by further predictors.

    log t_i = b_0 + sum_j b_j x_ij + e_i,   e_i ~ N(0, s^2),

fitted by least squares; its log-likelihood at the estimates is L = -n/2 (log(2 pi s^2) + 1) with s^2 = RSS / n, so a
model with more predictors gains n/2 log(RSS of the smaller / RSS of the larger), in natural units over all words.

Natural Stories (Futrell et al., 2021): words, reading times, and the probabilities that were published with them.

Every array is in the order of the words, stories one after another; what a word does not have is NaN.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda import Vocabulary, datasets
from tacenda.tokenizers import split_words
from tacenda_lm import LanguageModel, SurprisalTable, read_items, surprisal_table
from tacenda_lm.surprisal.words import region_words

Matrix: TypeAlias = npt.NDArray[np.float64]


def gain(times: Matrix, base: Matrix, further: Matrix, groups: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the gain of ``further`` predictors over a base.

    Parameters
    ----------
    times
        (words,), logarithms.
    base, further
        (words, predictors).
    groups
        (words,): the story of each word.

    Returns
    -------
    ``gain`` of all words, with ``se``, the standard error of the sum of the words' differences; ``left out``, the gain
    where each story is predicted by a model that was fitted to the other stories, and ``better``, in how many stories
    it is above zero; ``words``.
    """
    small, large = _design(base), _design(np.hstack([base, further]))
    whole = np.ones(len(times), bool)
    differences = _log_likelihoods(times, large, whole) - _log_likelihoods(times, small, whole)
    stories = np.unique(groups)
    left_out = []
    for story in stories:
        others = groups != story
        scores = [_log_likelihoods(times, design, others) for design in (large, small)]
        left_out.append(float((scores[0] - scores[1])[~others].sum()))
    return {
        "gain": float(differences.sum()),
        "se": float(differences.std(ddof=1) * np.sqrt(len(times))),
        "left out": float(sum(left_out)),
        "better": sum(each > 0 for each in left_out),
        "words": len(times),
    }


def _design(predictors: Matrix) -> Matrix:
    """Predictors with a constant; standardised, which changes nothing but the rounding."""
    scaled = (predictors - predictors.mean(axis=0)) / predictors.std(axis=0)
    return np.hstack([np.ones((len(scaled), 1)), scaled])


def _log_likelihoods(times: Matrix, design: Matrix, fitted_on: npt.NDArray[np.bool_]) -> Matrix:
    """Of every word, by a model fitted to some of the words."""
    coefficients = np.linalg.lstsq(design[fitted_on], times[fitted_on], rcond=None)[0]
    residuals = times - design @ coefficients
    variance = (residuals[fitted_on] ** 2).mean()
    found: Matrix = -(np.log(2 * np.pi * variance) + residuals**2 / variance) / 2
    return found


NO_COUNT = 0.5  # what an n-gram counts that Google did not list
_LN2 = math.log(2)


class Stories:
    """The ten stories."""

    def __init__(self) -> None:
        self._files = datasets.locate("natural-stories")
        self.items = read_items(self._files["stories"], region="word", text=["item"], quotes=False)
        self.words = [word for item in self.items for word in item.regions]
        self.story = np.concatenate([[int(item.name)] * len(item.regions) for item in self.items])
        self.zone = np.concatenate([list(map(int, item.others["zone"])) for item in self.items])
        self._places = {
            place: i
            for i, place in enumerate(zip(self.story.tolist(), self.zone.tolist(), strict=True))
        }

    def scored(self, model: LanguageModel) -> SurprisalTable:
        """The table of a model; a story is a line, as a paragraph is in the training texts."""
        return surprisal_table(model, self.items, previous=0, tokenizer="words", unknown="spelling")

    @cached_property
    def log_times(self) -> Matrix:
        """Log of the geometric mean of the readers' times, (words,)."""
        found = np.full(len(self.words), np.nan)
        for row in _rows(self._files["times"], "\t", header=True):
            place = self._places[int(row[2]), int(row[1])]
            if row[0] != self.words[place]:
                raise SystemExit(
                    f"the times are of {row[0]!r} where the stories have {self.words[place]!r}"
                )
            found[place] = math.log(float(row[6]))
        return found

    @cached_property
    def marks(self) -> tuple[Matrix, Matrix]:
        """Whether punctuation is attached before each word, and behind it."""
        first = [not word[0].isalnum() for word in self.words]
        last = [not word[-1].isalnum() for word in self.words]
        return np.array(first, np.float64), np.array(last, np.float64)

    def known(self, vocabulary: Vocabulary) -> npt.NDArray[np.bool_]:
        """Which words a vocabulary has, attached punctuation apart."""
        words = region_words(self.words, split_words, "lines")
        return np.array([all(t in vocabulary for t in word.tokens[word.bare]) for word in words])

    @cached_property
    def lengths(self) -> Matrix:
        """Characters of each word as it was shown, punctuation included."""
        return np.array(list(map(len, self.words)), np.float64)

    def google(self, order: int, part: str) -> Matrix:
        """Bits of each word by the counts of Google's n-grams; of order 1 the logarithm of its count.

        ``part`` is ``"word"``, without attached punctuation, or ``"whole"``, with it.
        """
        found = np.full(len(self.words), np.nan)
        name = ("unigrams", "bigrams", "trigrams")[order - 1]
        for code, _, _, count, context in _rows(self._files[name], "\t"):
            story, word, which = code.split(".")
            if which != part:
                continue
            place = self._places[int(story), int(word)]
            if order == 1:
                found[place] = math.log(float(count) or NO_COUNT)
            elif context != "NA" and float(context) > 0:
                found[place] = -math.log2((float(count) or NO_COUNT) / float(context))
        return found

    def gpt3(self, part: str) -> Matrix:
        """Bits of each word by GPT-3, summed over its tokens; ``part`` as in `google`."""
        found = np.zeros(len(self.words))
        ends = np.cumsum([len(word) + 1 for word in self.words])
        first = {
            story: int(np.flatnonzero(self.story == story)[0]) for story in set(self.story.tolist())
        }
        starts = (ends - [len(word) + 1 for word in self.words]).tolist()
        for row in _rows(self._files["gpt3"], ",", header=True):
            token, log_prob, offset, story = row[0], row[1], int(row[2]), int(row[6]) + 1
            shown = token.strip()
            begin = starts[first[story]] + offset + len(token) - len(token.lstrip())
            place = bisect_right(starts, begin) - 1
            if part == "whole" or any(map(str.isalnum, shown)):
                found[place] += -float(log_prob or "nan") / _LN2
        return found


def before(values: Matrix, story: Matrix) -> Matrix:
    """The values of the word before in the same story, NaN where there is none."""
    found = np.full(len(values), np.nan)
    found[1:] = np.where(story[1:] == story[:-1], values[:-1], np.nan)
    return found


def _rows(path: Path, delimiter: str, header: bool = False) -> Iterator[list[str]]:
    quoting: Any = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.reader(stream, delimiter=delimiter, quoting=quoting)
        if header:
            next(rows)
        yield from rows
