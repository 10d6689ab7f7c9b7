"""Rescoring of n-best lists, as speech recognisers and translators hand them on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tacenda.corpus.text import Sentence, tokens_of
from tacenda_lm.evaluation import Evaluation

__all__ = ["Rescored", "Rescoring"]


class Rescored(NamedTuple):
    """A hypothesis with its new score.

    Attributes
    ----------
    sentence
        As it was given.
    total
        Score + weight * log_prob + word_bonus * words.
    score
        As it was given; a natural logarithm if ``log_prob`` is to be added with weight 1.
    log_prob
        Natural logarithm of the language model's probability, ``</s>`` included.
    """

    sentence: Sentence
    total: float
    score: float
    log_prob: float


class Rescoring(Evaluation):
    """N-best rescoring."""

    def rescore(
        self,
        hypotheses: Iterable[tuple[Sentence, float]],
        *,
        weight: float = 1.0,
        word_bonus: float = 0.0,
    ) -> list[Rescored]:
        """Hypotheses by the sum of their own score and the language model's, best first.

        Parameters
        ----------
        hypotheses
            (sentence, score) pairs, a higher score being better; of equal totals the earlier
            stays first.
        weight
            Of the language model's natural log-probability.
        word_bonus
            Added for every word, against the language model's love of short sentences.
        """
        pairs = [(sentence, float(score)) for sentence, score in hypotheses]
        tokens = [tokens_of(sentence) for sentence, _ in pairs]
        found = []
        scored = self.token_log_probs(tokens)
        for (sentence, score), words, parts in zip(pairs, tokens, scored, strict=True):
            log_prob = float(parts.sum())
            total = score + weight * log_prob + word_bonus * len(words)
            found.append(Rescored(sentence, total, score, log_prob))
        return sorted(found, key=lambda each: -each.total)
