"""The functions of the kenlm module, for every language model; LOGARITHMS HERE HAVE BASE 10."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus.text import Sentence, tokens_of
from tacenda.vocabulary import BOUNDARY
from tacenda_lm.contract import LanguageModelContract
from tacenda_lm.sequences import Float64, Ids, with_ends
from tacenda_lm.state import State
from tacenda_lm.text import ids_of

__all__ = ["FullScore", "KenlmInterface"]

_LN10 = math.log(10)


class FullScore(NamedTuple):
    """The score of one word; a tuple, as ``kenlm.Model.full_scores`` yields.

    Attributes
    ----------
    log_prob
        Base-10 logarithm.
    ngram_length
        Words the prediction rests on, the predicted one included.
    oov
        Whether the word is outside the vocabulary; never for ``</s>`` or a written ``<unk>``.
    """

    log_prob: float
    ngram_length: int
    oov: bool


class KenlmInterface(LanguageModelContract):
    """``score``, ``full_scores`` and scoring word by word, as the kenlm module has them."""

    def score(self, sentence: Sentence, bos: bool = True, eos: bool = True) -> float:
        """The base-10 logarithm of p(sentence).

        Parameters
        ----------
        sentence
            a string, split at whitespace, or a list of tokens.
        bos
            Begin after ``<s>``; otherwise with nothing known.
        eos
            Count ``</s>`` at the end.
        """
        tokens = tokens_of(sentence)
        ids = self.vocabulary.encode([*tokens, BOUNDARY] if eos else tokens)
        return float(self._full_sequence(ids, bos)[0].sum()) / _LN10

    def full_scores(
        self, sentence: Sentence, bos: bool = True, eos: bool = True
    ) -> Iterator[FullScore]:
        """One (log10 p, n-gram length, oov) a token, ``</s>`` last; arguments as `score`."""
        tokens, vocabulary = tokens_of(sentence), self.vocabulary
        if eos:
            tokens.append(BOUNDARY)
        ids = vocabulary.encode(tokens)
        stand_ins = set(vocabulary.oov_ids.tolist())
        pairs = zip(ids.tolist(), tokens, strict=True)
        oov = [number in stand_ins and word not in vocabulary for number, word in pairs]
        scores, lengths = self._full_sequence(ids, bos)
        rows = zip((scores / _LN10).tolist(), lengths.tolist(), oov, strict=True)
        yield from map(FullScore._make, rows)

    def score_batch(self, sentences: Iterable[Sentence], *, eos: bool = True) -> Float64:
        """Base-10 log-probabilities of many sentences, scored in one call: float64 (sentences,)."""
        ids, offsets = ids_of([tokens_of(each) for each in sentences], self.vocabulary)
        if eos:
            ids, offsets = with_ends(ids, offsets, self.vocabulary.boundary_id)
        sums = np.concatenate([[0.0], np.cumsum(self.score_corpus(ids, offsets))])
        return np.diff(sums[offsets]) / _LN10

    def _full_sequence(self, ids: Ids, bos: bool) -> tuple[Float64, npt.NDArray[np.int64]]:
        """Natural log-probabilities and n-gram lengths of one sequence, from its start or from nothing."""
        if bos:
            return self.score_corpus(ids, np.array([0, len(ids)])), self.matched_lengths(ids)
        scores, _ = self.score_from(self.null(), ids)
        return scores, self.matched_lengths(ids, bos=False)

    # -- word by word ------------------------------------------------------------------------------

    def BeginSentenceWrite(self, state: State) -> None:  # noqa: N802
        """Makes ``state`` that of the beginning of a sentence, after ``<s>``."""
        state.value = self.start().value

    def NullContextWrite(self, state: State) -> None:  # noqa: N802
        """Makes ``state`` that in which nothing is known."""
        state.value = self.null().value

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:  # noqa: N802
        """Base-10 log p(word | in_state); ``out_state``, which may be the same, becomes the state after it."""
        return self.BaseFullScore(in_state, word, out_state).log_prob

    def BaseFullScore(self, in_state: State, word: str, out_state: State) -> FullScore:  # noqa: N802
        """`BaseScore` with the n-gram length and whether the word is outside the vocabulary."""
        in_state.check_begun()
        number = self.vocabulary.id_of(word)
        score, length = self._word_score(in_state, number)
        out_state.value = self.advance(in_state, number).value
        oov = number in self.vocabulary.oov_ids and word not in self.vocabulary
        return FullScore(score / _LN10, length, oov)

    def _word_score(self, state: State, word: int) -> tuple[float, int]:
        """Natural log-probability of an id, and the n-gram length (0 where the model does not say)."""
        return float(self.log_prob([state], [word])[0]), 0

    def __contains__(self, word: object) -> bool:
        """Whether a string is a type of the vocabulary."""
        return word in self.vocabulary
