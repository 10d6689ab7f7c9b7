"""`RecurrentLM`: a simple recurrent network, started at random or from an LDS (Belanger and Kakade 2015, section 6).

    h_t = sigma(A h_{t-1} + B w_{t-1} + a) - 1/2,   p(w_t | h_t) = SoftMax(C h_t + b),   h_0 = 0

(Equations 18 and 19, after Mikolov 2012.) sigma is the logistic function, element by element. The paper has neither
biases nor the 1/2, which the biases make up for: the functions are the same. A state around zero is learned from much
faster, for else every step on C or A would move all scores or states by their sum.

Nearly all the time of training goes into three products with C, for the output, its gradient and that of C: six
operations a token, word and element of the state. Each is one call of BLAS for all the words of a step. Gradients are
written out: autograd takes 1.1 to 1.3 times as long, because it holds the scores of all words more often.
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

RESTING = 0.0  # every element of h_0
_CELLS = 1 << 23  # probabilities of words that are held at once: 32 MB
_TOKENS = 8192  # whose states are held at once
_UNSEEN = 0.1  # counted with every word, so that none has a frequency of zero
_INITIAL_SCALE = 0.1  # standard deviation of the first parameters of a random start
_CLIP_NORM = 5.0  # bound of the norm of a step's gradient
# factor of the rate after each epoch, from the first one on that gains too little
_RATE_DECAY = 0.5
_LEAST_GAIN = 0.003  # share of the held-out nats below which an epoch has gained too little
_CONSTANT = 0.6  # of the epochs of a fit without held-out text, before the rate falls
_LEAST_RATE = 0.01  # share of the rate that is left at the end of such a fit, or more: with less nothing is learned
_NEVER = 1e9  # nats a token, before the first evaluation
_SPREAD = 0.5  # standard deviation of the elements of z: small values keep sigma where it is nearly linear
_TINY = 1e-30  # least square root of the frequency of a word
_SEQUENCES, _STEPS = 32, 200  # the sample of the text that D is found by
_SCORED = 1024  # its words that g is found by
_SETTLED = 20  # steps after which a filter has forgotten that it began with nothing
_NEWTON = 20  # steps
_MOST = 4.0  # the largest g


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
        "places of the text that are read side by side: more make a step cheaper for each word, and fewer steps an "
        "epoch, which learns less from it; the paper reads one",
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
        rate = ReduceOnPlateau(settings.learning_rate, _RATE_DECAY, _LEAST_GAIN)
        schedule: Schedule = rate
        if valid is None:
            constant = max(1, round(_CONSTANT * settings.epochs))
            slowest = _LEAST_RATE ** (1 / max(1, settings.epochs - constant))
            schedule = FallingAfter(settings.learning_rate, max(_RATE_DECAY, slowest), constant)
        trainer = RecurrentTrainer(settings, network, text, held_out, rate)
        source = Windows(trainer.ring, settings.streams, settings.window_words, settings.seed)
        run = replace(run, callbacks=(*run.callbacks, WhenSettled()))
        # the start is in the identity; with held-out text more epochs may follow
        more = {"start": lds}
        history = train(trainer, source, run, schedule, more, may_change=("lds", "epochs"))
        self._vocabulary, self._predictor = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

    def _start_network(self, corpus: Corpus, text: Ids) -> tuple[Network, str | None]:
        """Return the network that training starts from, and the digest of the LDS that it was made from.

        Raises ConfigurationError, ArtifactError.
        """
        settings, width = self.settings, self.settings.width
        counts = corpus.type_counts + _UNSEEN
        frequencies = counts / counts.sum()
        if settings.lds is None:
            rng = np.random.default_rng([settings.seed, 1])
            types, scale = len(counts), np.float32(_INITIAL_SCALE)
            A, B, C = (
                rng.standard_normal((rows, width), np.float32) * scale
                for rows in (width, types, types)
            )
            outputs = np.column_stack([C, np.log(frequencies).astype(np.float32)])
            return Network(A, B, np.zeros((1, width), np.float32), outputs), None
        system = LinearSystem.load(settings.lds, corpus.vocabulary)
        states = len(system.transitions)
        if states != width:
            raise ConfigurationError(
                f"RecurrentLM: width is {width}, and the LDS in {settings.lds} has {states} states: give "
                f"width={states}, or fit an LDS with n_states={width}"
            )
        return Network(*system.start_network(text, frequencies)), system.source

    def _rebuild(self, arrays: dict[str, npt.NDArray[Any]]) -> RecurrentPredictor:
        types, width = len(self.vocabulary), self.settings.width
        saved = SavedNetwork.from_arrays(arrays, types=types, width=width)
        outputs = np.hstack([saved.outputs, saved.biases])
        network = Network(saved.transitions, saved.inputs, saved.offsets, outputs)
        return RecurrentPredictor(network, self.vocabulary.boundary_id)


# -- the network -------------------------------------------------------------------------------------


class SavedNetwork(Arrays):
    """A network as it is saved, with b apart from C."""

    transitions: Float32[Array, "width width", options.BOUNDED_WEIGHTS]
    inputs: Float32[Array, "types width", options.BOUNDED_WEIGHTS]
    offsets: Float32[Array, "1 width", options.BOUNDED_WEIGHTS]
    outputs: Float32[Array, "types width", options.BOUNDED_WEIGHTS]
    biases: Float32[Array, "types 1", options.BOUNDED_WEIGHTS]


class Network(NamedTuple):
    """The learned arrays, all of one dtype, in which everything is computed."""

    transitions: _Floats  # A (width, width)
    inputs: _Floats  # B (types, width), the row of each word
    offsets: _Floats  # a (1, width)
    outputs: _Floats  # C and b (types, width + 1): the last column is b

    @property
    def width(self) -> int:
        """The elements of a state."""
        return len(self.transitions)


def step(p: Network, h: _Floats, read: _Floats) -> _Floats:
    """Return h_t (rows, width) from h_{t-1} (rows, width) and what was ``read``, B w + a (rows, width)."""
    z = h @ p.transitions.T
    z += read
    # sigma(z) - 1/2 = tanh(z / 2) / 2, which cannot overflow
    z *= z.dtype.type(0.5)
    np.tanh(z, out=z)
    z *= z.dtype.type(0.5)
    return z


def run(p: Network, ids: _Ints, offsets: _Ints, first: _Floats) -> tuple[_Floats, _Floats]:
    """Return the state that predicts each id, (tokens, width), and that after each sequence, (sequences, width).

    ``first`` (sequences, width) are the states that predict the first id of each sequence. Sequences are read side by
    side, so that many short ones cost little more than their products.
    """
    read = p.inputs[ids] + p.offsets
    found = np.empty_like(read)
    last: _Floats = np.array(first, read.dtype)
    for sequences, places in side_by_side(offsets[:-1], np.diff(offsets)):
        found[places] = h = last[sequences]
        last[sequences] = step(p, h, read[places])
    return found, last


def output(
    p: Network, states: _Floats, targets: _Ints, gradient: _Floats | None = None
) -> tuple[_Floats, _Floats]:
    """Return natural log p(w_t | h_t) of the targets (tokens,), and the gradient of minus their sum by the states.

    ``states`` (tokens, width) are as the output reads them. ``gradient``, like ``p.outputs``, is overwritten with that
    of C and b; without it, the gradient of the states is empty.
    """
    log_probs = np.empty(len(states), states.dtype)
    d_states = np.empty((0 if gradient is None else len(states), p.width), states.dtype)
    for begin, read, e in _blocks(p, states):
        end = begin + len(read)
        rows, words = np.arange(len(read)), targets[begin:end]
        of_targets = e[rows, words]
        np.exp(e, out=e)
        sums = e.sum(axis=1)
        log_probs[begin:end] = of_targets - np.log(sums)
        if gradient is None:
            continue
        # the error of a row is e / its sum, less one at its target; divided after the products, which are smaller
        e[rows, words] -= sums
        np.divide(e @ p.outputs[:, :-1], sums[:, None], out=d_states[begin:end])
        read /= sums[:, None]
        if begin:
            gradient += e.T @ read
        else:
            np.matmul(e.T, read, out=gradient)
    return log_probs, d_states


def distribution(p: Network, states: _Floats) -> _Floats:
    """Return natural log-probabilities of every word after each state (tokens, width): (tokens, types)."""
    found = np.empty((len(states), len(p.outputs)), states.dtype)
    for begin, read, s in _blocks(p, states):
        s -= np.log(np.exp(s).sum(axis=1, keepdims=True))
        found[begin : begin + len(read)] = s
    return found


def _blocks(p: Network, states: _Floats) -> Iterator[tuple[int, _Floats, _Floats]]:
    """Yield blocks of rows: where each begins, its states with a one after each, and C h + b less its maximum.

    The last is (tokens, types): no number in it is above zero, so that its exponentials cannot overflow.
    """
    rows = max(1, _CELLS // len(p.outputs))
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
        return State(self._read(self._make_resting_states(1), self.boundary).tobytes())

    def after(self, state: State, word: int) -> State:
        return State(self._read(self.vectors([state]), word).tobytes())

    def vectors(self, states: Sequence[State]) -> _Floats:
        """Return h of each state, (states, width)."""
        found = np.empty((len(states), self.network.width), np.float32)
        for row, state in zip(found, states, strict=True):
            row[:] = state.vector(np.float32, len(row))
        return found

    def rows(self, vectors: _Floats) -> _Floats:
        return distribution(self.network, vectors)

    def pick(self, vectors: _Floats, words: Ids) -> Float64:
        return output(self.network, vectors, words)[0].astype(np.float64)

    def _make_resting_states(self, sequences: int) -> _Floats:
        return np.full((sequences, self.network.width), RESTING, np.float32)

    def _read(self, h: _Floats, word: int) -> _Floats:
        return step(self.network, h, self.network.inputs[word] + self.network.offsets)

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[_Floats, Ids, State]]:
        ids, h = stream.ids, None if state is None else self.vectors([state])
        opening = stream.firsts if state is None else np.zeros(len(ids), bool)
        for i in range(0, len(ids), _TOKENS):
            words, begins = ids[i : i + _TOKENS], opening[i : i + _TOKENS]
            inner = np.flatnonzero(begins[1:]) + 1
            firsts = self._make_resting_states(len(inner) + 1)
            if h is not None and not begins[0]:
                firsts[0] = h[0]
            found, last = run(self.network, words, np.array([0, *inner, len(words)]), firsts)
            h = last[-1:]
            yield found[~begins], words[~begins], State(h.tobytes())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        A, B, a, outputs = self.network
        return SavedNetwork(A, B, a, outputs[:, :-1], outputs[:, -1:]).to_arrays()


# -- a start from an LDS ------------------------------------------------------------------------------
#
# A recurrent network that starts from a linear dynamical system (Belanger and Kakade 2015, sections 6 and 7.4).
#
# The filter of an LDS with A, C and gain K, of words w_t centered on their frequencies mu and scaled by W, is a
# recurrent network without its two nonlinearities (equations 4, 18 and 19):
#
#     x_t = (A - K C A) x_{t-1} + K W (w_t - mu),    E[w_{t+1} | x_t] = mu + W^{-1} C A x_t,    W = diag(mu^{-1/2})
#
# Around zero sigma(z) - 1/2 = z / 4 and, with b = log mu, SoftMax(b + s)_i = mu_i (1 + s_i) up to a constant, to first
# order. So the network that computes the same to first order, with z_t = D x_t for a diagonal D, is
#
#     A_rnn = 4 D (A - K C A) D^{-1},    B_rnn = D K W (I - mu),    a = 0
#     C_rnn = 4 g W C A D^{-1},          b = log mu
#
# D makes z small enough for the first and large enough to learn. The second approximation does not hold for rare words,
# whose predicted frequencies are many times mu_i or negative: g is what makes a sample of the training text most
# probable, one number, in which the logarithm of the likelihood is concave. The paper has neither D, g, nor biases.


class LinearSystem(NamedTuple):
    """The filter of a fitted LDS over the words of a vocabulary, float64."""

    transitions: Float64  # A - K C A (states, states)
    inputs: Float64  # K W (w - mu) of every word w (types, states)
    outputs: Float64  # W C A (types, states)
    source: str  # digest of the arrays that it was made from

    @classmethod
    def load(cls, path: str, vocabulary: Vocabulary) -> LinearSystem:
        """Read a saved LDS, whose plugin is not needed; a word that it does not know has what its ``<unk>`` has.

        Raises ConfigurationError where the folder holds another model, and ArtifactError where it is damaged.
        """
        found = artifact.read(path)
        if (found.kind, found.name) != ("embedders", "lds"):
            raise ConfigurationError(
                f"RecurrentLM: lds must be the folder of an LDS, and {path} holds a model {found.name!r}; "
                "make one with `tacenda embed fit --model lds`"
            )
        try:
            arrays, _ = restore(found.arrays)
            theirs = Vocabulary.from_arrays(found.config.get("vocabulary", {}), arrays)
            whole = cls._from_arrays(arrays, len(theirs))
        except (ArtifactError, np.linalg.LinAlgError, ValueError) as error:
            raise ArtifactError(f"cannot start from the LDS in {path}: {error}") from error
        ids = theirs.encode(vocabulary.words, remember=False)
        return whole._replace(inputs=whole.inputs[ids], outputs=whole.outputs[ids])

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], n_types: int) -> LinearSystem:
        """Return the filter in the coordinates of the saved matrices, in which smoothed states are white."""
        sizes: dict[str, Any] = {"vocabulary": n_types}

        def array(name: str, kind: Any) -> Float64:
            return np.asarray(take(arrays, name, kind, sizes), np.float64)

        square, table_of_words = Float[Array, "states states"], Float[Array, "vocabulary states"]
        of_words = Float[Array, "vocabulary"]

        A, forward, to_filtered, second_moment = (
            array(name, square) for name in ("A", "forward", "filter", "Xi")
        )
        C = array("C", table_of_words)
        if "reading" in arrays:  # a compact form: scale and table follow from other arrays
            mean = np.maximum(array("mean", of_words), _TINY)
            scale = array("scale", of_words) if "scale" in arrays else 1 / mean
            rows = C / array("noise.d", of_words)[:, None] if "noise.d" in arrays else C
            rows = rows * scale[:, None] - mean @ rows
            table = rows @ array("reading", square).T
        else:
            scale = array("scale", of_words)
            table = array("table", table_of_words)
        # what is saved goes by a_t = forward a_{t-1} + table[w_t]; the filtered state is to_filtered a_t
        transitions = to_filtered @ forward @ np.linalg.inv(to_filtered)
        values, vectors = np.linalg.eigh((second_moment + second_moment.T) / 2)
        # from white states to those of C
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
        """Return the filtered states (steps, sequences, states) of words (steps, sequences) after nothing."""
        x = np.zeros((ids.shape[1], len(self.transitions)))
        found = self.inputs[ids]
        for states in found:
            states += x @ self.transitions.T
            x = states
        return found

    def start_network(self, text: _Ints, frequencies: Float64) -> list[npt.NDArray[np.float32]]:
        """Return A, B, a, and C with b of the network that computes what the system does, to first order.

        ``text`` (tokens,) is the training text: a sample of it gives the scales; ``frequencies`` are mu
        (types,), positive.
        """
        steps = min(_STEPS, max(2, len(text) // _SEQUENCES))
        starts = np.linspace(0, len(text), _SEQUENCES, endpoint=False).astype(np.int64)
        sample = text[(np.arange(steps + 1)[:, None] + starts) % len(text)]
        x = self.filter_words(sample[:-1])[min(_SETTLED, steps // 2) :]
        targets = sample[-len(x) :]
        deviations = x.reshape(-1, x.shape[2]).std(axis=0)
        D = _SPREAD / np.where(deviations > 0, deviations, 1.0)
        chosen = np.linspace(0, targets.size - 1, min(_SCORED, targets.size)).astype(np.int64)
        s = x.reshape(-1, x.shape[2])[chosen] @ self.outputs.T
        log_mu = np.log(frequencies)
        g = _best_scale(s, targets.ravel()[chosen], log_mu)
        transitions = 4 * D[:, None] * self.transitions / D
        outputs = 4 * g * self.outputs / D
        parts = (
            transitions,
            self.inputs * D,
            np.zeros((1, len(D))),
            np.column_stack([outputs, log_mu]),
        )
        return [np.ascontiguousarray(part, np.float32) for part in parts]


def _best_scale(s: Float64, targets: _Ints, log_mu: Float64) -> float:
    """Return the g in 0 .. 4 that gives the targets the highest probability under SoftMax(log mu + g s).

    The logarithm of the likelihood is concave in g, so Newton's steps, kept within bounds, find it.
    """
    g, low, high = 0.5, 0.0, _MOST
    own = s[np.arange(len(s)), targets]
    for _ in range(_NEWTON):
        z = log_mu + g * s
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z)
        p /= p.sum(axis=1, keepdims=True)
        mean = (p * s).sum(axis=1)
        slope = float((own - mean).mean())
        curvature = float(((p * s * s).sum(axis=1) - mean**2).mean())
        low, high = (g, high) if slope > 0 else (low, g)
        step = slope / curvature if curvature > 0 else 0.0
        after = g + step if low < g + step < high else (low + high) / 2
        if abs(after - g) < 1e-4:
            break
        g = after
    return g


# -- training ----------------------------------------------------------------------------------------
#
# The words of a text lie in a ring, which each epoch cuts at another place into streams of equal length. A step reads
# a window of every stream; the states at its end begin the next one, and gradients do not reach back over its
# beginning.


class Windows:
    """The windows of an epoch in the order of the text: the places that each step reads, and whether it is the first.

    Every place of the text is read once an epoch, but for less than one word a stream, read once more.
    """

    def __init__(self, text: Ids, streams: int, window: int, seed: int) -> None:
        self.text, self.streams, self.window, self.seed = text, streams, window, seed
        self._length = -(-len(text) // streams)  # of a stream

    def n_batches(self, epoch: int) -> int:
        return -(-self._length // self.window)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[npt.NDArray[np.int64], bool]]:
        """Yield places (steps, streams) and whether the epoch begins there."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, epoch]))
        cut = int(rng.integers(len(self.text)))
        starts = cut + self._length * np.arange(self.streams)
        for batch in range(skip, self.n_batches(epoch)):
            begin = batch * self.window
            steps = np.arange(begin, min(begin + self.window, self._length))
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
    """Constant until the held-out text gains too little, then multiplied by ``factor`` after each epoch.

    The schedule of Mikolov 2012 (section 3.3.2), which the LDS paper follows (section 7.4). When an epoch gains too
    little again, training is `settled`. To gain too little is to leave more than the share 1 - ``least_gain`` of the
    lowest negative log-probability so far.
    """

    factor: float = _RATE_DECAY
    least_gain: float = _LEAST_GAIN

    def __post_init__(self) -> None:
        super().__post_init__()
        # lowest nats a token so far, the share of the rate, whether it falls, whether training is over
        self.progress = np.array([_NEVER, 1.0, 0.0, 0.0])

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

    `state` holds the states of the streams and what the schedule has seen, in addition to the parameters. The text is
    a ring: after its last word comes its first.
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
        self._h = np.full((settings.streams, network.width), RESTING, network.transitions.dtype)
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
            self._h[...] = RESTING
        with np.errstate(over="ignore", invalid="ignore"):  # the loop looks for NaN
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
        """Return the summed loss at some places (steps, streams), and its gradients by the names of the tables.

        The states of the streams become those at the end of the window.
        """
        p, settings = self.network, self.settings
        words = self.ring[places]
        targets = self.ring[(places + 1) % len(self.ring)].ravel()
        anew = np.zeros(words.shape, bool) if settings.across_sentences else words == self.boundary
        read = p.inputs[words]
        read += p.offsets
        # h_{t-1}, at rest where a sentence begins, and h_t
        before, states = np.empty_like(read), read
        for t in range(len(words)):
            before[t] = self._h
            before[t, anew[t]] = RESTING
            self._h[...] = states[t] = step(p, before[t], read[t])

        kept = draw_dropout_mask(states.shape, settings.dropout, rng) if settings.dropout else None
        seen = states if kept is None else states * kept
        log_probs, d_seen = output(p, seen.reshape(-1, p.width), targets, self._d_outputs)
        d_z = d_seen.reshape(states.shape)
        if kept is not None:
            d_z *= kept
        for t in reversed(range(len(d_z))):  # from the gradient of h_t to that of A h + B w + a
            if t + 1 < len(d_z):
                carried = d_z[t + 1] @ p.transitions
                carried[anew[t + 1]] = 0
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
        """Move against the gradient, which is used up, and whose mean over the streams is clipped."""
        # one factor for all tables, so that the direction of the gradient stays (Pascanu et al. 2013)
        squares = sum(float(np.vdot(gradient, gradient)) for _, gradient in gradients.values())
        norm = float(np.sqrt(squares)) / self.settings.streams
        rate *= min(1.0, _CLIP_NORM / max(norm, 1e-30))
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
        """Put averages back, and let training go on from there."""
        super().load_parameters(saved)
        for table, average in zip(self.network, self.average, strict=True):
            table[...] = average

    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text, and tell the schedule."""
        if self.valid is None:
            return None
        nats = -float(self.predictor().score(self.valid).mean())
        self.rate.observe(nats)
        return compute_perplexity(nats)
