"""`UnknownWords`: the part of its class's probability that a word outside the vocabulary gets.

A model gives all words outside its vocabulary one probability, that of their class c: ``<unk>``, or a shape and suffix
class. That is the probability of meeting *some* such word, often a large one; of the word s that is there it is an
upper bound. The probability of s itself is

    p(s | h) = p(c | h) q(s | c),   sum over all strings s of class c of q(s | c) = 1.

Three ways give q:

``"spelling"``
    a letter n-gram over the words of the vocabulary (`tacenda_lm.spelling`), divided by what it leaves to strings that
    are outside the vocabulary. Then the words of the vocabulary and all other strings together have probability one.
    With several classes, each has a letter n-gram of the words that look like it, and the sum is at most one.
``"even"``
    1 / N for a stated number N of unseen types, the same for each.
``"class"``
    1: the probability of the whole class, as KenLM, SRILM and most other packages score unknown words. It is no
    probability of a word, and makes unknown words look easy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Literal, TypeAlias, cast, get_args
from weakref import WeakKeyDictionary

import numpy as np

from tacenda.errors import ConfigurationError
from tacenda.vocabulary import UNKNOWN, Vocabulary, class_of, reserved
from tacenda.word_classes import coarser_class
from tacenda_lm.sequences import Float64
from tacenda_lm.spelling import LetterModel

__all__ = ["Unknown", "UnknownWords", "check_way"]

#: How the probability of its class becomes that of a word outside the vocabulary.
Unknown: TypeAlias = Literal["spelling", "even", "class"]

_REMEMBERED = 1 << 17  # words whose share is kept
_WORDS = 1 << 16  # spelled at a time
_LEAST = 1e-12  # left to unknown strings, whatever rounding says


class UnknownWords:
    """Log-shares of words outside a vocabulary.

    Parameters
    ----------
    vocabulary
        The model's.
    way
        ``"spelling"``, ``"even"`` or ``"class"``: see the module.
    unseen_types
        N of ``"even"``.

    Raises
    ------
    ConfigurationError
        There is no such way, or ``unseen_types`` is missing, not positive, or given with another way.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        way: Unknown | str = "spelling",
        unseen_types: int | None = None,
    ) -> None:
        self.way = check_way(way, unseen_types)
        self.unseen_types = unseen_types
        self._vocabulary = vocabulary
        self._known: dict[str, float] = {}

    def log_share(self, word: str) -> float:
        """Return log q(word | its class), natural; 0 for a word of the vocabulary, and for a written ``<unk>``."""
        return float(self.log_shares([word])[0])

    def log_shares(self, words: Iterable[str]) -> Float64:
        """Return what `log_share` gives for each word, float64 (words,)."""
        given = list(words)
        known = self._known  # another thread may put a new dictionary in its place
        new = [word for word in dict.fromkeys(given) if word not in known]
        if new:
            if len(known) + len(new) > _REMEMBERED:
                known, new = {}, list(dict.fromkeys(given))
            known.update(zip(new, self._found(new).tolist(), strict=True))
            self._known = known
        return np.fromiter(map(known.__getitem__, given), np.float64, len(given))

    def _found(self, words: Sequence[str]) -> Float64:
        shares = np.zeros(len(words))
        unknown = [i for i, word in enumerate(words) if word not in self._vocabulary]
        if self.way == "even" and self.unseen_types is not None:
            shares[unknown] = -math.log(self.unseen_types)
        if self.way == "spelling" and unknown:
            shares[unknown] = _spelling(self._vocabulary).log_shares([words[i] for i in unknown])
        return shares


def check_way(way: str, unseen_types: int | None) -> Unknown:
    """Return the way itself. Raises ConfigurationError as `UnknownWords` does."""
    if way not in get_args(Unknown):
        raise ConfigurationError(f"unknown must be 'spelling', 'even' or 'class', not {way!r}")
    if (way == "even") != (unseen_types is not None):
        raise ConfigurationError(
            "unknown = 'even' shares the probability of unknown words among unseen_types words: give that number, "
            f"and give it with 'even' only (unknown is {way!r}, unseen_types {unseen_types!r})"
        )
    if unseen_types is not None and not (
        isinstance(unseen_types, Real) and 1 <= unseen_types < math.inf
    ):
        raise ConfigurationError(
            f"unseen_types must be a number of at least 1, not {unseen_types!r}"
        )
    return cast("Unknown", way)


class _Spelling:
    """The letter models of the classes of one vocabulary, each made when a word needs it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._normalization, self._oov = vocabulary.normalization, vocabulary.oov
        self._words = vocabulary.words
        self._classes = frozenset(vocabulary.words) & reserved(vocabulary.oov)
        self._models: dict[str, tuple[LetterModel, float]] = {}

    def log_shares(self, words: Sequence[str]) -> Float64:
        """Log q of words that are all outside the vocabulary, natural, float64 (words,)."""
        spelled = [self._normalization(word) for word in words]
        classes = np.array(list(map(self._class, spelled)))
        shares = np.empty(len(words))
        for name in np.unique(classes).tolist():
            if name not in self._models:
                self._models[name] = self._fitted(name)
            model, left = self._models[name]
            own = np.flatnonzero(classes == name)
            shares[own] = model.log_probs([spelled[i] for i in own]) - left
        return shares

    def _class(self, word: str) -> str:
        """The class that a word has where it has no type of its own."""
        name = class_of(word, self._normalization) if self._oov == "classes" else None
        while name is not None and name not in self._classes:
            name = coarser_class(name)
        return UNKNOWN if name is None else name

    def _fitted(self, name: str) -> tuple[LetterModel, float]:
        """The letter model of a class, and the log of what it leaves to strings outside the vocabulary."""
        proper = [word for word in self._words if word not in self._classes]
        alike = [word for word in proper if self._class(word) == name]
        model = LetterModel(alike or proper or [""])
        # no word is the empty string, and those of the vocabulary have probabilities of their own
        others = list(dict.fromkeys(["", *self._words]))
        parts = (others[i : i + _WORDS] for i in range(0, len(others), _WORDS))
        taken = math.fsum(float(np.exp(model.log_probs(part)).sum()) for part in parts)
        return model, math.log(max(1 - taken, _LEAST))


_SPELLINGS: WeakKeyDictionary[Vocabulary, _Spelling] = WeakKeyDictionary()


def _spelling(vocabulary: Vocabulary) -> _Spelling:
    """The letter models of a vocabulary, which all that score with it share."""
    found = _SPELLINGS.get(vocabulary)
    if found is None:
        found = _SPELLINGS[vocabulary] = _Spelling(vocabulary)
    return found
