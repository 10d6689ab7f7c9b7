"""`Mixture` and `AdaptiveMixture`: linear mixtures of language models, themselves language models.

    p(w | h) = sum_k lambda_k p_k(w | h),   lambda_k >= 0,   sum_k lambda_k = 1

The weights are fixed, or fitted to held-out text by EM (Jelinek and Mercer 1980):

    lambda_k <- mean_t  lambda_k p_k(w_t | h_t) / sum_j lambda_j p_j(w_t | h_t)

Word ids come from the first model's vocabulary; the other models may number the same words in another order.
A state's value holds the states of the components.

The weights of an `AdaptiveMixture` follow how well each component predicted the words before:

    p(w | h_t) = sum_k lambda_k(t) p_k(w | h_t),   lambda_k(t) = lambda_k exp(eta a_k(t)) / normalizer

    a_k(t + 1) = delta a_k(t) + log(c + p_k(w_t | h_t) / mean_j p_j(w_t | h_t)),   a_k = 0 before the first word

A component that predicted the last words better than the others gets more weight for the next few words. (Kneser and
Steinbiss 1993 adapt weights to recent text by EM; these follow from the words before alone.) c bounds the influence of
one word. lambda, eta and delta are fitted to held-out text together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from numbers import Real
from operator import is_
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.signal import lfilter

from tacenda.arrays import Array, over, take
from tacenda.arrays import Float64 as Float64s
from tacenda.artifact.folder import check_name
from tacenda.corpus import Corpus
from tacenda.corpus.lines import Marks
from tacenda.corpus.text import Text
from tacenda.errors import ArtifactError, ConfigurationError, CorpusError, NotFittedError, warn
from tacenda.estimator import NO_PARTS, Estimator, Parts, Saved
from tacenda.fitting import FitRun
from tacenda.vocabulary import Vocabulary
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.perplexity import Context, check_context
from tacenda_lm.sequences import (
    Float64,
    Ids,
    Integers,
    blocks,
    check_ids,
    check_pairs,
    check_sequences,
    check_word,
    encode_text,
    rechunk,
    with_ends,
)
from tacenda_lm.states import State, rows_of_block, vector_of

_Map = npt.NDArray[np.int32] | None
_Ints = npt.NDArray[np.integer[Any]]
_Floats = npt.NDArray[np.floating[Any]]
# key in ``fitted_on`` of the components that were fitted again after the weights were
_REFITTED = "refitted_since_weights"
_MAX_ITERATIONS = 1000  # of EM
_EVIDENCE_FLOOR = 0.3  # c
_MEMORIES_TRIED = 0.5, 0.7, 0.8, 0.9, 0.95, 0.98  # delta, in fitting
_MAX_ADAPTATION = 100.0  # eta
_MAX_MEMORY = float(np.nextafter(1.0, 0.0))  # delta


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
        # `_list_fits` of each component when the weights were fitted
        self._weighed: list[list[Any]] = []
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

    def __repr__(self) -> str:
        models = ", ".join(f"{name!r}: {model!r}" for name, model in self._models.items())
        weights = ", ".join(f"{weight:.4g}" for weight in self._weights)
        try:
            _ = [model.vocabulary for model in self._models.values()]
            state = "fitted"
        except NotFittedError:
            state = "not fitted"
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
            if model.keeps_checkpoints:
                stage = run.stage(name)
                place, resume = stage.checkpoints, stage.resume
                # marks are kept, because reading the corpus has already refused them if it should
                model.fit(corpus, valid, checkpoints=place, resume=resume, marks="keep")
                run = run.stage(first=False)
            else:
                model.fit(corpus, valid, marks="keep")
        if valid is not None:
            self.fit_weights(valid, marks="keep")

    def fit_weights(
        self, text: Text, *, context: Context | None = None, marks: Marks = "refuse"
    ) -> Self:
        """Fit the weights to held-out text, without changing the components; a component of weight 0 keeps it.

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
        context = check_context(self.own_context if context is None else context)
        before, of_weights = self.fitted_on, (_REFITTED, "weights_n_tokens")
        # the facts about the old weights are left out, so that nothing warns of them
        self.fitted_on = {name: fact for name, fact in before.items() if name not in of_weights}
        try:
            scores, begins = self._score_text(text, context, marks)
            self._fit_to(scores, begins)
        except BaseException:
            self.fitted_on = before
            raise
        self.fitted_on = {**self.fitted_on, "weights_n_tokens": scores.shape[1]}
        self._weighed = [_list_fits(model) for model in self._models.values()]
        return self

    def _fit_to(self, scores: Float64, begins: _Ints) -> None:
        """Fit the weights to log-probabilities (components, tokens) of sequences that begin at ``begins``."""
        self._weights = fit_weights(scores, self._weights)

    def _warn_of_refits(self) -> None:
        """Warn once of components that were fitted again since the weights were fitted to them."""
        if "weights_n_tokens" not in self.fitted_on:
            return
        refitted = [
            name
            for (name, model), fits in zip(self._models.items(), self._weighed, strict=False)
            if not _are_same(_list_fits(model), fits)
        ]
        if refitted:
            # a saved mixture warns of them again
            self.fitted_on = {**self.fitted_on, _REFITTED: refitted}
            self._weighed = []
        if _REFITTED in self.fitted_on:
            names = ", ".join(map(repr, self.fitted_on[_REFITTED]))
            warn(
                f"the weights of this {type(self).__name__} were fitted before components of it were fitted again "
                f"({names}): call fit_weights with held-out text",
                once=(self, "refitted components"),
            )

    def _score_text(
        self, text: Text, context: Context, marks: Marks
    ) -> tuple[Float64, npt.NDArray[np.int64]]:
        """Return log-probabilities (components, tokens), and where contexts begin and the last ends (contexts + 1,).

        Raises CorpusError for a text without tokens.
        """
        vocabulary = self.vocabulary
        state = Mixture.start(self)
        parts, lengths = [], [np.zeros(1, np.int64)]
        for block in blocks(text, vocabulary, self.string_tokenizer, marks=marks):
            ids, offsets = with_ends(block.ids, block.offsets, vocabulary.boundary_id)
            if context == "stream":
                scores, state = self._component_scores_from(state, ids)
                parts.append(scores)
            else:
                parts.append(self.component_log_probs(ids, offsets))
                lengths.append(np.diff(offsets))
        if not parts:
            raise CorpusError("the text to fit weights on has no tokens: give another one")
        scores = np.concatenate(parts, axis=1)
        if context == "stream":
            return scores, np.array([0, scores.shape[1]])
        return scores, np.cumsum(np.concatenate(lengths))

    # -- one word after another --------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the first component.

        Raises NotFittedError, and CorpusError where the components do not have the same words.
        """
        theirs = [model.vocabulary for model in self._models.values()]
        self._warn_of_refits()
        if not _are_same(self._mapped, theirs):  # a component may have been fitted again
            named = zip(theirs, self._models, strict=True)
            self._maps = [_make_map(theirs[0], vocabulary, name) for vocabulary, name in named]
            self._mapped = theirs
        return theirs[0]

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
        check_word(word, len(self.vocabulary))
        return _join(
            model.advance(part, word if ids is None else int(ids[word]))
            for part, (model, ids) in zip(self._split_state(state), self._with_maps(), strict=True)
        )

    def log_probs(self, states: Sequence[State]) -> Float64:
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

    def _compute_weights(self, scores: Float64, begins: _Ints) -> Float64:
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
        checked = check_ids(ids, len(self.vocabulary))
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
        """Return the components, each with its ids of the words of `vocabulary`, None for the same ids."""
        _ = self.vocabulary  # brings the maps up to date
        return zip(self._models.values(), self._maps, strict=True)

    # -- saved model -------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        numbers = {name: getattr(self, name) for name in self._numbers}
        return {"components": list(self._models), **numbers}

    def arrays(self) -> Saved:
        _ = self.vocabulary
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
            model._weighed = [_list_fits(part) for part in model._models.values()]
            _ = model.vocabulary
        except (ConfigurationError, CorpusError, NotFittedError) as error:
            raise ArtifactError(f"its components or numbers do not fit: {error}") from error
        model._weights = weights
        return model


class AdaptiveMixture(Mixture):
    """A mixture of language models whose weights change from word to word, by how well each model has predicted so far.

    It helps most if texts are long and differ from each other. In a stream, the weights carry over between sentences.
    Predicting the next word takes as long as with a `Mixture`; `advance` also scores the word.

    Parameters
    ----------
    models, weights
        As in `Mixture`; these are the weights at the beginning of a text.
    adaptation
        eta, the influence of the words before; with 0, it is a `Mixture`.
    memory
        delta, the share of earlier evidence that remains after each word, from 0 to less than 1.

    Raises
    ------
    ConfigurationError
        As in `Mixture`, or ``adaptation`` or ``memory`` is out of bounds.

    Examples
    --------
    With the Penn Treebank, an n-gram model of order 5 and a `UnigramCache`:

    >>> lm = AdaptiveMixture({"kn": kneser_ney, "cache": cache}).fit_weights(Path("ptb.valid.txt"))
    >>> lm.weights, lm.adaptation, lm.memory
    ({'kn': 0.661, 'cache': 0.339}, 0.074, 0.95)
    """

    name: ClassVar[str] = "adaptive_mixture"
    _numbers = "adaptation", "memory"

    def __init__(
        self,
        models: Sequence[LanguageModel] | Mapping[str, LanguageModel] = (),
        weights: Sequence[float] | Mapping[str, float] | None = None,
        *,
        adaptation: float = 0.3,
        memory: float = 0.7,
    ) -> None:
        super().__init__(models, weights)
        self.adaptation = _check_between("adaptation", adaptation, _MAX_ADAPTATION)
        self.memory = _check_between("memory", memory, _MAX_MEMORY)

    @property
    def own_context(self) -> Context:
        return "stream"

    # -- fitting -----------------------------------------------------------------------------------

    def _fit_to(self, scores: Float64, begins: _Ints) -> None:
        fixed = fit_weights(scores, self._weights)
        used = fixed > 0
        # relative to all components, as in predictions
        evidence = _weigh_evidence(scores)[used]
        fits = [
            _fit_with_memory(scores[used], evidence, begins, fixed[used], memory)
            for memory in _MEMORIES_TRIED
        ]
        best = min(fits, key=lambda fit: fit.nats)
        self._weights = np.zeros_like(fixed)
        self._weights[used] = best.weights
        self.adaptation, self.memory = best.adaptation, best.memory

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        return self._make_state(super().start(), np.zeros(len(self._models)))

    def null(self) -> State:
        return self._make_state(super().null(), np.zeros(len(self._models)))

    def advance(self, state: State, word: int) -> State:
        inner, evidence = self._split(state)
        after = super().advance(inner, word)
        of_word = _weigh_evidence(self._component_pairs([inner], np.array([word])))
        return self._make_state(after, self.memory * evidence + of_word[:, 0])

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        inner, evidence = self._split(state)
        scores, after = self._component_scores_from(inner, ids)
        before, evidence = _accumulate(_weigh_evidence(scores), self.memory, evidence)
        return mix(scores, self._adapt(before)), self._make_state(after, evidence)

    def distributions(self, ids: Integers, offsets: Integers) -> Iterator[Float64]:
        checked, cuts = check_sequences(ids, offsets, len(self.vocabulary))
        weights, done = self._compute_weights(self.component_log_probs(checked, cuts), cuts), 0
        for rows in self._component_distributions(checked, cuts):
            n = rows.shape[1]
            yield mix(rows, weights[:, done : done + n, None])
            done += n

    # -- weights -----------------------------------------------------------------------------------

    def _adapt(self, evidence: Float64) -> Float64:
        """Return the weights (components, tokens) given the evidence for each component (components, tokens)."""
        return adapt_weights(self._weights, self.adaptation * evidence)

    def _compute_weights(self, scores: Float64, begins: _Ints) -> Float64:
        return self._adapt(_accumulate_before(_weigh_evidence(scores), self.memory, begins))

    def _unpack_weights(self, states: Sequence[State]) -> tuple[list[State], Float64]:
        """Return the states of a `Mixture` that are in these states, and the weights (components, states)."""
        inner, evidence = zip(*map(self._split, states), strict=True)
        return list(inner), self._adapt(np.stack(evidence, axis=1))

    @staticmethod
    def _make_state(inner: State, evidence: Float64) -> State:
        return State((inner.value, evidence.tobytes()))

    def _split(self, state: State) -> tuple[State, Float64]:
        """Return the state of a `Mixture` in a state, and the evidence a_k (components,). Raises DataError."""
        inner, evidence = state.parts(2)
        return State(inner), vector_of(evidence, np.float64, len(self._models))


def mix(scores: Float64, weights: Float64) -> Float64:
    """Return log sum_k weights[k] exp(scores[k]); every dimension of the weights is that of ``scores``, or 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp.reduce(scores + np.log(weights), axis=0), np.float64)


def fit_weights(
    scores: Float64, start: Float64 | None = None, *, tolerance: float = 1e-10
) -> Float64:
    """Find the weights that give a text the highest probability, by EM: float64 (components,).

    ``scores`` (components, tokens) are natural log-probabilities. EM begins with ``start``, or equal weights (a
    weight of zero stays zero), and ends when no weight changes by more than ``tolerance``.

    Raises
    ------
    CorpusError
        No component with a weight above zero can predict a token: its log-probabilities there are -inf, or NaN.
    """
    n, n_tokens = scores.shape
    fitted = np.full(n, 1 / n) if start is None else np.array(start, np.float64)
    used = fitted > 0
    weights, scores = fitted[used], scores if used.all() else scores[used]
    best = scores.max(axis=0, initial=-np.inf)
    unpredicted = ~np.isfinite(best)
    if unpredicted.any():
        raise CorpusError(
            f"no component with a weight above zero can predict token {unpredicted.argmax() + 1} of the {n_tokens} to "
            "fit weights on: add a component that can, or leave its sentence out"
        )
    # The best component of a token has exp(0) = 1 here, and its weight vanishes only if another component predicts the
    # same tokens: the sum below is above zero.
    scaled = np.exp(scores - best)
    for _ in range(_MAX_ITERATIONS):
        joint = weights[:, None] * scaled
        updated = (joint / joint.sum(axis=0)).sum(axis=1) / n_tokens
        updated /= updated.sum()
        change = np.abs(updated - weights).max()
        weights = updated
        if change <= tolerance:
            break
    fitted[used] = weights
    return fitted


def check_weights(
    weights: Sequence[float] | Mapping[str, float] | None, names: list[str]
) -> Float64:
    """Return the given weights divided by their sum, float64 (components,); equal ones for None.

    Raises ConfigurationError for values that are not numbers, and for weights that do not fit the names, are negative,
    or are all zero.
    """
    if weights is None:
        return np.full(len(names), 1 / len(names))
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            raise ConfigurationError(
                f"the weights are for {', '.join(map(str, weights))} and the models are {', '.join(map(str, names))}"
            )
        weights = [weights[name] for name in names]
    try:
        listed = [] if isinstance(weights, str | bytes | Set) else list(weights)
        checked = np.array(listed if all(map(_is_number, listed)) else [], np.float64)
    except (TypeError, OverflowError):  # not iterable; a whole number above all floats
        checked = np.empty(0)
    if len(checked) != len(names) or not (np.isfinite(checked) & (checked >= 0)).all():
        raise ConfigurationError(
            f"a mixture of {len(names)} models needs as many weights that are not negative, "
            f"not {weights!r:.200}"
        )
    if not checked.any():
        raise ConfigurationError("the weights of a mixture are all zero: one must be above zero")
    # a division by a power of two, which is exact, so that the sum of huge weights does not overflow
    _, exponent = np.frexp(checked.max())
    checked = np.ldexp(checked, -exponent)
    return np.asarray(checked / checked.sum(), np.float64)


def _is_number(value: object) -> bool:
    """Return whether a value is a real number, and neither true nor false."""
    return isinstance(value, Real) and not isinstance(value, bool)


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


def _list_fits(model: Any) -> list[Any]:
    """Return ``fitted_on`` of a model and of the models in it; every fit sets a new dictionary."""
    inner = (fit for part in model.nested().values() for fit in _list_fits(part))
    return [getattr(model, "fitted_on", None), *inner]


def _are_same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Return whether two sequences consist of the same objects."""
    return len(first) == len(second) and all(map(is_, first, second))


def _renumber(words: Ids, ids: _Map) -> Ids:
    """Return ids of the first vocabulary as ids of another."""
    return words if ids is None else ids[words]


def _reorder_columns(rows: _Floats, ids: _Map) -> Float64:
    """Return rows over another vocabulary with their columns in the order of the first, float64."""
    return (rows if ids is None else rows[:, ids]).astype(np.float64)


def _join(states: Iterable[State]) -> State:
    """Return one state that holds the states of the components."""
    return State(tuple(state.value for state in states))


# -- adaptation --------------------------------------------------------------------------------------


class _Fit(NamedTuple):
    """The best parameters with one memory."""

    nats: float  # per token
    weights: Float64  # (components,)
    adaptation: float
    memory: float


def _fit_with_memory(
    scores: Float64, evidence: Float64, begins: _Ints, start: Float64, memory: float
) -> _Fit:
    """Find the weights and the adaptation that give a text the highest probability, with one memory.

    ``scores`` and ``evidence`` are (components, tokens), and ``begins`` (sequences + 1,) cut the tokens; the weights
    ``start`` (components,) are above zero.
    """
    known = _accumulate_before(evidence, memory, begins)
    scaled = np.exp(scores - scores.max(axis=0))
    n = scores.shape[1]

    def loss(x: Float64) -> tuple[float, Float64]:
        """Return the nats per token for log-weights followed by eta (components + 1,), and their gradient."""
        weights = adapt_weights(np.exp(x[:-1] - x[:-1].max()), x[-1] * known)
        joint = weights * scaled
        total = joint.sum(axis=0)
        excess = (weights - joint / total) / n  # the gradient by the logarithms of the weights
        gradient = np.append(excess.sum(axis=1), (excess * known).sum())
        return float(-np.log(total).mean()), gradient

    x = np.append(np.log(start), 0.0)
    bounds = [(None, None)] * len(start) + [(0.0, _MAX_ADAPTATION)]
    best = minimize(loss, x, jac=True, method="L-BFGS-B", bounds=bounds)
    weights = np.exp(best.x[:-1] - best.x[:-1].max())
    return _Fit(float(best.fun), weights / weights.sum(), float(best.x[-1]), memory)


def adapt_weights(weights: Float64, evidence: Float64) -> Float64:
    """Return weights (components,) times exp(evidence) (components, tokens), divided by their sum at each token."""
    with np.errstate(divide="ignore"):
        logs = np.log(weights)[:, None] + evidence
    adapted = np.exp(logs - logs.max(axis=0))
    return np.asarray(adapted / adapted.sum(axis=0), np.float64)


def _weigh_evidence(scores: Float64) -> Float64:
    """Return the evidence of each token for the components (components, tokens), equal if no component predicts it."""
    best = scores.max(axis=0)
    scaled = np.exp(scores - np.where(np.isfinite(best), best, 0.0))
    mean = scaled.mean(axis=0)
    return np.asarray(np.log(_EVIDENCE_FLOOR + scaled / np.where(mean > 0, mean, 1.0)), np.float64)


def _accumulate(evidence: Float64, memory: float, begin: Float64) -> tuple[Float64, Float64]:
    """Return a_k before each token of a sequence (components, tokens), and after the last (components,).

    ``evidence`` (components, tokens) is that of each token, and ``begin`` (components,) a_k before the first.
    """
    if not evidence.shape[1]:
        return evidence, begin
    after, _ = lfilter([1.0], [1.0, -memory], evidence, axis=1, zi=memory * begin[:, None])
    return np.column_stack([begin, after[:, :-1]]), after[:, -1]


def _accumulate_before(evidence: Float64, memory: float, begins: _Ints) -> Float64:
    """Return a_k before each token (components, tokens) of sequences that ``begins`` (sequences + 1,) cut."""
    known, zero = np.empty_like(evidence), np.zeros(len(evidence))
    for i, j in pairwise(begins.tolist()):
        known[:, i:j] = _accumulate(evidence[:, i:j], memory, zero)[0]
    return known


def _check_between(name: str, value: float, most: float) -> float:
    """Return a number from 0 to ``most``. Raises ConfigurationError."""
    if not _is_number(value) or not 0 <= value <= most:
        raise ConfigurationError(
            f"{name} of an adaptive mixture is {value!r:.80}: give a number from 0 to {most:.4g}"
        )
    return float(value)
