"""`LBL`: the log-bilinear model, which predicts a vector and scores each word by its likeness (Mnih 2010, section 3.3).

The exact likelihood multiplies the predicted vector with the vectors of all words; noise-contrastive estimation (Mnih
and Teh 2012) only with those of the batch and of some noise words that the batch shares. Objectives and gradients are
matrix products, by numpy or torch, in the parameters' dtype and on their device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.array_ops import library, merge_rows, to_device, to_numpy
from tacenda.arrays import Array, Arrays, Float32, named
from tacenda.corpus import Corpus
from tacenda.fitting import ArrayBatches, FitRun, StepResult
from tacenda.settings import Group, Settings, configured_by, group, option
from tacenda_lm import options
from tacenda_lm.distributions import rows_of_block
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.states import State
from tacenda_lm.stream_model import Predictor, StreamModel
from tacenda_lm.streams import Contexts, Stream, streams_of
from tacenda_lm.training import Gradient, StreamTrainer, draw_dropout_mask, smooth_counts, train

_ROWS_PER_BLOCK = 512  # predicted at once: fewer where the vocabulary is large
_INITIAL_ACCUMULATOR = 1e-6  # of AdaGrad
_MEMORY_ADVICE = "fewer batch_words, a smaller width, or a smaller vocabulary"
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
    noise_words: int = options.count(
        100,
        "words of noise in a step of noise-contrastive estimation, k, drawn from the unigram distribution",
        1 << 20,
    )


@dataclass(frozen=True, kw_only=True)
class LBLSettings(options.SeededSettings):
    """Settings of `LBL`."""

    width: int = options.width(100, "elements of a feature vector, D; 100 in the thesis")
    context: int = options.count(5, "preceding words that a prediction uses, n - 1", 1000)
    loss: Literal["softmax", "nce"] = option(
        "softmax", "the exact likelihood, or noise-contrastive estimation (Mnih and Teh 2012)"
    )
    dropout: float = options.dropout(
        0.2, "share of the predicted vector that training leaves out; the thesis has no dropout"
    )
    epochs: int = options.epochs(8)
    learning_rate: float = options.learning_rate(0.1, "AdaGrad", "a tenth")
    patience: int = options.patience(3)
    batch_words: int = options.count(512, "words of a step", 1 << 20)
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

    words: Float32[Array, "types width", options.BOUNDED_WEIGHTS]  # R
    # C, the last word's matrix first: (width, width), applied as R[w] @ C[i], or its diagonal (width,)
    contexts: Float32[Array, "context *matrix", options.BOUNDED_WEIGHTS]
    # q; no rows where vectors are tied
    targets: Float32[Array, "outputs width", options.BOUNDED_WEIGHTS]
    biases: Float32[Array, "types 1", options.BOUNDED_WEIGHTS]  # b

    @property
    def outputs(self) -> Array:
        """The vectors q of the words to predict, (types, width)."""
        return self.targets if len(self.targets) else self.words


def _look_up_words(p: LBLParameters, batch: Contexts) -> Array:
    """Return R of the context words (tokens, context, width), zero at positions before the text begins."""
    x = p.words[batch.words]
    return x * library(x).asarray(batch.present[:, :, None], dtype=x.dtype)


def predict(p: LBLParameters, batch: Contexts) -> Array:
    """Return the predicted vectors r (tokens, width), eq 3.16."""
    x = _look_up_words(p, batch)
    if p.contexts.ndim == 2:
        return library(x).einsum("tnd,nd->td", x, p.contexts)
    n, width, _ = p.contexts.shape
    return x.reshape(-1, n * width) @ p.contexts.reshape(-1, width)


def score(p: LBLParameters, r: Array) -> Array:
    """Return natural log-probabilities of every word (tokens, types), eq 3.17."""
    xp = library(r)
    s = r @ p.outputs.T
    s += p.biases[:, 0]
    # the largest score becomes 0, so that exp cannot overflow
    s -= xp.amax(s, axis=1, keepdims=True)
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
    # the derivative with respect to the scores, P - 1 for the target, overwrites the scores to save memory
    d_score = xp.exp(log_probs, out=log_probs)
    d_score[rows, batch.targets] -= 1
    d_q = d_score.T @ r
    d_b = d_score.sum(axis=0)[:, None]
    d_r = d_score @ p.outputs
    if keep is not None:
        d_r *= keep
    return loss, _backpropagate(p, batch, d_r, None, d_q, d_b)


def nce(
    p: LBLParameters, batch: Contexts, noise: Array, log_noise: Array, keep: Array | None = None
) -> tuple[Array, dict[str, Gradient]]:
    """Return the summed loss of telling the targets of a batch from words of noise, and its gradients.

        -log sigma(d(w)) - sum_j log sigma(-d(x_j)),    d(w) = r . q_w + b_w - log(k P_noise(w))

    The words of ``noise`` x (k,) were drawn from P_noise; ``log_noise`` (types,) are its natural logarithms.
    The predicted vectors are multiplied by ``keep`` (tokens, width): dropout.
    """
    r = predict(p, batch)
    if keep is not None:
        r = r * keep
    xp = library(r)
    offset = p.biases[:, 0] - log_noise - xp.log(xp.asarray(len(noise), dtype=p.words.dtype))
    q = p.outputs
    target_logits = xp.einsum("td,td->t", r, q[batch.targets]) + offset[batch.targets]
    noise_logits = r @ q[noise].T + offset[noise]
    target_losses, d_target = _softplus(-target_logits)
    noise_losses, d_noise = _softplus(noise_logits)
    loss = target_losses.sum(dtype=xp.float64) + noise_losses.sum(dtype=xp.float64)
    d_r = d_noise @ q[noise] - d_target[:, None] * q[batch.targets]
    d_q = xp.concatenate([-d_target[:, None] * r, d_noise.T @ r])
    d_b = xp.concatenate([-d_target, d_noise.sum(axis=0)])[:, None]
    types, (d_q, d_b) = merge_rows(xp.concatenate([batch.targets, noise]), d_q, d_b)
    if keep is not None:
        d_r *= keep
    return loss, _backpropagate(p, batch, d_r, types, d_q, d_b)


def _softplus(x: Array) -> tuple[Array, Array]:
    """Return log(1 + exp(x)), which is -log sigma(-x), and its derivative sigma(x); no finite x overflows."""
    xp = library(x)
    softplus = xp.logaddexp(xp.zeros_like(x), x)
    return softplus, xp.exp(x - softplus)


def _backpropagate(
    p: LBLParameters, batch: Contexts, d_r: Array, types: Array | None, d_q: Array, d_b: Array
) -> dict[str, Gradient]:
    """Return the gradients of all parameters.

    ``d_r`` (tokens, width) are the gradients of the predicted vectors; ``d_q`` (rows, width) and ``d_b`` (rows, 1)
    those of the rows ``types`` (rows,) of q and b, each type once, or of all types where it is None.
    """
    x = _look_up_words(p, batch)
    xp = library(x)
    if p.contexts.ndim == 2:
        d_c = xp.einsum("tnd,td->nd", x, d_r)
        d_x = d_r[:, None] * p.contexts
    else:
        flat = p.contexts.reshape(-1, p.contexts.shape[2])
        d_c = (x.reshape(-1, len(flat)).T @ d_r).reshape(p.contexts.shape)
        d_x = (d_r @ flat.T).reshape(x.shape)
    words, (d_words,) = merge_rows(batch.words[batch.present], d_x[batch.present])
    gradients: dict[str, Gradient] = {"contexts": (None, d_c), "biases": (types, d_b)}
    if len(p.targets):
        return {**gradients, "words": (words, d_words), "targets": (types, d_q)}
    # tied vectors: q is R, so its gradient and that of the context words are added
    if types is None:
        d_q[words] += d_words
        return {**gradients, "words": (None, d_q)}
    rows, (d_rows,) = merge_rows(xp.concatenate([words, types]), xp.concatenate([d_words, d_q]))
    return {**gradients, "words": (rows, d_rows)}


# -- the model ---------------------------------------------------------------------------------------


class LBLPredictor(Predictor):
    """A fitted LBL on the device of its parameters; a state is a tuple of the last words, oldest first."""

    parameters: Annotated[LBLParameters, named("")]
    device: str = "cpu"

    @property
    def n(self) -> int:
        """The number of words that a prediction depends on."""
        return len(self.parameters.contexts)

    def start(self) -> State:
        return State((self.boundary,))

    def after(self, state: State, word: int) -> State:
        return State((*state.words(self.n, self.n_types), word)[-self.n :])

    def vectors(self, states: Sequence[State]) -> Array:
        windows = [state.words(self.n, self.n_types) for state in states]
        return self._predict(Contexts.of_windows(windows, self.n))

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[Array, Ids, State | None]]:
        ids = stream.ids
        if state is None:
            positions = np.flatnonzero(~stream.firsts)
        else:
            # the window of the state is read again before the ids, in one sequence with them
            window = state.words(self.n, self.n_types)
            stream = Stream.following(ids, window)
            ids, positions = stream.ids, np.arange(len(window), len(stream.ids))
        rows = min(_ROWS_PER_BLOCK, rows_of_block(self.n_types))
        for i in range(0, len(positions), rows):
            batch = Contexts.at(stream, positions[i : i + rows], self.n)
            after = None
            if state is not None:
                end = int(positions[i : i + rows][-1]) + 1
                after = State(tuple(ids[max(0, end - self.n) : end].tolist()))
            yield self._predict(batch), batch.targets.astype(np.int32), after

    def _predict(self, batch: Contexts) -> Array:
        there = (to_device(each, self.device) for each in batch)
        return predict(self.parameters, Contexts(*there))

    def rows(self, vectors: Array) -> npt.NDArray[np.float32]:
        return np.asarray(to_numpy(score(self.parameters, vectors)), np.float32)

    def pick(self, vectors: Array, words: Ids) -> Float64:
        rows = to_device(np.arange(len(words)), self.device)
        columns = to_device(words.astype(np.int64), self.device)
        return np.asarray(to_numpy(score(self.parameters, vectors)[rows, columns]), np.float64)


class LBL(StreamModel):
    """A log-bilinear language model.

        r = sum_i C_i r_{w_i},    P(w | context) = exp(r . q_w + b_w) / sum_j exp(r . q_j + b_j)

    (Mnih 2010, equations 3.16 and 3.17.) Where vectors are ``tied``, q_w is r_w itself. The models of the thesis have
    ``width=100``, full matrices and no dropout.
    """

    name: ClassVar[str] = "lbl"
    settings: LBLSettings
    learned_class = LBLPredictor

    @configured_by(LBLSettings)
    def __init__(self, settings: LBLSettings) -> None:
        super().__init__(settings)

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        settings = self.settings
        device = devices.resolve(settings, _OPERATIONS)
        needed = _estimate_bytes(settings, len(corpus.vocabulary))
        devices.check_memory(needed, device, settings, _MEMORY_ADVICE)
        texts = streams_of(corpus, valid, across=settings.across_sentences)
        with devices.out_of_memory(settings, _MEMORY_ADVICE):
            trainer = LBLTrainer(settings, corpus.type_counts, *texts, device)
            positions = np.flatnonzero(~trainer.text.firsts)
            source = ArrayBatches(positions, batch_size=settings.batch_words, seed=settings.seed)
            history = train(trainer, source, fitting)
        self._vocabulary = corpus.vocabulary
        self.learned = LBLPredictor(trainer.current.to("cpu"), self._vocabulary.boundary_id)
        self.fitted_on = {"training": history.as_dict()}

    def _sizes(self) -> dict[str, Any]:
        width, advanced = self.settings.width, self.settings.advanced
        matrix = (width,) if advanced.context_matrices == "diagonal" else (width, width)
        outputs = 0 if advanced.tied else len(self.vocabulary)
        return {**super()._sizes(), "*matrix": matrix, "outputs": outputs}


def _estimate_bytes(settings: LBLSettings, types: int) -> int:
    """Estimate the bytes of a fit: float32 parameters, their gradients and AdaGrad's sums, and a batch."""
    n, width = settings.context, settings.width
    matrix = width if settings.advanced.context_matrices == "diagonal" else width * width
    parameters = types * (width + 2) * (1 if settings.advanced.tied else 2) + n * matrix
    scored = types if settings.loss == "softmax" else settings.advanced.noise_words
    batch = settings.batch_words * (2 * scored + (4 * n + 4) * width)
    return 4 * (3 * parameters + batch)


class LBLTrainer(StreamTrainer):
    """An LBL under training, from small random vectors; batches are arrays of positions.

    ``counts`` (types,), how often each type occurs in the training text, give the first biases and the distribution
    of the noise.
    """

    def __init__(
        self,
        settings: LBLSettings,
        counts: npt.NDArray[np.integer],
        text: Stream,
        valid: Stream | None,
        device: str = "cpu",
    ) -> None:
        noise = smooth_counts(counts)
        self.current = _draw_parameters(settings, noise).to(device)
        tables = dict(self.current.items())
        accumulators = dict.fromkeys(tables, _INITIAL_ACCUMULATOR)
        super().__init__(settings, tables, text, valid, accumulators=accumulators, device=device)
        self._cumulative = np.cumsum(noise)
        self._log_noise = to_device(np.log(noise).astype(np.float32), device)

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        (positions,) = batch
        settings, device, rng, keep = self.settings, self.device, self.draw(), None
        before = Contexts.at(self.text, positions, settings.context)
        contexts = Contexts(*(to_device(array, device) for array in before))
        if settings.dropout:
            shape = len(positions), settings.width
            keep = to_device(draw_dropout_mask(shape, settings.dropout, rng), device)
        if settings.loss == "softmax":
            loss, gradients = softmax(self.current, contexts, keep)
        else:
            # drawn by inverting the distribution function, once for the whole batch: sharing the noise turns the
            # scoring into two matrix products
            uniform = rng.random(settings.advanced.noise_words) * self._cumulative[-1]
            noise = np.searchsorted(self._cumulative, uniform, side="right")
            noise = to_device(np.minimum(noise, len(self._cumulative) - 1), device)
            loss, gradients = nce(self.current, contexts, noise, self._log_noise, keep)
        for name, (rows, gradient) in gradients.items():
            self.move(name, rows, gradient, learning_rate)
        return StepResult(loss, len(positions))

    def predictor(self) -> LBLPredictor:
        return LBLPredictor(self.current, self.boundary, self.device)


def _draw_parameters(settings: LBLSettings, unigrams: npt.NDArray[np.float64]) -> LBLParameters:
    """Draw small vectors. C_i is 1 / (2 sqrt(i)) times the identity; the biases alone give the unigrams (types,)."""
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
