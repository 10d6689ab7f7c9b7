"""`ScoredText`: the words of a text with the scores and the frequencies of their tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.corpus.split_words import strip_punctuation
from tacenda.vocabulary import Vocabulary
from tacenda_lm.sequences import Float64, Integers, Offsets, sums_of_pieces
from tacenda_lm.surprisal.words import Word

_LN2 = math.log(2)


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
