"""The types of a corpus: words, their counts, and how any string finds its id.

Ids run from the most frequent type to the rarest; ties go by code point. Two types are always
there: the boundary ``</s>``, whose count is the number of sentences, and ``<unk>``, which stands for
every word that has no type of its own. With ``oov="classes"`` such words go to their shape and suffix
class first (see ``tacenda.word_classes``), if that was frequent enough to be a type.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sized
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import ArtifactError, CorpusError
from tacenda.lookup import BOUNDARY, UNKNOWN, Lookup, Normalization, Oov, check_oov, reserved
from tacenda.vocabulary_arrays import pack, unpack
from tacenda.vocabulary_selection import select

__all__ = ["BOUNDARY", "UNKNOWN", "Normalization", "Oov", "Vocabulary"]


class Vocabulary:
    """Words in id order with their counts, and the way from any string to an id.

    words: the types, most frequent first; includes ``</s>`` and ``<unk>``.
    counts: int64 (types,), read-only: how often each occurs in the text it was built from; ``<unk>``
        and the classes hold the summed counts of the words they stand for, ``</s>`` the number of
        sentences (plus what was literally written as ``</s>``).
    normalization, oov: how strings are looked up.

    Raises CorpusError if words repeat, counts do not fit them, or a special type is missing.
    """

    words: tuple[str, ...]
    counts: NDArray[np.int64]
    normalization: Normalization
    oov: Oov

    def __init__(
        self,
        words: Iterable[str],
        counts: Iterable[int] | NDArray[np.integer[Any]],
        normalization: Normalization | None = None,
        oov: Oov = "single",
    ) -> None:
        self.words = tuple(map(str, words))
        array = counts if isinstance(counts, np.ndarray) else np.array(list(counts), dtype=np.int64)
        self.counts = array.astype(np.int64)
        self.counts.flags.writeable = False
        self.normalization = normalization or Normalization()
        self.oov = check_oov(oov)
        if self.counts.shape != (len(self.words),):
            raise CorpusError(
                f"a vocabulary of {len(self.words)} words was given counts of shape {array.shape}; "
                "give one count a word"
            )
        if (self.counts < 0).any():
            raise CorpusError("a vocabulary was given a negative count; counts say how often")
        self._ids = Lookup(self.words, self.normalization, self.oov)
        if len(self._ids) != len(self.words):
            raise CorpusError("a vocabulary was given the same word twice; every word has one id")
        for special in (BOUNDARY, UNKNOWN):
            if special not in self._ids:
                raise CorpusError(
                    f"a vocabulary was given no {special}; build one with Vocabulary.from_counts"
                )

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
        """Choose the types of a text from the counts of its words as they were spelled.

        max_vocabulary: how many proper words are kept, most frequent first; ``</s>``, ``<unk>`` and
            the classes come on top.
        min_count: words that occur less often (after normalization) are left out.
        min_class_count: a class with fewer occurrences joins a coarser one, then ``<unk>``.
        """
        words, chosen = select(
            counts,
            n_sentences,
            max_vocabulary=max_vocabulary,
            min_count=min_count,
            normalization=normalization or Normalization(),
            oov=check_oov(oov),
            min_class_count=min_class_count,
        )
        return cls(words, chosen, normalization, oov)

    # ---- from words to ids and back ----

    def id_of(self, word: str) -> int:
        """The id of a word: its own, else its class's, else that of ``<unk>``."""
        return self._ids[word]

    def encode(self, tokens: Iterable[str], *, remember: bool = True) -> NDArray[np.int32]:
        """Ids of the tokens of a text, int32 (tokens,).

        remember: keep the ids of unknown spellings for the next time (a bounded number of them);
        False suits lists of distinct strings.
        """
        if isinstance(tokens, str):
            raise CorpusError("encode was given one string; give a list of tokens: text.split()")
        if not isinstance(tokens, Sized):
            tokens = list(tokens)
        find = self._ids.__getitem__ if remember else self._ids.find
        return np.fromiter(map(find, tokens), dtype=np.int32, count=len(tokens))

    def decode(self, ids: Iterable[int] | NDArray[np.integer[Any]]) -> list[str]:
        """The words of ids; a word outside the vocabulary comes back as its class or ``<unk>``.

        Raises CorpusError for an id that is not in 0 .. len(self) - 1.
        """
        listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        strange = next((i for i in listed if not 0 <= i < len(self.words)), None)
        if strange is not None:
            raise CorpusError(
                f"there is no id {strange} in a vocabulary of {len(self.words)} types; "
                "decode with the vocabulary that encoded the text"
            )
        words = self.words
        return [words[i] for i in listed]

    def __len__(self) -> int:
        return len(self.words)

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
        """The ids that stand for words without a type, ``<unk>`` and classes; int32, ascending."""
        names = reserved(self.oov) - {BOUNDARY}
        return np.array([i for i, word in enumerate(self.words) if word in names], dtype=np.int32)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the words in order and of how strings are looked up, not of counts."""
        digest = hashlib.sha256(repr((self.normalization, self.oov)).encode())
        for array in pack(self.words):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def require_same(self, other: "Vocabulary", what: str) -> None:
        """Raise CorpusError unless the other vocabulary gives every string the same id as this one.

        what: whose the other vocabulary is, for the message, such as "the corpus" or "train.txt".
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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The words as ``vocabulary.text`` and ``.offsets``, see ``vocabulary_arrays.pack``, and
        ``vocabulary.counts``, int64 (types,).
        """
        text, offsets = pack(self.words)
        return {
            "vocabulary.text": text,
            "vocabulary.offsets": offsets,
            "vocabulary.counts": self.counts,
        }

    def config_dict(self) -> dict[str, Any]:
        """What ``arrays`` does not hold, as JSON: digits, lowercase, oov."""
        return {
            "digits": self.normalization.digits,
            "lowercase": self.normalization.lowercase,
            "oov": self.oov,
        }

    @classmethod
    def from_arrays(cls, config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The vocabulary that ``config_dict`` and ``arrays`` describe; ArtifactError if damaged."""
        words, counts = unpack(arrays)
        settings = [config.get(name) for name in ("digits", "lowercase")]
        if not all(isinstance(setting, bool) for setting in settings):
            raise ArtifactError(
                f"the vocabulary's digits and lowercase are {settings}, not true or false; "
                "the model is damaged"
            )
        try:
            return cls(words, counts, Normalization(*map(bool, settings)), config["oov"])
        except (CorpusError, KeyError) as error:
            raise ArtifactError(f"the vocabulary of the model is damaged: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.words, self.counts, self.normalization, self.oov)
