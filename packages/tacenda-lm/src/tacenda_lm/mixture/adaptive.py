"""`AdaptiveMixture`: a mixture whose weights follow how well each component predicted the words before.

    p(w | h_t) = sum_k lambda_k(t) p_k(w | h_t),   lambda_k(t) = lambda_k exp(eta a_k(t)) / normalizer

    a_k(t + 1) = delta a_k(t) + log(c + p_k(w_t | h_t) / mean_j p_j(w_t | h_t)),   a_k = 0 before the first word

A component that predicted the last words better than the others gets more weight for the next few words. (Kneser and
Steinbiss 1993 adapt weights to recent text by EM; these follow from the words before alone.) c bounds the influence of
one word. lambda, eta and delta are fitted to held-out text together, where no lambda falls below about 1e-8, so that
a component that does not help there can come back in a text that it predicts well (Herbster and Warmuth 1998 keep a
share for every expert in the same way). A component whose weight is zero stays out of every text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.signal import lfilter

from tacenda.errors import ConfigurationError
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.mixture.fixed import Mixture
from tacenda_lm.mixture.weights import fit_weights, is_number, mix
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import Float64, Integers, check_sequences
from tacenda_lm.states import State, check_state, check_step, vector_of

_EVIDENCE_FLOOR = 0.3  # c
_MIN_WEIGHT = 1e-8  # of lambda, in fitting
_MEMORIES_TRIED = 0.5, 0.7, 0.8, 0.9, 0.95, 0.98  # delta, in fitting
_MAX_ADAPTATION = 100.0  # eta
_MAX_MEMORY = float(np.nextafter(1.0, 0.0))  # delta


class AdaptiveMixture(Mixture):
    """A mixture of language models whose weights change from word to word, by how well each model has predicted so far.

    It helps most if texts are long and differ from each other. In a stream, the weights carry over between sentences.
    `fit_weights` leaves every component a weight of at least about 1e-8, so that it can come back in a text that it
    predicts well; only a component whose weight is 0 stays out.

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
        self.adaptation = _check_between("adaptation", adaptation, _MAX_ADAPTATION, "to 100")
        self.memory = _check_between("memory", memory, _MAX_MEMORY, "to below 1")

    @property
    def own_context(self) -> Context:
        return "stream"

    # -- fitting -----------------------------------------------------------------------------------

    def _fit_to(self, scores: Float64, begins: Integers) -> None:
        used = self._weights > 0
        fixed = np.maximum(fit_weights(scores, self._weights)[used], _MIN_WEIGHT)
        # relative to all components, as in predictions
        evidence = _weigh_evidence(scores)[used]
        fits = [
            _fit_with_memory(scores[used], evidence, begins, fixed, memory)
            for memory in _MEMORIES_TRIED
        ]
        best = min(fits, key=lambda fit: fit.nats)
        self._weights = np.zeros(len(scores))
        self._weights[used] = best.weights
        self.adaptation, self.memory = best.adaptation, best.memory

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        return self._make_state(super().start(), np.zeros(len(self._models)))

    def null(self) -> State:
        return self._make_state(super().null(), np.zeros(len(self._models)))

    def advance(self, state: State, word: int) -> State:
        check_step(state, word, len(self.vocabulary))
        inner, evidence = self._split(state)
        after = super().advance(inner, word)
        of_word = _weigh_evidence(self._component_pairs([inner], np.array([word])))
        return self._make_state(after, self.memory * evidence + of_word[:, 0])

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        check_state(state)
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

    def _compute_weights(self, scores: Float64, begins: Integers) -> Float64:
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


class _Fit(NamedTuple):
    """The best parameters with one memory."""

    nats: float  # per token
    weights: Float64  # (components,)
    adaptation: float
    memory: float


def _fit_with_memory(
    scores: Float64, evidence: Float64, begins: Integers, start: Float64, memory: float
) -> _Fit:
    """Find the weights and the adaptation that give a text the highest probability, with one memory.

    ``scores`` and ``evidence`` are (components, tokens), and ``begins`` (sequences + 1,) cut the tokens; the weights
    ``start`` (components,) are not below `_MIN_WEIGHT`.
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
    bounds = [(np.log(_MIN_WEIGHT), None)] * len(start) + [(0.0, _MAX_ADAPTATION)]
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


def _accumulate_before(evidence: Float64, memory: float, begins: Integers) -> Float64:
    """Return a_k before each token (components, tokens) of sequences that ``begins`` (sequences + 1,) cut."""
    known, zero = np.empty_like(evidence), np.zeros(len(evidence))
    for i, j in pairwise(begins.tolist()):
        known[:, i:j] = _accumulate(evidence[:, i:j], memory, zero)[0]
    return known


def _check_between(name: str, value: float, most: float, end: str) -> float:
    """Return a number from 0 to ``most``, in words its ``end``. Raises ConfigurationError."""
    if not is_number(value) or not 0 <= value <= most:
        raise ConfigurationError(
            f"{name} of an adaptive mixture is {value!r:.80}: give a number from 0 {end}"
        )
    return float(value)
