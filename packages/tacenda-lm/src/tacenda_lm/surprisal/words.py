"""The words of running text, as a reader meets them, and the tokens of a model that each consists of.

A word is what whitespace separates, with the punctuation that is attached to it: ``"Don't,``. A model has been fitted
to smaller tokens: ``" Do n't ,``. Every word is tokenized by itself, so each token belongs to one word, whatever a
tokenizer does to its characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args

from tacenda.errors import ConfigurationError, DataError
from tacenda.tokenizers import Tokenizer

#: What a sentence is: a line, or what punctuation ends in a line.
Split: TypeAlias = Literal["lines", "sentences"]

_WORD = re.compile(r"\S+")
_LINE = re.compile(r"[^\n]+")
# punctuation to Unicode, but words or parts of words to a reader
_NOT_ATTACHED = frozenset("&%‰#@*/\\§¶†‡")
_ENDS, _CLOSING, _OPENING = frozenset(".!?…"), "\"'”’»)]", "\"'“‘(["
_ABBREVIATION = re.compile(
    r"[(\[\"'“‘]*(?:[A-Z]|Mrs?|Ms|Dr|St|Jr|Sr|Prof|Rev|Gen|Col|Capt|Lt|Sgt|Messrs|Mme|Mlle|vs|cf|No|Vol|e\.g|i\.e)\."
)


class Word(NamedTuple):
    """A word of running text, or a region of an item."""

    text: str  # as written, punctuation attached
    start: int  # its first character in the text, from 0
    end: int  # behind its last character
    sentence: int  # the number of its sentence in the text, from 1
    tokens: tuple[str, ...]  # what a model reads
    bare: slice  # its tokens without those of attached punctuation
    # the bare tokens of each word between whitespace in it; a word of running text is one
    parts: tuple[slice, ...]


def check_split(split: str) -> None:
    """Raise ConfigurationError unless there is such a way to split a text."""
    if split not in get_args(Split):
        raise ConfigurationError(f"split must be 'lines' or 'sentences', not {split!r}")


def text_words(text: str, tokenize: Tokenizer, split: Split) -> Iterator[Word]:
    r"""Yield the words of a text whose lines end in ``\n``.

    Raises DataError where the tokenizer makes no token of a word.
    """
    tokens_of = _tokens_of(tokenize)
    sentence = 0
    for line in _LINE.finditer(text):
        found = [(m[0], m.start(), m.end()) for m in _WORD.finditer(text, *line.span())]
        starts = sentence_starts([word for word, _, _ in found], split)
        for (word, start, end), begins in zip(found, starts, strict=True):
            sentence += begins
            yield Word(word, start, end, sentence, *tokens_of(word))


def region_words(
    regions: Sequence[str], tokenize: Tokenizer, split: Split, starts: Sequence[bool] | None = None
) -> Iterator[Word]:
    """Yield the regions of an item as words; spans count a space between regions.

    ``starts`` says with which of them a sentence begins; without it that is found as in a line of text.

    Raises DataError where a region has no token.
    """
    tokens_of = _tokens_of(tokenize)
    sentence = start = 0
    starts = sentence_starts(regions, split) if starts is None else starts
    for region, begins in zip(regions, starts, strict=True):
        sentence += begins
        yield Word(region, start, start + len(region), sentence, *tokens_of(region))
        start += len(region) + 1


def _tokens_of(
    tokenize: Tokenizer,
) -> Callable[[str], tuple[tuple[str, ...], slice, tuple[slice, ...]]]:
    """Tokenizes a word or a region, word by word, and remembers what it found: the last fields of `Word`."""

    @lru_cache(maxsize=1 << 16)
    def tokens_of(region: str) -> tuple[tuple[str, ...], slice, tuple[slice, ...]]:
        found: list[str] = []
        parts = []
        for word in region.split():
            own = tokenize(word)
            bare = bare_tokens(own)
            parts.append(slice(len(found) + bare.start, len(found) + bare.stop))
            found += own
        tokens = tuple(found)
        if not tokens:
            raise DataError(
                f"the tokenizer makes no token of {region!r}: give regions with words in them, or another tokenizer"
            )
        bare = parts[0] if len(parts) == 1 else bare_tokens(tokens)
        return tokens, bare, tuple(parts)

    return tokens_of


def sentence_starts(words: Sequence[str], split: Split) -> list[bool]:
    """Return which words of a line begin a sentence: the first, and with ``"sentences"`` those after . ! ? and …

    A full stop ends no sentence after an initial or a common abbreviation, and none where a lower-case word follows.
    """
    starts = [i == 0 for i in range(len(words))]
    if split == "sentences":
        for i in range(1, len(words)):
            before, after = words[i - 1], words[i]
            ended = before.rstrip(_CLOSING)[-1:] in _ENDS
            ended = ended and not _ABBREVIATION.fullmatch(before)
            starts[i] = ended and not after.lstrip(_OPENING)[:1].islower()
    return starts


def bare_tokens(tokens: Sequence[str]) -> slice:
    """Return which tokens of a word are not punctuation attached to its ends; all if nothing else is there."""
    first, last = 0, len(tokens)
    while first < last and _is_attached(tokens[first]):
        first += 1
    if first == last:
        return slice(0, len(tokens))
    while _is_attached(tokens[last - 1]):
        last -= 1
    return slice(first, last)


def bare_length(word: str) -> int:
    """Return the characters of a word without the punctuation at its ends; all if nothing else is there."""
    attached = [_is_attached(character) for character in word]
    if all(attached):
        return len(word)
    return len(word) - attached.index(False) - attached[::-1].index(False)


@lru_cache(maxsize=1 << 12)
def _is_attached(token: str) -> bool:
    """Whether a token is punctuation that does not count as part of a word."""
    return all(
        c in "`´" or (unicodedata.category(c)[0] == "P" and c not in _NOT_ATTACHED) for c in token
    )
