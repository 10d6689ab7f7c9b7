"""`UnknownWords`: the part of its class's probability that a word outside the vocabulary gets.

A model gives all words outside its vocabulary one probability, that of their class c: ``<unk>``, or a shape and suffix
class. That is the probability of meeting *some* such word, often a large one; of the observed word s it is an
upper bound. The probability of s itself is

    p(s | h) = p(c | h) q(s | c),   sum over all strings s of class c of q(s | c) = 1.

Three ways give q:

``"spelling"``
    a letter n-gram over the words of the vocabulary (`LetterModel`), divided by what it leaves to strings that are
    outside the vocabulary. Then the words of the vocabulary and all other strings together have probability one.
    With several classes, each has a letter n-gram of the words that look like it, and the sum is at most one.
``"even"``
    1 / N for a stated number N of unseen types, the same for each.
``"class"``
    1: the probability of the whole class, as KenLM, SRILM and most other packages score unknown words. It is no
    probability of a word, and makes unknown words look easy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Literal, NamedTuple, TypeAlias, cast, get_args
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError
from tacenda.vocabulary import Vocabulary
from tacenda_lm.sequences import Float64

#: How the probability of its class becomes that of a word outside the vocabulary.
Unknown: TypeAlias = Literal["spelling", "even", "class"]

_REMEMBERED = 1 << 17  # words whose share is kept
_WORDS = 1 << 16  # spelled at a time
_LEAST = 1e-12  # left to unknown strings, whatever rounding says
_Ids = npt.NDArray[np.int64]
_BEGIN, _END, _UNSEEN, _FIRST = 0, 1, 2, 3  # ids; those of letters begin at the last
_CODE_POINTS = sys.maxunicode + 1


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
            known.update(zip(new, self._compute(new).tolist(), strict=True))
            self._known = known
        return np.fromiter(map(known.__getitem__, given), np.float64, len(given))

    def _compute(self, words: Sequence[str]) -> Float64:
        shares = np.zeros(len(words))
        unknown = [i for i, word in enumerate(words) if word not in self._vocabulary]
        if self.way == "even" and self.unseen_types is not None:
            shares[unknown] = -math.log(self.unseen_types)
        if self.way == "spelling" and unknown:
            # all that score with a vocabulary share its letter models
            if (models := _SPELLINGS.get(self._vocabulary)) is None:
                models = _SPELLINGS[self._vocabulary] = _Spelling(self._vocabulary)
            shares[unknown] = models.log_shares([words[i] for i in unknown])
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
        self._normalization, self._class_of = vocabulary.normalization, vocabulary.class_of
        self._words = vocabulary.words
        self._classes = frozenset(filter(vocabulary.is_reserved, vocabulary.words))
        self._models: dict[str, tuple[LetterModel, float]] = {}

    def log_shares(self, words: Sequence[str]) -> Float64:
        """Log q of words that are all outside the vocabulary, natural, float64 (words,)."""
        spelled = [self._normalization(word) for word in words]
        classes = np.array(list(map(self._class_of, spelled)))
        shares = np.empty(len(words))
        for name in np.unique(classes).tolist():
            if name not in self._models:
                self._models[name] = self._fit(name)
            model, left = self._models[name]
            own = np.flatnonzero(classes == name)
            shares[own] = model.log_probs([spelled[i] for i in own]) - left
        return shares

    def _fit(self, name: str) -> tuple[LetterModel, float]:
        """Return the letter model of a class, and the log of what it leaves to strings outside the vocabulary."""
        proper = [word for word in self._words if word not in self._classes]
        alike = [word for word in proper if self._class_of(word) == name]
        model = LetterModel(alike or proper or [""])
        # no word is the empty string, and those of the vocabulary have probabilities of their own
        others = list(dict.fromkeys(["", *self._words]))
        parts = (others[i : i + _WORDS] for i in range(0, len(others), _WORDS))
        taken = math.fsum(float(np.exp(model.log_probs(part)).sum()) for part in parts)
        return model, math.log(max(1 - taken, _LEAST))


_SPELLINGS: WeakKeyDictionary[Vocabulary, _Spelling] = WeakKeyDictionary()


class _Level(NamedTuple):
    """The k-grams of letters of one length."""

    keys: _Ids  # (k-grams,): id of the (k-1)-gram before its last letter, times all letters, plus the last; ascending
    counts: Float64  # (k-grams,): N(h l)
    following: Float64  # (contexts,): N(h)
    types: Float64  # (contexts,): T(h)


class LetterModel:
    """How probable a spelling is, by the letters of the words that are known.

    A letter n-gram over the types of a vocabulary, each counted once, because a word that is not among them is more
    like the rare types than like the frequent ones. Words begin and end, so q(s) is over whole strings s = l_1 ... l_m:

        q(s) = prod_{i=1}^{m+1} p_n(l_i | l_{i-n+1} ... l_{i-1}),   l_{m+1} = the end,

        p_k(l | h) = (N(h l) + T(h) p_{k-1}(l | h')) / (N(h) + T(h))

    (Witten and Bell, 1991, method C, interpolated as in Chen and Goodman, 1999, section 2.5), with N(h) the letters
    that follow h, T(h) how many different ones, h' = h without its first letter, and p_k = p_{k-1} where h was never
    seen. Below the unigrams p_0 is spread evenly over the code points that no word has, so a string in a script that
    the vocabulary does not know has a probability too. The q(s) of all strings, the empty one included, sum to one.

    Parameters
    ----------
    words
        The types to learn from, each once.
    order
        n, the letters that an n-gram spans.
    """

    def __init__(self, words: Sequence[str], order: int = 6) -> None:
        text = _code_points(words)
        self._alphabet = np.unique(text)
        letters, since = self._letters(words)
        self._levels: list[_Level] = []
        grams = letters
        for k in range(1, order + 1):
            contexts, places = _contexts(grams, since, k)
            keys = contexts * self._size + letters[places]
            found, own, counts = np.unique(keys, return_inverse=True, return_counts=True)
            before = found // self._size
            n = int(contexts.max(initial=0)) + 1
            weights = counts.astype(np.float64)
            following = np.bincount(before, weights, minlength=n)
            types = np.bincount(before, minlength=n).astype(np.float64)
            self._levels.append(_Level(found, weights, np.asarray(following, np.float64), types))
            grams = _spread(own, places, letters, k)

    @property
    def _size(self) -> int:
        """Number of ids of letters."""
        return len(self._alphabet) + _FIRST

    def log_probs(self, words: Sequence[str]) -> Float64:
        """Return log q of each string: natural, float64 (words,)."""
        if not len(words):
            return np.empty(0)
        letters, since = self._letters(words)
        p = np.where(letters == _UNSEEN, 1 / (_CODE_POINTS - len(self._alphabet)), 0.0)
        grams = letters
        for k, level in enumerate(self._levels, start=1):
            contexts, places = _contexts(grams, since, k)
            known = contexts < len(level.types)
            contexts, places = contexts[known], places[known]
            keys = contexts * self._size + letters[places]
            own = np.minimum(level.keys.searchsorted(keys), len(level.keys) - 1)
            seen = level.keys[own] == keys
            types = level.types[contexts]
            counts = np.where(seen, level.counts[own], 0.0)
            # Witten and Bell (1991): a context counts as many unseen letters as it has seen distinct ones
            with np.errstate(invalid="ignore"):
                mixed = (counts + types * p[places]) / (level.following[contexts] + types)
            p[places] = np.where(types > 0, mixed, p[places])
            grams = _spread(own[seen], places[seen], letters, k)
        predicted = letters != _BEGIN
        ends = np.flatnonzero(letters[predicted] == _END) + 1
        starts = np.concatenate([[0], ends[:-1]])
        return np.asarray(np.add.reduceat(np.log(p[predicted]), starts), np.float64)

    def _letters(self, words: Sequence[str]) -> tuple[_Ids, _Ids]:
        """Ids of the letters of all words, each with its begin and end, and how far each is from its begin."""
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        text = _code_points(words)
        found = np.minimum(self._alphabet.searchsorted(text), max(len(self._alphabet) - 1, 0))
        known = self._alphabet[found] == text if len(self._alphabet) else np.zeros(len(text), bool)
        begins = np.cumsum(lengths + 2) - (lengths + 2)
        letters = np.empty(len(text) + 2 * len(words), np.int64)
        inside = np.ones(len(letters), bool)
        inside[begins] = inside[begins + lengths + 1] = False
        letters[inside] = np.where(known, found + _FIRST, _UNSEEN)
        letters[begins], letters[begins + lengths + 1] = _BEGIN, _END
        since = np.arange(len(letters)) - np.repeat(begins, lengths + 2)
        return letters, since


def _code_points(words: Sequence[str]) -> npt.NDArray[np.uint32]:
    """The characters of all words one after another; lone surrogates are characters too."""
    return np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.uint32)


def _contexts(grams: _Ids, since: _Ids, k: int) -> tuple[_Ids, _Ids]:
    """Where a letter is predicted from k - 1 before it that were seen: the ids of those, and the places.

    ``grams`` are the ids of the (k-1)-grams that end at each place; -1 where there is none.
    """
    places = np.flatnonzero(since >= max(k - 1, 1))
    if k == 1:  # the empty context
        return np.zeros(len(places), np.int64), places
    contexts = grams[places - 1]
    return contexts[contexts >= 0], places[contexts >= 0]


def _spread(own: _Ids, places: _Ids, letters: _Ids, k: int) -> _Ids:
    """The ids of the k-grams that end at each place, -1 where none does."""
    grams = np.full(len(letters), -1, np.int64)
    grams[places] = own
    if k == 1:  # the begin is a context like a letter, but is never predicted
        grams = np.where(letters == _UNSEEN, -1, letters)
    return grams
