"""The types of a corpus: words, their counts, and how any string finds its id.

Ids run from the most frequent type to the rarest; ties go by code point. Two types are always there: the
boundary ``</s>``, whose count is the number of sentences, and ``<unk>``, which stands for every word that has
no type of its own. With ``oov="classes"`` such words go to their shape and suffix class first (see
``tacit.word_classes``), so far as that class was frequent enough to be a type.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sized
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ArtifactError, CorpusError
from tacit.lookup import BOUNDARY, UNKNOWN, Lookup, Normalization, Oov, check_oov, reserved
from tacit.vocabulary_selection import select

__all__ = ["BOUNDARY", "UNKNOWN", "Normalization", "Oov", "Vocabulary"]


class Vocabulary:
    """Words in id order with their counts, and the way from any string to an id.

    words: the types, most frequent first; includes ``</s>`` and ``<unk>``.
    counts: int64 (types,), how often each occurs in the text it was built from; ``<unk>`` and the classes hold
        the summed counts of the words they stand for, ``</s>`` the number of sentences.
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
        counts: Iterable[int] | NDArray[np.int64],
        normalization: Normalization | None = None,
        oov: Oov = "single",
    ) -> None:
        self.words = tuple(words)
        array = counts if isinstance(counts, np.ndarray) else np.array(list(counts), dtype=np.int64)
        self.counts = np.array(array, dtype=np.int64)
        self.counts.flags.writeable = False
        self.normalization = normalization or Normalization()
        self.oov = check_oov(oov)
        if self.counts.shape != (len(self.words),):
            raise CorpusError(
                f"a vocabulary of {len(self.words)} words was given counts of shape {array.shape}; give one count per word"
            )
        if self.counts.size and self.counts.min() < 0:
            raise CorpusError(
                "a vocabulary was given a negative count; counts are numbers of occurrences"
            )
        self._index()

    def _index(self) -> None:
        self._ids = Lookup(self.words, self.normalization, self.oov)
        if len(self._ids) != len(self.words):
            raise CorpusError("a vocabulary was given the same word twice; every word needs one id")
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

        max_vocabulary: how many proper words are kept; ``</s>``, ``<unk>`` and the classes come on top.
        min_count: words that occur less often (after normalization) are left out.
        min_class_count: a class with fewer occurrences is folded into a coarser one, then into ``<unk>``.
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
            raise CorpusError(
                "encode was given one string; give a list of tokens, e.g. text.split()"
            )
        if not isinstance(tokens, Sized):
            tokens = list(tokens)
        find = self._ids.__getitem__ if remember else self._ids.find
        return np.fromiter(map(find, tokens), dtype=np.int32, count=len(tokens))

    def decode(self, ids: Iterable[int] | NDArray[np.integer[Any]]) -> list[str]:
        """The words of ids; a word outside the vocabulary comes back as its class or ``<unk>``.

        Raises CorpusError for an id that is not in 0 .. len(self) - 1.
        """
        array = ids if isinstance(ids, np.ndarray) else np.array(list(ids), dtype=np.int64)
        if array.size and (array.min() < 0 or array.max() >= len(self.words)):
            raise CorpusError(
                f"cannot decode id {array.min() if array.min() < 0 else array.max()}: this vocabulary has the ids "
                f"0 to {len(self.words) - 1}; decode with the vocabulary that encoded the text"
            )
        words = self.words
        return [words[i] for i in array.tolist()]

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
        """The ids that stand for words without a type: ``<unk>`` and the classes; int32, ascending."""
        names = reserved(self.oov) - {BOUNDARY}
        return np.array([i for i, word in enumerate(self.words) if word in names], dtype=np.int32)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the words in order and of how strings are looked up; counts do not enter."""
        digest = hashlib.sha256(repr((self.normalization, self.oov)).encode())
        for word in self.words:
            data = word.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(data) + data)
        return digest.hexdigest()

    def require_same(self, other: "Vocabulary", what: str) -> None:
        """Raise CorpusError unless the other vocabulary gives every string the same id as this one.

        what: whose the other vocabulary is, for the message, such as "the corpus" or "train.txt".
        """
        if other is self or self.fingerprint == other.fingerprint:
            return
        first = next(
            (i for i, (a, b) in enumerate(zip(self.words, other.words, strict=False)) if a != b),
            None,
        )
        if first is not None:
            difference = (
                f"id {first} is {other.words[first]!r} there and {self.words[first]!r} here"
            )
        elif len(self) != len(other):
            difference = f"{len(other)} types there and {len(self)} here"
        else:
            difference = f"{other.normalization}, oov={other.oov!r} there and {self.normalization}, oov={self.oov!r} here"
        raise CorpusError(
            f"the vocabulary of {what} is not the one expected ({difference}); "
            "build the corpus with vocabulary=model.vocabulary"
        )

    # ---- to arrays and back ----

    def arrays(self) -> dict[str, NDArray[Any]]:
        """``vocabulary.text`` uint8 (bytes,), ``.offsets`` int64 (types + 1,), ``.counts`` int64 (types,)."""
        encoded = [word.encode("utf-8", "surrogatepass") for word in self.words]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(data) for data in encoded], out=offsets[1:])
        text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
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
        """The vocabulary that ``config_dict`` and ``arrays`` describe. Raises ArtifactError if they are damaged."""
        try:
            text = _array(arrays, "vocabulary.text", np.uint8)
            offsets = _array(arrays, "vocabulary.offsets", np.int64)
            if (
                not offsets.size
                or offsets[0] != 0
                or offsets[-1] != text.size
                or (np.diff(offsets) < 0).any()
            ):
                raise ArtifactError(
                    "vocabulary.offsets do not divide vocabulary.text into words; the file is damaged"
                )
            data, ends = text.tobytes(), offsets.tolist()
            words = [
                data[a:b].decode("utf-8", "surrogatepass")
                for a, b in zip(ends, ends[1:], strict=False)
            ]
            digits, lowercase = config["digits"], config["lowercase"]
            if not isinstance(digits, bool) or not isinstance(lowercase, bool):
                raise ArtifactError(
                    "the vocabulary's digits and lowercase must be true or false; the file is damaged"
                )
            counts = _array(arrays, "vocabulary.counts", np.int64)
            return cls(words, counts, Normalization(digits, lowercase), config["oov"])
        except KeyError as error:
            raise ArtifactError(
                f"the vocabulary's setting {error} is missing; the file is damaged"
            ) from error
        except (UnicodeDecodeError, CorpusError) as error:
            raise ArtifactError(f"the vocabulary cannot be read: {error}") from error

    def __getstate__(self) -> dict[str, Any]:
        return {
            "words": self.words,
            "counts": self.counts,
            "normalization": self.normalization,
            "oov": self.oov,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _array(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    array = arrays.get(name)
    if array is None:
        raise ArtifactError(f"{name} is missing; the file is damaged or holds no vocabulary")
    if array.ndim != 1 or array.dtype != dtype:
        raise ArtifactError(
            f"{name} is {array.dtype} of shape {array.shape}; expected one dimension of {np.dtype(dtype)}"
        )
    return array
