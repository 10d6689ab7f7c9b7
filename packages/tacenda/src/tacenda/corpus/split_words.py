"""Count words such as *don't* that a tokenizer splits into several tokens.

A vocabulary counts tokens, and the counts of tokens do not tell how often such a word is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from tacenda.tokenizers import Tokenizer, get_tokenizer
from tacenda.vocabulary import Normalization

#: Words with a lower count are left out of the result.
MIN_COUNT: Final = 2
_PUNCTUATION: Final = ".,;:!?…\"'`‘’“”„«»()[]{}<>*_-–—"
_MAX_LENGTH: Final = 40  # characters; longer strings between spaces are not counted
_PRUNE_ABOVE: Final = 1 << 20  # strings in memory


def strip_punctuation(piece: str) -> str:
    """Return a string without the punctuation at its ends, or all of it if it is nothing but punctuation."""
    return piece.strip(_PUNCTUATION) or piece


class SplitWordCounter:
    """A counter of split words, which counts while the text is tokenized.

    ``types`` is the collection of the text's tokens, which the tokenizing code fills.

    Memory is bounded: above a million strings, the rarest are dropped, so that at least half go. The counts of a text
    with more strings are therefore lower bounds: occurrences before a string was dropped are not counted.
    """

    def __init__(self, tokenizer: str | Tokenizer, types: Collection[str]) -> None:
        self._types, self._tokenize = types, get_tokenizer(tokenizer)
        self._counts: Counter[str] = Counter()

    def count_while_reading(self, blocks: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield blocks of lines; after each, count its words between spaces that are not tokens of the text so far."""
        for lines in blocks:
            yield lines
            counts, threshold = self._counts, MIN_COUNT
            for piece, times in Counter(" ".join(lines).split()).items():
                word = strip_punctuation(piece)
                if word not in self._types and len(word) <= _MAX_LENGTH:
                    counts[word] += times
            # halved, because each pass over all strings has to make room for many blocks
            limit = _PRUNE_ABOVE if len(counts) <= _PRUNE_ABOVE else _PRUNE_ABOVE // 2
            while len(counts) > limit:
                for word in [word for word, times in counts.items() if times < threshold]:
                    del counts[word]
                threshold += 1

    def counts(self, normalization: Normalization) -> Mapping[str, int]:
        """Return the count of each normalized word of several tokens.

        The counts are exact up to a million different strings, and lower bounds for larger texts.
        """
        # with several processes, a type may be added after its block was counted
        counts = {word: n for word, n in self._counts.items() if word not in self._types}
        totals: Counter[str] = Counter()
        for word, times in counts.items():
            totals[normalization(word)] += times
        return {
            normalized: totals[normalized]
            for word in counts
            if totals[normalized := normalization(word)] >= MIN_COUNT
            and len(self._tokenize(word)) > 1
        }
