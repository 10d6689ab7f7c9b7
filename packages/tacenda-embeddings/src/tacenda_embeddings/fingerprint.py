"""A fingerprint of an embedder: some of its vectors, by which layers that were trained on them recognize the model.

It is a sample and not a hash, because such layers still work with the same model in 8 bits a number, on another
machine, or after a little more text. A model that is fitted again has other axes, and with it they do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

#: Words and columns of the sample, and the most frequent words that it is taken from.
_WORDS, _COLUMNS, _FREQUENT = 32, 32, 1000
#: The cosine below which vectors belong to another model.
SAME = 0.9


@dataclass(frozen=True)
class Fingerprint:
    """Vectors of a few words of a vocabulary, as one sentence.

    Attributes
    ----------
    words
        The words.
    width
        The columns of a vector.
    numbers
        Some of these columns (words, at most 32) float16, divided by the largest.
    """

    words: tuple[str, ...]
    width: int
    numbers: npt.NDArray[np.float16]

    @classmethod
    def of(cls, model: Any) -> Self:
        """Take the fingerprint of a fitted embedder."""
        vocabulary = model.vocabulary
        known = [
            word
            for word in vocabulary.words[:_FREQUENT]
            if word.strip() and not vocabulary.is_reserved(word)
        ]
        places = np.linspace(0, max(len(known) - 1, 0), min(_WORDS, len(known))).astype(int)
        words = tuple(known[i] for i in places)
        return cls(words, int(model.width), _sample(model, words))

    def likeness(self, model: Any) -> float:
        """Return the cosine of these vectors and those that ``model`` gives the same words; 0 for another width."""
        if int(model.width) != self.width:
            return 0.0
        ours, theirs = (
            each.astype(np.float64).ravel() for each in (self.numbers, _sample(model, self.words))
        )
        lengths = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
        return float(ours @ theirs) / lengths if lengths else float(ours.any() == theirs.any())

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` takes: a dictionary of a list, a number and bytes."""
        return {"words": list(self.words), "width": self.width, "numbers": self.numbers.tobytes()}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Rebuild one. Raises KeyError, TypeError or ValueError for anything that `to_dict` did not give."""
        words, width = tuple(map(str, given["words"])), int(given["width"])
        numbers = np.frombuffer(given["numbers"], np.float16).reshape(len(words), -1)
        return cls(words, width, numbers)


def _sample(model: Any, words: tuple[str, ...]) -> npt.NDArray[np.float16]:
    """Return some columns of the vectors of words (words, at most 32), divided by the largest."""
    if not words:
        return np.zeros((0, 0), np.float16)
    [rows] = model.transform([list(words)])
    width = rows.shape[1]
    some = np.asarray(rows)[:, np.linspace(0, width - 1, min(_COLUMNS, width)).astype(int)]
    return (some / max(float(np.abs(some).max()), 1e-30)).astype(np.float16)
