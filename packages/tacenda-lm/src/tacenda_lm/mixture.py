"""`Mixture`: a linear mixture of language models, itself a language model.

    p(w | h) = sum_k lambda_k p_k(w | h),   lambda_k >= 0,   sum_k lambda_k = 1

The weights are fixed, or fitted on held-out text by EM (Jelinek and Mercer 1980):

    lambda_k <- mean_t  lambda_k p_k(w_t | h_t) / sum_j lambda_j p_j(w_t | h_t)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import Saveable, require
from tacenda.corpus import Corpus
from tacenda.corpus.text import Sentence, Text, tokens_of
from tacenda.errors import ArtifactError, ConfigurationError, CorpusError, NotFittedError
from tacenda.vocabulary import Vocabulary
from tacenda_lm.components import Components
from tacenda_lm.contract import FitContext, LanguageModelContract
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.mixture_weights import checked_weights, fit_weights
from tacenda_lm.perplexity import Context, checked_context
from tacenda_lm.sequences import Float64, check_word, with_ends
from tacenda_lm.state import State
from tacenda_lm.text import blocks, ids_of

__all__ = ["Mixture"]


class Mixture(LanguageModel):
    """A weighted sum of the distributions of any language models over the same words.

    Parameters
    ----------
    models
        The components, fitted or (for `fit`) not; a dictionary names them.
    weights
        One for each, not negative, which are divided by their sum; equal unless given.

    Raises
    ------
    ConfigurationError
        There are no models, or the weights do not fit them.

    Examples
    --------
    >>> lm = Mixture({"kn": kneser_ney, "hlbl": hlbl}).fit_weights("valid.txt")
    >>> lm.weights
    {'kn': 0.46, 'hlbl': 0.54}
    """

    name: ClassVar[str] = "mixture"
    distribution: ClassVar[str] = "tacenda-lm"

    def __init__(
        self,
        models: Sequence[LanguageModelContract] | Mapping[str, LanguageModelContract] = (),
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ) -> None:
        if not isinstance(models, Mapping):
            models = {f"model-{i}": model for i, model in enumerate(models)}
        self._components = Components(models)
        self._weights = checked_weights(weights, list(models))
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}

    @property
    def components(self) -> dict[str, LanguageModelContract]:
        """The models by name."""
        return self._components.models

    @property
    def weights(self) -> dict[str, float]:
        """By the name of the component; they sum to one."""
        return dict(zip(self.components, self._weights.tolist(), strict=True))

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, corpus: Corpus, valid: Corpus | None, context: FitContext) -> None:
        """Fits every component, and where there is held-out text the weights on it."""
        self._components.forget_vocabularies()
        for model in self.components.values():
            if not isinstance(model, LanguageModel):
                raise ConfigurationError(
                    f"a {type(model).__name__} cannot be fitted in a mixture: fit it first, then fit_weights"
                )
            model.fit(corpus, valid)
        if valid is not None:
            self.fit_weights(valid)

    def fit_weights(self, text: Text, *, context: Context | None = None) -> Self:
        """Fits the weights to held-out text; the components stay as they are.

        Parameters
        ----------
        text
            Text that no component was fitted on, in any form that `perplexity` takes.
        context
            As in `perplexity`; a stream if left out and a component looks beyond ``</s>``.

        Raises
        ------
        ConfigurationError
            There is no such context.
        CorpusError
            The text has no tokens, or the components do not have the same words.
        NotFittedError
            a component is not fitted.
        """
        context = checked_context(self.own_context if context is None else context)
        vocabulary = self.vocabulary
        state, parts = self.start(), []
        for each in blocks(text, vocabulary):
            ids, offsets = with_ends(each.ids, each.offsets, vocabulary.boundary_id)
            if context == "stream":
                found, state = self._components.score_from(state, ids)
                parts.append(found)
            else:
                parts.append(self._components.score_corpus(ids, offsets))
        if not parts:
            raise CorpusError("the text to fit weights on has no tokens: give another one")
        scores = np.concatenate(parts, axis=1)
        self._weights = fit_weights(scores, self._weights)
        self.fitted_on = {**self.fitted_on, "weights_n_tokens": scores.shape[1]}
        return self

    # -- one word after another --------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """That of the first component. Raises NotFittedError."""
        return self._components.vocabulary

    @property
    def own_context(self) -> Context:
        """A stream if any component looks beyond ``</s>``."""
        contexts = [model.own_context for model in self.components.values()]
        return "stream" if "stream" in contexts else "sentence"

    def start(self) -> State:
        """A state's value holds those of the components."""
        return self._components.start()

    def null(self) -> State:
        """Nothing known, in every component."""
        return self._components.null()

    def advance(self, state: State, word: int) -> State:
        """Every component's state after one more word, an id of the first one's vocabulary."""
        check_word(word, len(self.vocabulary))
        return self._components.advance(state, word)

    def log_probs(self, states: Sequence[State]) -> Float64:
        """Natural log-probabilities of every next word, float64 (states, types)."""
        return self._mixed(self._components.log_probs(states))

    def log_prob(
        self, states: Sequence[State], words: npt.NDArray[np.integer[Any]] | Sequence[int]
    ) -> Float64:
        """Natural log p(word | state), float64 (states,)."""
        return self._mixed(self._components.log_prob(states, words))

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Float64:
        """Log-probability of every id given those before it in its sequence, natural, float64 (tokens,)."""
        return self._mixed(self._components.score_corpus(ids, offsets))

    def score_from(self, state: State, ids: npt.NDArray[np.integer[Any]]) -> tuple[Float64, State]:
        """Log-probability of every id of a sequence that goes on from a state, and the state after it."""
        scores, state = self._components.score_from(state, ids)
        return self._mixed(scores), state

    def distributions(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Iterator[Float64]:
        """The whole distribution at every token, float64 (tokens of the block, types), block after block."""
        return map(self._mixed, self._components.distributions(ids, offsets))

    def component_log_probs(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Float64:
        """`score_corpus` of each component: float64 (components, tokens), natural."""
        return self._components.score_corpus(ids, offsets)

    def component_scores(
        self, sentences: Iterable[Sentence], *, eos: bool = True
    ) -> list[dict[str, Float64]]:
        """For each sentence the natural log-probabilities (tokens,) that each component gives, by name."""
        ids, offsets = ids_of([tokens_of(each) for each in sentences], self.vocabulary)
        if eos:
            ids, offsets = with_ends(ids, offsets, self.vocabulary.boundary_id)
        scores = self.component_log_probs(ids, offsets)
        return [
            {name: row[i:j].copy() for name, row in zip(self.components, scores, strict=True)}
            for i, j in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]

    def _mixed(self, scores: Float64) -> Float64:
        """Log sum_k lambda_k exp(scores[k])."""
        with np.errstate(divide="ignore"):
            weighted = scores + np.log(self._weights).reshape(-1, *[1] * (scores.ndim - 1))
        return np.asarray(np.logaddexp.reduce(weighted, axis=0), np.float64)

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """The components' names, in their order."""
        return {"components": list(self.components)}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The weights, float64 (components,). Raises NotFittedError."""
        _ = self.vocabulary
        return {"weights": self._weights}

    def nested(self) -> Mapping[str, Saveable]:
        """The components by name."""
        return self.components

    @classmethod
    def from_arrays(
        cls,
        config: dict[str, Any],
        arrays: dict[str, npt.NDArray[Any]],
        nested: Mapping[str, Any] | None = None,
    ) -> Self:
        """The mixture of an artefact and its loaded components. Raises ArtifactError."""
        names = list(config["components"])
        models = dict(nested or {})
        if sorted(names) != sorted(models) or not names:
            raise ArtifactError(
                f"the mixture is made of {', '.join(map(str, names)) or 'nothing'}, and there are "
                f"{', '.join(models) or 'no models'}: the model is damaged"
            )
        weights = require(arrays, "weights", shape=(len(names),), dtype=np.float64, finite=True)
        if (weights < 0).any() or abs(weights.sum() - 1) > 1e-6:
            raise ArtifactError("the array 'weights' is not a distribution: the model is damaged")
        try:
            model = cls({name: models[name] for name in names})
            _ = model.vocabulary
        except (ConfigurationError, CorpusError, NotFittedError) as error:
            raise ArtifactError(f"its components do not fit together: {error}") from error
        model._weights = weights
        return model
