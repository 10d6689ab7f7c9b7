"""`UnigramCache` and `NeuralCache`: language models that predict the words of the recent text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError, ConfigurationError, NotFittedError
from tacenda.estimator import NO_PARTS, Estimator, Parts, Saved
from tacenda.fitting import FitRun
from tacenda.forks import cached_property
from tacenda.lazy import compiled
from tacenda.settings import Group, Settings, configured_by, group, option
from tacenda.vocabulary import Vocabulary
from tacenda_lm import options
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.log_bilinear.hlbl import HLBL, HLBLSettings
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import Float64, Floats, Ids, Integers, Offsets, check_ids, check_sequences
from tacenda_lm.states import (
    State,
    check_following,
    check_states,
    check_step,
    not_of_this_model,
    vector_of,
)

_ROWS_PER_BLOCK = 512  # words whose contexts are compared with the whole window at once
_WORDS_PER_BLOCK = 8192  # of a text, whose vectors are in memory at once
_MAX_COORDINATE = 1e9  # so that no square is infinite in float32
_N_COMMON_WORDS = 500  # the contexts after each of them give the scale of distances


def _decay(default: float, remark: str) -> Any:
    doc = f"factor of the weight of a word for every word read since; {remark}"
    return option(default, doc, above=0, at_most=1)


def _prior_words(default: float, where: str) -> Any:
    doc = f"weight of the frequencies of words in the training text, in words {where}"
    return option(default, doc, at_least=1e-6, at_most=1e9)


@dataclass(frozen=True, kw_only=True)
class _CacheSettings(Settings):
    """Options of both caches."""

    window: int = options.count(2000, "words that are remembered", 1 << 20)


@dataclass(frozen=True, kw_only=True)
class UnigramCacheSettings(_CacheSettings):
    """Settings of `UnigramCache`."""

    decay: float = _decay(0.99, "with 1, all words of the window weigh the same")
    prior_words: float = _prior_words(1.0, "just read; before the first word, only they count")


@dataclass(frozen=True, kw_only=True)
class NeuralCacheSettings(_CacheSettings):
    """Settings of `NeuralCache`."""

    sharpness: float = option(
        5.0,
        "theta: a word whose context has the average distance from the present one weighs exp(-theta) times as much as "
        "a word with the same context",
        at_least=0,
        at_most=1e3,
    )
    decay: float = _decay(1.0, "1 in the paper")
    prior_words: float = _prior_words(0.5, "read in the same context")
    hlbl: Group[HLBLSettings] = group(
        HLBLSettings,
        "options of the `HLBL` that ``fit`` fits, unless ``over`` was given another model",
    )


class _Cache(LanguageModel):
    """The base of the caches, which mix weighted words of the recent text with the frequencies of all words."""

    distribution: ClassVar[str] = "tacenda-lm"
    _prior: Float64  # u (types,), the frequencies of words, with one added to each count

    @property
    def own_context(self) -> Context:
        return "stream"

    def _set_vocabulary(self, vocabulary: Vocabulary) -> None:
        counts = vocabulary.counts + 1.0
        self._vocabulary, self._prior = vocabulary, np.asarray(counts / counts.sum(), np.float64)

    def _recall(self, states: Sequence[State]) -> Iterator[tuple[Ids, Floats]]:
        """Yield for each state the words that it holds and their weights (entries,). Raises DataError."""
        raise NotImplementedError

    def log_probs(self, states: Sequence[State]) -> Float64:
        check_states(states)
        _ = self.vocabulary  # raises NotFittedError
        kappa = self.settings.prior_words
        rows = np.repeat(kappa * self._prior[None], len(states), axis=0)
        for row, (words, weights) in zip(rows, self._recall(states), strict=True):
            np.add.at(row, words, weights.astype(np.float64))
            row /= weights.sum(dtype=np.float64) + kappa
        return np.asarray(np.log(rows), np.float64)


class UnigramCache(_Cache):
    """A cache that predicts recently read words: a unigram model of them.

        p(w_t | h) = (sum_{a = 1 .. window} decay^{a - 1} [w_{t - a} = w] + kappa u(w)) / (sum_a decay^{a - 1} + kappa)

    u are the frequencies of words in the text from which the vocabulary was made, and kappa is ``prior_words``. Use the
    cache in a `Mixture`: text repeats its words, which models with a short context forget. The window reaches across
    the ends of sentences; score running text as a stream.

    Examples
    --------
    >>> cache = UnigramCache(window=500).fit(corpus)
    >>> Mixture({"kn": kneser_ney, "cache": cache}).fit_weights(Path("valid.txt"), context="stream")
    """

    name: ClassVar[str] = "unigram_cache"
    settings: UnigramCacheSettings

    @configured_by(UnigramCacheSettings)
    def __init__(self, settings: UnigramCacheSettings) -> None:
        super().__init__(settings)

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        self._set_vocabulary(corpus.vocabulary)

    @cached_property
    def _weights(self) -> Float64:
        """The weights of the last word, the word before it, and so on (window,)."""
        return np.asarray(self.settings.decay ** np.arange(self.settings.window, dtype=np.float64))

    # -- one word after another: the value of a state is the bytes of the words, int32, oldest first ------

    def start(self) -> State:
        _ = self.vocabulary
        return State(b"")

    def advance(self, state: State, word: int) -> State:
        check_step(state, word, len(self.vocabulary))
        words = np.append(self._words(state), np.int32(word))
        return State(words[-self.settings.window :].tobytes())

    def _words(self, state: State) -> npt.NDArray[np.int32]:
        return check_ids(state.vector(np.int32)[-self.settings.window :], len(self.vocabulary))

    def _recall(self, states: Sequence[State]) -> Iterator[tuple[Ids, Float64]]:
        for state in states:
            words = self._words(state)
            yield words, self._weights[: len(words)][::-1]

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        ids, offsets = check_sequences(ids, offsets, len(self.vocabulary))
        kappa = self.settings.prior_words
        n_before = np.arange(len(ids)) - np.repeat(offsets[:-1], np.diff(offsets))
        cumulative = np.concatenate([[0.0], np.cumsum(self._weights)])
        totals = cumulative[np.minimum(n_before, self.settings.window)]
        hits = sum_recent_weights(ids, offsets, self._weights)
        return np.asarray(np.log((hits + kappa * self._prior[ids]) / (totals + kappa)), np.float64)

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        ids = check_following(state, ids, len(self.vocabulary))
        words = self._words(state)
        text = np.concatenate([words, ids])
        scores = self.score_corpus(text, np.array([0, len(text)]))[len(words) :]
        return scores, State(text[-self.settings.window :].tobytes())

    # -- saved model -------------------------------------------------------------------------------

    def arrays(self) -> Saved:
        return self.vocabulary.arrays()

    def _read_arrays(self, config: dict[str, Any], arrays: Saved) -> None:
        self._set_vocabulary(self.vocabulary)


@compiled
def sum_recent_weights(ids: Ids, offsets: Offsets, weights: Float64) -> Float64:
    """Return the summed weights of the earlier occurrences of each id in its sequence, float64 (tokens,).

        hit_t = sum_{a = 1 .. window} weights[a - 1] [ids_{t - a} = ids_t]

    ``weights`` (window,) belong to the last word, the word before it, and so on.
    """
    hits = np.zeros(len(ids), np.float64)
    for s in range(len(offsets) - 1):
        for t in range(offsets[s], offsets[s + 1]):
            n = min(t - offsets[s], len(weights))
            past, word, total = ids[t - n : t], ids[t], 0.0
            last = weights[:n]
            for i in range(n):
                total += last[n - 1 - i] if past[i] == word else 0.0
            hits[t] = total
    return hits


@runtime_checkable
class HasContextVectors(Protocol):
    """A language model that predicts from a vector; `NeuralCache.over` takes any model with these two methods."""

    def state_vectors(self, states: Sequence[State]) -> Floats:
        """Return the vector from which each state predicts (states, width)."""
        ...

    def vectors_from(self, state: State, ids: Integers) -> tuple[Floats, State]:
        """Return the vectors that predict the ids that follow a state (tokens, width), and the state after them."""
        ...


def _replaced_by_fits(name: str) -> Any:
    """Return the property of a `NeuralCache` for an attribute that every fit of its model replaces."""

    def read(cache: Any) -> Any:
        cache._follow_model()
        return getattr(cache, f"_{name}", None)

    return property(read, lambda cache, value: setattr(cache, f"_{name}", value))


class NeuralCache(_Cache):
    """A cache that predicts words that recently followed similar contexts.

        p(w_t | h) = (sum_i k_i [w_i = w] + kappa u(w)) / (sum_i k_i + kappa),   k_i = decay^{t - 1 - i} exp(-theta d_i)

    over the last ``window`` words w_i, where d_i is the squared distance between the vectors r_t and r_i from which
    another model predicts w_t and w_i, in units of its mean over common contexts. (Grave, Joulin and Usunier 2017 have
    inner products instead of distances, in equations 2 and 3, and neither decay nor kappa; u and kappa are as in
    `UnigramCache`.) If no recent context was similar, the frequencies u decide.

    The vectors come from an `HLBL` that `fit` fits, or from any model with `HasContextVectors` given to `over`. Use the
    cache in a `Mixture` together with that model, and score running text as a stream.

    Examples
    --------
    >>> cache = NeuralCache.over(hlbl, window=1000)
    >>> Mixture({"hlbl": hlbl, "cache": cache}).fit_weights(Path("valid.txt"))
    """

    name: ClassVar[str] = "neural_cache"
    settings: NeuralCacheSettings
    keeps_checkpoints = True

    @configured_by(NeuralCacheSettings)
    def __init__(self, settings: NeuralCacheSettings) -> None:
        super().__init__(settings)
        self.model: Any = HLBL.from_settings(settings.hlbl)
        self._is_given = False  # whether the model was given to `over`
        # ``n_fits`` of the model when `_adopt` was last called
        self._adopted_n_fits: int | None = None

    @classmethod
    def over(cls, model: LanguageModel, **options: Any) -> Self:
        """Return a cache over the vectors of a model; ``options`` are the other options of the class.

        The cache is fitted as soon as the model is; fitting the cache would fit the model again. Raises
        ConfigurationError if the model does not predict from vectors, or an option is unknown or out of range.
        """
        if "hlbl" in options:
            raise ConfigurationError(
                "a cache over a model takes the vectors of that model: leave out hlbl"
            )
        cache = cls(**options)
        cache._set_model(model, is_given=True)
        return cache

    def _set_model(self, model: Any, *, is_given: bool) -> None:
        """Take the vectors from a model. Raises ConfigurationError if it has none."""
        if not isinstance(model, LanguageModel) or not isinstance(model, HasContextVectors):
            raise ConfigurationError(
                f"a neural cache needs a language model with state_vectors and vectors_from, such as HLBL or "
                f"RecurrentLM, and a {type(model).__name__} has none"
            )
        self.model, self._is_given = model, is_given
        self.keeps_checkpoints = model.keeps_checkpoints

    def __repr__(self) -> str:
        state = "fitted" if self.is_fitted else "not fitted"
        s = self.settings
        return f"<NeuralCache(over {self.model!r}, window={s.window}, sharpness={s.sharpness}), {state}>"

    fitted_on = _replaced_by_fits("fitted_on")
    figures = _replaced_by_fits("figures")
    line_sketch = _replaced_by_fits("line_sketch")

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the model. Raises NotFittedError."""
        self._follow_model()
        return super().vocabulary

    def _follow_model(self) -> None:
        """Adopt the last fit of the model, if that was not done yet."""
        if self.model.fitted_on and self.model.n_fits != self._adopted_n_fits:
            self._adopt()

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        self.model.fit_within(corpus, valid, run)
        self._adopt()

    def _adopt(self) -> None:
        """Take the vocabulary and the facts of the model, and measure its vectors. Raises NotFittedError."""
        vocabulary = self.model.vocabulary
        common = np.argsort(-vocabulary.counts, kind="stable")[:_N_COMMON_WORDS].tolist()
        start = self.model.start()
        vectors = self.model.state_vectors([self.model.advance(start, word) for word in common])
        r = np.asarray(vectors, np.float64)
        # the mean squared distance of common contexts, and their mean
        self._scale, self._center = float(2 * r.var(axis=0).sum()), r.mean(axis=0)
        self._set_vocabulary(vocabulary)
        # figures and lines of a fit before this one are not of this model
        self.fitted_on, self.figures, self.line_sketch = dict(self.model.fitted_on), [], None
        self._adopted_n_fits = self.model.n_fits

    def _standardize(self, r: Floats) -> npt.NDArray[np.float32]:
        """Return vectors in coordinates in which the weight of an entry is exp(-|r_t - r_i|^2).

        The coordinates are centered, because float32 rounds small distances between vectors far from zero.
        """
        unit = np.sqrt(self.settings.sharpness / self._scale) if self._scale > 0 else 0.0
        placed = np.clip((r - self._center) * unit, -_MAX_COORDINATE, _MAX_COORDINATE)
        return np.ascontiguousarray(placed, np.float32)

    # -- one word after another: (that of the model, words as bytes, the bytes of each word's vector) ------

    def start(self) -> State:
        _ = self.vocabulary
        return State((self.model.start().value, b"", ()))

    def advance(self, state: State, word: int) -> State:
        check_step(state, word, len(self.vocabulary))
        inner, words, vectors = state.parts(3)
        r = self._standardize(self.model.state_vectors([State(inner)]))
        if not isinstance(vectors, tuple) or len(vector_of(words, np.int32)) != len(vectors):
            raise not_of_this_model()
        window = self.settings.window
        words = (words + np.int32(word).tobytes())[-4 * window :]
        vectors = (*vectors, r[0].tobytes())[-window:]
        return State((self.model.advance(State(inner), word).value, words, vectors))

    def _recall(self, states: Sequence[State]) -> Iterator[tuple[Ids, npt.NDArray[np.float32]]]:
        placed = self._standardize(self.model.state_vectors([State(s.parts(3)[0]) for s in states]))
        for r, state in zip(placed, states, strict=True):
            words, vectors = self._unpack_entries(state, len(r))
            yield words, self._compute_weights(r[None], vectors, len(vectors))[0]

    def _unpack_entries(self, state: State, width: int) -> tuple[Ids, npt.NDArray[np.float32]]:
        """Return the words of a state (entries,) and their vectors (entries, width). Raises DataError."""
        _, words, vectors = state.parts(3)
        if not isinstance(vectors, tuple) or not all(isinstance(data, bytes) for data in vectors):
            raise not_of_this_model()
        placed = vector_of(b"".join(vectors), np.float32, width * len(vectors)).reshape(-1, width)
        return check_ids(vector_of(words, np.int32, len(placed)), len(self.vocabulary)), placed

    def _compute_weights(
        self, r: npt.NDArray[np.float32], entries: npt.NDArray[np.float32], first: int
    ) -> npt.NDArray[np.float32]:
        """Return the weights k (rows, entries); row i is of the word at place ``first + i`` of the entries."""
        squares = np.einsum("td,td->t", r, r)[:, None] + np.einsum("td,td->t", entries, entries)
        k: npt.NDArray[np.float32] = r @ entries.T
        k *= 2
        k -= squares
        np.minimum(k, 0, out=k)  # a distance of zero is not below zero by rounding
        if self.settings.decay < 1:
            ages = first - 1 + np.arange(len(r))[:, None] - np.arange(len(entries))
            k += (np.log(self.settings.decay) * np.maximum(ages, 0)).astype(np.float32)
        np.exp(k, out=k)
        return k

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        ids, offsets = check_sequences(ids, offsets, len(self.vocabulary))
        scores, start = np.empty(len(ids)), self.start()
        for i, j in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            scores[i:j] = self.score_from(start, ids[i:j])[0]
        return scores

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        ids = check_following(state, ids, len(self.vocabulary))
        inner, window = State(state.parts(3)[0]), self.settings.window
        kappa, width = self.settings.prior_words, self.model.state_vectors([inner]).shape[1]
        words, entries = self._unpack_entries(state, width)
        scores = np.empty(len(ids))
        for i in range(0, len(ids), _WORDS_PER_BLOCK):
            part = ids[i : i + _WORDS_PER_BLOCK]
            r, inner = self.model.vectors_from(inner, part)
            n = len(words)
            words = np.concatenate([words, part])
            entries = np.concatenate([entries, self._standardize(r)])
            for row in range(n, len(words), _ROWS_PER_BLOCK):
                end, low = min(row + _ROWS_PER_BLOCK, len(words)), max(0, row - window)
                k = self._compute_weights(entries[row:end], entries[low:end], row - low)
                hits, totals = sum_matching_weights(k, words[low:end], row - low, window)
                prior = kappa * self._prior[words[row:end]]
                scores[i + row - n : i + end - n] = np.log((hits + prior) / (totals + kappa))
            words, entries = words[-window:], entries[-window:]
        vectors = tuple(row.tobytes() for row in entries)
        return scores, State((inner.value, words.tobytes(), vectors))

    # -- saved model -------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        _ = self.vocabulary
        settings = self.settings.to_dict()
        if self._is_given:
            del settings["hlbl"]
        else:
            settings["hlbl"].pop("device")
        return {"settings": settings}

    def arrays(self) -> Saved:
        _ = self.vocabulary
        return {}  # what is measured of the model is measured again

    def nested(self) -> Mapping[str, Estimator]:
        return {"model": self.model}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: Saved, nested: Parts = NO_PARTS) -> Self:
        cache = cls.from_settings(config["settings"])
        model: Any = nested.get("model")
        try:
            cache._set_model(model, is_given="hlbl" not in config["settings"])
            cache._adopt()
        except (ConfigurationError, NotFittedError) as error:
            raise ArtifactError(f"its model does not fit: {error}") from error
        return cache


@compiled
def sum_matching_weights(
    weights: Floats, words: Ids, first: int, window: int
) -> tuple[Float64, Float64]:
    """Return the summed weights of the entries with the right word, and of all entries, float64 (rows,) each.

    Row r is about the word at place ``first + r`` of ``words``, and sums the entries at the ``window`` places before
    it; ``weights`` (rows, places) has the entries at all places.
    """
    hits, totals = np.zeros(len(weights)), np.zeros(len(weights))
    for r in range(len(weights)):
        end = first + r
        begin = max(0, end - window)
        row, past, word = weights[r, begin:end], words[begin:end], words[end]
        hit, total = 0.0, 0.0
        for i in range(len(row)):
            total += row[i]
            hit += row[i] if past[i] == word else 0.0
        hits[r], totals[r] = hit, total
    return hits, totals
