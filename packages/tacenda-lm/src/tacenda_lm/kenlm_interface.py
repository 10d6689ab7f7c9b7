"""`KenlmInterface`: the functions of the kenlm module, for every language model. LOGARITHMS HERE HAVE BASE 10."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus.text import Sentence, Text, tokens_of
from tacenda.vocabulary import BOUNDARY
from tacenda_lm.contract import LanguageModelContract, State
from tacenda_lm.sequences import Float64, Ids, encoded_text

__all__ = ["FullScore", "KenlmInterface"]

_LN10 = math.log(10)


class FullScore(NamedTuple):
    """The score of one word; a tuple, as ``kenlm.Model.full_scores`` yields.

    Attributes
    ----------
    log_prob
        Base-10 logarithm of the word's probability.
    ngram_length
        How many words the prediction rests on, the predicted one included.
    oov
        Whether the word is outside the vocabulary; false for ``</s>`` and for a written ``<unk>``.
    """

    log_prob: float
    ngram_length: int
    oov: bool


class KenlmInterface(LanguageModelContract):
    """``score``, ``full_scores`` and scoring word by word. As in the kenlm module, a string is a sentence."""

    def score(self, sentence: Sentence, bos: bool = True, eos: bool = True) -> float:
        """Return the base-10 logarithm of p(sentence).

        Parameters
        ----------
        sentence
            A string, which is split at whitespace, or a list of tokens.
        bos
            Begin after ``<s>``; otherwise no earlier word is known.
        eos
            Count ``</s>`` at the end.
        """
        tokens = tokens_of(sentence)
        ids = self.vocabulary.encode([*tokens, BOUNDARY] if eos else tokens)
        return float(self._sequence_scores(ids, bos)[0].sum()) / _LN10

    def full_scores(
        self, sentence: Sentence, bos: bool = True, eos: bool = True
    ) -> Iterator[FullScore]:
        """Yield (log10 p, n-gram length, oov) of every token, ``</s>`` last; arguments as of `score`."""
        tokens, vocabulary = tokens_of(sentence), self.vocabulary
        if eos:
            tokens.append(BOUNDARY)
        ids = vocabulary.encode(tokens)
        stand_ins = set(vocabulary.oov_ids.tolist())
        pairs = zip(ids.tolist(), tokens, strict=True)
        oov = [number in stand_ins and word not in vocabulary for number, word in pairs]
        scores, lengths = self._sequence_scores(ids, bos)
        rows = zip((scores / _LN10).tolist(), lengths.tolist(), oov, strict=True)
        yield from map(FullScore._make, rows)

    def score_batch(self, sentences: Text, *, eos: bool = True) -> Float64:
        """Return the base-10 log-probability of every sentence of a text, scored in one call: (sentences,)."""
        ids, offsets = encoded_text(sentences, self.vocabulary, eos=eos)
        sums = np.concatenate([[0.0], np.cumsum(self.score_corpus(ids, offsets))])
        return np.diff(sums[offsets]) / _LN10

    def _sequence_scores(self, ids: Ids, bos: bool) -> tuple[Float64, npt.NDArray[np.int64]]:
        """Natural log-probabilities and n-gram lengths of one sequence; ``bos`` as in `score`.

        A model that does not list n-grams rests each prediction on all words so far.
        """
        if bos:
            return self.score_corpus(ids, np.array([0, len(ids)])), np.arange(2, len(ids) + 2)
        scores, _ = self.score_from(self.null(), ids)
        return scores, np.arange(1, len(ids) + 1)

    # -- word by word ------------------------------------------------------------------------------

    def BeginSentenceWrite(self, state: State) -> None:  # noqa: N802
        """Write the state at the beginning of a sentence, after ``<s>``, into ``state``."""
        state.value = self.start().value

    def NullContextWrite(self, state: State) -> None:  # noqa: N802
        """Write the state in which no earlier word is known into ``state``."""
        state.value = self.null().value

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:  # noqa: N802
        """Return log10 p(word | in_state) and write the state after the word into ``out_state``.

        Both may be the same object.
        """
        return self.BaseFullScore(in_state, word, out_state).log_prob

    def BaseFullScore(self, in_state: State, word: str, out_state: State) -> FullScore:  # noqa: N802
        """As `BaseScore`, but return the n-gram length and whether the word is unknown too."""
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
        """Whether a string is a word of the vocabulary."""
        return word in self.vocabulary
