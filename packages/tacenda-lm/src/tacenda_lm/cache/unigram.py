"""`UnigramCache`: words that were read are read again (Kuhn and De Mori 1990)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.fitting import FitRun
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.cache.settings import UnigramCacheSettings
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import Float64, Integers, check_word, checked, checked_ids
from tacenda_lm.states import State

__all__ = ["UnigramCache", "prior_of"]


def prior_of(vocabulary: Vocabulary) -> Float64:
    """Return the frequencies u(w) of the words, one added to each count: float64 (types,), which sum to one."""
    counts = vocabulary.counts + 1.0
    return np.asarray(counts / counts.sum(), np.float64)


class UnigramCache(LanguageModel):
    """A unigram model of the words just read.

        p(w_t | h) = (sum_{a = 1 .. window} decay^{a - 1} [w_{t - a} = w] + kappa u(w)) / (sum_a decay^{a - 1} + kappa)

    u are the frequencies of the words in the text that the vocabulary was made from, and kappa is ``prior_words``. The
    cache is meant to be a component of a `Mixture`: text repeats its words, which the models that predict words from a
    few words before do not know. It reaches over the ends of sentences; score a running text as a stream.

    Examples
    --------
    >>> cache = UnigramCache(window=500).fit(corpus)
    >>> Mixture({"kn": kneser_ney, "cache": cache}).fit_weights(Path("valid.txt"), context="stream")
    """

    name: ClassVar[str] = "unigram_cache"
    distribution: ClassVar[str] = "tacenda-lm"
    settings_class = UnigramCacheSettings
    settings: UnigramCacheSettings

    @configured_by(UnigramCacheSettings)
    def __init__(self, settings: UnigramCacheSettings) -> None:
        super().__init__(settings)

    @property
    def own_context(self) -> Context:
        """``"stream"``."""
        return "stream"

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        self._adopt(corpus.vocabulary)

    def _adopt(self, vocabulary: Vocabulary) -> Self:
        self._vocabulary = vocabulary
        self._prior = prior_of(vocabulary)
        return self

    @cached_property
    def _weights(self) -> Float64:
        """The weight of the last word, of the one before, and so on, (window,)."""
        return np.asarray(self.settings.decay ** np.arange(self.settings.window, dtype=np.float64))

    @cached_property
    def _totals(self) -> Float64:
        """The weight of the last n words, (window + 1,)."""
        return np.concatenate([[0.0], np.cumsum(self._weights)])

    # -- one word after another: the value of a state is the bytes of the words, int32, oldest first ------

    def start(self) -> State:
        """Return the state in which no word was read."""
        _ = self.vocabulary
        return State(b"")

    def advance(self, state: State, word: int) -> State:
        """Return the state after one more word."""
        check_word(word, len(self.vocabulary))
        words = np.append(self._words(state), np.int32(word))
        return State(words[-self.settings.window :].tobytes())

    def _words(self, state: State) -> npt.NDArray[np.int32]:
        return checked_ids(state.vector(np.int32)[-self.settings.window :], len(self.vocabulary))

    def log_probs(self, states: Sequence[State]) -> Float64:
        """Return natural log-probabilities of every next word, float64 (states, types)."""
        kappa = self.settings.prior_words
        rows = np.repeat(kappa * self._prior_found[None], len(states), axis=0)
        for row, state in zip(rows, states, strict=True):
            words = self._words(state)
            np.add.at(row, words, self._weights[: len(words)][::-1])
            row /= self._totals[len(words)] + kappa
        return np.asarray(np.log(rows), np.float64)

    @property
    def _prior_found(self) -> Float64:
        _ = self.vocabulary
        return self._prior

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        """Return the natural log-probability of every id given those before it in its sequence, float64 (tokens,)."""
        from tacenda_lm.cache.recent_words import recent  # imports numba

        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        kappa = self.settings.prior_words
        read = np.arange(len(ids)) - np.repeat(offsets[:-1], np.diff(offsets))
        totals = self._totals[np.minimum(read, self.settings.window)]
        hits = recent(ids, offsets, self._weights)
        return np.asarray(np.log((hits + kappa * self._prior[ids]) / (totals + kappa)), np.float64)

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        """Return the log-probability of every id of a sequence that follows a state, and the state after it."""
        words = self._words(state)
        text = np.concatenate([words, checked_ids(ids, len(self.vocabulary))])
        scores = self.score_corpus(text, np.array([0, len(text)]))[len(words) :]
        return scores, State(text[-self.settings.window :].tobytes())

    # -- artefact ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the vocabulary, whose counts are all that is learned. Raises NotFittedError."""
        return self.vocabulary.arrays()

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        return model._adopt(Vocabulary.from_arrays(config["vocabulary"], arrays))
