"""`UnknownWords`: the share that a word outside the vocabulary has of the probability of its class.

A model gives all words outside its vocabulary the probability of their class c: ``<unk>``, or a class of shape and
suffix. It is the probability that *some* word of the class comes next, which is often large, and an upper bound for
the observed word s. The probability of s itself is

    p(s | h) = p(c | h) q(s | c),   sum over all strings s of class c of q(s | c) = 1.

There are three ways to compute q:

``"spelling"``
    by a letter n-gram over the words of the vocabulary (`LetterModel`), divided by the probability that it gives to
    all strings outside the vocabulary. Then the words of the vocabulary and all other strings together have probability
    one. With several classes, each has a letter n-gram of the words that look like it, and the sum is at most one.
``"even"``
    1 / N for a stated number N of unseen types, the same for each.
``"class"``
    1: the probability of the whole class, as KenLM, SRILM and most other packages score unknown words. This is not the
    probability of a word, and makes unknown words look easy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError, check_choice
from tacenda.vocabulary import BOUNDARY, Vocabulary, not_a_string, token_list
from tacenda_lm.sequences import Float64

#: How a word outside the vocabulary shares the probability of its class.
Unknown: TypeAlias = Literal["spelling", "even", "class"]

_CACHE_SIZE = 1 << 17  # words
_WORDS_PER_BLOCK = 1 << 16  # spelled at a time
_MIN_LEFT = 1e-12  # probability of all strings outside the vocabulary, in case rounding leaves less
_Ids = npt.NDArray[np.int64]
_BEGIN, _END, _UNSEEN, _FIRST_LETTER = 0, 1, 2, 3  # ids of letters
_N_CODE_POINTS = sys.maxunicode + 1


class UnknownWords:
    """The logarithms of the shares q of words outside a vocabulary.

    Parameters
    ----------
    vocabulary
        The vocabulary of the model.
    way
        ``"spelling"``, ``"even"`` or ``"class"``: see `tacenda_lm.unknown_words`.
    unseen_types
        N of ``"even"``.

    Raises
    ------
    ConfigurationError
        There is no vocabulary or no such way, or ``unseen_types`` is missing, not positive, or given with another way.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        way: Unknown | str = "spelling",
        unseen_types: int | None = None,
    ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise ConfigurationError(
                f"UnknownWords needs the vocabulary of a model (model.vocabulary), not {vocabulary!r:.80}"
            )
        self.way = check_way(way, unseen_types)
        self.unseen_types = unseen_types
        self._vocabulary = vocabulary
        self._cache: dict[str, float] = {}

    def log_share(self, word: str) -> float:
        """Return log q(word | its class), natural; 0 for a word of the vocabulary, and for a written ``<unk>``."""
        return float(self.log_shares([word])[0])

    def log_shares(self, words: Iterable[str]) -> Float64:
        """Return the `log_share` of each word, float64 (words,). Raises CorpusError for what is no list of strings."""
        listed = token_list(words)
        for word in listed:
            if not isinstance(word, str):
                raise not_a_string(word)
        cache = self._cache  # another thread may replace it meanwhile
        new = [word for word in dict.fromkeys(listed) if word not in cache]
        if new:
            if len(cache) + len(new) > _CACHE_SIZE:
                cache, new = {}, list(dict.fromkeys(listed))
            cache.update(zip(new, self._compute(new).tolist(), strict=True))
            self._cache = cache
        return np.fromiter(map(cache.__getitem__, listed), np.float64, len(listed))

    def _compute(self, words: Sequence[str]) -> Float64:
        """Return the `log_share` of each word without the cache."""
        shares = np.zeros(len(words))
        unknown = [i for i, word in enumerate(words) if word not in self._vocabulary]
        if self.way == "even" and self.unseen_types is not None:
            shares[unknown] = -math.log(self.unseen_types)
        if self.way == "spelling" and unknown:
            shares[unknown] = _spell([words[i] for i in unknown], self._vocabulary)
        return shares


def check_way(way: str, unseen_types: int | None) -> Unknown:
    """Return the way itself. Raises ConfigurationError as `UnknownWords` does."""
    known: Unknown = check_choice("unknown", way, Unknown)
    if (way == "even") != (unseen_types is not None):
        raise ConfigurationError(
            "unseen_types is the number of words among which unknown='even' shares their probability: give it with "
            f"'even', and only then (unknown is {way!r}, unseen_types {unseen_types!r})"
        )
    if unseen_types is not None and not (
        isinstance(unseen_types, Real) and 1 <= unseen_types < math.inf
    ):
        raise ConfigurationError(
            f"unseen_types must be a number of at least 1, not {unseen_types!r}"
        )
    return known


#: By vocabulary and class: the letter model, fitted when a word needs it, and the log-probability that it gives to
#: strings outside the vocabulary. A model that referred to its vocabulary would keep it alive.
_LETTER_MODELS: WeakKeyDictionary[Vocabulary, dict[str, tuple[LetterModel, float]]] = (
    WeakKeyDictionary()
)


def _spell(words: Sequence[str], vocabulary: Vocabulary) -> Float64:
    """Return natural log q of words that are all outside the vocabulary, float64 (words,)."""
    spelled = [vocabulary.normalization(word) for word in words]
    classes = np.array(list(map(vocabulary.class_of, spelled)))
    models = _LETTER_MODELS.setdefault(vocabulary, {})
    shares = np.empty(len(words))
    for name in np.unique(classes).tolist():
        if name not in models:
            models[name] = _fit_class(name, vocabulary)
        model, left = models[name]
        of_class = np.flatnonzero(classes == name)
        shares[of_class] = model.log_probs([spelled[i] for i in of_class]) - left
    return shares


def _fit_class(name: str, vocabulary: Vocabulary) -> tuple[LetterModel, float]:
    """Return the letter model of a class, and the log-probability it gives to strings outside the vocabulary."""
    reserved = {BOUNDARY, *vocabulary.decode(vocabulary.oov_ids)}
    words = [word for word in vocabulary.words if word not in reserved]
    alike = [word for word in words if vocabulary.class_of(word) == name]
    model = LetterModel(alike or words)
    # the strings that are not words outside the vocabulary: its own words, and the empty string
    inside = list(dict.fromkeys(["", *vocabulary.words]))
    parts = (inside[i : i + _WORDS_PER_BLOCK] for i in range(0, len(inside), _WORDS_PER_BLOCK))
    taken = math.fsum(float(np.exp(model.log_probs(part)).sum()) for part in parts)
    return model, math.log(max(1 - taken, _MIN_LEFT))


class _Level(NamedTuple):
    """The k-grams of letters, for one k."""

    # (k-grams,), ascending: the id of the (k-1)-gram before the last letter, times the number of letters, plus the last
    keys: _Ids
    counts: Float64  # (k-grams,): N(h l)
    following: Float64  # (contexts,): N(h)
    types: Float64  # (contexts,): T(h)


class LetterModel:
    """A letter n-gram model of the spelling of words.

    It is fitted to the types of a vocabulary, each counted once, because an unknown word is more like the rare types
    than like the frequent ones. Words begin and end, so q(s) is the probability of a whole string s = l_1 ... l_m:

        q(s) = prod_{i=1}^{m+1} p_n(l_i | l_{i-n+1} ... l_{i-1}),   l_{m+1} = the end,

        p_k(l | h) = (N(h l) + T(h) p_{k-1}(l | h')) / (N(h) + T(h))

    (Witten and Bell, 1991, method C, interpolated as in Chen and Goodman, 1999, section 2.5). N(h) is the number of
    letters that follow h, T(h) the number of different ones, h' is h without its first letter, and p_k = p_{k-1} for an
    unseen h. p_0 is uniform over the code points that no word has, so a string in a script that the vocabulary does not
    have gets a probability, too. The q(s) of all strings, including the empty one, sum to one.

    Parameters
    ----------
    words
        The types to fit the model to, each once; without any, the empty string.
    order
        n, the number of letters in an n-gram.
    """

    def __init__(self, words: Sequence[str], order: int = 6) -> None:
        words = words or [""]
        self._alphabet = np.unique(_to_code_points(words))
        letters, since = self._encode(words)
        self._levels: list[_Level] = []
        grams = letters
        for k in range(1, order + 1):
            contexts, places = _find_contexts(grams, since, k)
            keys = contexts * self._n_letters + letters[places]
            grams_k, ids_k, counts = np.unique(keys, return_inverse=True, return_counts=True)
            before = grams_k // self._n_letters
            n = int(contexts.max(initial=0)) + 1
            weights = counts.astype(np.float64)
            following = np.bincount(before, weights, minlength=n)
            types = np.bincount(before, minlength=n).astype(np.float64)
            self._levels.append(_Level(grams_k, weights, np.asarray(following, np.float64), types))
            grams = _spread_ids(ids_k, places, letters, k)

    @property
    def _n_letters(self) -> int:
        """The number of ids of letters, including those that are not of the alphabet."""
        return len(self._alphabet) + _FIRST_LETTER

    def log_probs(self, words: Sequence[str]) -> Float64:
        """Return natural log q of each string, float64 (words,)."""
        if not len(words):
            return np.empty(0)
        letters, since = self._encode(words)
        p = np.where(letters == _UNSEEN, 1 / (_N_CODE_POINTS - len(self._alphabet)), 0.0)
        grams = letters
        for k, level in enumerate(self._levels, start=1):
            contexts, places = _find_contexts(grams, since, k)
            known = contexts < len(level.types)
            contexts, places = contexts[known], places[known]
            keys = contexts * self._n_letters + letters[places]
            ids_k = np.minimum(level.keys.searchsorted(keys), len(level.keys) - 1)
            seen = level.keys[ids_k] == keys
            types = level.types[contexts]
            counts = np.where(seen, level.counts[ids_k], 0.0)
            # Witten and Bell (1991): a context counts as many unseen letters as it has seen distinct ones
            with np.errstate(invalid="ignore"):
                mixed = (counts + types * p[places]) / (level.following[contexts] + types)
            p[places] = np.where(types > 0, mixed, p[places])
            grams = _spread_ids(ids_k[seen], places[seen], letters, k)
        predicted = letters != _BEGIN
        ends = np.flatnonzero(letters[predicted] == _END) + 1
        starts = np.concatenate([[0], ends[:-1]])
        return np.asarray(np.add.reduceat(np.log(p[predicted]), starts), np.float64)

    def _encode(self, words: Sequence[str]) -> tuple[_Ids, _Ids]:
        """Return the ids of the letters of all words with their begins and ends, and the distances from the begins."""
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        text = _to_code_points(words)
        ids = np.minimum(self._alphabet.searchsorted(text), max(len(self._alphabet) - 1, 0))
        known = self._alphabet[ids] == text if len(self._alphabet) else np.zeros(len(text), bool)
        begins = np.cumsum(lengths + 2) - (lengths + 2)
        letters = np.empty(len(text) + 2 * len(words), np.int64)
        inside = np.ones(len(letters), bool)
        inside[begins] = inside[begins + lengths + 1] = False
        letters[inside] = np.where(known, ids + _FIRST_LETTER, _UNSEEN)
        letters[begins], letters[begins + lengths + 1] = _BEGIN, _END
        since = np.arange(len(letters)) - np.repeat(begins, lengths + 2)
        return letters, since


def _to_code_points(words: Sequence[str]) -> npt.NDArray[np.uint32]:
    """Return the code points of all words, concatenated; lone surrogates are characters, too."""
    return np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.uint32)


def _find_contexts(grams: _Ids, since: _Ids, k: int) -> tuple[_Ids, _Ids]:
    """Return the ids of the (k-1)-grams that precede letters, and the places of these letters.

    ``grams`` are the ids of the (k-1)-grams that end at each place, -1 if unseen; letters after those are left out.
    """
    places = np.flatnonzero(since >= max(k - 1, 1))
    if k == 1:  # the empty context
        return np.zeros(len(places), np.int64), places
    contexts = grams[places - 1]
    return contexts[contexts >= 0], places[contexts >= 0]


def _spread_ids(ids: _Ids, places: _Ids, letters: _Ids, k: int) -> _Ids:
    """Return the ids of the k-grams that end at each place, -1 at other places than ``places``."""
    grams = np.full(len(letters), -1, np.int64)
    grams[places] = ids
    if k == 1:  # the begin is a context like a letter, but is never predicted
        grams = np.where(letters == _UNSEEN, -1, letters)
    return grams
