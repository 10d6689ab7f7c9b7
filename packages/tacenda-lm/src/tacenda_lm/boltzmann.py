"""`FRBM` and `TemporalFRBM`: factored restricted Boltzmann machines of words (Mnih 2010, sections 3.1 and 3.2).

    E(w_n, h, w_1:n-1) = - sum_i v_i^T R W_i h - b_h^T h - b_v^T v_n                                      (eq 3.2)

Given everything else, hidden unit j is on with the probability sigma(a_wj + b_tj), where

    a_w = R_w W_n (what it gets from the next word),    b_t = sum_i<n R_{w_i} W_i + b_h + A p_{t-1}    (eqs 3.13, 3.14)

is what it gets from the context; only the temporal model has A p_{t-1}, the input from the hidden units of the word
before. With the hidden units summed out (eq 3.5),

    log P(w | context) = b_v_w + sum_j log(1 + exp(a_wj + b_tj)) - log Z_t.

Learning follows the gradient of the log-likelihood, or contrastive divergence:

    d log P(w_n | context) / d theta = E_D[d(-E)/d theta] - E_M[d(-E)/d theta]                            (eq 3.7)

E_D is over the hidden units given the observed word; E_M over words and hidden units under the model. E_M is estimated
with a `Negative`, words drawn from the prediction or reached by a Markov chain, or by mean field with the probabilities
of all words. Given the words, hidden units are always summed over, never drawn.

For one context, with N_w words, N_f features and N_h hidden units, an exact draw costs 2 N_w N_h multiplications and
additions, a step of Gibbs sampling 2 N_w N_f (6 N_w N_f by mean field), and both need N_w exponentials. The products
are computed for a few contexts at a time, so that the probabilities of all words stay in the cache of the processor.
All arrays have the dtype of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Float32
from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.fitting import ArrayBatches, FitRun, StepResult
from tacenda.kernels.boltzmann import PackedInputs, hidden_sums, pack_inputs
from tacenda.settings import configured_by, option
from tacenda_lm import options
from tacenda_lm.sequences import Float64, Ids, side_by_side
from tacenda_lm.states import State, log_softmax, vector_of, window_of
from tacenda_lm.steps import sum_rows
from tacenda_lm.streams import Contexts, Pieces, Predictor, Stream, StreamModel, streams_of
from tacenda_lm.training import StreamTrainer, train

Floats = npt.NDArray[np.floating[Any]]
_Single = npt.NDArray[np.float32]
_Ints = npt.NDArray[np.integer[Any]]

_ROWS_PER_TILE = 64  # predictions at a time: the probabilities of all words stay in cache
_TOKENS_PER_BLOCK = 4096  # whose hidden units are in memory at a time
_CONTEXTS_PER_PRODUCT = 512  # each product of matrices reads the vectors of all words once
_WORDS_PER_SUM = 64  # words whose probabilities are added before any single one is compared
_INITIAL_SUM = 1e-6  # of squares, in AdaGrad
_FEATURE_DECAY = 1e-4  # weight decay of the feature vectors of the words of a step
_WEIGHT_DECAY = 1e-5  # of all other weights except biases
_N_DRAWN = 10  # words drawn from the prediction for every context
# per epoch; with fewer, the learning rate rises at once, which spoils a fit to a small text
_MIN_STEPS = 16


# -- options -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FRBMSettings(options.SeededSettings):
    """Settings of `FRBM`."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({"advanced": ...})

    features: int = options.width(
        100, "elements of a word's feature vector, N_f; 100 in the thesis"
    )
    hidden: int = options.width(
        100, "binary hidden units, N_h; 1000 in the thesis; a prediction costs this times the words"
    )
    context: int = options.count(
        2, "preceding words that a prediction rests on, n - 1; 2 in the thesis", 1000
    )
    learning: Literal["likelihood", "divergence", "mean_field"] = option(
        "likelihood",
        '"likelihood": the gradient of the log-likelihood, with words drawn from the exact prediction instead of its '
        'expectation; "divergence": contrastive divergence, steps of Gibbs sampling from the word of the text; '
        '"mean_field": the same with the probabilities of all words instead of a drawn one; the thesis has it for '
        "the FRBM, and contrastive divergence for the temporal FRBM",
    )
    gibbs_steps: int = options.count(
        1, "steps of Gibbs sampling in contrastive divergence, k of CD-k; 1 in the thesis", 1000
    )
    epochs: int = options.epochs(10)
    learning_rate: float = options.learning_rate(0.2, "AdaGrad", "a tenth; not given in the thesis")
    patience: int = options.patience(3)
    batch_words: int = options.count(
        1000,
        "words of a step, at most a sixteenth of the text; 1000 in the thesis",
        1 << 20,
    )
    across_sentences: bool = options.across_sentences(
        ", which are words like others; true in the thesis"
    )

    def idle(self) -> Mapping[str, str]:
        reason = 'with learning="likelihood"'
        return {"gibbs_steps": reason} if self.learning == "likelihood" else {}

    @classmethod
    def without_retired(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return `Settings.without_retired`, with the retired option ``advanced.visible`` as ``learning``."""
        current = super().without_retired(values)
        if values.get("advanced", {}).get("visible") == "mean_field":
            current["learning"] = "mean_field"
        return current


@dataclass(frozen=True, kw_only=True)
class TemporalFRBMSettings(FRBMSettings):
    """Settings of `TemporalFRBM`."""

    frbm_epochs: int = option(
        5,
        "maximum passes over the text for the `FRBM` with whose parameters training begins; 0 begins with random ones",
        at_least=0,
    )
    piece_words: int = options.count(
        10,
        "consecutive words of a step in each of batch_words / piece_words parts of the text, or in fewer parts if they "
        'had less than 16 pieces; 1 in the thesis; with learning="likelihood", the gradient goes back to the beginning '
        "of the piece",
        1 << 20,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.piece_words > self.batch_words:
            self.refuse("piece_words", f"at most batch_words, {self.batch_words}")


# -- the model ---------------------------------------------------------------------------------------


class BoltzmannParameters(Arrays):
    """The learned arrays, all of one dtype."""

    words: Float32[Array, "types features", options.BOUNDED_WEIGHTS]  # R
    # W_i, the matrix of the last word first
    contexts: Float32[Array, "context features hidden", options.BOUNDED_WEIGHTS]
    outputs: Float32[Array, "features hidden", options.BOUNDED_WEIGHTS]  # W_n
    # A; no rows in the plain model
    transitions: Float32[Array, "remembered hidden", options.BOUNDED_WEIGHTS]
    hidden_biases: Float32[Array, "hidden 1", options.BOUNDED_WEIGHTS]  # b_h
    biases: Float32[Array, "types 1", options.BOUNDED_WEIGHTS]  # b_v

    @property
    def hidden(self) -> int:
        """The number of hidden units."""
        return len(self.hidden_biases)


def sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), computed by tanh, which does not overflow."""
    y: Floats = 0.5 * np.tanh(0.5 * x) + 0.5
    return y


def look_up_features(p: BoltzmannParameters, batch: Contexts) -> Floats:
    """Return the rows of R of the context words (tokens, context, features), zero for missing words."""
    features: Floats = p.words[batch.words]
    if not batch.present.all():
        features *= batch.present[:, :, None]
    return features


def compute_inputs(p: BoltzmannParameters, features: Floats, earlier: Floats | None) -> Floats:
    """Return b_t (tokens, hidden), given the `look_up_features` of the contexts.

    ``earlier`` is p_{t-1} (tokens, hidden), and None in the plain model.
    """
    # the sum over i is one product: the rows of all context words side by side, and all W_i one under the other
    flat = features.reshape(len(features), features.shape[1] * features.shape[2])
    inputs: Floats = flat @ p.contexts.reshape(flat.shape[1], -1)
    inputs += p.hidden_biases[:, 0]
    if earlier is not None:
        inputs += earlier @ p.transitions.T
    return inputs


def pack_word_inputs(p: BoltzmannParameters) -> PackedInputs:
    """Return a (types, hidden) packed for `score_unnormalized`; this takes 2 N_w N_f N_h operations."""
    return pack_inputs(p.words @ p.outputs)


def score_unnormalized(words: PackedInputs, biases: Floats, inputs: Floats) -> Floats:
    """Return log P(w | context) + log Z_t in a new array (tokens, types); ``biases`` are b_v (types, 1)."""
    scores: Floats = hidden_sums(words, inputs)
    scores += biases[:, 0]
    return scores


class BoltzmannPredictor(Predictor):
    """A fitted model.

    A state holds the last words, oldest first, and, in the temporal model, the probabilities of the hidden units at
    the last word, as bytes of float32 (hidden,). The temporal model takes them as fixed (Mnih 2010, 3.2.1):

        p_t = sigma(a_{w_t} + b_t),    b_t = sum_i R_{w_t-i} W_i + b_h + A p_{t-1},    p = 0 at the beginning  (eq 3.14)

    This recurrence needs no prediction, so it is run first, over some thousand words at a time with all sequences in
    step; many words are then predicted in one call of `hidden_sums`.
    """

    def __init__(self, parameters: BoltzmannParameters, boundary: int) -> None:
        self.parameters, self.boundary = parameters, boundary
        self.n_types, self.n = len(parameters.words), len(parameters.contexts)
        self.temporal = len(parameters.transitions) > 0
        self._packed = pack_word_inputs(parameters)

    def start(self) -> State:
        hidden = np.zeros(self.parameters.hidden if self.temporal else 0, np.float32)
        return State(((self.boundary,), hidden.tobytes()))

    def after(self, state: State, word: int) -> State:
        words, data = self._unpack(state)
        if self.temporal:
            p = self.parameters
            hidden = sigmoid(self.vectors([state])[0] + p.words[word] @ p.outputs)
            data = hidden.astype(np.float32).tobytes()
        return State(((*words, word)[-self.n :], data))

    def _unpack(self, state: State) -> tuple[tuple[int, ...], bytes]:
        """Return the last words, and the bytes of p_t. Raises DataError for a state of another model."""
        words, data = state.parts(2)
        vector_of(data, np.float32, self.parameters.hidden if self.temporal else 0)
        return window_of(words, self.n, self.n_types), data

    def vectors(self, states: Sequence[State]) -> _Single:
        """Return b_t (states, hidden)."""
        parts = [self._unpack(state) for state in states]
        batch = Contexts.of_windows([window for window, _ in parts], self.n)
        earlier = None
        if self.temporal and parts:
            earlier = np.stack([np.frombuffer(data, np.float32) for _, data in parts])
        features = look_up_features(self.parameters, batch)
        return np.asarray(compute_inputs(self.parameters, features, earlier), np.float32)

    def rows(self, vectors: _Single) -> _Single:
        rows = np.empty((len(vectors), self.n_types), np.float32)
        for i in range(0, len(vectors), _ROWS_PER_TILE):
            tile = slice(i, i + _ROWS_PER_TILE)
            rows[tile] = log_softmax(self._score(vectors[tile]))
        return rows

    def pick(self, vectors: _Single, words: Ids) -> Float64:
        log_probs = np.empty(len(words), np.float64)
        for i in range(0, len(words), _ROWS_PER_TILE):
            tile = slice(i, i + _ROWS_PER_TILE)
            log_probs[tile] = _normalize(self._score(vectors[tile]), words[tile])
        return log_probs

    def _score(self, inputs: _Single) -> _Single:
        return np.asarray(
            score_unnormalized(self._packed, self.parameters.biases, inputs), np.float32
        )

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[_Single, Ids, State | None]]:
        first, hidden, p = 0, None, self.parameters
        if state is not None:
            window, data = self._unpack(state)
            first, hidden = len(window), np.frombuffer(data, np.float32)
            stream = Stream.following(stream.ids, window)
        firsts = stream.firsts
        for begin in range(first, len(stream.ids), _TOKENS_PER_BLOCK):
            end = min(begin + _TOKENS_PER_BLOCK, len(stream.ids))
            batch = Contexts.at(stream, np.arange(begin, end), self.n)
            inputs = compute_inputs(p, look_up_features(p, batch), None)
            inputs, opening = np.asarray(inputs, np.float32), firsts[begin:end]
            data = b""
            if self.temporal:
                hidden = self._filter(inputs, batch.targets, opening, hidden)
                data = hidden.tobytes()
            last = tuple(stream.ids[max(0, end - self.n) : end].tolist())
            after = None if state is None else State((last, data))
            yield inputs[~opening], stream.ids[begin:end][~opening], after

    def _filter(
        self,
        inputs: _Single,
        words: npt.NDArray[np.integer[Any]],
        opening: npt.NDArray[np.bool_],
        hidden: _Single | None,
    ) -> _Single:
        """Add A p_{t-1} to ``inputs`` (tokens, hidden), in place, and return p_t of the last word.

        A sequence begins at every position that is ``opening``, where p_t is zero. The first sequence continues from
        ``hidden``, if it is not None and the first position is not opening.
        """
        p = self.parameters
        filtered = p.words[words] @ p.outputs  # a_w, which becomes p_t
        transposed = np.ascontiguousarray(p.transitions.T)
        filtered[opening] = 0
        if not opening[0]:
            if hidden is not None:
                inputs[0] += hidden @ transposed
            filtered[0] = sigmoid(inputs[0] + filtered[0])
        begins = np.array([0, *np.flatnonzero(opening[1:]) + 1])
        steps = side_by_side(begins, np.diff(begins, append=len(inputs)))
        next(steps)  # the first words were read above
        for _, places in steps:
            rows: Any = places
            before: Any = places - 1
            if len(places) == 1:  # a slice is a view: one long sequence is read word by word
                end = int(places[0]) + 1
                rows, before = slice(end - 1, end), slice(end - 2, end - 1)
            inputs[rows] += filtered[before] @ transposed
            filtered[rows] = sigmoid(inputs[rows] + filtered[rows])
        return np.asarray(filtered[-1].copy(), np.float32)


# -- the words that training makes less likely -------------------------------------------------------


class Negative(NamedTuple):
    """Words with weights for every context, and the loss of the observed word."""

    words: _Ints  # (tokens, drawn)
    weights: Floats  # (tokens, drawn), which sum to one for each context
    loss: float


class Contrast(NamedTuple):
    """E_D - E_M of the statistics of the next word and the hidden units: the direction that raises the likelihood."""

    inputs: Floats  # of b_t (tokens, hidden)
    words: Floats  # of R as the next word (types, features)
    outputs: Floats  # of W_n (features, hidden)
    biases: Floats  # of b_v (types, 1)


def draw(weights: Floats, points: Floats) -> npt.NDArray[np.int64]:
    """Draw from unnormalized probabilities (rows, types), some positive in each row, by inversion.

    ``points`` (rows, drawn) are uniform on 0 .. 1; the ids drawn (rows, drawn) are from 0 to types - 1.
    """
    rows, types = weights.shape
    # the sums of blocks of words tell the block of a point; only the words of that block are compared
    whole = types // _WORDS_PER_SUM * _WORDS_PER_SUM
    blocks = [weights[:, :whole].reshape(rows, -1, _WORDS_PER_SUM).sum(axis=2)]
    if whole < types:
        blocks.append(weights[:, whole:].sum(axis=1, keepdims=True))
    sums = np.cumsum(np.concatenate(blocks, axis=1), axis=1, dtype=np.float64)
    wanted = points * sums[:, -1:]
    # all rows in one ascending array: the sums of row r are between r and r + 1
    row = np.arange(rows)[:, None]
    ascending = sums / sums[:, -1:] + row
    block = np.searchsorted(ascending.ravel(), (points + row).ravel(), "right")
    block = np.clip(block.reshape(wanted.shape) - row * sums.shape[1], 0, sums.shape[1] - 1)
    wanted -= np.where(block, sums[row, block - 1], 0)
    places = block[:, :, None] * _WORDS_PER_SUM + np.arange(_WORDS_PER_SUM)
    inside = places < types
    chosen = weights[row[:, :, None], np.minimum(places, types - 1)] * inside
    place = (np.cumsum(chosen, axis=2, dtype=np.float64) <= wanted[:, :, None]).sum(axis=2)
    # rounding may put a point behind the last word of its block
    ids: npt.NDArray[np.int64] = block * _WORDS_PER_SUM + np.minimum(place, inside.sum(axis=2) - 1)
    return ids


def draw_by_prediction(
    p: BoltzmannParameters,
    words: PackedInputs,
    inputs: Floats,
    targets: _Ints,
    drawn: int,
    rng: np.random.Generator,
) -> Negative:
    """Draw words from the exact prediction, ``drawn`` for every context, at evenly spaced points after a random first.

    The expectation of any statistic over them is its expectation under the model, so learning follows the gradient of
    the log-likelihood. ``inputs`` are b_t (tokens, hidden).
    """
    # strata: each point is uniform, and together they vary less than as many independent ones
    points = (rng.random((len(inputs), 1)) + np.arange(drawn)) / drawn
    ids, loss = np.empty((len(inputs), drawn), np.int64), 0.0
    for i in range(0, len(inputs), _ROWS_PER_TILE):
        tile = slice(i, i + _ROWS_PER_TILE)
        scores = score_unnormalized(words, p.biases, inputs[tile])
        loss -= float(_normalize(scores, targets[tile]).sum())
        ids[tile] = draw(scores, points[tile])
    return Negative(ids, np.full(ids.shape, 1 / drawn, inputs.dtype), loss)


def draw_by_divergence(
    p: BoltzmannParameters, inputs: Floats, targets: _Ints, steps: int, rng: np.random.Generator
) -> Negative:
    """Draw one word for each context by ``steps`` of Gibbs sampling that begin at the observed word.

    The loss is that of this word given the first states of the hidden units.
    """
    now, loss = targets, 0.0
    for step in range(steps):
        hidden = sigmoid(p.words[now] @ p.outputs + inputs)
        features = _draw_states(hidden, rng) @ p.outputs.T
        points, now = rng.random((len(inputs), 1)), np.empty(len(inputs), np.int64)
        for block, chances, loss_of_block in _predict_given_hidden(p, features, targets):
            now[block] = draw(chances, points[block])[:, 0]
            loss += 0.0 if step else loss_of_block
    return Negative(now[:, None], np.ones((len(now), 1), inputs.dtype), loss)


def contrast_by_mean_field(
    p: BoltzmannParameters, inputs: Floats, targets: _Ints, steps: int, rng: np.random.Generator
) -> tuple[Contrast, float]:
    """Return the contrast after ``steps`` with the probabilities of all words instead of a drawn one (section 3.1.2).

    Return also the loss of `draw_by_divergence`. The hidden units are drawn in every step, and at the end summed over.
    """
    visible, loss = p.words[targets], 0.0
    present = sigmoid(visible @ p.outputs + inputs)
    words = sum_rows(targets, present @ p.outputs.T, len(p.words))
    biases = np.bincount(targets, minlength=len(p.words)).astype(np.float64)
    reached, hidden = np.empty_like(visible), present.copy()
    for step in range(steps):
        features = _draw_states(hidden, rng) @ p.outputs.T
        for block, chances, loss_of_block in _predict_given_hidden(p, features, targets):
            chances /= chances.sum(axis=1, keepdims=True)
            reached[block] = chances @ p.words
            hidden[block] = sigmoid(reached[block] @ p.outputs + inputs[block])
            loss += 0.0 if step else loss_of_block
            if step == steps - 1:
                words -= chances.T @ (hidden[block] @ p.outputs.T)
                biases -= chances.sum(axis=0)
    outputs = visible.T @ present - reached.T @ hidden
    return Contrast(present - hidden, words, outputs, biases.astype(p.words.dtype)[:, None]), loss


def _predict_given_hidden(
    p: BoltzmannParameters, features: Floats, targets: _Ints
) -> Iterator[tuple[slice, Floats, float]]:
    """Yield blocks of contexts, P(w | h, context) (eq 3.12) up to a factor, and the summed loss of their targets.

    ``features`` are W_n h (tokens, features). The next block overwrites the probabilities.
    """
    n, transposed = len(features), p.words.T
    buffer = np.empty((min(n, _CONTEXTS_PER_PRODUCT), len(p.words)), features.dtype)
    for i in range(0, n, _CONTEXTS_PER_PRODUCT):
        block = slice(i, min(i + _CONTEXTS_PER_PRODUCT, n))
        # a product of many contexts reads R once; a tile of few is normalized while it is in the cache
        scores = np.dot(features[block], transposed, out=buffer[: block.stop - i])
        loss = 0.0
        for j in range(0, len(scores), _ROWS_PER_TILE):
            tile = scores[j : j + _ROWS_PER_TILE]
            tile += p.biases[:, 0]
            loss -= float(_normalize(tile, targets[i + j : i + j + len(tile)]).sum())
        yield block, scores, loss


def _draw_states(on: Floats, rng: np.random.Generator) -> Floats:
    """Draw states of hidden units that are on with these probabilities (eq 3.13)."""
    states: Floats = (rng.random(on.shape, np.float32) < on).astype(on.dtype)
    return states


def _normalize(scores: Floats, targets: _Ints) -> Float64:
    """Turn scores into probabilities up to a factor, in place; return log-probabilities of the targets."""
    of_targets = scores[np.arange(len(scores)), targets].astype(np.float64)
    top = scores.max(axis=1, keepdims=True)
    scores -= top
    total = np.exp(scores, out=scores).sum(axis=1)
    return np.asarray(of_targets - top[:, 0] - np.log(total))


# -- gradients ---------------------------------------------------------------------------------------


def contrast(
    p: BoltzmannParameters, inputs: Floats, targets: _Ints, negative: Negative
) -> Contrast:
    """Return the contrast of the observed words, ``targets`` (tokens,), with negative words.

    ``inputs`` are b_t (tokens, hidden).
    """
    n, drawn = negative.words.shape
    weights = negative.weights.reshape(-1, 1)
    present = sigmoid(inputs + p.words[targets] @ p.outputs)
    absent = p.words[negative.words.ravel()] @ p.outputs
    absent += np.repeat(inputs, drawn, axis=0)
    absent = sigmoid(absent) * -weights
    difference = present + absent.reshape(n, drawn, p.hidden).sum(axis=1)
    rows = np.concatenate([present, absent])
    # sums by word first, so that the products have a row for each distinct word, not for each draw
    types, place = np.unique(np.concatenate([targets, negative.words.ravel()]), return_inverse=True)
    slopes = sum_rows(place, rows, len(types))  # of a_w
    counts = np.concatenate([np.ones(n, weights.dtype), -weights[:, 0]])
    words, biases = np.zeros_like(p.words), np.zeros_like(p.biases)
    words[types] = slopes @ p.outputs.T
    biases[types, 0] = np.bincount(place, counts, len(types))
    return Contrast(difference, words, p.words[types].T @ slopes, biases)


def compute_gradients(
    p: BoltzmannParameters,
    batch: Contexts,
    features: Floats,
    earlier: Floats | None,
    found: Contrast,
    inputs: Floats,
) -> dict[str, Floats]:
    """Return the gradients of the log-likelihood by all parameters, by name.

    Parameters
    ----------
    features
        The `look_up_features` of the batch.
    earlier
        p_{t-1} (tokens, hidden), a constant here; None in the plain model.
    inputs
        The gradient by b_t (tokens, hidden): ``found.inputs``, with the gradients that went back through time.
    """
    n, depth, width = features.shape
    flat = p.contexts.reshape(depth * width, -1)
    back = (inputs @ flat.T).reshape(n, depth, width)[batch.present]
    words = found.words + sum_rows(batch.words[batch.present], back, len(p.words))
    gradients = {
        "words": words,
        "contexts": (features.reshape(n, -1).T @ inputs).reshape(p.contexts.shape),
        "outputs": found.outputs,
        "hidden_biases": inputs.sum(axis=0)[:, None],
        "biases": found.biases,
    }
    if earlier is not None:
        gradients["transitions"] = inputs.T @ earlier  # eq 3.15
    return gradients


# -- training ----------------------------------------------------------------------------------------


class BoltzmannTrainer(StreamTrainer):
    """An FRBM under training, whose parameters are changed in place; batches are arrays of positions."""

    def __init__(
        self,
        settings: FRBMSettings,
        parameters: BoltzmannParameters,
        text: Stream,
        valid: Stream | None,
    ) -> None:
        tables = {name: table for name, table in parameters.items() if len(table)}
        super().__init__(
            settings, tables, text, valid, accumulators=dict.fromkeys(tables, _INITIAL_SUM)
        )
        self.current = parameters

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        (positions,) = batch
        now, read = self.current, Contexts.at(self.text, positions, self.settings.context)
        features = look_up_features(now, read)
        inputs = compute_inputs(now, features, None)
        found, loss = self.contrast(inputs, read.targets)
        self.climb(
            compute_gradients(now, read, features, None, found, found.inputs),
            len(inputs),
            learning_rate,
        )
        return StepResult(loss, len(positions))

    def contrast(
        self, inputs: Floats, targets: npt.NDArray[np.integer[Any]]
    ) -> tuple[Contrast, float]:
        """Return the contrast of ``settings.learning``, and the loss of the step.

        The loss is minus the summed log-likelihood; contrastive divergence does not compute it, and has minus the
        log-probability of the words given the first states of the hidden units instead.
        """
        now, rng, steps = self.current, self.draw(), self.settings.gibbs_steps
        if self.settings.learning == "likelihood":
            negative = draw_by_prediction(
                now, pack_word_inputs(now), inputs, targets, _N_DRAWN, rng
            )
        elif self.settings.learning == "divergence":
            negative = draw_by_divergence(now, inputs, targets, steps, rng)
        else:
            return contrast_by_mean_field(now, inputs, targets, steps, rng)
        return contrast(now, inputs, targets, negative), negative.loss

    def climb(self, found: dict[str, Floats], tokens: int, learning_rate: float) -> None:
        """Move all parameters along gradients summed over so many words, and shrink them.

        Weight decay adds -lambda w to the mean gradient of a word; of feature vectors only the step's words get it.
        """
        for name, gradient in found.items():
            slope = -gradient
            # vectors of words that the step did not read do not change: rare words would decay more than they learn
            if name == "words":
                touched = np.any(slope, axis=1, keepdims=True)
                slope += _FEATURE_DECAY * tokens * touched * self.tables[name]
            elif not name.endswith("biases"):
                slope += _WEIGHT_DECAY * tokens * self.tables[name]
            self.move(name, None, slope, learning_rate)

    def predictor(self) -> BoltzmannPredictor:
        return BoltzmannPredictor(self.current, self.boundary)


class TemporalTrainer(BoltzmannTrainer):
    """A temporal FRBM under training, in batches of `Pieces`.

    There are batch_words / piece_words parts, or fewer if these had less than 16 pieces. The probabilities of the
    hidden units at the ends of the pieces are carried to the next step, and belong to the state.
    """

    def __init__(
        self,
        settings: TemporalFRBMSettings,
        parameters: BoltzmannParameters,
        text: Stream,
        valid: Stream | None,
    ) -> None:
        super().__init__(settings, parameters, text, valid)
        n, piece = len(text.ids), settings.piece_words
        wanted = max(1, min(settings.batch_words // piece, n // (_MIN_STEPS * piece)))
        self.source = Pieces(text, -(-n // -(-n // wanted)), piece, piece)
        self._firsts = text.firsts
        shape = self.source.parts, parameters.hidden
        self.carried = self.rest["carried"] = np.zeros(shape, parameters.words.dtype)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Take one step on the summed loss of a piece of every part, read side by side."""
        now = self.current
        if batch[0] == 0:
            self.carried[:] = 0
        places = self.source.positions(batch)
        inside, places = places >= 0, np.maximum(places, 0)
        opening = self._firsts[places]
        read = Contexts.at(self.text, places.ravel(), self.settings.context)
        features = look_up_features(now, read)
        shape = (*places.shape, now.hidden)
        inputs = compute_inputs(now, features, None).reshape(shape)  # b_t
        hidden = (now.words[read.targets] @ now.outputs).reshape(shape)  # a_w, which becomes p_t
        before = np.empty_like(hidden)  # p_{t-1}
        for t in range(len(places)):  # the filter of eq 3.14
            before[t] = hidden[t - 1] if t else self.carried
            inputs[t] += before[t] @ now.transitions.T
            hidden[t] = sigmoid(inputs[t] + hidden[t])
            hidden[t][opening[t]] = 0
        self.carried[:] = hidden[-1]
        counted = inside & ~opening
        found, loss = self.contrast(inputs[counted], read.targets[counted.ravel()])
        slopes = np.zeros_like(inputs)
        slopes[counted] = found.inputs
        if self.settings.learning == "likelihood" and len(places) > 1:
            # the gradient by a_w of the observed words, which act on later words of the piece through the hidden units
            from_later, back = np.zeros_like(slopes), np.zeros_like(slopes[0])
            for t in reversed(range(len(slopes))):
                p = hidden[t]
                # zero where a sequence begins, because p is 0 there
                from_later[t] = back * p * (1 - p)
                slopes[t] += from_later[t]
                back = slopes[t] @ now.transitions
            from_later = from_later.reshape(-1, now.hidden)
            sums = sum_rows(read.targets, from_later @ now.outputs.T, len(now.words))
            found = found._replace(
                words=found.words + sums,
                outputs=found.outputs + now.words[read.targets].T @ from_later,
            )
        before, slopes = before.reshape(-1, now.hidden), slopes.reshape(-1, now.hidden)
        gradients = compute_gradients(now, read, features, before, found, slopes)
        self.climb(gradients, int(counted.sum()), learning_rate)
        return StepResult(loss, int(counted.sum()))


def draw_parameters(settings: FRBMSettings, corpus: Corpus) -> BoltzmannParameters:
    """Draw small vectors and weights; the biases of words make a unigram model."""
    counts = corpus.type_counts
    rng = np.random.default_rng([settings.seed, 1])
    features, hidden = settings.features, settings.hidden

    def draw_normal(*shape: int) -> npt.NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32)

    weight = np.float32(1 / np.sqrt(hidden))
    smoothed = counts + 0.1  # so that the bias of a word that the text does not have is not -inf
    return BoltzmannParameters(
        words=draw_normal(len(counts), features) * np.float32(0.1),
        contexts=draw_normal(settings.context, features, hidden) * weight,
        outputs=draw_normal(features, hidden) * weight,
        transitions=np.zeros((0, hidden), np.float32),
        hidden_biases=np.zeros((hidden, 1), np.float32),
        biases=np.log(smoothed / smoothed.sum())[:, None].astype(np.float32),
    )


# -- the models --------------------------------------------------------------------------------------


class FRBM(StreamModel):
    """A factored restricted Boltzmann machine language model.

        P(w | context) = exp(b_w) prod_j (1 + exp(a_wj + b_j)) / Z,    a_w = R_w W_n,    b = sum_i R_{w_i} W_i + b_h

    (Mnih 2010, equation 3.5). The binary hidden units, which are connected to the feature vectors R of the next word
    and of the words before it, are summed out exactly. A prediction costs N_w N_h fused multiply-adds and as many
    products for N_w words and N_h hidden units. A text of fewer than 16 ``batch_words`` words is read in smaller steps,
    at least 16 an epoch. The model of the thesis has ``hidden=1000, learning="mean_field"``.
    """

    name: ClassVar[str] = "frbm"
    settings: FRBMSettings
    _predictor: BoltzmannPredictor | None = None

    @configured_by(FRBMSettings)
    def __init__(self, settings: FRBMSettings) -> None:
        super().__init__(settings)

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        settings = self.settings
        texts = streams_of(corpus, valid, across=settings.across_sentences)
        trainer = BoltzmannTrainer(settings, draw_parameters(settings, corpus), *texts)
        positions = np.flatnonzero(~trainer.text.firsts)
        batch = max(1, min(settings.batch_words, len(positions) // _MIN_STEPS))
        source = ArrayBatches(positions, batch_size=batch, seed=settings.seed)
        history = train(trainer, source, run)
        self._vocabulary, self._predictor = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

    def _rebuild(self, arrays: dict[str, npt.NDArray[Any]]) -> BoltzmannPredictor:
        parameters = BoltzmannParameters.from_arrays(
            arrays,
            types=len(self.vocabulary),
            features=self.settings.features,
            context=self.settings.context,
            hidden=self.settings.hidden,
            remembered=self.settings.hidden if isinstance(self, TemporalFRBM) else 0,
        )
        return BoltzmannPredictor(parameters, self.vocabulary.boundary_id)


class TemporalFRBM(FRBM):
    """A temporal factored restricted Boltzmann machine language model.

    An `FRBM` whose hidden units also get A p_{t-1} from the probabilities of the hidden units at the word before (Mnih
    2010, equation 3.14), so that a prediction depends on all words before, at the cost of N_h^2 more multiplications
    per word. Training begins with the parameters of an `FRBM` and with A = 0, as in the thesis, whose model has
    ``hidden=1000, learning="divergence", piece_words=1``. A text of fewer than 16 ``batch_words`` words is cut into
    fewer parts, and so read in smaller steps.

    With ``perplexity(text, context="stream")``, the hidden units carry over from each sentence to the next.
    """

    name: ClassVar[str] = "temporal_frbm"
    settings: TemporalFRBMSettings
    _begin: FRBM | None = None

    @configured_by(TemporalFRBMSettings)
    def __init__(self, settings: TemporalFRBMSettings) -> None:
        StreamModel.__init__(self, settings)  # FRBM takes options

    @classmethod
    def starting_from(cls, frbm: FRBM, **options: Any) -> Self:
        """Return an unfitted model whose training begins with the parameters of a fitted `FRBM`, and with A = 0.

        The text to fit must have the vocabulary of ``frbm``. Options that an `FRBM` has too default to their values in
        ``frbm``; ``features``, ``hidden``, ``context`` and ``across_sentences`` must have these values.

        Raises
        ------
        ConfigurationError
            ``frbm`` is not an `FRBM`, one of these options differs, or an option is unknown, out of range or without
            effect.
        NotFittedError
            ``frbm`` is not fitted.
        """
        if not isinstance(frbm, FRBM) or isinstance(frbm, TemporalFRBM):
            raise ConfigurationError(
                f"TemporalFRBM: training begins with a fitted FRBM, not with {type(frbm).__name__}: give "
                "starting_from an FRBM, or leave starting_from out and let fit train one"
            )
        _ = frbm.parameters  # raises NotFittedError
        theirs: FRBMSettings = frbm.settings
        shared = {one.name: getattr(theirs, one.name) for one in theirs.options()}
        for name in ("features", "hidden", "context", "across_sentences"):
            if options.get(name, shared[name]) != shared[name]:
                raise ConfigurationError(
                    f"TemporalFRBM: {name} is {shared[name]} in the FRBM that training begins with, "
                    f"and cannot be {options[name]}: leave it out"
                )
        if options.get("frbm_epochs"):
            raise ConfigurationError(
                "TemporalFRBM: frbm_epochs has no effect where an FRBM is given; leave it out"
            )
        if options.get("learning") == "likelihood":
            del shared["gibbs_steps"]  # an option of contrastive divergence only
        model = cls.from_settings({**shared, "frbm_epochs": 0, **options})
        model._begin = frbm
        return model

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        settings = self.settings
        facts: dict[str, Any] = {}
        if self._begin is not None:
            self._begin.vocabulary.require_same(corpus.vocabulary, "the text of a TemporalFRBM")
            begin = self._begin.parameters
        elif settings.frbm_epochs:
            shared = {one.name: getattr(settings, one.name) for one in FRBMSettings.options()}
            plain = FRBM.from_settings({**shared, "epochs": settings.frbm_epochs})
            plain._fit(corpus, valid, replace(run.stage("frbm"), description="fitting the FRBM"))
            begin, facts["frbm"] = plain.parameters, plain.fitted_on["training"]
            run = run.stage(first=False)
        else:
            begin = draw_parameters(settings, corpus)
        texts = streams_of(corpus, valid, across=settings.across_sentences)
        zeros = np.zeros((begin.hidden, begin.hidden), np.float32)
        trainer = TemporalTrainer(settings, replace(begin.copy(), transitions=zeros), *texts)
        identity = {"begin": begin.fingerprint()}
        history = train(trainer, trainer.source, run.stage("temporal"), identity=identity)
        self._vocabulary, self._predictor = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {**facts, "training": history.as_dict()}
