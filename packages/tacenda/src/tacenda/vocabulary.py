"""`Vocabulary`: the types of a text, their counts, and the id of any string.

A string is normalized and has the id of its type, else of its class, else of ``<unk>``. Ids are in the order of
frequency, the most frequent type first; ties are in the order of code points. Two types always exist: the boundary
``</s>``, whose count is the number of sentences, and ``<unk>``, which represents every word that is not a type. With
``oov="learned"``, such a word has the id of a class of its shape and suffix if the class is a type: the classes that
are most informative in this text are (see `tacenda.learned_classes`). With ``oov="classes"``, the suffixes are English
(see `tacenda.word_classes`).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from numbers import Integral
from operator import itemgetter
from typing import Any, Final, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import Array, Arrays, Int64, Offsets, UInt8
from tacenda.errors import ArtifactError, CorpusError, check_whole
from tacenda.forks import cached_property
from tacenda.offsets import pack_words, unpack_words
from tacenda.word_classes import CLASSES, coarser_class, is_learned_name, learned_names, word_class

BOUNDARY: Final = "</s>"
UNKNOWN: Final = "<unk>"
Oov = Literal["single", "classes", "learned"]

_DIGITS: Final = re.compile(r"\d+")
# the NUM of an earlier normalization must not be lower-cased by the next one
_NUMBER_WORD: Final = re.compile(r"((?<![A-Z])(?:NUM)+(?![A-Z]))")
_CACHED_SPELLINGS: Final = 100_000  # some 10 MB of Python objects
_WORDS_READ_AT_ONCE: Final = 4096  # of a saved vocabulary when it is opened


# ---- the id of any string ----


@dataclass(frozen=True)
class Normalization:
    """A change of every word before it is looked up; by default none."""

    digits: bool = False
    """Every run of decimal digits becomes ``NUM``: ``1990s`` is ``NUMs``, ``3.5`` is ``NUM.NUM``."""
    lowercase: bool = False
    """The word is lower-cased, but ``NUM`` is not."""

    def __call__(self, word: str) -> str:
        """Return the normalized word; normalizing it again changes nothing."""
        if self.lowercase:
            if self.digits and "NUM" in word:
                pieces = _NUMBER_WORD.split(word)
                pieces[::2] = [piece.lower() for piece in pieces[::2]]
                word = "".join(pieces)
            else:
                word = word.lower()
        return _DIGITS.sub("NUM", word) if self.digits else word


_CLASSES: Final = frozenset(CLASSES)


def _is_reserved(word: str, oov: Oov) -> bool:
    if oov == "learned" and is_learned_name(word):
        return True
    return word in (BOUNDARY, UNKNOWN) or (oov == "classes" and word in _CLASSES)


def not_a_string(token: object) -> CorpusError:
    """Return the error for a token that is not a string."""
    return CorpusError(
        f"a token is a {type(token).__name__} ({token!r:.40}), not a string; tokens must be strings"
    )


def token_list(tokens: Iterable[str]) -> list[str]:
    """Return the tokens of a sentence as a list. Raises CorpusError for a string, whose elements would be letters."""
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        what = "one string" if isinstance(tokens, str) else f"a {type(tokens).__name__}"
        raise CorpusError(
            f"a sentence is {what} ({tokens!r:.40}); give a list of tokens: text.split()"
        )
    return tokens if isinstance(tokens, list) else list(tokens)


def _require_strings(tokens: Iterable[object]) -> None:
    for token in tokens:
        if not isinstance(token, str):
            raise not_a_string(token)


class _Lookup(dict[str, int]):
    """A dictionary from all strings to ids: ``lookup[word]`` never fails.

    It holds the words, and caches the ids of other strings up to a limit, so that a second lookup is one dictionary
    access. The attributes are set after it is made.
    """

    words: tuple[str, ...]
    normalization: Normalization
    oov: Oov

    def __missing__(self, word: str) -> int:
        word_id = self.find(word)
        if len(self) < len(self.words) + _CACHED_SPELLINGS:
            self[word] = word_id
        return word_id

    def find(self, word: str) -> int:
        """Return the id of any string without caching it. Raises CorpusError for what is no string."""
        if not isinstance(word, str):
            raise not_a_string(word)
        word_id = self.own(word)
        return self[self.class_of(word)] if word_id is None else word_id

    def class_of(self, word: str) -> str:
        """Return the finest class of a word that is a type, or ``<unk>``."""
        if self.oov == "single":
            return UNKNOWN
        if not _is_reserved(word, self.oov):
            word = _with_digits(self.normalization(word), self.normalization)
        # the finest class comes first; classes are not normalized, so their own ids are simpler to find
        if self.oov == "learned":
            names = learned_names(word)
        else:
            names = [word_class(word), coarser_class(word_class(word)) or UNKNOWN]
        for name in names:
            word_id = self.get(name)
            if word_id is not None and self.words[word_id] == name:
                return name
        return UNKNOWN

    def own(self, word: str) -> int | None:
        """Return the id of the word's own type, or None if it has none."""
        # strings without a type of their own are cached too, with the id of their class
        word_id = self.get(word)
        if word_id is not None and self.words[word_id] == word:
            return word_id
        normalized = self.normalization(word)
        if normalized == word or _is_reserved(word, self.oov):
            return None
        word_id = self.get(normalized)
        return word_id if word_id is not None and self.words[word_id] == normalized else None


# ---- the vocabulary ----


class _Saved(Arrays):
    """The arrays of a vocabulary: words as `pack_words` packs them."""

    text: UInt8[Array, "bytes"]
    offsets: Offsets[Array, "types bytes"]
    counts: Int64[Array, "types"]


class Vocabulary:
    """A mapping from words to ids, with the count of each word.

    Parameters
    ----------
    words
        The types, most frequent first; ``</s>`` and ``<unk>`` are among them.
    counts
        int64 (types,): how often each occurs in the text it was built from. ``<unk>`` and the classes hold the
        summed counts of the words they stand for, ``</s>`` the number of sentences (plus what was literally
        written as ``</s>``).
    normalization
        How to change every string before it is looked up; not at all by default.
    oov
        Whether a word without a type is ``<unk>`` (``"single"``) or first one of the ``"learned"`` classes, or of the
        ``"classes"`` of English suffixes.
    spelled
        The types in which NUM is three letters, as in NUMBER, though runs of digits are ``NUM``.

    Raises
    ------
    CorpusError
        Words repeat, counts do not fit them, a special type is missing, or a rule has no valid value.
    """

    counts: NDArray[np.int64]
    normalization: Normalization
    oov: Oov
    spelled: frozenset[str]
    #: Counts of words of several tokens, such as *don't*, that occur twice or more in the text of the vocabulary; None
    #: if they were not counted. They are not saved with the words: a language model saves them.
    split_words: Mapping[str, int] | None = None
    #: Words that are not unpacked yet.
    _packed: tuple[NDArray[np.uint8], NDArray[np.int64]] | None = None

    def __init__(
        self,
        words: Iterable[str] | _Saved,
        counts: Iterable[int] | NDArray[np.integer[Any]],
        normalization: Normalization | None = None,
        oov: Oov = "single",
        spelled: Iterable[str] = (),
    ) -> None:
        array = counts if isinstance(counts, np.ndarray) else np.array(list(counts))
        if isinstance(words, _Saved):
            self._packed = words.text, words.offsets
        else:
            self.words = tuple(words)
            if {*map(type, self.words)} - {str}:
                _require_strings(self.words)
                self.words = tuple(map(str, self.words))
            if array.shape != (len(self.words),):
                raise CorpusError(
                    f"a vocabulary of {len(self.words)} words was given counts of shape {array.shape}; "
                    "give one count per word"
                )
        if array.size and array.dtype.kind not in "iu":
            raise CorpusError("a vocabulary was given counts that are not whole numbers of 64 bits")
        self.counts = array.astype(np.int64)
        self.counts.flags.writeable = False
        if (self.counts < 0).any():
            raise CorpusError("a vocabulary was given a negative count; give counts of at least 0")
        if oov not in get_args(Oov):
            raise CorpusError(
                f'oov is {oov!r}; use "single" (one <unk>), "learned" (shapes, and suffixes learned from the '
                'text) or "classes" (shapes, and English suffixes)'
            )
        changes = vars(_check_normalization(normalization))
        for name, value in changes.items():
            if not isinstance(value, bool | np.bool_):
                raise CorpusError(f"{name} is {value!r:.40}; it must be True or False")
        self.normalization, self.oov = Normalization(*map(bool, changes.values())), oov
        self.spelled = frozenset(spelled)
        if self._packed is None:
            _ = self._ids

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The types in the order of their ids. Raises ArtifactError if the types of a saved model are damaged."""
        assert self._packed is not None  # otherwise the constructor has set the words
        return tuple(unpack_words(*self._packed, "vocabulary"))

    @cached_property
    def _ids(self) -> _Lookup:
        """The ids of the words. Raises CorpusError (ArtifactError for a saved model) if words repeat or are missing."""
        ids = _Lookup(zip(self.words, range(len(self.words)), strict=True))
        ids.words, ids.normalization, ids.oov = self.words, self.normalization, self.oov
        if len(ids) == len(self.words) and ids.keys() >= {BOUNDARY, UNKNOWN}:
            return ids
        fault = "the same word twice; every word has one id"
        if len(ids) == len(self.words):
            special = UNKNOWN if BOUNDARY in ids else BOUNDARY
            fault = f"no {special}; build one with Vocabulary.from_counts"
        error = CorpusError(f"a vocabulary was given {fault}")
        raise _damage_error(error) if self._packed else error

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        n_sentences: int,
        *,
        max_vocabulary: int | None = None,
        min_count: int = 1,
        normalization: Normalization | None = None,
        oov: Oov = "single",
        min_class_count: int = 50,
    ) -> Self:
        """Build a vocabulary from the counts of the words of a text, as they were spelled.

        Parameters
        ----------
        counts
            How often each string was written.
        n_sentences
            How many sentences the text has.
        max_vocabulary
            Keep this many words, the most frequent ones; ``</s>``, ``<unk>`` and the classes are not counted. None
            keeps all.
        min_count
            Leave out words that occur less often, after normalization.
        normalization, oov
            As in the constructor.
        min_class_count
            A class with fewer occurrences joins a coarser one, then ``<unk>``. With ``oov="learned"`` every frequent
            suffix is a class of its own; `tacenda.learned_classes.merge_classes` leaves fewer.

        Raises
        ------
        CorpusError
            A limit is no whole number of at least 1, a word no string, or a count no whole number.
        """
        limits = {"min_count": min_count, "min_class_count": min_class_count}
        if max_vocabulary is not None:
            limits["max_vocabulary"] = max_vocabulary
        for name, limit in limits.items():
            check_whole(name, limit, error=CorpusError)
        # types are compared, because that takes no call for each of a million words
        if {*map(type, counts)} - {str}:
            _require_strings(counts)
        for kind in {*map(type, counts.values()), type(n_sentences)}:
            if not issubclass(kind, Integral):
                raise CorpusError(f"a count is a {kind.__name__}; counts must be whole numbers")
        normalization = _check_normalization(normalization)
        # reserved names are not normalized; a word whose normalized form is reserved counts as the reserved name
        words = list(counts)
        if normalization != Normalization():
            words = [word if _is_reserved(word, oov) else normalization(word) for word in counts]
        proper: Counter[str] = Counter()
        for word, count in zip(words, counts.values(), strict=True):
            proper[word] += count
        special = Counter({word: n for word, n in proper.items() if _is_reserved(word, oov)})
        for name in special:
            del proper[name]
        kept = dict(rank(proper, max_vocabulary, min_count))
        marks = Counter({name: special.pop(name, 0) for name in (BOUNDARY, UNKNOWN)})
        marks[BOUNDARY] += n_sentences
        if oov == "single":
            marks[UNKNOWN] += sum(proper.values()) - sum(kept.values())
        else:
            for word in proper.keys() - kept.keys():
                special[_with_digits(word, normalization)] += proper[word]
            count_classes = _count_learned if oov == "learned" else _count_english
            marks.update(count_classes(special, min_class_count))
        chosen = dict(rank(kept | marks))
        spelled = _find_spelled(counts, chosen, normalization)
        return cls(chosen, chosen.values(), normalization, oov, spelled)

    @classmethod
    def from_words(cls, words: Iterable[str], normalization: Normalization | None = None) -> Self:
        """Build a vocabulary from a list of words, in the same order, followed by ``</s>`` and ``<unk>``.

        Repeated words, and the marks ``<s>`` and ``</s>``, are left out. Counts are unknown, and set to zero. Raises
        CorpusError for one string instead of words, and for a word that is not a string.
        """
        normalization = _check_normalization(normalization)
        special = (BOUNDARY, UNKNOWN)
        words = token_list(words)
        _require_strings(words)
        written = dict.fromkeys(words, 1)
        proper = Counter(map(normalization, written))
        kept = [word for word in proper if word not in ("<s>", *special)]
        spelled = _find_spelled(written, proper, normalization)
        counts = np.zeros(len(kept) + 2, np.int64)
        return cls([*kept, *special], counts, normalization, spelled=spelled)

    # ---- from words to ids and back ----

    def id_of(self, word: str) -> int:
        """Return the id of a word, else of its class, else of ``<unk>``. Raises CorpusError for what is no string.

        The id is not cached.
        """
        ids = self._ids
        return ids[word] if isinstance(word, str) and word in ids else ids.find(word)

    def encode(self, tokens: Iterable[str], *, remember: bool = True) -> NDArray[np.int32]:
        """Return the ids of the tokens of a text, int32 (tokens,).

        ``remember`` caches the ids of unknown spellings, up to a limit; use False for lists of distinct strings. Raises
        CorpusError for one string instead of tokens, and for a token that is not a string.
        """
        if isinstance(tokens, str) or not isinstance(tokens, Sized):
            tokens = token_list(tokens)
        ids = self._ids
        encoded: Iterable[int] = map(ids.__getitem__, tokens)
        if not remember:
            # words and cached spellings are found without a search
            encoded = (ids[token] if token in ids else ids.find(token) for token in tokens)
        try:
            return np.fromiter(encoded, dtype=np.int32, count=len(tokens))
        except TypeError as error:  # a list or dictionary where a token should be
            raise CorpusError(
                f"a token is not a string ({error}); tokens must be strings"
            ) from error

    def decode(self, ids: Iterable[int] | NDArray[np.integer[Any]]) -> list[str]:
        """Return the words of ids; a word outside the vocabulary comes back as its class or ``<unk>``.

        Raises CorpusError for an id that is not in 0 .. len(self) - 1, or is no whole number.
        """
        words = self.words
        try:
            listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
            unknown = next((i for i in listed if not 0 <= i < len(words)), None)
            if unknown is None:
                return [words[i] for i in listed]
        except TypeError:
            raise CorpusError(f"ids must be a list of whole numbers, not {ids!r:.80}") from None
        raise CorpusError(
            f"there is no id {unknown} in a vocabulary of {len(self)} types; "
            "decode with the vocabulary that encoded the text"
        )

    def __len__(self) -> int:
        return len(self.counts)

    def class_of(self, word: str) -> str:
        """Return the type that represents a word without a type of its own: its finest class, or ``<unk>``."""
        return self._ids.class_of(word)

    def is_reserved(self, word: str) -> bool:
        """Return whether a spelling is reserved: in a text it means ``</s>``, ``<unk>`` or a class."""
        return _is_reserved(word, self.oov)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self._ids.own(word) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.fingerprint == other.fingerprint and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} types, {self.normalization}, oov={self.oov!r})"

    @property
    def boundary_id(self) -> int:
        """The id of ``</s>``."""
        return self._ids[BOUNDARY]

    @property
    def unknown_id(self) -> int:
        """The id of ``<unk>``."""
        return self._ids[UNKNOWN]

    @cached_property
    def oov_ids(self) -> NDArray[np.int32]:
        """The ids of ``<unk>`` and the classes, which represent words without a type; int32, ascending."""
        names = (i for i, word in enumerate(self.words) if _is_reserved(word, self.oov))
        return np.array([i for i in names if i != self.boundary_id], dtype=np.int32)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the words in order and of the rules by which strings are looked up, but not of counts."""
        digest = hashlib.sha256(repr((self.normalization, self.oov)).encode())
        for array in self.packed():
            digest.update(array.tobytes())
        return digest.hexdigest()

    def require_same(self, other: "Vocabulary", what: str) -> None:
        """Raise CorpusError unless the other vocabulary gives every string the same id as this one.

        ``what`` says whose the other vocabulary is, for the message, such as "the corpus" or "train.txt".
        """
        if other is self or self.fingerprint == other.fingerprint:
            return
        pairs = enumerate(zip(self.words, other.words, strict=False))
        first = next((i for i, (ours, theirs) in pairs if ours != theirs), None)
        if first is not None:
            theirs, ours = f"id {first} is {other.words[first]!r}", repr(self.words[first])
        elif len(self) != len(other):
            theirs, ours = f"{len(other)} types", str(len(self))
        else:
            theirs, ours = repr(other), repr(self)
        raise CorpusError(
            f"the vocabulary of {what} is not the one expected ({theirs} there, {ours} here); "
            "build the corpus with vocabulary=model.vocabulary"
        )

    # ---- to arrays and back ----

    @property
    def sizes(self) -> dict[str, int]:
        """The dimension of the arrays whose rows are numbered by ids: ``types``."""
        return {"types": len(self.counts)}

    def packed(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the words as `pack_words` does."""
        return self._packed or pack_words(self.words)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return ``vocabulary.text`` and ``vocabulary.offsets``, see `pack_words`, and ``vocabulary.counts``."""
        return _Saved(*self.packed(), self.counts).to_arrays("vocabulary.")

    def config_dict(self) -> dict[str, Any]:
        """Return the rules by which strings are looked up as JSON: digits, lowercase, oov, and any types in spelled."""
        spelled = {"spelled": sorted(self.spelled)} if self.spelled else {}
        return {**vars(self.normalization), "oov": self.oov, **spelled}

    @classmethod
    def from_arrays(
        cls,
        config: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        *,
        at_once: bool | None = None,
    ) -> Self:
        """Return the vocabulary that ``config_dict`` and ``arrays`` describe. Raises ArtifactError if it is damaged.

        With ``at_once=False``, and by default if there are more than 4,096, the words stay packed until one is asked
        for, and are checked then: a model can be opened in less time than a large vocabulary takes.
        """
        saved = _Saved.from_arrays(arrays, "vocabulary.")
        text, offsets = saved.text.view(), saved.offsets.view()
        # the vocabulary keeps them and never changes
        for array in (text, offsets):
            array.flags.writeable = False
        packed = _Saved(text, offsets, saved.counts)
        try:
            normalization = Normalization(config["digits"], config["lowercase"])
            rules = normalization, config["oov"], config.get("spelled", ())
            vocabulary = cls(packed, saved.counts, *rules)
        except (CorpusError, KeyError, TypeError) as error:  # TypeError: spelled is no list
            raise _damage_error(error) from error
        if at_once or (at_once is None and len(saved.counts) <= _WORDS_READ_AT_ONCE):
            _ = vocabulary._ids
        return vocabulary

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"split_words": self.split_words and dict(self.split_words)}
        rules = self.normalization, self.oov, self.spelled
        return type(self), (self.words, self.counts, *rules), state


def no_vocabulary(given: object) -> CorpusError:
    """Return the error for what is given as a vocabulary and is none."""
    what = type(given).__name__
    return CorpusError(f"vocabulary is a {what}; give a Vocabulary, such as that of a corpus")


def _check_normalization(given: Normalization | None) -> Normalization:
    if not isinstance(given, Normalization | None):
        raise CorpusError(f"normalization is {given!r:.40}; give a Normalization, or None")
    return given or Normalization()


def _with_digits(word: str, normalization: Normalization) -> str:
    """Return a normalized word in which ``NUM`` is a digit again, for its class."""
    return word.replace("NUM", "0") if normalization.digits else word


def _find_spelled(
    written: Mapping[str, int], types: Mapping[str, int], normalization: Normalization
) -> list[str]:
    """Return the types in which NUM is written as letters in most occurrences; lower-casing leaves none."""
    if not normalization.digits or normalization.lowercase:
        return []
    named = {word: n for word, n in written.items() if "NUM" in word and word in types}
    return [word for word, n in named.items() if 2 * n > types[word]]


def _damage_error(error: Exception) -> ArtifactError:
    return ArtifactError(f"the vocabulary of the model is damaged: {error}")


def rank(
    counts: Mapping[str, int], n: int | None = None, min_count: int = 0
) -> list[tuple[str, int]]:
    """Return the most frequent strings with their counts; ties in the order of code points."""
    if n is not None and n < len(counts):
        # sorting a million words that are not kept would take longer than everything else
        min_count = max(min_count, sorted(counts.values(), reverse=True)[n - 1])
    ranked = sorted((item for item in counts.items() if item[1] >= min_count), key=itemgetter(0))
    ranked.sort(key=itemgetter(1), reverse=True)  # stable: ties stay in the order of the words
    return ranked[:n]


def _count_learned(unknown: Mapping[str, int], min_class_count: int) -> dict[str, int]:
    """Return the count of each class of at least ``min_class_count`` words, without the words of finer classes."""
    totals: Counter[str] = Counter()
    for word, count in unknown.items():
        for name in learned_names(word):
            totals[name] += count
    counts = {name: 0 for name, count in totals.items() if count >= min_class_count}
    counts[UNKNOWN] = 0
    for word, count in unknown.items():
        counts[next((name for name in learned_names(word) if name in counts), UNKNOWN)] += count
    return counts


def _count_english(unknown: Mapping[str, int], min_class_count: int) -> dict[str, int]:
    """Return the counts of the English classes; rare ones join their coarser class, and rare coarse ones ``<unk>``."""
    found: Counter[str] = Counter()
    for word, count in unknown.items():
        found[word_class(word)] += count
    counts, coarse = Counter[str](), Counter[str]()
    for name, count in found.items():
        above = coarser_class(name)
        if above is not None and count >= min_class_count:
            counts[name] = count
        else:
            coarse[above or name] += count
    # by now each coarse class has the counts of all classes that were merged into it
    for name, count in coarse.items():
        counts[name if count >= min_class_count else UNKNOWN] += count
    return counts
