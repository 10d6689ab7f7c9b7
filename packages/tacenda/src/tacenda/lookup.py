"""How any string finds its id: normalization, then its own type, then its class, then ``<unk>``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from tacenda.errors import CorpusError
from tacenda.word_classes import CLASSES, coarser_class, word_class

BOUNDARY: Final = "</s>"
UNKNOWN: Final = "<unk>"
Oov = Literal["single", "classes"]

_DIGITS: Final = re.compile(r"\d+")
# what an earlier normalization left behind must survive the next one, lower-casing included
_NUMBER_WORD: Final = re.compile(r"((?<![A-Z])(?:NUM)+(?![A-Z]))")
_CACHE_LIMIT: Final = 500_000


@dataclass(frozen=True)
class Normalization:
    """What is done to a word before it is looked up; nothing, unless asked for."""

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

    def __bool__(self) -> bool:
        """Whether anything is done at all."""
        return self.digits or self.lowercase


def reserved(oov: Oov) -> frozenset[str]:
    """Return the names that no ordinary word can have: written in a text they mean the type of that name."""
    return frozenset((BOUNDARY, UNKNOWN, *(CLASSES if oov == "classes" else ())))


def class_of(normalized: str, normalization: Normalization) -> str:
    """Return the shape and suffix class of a normalized word; ``NUM`` counts as the digits it was."""
    return word_class(normalized.replace("NUM", "0") if normalization.digits else normalized)


class Lookup(dict[str, int]):
    """A dictionary from strings to ids in which every string is found: ``lookup[word]`` never fails.

    It holds the words themselves. Strings that needed work are remembered too, up to a limit, so that a second look
    costs one dictionary access.
    """

    def __init__(self, words: tuple[str, ...], normalization: Normalization, oov: Oov) -> None:
        super().__init__(zip(words, range(len(words)), strict=True))
        self._words = words
        self._normalization = normalization
        self._classes = oov == "classes"
        self._reserved = reserved(oov)
        self._limit = len(self) + _CACHE_LIMIT

    def __missing__(self, word: str) -> int:
        found = self.find(word)
        if len(self) < self._limit:
            self[word] = found
        return found

    def find(self, word: str) -> int:
        """Return the id of any string without remembering it. Raises CorpusError for what is no string."""
        if not isinstance(word, str):
            raise not_a_string(word)
        own = self.own(word)
        return self._stand_in(word) if own is None else own

    def own(self, word: str) -> int | None:
        """Return the id of the word's own type, or None if it has none."""
        found = self._exact(word)
        if found is None and self._normalization:
            found = self._exact(self._normalized(word))
        return found

    def _normalized(self, word: str) -> str:
        return word if word in self._reserved else self._normalization(word)

    def _exact(self, word: str) -> int | None:
        # the dictionary also remembers words without a type, under the id of what stands for them
        found = self.get(word)
        return found if found is not None and self._words[found] == word else None

    def _stand_in(self, word: str) -> int:
        """Return the id of the finest class of a word that is a type, or that of ``<unk>``."""
        name = class_of(self._normalized(word), self._normalization) if self._classes else None
        while name is not None:
            found = self._exact(name)
            if found is not None:
                return found
            name = coarser_class(name)
        return self[UNKNOWN]


def not_a_string(token: object) -> CorpusError:
    """Return the error for a token that is no string."""
    return CorpusError(
        f"a token is a {type(token).__name__} ({token!r:.40}), not a string; tokens must be strings"
    )


def token_list(tokens: Iterable[str]) -> list[str]:
    """Return the tokens of a sentence as a list. Raises CorpusError for one string, which would fall into letters."""
    if isinstance(tokens, str):
        raise CorpusError(
            f"a sentence is one string ({tokens!r:.40}); give a list of tokens: text.split()"
        )
    return tokens if isinstance(tokens, list) else list(tokens)


def check_oov(value: str) -> Oov:
    """Return the value if it is "single" or "classes"; raise CorpusError otherwise."""
    if value not in get_args(Oov):
        raise CorpusError(
            f'oov is {value!r}; use "single" (one <unk>) or "classes" (shapes and suffixes)'
        )
    return value  # type: ignore[return-value]
