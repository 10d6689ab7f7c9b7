"""Counts of the words between spaces that a tokenizer cuts into several tokens, such as *don't* and *well-known*.

A vocabulary counts tokens, and the counts of its tokens do not tell how often such a word is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from tacenda.tokenizers import ASCII_WHITESPACE, Tokenizer, get_tokenizer
from tacenda.vocabulary import Normalization

#: What is written less often is not kept.
LEAST: Final = 2
_PUNCTUATION: Final = ".,;:!?…\"'`‘’“”„«»()[]{}<>*_-–—"
_LONGEST: Final = 40  # characters of a word; a longer piece of text is none
_MOST: Final = 1 << 20  # strings that are counted at a time


def bare_word(piece: str) -> str:
    """Return what stands between spaces without the punctuation at its ends; all of it if nothing else is there."""
    return piece.strip(_PUNCTUATION) or piece


class SplitWords:
    """Counts words while their text is tokenized; none where the tokenizer splits at spaces only.

    ``types`` are the tokens of the text, which are filled in meanwhile.
    """

    def __init__(self, tokenizer: str | Tokenizer, types: Collection[str]) -> None:
        self._types = types
        self._counts: Counter[str] | None = None
        if tokenizer not in ("whitespace", ASCII_WHITESPACE):
            self._counts, self._tokenize = Counter(), get_tokenizer(tokenizer)

    def read(self, blocks: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield blocks of lines, and count the words between spaces that are no tokens so far."""
        for lines in blocks:
            yield lines
            if self._counts is not None:
                self._count(lines, self._counts)

    def _count(self, lines: list[str], counts: Counter[str]) -> None:
        for piece, times in Counter(" ".join(lines).split()).items():
            word = bare_word(piece)
            if word not in self._types and len(word) <= _LONGEST:
                counts[word] += times
        if len(counts) > _MOST:
            for word in [word for word, times in counts.items() if times < LEAST]:
                del counts[word]

    def counts(self, normalization: Normalization) -> Mapping[str, int] | None:
        """Return how often each word of several tokens was written, normalized; None where nothing was counted."""
        if self._counts is None:
            return None
        # several processes tokenize a block after its words were counted
        counts = {word: n for word, n in self._counts.items() if word not in self._types}
        written: Counter[str] = Counter()
        for word, times in counts.items():
            written[normalization(word)] += times
        found = {}
        for word in counts:
            normalized = normalization(word)
            if written[normalized] >= LEAST and len(self._tokenize(word)) > 1:
                found[normalized] = written[normalized]
        return found
