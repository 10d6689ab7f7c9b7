"""`RecurrentLM`: a simple recurrent network, started at random or from an LDS (Belanger and Kakade 2015, section 6).

    h_t = sigma(A h_{t-1} + B w_{t-1} + a) - 1/2,   p(w_t | h_t) = SoftMax(C h_t + b),   h_0 = 0

(Equations 18 and 19, after Mikolov 2012.) sigma is the logistic function, element by element. The paper has neither
biases nor the 1/2, for which the biases compensate: both networks can compute the same functions. Learning is much
faster with a state around zero, because otherwise every step on C or A moves all scores or states by their sum.

Nearly all the time of training goes into three products with C, for the output, its gradient and the gradient of C: six
operations per token, word and element of the state. Each is one call of BLAS for all the words of a step. Gradients are
written out, because autograd, which holds the scores of all words more often, takes 1.1 to 1.3 times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda import artifact
from tacenda.arrays import Array, Arrays, Float, Float32, take
from tacenda.artifact.arrays import restore
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.fitting import Callback, FitLoop, FitRun, Schedule, StepResult, fingerprint_arrays
from tacenda.fitting.schedules import Position
from tacenda.settings import configured_by, option
from tacenda.vocabulary import Vocabulary
from tacenda_lm import options
from tacenda_lm.sequences import Float64, Ids, side_by_side
from tacenda_lm.states import State
from tacenda_lm.streams import Predictor, Stream, StreamModel
from tacenda_lm.training import (
    Gradient,
    Trainer,
    averaging_weight,
    compute_perplexity,
    draw_dropout_mask,
    sum_by_row,
    train,
)

_Floats = npt.NDArray[np.floating[Any]]
_Ints = npt.NDArray[np.integer[Any]]

_SCORES_PER_BLOCK = 1 << 23  # of words; float32 in 32 MB
_TOKENS_PER_BLOCK = 8192  # whose states are in memory at once

_ADDED_COUNT = 0.1  # added to the count of every word, so that none has a frequency of zero
_INITIAL_SCALE = 0.1  # standard deviation of the first parameters of a random start
_MAX_GRADIENT_NORM = 5.0  # of a step

_RATE_DECAY = 0.5  # factor of the rate after each epoch, once it falls
_MIN_GAIN = 0.003  # share of the held-out nats below which an epoch has gained too little
# without held-out text
_CONSTANT_SHARE = 0.6  # of the epochs, before the rate falls
_MIN_RATE_SHARE = 0.01  # of the rate that is left at the end; with a lower rate nothing is learned

# the start from an LDS
_SD_OF_Z = 0.5  # standard deviation of the elements of z: small values keep sigma where it is nearly linear
_MIN_MEAN = 1e-30  # least square root of the frequency of a word
# the sample of the text from which D and g are found
_N_SEQUENCES, _MAX_STEPS = 32, 200
_N_SCORED = 1024  # words of it that g is found by
_SETTLING_STEPS = 20  # after which a filter has forgotten that it began with nothing
_NEWTON_STEPS = 20
_MAX_SCALE = 4.0  # the largest g


@dataclass(frozen=True, kw_only=True)
class RecurrentLMSettings(options.SeededSettings):
    """Settings of `RecurrentLM`."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({"advanced": ...})

    width: int = options.width(300, "elements of the state; 300 in the paper")
    lds: str | None = option(
        None,
        "folder of a saved LDS, or name of an installed one, that training starts from: its number of states must be "
        "``width``; None starts at random",
    )
    dropout: float = options.dropout(
        0.0, "share of the elements of the state that the output does not see in training"
    )
    epochs: int = options.epochs(40)
    learning_rate: float = option(
        1.0,
        "step size of gradient descent, on the gradient summed over a window and averaged over the streams; constant "
        "until an epoch gains too little on the held-out text, then halved after every epoch until one gains too "
        "little again, which ends training; without held-out text constant for three fifths of the epochs, and then "
        "falling to a hundredth at most",
        at_least=0,
        below=1e6,
    )
    averaging: float = option(
        0.995,
        "share of the running average of the parameters that a step keeps; the model is the average; 0, as in the "
        "paper, makes it the parameters themselves",
        at_least=0,
        below=1,
    )
    streams: int = options.count(
        20,
        "places of the text that are read side by side: with more, each word is cheaper, but an epoch has fewer steps "
        "and learns less; the paper reads one",
        1 << 16,
    )
    window_words: int = options.count(
        20, "words of each stream in a step, over which the gradient is propagated back", 1 << 16
    )
    across_sentences: bool = options.across_sentences("")

    @property
    def patience(self) -> None:
        """None: the learning rate's schedule decides when training ends."""
        return None


class RecurrentLM(StreamModel):
    """A recurrent neural network language model.

        h_t = sigma(A h_{t-1} + B w_{t-1} + a) - 1/2,    p(w_t) = SoftMax(C h_t + b)

    (Belanger and Kakade 2015, equations 18 and 19, after Mikolov 2012; they have neither a and b nor the 1/2.)
    Training is gradient descent with back-propagation through the windows of parallel streams. It starts from small
    random numbers, or from the tensors A - K C A, K and C of an `LDS` that was fitted to the same text (section
    7.4); b starts at the logarithms of the words' frequencies either way.

    Examples
    --------
    >>> lm = RecurrentLM(lds="my-lds", width=200).fit(Path("train.txt"), valid=Path("valid.txt"))
    >>> lm.perplexity(Path("test.txt"), context="stream")
    """

    name: ClassVar[str] = "recurrent"
    settings: RecurrentLMSettings
    roundable: ClassVar[tuple[str, ...]] = ("inputs", "outputs")
    _predictor: RecurrentPredictor | None = None

    @configured_by(RecurrentLMSettings)
    def __init__(self, settings: RecurrentLMSettings) -> None:
        super().__init__(settings)

    @property
    def network(self) -> Network:
        """The learned network. Raises NotFittedError."""
        return self._learned(self._predictor).network

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        settings = self.settings
        text = Stream.of_corpus(corpus, across=True)
        held_out = None if valid is None else Stream.of_corpus(valid, settings.across_sentences)
        network, lds = self._start_network(corpus, text.ids[1:])
        rate = ReduceOnPlateau(settings.learning_rate, _RATE_DECAY, _MIN_GAIN)
        schedule: Schedule = rate
        if valid is None:
            constant = max(1, round(_CONSTANT_SHARE * settings.epochs))
            slowest = _MIN_RATE_SHARE ** (1 / max(1, settings.epochs - constant))
            schedule = FallingAfter(settings.learning_rate, max(_RATE_DECAY, slowest), constant)
        trainer = RecurrentTrainer(settings, network, text, held_out, rate)
        source = Windows(trainer.ring, settings.streams, settings.window_words, settings.seed)
        run = replace(run, callbacks=(*run.callbacks, WhenSettled()))
        # a resumed fit may have more epochs, and may find the same LDS in another folder
        identity = {"start": lds}
        history = train(trainer, source, run, schedule, identity, may_change=("lds", "epochs"))
        self._vocabulary, self._predictor = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

    def _start_network(self, corpus: Corpus, text: Ids) -> tuple[Network, str | None]:
        """Return the network that training starts from, and the digest of the LDS it was made from, if any.

        Raises ConfigurationError, ArtifactError.
        """
        settings, width = self.settings, self.settings.width
        counts = corpus.type_counts + _ADDED_COUNT
        frequencies = counts / counts.sum()
        if settings.lds is None:
            rng = np.random.default_rng([settings.seed, 1])
            sizes, scale = (width, len(counts), len(counts)), np.float32(_INITIAL_SCALE)
            A, B, C = (rng.standard_normal((n, width), np.float32) * scale for n in sizes)
            outputs = np.column_stack([C, np.log(frequencies).astype(np.float32)])
            return Network(A, B, np.zeros((1, width), np.float32), outputs), None
        system = LinearSystem.load(settings.lds, corpus.vocabulary)
        states = len(system.transitions)
        if states != width:
            raise ConfigurationError(
                f"RecurrentLM: width is {width}, and the LDS in {settings.lds} has {states} states: give "
                f"width={states}, or fit an LDS with n_states={width}"
            )
        return system.start_network(text, frequencies), system.source

    def _rebuild(self, arrays: dict[str, npt.NDArray[Any]]) -> RecurrentPredictor:
        types, width = len(self.vocabulary), self.settings.width
        saved = SavedNetwork.from_arrays(arrays, types=types, width=width)
        outputs = np.hstack([saved.outputs, saved.biases])
        network = Network(saved.transitions, saved.inputs, saved.offsets, outputs)
        return RecurrentPredictor(network, self.vocabulary.boundary_id)


# -- the network -------------------------------------------------------------------------------------


class SavedNetwork(Arrays):
    """The arrays of a saved network, in which C and b are separate."""

    transitions: Float32[Array, "width width", options.BOUNDED_WEIGHTS]
    inputs: Float32[Array, "types width", options.BOUNDED_WEIGHTS]
    offsets: Float32[Array, "1 width", options.BOUNDED_WEIGHTS]
    outputs: Float32[Array, "types width", options.BOUNDED_WEIGHTS]
    biases: Float32[Array, "types 1", options.BOUNDED_WEIGHTS]


class Network(NamedTuple):
    """The learned arrays, all of one dtype, which is also that of all computations."""

    transitions: _Floats  # A (width, width)
    inputs: _Floats  # B (types, width), the row of each word
    offsets: _Floats  # a (1, width)
    outputs: _Floats  # C and b (types, width + 1): the last column is b

    @property
    def width(self) -> int:
        """The elements of a state."""
        return len(self.transitions)


def step(p: Network, h: _Floats, read: _Floats) -> _Floats:
    """Return h_t (rows, width) from h_{t-1} (rows, width) and ``read``, B w_{t-1} + a (rows, width)."""
    z = h @ p.transitions.T
    z += read
    # sigma(z) - 1/2 = tanh(z / 2) / 2, which cannot overflow
    z *= z.dtype.type(0.5)
    np.tanh(z, out=z)
    z *= z.dtype.type(0.5)
    return z


def run(p: Network, ids: _Ints, offsets: _Ints, first: _Floats) -> tuple[_Floats, _Floats]:
    """Return the state that predicts each id (tokens, width), and the state after each sequence (sequences, width).

    ``first`` (sequences, width) are the states that predict the first id of each sequence. Sequences are read side by
    side, so that many short ones cost little more than their products.
    """
    read = p.inputs[ids] + p.offsets
    states = np.empty_like(read)
    last: _Floats = np.array(first, read.dtype)
    for sequences, places in side_by_side(offsets[:-1], np.diff(offsets)):
        states[places] = h = last[sequences]
        last[sequences] = step(p, h, read[places])
    return states, last


def score_targets(
    p: Network, states: _Floats, targets: _Ints, gradient: _Floats | None = None
) -> tuple[_Floats, _Floats]:
    """Return natural log p(w_t | h_t) of the targets (tokens,), and the gradient of minus their sum by the states.

    ``states`` (tokens, width) are the h_t, after dropout. ``gradient``, with the shape of ``p.outputs``, is overwritten
    with the gradient by C and b if there is at least one token; if it is None, the gradient by the states is empty.
    """
    log_probs = np.empty(len(states), states.dtype)
    d_states = np.empty((0 if gradient is None else len(states), p.width), states.dtype)
    for begin, read, e in _score_blocks(p, states):
        end = begin + len(read)
        rows, words = np.arange(len(read)), targets[begin:end]
        of_targets = e[rows, words]
        np.exp(e, out=e)
        sums = e.sum(axis=1)
        log_probs[begin:end] = of_targets - np.log(sums)
        if gradient is None:
            continue
        # the error of a row is e / its sum, less one at its target; the division comes after the products, which have
        # fewer elements
        e[rows, words] -= sums
        np.divide(e @ p.outputs[:, :-1], sums[:, None], out=d_states[begin:end])
        read /= sums[:, None]
        if begin:
            gradient += e.T @ read
        else:
            np.matmul(e.T, read, out=gradient)
    return log_probs, d_states


def predict(p: Network, states: _Floats) -> _Floats:
    """Return natural log-probabilities (tokens, types) of every word after each state (tokens, width)."""
    log_probs = np.empty((len(states), len(p.outputs)), states.dtype)
    for begin, read, s in _score_blocks(p, states):
        s -= np.log(np.exp(s).sum(axis=1, keepdims=True))
        log_probs[begin : begin + len(read)] = s
    return log_probs


def _score_blocks(p: Network, states: _Floats) -> Iterator[tuple[int, _Floats, _Floats]]:
    """Yield blocks of rows: where each begins, its states with a one appended, and C h + b less its maximum.

    The last is (tokens, types): no number in it is above zero, so that its exponentials cannot overflow.
    """
    rows = max(1, _SCORES_PER_BLOCK // len(p.outputs))
    for begin in range(0, len(states), rows):
        block = states[begin : begin + rows]
        read = np.concatenate([block, np.ones((len(block), 1), block.dtype)], axis=1)
        s = read @ p.outputs.T
        s -= s.max(axis=1, keepdims=True)
        yield begin, read, s


class RecurrentPredictor(Predictor):
    """A fitted network. The value of a state is the bytes of h_t, in float32."""

    def __init__(self, network: Network, boundary: int) -> None:
        self.network, self.boundary, self.n_types = network, boundary, len(network.outputs)

    def start(self) -> State:
        return State(
            self._read(np.zeros((1, self.network.width), np.float32), self.boundary).tobytes()
        )

    def after(self, state: State, word: int) -> State:
        return State(self._read(self.vectors([state]), word).tobytes())

    def vectors(self, states: Sequence[State]) -> _Floats:
        """Return h of each state (states, width)."""
        vectors = np.empty((len(states), self.network.width), np.float32)
        for row, state in zip(vectors, states, strict=True):
            row[:] = state.vector(np.float32, len(row))
        return vectors

    def rows(self, vectors: _Floats) -> _Floats:
        return predict(self.network, vectors)

    def pick(self, vectors: _Floats, words: Ids) -> Float64:
        return score_targets(self.network, vectors, words)[0].astype(np.float64)

    def _read(self, h: _Floats, word: int) -> _Floats:
        """Return the states (rows, width) after ``h`` (rows, width) and one more word."""
        return step(self.network, h, self.network.inputs[word] + self.network.offsets)

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[_Floats, Ids, State]]:
        ids, h = stream.ids, None if state is None else self.vectors([state])
        opening = stream.firsts if state is None else np.zeros(len(ids), bool)
        for i in range(0, len(ids), _TOKENS_PER_BLOCK):
            words, begins = ids[i : i + _TOKENS_PER_BLOCK], opening[i : i + _TOKENS_PER_BLOCK]
            inner = np.flatnonzero(begins[1:]) + 1
            firsts = np.zeros((len(inner) + 1, self.network.width), np.float32)
            if h is not None and not begins[0]:
                firsts[0] = h[0]
            states, last = run(self.network, words, np.array([0, *inner, len(words)]), firsts)
            h = last[-1:]
            yield states[~begins], words[~begins], State(h.tobytes())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        A, B, a, outputs = self.network
        return SavedNetwork(A, B, a, outputs[:, :-1], outputs[:, -1:]).to_arrays()


# -- the start from an LDS ---------------------------------------------------------------------------


class LinearSystem(NamedTuple):
    """The filter of a fitted LDS over the words of a vocabulary, float64: the start of a `RecurrentLM` (section 7.4).

    The filter of an LDS with A, C and gain K, of words w_t centered on their frequencies mu and scaled by W, is a
    recurrent network without its two nonlinearities (equations 4, 18 and 19):

        x_t = (A - K C A) x_{t-1} + K W (w_t - mu),    E[w_{t+1} | x_t] = mu + W^{-1} C A x_t,    W = diag(mu^{-1/2})

    Around zero sigma(z) - 1/2 = z / 4 and, with b = log mu, SoftMax(b + s)_i = mu_i (1 + s_i) up to a constant, to
    first order. So the network that computes the same to first order, with z_t = D x_t for a diagonal D, is

        A_rnn = 4 D (A - K C A) D^{-1},    B_rnn = D K W (I - mu),    a = 0
        C_rnn = 4 g W C A D^{-1},          b = log mu

    D makes z small enough for the first approximation and large enough to learn. The second approximation does not hold
    for rare words, whose predicted frequencies are many times mu_i or negative: the number g is chosen to make a sample
    of the training text most probable, of which the logarithm of the likelihood is a concave function. The paper has
    neither D, g, nor biases.
    """

    transitions: Float64  # A - K C A (states, states)
    inputs: Float64  # K W (w - mu) of every word w (types, states)
    outputs: Float64  # W C A (types, states)
    source: str  # digest of the arrays of the LDS

    @classmethod
    def load(cls, path: str, vocabulary: Vocabulary) -> LinearSystem:
        """Read a saved LDS, whose plugin is not needed; words that it does not know get the rows of its ``<unk>``.

        Raises ConfigurationError if the folder holds another model, and ArtifactError if it is damaged.
        """
        saved = artifact.read(path)
        if (saved.kind, saved.name) != ("embedders", "lds"):
            raise ConfigurationError(
                f"RecurrentLM: lds must be the folder of an LDS, and {path} holds a model {saved.name!r}; "
                "make one with `tacenda embed fit --model lds`"
            )
        try:
            arrays, _ = restore(saved.arrays)
            theirs = Vocabulary.from_arrays(saved.config.get("vocabulary", {}), arrays)
            whole = cls._from_arrays(arrays, len(theirs))
        except (ArtifactError, np.linalg.LinAlgError, ValueError) as error:
            raise ArtifactError(f"cannot start from the LDS in {path}: {error}") from error
        ids = theirs.encode(vocabulary.words, remember=False)
        return whole._replace(inputs=whole.inputs[ids], outputs=whole.outputs[ids])

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], n_types: int) -> LinearSystem:
        """Return the filter in the coordinates of the saved matrices, in which smoothed states are white."""
        sizes: dict[str, Any] = {"vocabulary": n_types}

        def read(name: str, dimensions: str) -> Float64:
            return np.asarray(take(arrays, name, Float[Array, dimensions], sizes), np.float64)

        square, rows_of_words = "states states", "vocabulary states"
        A, forward, to_filtered, second_moment = (
            read(name, square) for name in ("A", "forward", "filter", "Xi")
        )
        C = read("C", rows_of_words)
        if "reading" in arrays:  # a compact form: scale and table follow from other arrays
            mean = np.maximum(read("mean", "vocabulary"), _MIN_MEAN)
            scale = read("scale", "vocabulary") if "scale" in arrays else 1 / mean
            rows = C / read("noise.d", "vocabulary")[:, None] if "noise.d" in arrays else C
            rows = rows * scale[:, None] - mean @ rows
            table = rows @ read("reading", square).T
        else:
            scale = read("scale", "vocabulary")
            table = read("table", rows_of_words)
        # the saved recurrence is a_t = forward a_{t-1} + table[w_t], with the filtered state to_filtered a_t
        transitions = to_filtered @ forward @ np.linalg.inv(to_filtered)
        values, vectors = np.linalg.eigh((second_moment + second_moment.T) / 2)
        # from white states to those that C takes
        color = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        outputs = scale[:, None] * (C @ A @ color)
        raw = (A, C, forward, to_filtered, second_moment, table, scale)
        system = cls(transitions, table @ to_filtered.T, outputs, fingerprint_arrays(raw))
        if not all(np.isfinite(part).all() for part in system[:3]):
            raise ArtifactError("its filter holds NaN or infinite values")
        largest = np.abs(np.linalg.eigvals(transitions)).max(initial=0)
        if largest >= 1:
            raise ArtifactError(
                f"its filter is unstable: the largest eigenvalue of A - KCA is {largest:.3g}, not below 1"
            )
        return system

    def filter_words(self, ids: _Ints) -> Float64:
        """Return the filtered states (steps, sequences, states) after words (steps, sequences), from zero."""
        x = np.zeros((ids.shape[1], len(self.transitions)))
        filtered = self.inputs[ids]
        for states in filtered:
            states += x @ self.transitions.T
            x = states
        return filtered

    def start_network(self, text: _Ints, frequencies: Float64) -> Network:
        """Return the network that computes the same as this system to first order.

        ``text`` (tokens,) is the training text, a sample of which gives the scales D and g; ``frequencies`` (types,)
        are mu, positive.
        """
        steps = min(_MAX_STEPS, max(2, len(text) // _N_SEQUENCES))
        starts = np.linspace(0, len(text), _N_SEQUENCES, endpoint=False).astype(np.int64)
        sample = text[(np.arange(steps + 1)[:, None] + starts) % len(text)]
        x = self.filter_words(sample[:-1])[min(_SETTLING_STEPS, steps // 2) :]
        targets, x = sample[-len(x) :].ravel(), x.reshape(-1, x.shape[2])
        deviations = x.std(axis=0)
        D = _SD_OF_Z / np.where(deviations > 0, deviations, 1.0)
        scored = np.linspace(0, len(targets) - 1, min(_N_SCORED, len(targets))).astype(np.int64)
        log_mu = np.log(frequencies)
        g = _find_scale(x[scored], self.outputs, targets[scored], log_mu)
        A, B = 4 * D[:, None] * self.transitions / D, self.inputs * D
        C = 4 * g * self.outputs / D
        parts = A, B, np.zeros((1, len(D))), np.column_stack([C, log_mu])
        return Network(*(np.ascontiguousarray(part, np.float32) for part in parts))


def _find_scale(x: Float64, outputs: Float64, targets: _Ints, log_mu: Float64) -> float:
    """Find the g in 0 .. 4 that gives the targets (rows,) the highest probability under SoftMax(log mu + g s).

    The rows of s are ``outputs`` (types, states) times those of ``x`` (rows, states). The logarithm of the likelihood
    is concave in g: Newton steps within bounds find its peak.
    """
    g, low, high = 0.5, 0.0, _MAX_SCALE
    rows = max(1, _SCORES_PER_BLOCK // len(outputs))
    slopes, curvatures = np.empty((2, len(x)))
    for _ in range(_NEWTON_STEPS):
        for begin in range(0, len(x), rows):
            block = slice(begin, begin + rows)
            s = x[block] @ outputs.T
            p = g * s
            p += log_mu
            p -= p.max(axis=1, keepdims=True)
            np.exp(p, out=p)
            p /= p.sum(axis=1, keepdims=True)
            p *= s
            mean = p.sum(axis=1)
            slopes[block] = s[np.arange(len(s)), targets[block]] - mean
            p *= s
            curvatures[block] = p.sum(axis=1) - mean**2
        slope, curvature = float(slopes.mean()), float(curvatures.mean())
        low, high = (g, high) if slope > 0 else (low, g)
        new = g + slope / curvature if curvature > 0 else g
        if not low < new < high:
            new = (low + high) / 2
        if abs(new - g) < 1e-4:
            break
        g = new
    return g


# -- training ----------------------------------------------------------------------------------------


class Windows:
    """The windows of a text, which is a ring: after its last word comes its first.

    Each epoch cuts the ring at another place into streams of equal length. A step reads a window of every stream, and
    the states at its end begin the next window. An epoch reads every word once, and less than one word a stream twice.
    """

    def __init__(self, text: Ids, streams: int, window: int, seed: int) -> None:
        self.text, self.streams, self.window, self.seed = text, streams, window, seed
        self._stream_length = -(-len(text) // streams)

    def n_batches(self, epoch: int) -> int:
        return -(-self._stream_length // self.window)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[npt.NDArray[np.int64], bool]]:
        """Yield the places (steps, streams) that each step reads, and whether it is the first of the epoch."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, epoch]))
        cut = int(rng.integers(len(self.text)))
        starts = cut + self._stream_length * np.arange(self.streams)
        for batch in range(skip, self.n_batches(epoch)):
            begin = batch * self.window
            steps = np.arange(begin, min(begin + self.window, self._stream_length))
            yield (steps[:, None] + starts) % len(self.text), batch == 0

    def fingerprint(self) -> str:
        return fingerprint_arrays((self.text,), "windows", self.streams, self.window, self.seed)


@dataclass
class FallingAfter(Schedule):
    """Constant for ``epochs`` epochs, then multiplied by ``factor`` after each: for a fit without held-out text."""

    factor: float = _RATE_DECAY
    epochs: int = 10

    def at(self, position: Position) -> float:
        return self.rate * self.factor ** max(0, position.epoch + 1 - self.epochs)


@dataclass
class ReduceOnPlateau(Schedule):
    """Constant until an epoch gains too little on the held-out text, then multiplied by ``factor`` after each epoch.

    The schedule of Mikolov 2012 (section 3.3.2), which the LDS paper follows (section 7.4). When an epoch gains too
    little again, training is `settled`. An epoch gains too little if the negative log-probability is above the share
    1 - ``least_gain`` of its lowest value so far.
    """

    factor: float = _RATE_DECAY
    least_gain: float = _MIN_GAIN

    def __post_init__(self) -> None:
        super().__post_init__()
        # lowest nats per token so far (before the first evaluation a number above all), the share of the rate, whether
        # it falls, whether training is over
        self.progress = np.array([1e9, 1.0, 0.0, 0.0])

    @property
    def settled(self) -> bool:
        """Whether training is over."""
        return bool(self.progress[3])

    def observe(self, nats: float) -> None:
        """Note the mean negative log-probability of the held-out text after an epoch."""
        best, _, falls, _ = self.progress
        if not nats <= (1 - self.least_gain) * best:
            self.progress[2:] = True, falls
        self.progress[0] = min(best, nats)
        if self.progress[2]:
            self.progress[1] *= self.factor

    def at(self, position: Position) -> float:
        return self.rate * float(self.progress[1])


class WhenSettled(Callback):
    """End a fit when the schedule of its `RecurrentTrainer` says that training is over."""

    def on_epoch_end(self, run: FitLoop) -> bool:
        return isinstance(run.model, RecurrentTrainer) and run.model.rate.settled


class RecurrentTrainer(Trainer):
    """A network under training, changed in place, and the running average of its parameters, which is the model.

    A step of plain gradient descent that is long enough for rare words is too long for frequent ones: their rows follow
    the last few hundred words of the text, and predict other text badly. The average over many steps does not.

    Gradients do not go back over the beginning of a window. `state` holds the states of the streams and the progress of
    the schedule, in addition to the parameters.
    """

    def __init__(
        self,
        settings: RecurrentLMSettings,
        network: Network,
        text: Stream,
        valid: Stream | None,
        rate: ReduceOnPlateau,
    ) -> None:
        self.network, self.rate = network, rate
        self.ring = text.ids[1:]
        self._h = np.zeros((settings.streams, network.width), network.transitions.dtype)
        self._d_outputs = np.empty_like(network.outputs)
        self.average = Network(*map(np.array, network)) if settings.averaging else network
        rest: dict[str, Any] = {"h": self._h, "progress": rate.progress}
        if settings.averaging:
            rest["present"] = network._asdict()
        super().__init__(settings, self.average._asdict(), text, valid, rest=rest)

    def step(self, batch: tuple[npt.NDArray[np.int64], bool], learning_rate: float) -> StepResult:
        """Take one step of gradient descent on a window of every stream."""
        places, begins = batch
        if begins:
            self._h[...] = 0
        with np.errstate(over="ignore", invalid="ignore"):  # a fit that diverges shows in its loss
            loss, gradients = self.gradients(places, self.draw())
            self._descend(gradients, learning_rate / self.settings.streams)
        averaging = self.settings.averaging
        weight = np.float32(averaging_weight(self.steps, averaging) if averaging else 0)
        if weight:
            for average, table in zip(self.average, self.network, strict=True):
                average += weight * (table - average)
        return StepResult(loss, places.size)

    def gradients(
        self, places: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[float, dict[str, Gradient]]:
        """Return the summed loss at the places of a window (steps, streams), and its gradients by name.

        The states of the streams become those at the end of the window.
        """
        p, settings = self.network, self.settings
        words = self.ring[places]
        targets = self.ring[(places + 1) % len(self.ring)].ravel()
        restarts = words == self.boundary  # where a sentence begins without context
        if settings.across_sentences:
            restarts[:] = False
        read = p.inputs[words]
        read += p.offsets
        before, states = np.empty_like(read), read  # h_{t-1} and h_t
        for t in range(len(words)):
            before[t] = self._h
            before[t, restarts[t]] = 0
            self._h[...] = states[t] = step(p, before[t], read[t])

        mask = draw_dropout_mask(states.shape, settings.dropout, rng) if settings.dropout else None
        seen = states if mask is None else states * mask
        log_probs, d_seen = score_targets(p, seen.reshape(-1, p.width), targets, self._d_outputs)
        d_z = d_seen.reshape(states.shape)
        if mask is not None:
            d_z *= mask
        for t in reversed(range(len(d_z))):  # from the gradient of h_t to that of A h + B w + a
            if t + 1 < len(d_z):
                carried = d_z[t + 1] @ p.transitions
                carried[restarts[t + 1]] = 0
                d_z[t] += carried
            # the derivative of h = sigma(z) - 1/2 is (h + 1/2)(1/2 - h)
            d_z[t] *= 0.25 - states[t] ** 2
        flat = d_z.reshape(-1, p.width)
        return -float(log_probs.sum(dtype=np.float64)), {
            "transitions": (None, flat.T @ before.reshape(-1, p.width)),
            "inputs": sum_by_row(words.ravel(), flat),
            "offsets": (None, flat.sum(axis=0)[None]),
            "outputs": (None, self._d_outputs),
        }

    def _descend(self, gradients: dict[str, Gradient], rate: float) -> None:
        """Move the parameters against the gradient, whose norm per stream is clipped; its arrays are overwritten."""
        # one factor for all tables, so that the direction of the gradient stays (Pascanu et al. 2013)
        squares = sum(float(np.vdot(gradient, gradient)) for _, gradient in gradients.values())
        norm = float(np.sqrt(squares)) / self.settings.streams
        rate *= min(1.0, _MAX_GRADIENT_NORM / max(norm, 1e-30))
        for name, (rows, gradient) in gradients.items():
            gradient *= gradient.dtype.type(rate)
            table = getattr(self.network, name)
            if rows is None:
                table -= gradient
            else:
                table[rows] -= gradient

    def predictor(self) -> RecurrentPredictor:
        return RecurrentPredictor(self.average, self.boundary)

    def load_parameters(self, saved: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore averages, and let training continue from them."""
        super().load_parameters(saved)
        for table, average in zip(self.network, self.average, strict=True):
            table[...] = average

    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text, after the schedule has observed it."""
        if self.valid is None:
            return None
        nats = -float(self.predictor().score(self.valid).mean())
        self.rate.observe(nats)
        return compute_perplexity(nats)
