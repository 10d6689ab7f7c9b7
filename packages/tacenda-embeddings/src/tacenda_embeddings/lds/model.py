"""`LDS`: context-dependent token vectors from a linear dynamical system (Belanger and Kakade, ICML 2015).

    x_t = A x_{t-1} + eta_t,   w_t = C x_t + epsilon_t        (eqs 1-2)

with w_t the centred and whitened indicator of the word at t. Fitting sees the text once, as lagged
co-occurrence counts; the vector of a token is made of the smoothed mean of its state.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds import learning
from tacenda_embeddings.lds.config import LDSConfig
from tacenda_embeddings.lds.counts import LaggedCounts
from tacenda_embeddings.lds.dynamics import TransitionPair, transition_pairs
from tacenda_embeddings.lds.moments import whitening
from tacenda_embeddings.lds.state import FittedState
from tacenda_embeddings.lds.transforming import Transforming


class LDS(Transforming):
    """Token embeddings of a linear dynamical system fitted to raw text.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of `LDSConfig`.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range.

    Examples
    --------
    >>> model = LDS(n_states=200).fit(corpus)
    >>> [vectors] = model.transform([["The", "bank", "of", "the", "river"]])
    >>> vectors.shape
    (5, 600)
    """

    kind: ClassVar[str] = "embedders"
    name: ClassVar[str] = "lds"
    distribution: ClassVar[str] = "tacenda-embeddings"
    api_version: ClassVar[int] = 1

    def __init__(self, config: LDSConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.history: list[learning.Step] = []

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, text: Corpus | LaggedCounts) -> Self:
        """Fits the model to a corpus, or to counts of one.

        Parameters
        ----------
        text
            a `Corpus`, or `LaggedCounts` with at least ``config.n_lags`` lags.

        Raises
        ------
        CorpusError
            Too few word types for ``n_states``, or too few lags.
        """
        counts = self._counts(text)
        return self._adopt(learning.fit(self.config, counts), counts)

    def refit(self, text: Corpus | LaggedCounts, iterations: int = 3) -> Self:
        """Continues from the fitted parameters after text was added: EM iterations only, no SVD.

        Parameters
        ----------
        text
            Counts of the old and the new text together (``old + new``), or a corpus of both, in the
            vocabulary of this model.
        iterations
            EM iterations over the whole vocabulary.

        Raises
        ------
        NotFittedError
            There is nothing to continue from.
        CorpusError
            The vocabulary is another one.
        """
        state = self._fitted()
        counts = self._counts(text)
        state.vocabulary.require_same(counts.vocabulary, "the added text")
        found = learning.refit(self.config, counts, state.parameters, state.scale, iterations)
        return self._adopt(found, counts)

    def _counts(self, text: Corpus | LaggedCounts) -> LaggedCounts:
        if isinstance(text, LaggedCounts):
            return text
        return LaggedCounts.from_corpus(
            text, n_lags=self.config.n_lags, workers=self.config.n_threads
        )

    def _adopt(self, found: learning.Fit, counts: LaggedCounts) -> Self:
        scale, mean = whitening(counts, learning.pseudo_counts(self.config, counts))
        self._state = FittedState.of(counts.vocabulary, found.parameters, found.Xi, scale, mean)
        self.history = found.history
        self.fitted_on = {"n_tokens": int(counts.n_tokens), "n_types": len(counts.vocabulary)}
        gain = {"measure": "log-likelihood gain over no dynamics, nats per token"}
        self.figures = [
            {**gain, "value": found.history[-1].likelihood_gain, "protocol": "ASOS, training text"}
        ]
        self._forget_inference()
        return self

    def with_output(self, output: str, **settings: Any) -> LDS:
        """The same fitted model returning another output; shares the parameters, copies nothing."""
        other = LDS(self.config, output=self._output(output), **settings)
        other._state, other.history = self._state, self.history
        other.figures, other.fitted_on = self.figures, self.fitted_on
        return other

    # -- what the model learned --------------------------------------------------------------------

    @property
    def likelihood_gain(self) -> float:
        """Log-likelihood of the fitted text in nats per token, over the model without dynamics."""
        self._fitted()
        return float(self.figures[0]["value"])

    def transition_pairs(
        self, n_pairs: int = 10, n_words: int = 8, min_count: int = 50
    ) -> list[TransitionPair]:
        """Word groups that the transition operator turns into each other (paper, Table 1).

        Parameters
        ----------
        n_pairs
            Singular-vector pairs, counting both signs.
        n_words
            Words a side.
        min_count
            Rarer words are not shown.
        """
        state = self._fitted()
        vocabulary = state.vocabulary
        shown = np.ones(len(vocabulary), bool)
        shown[[vocabulary.boundary_id, *vocabulary.oov_ids]] = False
        most = vocabulary.counts[shown].max(initial=0)
        shown &= vocabulary.counts >= min(min_count, most)
        return transition_pairs(state.parameters, vocabulary.words, shown, n_pairs, n_words)

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Settings and the vocabulary's, as JSON values."""
        return {"settings": self.config.to_dict(), "vocabulary": self.vocabulary.config_dict()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state. Raises NotFittedError."""
        return self._fitted().arrays()

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(LDSConfig.from_dict(dict(config["settings"])))
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        model._state = FittedState.from_arrays(model.config, vocabulary, arrays)
        return model
