"""`Mixture`: a linear mixture of language models, itself a language model.

    p(w | h) = sum_k lambda_k p_k(w | h),   lambda_k >= 0,   sum_k lambda_k = 1

The weights are fixed, or those that give a held-out text the highest probability (Jelinek and Mercer 1980).

Word ids come from the first model's vocabulary; the other models may number the same words in another order.
A state's value holds the states of the components.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, over, take
from tacenda.arrays import Float64 as Float64s
from tacenda.artifact.folder import Artifact, check_name
from tacenda.artifact.precision import Precision
from tacenda.corpus import Corpus
from tacenda.corpus.marks import Marks
from tacenda.corpus.text import Text
from tacenda.errors import (
    ArtifactError,
    ConfigurationError,
    CorpusError,
    NotFittedError,
    check_choice,
    warn,
)
from tacenda.estimator import NO_PARTS, Estimator, Parts, Saved
from tacenda.fitting import FitRun
from tacenda.offsets import rechunk
from tacenda.vocabulary import Vocabulary
from tacenda_lm.distributions import rows_of_block
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.mixture.weights import check_weights, fit_weights, mix
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import (
    Float64,
    Floats,
    Ids,
    Integers,
    blocks,
    check_sequences,
    encode_text,
    with_ends,
)
from tacenda_lm.states import State, check_following, check_pairs, check_states, check_step

_Map = npt.NDArray[np.int32] | None
# key in ``fitted_on`` of the components that were fitted again after the weights were
_REFITTED = "refitted_since_weights"


class Mixture(LanguageModel):
    """A weighted sum of the predictions of several language models with the same words.

    Parameters
    ----------
    models
        The components, fitted or (for `fit`) not; a dictionary names them.
    weights
        One weight for each component, zero or more; they are scaled to sum to one. By default all are equal.

    Raises
    ------
    ConfigurationError
        There are no models, they are not a list or dictionary, one of them is not a language model, or the weights do
        not fit them.

    Examples
    --------
    >>> lm = Mixture({"kn": kneser_ney, "hlbl": hlbl}).fit_weights(Path("valid.txt"))
    >>> lm.weights
    {'kn': 0.46, 'hlbl': 0.54}
    """

    name: ClassVar[str] = "mixture"
    distribution: ClassVar[str] = "tacenda-lm"
    _numbers: ClassVar[tuple[str, ...]] = ()  # attributes that are saved with the weights

    def __init__(
        self,
        models: Sequence[LanguageModel] | Mapping[str, LanguageModel] = (),
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ) -> None:
        if not isinstance(models, Iterable | None):
            raise ConfigurationError(
                f"a mixture takes several language models, not a {type(models).__name__}: give a list, as in "
                "Mixture([first, second])"
            )
        if not isinstance(models, Mapping):
            models = {f"model-{i}": model for i, model in enumerate(models or ())}
        if not models:
            raise ConfigurationError("a mixture needs models: Mixture([first, second])")
        for model in models.values():
            if not isinstance(model, LanguageModel):
                raise ConfigurationError(
                    f"a mixture needs language models, and a {type(model).__name__} is not one"
                )
        self._models = dict(models)
        self._maps: list[_Map] = []
        self._mapped: list[Vocabulary] = []  # the components' vocabularies that _maps belong to
        # `_count_fits` of each component when the weights were fitted; empty for weights that were not
        self._known_fits: dict[str, int] = {}
        self._weights = check_weights(weights, list(models))
        self.keeps_checkpoints = any(model.keeps_checkpoints for model in models.values())
        self.figures: list[dict[str, Any]] = []
        self.fitted_on = {}

    @property
    def components(self) -> Mapping[str, LanguageModel]:
        """The components by name, read-only. To change them, make another mixture."""
        return MappingProxyType(self._models)

    @property
    def weights(self) -> dict[str, float]:
        """The weights by the names of the components; they sum to one."""
        return dict(zip(self._models, self._weights.tolist(), strict=True))

    @property
    def is_fitted(self) -> bool:
        """Whether all components are."""
        return all(model.is_fitted for model in self._models.values())

    def __repr__(self) -> str:
        models = ", ".join(f"{name!r}: {model!r}" for name, model in self._models.items())
        weights = ", ".join(f"{weight:.4g}" for weight in self._weights)
        state = "fitted" if self.is_fitted else "not fitted"
        return f"<{type(self).__name__}({{{models}}}, weights=[{weights}]), {state}>"

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        """Fit every component, which saves its progress in a separate folder, and the weights to held-out text."""
        try:  # before hours of fitting: checkpoints and saved models are folders of these names
            for name in self._models:
                check_name(name)
        except ArtifactError as error:
            raise ConfigurationError(
                f"the mixture could not be saved after its fit: {error}"
            ) from error
        for name, model in self._models.items():
            model.fit_within(corpus, valid, run.stage(name))
            if model.keeps_checkpoints:
                run = run.stage(first=False)
        if valid is not None:
            self.fit_weights(valid, marks="keep")

    def fit_weights(
        self, text: Text, *, context: Context | None = None, marks: Marks = "refuse"
    ) -> Self:
        """Fit the weights to held-out text, without changing the components; a component of weight 0 keeps it.

        A component that does not help gets a weight just above 0, so that a fit to another text can raise it.

        Parameters
        ----------
        text
            Text that no component was fitted on, in any form that `perplexity` takes.
        context
            As in `perplexity`; by default a stream if a component looks beyond ``</s>``.
        marks
            As in `perplexity`.

        Raises
        ------
        ConfigurationError
            There is no such context.
        CorpusError
            The text has no tokens, a mark that is refused or a token that no component with weight can predict, or the
            components do not have the same words.
        NotFittedError
            A component is not fitted.
        """
        context = check_choice("context", self.own_context if context is None else context, Context)
        before, of_weights = (self.fitted_on, self._known_fits), (_REFITTED, "weights_n_tokens")
        # the facts about the old weights are left out, so that nothing warns of them
        others = {name: fact for name, fact in self.fitted_on.items() if name not in of_weights}
        self.fitted_on, self._known_fits = others, {}
        try:
            scores, begins = self._score_text(text, context, marks)
            self._fit_to(scores, begins)
        except BaseException:
            self.fitted_on, self._known_fits = before
            raise
        self.fitted_on = {**self.fitted_on, "weights_n_tokens": scores.shape[1]}
        self._known_fits = {name: _count_fits(part) for name, part in self._models.items()}
        self.n_fits += 1
        return self

    def _fit_to(self, scores: Float64, begins: Integers) -> None:
        """Fit the weights to log-probabilities (components, tokens) of sequences that begin at ``begins``."""
        self._weights = fit_weights(scores, self._weights)

    def _find_refitted(self) -> list[str]:
        """Return the components that were fitted again after the weights were, before it was saved or since."""
        saved, known = self.fitted_on.get(_REFITTED, ()), self._known_fits
        return [
            name
            for name, model in self._models.items()
            if name in saved or (name in known and known[name] != _count_fits(model))
        ]

    def _score_text(
        self, text: Text, context: Context, marks: Marks
    ) -> tuple[Float64, npt.NDArray[np.int64]]:
        """Return log-probabilities (components, tokens), and where contexts begin and the last ends (contexts + 1,).

        Raises CorpusError for a text without tokens.
        """
        vocabulary, state = self.vocabulary, Mixture.start(self)
        parts, lengths = [], [np.zeros(1, np.int64)]
        for block in blocks(text, vocabulary, self.string_tokenizer, marks=marks):
            ids, offsets = with_ends(block.ids, block.offsets, vocabulary.boundary_id)
            if context == "stream":
                scores, state = self._component_scores_from(state, ids)
            else:
                scores = self.component_log_probs(ids, offsets)
            parts.append(scores)
            lengths.append(np.diff(offsets))
        if not parts:
            raise CorpusError("the text to fit weights on has no tokens: give another one")
        begins = np.cumsum(np.concatenate(lengths))
        return np.concatenate(parts, axis=1), begins[[0, -1]] if context == "stream" else begins

    # -- one word after another --------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the first component. Raises NotFittedError if a component is not fitted."""
        first, *_ = [model.vocabulary for model in self._models.values()]
        return first

    @property
    def string_tokenizer(self) -> str:
        return next(iter(self._models.values())).string_tokenizer

    @property
    def own_context(self) -> Context:
        contexts = [model.own_context for model in self._models.values()]
        return "stream" if "stream" in contexts else "sentence"

    def start(self) -> State:
        return _join(model.start() for model in self._models.values())

    def null(self) -> State:
        return _join(model.null() for model in self._models.values())

    def advance(self, state: State, word: int) -> State:
        check_step(state, word, len(self.vocabulary))
        return _join(
            model.advance(part, word if ids is None else int(ids[word]))
            for part, (model, ids) in zip(self._split_state(state), self._with_maps(), strict=True)
        )

    def log_probs(self, states: Sequence[State]) -> Float64:
        check_states(states)
        if not states:
            return np.empty((0, len(self.vocabulary)))
        inner, weights = self._unpack_weights(states)
        parts = zip(self._split_by_component(inner), self._with_maps(), strict=True)
        rows = [_reorder_columns(model.log_probs(part), ids) for part, (model, ids) in parts]
        return mix(np.stack(rows), weights[:, :, None])

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        checked = check_pairs(states, words, len(self.vocabulary))
        if not len(checked):
            return np.empty(0)
        inner, weights = self._unpack_weights(states)
        return mix(self._component_pairs(inner, checked), weights)

    def _unpack_weights(self, states: Sequence[State]) -> tuple[Sequence[State], Float64]:
        """Return the states of a plain `Mixture` within these states, and the weights (components, states or 1)."""
        return states, self._weights[:, None]

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        scores = self.component_log_probs(ids, offsets)
        return mix(scores, self._compute_weights(scores, np.asarray(offsets)))

    def _compute_weights(self, scores: Float64, begins: Integers) -> Float64:
        """Return the weights at every token (components, tokens or 1) of sequences that begin at ``begins``."""
        return self._weights[:, None]

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        scores, state = self._component_scores_from(state, ids)
        return mix(scores, self._weights[:, None]), state

    def distributions(self, ids: Integers, offsets: Integers) -> Iterator[Float64]:
        for rows in self._component_distributions(ids, offsets):
            yield mix(rows, self._weights[:, None, None])

    def _component_distributions(self, ids: Integers, offsets: Integers) -> Iterator[Float64]:
        """Yield the distributions of the components, float64 (components, tokens of the block, types)."""
        checked, cuts = check_sequences(ids, offsets, len(self.vocabulary))
        size = rows_of_block(len(self.vocabulary))
        components = list(self._with_maps())
        parts = [
            rechunk(model.distributions(_renumber(checked, its), cuts), size)
            for model, its in components
        ]
        for block in zip(*parts, strict=True):
            pairs = zip(block, components, strict=True)
            yield np.stack([_reorder_columns(rows, its) for rows, (_, its) in pairs])

    def component_log_probs(self, ids: Integers, offsets: Integers) -> Float64:
        """Return the `score_corpus` of each component: natural, float64 (components, tokens)."""
        checked, cuts = check_sequences(ids, offsets, len(self.vocabulary))
        parts = self._with_maps()
        return np.stack([model.score_corpus(_renumber(checked, its), cuts) for model, its in parts])

    def component_scores(self, sentences: Text, *, eos: bool = True) -> list[dict[str, Float64]]:
        """Return the `token_log_probs` of each component for each sentence, by the name of the component."""
        ids, offsets = encode_text(sentences, self.vocabulary, self.string_tokenizer, eos=eos)
        scores = self.component_log_probs(ids, offsets)
        return [
            {name: row[i:j].copy() for name, row in zip(self._models, scores, strict=True)}
            for i, j in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]

    def _component_scores_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        """Return the log-probabilities of `score_from` of each component (components, tokens), and the state after."""
        checked = check_following(state, ids, len(self.vocabulary))
        parts = zip(self._split_state(state), self._with_maps(), strict=True)
        pairs = [model.score_from(part, _renumber(checked, its)) for part, (model, its) in parts]
        return np.stack([scores for scores, _ in pairs]), _join(after for _, after in pairs)

    def _component_pairs(self, states: Sequence[State], words: Ids) -> Float64:
        """Return the `log_prob` of each component (components, states)."""
        parts = zip(self._split_by_component(states), self._with_maps(), strict=True)
        return np.stack(
            [model.log_prob(part, _renumber(words, its)) for part, (model, its) in parts]
        )

    def _split_state(self, state: State) -> list[State]:
        """Return the states of the components. Raises DataError for the state of another mixture."""
        return [State(value) for value in state.parts(len(self._models))]

    def _split_by_component(self, states: Sequence[State]) -> Iterator[tuple[State, ...]]:
        """Yield, for each component, its part of every state."""
        return zip(*map(self._split_state, states), strict=True)

    def _with_maps(self) -> Iterator[tuple[LanguageModel, _Map]]:
        """Return the components, each with its ids of the words of `vocabulary`, None for the same ids.

        Warns of components that were fitted again. Raises NotFittedError, and CorpusError if the components do not have
        the same words.
        """
        theirs = [model.vocabulary for model in self._models.values()]
        if refitted := self._find_refitted():
            warn(
                f"the weights of this {type(self).__name__} were fitted before components of it were fitted again "
                f"({', '.join(map(repr, refitted))}): call fit_weights with held-out text",
                once=(self, "refitted components"),
            )
        if self._mapped != theirs:
            named = zip(theirs, self._models, strict=True)
            self._maps = [_make_map(theirs[0], vocabulary, name) for vocabulary, name in named]
        self._mapped = theirs
        return zip(self._models.values(), self._maps, strict=True)

    # -- saved model -------------------------------------------------------------------------------

    def _record_refitted(self) -> dict[str, Any]:
        """Return ``fitted_on`` with the components that were fitted again, so that a saved mixture warns of them."""
        refitted = self._find_refitted()
        return {**self.fitted_on, _REFITTED: refitted} if refitted else self.fitted_on

    @property
    def card(self) -> dict[str, Any]:
        return {**super().card, "fitted_on": self._record_refitted()}

    def to_artifact(self, precision: Precision | None = None) -> Artifact:
        artifact = super().to_artifact(precision)
        return replace(artifact, fitted_on={**artifact.fitted_on, **self._record_refitted()})

    def config_dict(self) -> dict[str, Any]:
        numbers = {name: getattr(self, name) for name in self._numbers}
        return {"components": list(self._models), **numbers}

    def arrays(self) -> Saved:
        self._with_maps()  # raises unless the components can be mixed
        return {"weights": self._weights}

    def nested(self) -> Mapping[str, Estimator]:
        return self._models

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: Saved, nested: Parts = NO_PARTS) -> Self:
        names = list(config["components"])
        if sorted(names) != sorted(nested) or not names:
            raise ArtifactError(
                f"the mixture has the components {names!r:.200}, and {sorted(nested)!r:.200} are saved: the model is "
                "damaged"
            )
        components = {"components": len(names)}
        weights = take(arrays, "weights", Float64s[Array, "components", over(0)], components)
        try:
            numbers: dict[str, Any] = {name: config[name] for name in cls._numbers}
            model = cls({name: nested[name] for name in names}, **numbers)
            model._with_maps()
        except (ConfigurationError, CorpusError, NotFittedError) as error:
            raise ArtifactError(f"its components or numbers do not fit: {error}") from error
        model._weights = weights
        return model

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        model = super().from_artifact(artifact)
        if "weights_n_tokens" in model.fitted_on:
            model._known_fits = {name: _count_fits(part) for name, part in model._models.items()}
        return model


def _make_map(first: Vocabulary, theirs: Vocabulary, name: str) -> _Map:
    """Return the ids that another vocabulary has for the words of the first; None for the same ids.

    Raises CorpusError if they do not have the same words; ``name`` is the component with the other vocabulary.
    """
    if first.fingerprint == theirs.fingerprint:
        return None
    same_look_up = (first.normalization, first.oov) == (theirs.normalization, theirs.oov)
    if not same_look_up or set(first.words) != set(theirs.words):
        raise CorpusError(
            f"the component {name!r} does not have the words of the first one ({len(theirs)} types there, "
            f"{len(first)} here): fit all on corpora of one vocabulary"
        )
    return theirs.encode(first.words, remember=False)


def _count_fits(model: Any) -> int:
    """Return the fits of a model and of the models in it."""
    return int(getattr(model, "n_fits", 0)) + sum(map(_count_fits, model.nested().values()))


def _renumber(words: Ids, ids: _Map) -> Ids:
    """Return ids of the first vocabulary as ids of another."""
    return words if ids is None else ids[words]


def _reorder_columns(rows: Floats, ids: _Map) -> Float64:
    """Return rows over another vocabulary with their columns in the order of the first, float64."""
    return (rows if ids is None else rows[:, ids]).astype(np.float64)


def _join(states: Iterable[State]) -> State:
    """Return one state that holds the states of the components."""
    return State(tuple(state.value for state in states))
