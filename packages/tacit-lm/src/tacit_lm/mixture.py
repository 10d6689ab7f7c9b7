"""`Mixture`: a linear mixture of language models, itself a language model.

    p(w | h) = sum_k lambda_k p_k(w | h),   lambda_k >= 0,   sum_k lambda_k = 1

The weights are fixed, or fitted on held-out text by EM (Jelinek and Mercer 1980):

    lambda_k <- mean_t  lambda_k p_k(w_t | h_t) / sum_j lambda_j p_j(w_t | h_t)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacit.artifact import Saveable, require
from tacit.corpus import Corpus
from tacit.errors import ArtifactError, ConfigurationError, CorpusError, NotFittedError
from tacit.vocabulary import Vocabulary
from tacit_lm.contract import LanguageModelContract, rows_of_block
from tacit_lm.language_model import LanguageModel
from tacit_lm.mixture_weights import checked_weights, fit_weights
from tacit_lm.perplexity import Context
from tacit_lm.sequences import Float64, check_word, checked, with_ends
from tacit_lm.state import State
from tacit_lm.text import Sentence, Text, blocks, ids_of, tokens_of

__all__ = ["Mixture"]


class Mixture(LanguageModel):
    """A weighted sum of the distributions of any language models over the same words.

    Args:
        models: the components, fitted or (for `fit`) not; a dictionary names them.
        weights: one for each, not negative, which are divided by their sum; equal unless given.

    Raises:
        ConfigurationError: there are no models, or the weights do not fit them.

    Example:
        >>> lm = Mixture({"kn": kneser_ney, "hlbl": hlbl}).fit_weights("valid.txt")
        >>> lm.weights
        {'kn': 0.46, 'hlbl': 0.54}
    """

    name: ClassVar[str] = "mixture"
    distribution: ClassVar[str] = "tacit-lm"

    def __init__(
        self,
        models: Sequence[LanguageModelContract] | Mapping[str, LanguageModelContract] = (),
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ) -> None:
        if not isinstance(models, Mapping):
            models = {f"model-{i}": model for i, model in enumerate(models)}
        if not models:
            raise ConfigurationError("a mixture needs models: Mixture([first, second])")
        self.components = {name: _as_model(model) for name, model in models.items()}
        self._weights = checked_weights(weights, list(self.components))
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}
        self._maps: list[npt.NDArray[np.int32] | None] | None = None

    @property
    def weights(self) -> dict[str, float]:
        """By the name of the component; they sum to one."""
        return dict(zip(self.components, self._weights.tolist(), strict=True))

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, corpus: Corpus, valid: Corpus | None) -> None:
        """Fits every component, and where there is held-out text the weights on it."""
        self._maps = None
        for model in self.components.values():
            if not isinstance(model, LanguageModel):
                raise ConfigurationError(
                    f"a {type(model).__name__} cannot be fitted in a mixture: fit it first, then fit_weights"
                )
            model.fit(corpus, valid)
        if valid is not None:
            self._fit_weights(valid, self.own_context)

    def fit_weights(self, text: Text, *, context: Context | None = None) -> Self:
        """Fits the weights to held-out text; the components stay as they are.

        Args:
            text: text that no component was fitted on, in any form that `perplexity` takes.
            context: as in `perplexity`; a stream if left out and a component looks beyond ``</s>``.

        Raises:
            CorpusError: the text has no tokens, or the components do not have the same words.
            NotFittedError: a component is not fitted.
        """
        self._fit_weights(text, context or self.own_context)
        return self

    def _fit_weights(self, text: Text, context: Context) -> None:
        vocabulary = self.vocabulary
        source = Path(text) if isinstance(text, str) else text
        state, parts = self.start(), []
        for each in blocks(source, vocabulary):
            ids, offsets = with_ends(each.ids, each.offsets, vocabulary.boundary_id)
            if context == "stream":
                found, state = self._component_scores_from(state, ids)
                parts.append(found)
            else:
                parts.append(self.component_log_probs(ids, offsets))
        if not parts:
            raise CorpusError("the text to fit weights on has no tokens: give another one")
        scores = np.concatenate(parts, axis=1)
        self._weights = fit_weights(scores, self._weights)
        self.fitted_on = {**self.fitted_on, "weights_n_tokens": scores.shape[1]}

    # -- one word after another --------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """That of the first component. Raises NotFittedError."""
        self._checked_maps()
        return next(iter(self.components.values())).vocabulary

    def start(self) -> State:
        """A state's value holds those of the components."""
        return _joined(model.start() for model in self.components.values())

    def null(self) -> State:
        """Nothing known, in every component."""
        return _joined(model.null() for model in self.components.values())

    def advance(self, state: State, word: int) -> State:
        """Every component's state after one more word, an id of the first one's vocabulary."""
        check_word(word, len(self.vocabulary))
        rows = zip(self._parts(state), self.components.values(), self._checked_maps(), strict=True)
        return _joined(
            model.advance(part, word if ids is None else int(ids[word]))
            for part, model, ids in rows
        )

    def log_probs(self, states: Sequence[State]) -> Float64:
        """Natural log-probabilities of every next word, float64 (states, types)."""
        found: list[Float64] = []
        columns = list(zip(*map(self._parts, states), strict=True)) if states else []
        for part, model, ids in zip(
            columns, self.components.values(), self._checked_maps(), strict=False
        ):
            rows = model.log_probs(part).astype(np.float64)
            found.append(rows if ids is None else rows[:, ids])
        if not states:
            return np.empty((0, len(self.vocabulary)))
        return self._mixed(np.stack(found))

    def log_prob(
        self, states: Sequence[State], words: npt.NDArray[np.integer[Any]] | Sequence[int]
    ) -> Float64:
        """Natural log p(word | state), float64 (states,)."""
        own, _ = checked(np.asarray(words), np.array([0, len(words)]), len(self.vocabulary))
        if not len(own):
            return np.empty(0)
        columns = zip(*map(self._parts, states), strict=True)
        rows = zip(columns, self.components.values(), self._checked_maps(), strict=True)
        scores = [
            model.log_prob(part, own if ids is None else ids[own]) for part, model, ids in rows
        ]
        return self._mixed(np.stack(scores))

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Float64:
        """Log-probability of every id given those before it in its sequence, natural, float64 (tokens,)."""
        return self._mixed(self.component_log_probs(ids, offsets))

    def score_from(self, state: State, ids: npt.NDArray[np.integer[Any]]) -> tuple[Float64, State]:
        """Log-probability of every id of a sequence that goes on from a state, and the state after it."""
        scores, state = self._component_scores_from(state, ids)
        return self._mixed(scores), state

    def _component_scores_from(
        self, state: State, ids: npt.NDArray[np.integer[Any]]
    ) -> tuple[Float64, State]:
        own, _ = checked(ids, np.array([0, len(ids)]), len(self.vocabulary))
        rows = zip(self._parts(state), self.components.values(), self._checked_maps(), strict=True)
        found = [model.score_from(part, own if of is None else of[own]) for part, model, of in rows]
        return np.stack([scores for scores, _ in found]), _joined(after for _, after in found)

    @property
    def own_context(self) -> Context:
        """A stream if any component looks beyond ``</s>``."""
        contexts = [model.own_context for model in self.components.values()]
        return "stream" if "stream" in contexts else "sentence"

    def component_log_probs(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Float64:
        """`score_corpus` of each component: float64 (components, tokens), natural."""
        own, cuts = checked(ids, offsets, len(self.vocabulary))
        return np.stack(
            [
                model.score_corpus(own if ids_of is None else ids_of[own], cuts)
                for model, ids_of in zip(
                    self.components.values(), self._checked_maps(), strict=True
                )
            ]
        )

    def distributions(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Iterator[Float64]:
        """The whole distribution at every token, float64 (tokens of the block, types), block after block."""
        own, cuts = checked(ids, offsets, len(self.vocabulary))
        maps, size = self._checked_maps(), rows_of_block(len(self.vocabulary))
        parts = [
            _in_rows(model.distributions(own if ids_of is None else ids_of[own], cuts), size)
            for model, ids_of in zip(self.components.values(), maps, strict=True)
        ]
        for side_by_side in zip(*parts, strict=True):
            found = [
                rows.astype(np.float64) if ids_of is None else rows[:, ids_of].astype(np.float64)
                for rows, ids_of in zip(side_by_side, maps, strict=True)
            ]
            yield self._mixed(np.stack(found))

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

    def _parts(self, state: State) -> list[State]:
        return [State(value) for value in state.parts()]

    def _checked_maps(self) -> list[npt.NDArray[np.int32] | None]:
        """For each component its ids of the first one's words, None where they are the same."""
        if self._maps is None:
            first, *others = (model.vocabulary for model in self.components.values())
            names = list(self.components)[1:]
            maps = [_map(first, other, name) for name, other in zip(names, others, strict=True)]
            self._maps = [None, *maps]
        return self._maps

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
            model._checked_maps()
        except (ConfigurationError, CorpusError, NotFittedError) as error:
            raise ArtifactError(f"its components do not fit together: {error}") from error
        model._weights = weights
        return model


def _as_model(model: Any) -> LanguageModelContract:
    if not isinstance(model, LanguageModelContract):
        raise ConfigurationError(
            f"a mixture is made of language models, and {type(model).__name__} is none"
        )
    return model


def _map(first: Vocabulary, other: Vocabulary, name: str) -> npt.NDArray[np.int32] | None:
    if first.fingerprint == other.fingerprint:
        return None
    same_look_up = (first.normalization, first.oov) == (other.normalization, other.oov)
    if not same_look_up or set(first.words) != set(other.words):
        raise CorpusError(
            f"the component {name!r} does not have the words of the first one ({len(other)} types there, "
            f"{len(first)} here): fit all on corpora of one vocabulary"
        )
    return other.encode(first.words, remember=False)


def _joined(states: Iterable[State]) -> State:
    return State(tuple(state.value for state in states))


def _in_rows(
    blocks: Iterable[npt.NDArray[np.floating[Any]]], size: int
) -> Iterator[npt.NDArray[np.floating[Any]]]:
    """The same rows in blocks of ``size``, the last one smaller, so that models can be read side by side."""
    held: list[npt.NDArray[np.floating[Any]]] = []
    n_held = 0
    for block in blocks:
        rest = block
        while len(rest):
            held.append(rest[: size - n_held])
            n_held += len(held[-1])
            rest = rest[len(held[-1]) :]
            if n_held == size:
                yield np.concatenate(held)
                held, n_held = [], 0
    if held:
        yield np.concatenate(held)
