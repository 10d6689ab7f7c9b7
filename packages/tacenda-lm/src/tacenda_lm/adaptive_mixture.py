"""`AdaptiveMixture`: a mixture whose weights follow how well each component predicted the words before.

    p(w | h_t) = sum_k lambda_k(t) p_k(w | h_t),   lambda_k(t) = lambda_k exp(eta a_k(t)) / normalizer

    a_k(t + 1) = delta a_k(t) + log(c + p_k(w_t | h_t) / mean_j p_j(w_t | h_t)),   a_k = 0 before the first word

A component that is better than the others here and now is believed more in the next few words. (Kneser and Steinbiss
1993 adapt weights to recent text by EM; this needs no text beside the words before.) c bounds what one word can say of
a component. lambda, eta and delta are fitted to held-out text together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.signal import lfilter

from tacenda.corpus.lines import Marks
from tacenda.corpus.text import Text
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.mixture import Mixture, fit_weights, mix
from tacenda_lm.perplexity import Context, checked_context
from tacenda_lm.sequences import Float64, Integers, checked
from tacenda_lm.states import State, vector_of

_LEAST = 0.3  # c
_MEMORIES = 0.5, 0.7, 0.8, 0.9, 0.95, 0.98  # that are tried in fitting
_FASTEST = 100.0  # eta
_MOST_MEMORY = float(np.nextafter(1.0, 0.0))


class AdaptiveMixture(Mixture):
    """A mixture of language models whose weights change from word to word, by how well each has predicted so far.

    It is worth most where texts are long and differ: in a stream the weights carry over from sentence to sentence.
    Predictions of the next word cost what those of a `Mixture` cost; `advance` scores the word too.

    Parameters
    ----------
    models, weights
        As of `Mixture`; the weights are those at the beginning of a text.
    adaptation
        eta, how much the words before count; 0 makes it a `Mixture`.
    memory
        delta, the share of what was known that a word leaves, from 0 to less than 1.

    Raises
    ------
    ConfigurationError
        As of `Mixture`, or ``adaptation`` or ``memory`` is out of bounds.

    Examples
    --------
    With the Penn Treebank, an n-gram model of order 5 and a `UnigramCache`:

    >>> lm = AdaptiveMixture({"kn": kneser_ney, "cache": cache}).fit_weights(Path("ptb.valid.txt"))
    >>> lm.weights, lm.adaptation, lm.memory
    ({'kn': 0.661, 'cache': 0.339}, 0.074, 0.95)
    """

    name: ClassVar[str] = "adaptive_mixture"

    def __init__(
        self,
        models: Sequence[LanguageModel] | Mapping[str, LanguageModel] = (),
        weights: Sequence[float] | Mapping[str, float] | None = None,
        *,
        adaptation: float = 0.3,
        memory: float = 0.7,
    ) -> None:
        super().__init__(models, weights)
        self.adaptation = _check_between("adaptation", adaptation, _FASTEST)
        self.memory = _check_between("memory", memory, _MOST_MEMORY)

    @property
    def own_context(self) -> Context:
        return "stream"

    # -- fitting -----------------------------------------------------------------------------------

    def fit_weights(
        self, text: Text, *, context: Context | None = None, marks: Marks = "refuse"
    ) -> Self:
        """Fit weights, adaptation and memory to held-out text, as `Mixture.fit_weights` its weights."""
        context = checked_context(self.own_context if context is None else context)
        scores, begins = self._scores_to_fit_on(text, context, marks)
        fixed = fit_weights(scores, self._weights)
        used = fixed > 0
        told = _judge(scores)[used]  # beside all components, as in predictions
        tried = [
            _find_best(scores[used], told, begins, fixed[used], memory) for memory in _MEMORIES
        ]
        best = min(tried, key=lambda each: each.nats)
        self._weights = np.zeros_like(fixed)
        self._weights[used] = best.weights
        self.adaptation, self.memory = best.adaptation, best.memory
        self.fitted_on = {**self.fitted_on, "weights_n_tokens": scores.shape[1]}
        return self

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        return self._state(super().start(), np.zeros(len(self._models)))

    def null(self) -> State:
        return self._state(super().null(), np.zeros(len(self._models)))

    def advance(self, state: State, word: int) -> State:
        inner, evidence = self._split(state)
        after = super().advance(inner, word)
        told = _judge(self._component_pairs([inner], np.array([word])))
        return self._state(after, self.memory * evidence + told[:, 0])

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        inner, evidence = self._split(state)
        scores, after = self._component_scores_from(inner, ids)
        before, evidence = _gather(_judge(scores), self.memory, evidence)
        return mix(scores, self._adapt(before)), self._state(after, evidence)

    def distributions(self, ids: Integers, offsets: Integers) -> Iterator[Float64]:
        own, cuts = checked(ids, offsets, len(self.vocabulary))
        weights, done = self._weights_in(self.component_log_probs(own, cuts), cuts), 0
        for rows in self._component_distributions(own, cuts):
            n = rows.shape[1]
            yield mix(rows, weights[:, done : done + n, None])
            done += n

    # -- weights -----------------------------------------------------------------------------------

    def _adapt(self, evidence: Float64) -> Float64:
        """The weights (components, places) where so much is known of the components (components, places)."""
        return adapt_weights(self._weights, self.adaptation * evidence)

    def _weights_in(self, scores: Float64, begins: npt.NDArray[np.integer[Any]]) -> Float64:
        """The weights at every token (components, tokens) of sequences that begin at ``begins``."""
        return self._adapt(_gather_before(_judge(scores), self.memory, begins))

    def _weights_of(self, states: Sequence[State]) -> tuple[list[State], Float64]:
        """The states of a `Mixture` in these, and the weights (components, states)."""
        inner, evidence = zip(*map(self._split, states), strict=True)
        return list(inner), self._adapt(np.stack(evidence, axis=1))

    @staticmethod
    def _state(inner: State, evidence: Float64) -> State:
        return State((inner.value, evidence.tobytes()))

    def _split(self, state: State) -> tuple[State, Float64]:
        """The state of a `Mixture` in one of this, and what is known of the components. Raises DataError."""
        inner, evidence = state.parts(2)
        return State(inner), vector_of(evidence, np.float64, len(self._models))

    # -- saved model -------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        return {**super().config_dict(), "adaptation": self.adaptation, "memory": self.memory}

    @classmethod
    def from_arrays(
        cls,
        config: dict[str, Any],
        arrays: dict[str, npt.NDArray[Any]],
        nested: Mapping[str, Any] | None = None,
    ) -> Self:
        """Rebuild the mixture of an artefact from its loaded components. Raises ArtifactError."""
        model = super().from_arrays(config, arrays, nested)
        try:
            model.adaptation = _check_between("adaptation", config["adaptation"], _FASTEST)
            model.memory = _check_between("memory", config["memory"], _MOST_MEMORY)
        except ConfigurationError as error:
            raise ArtifactError(f"{error}: the model is damaged") from error
        return model


class _Fitted(NamedTuple):
    """Weights (components,), adaptation and memory, and the nats a token that they leave of a text."""

    nats: float
    weights: Float64
    adaptation: float
    memory: float


def _find_best(
    scores: Float64, told: Float64, begins: npt.NDArray[np.int64], start: Float64, memory: float
) -> _Fitted:
    """Find the weights and the adaptation that suit a text best, with one memory; all weights are above zero."""
    evidence = _gather_before(told, memory, begins)
    scaled = np.exp(scores - scores.max(axis=0))
    n = scores.shape[1]

    def loss(x: Float64) -> tuple[float, Float64]:
        """The nats a token with logarithms of weights and then eta (components + 1,), and their gradient."""
        weights = adapt_weights(np.exp(x[:-1] - x[:-1].max()), x[-1] * evidence)
        joint = weights * scaled
        total = joint.sum(axis=0)
        excess = (weights - joint / total) / n  # the gradient by the logarithms of the weights
        gradient = np.append(excess.sum(axis=1), (excess * evidence).sum())
        return float(-np.log(total).mean()), gradient

    x = np.append(np.log(start), 0.0)
    bounds = [(None, None)] * len(start) + [(0.0, _FASTEST)]
    found = minimize(loss, x, jac=True, method="L-BFGS-B", bounds=bounds)
    weights = np.exp(found.x[:-1] - found.x[:-1].max())
    return _Fitted(float(found.fun), weights / weights.sum(), float(found.x[-1]), memory)


def adapt_weights(weights: Float64, evidence: Float64) -> Float64:
    """Return weights (components,) times exp(evidence) (components, places), divided by their sum at each place."""
    with np.errstate(divide="ignore"):
        logs = np.log(weights)[:, None] + evidence
    found = np.exp(logs - logs.max(axis=0))
    return np.asarray(found / found.sum(axis=0), np.float64)


def _judge(scores: Float64) -> Float64:
    """What each token says of the components (components, tokens): nothing if none can predict it."""
    best = scores.max(axis=0)
    scaled = np.exp(scores - np.where(np.isfinite(best), best, 0.0))
    mean = scaled.mean(axis=0)
    return np.asarray(np.log(_LEAST + scaled / np.where(mean > 0, mean, 1.0)), np.float64)


def _gather(told: Float64, memory: float, begin: Float64) -> tuple[Float64, Float64]:
    """What is known before each token (components, tokens) of a sequence, and after the last (components,)."""
    if not told.shape[1]:
        return told, begin
    after, _ = lfilter([1.0], [1.0, -memory], told, axis=1, zi=memory * begin[:, None])
    return np.column_stack([begin, after[:, :-1]]), after[:, -1]


def _gather_before(told: Float64, memory: float, begins: npt.NDArray[np.integer[Any]]) -> Float64:
    """What is known before each token (components, tokens), of sequences that begin at ``begins`` (sequences + 1,)."""
    found, nothing = np.empty_like(told), np.zeros(len(told))
    for i, j in pairwise(begins.tolist()):
        found[:, i:j] = _gather(told[:, i:j], memory, nothing)[0]
    return found


def _check_between(name: str, value: float, most: float) -> float:
    """Return a number from 0 to ``most``. Raises ConfigurationError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ConfigurationError(
            f"{name} of an adaptive mixture is {value!r:.80}: give a number from 0 to {most:.4g}"
        )
    return float(value)
