"""`Word`: a word of running text, and the tokens of a model in it; `ScoredText`: words with the scores of their tokens.

A word is what whitespace separates, with the punctuation attached to it: ``"Don't,``. A model is usually fitted to
smaller tokens: ``" Do n't ,``. Every word is tokenized independently, so each token belongs to one word, even if the
tokenizer changes its characters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.corpus.split_words import strip_punctuation
from tacenda.errors import DataError
from tacenda.tokenizers import Tokenizer
from tacenda.vocabulary import Vocabulary
from tacenda_lm.sequences import Float64, Integers, Offsets, sums_of_pieces

#: Whether each line is a sentence, or lines are also split at punctuation.
Split: TypeAlias = Literal["lines", "sentences"]

_LN2 = math.log(2)
_WORD = re.compile(r"\S+")
_LINE = re.compile(r"[^\n]+")
# punctuation in Unicode, but words or parts of words for a reader
_NOT_ATTACHED = frozenset("&%‰#@*/\\§¶†‡")
_ENDS, _CLOSING, _OPENING = frozenset(".!?…"), "\"'”’»)]", "\"'“‘(["
_ABBREVIATION = re.compile(
    r"[(\[\"'“‘]*(?:[A-Z]|Mrs?|Ms|Dr|St|Jr|Sr|Prof|Rev|Gen|Col|Capt|Lt|Sgt|Messrs|Mme|Mlle|vs|cf|No|Vol|e\.g|i\.e)\."
)


class Word(NamedTuple):
    """A word of running text, or a region of an item."""

    text: str  # as written, punctuation attached
    start: int  # its first character in the text, from 0
    end: int  # after its last character
    sentence: int  # the number of its sentence in the text, from 1
    tokens: tuple[str, ...]  # that a model reads
    bare: slice  # its tokens without attached punctuation
    # the bare tokens of each word between whitespace in a region; a word of running text has one part
    parts: tuple[slice, ...]


class ScoredText(NamedTuple):
    """The words of one text with the scores of their tokens."""

    name: str
    words: Sequence[Word]
    bits: Float64  # (tokens,): of each token of each word
    known: npt.NDArray[np.bool_]  # (tokens,)
    ids: Integers  # (tokens,)
    log_frequency: Float64  # (parts of all words,), base 2; NaN if unknown
    others: Mapping[str, list[str]] = {}  # further columns, with a value for each word

    @classmethod
    def of(
        cls,
        vocabulary: Vocabulary,
        name: str,
        words: Sequence[Word],
        ids: Integers,
        log_probs: Float64,
        log_shares: Float64,
        counts: Mapping[str, int] | None,
    ) -> Self:
        """Make a scored text from ids, their log-probabilities and `UnknownWords.log_shares`, both natural (tokens,).

        ``counts`` are of words of several tokens, and None if they were not counted.
        """
        known = ~np.isin(ids, vocabulary.oov_ids)
        log_frequency = _compute_log_frequency(vocabulary, words, ids, counts)
        bits = -(log_probs + log_shares) / _LN2
        return cls(name, words, bits, known, ids, log_frequency)

    def cuts(self) -> Offsets:
        """Return where the tokens of each word begin, and the end of the last: int64 (words + 1,)."""
        return np.cumsum([0, *(len(word.tokens) for word in self.words)], dtype=np.int64)

    def known_words(self) -> npt.NDArray[np.bool_]:
        """Return which words have no unknown token, (words,)."""
        cuts = self.cuts()
        return np.asarray(sums_of_pieces(~self.known, cuts[:-1], cuts[1:]) == 0)

    def sentences(self) -> Offsets:
        """Return where the tokens of each sentence begin, and the end of the last: int64 (sentences + 1,)."""
        numbers = np.fromiter((word.sentence for word in self.words), np.int64, len(self.words))
        cuts = self.cuts()
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        return np.asarray(cuts[np.append(starts, len(self.words))], np.int64)


def _compute_log_frequency(
    vocabulary: Vocabulary, words: Sequence[Word], ids: Integers, counts: Mapping[str, int] | None
) -> Float64:
    """Return log2 of the relative frequency of each part of the words in the training text (parts,), NaN if unknown.

    The relative frequency of a token is n(w) / n; ``</s>`` is left out of n. A part of several tokens has its count in
    ``counts``. A count of 0, as of an unknown word, becomes 1, which is close to Laplace's rule, which predicts
    reaction times best (Brysbaert and Diependaele, 2013).
    """
    of_types = vocabulary.counts.astype(np.float64)
    total = of_types.sum() - of_types[vocabulary.boundary_id]
    of_types[vocabulary.oov_ids] = 1
    of_tokens = np.full(len(ids), np.nan)  # the vocabulary of an ARPA file has no counts
    if total > 0:
        of_tokens = np.log2(np.maximum(of_types[ids], 1) / total)
    first, of_parts = 0, []
    for word in words:
        pieces = word.text.split() if len(word.parts) > 1 else [word.text]
        for part, written in zip(word.parts, pieces, strict=True):
            if part.stop - part.start == 1:
                of_parts.append(of_tokens[first + part.start])
            elif counts is None or not total:
                of_parts.append(np.nan)
            else:
                key = vocabulary.normalization(strip_punctuation(written))
                of_parts.append(math.log2(max(counts.get(key, 1), 1) / total))
        first += len(word.tokens)
    return np.array(of_parts, np.float64)


def text_words(text: str, tokenize: Tokenizer, split: Split) -> Iterator[Word]:
    r"""Yield the words of a text whose lines end in ``\n``.

    Raises DataError if the tokenizer makes no token of a word.
    """
    tokens_of = _make_word_tokenizer(tokenize)
    sentence = 0
    for line in _LINE.finditer(text):
        matches = list(_WORD.finditer(text, *line.span()))
        starts = sentence_starts([match[0] for match in matches], split)
        for match, begins in zip(matches, starts, strict=True):
            sentence += begins
            word, start, end = match[0], match.start(), match.end()
            yield Word(word, start, end, sentence, *tokens_of(word))


def region_words(
    regions: Sequence[str], tokenize: Tokenizer, split: Split, starts: Sequence[bool] | None = None
) -> Iterator[Word]:
    """Yield the regions of an item as words; spans count a space between regions.

    ``starts`` says whether a sentence begins with each of them; without it, sentences are found as in a line of text.

    Raises DataError if a region has no token.
    """
    tokens_of = _make_word_tokenizer(tokenize)
    sentence = start = 0
    starts = sentence_starts(regions, split) if starts is None else starts
    for region, begins in zip(regions, starts, strict=True):
        sentence += begins
        yield Word(region, start, start + len(region), sentence, *tokens_of(region))
        start += len(region) + 1


def _make_word_tokenizer(
    tokenize: Tokenizer,
) -> Callable[[str], tuple[tuple[str, ...], slice, tuple[slice, ...]]]:
    """Return a function with a cache that returns the last fields of the `Word` for a word or a region."""

    @lru_cache(maxsize=1 << 16)
    def tokens_of(region: str) -> tuple[tuple[str, ...], slice, tuple[slice, ...]]:
        found: list[str] = []
        parts = []
        for word in region.split():
            of_word = tokenize(word)
            bare = bare_tokens(of_word)
            parts.append(slice(len(found) + bare.start, len(found) + bare.stop))
            found += of_word
        tokens = tuple(found)
        if not tokens:
            raise DataError(
                f"the tokenizer makes no token of {region!r}: give regions with words in them, or another tokenizer"
            )
        bare = parts[0] if len(parts) == 1 else bare_tokens(tokens)
        return tokens, bare, tuple(parts)

    return tokens_of


def sentence_starts(words: Sequence[str], split: Split) -> list[bool]:
    """Return which words or regions begin a sentence: the first, and with ``"sentences"`` those after . ! ? and …

    A full stop does not end a sentence after an initial or a common abbreviation, or before a lower-case word.
    """
    starts = [i == 0 for i in range(len(words))]
    if split == "sentences":
        for i in range(1, len(words)):
            # a region may have several words
            before, after = next(reversed(words[i - 1].split()), ""), words[i].lstrip()
            ended = before.rstrip(_CLOSING)[-1:] in _ENDS
            ended = ended and not _ABBREVIATION.fullmatch(before)
            starts[i] = ended and not after.lstrip(_OPENING)[:1].islower()
    return starts


def bare_tokens(tokens: Sequence[str]) -> slice:
    """Return the tokens of a word without punctuation at its ends; all if they are all punctuation."""
    first, last = 0, len(tokens)
    while first < last and _is_attached(tokens[first]):
        first += 1
    if first == last:
        return slice(0, len(tokens))
    while _is_attached(tokens[last - 1]):
        last -= 1
    return slice(first, last)


def bare_length(word: str) -> int:
    """Return the number of characters of a word without punctuation at its ends; all if they are all punctuation."""
    attached = [_is_attached(character) for character in word]
    if all(attached):
        return len(word)
    return len(word) - attached.index(False) - attached[::-1].index(False)


@lru_cache(maxsize=1 << 12)
def _is_attached(token: str) -> bool:
    """Return whether a token is punctuation that does not count as part of a word."""
    return all(
        c in "`´" or (unicodedata.category(c)[0] == "P" and c not in _NOT_ATTACHED) for c in token
    )
