"""`LBL`: the log-bilinear model: the next word by its vector's likeness to a predicted one (Mnih 2010, section 3.3).

    r = sum_i C_i r_{w_i} (eq 3.16),    P(w | context) = exp(r . q_w + b_w) / sum_j exp(r . q_j + b_j) (eq 3.17)

q_w is r_w itself where vectors are tied. Exact likelihood costs a product with all words; noise-contrastive
estimation (Mnih and Teh 2012) one with the words of the batch and some words of noise, which the whole batch shares.
Objectives and their gradients are matrix products in the dtype and on the device of the parameters, by numpy or torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.array_ops import library, merge_rows, to_device, to_numpy
from tacenda.arrays import Array, Arrays, Float32
from tacenda.corpus import Corpus
from tacenda.fitting import ArrayBatches, FitRun, StepResult
from tacenda.settings import Group, Settings, configured_by, group, option
from tacenda_lm import options
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.states import State, rows_of_block
from tacenda_lm.streams import Contexts, Predictor, Stream, StreamModel, streams_of
from tacenda_lm.training import Trainer, dropout_mask, falling_rate, train

_ROWS = 512  # distributions computed side by side, at most
_SUMS = 1e-6  # accumulators to begin with
_LESS = "fewer batch_words, a smaller width, or a smaller vocabulary"
_OPERATIONS = ("adagrad",)


@dataclass(frozen=True, kw_only=True)
class LBLAdvanced(Settings):
    """Options of `LBL` that few need to change."""

    context_matrices: Literal["full", "diagonal"] = option(
        "full",
        "the matrices C_i of equation 3.16 of the thesis; diagonal ones with tied vectors cannot tell which of two "
        "words comes first",
    )
    tied: bool = option(
        True,
        "whether the words to predict have the feature vectors of the context words (section 3.3 of the thesis)",
    )
    noise_words: int = option(
        100,
        "words of noise in a step of noise-contrastive estimation, k, drawn from the unigram distribution",
        at_least=1,
        at_most=1 << 20,
    )


@dataclass(frozen=True, kw_only=True)
class LBLSettings(options.SeededSettings):
    """Settings of `LBL`."""

    width: int = options.width(100, "elements of a feature vector, D; 100 in the thesis")
    context: int = option(
        5, "preceding words that a prediction uses, n - 1", at_least=1, at_most=1000
    )
    loss: Literal["softmax", "nce"] = option(
        "softmax", "the exact likelihood, or noise-contrastive estimation (Mnih and Teh 2012)"
    )
    dropout: float = options.dropout(
        0.2,
        "share of the predicted vector that training leaves out; the thesis has no dropout",
    )
    epochs: int = options.epochs(8)
    learning_rate: float = options.learning_rate(0.1, "AdaGrad", "a tenth")
    patience: int = options.patience(3)
    batch_words: int = option(512, "words of a step", at_least=1, at_most=1 << 20)
    across_sentences: bool = options.across_sentences()
    device: str = devices.option()
    advanced: Group[LBLAdvanced] = group(LBLAdvanced)

    def idle(self) -> Mapping[str, str]:
        if self.loss == "softmax":
            return {"advanced.noise_words": 'with loss="softmax"'}
        return {}


# -- objectives --------------------------------------------------------------------------------------


class LBLParameters(Arrays):
    """Learned parameters."""

    words: Float32[Array, "types width", options.weights]  # R
    contexts: Float32[
        Array, "context *matrix", options.weights
    ]  # C, diagonals or (width, width): r = R[w] @ C[i]
    targets: Float32[Array, "outputs width", options.weights]  # q; no rows where they are R
    biases: Float32[Array, "types 1", options.weights]  # b

    @property
    def outputs(self) -> Array:
        """The vectors q of the words to predict, (types, width)."""
        return self.targets if len(self.targets) else self.words


Gradient = tuple[Array | None, Array]
"""Rows, each once, and their gradients; None stands for all rows."""


def _features(p: LBLParameters, batch: Contexts) -> Array:
    """Return R of the context words (tokens, context, width), zero where there are none."""
    x = p.words[batch.words]
    return x * library(x).asarray(batch.present[:, :, None], dtype=x.dtype)


def predict(p: LBLParameters, batch: Contexts) -> Array:
    """Return the predicted vectors r (tokens, width), eq 3.16."""
    x = _features(p, batch)
    if p.contexts.ndim == 2:
        return library(x).einsum("tnd,nd->td", x, p.contexts)
    n, width, _ = p.contexts.shape
    return x.reshape(-1, n * width) @ p.contexts.reshape(-1, width)


def score(p: LBLParameters, r: Array) -> Array:
    """Return natural log-probabilities of every word (tokens, types), eq 3.17."""
    xp = library(r)
    s = r @ p.outputs.T
    s += p.biases[:, 0]
    s -= xp.amax(s, axis=1, keepdims=True)  # the largest becomes 0, so that exp cannot overflow
    s -= xp.log(xp.exp(s).sum(axis=1, keepdims=True))
    return s


def softmax(
    p: LBLParameters, batch: Contexts, keep: Array | None = None
) -> tuple[Array, dict[str, Gradient]]:
    """Return the summed negative log-likelihood of a batch, and its gradients (eqs 3.21 to 3.25).

    The predicted vectors are multiplied by ``keep`` (tokens, width): dropout.
    """
    r = predict(p, batch)
    if keep is not None:
        r = r * keep
    xp = library(r)
    log_probs = score(p, r)
    rows = xp.arange(len(r), device=r.device)
    loss = -log_probs[rows, batch.targets].sum(dtype=xp.float64)
    # the derivative with respect to the scores, P - 1 for the word itself, in the memory of the scores
    error = xp.exp(log_probs, out=log_probs)
    error[rows, batch.targets] -= 1
    d_q = error.T @ r
    d_r = error @ p.outputs
    d_b = error.sum(axis=0)[:, None]
    return loss, _back(p, batch, d_r if keep is None else d_r * keep, None, d_q, d_b)


def nce(
    p: LBLParameters,
    batch: Contexts,
    noise: Array,
    log_noise: Array,
    keep: Array | None = None,
) -> tuple[Array, dict[str, Gradient]]:
    """Return the summed loss of telling the words of a batch from words of noise, and its gradients.

        -log sigma(d(w)) - sum_j log sigma(-d(x_j)),    d(w) = r . q_w + b_w - log(k P_noise(w))

    The words of ``noise`` x (k,) were drawn from P_noise; ``log_noise`` (types,) are its natural logarithms.
    """
    r = predict(p, batch)
    if keep is not None:
        r = r * keep
    xp = library(r)
    offset = p.biases[:, 0] - log_noise - xp.log(xp.asarray(len(noise), dtype=p.words.dtype))
    q = p.outputs
    own = xp.einsum("td,td->t", r, q[batch.targets]) + offset[batch.targets]
    other = r @ q[noise].T + offset[noise]
    # -log sigma(x) = log(1 + exp(-x))
    loss = xp.logaddexp(xp.zeros_like(own), -own).sum(dtype=xp.float64)
    loss = loss + xp.logaddexp(xp.zeros_like(other), other).sum(dtype=xp.float64)
    e_own = -1 / (1 + xp.exp(own))  # derivatives of the loss with respect to own and other
    e_other = 1 / (1 + xp.exp(-other))
    d_r = e_own[:, None] * q[batch.targets] + e_other @ q[noise]
    d_q = xp.concatenate([e_own[:, None] * r, e_other.T @ r])
    words = xp.concatenate([batch.targets, noise])
    errors = xp.concatenate([e_own, e_other.sum(axis=0)])
    types, (d_q, d_b) = merge_rows(words, d_q, errors[:, None])
    return loss, _back(p, batch, d_r if keep is None else d_r * keep, types, d_q, d_b)


def _back(
    p: LBLParameters, batch: Contexts, d_r: Array, types: Array | None, d_q: Array, d_b: Array
) -> dict[str, Gradient]:
    """Return the gradients of all parameters, given the gradients of r and of the rows ``types`` of q and b."""
    x = _features(p, batch)
    xp = library(x)
    if p.contexts.ndim == 2:
        d_c = xp.einsum("tnd,td->nd", x, d_r)
        d_x = d_r[:, None] * p.contexts
    else:
        flat = p.contexts.reshape(-1, p.contexts.shape[2])
        d_c = (x.reshape(-1, len(flat)).T @ d_r).reshape(p.contexts.shape)
        d_x = (d_r @ flat.T).reshape(x.shape)
    words, (d_words,) = merge_rows(batch.words[batch.present], d_x[batch.present])
    found: dict[str, Gradient] = {"contexts": (None, d_c), "biases": (types, d_b)}
    if len(p.targets):
        return {**found, "words": (words, d_words), "targets": (types, d_q)}
    if types is None:  # q is R, and its gradient has all rows: those of the context words are added
        d_q[words] += d_words
        return {**found, "words": (None, d_q)}
    rows, (d_rows,) = merge_rows(xp.concatenate([words, types]), xp.concatenate([d_words, d_q]))
    return {**found, "words": (rows, d_rows)}


# -- the model ---------------------------------------------------------------------------------------


class LBLPredictor(Predictor):
    """A fitted LBL on the device of its parameters; a state is a tuple of the last words, oldest first."""

    def __init__(self, parameters: LBLParameters, boundary: int, device: str = "cpu") -> None:
        self.parameters, self.boundary, self.n = parameters, boundary, len(parameters.contexts)
        self.n_types, self._device = len(parameters.words), device

    def start(self) -> State:
        return State((self.boundary,))

    def after(self, state: State, word: int) -> State:
        return State((*self._window(state), word)[-self.n :])

    def _window(self, state: State) -> tuple[int, ...]:
        """Return the last words, oldest first. Raises DataError for the state of another model."""
        return state.words(self.n, self.n_types)

    def vectors(self, states: Sequence[State]) -> Array:
        return self._predict(Contexts.of_windows(list(map(self._window, states)), self.n))

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[Array, Ids, State | None]]:
        ids = stream.ids
        if state is None:
            positions = np.flatnonzero(~stream.firsts)
        else:  # its window is read again before the ids, in one sequence with them
            window = self._window(state)
            stream = Stream.following(ids, window)
            ids, positions = stream.ids, np.arange(len(window), len(stream.ids))
        rows = min(_ROWS, rows_of_block(self.n_types))
        for i in range(0, len(positions), rows):
            batch = Contexts.at(stream, positions[i : i + rows], self.n)
            after = None
            if state is not None:
                end = int(positions[i : i + rows][-1]) + 1
                after = State(tuple(ids[max(0, end - self.n) : end].tolist()))
            yield self._predict(batch), batch.targets.astype(np.int32), after

    def _predict(self, batch: Contexts) -> Array:
        there = Contexts(*(to_device(array, self._device) for array in batch))
        return predict(self.parameters, there)

    def rows(self, vectors: Array) -> npt.NDArray[np.float32]:
        return np.asarray(to_numpy(score(self.parameters, vectors)), np.float32)

    def pick(self, vectors: Array, words: Ids) -> Float64:
        rows = np.arange(len(words)), words.astype(np.int64)
        at = (to_device(each, self._device) for each in rows)
        found = score(self.parameters, vectors)[tuple(at)]
        return np.asarray(to_numpy(found), np.float64)


class LBL(StreamModel):
    """A log-bilinear language model.

        r = sum_i C_i r_{w_i},    P(w | context) = exp(r . q_w + b_w) / sum_j exp(r . q_j + b_j)

    (Mnih 2010, equations 3.16 and 3.17.) The models of the thesis have ``width=100``, full matrices and no dropout.
    """

    name: ClassVar[str] = "lbl"
    settings: LBLSettings
    _predictor: LBLPredictor | None = None

    @configured_by(LBLSettings)
    def __init__(self, settings: LBLSettings) -> None:
        super().__init__(settings)

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        settings = self.settings
        device = devices.resolve(settings, _OPERATIONS)
        # parameters, gradients and sums of AdaGrad, and the scores and contexts of a batch
        n, width, types = settings.context, settings.width, len(corpus.vocabulary)
        tables = types * (width + 2) * (1 if settings.advanced.tied else 2) + n * width * width
        scored = types if settings.loss == "softmax" else settings.advanced.noise_words
        needed = 4 * (3 * tables + settings.batch_words * (2 * scored + (4 * n + 4) * width))
        devices.check_memory(needed, device, settings, _LESS)
        texts = streams_of(corpus, valid, across=settings.across_sentences)
        with devices.out_of_memory(settings, _LESS):
            trainer = LBLTrainer(settings, corpus.type_counts, *texts, device)
            positions = np.flatnonzero(~trainer.text.firsts)
            source = ArrayBatches(positions, batch_size=settings.batch_words, seed=settings.seed)
            rate = falling_rate(settings.learning_rate, settings.epochs, source)
            history = train(trainer, source, fitting, rate)
        found = trainer.current.to("cpu")
        self._vocabulary = corpus.vocabulary
        self._predictor = LBLPredictor(found, self._vocabulary.boundary_id)
        self.fitted_on = {"training": history.as_dict()}

    def _rebuild(self, arrays: dict[str, npt.NDArray[Any]]) -> LBLPredictor:
        settings, types, width = self.settings, len(self.vocabulary), self.settings.width
        diagonal = settings.advanced.context_matrices == "diagonal"
        sizes: dict[str, Any] = {
            "types": types,
            "width": width,
            "context": settings.context,
            "*matrix": (width,) if diagonal else (width, width),
            "outputs": 0 if settings.advanced.tied else types,
        }
        found = LBLParameters.from_arrays(arrays, **sizes)
        return LBLPredictor(found, self.vocabulary.boundary_id)


class LBLTrainer(Trainer):
    """An LBL under training, from small random vectors; batches are arrays of positions.

    Biases and words of noise come from ``counts``, which say how often each type occurs in the training text.
    """

    def __init__(
        self,
        settings: LBLSettings,
        counts: npt.NDArray[np.integer],
        text: Stream,
        valid: Stream | None,
        device: str = "cpu",
    ) -> None:
        some = counts + 0.1  # no type occurs never
        noise = np.asarray(some / some.sum())
        self.current = _draw(settings, noise).to(device)
        tables = dict(self.current.items())
        sums = dict.fromkeys(tables, _SUMS)
        super().__init__(settings, tables, text, valid, sums=sums, device=device)
        self._cumulative = np.cumsum(noise)
        self._log_noise = self.put(np.log(noise).astype(np.float32))

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        (positions,) = batch
        settings, rng, keep = self.settings, self.draw(), None
        found = Contexts(*map(self.put, Contexts.at(self.text, positions, settings.context)))
        if settings.dropout:
            shape = len(positions), settings.width
            keep = self.put(dropout_mask(shape, settings.dropout, rng))
        if settings.loss == "softmax":
            loss, gradients = softmax(self.current, found, keep)
        else:
            # by inversion of the distribution function; the batch shares its noise, which makes two products of it
            uniform = rng.random(settings.advanced.noise_words) * self._cumulative[-1]
            noise = np.searchsorted(self._cumulative, uniform, side="right")
            noise = np.minimum(noise, len(self._cumulative) - 1)
            loss, gradients = nce(self.current, found, self.put(noise), self._log_noise, keep)
        for name, (rows, gradient) in gradients.items():
            self.move(name, rows, gradient, learning_rate)
        return StepResult(loss, len(positions))

    def predictor(self) -> LBLPredictor:
        return LBLPredictor(self.current, self.boundary, self.device)


def _draw(settings: LBLSettings, unigrams: npt.NDArray[np.float64]) -> LBLParameters:
    """Draw small vectors; diagonals are 1 / (2 sqrt(i)), and biases make a unigram model."""
    rng, types, width = np.random.default_rng([settings.seed, 1]), len(unigrams), settings.width

    def normal(rows: int) -> npt.NDArray[np.float32]:
        return rng.standard_normal((rows, width), np.float32) * np.float32(0.1)

    contexts = np.repeat(0.5 / np.sqrt(np.arange(1, settings.context + 1))[:, None], width, 1)
    if settings.advanced.context_matrices == "full":
        contexts = contexts[:, :, None] * np.eye(width)
    return LBLParameters(
        words=normal(types),
        contexts=np.ascontiguousarray(contexts, np.float32),
        targets=normal(0 if settings.advanced.tied else types),
        biases=np.log(unigrams)[:, None].astype(np.float32),
    )
