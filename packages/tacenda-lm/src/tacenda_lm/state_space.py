"""`StateSpaceLM`: a softmax over the next token from a linear state (Siivola and Honkela 2003)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Int64, take
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.fitting import FitRun, StepResult, fingerprint_arrays
from tacenda.settings import Settings, configured_by, group, option
from tacenda_lm import options
from tacenda_lm.linear_states import (
    LIMIT,
    Floats,
    Forward,
    Inputs,
    Ints,
    JointTokens,
    Parameters,
    Piece,
    backward,
    forward,
    onward,
    read,
)
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.states import State, log_softmax, rows_of_block, vector_of, window_of
from tacenda_lm.streams import Predictor, Stream, StreamModel, streams_of
from tacenda_lm.training import (
    Gradient,
    Trainer,
    dropout_mask,
    falling_rate,
    sum_by_row,
    train,
)

_Int64s = npt.NDArray[np.int64]

#: Options that only one way of training has.
_OF_GRADIENTS = ("dropout",)
_OF_RULES = ("advanced.last_piece", "advanced.norm_limit")
_OF_RUNS = tuple(f"advanced.joint_{name}" for name in ("width", "min_count", "dropout", "sum"))
_TEXTS = 64  # scored side by side
_CELLS = 1 << 18  # log-probabilities of a piece of them
_SPREAD = 0.1  # of the elements of matrices to begin with
_LARGER = 5  # times as large, feature vectors
_REACH = 1.0  # of a token's e on its own score through the internal state, to begin with
_MEMORY = 0.8  # share of an element of the internal state that is left after a token, to begin with
_FEW = 0.1  # occurrences more of every token, so that none is impossible
_SUM = 1e-6  # accumulators of AdaGrad to begin with
_CLIP_NORM = 1.0  # gradients of a mean token longer than this are made as long
_WARM = 50  # steps at most before the learning rate is what it says, and half an epoch
_SHORT = 16  # tokens at least of each of the places that are read side by side


@dataclass(frozen=True, kw_only=True)
class StateSpaceLMAdvanced(Settings):
    """Options of `StateSpaceLM` that few need to change."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({"clip_norm": ...})

    variance: float = option(
        1.0,
        "of the innovations, the diagonal of Lambda; 0.1 in the paper (section 2.4), where any would do",
        above=0,
        at_most=100,
    )
    biases: bool = option(
        True,
        "whether every token has a bias, which begins as the logarithm of its frequency; the paper has none",
    )
    joint_order: int = options.count(
        1,
        "the longest run of last tokens that has a feature vector of its own, as if it were one token; a run that the "
        "text does not have is a zero vector, as an unknown token is; 1, as in the paper, leaves all runs out",
        16,
    )
    joint_width: int = options.width(25, "elements of the feature vector of a run")
    joint_min_count: int = options.count(1, "rarer runs of tokens are zero vectors", 1 << 31)
    joint_sum: float = option(
        1e-5,
        "the sum of squares that AdaGrad begins with for the vector of a run, 1e-6 for all else: the larger it is, "
        "the less is learned from runs that are rare",
        above=0,
        at_most=1e6,
    )
    joint_dropout: float = options.dropout(
        0.3,
        "share of the places which go without the runs of two tokens and longer in training, of the others the share "
        "without those of three and longer, and so on",
    )
    streams: int = options.count(
        32, "places of the text that are read side by side in training", 1 << 16
    )
    piece: int = options.count(
        25,
        "tokens of each place in a step, over which gradients go back; with the rules, in the steps of the first epoch",
        1 << 16,
    )
    last_piece: int = options.count(
        200, "with the rules, tokens of each place in the steps of the last epoch", 1 << 16
    )
    norm_limit: float = option(
        100.0,
        "with the rules, the sum of squares that no matrix exceeds; 10 in the paper (section 2.4), with which a model "
        "without an internal state can predict little",
        above=0,
        at_most=1e8,
    )


@dataclass(frozen=True, kw_only=True)
class StateSpaceLMSettings(Settings):
    """Settings of `StateSpaceLM`."""

    order: int = options.count(
        5,
        "tokens that a prediction spans: feature vectors of the order - 1 last ones are part of the state; 1, 2, 3 "
        "and 5 in the paper",
        1000,
    )
    internal: int = option(
        40, "elements of the internal state, N_q; 0 to 40 in the paper", at_least=0, at_most=1 << 12
    )
    features: int = options.width(
        25, "elements of the feature vector of a token, N_l; 1 to 25 in the paper"
    )
    training: Literal["gradient", "rules"] = option(
        "gradient",
        "the likelihood of the text by back-propagation through states and their inference, or the rules of the paper "
        "(eqs 10 to 12)",
    )
    inference: Literal["step", "map"] = option(
        "step",
        "what a token that was read makes of the state: one step of ascent from the predicted state, or the most "
        "probable state (eq 9), as in the paper",
    )
    dropout: float = options.dropout(
        0.1, "share of the elements of the state left out in training; the paper has none"
    )
    epochs: int = options.epochs(15)
    learning_rate: float = options.learning_rate(
        0.1, "AdaGrad, or of the rules (alpha, beta and gamma are the same)", "a tenth"
    )
    patience: int = options.patience(3)
    across_sentences: bool = options.across_sentences("", "the state and the last tokens reach")
    seed: int = options.seed()
    advanced: StateSpaceLMAdvanced = group(StateSpaceLMAdvanced)

    @property
    def window(self) -> int:
        """How many of the last tokens are remembered as they are."""
        joint = self.advanced.joint_order
        return max(self.order - 1, joint if joint > 1 else 0)

    @property
    def inputs(self) -> int:
        """Elements of the state that the last tokens give."""
        joint = self.advanced
        return (self.order - 1) * self.features + joint.joint_width * (joint.joint_order > 1)

    def idle(self) -> Mapping[str, str]:
        """Say which options belong to what is not used."""
        found = {}
        for name in _OF_RULES if self.training == "gradient" else _OF_GRADIENTS:
            found[name] = f'with training="{self.training}"'
        for name in _OF_RUNS if self.advanced.joint_order == 1 else ():
            found[name] = "with joint_order=1"
        if self.order == 1:
            found["features"] = "with order=1"
        if not self.internal and self.training == "gradient":
            # the rules learn from the whole state after its token was read, gradients only from what it foretells
            for name in ("inference", "advanced.variance"):
                found[name] = "without an internal state"
        return found


class StateSpaceLM(StreamModel):
    """A state-space language model.

        s^(t) = [A s(t-1); C x(t-1); ...; C x(t-n)],    P(y(t) | s^(t)) = softmax(B s^(t) + b)

    (Siivola and Honkela 2003, eqs 3 to 5, and a bias.) The state holds an internal part, which the last state gives,
    and feature vectors of the last n = order - 1 tokens. A token that was read corrects the state that was predicted.
    An unknown token is a zero vector and corrects nothing (section 2.5). The models of the paper have
    ``training="rules"``, ``inference="map"`` and, in ``advanced``, ``biases=False`` and ``norm_limit=10``.
    """

    name: ClassVar[str] = "state_space"
    settings_class = StateSpaceLMSettings
    settings: StateSpaceLMSettings
    _predictor: StateSpacePredictor | None = None

    @configured_by(StateSpaceLMSettings)
    def __init__(self, settings: StateSpaceLMSettings) -> None:
        super().__init__(settings)
        if settings.training == "rules" and settings.advanced.joint_order > 1:
            raise ConfigurationError(
                "StateSpaceLM: the rules of the paper learn no vectors of runs: give advanced.joint_order=1 or "
                'training="gradient"'
            )
        if not settings.internal + settings.inputs:
            raise ConfigurationError(
                "StateSpaceLM: with order=1 and internal=0 the state is empty: give one of them more"
            )

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        settings, advanced = self.settings, self.settings.advanced
        vocabulary = corpus.vocabulary
        text, held_out = streams_of(corpus, valid, across=settings.across_sentences)
        types, unknown = len(vocabulary), vocabulary.unknown_id
        joint = JointTokens([], types, unknown)
        if advanced.joint_order > 1:  # runs of tokens have vectors of their own
            places = np.flatnonzero(~text.firsts)
            windows = windows_of(text, places, advanced.joint_order, unknown)
            joint = JointTokens.of(windows, types, unknown, advanced.joint_min_count)
        parameters = initial_parameters(settings, corpus.type_counts, unknown, len(joint))
        texts = max(1, min(advanced.streams, len(text.ids) // _SHORT))
        positions = side_by_side(text, texts)
        rules = settings.training == "rules"
        last = advanced.last_piece if rules else advanced.piece
        source = Pieces(positions, text.ids, advanced.piece, last, settings.epochs)
        kind = RulesTrainer if rules else GradientTrainer
        trainer = kind(settings, parameters, joint, text, positions, held_out)
        rate = falling_rate(settings.learning_rate, settings.epochs, source, warm=_WARM)
        history = train(trainer, source, run, rate)
        self._vocabulary, self._predictor = vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

    def predicted_state(self, state: State) -> npt.NDArray[np.float32]:
        """Return the vector s^ that the next token is predicted from, float32 (internal + inputs,)."""
        return np.asarray(self.state_vectors([state])[0], np.float32)

    def _rebuild(self, arrays: dict[str, npt.NDArray[Any]]) -> StateSpacePredictor:
        settings, advanced, vocabulary = self.settings, self.settings.advanced, self.vocabulary
        types, unknown = len(vocabulary), vocabulary.unknown_id
        lengths = {"lengths": advanced.joint_order - 1}
        keys = take(arrays, "runs", Int64[Array, "runs"], {})
        sizes = take(arrays, "run_sizes", Int64[Array, "lengths"], lengths)
        joint = JointTokens.from_arrays(keys, sizes, types, unknown)
        parameters = Parameters.from_arrays(
            arrays,
            types=types,
            internal=settings.internal,
            state=settings.internal + settings.inputs,
            features=settings.features,
            runs=len(joint),
            joint_width=advanced.joint_width,
            variance=advanced.variance,
            exact=settings.inference == "map",
        )
        if parameters.features[unknown].any():
            raise ArtifactError("the feature vector of <unk> is not zero: the model is damaged")
        return StateSpacePredictor(parameters, joint, settings, vocabulary.boundary_id)


# -- prediction -------------------------------------------------------------------------------------


class StateSpacePredictor(Predictor):
    """A fitted model, whose vectors are the predicted states s^.

    A state is a pair: the last tokens, oldest first, and the bytes of the internal state q that they predict.
    """

    def __init__(
        self,
        parameters: Parameters,
        joint: JointTokens,
        settings: StateSpaceLMSettings,
        boundary: int,
    ) -> None:
        self.parameters, self.joint, self.boundary = parameters, joint, boundary
        self.n_types = len(parameters.outputs)
        self.window, self.n = settings.window, settings.order - 1

    def start(self) -> State:
        return self._state((self.boundary,), np.zeros(self.parameters.internal))

    def after(self, state: State, word: int) -> State:
        p, (q, inputs) = self.parameters, self._take_apart([state])
        x = inputs.vectors(p)
        scores = self._scores(np.concatenate([q, x], axis=1))
        words = np.array([word])
        seen = (words != self.joint.unknown).astype(scores.dtype)
        product = p.product if p.internal else None
        e, _ = read(log_softmax(scores.copy()), scores, words, seen, product)
        return self._state((*state.parts(2)[0], word), onward(p, q, x, e)[0])

    def vectors(self, states: Sequence[State]) -> Floats:
        """Return s^ of each state, (states, internal + inputs)."""
        q, inputs = self._take_apart(states)
        return np.concatenate([q, inputs.vectors(self.parameters)], axis=1)

    def rows(self, vectors: Floats) -> npt.NDArray[np.float32]:
        if not len(vectors):
            return np.empty((0, self.n_types), np.float32)
        return np.asarray(log_softmax(self._scores(vectors)), np.float32)

    def _scores(self, vectors: Floats) -> Floats:
        found: Floats = vectors @ self.parameters.outputs.T + self.parameters.biases[:, 0]
        return found

    def _state(self, words: tuple[int, ...], q: Floats) -> State:
        """Return a state after the last of some tokens."""
        last = words[len(words) - min(self.window, len(words)) :]
        return State((last, np.asarray(q, np.float32).tobytes()))

    def _take_apart(self, states: Sequence[State]) -> tuple[Floats, Inputs]:
        """Return q (states, internal) and the tokens before. Raises DataError for states of another model."""
        p = self.parameters
        windows = np.full((len(states), self.window), self.joint.unknown)
        q = np.empty((len(states), p.internal), p.outputs.dtype)
        for i, state in enumerate(states):
            words, data = state.parts(2)
            q[i] = vector_of(data, np.float32, p.internal)
            words = window_of(words, self.window, self.n_types)
            windows[i, : len(words)] = words[::-1]
        return q, Inputs.of(windows, self.n, self.joint)

    # -- whole texts -------------------------------------------------------------------------------

    def score(self, stream: Stream) -> Float64:
        """Return natural log-probabilities of all but the first token of every sequence."""
        found = np.zeros(len(stream.ids))
        for positions, passed in self._passes(
            self._text(stream), np.arange(len(stream.offsets) - 1)
        ):
            there = positions >= 0
            words = np.where(there, stream.ids[positions], 0)
            scores = np.take_along_axis(passed.log_probs, words[..., None], 2)[..., 0]
            found[positions[there]] = scores[there]
        return found[~stream.firsts]

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of tokens that follow a state with no new sentence among them, and the state after."""
        parts, last = [np.empty(0)], state
        for piece, passed, last in self._follow(state, ids):  # noqa: B007 - the last one is wanted
            rows = passed.log_probs[:, 0]
            parts.append(rows[np.arange(len(rows)), piece.words[:, 0]].astype(np.float64))
        return np.concatenate(parts), State(last.value)

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[Floats, Ids, State | None]]:
        """Yield blocks of a stream that follows a state: the s^ that predicts each token, tokens, the state after."""
        assert state is not None, "texts are scored side by side"
        for piece, passed, last in self._follow(state, stream.ids):
            x = piece.inputs.vectors(self.parameters)
            words = piece.words[:, 0].astype(np.int32)
            yield np.concatenate([passed.states, x], axis=2)[:, 0], words, last

    def _follow(self, state: State, ids: Ids) -> Iterator[tuple[Piece, Forward, State]]:
        """Yield pieces (steps, 1) of a text that follows a state, what was found there, and the state after each."""
        (q, _), words = self._take_apart([state]), state.parts(2)[0]
        if not len(ids):
            return
        text = self._text(Stream.following(ids, words))
        size, begin = self._steps(1), len(words)
        for i in range(0, len(ids), size):
            end = min(i + size, len(ids))
            piece = text.piece(np.arange(begin + i, begin + end)[:, None])
            # a state without tokens before it is not the first place of a sequence
            seen = (piece.words != self.joint.unknown).astype(np.float32)
            piece = piece._replace(live=np.ones_like(piece.live), seen=seen)
            passed = forward(self.parameters, piece, q)
            q = passed.after
            yield piece, passed, self._state((*words, *ids[:end].tolist()), q[0])

    def distributions(self, stream: Stream) -> Iterator[npt.NDArray[np.float32]]:
        text, firsts, types = self._text(stream), stream.firsts, self.n_types
        most, offsets = rows_of_block(types), stream.offsets
        first = 0
        while first < len(offsets) - 1:
            # as many whole sequences as a block holds, or one in parts
            last = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
            last = max(last, first + 1)
            begin, end = int(offsets[first]), int(offsets[last])
            passes = self._passes(text, np.arange(first, last))
            if last == first + 1:
                for positions, passed in passes:
                    yield np.asarray(passed.log_probs[~firsts[positions]], np.float32)
            else:
                rows = np.empty((end - begin, types), np.float32)
                for positions, passed in passes:
                    there = positions >= 0
                    rows[positions[there] - begin] = passed.log_probs[there]
                yield rows[~firsts[begin:end]]
            first = last

    def _text(self, stream: Stream) -> Text:
        return Text(stream, self.window, self.n, self.joint)

    def _steps(self, texts: int) -> int:
        """Return how many steps of so many texts a piece has."""
        return max(1, _CELLS // (texts * self.n_types))

    def _passes(self, text: Text, sequences: Ints) -> Iterator[tuple[Ints, Forward]]:
        """Yield positions (steps, texts), -1 behind the end of a text, with what was found there.

        Sequences of similar lengths are side by side; those of one sequence come in their order.
        """
        p, offsets = self.parameters, text.stream.offsets
        lengths = np.diff(offsets)[sequences]
        longest_first = np.argsort(-lengths, kind="stable")
        for i in range(0, len(sequences), _TEXTS):
            block = longest_first[i : i + _TEXTS]
            begins, sizes = offsets[sequences[block]], lengths[block]
            q, t = np.zeros((len(block), p.internal), p.outputs.dtype), 0
            while t < sizes[0]:
                n = int(np.count_nonzero(sizes > t))  # the others have ended
                steps = t + np.arange(min(self._steps(n), int(sizes[0]) - t))[:, None]
                positions = np.where(steps < sizes[:n], begins[:n] + steps, -1)
                passed = forward(p, text.piece(positions), q[:n])
                yield positions, passed
                q, t = passed.after, t + len(steps)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {**self.parameters.to_arrays(), **self.joint.arrays()}


# -- texts ------------------------------------------------------------------------------------------


def windows_of(stream: Stream, positions: Ints, n: int, none: int) -> Ints:
    """Return the n tokens before each position, the last first: (..., n); ``none`` where its sequence has none."""
    words, present = stream.before(positions, n)
    return np.where(present, words, none)


class Text:
    """A stream, the first token of each sequence being context only; ``n`` feature vectors are asked for at a place."""

    def __init__(self, stream: Stream, window: int, n: int, joint: JointTokens) -> None:
        self.stream, self.window, self.n, self.joint = stream, window, n, joint
        self._firsts = stream.firsts

    def inputs(self, positions: Ints) -> Inputs:
        """Return the tokens before some positions."""
        unknown = self.joint.unknown
        return Inputs.of(
            windows_of(self.stream, positions, self.window, unknown), self.n, self.joint
        )

    def piece(self, positions: Ints) -> Piece:
        """Return the places at positions (steps, texts), -1 where a text has ended."""
        there = positions >= 0
        words = np.where(there, self.stream.ids[positions], 0)
        live = there & ~self._firsts[positions]
        seen = live & (words != self.joint.unknown)
        return Piece(
            self.inputs(positions), words, live.astype(np.float32), seen.astype(np.float32)
        )


def side_by_side(stream: Stream, texts: int) -> _Int64s:
    """Return the positions of a stream cut into ``texts`` parts: (steps, texts), -1 behind the end."""
    steps = -(-len(stream.ids) // texts)
    found = np.arange(steps)[:, None] + steps * np.arange(texts)
    return np.where(found < len(stream.ids), found, -1)


class Pieces(NamedTuple):
    """Steps of a text in their order, as `tacenda.fitting` takes batches; a batch is (first step, end).

    In the first of ``epochs`` epochs a batch has ``first`` steps, in the last ``last``.
    """

    positions: _Int64s  # (steps, texts)
    ids: Ints
    first: int
    last: int
    epochs: int

    def length(self, epoch: int) -> int:
        """Return how many steps a batch of an epoch has."""
        share = epoch / max(self.epochs - 1, 1)
        grown: float = self.first * (self.last / self.first) ** share
        return max(1, round(grown))

    def n_batches(self, epoch: int) -> int:
        return -(-len(self.positions) // self.length(epoch))

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the batches of an epoch without the first ``skip``."""
        length, steps = self.length(epoch), len(self.positions)
        for begin in range(skip * length, steps, length):
            yield begin, min(begin + length, steps)

    def fingerprint(self) -> str:
        return fingerprint_arrays(
            (self.positions, self.ids), "in order", self.first, self.last, self.epochs
        )


# -- training ---------------------------------------------------------------------------------------


def initial_parameters(
    settings: StateSpaceLMSettings, counts: npt.NDArray[np.integer[Any]], unknown: int, runs: int
) -> Parameters:
    """Draw small numbers; the internal state begins as sums that fade, and biases as those of a unigram model.

    The vectors of runs begin as zeros.
    """
    rng, advanced = np.random.default_rng([settings.seed, 1]), settings.advanced
    types, q, state = len(counts), settings.internal, settings.internal + settings.inputs

    def normal(*shape: int) -> npt.NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32) * np.float32(_SPREAD)

    transition = normal(q, state)
    if settings.training == "gradient":
        transition[:, :q] /= np.float32(
            np.sqrt(max(q, 1))
        )  # so that the sum of both fades, however wide it is
        transition[:, :q] += np.float32(_MEMORY) * np.eye(q, dtype=np.float32)
    outputs, features = normal(types, state), normal(types, settings.features)
    if settings.training == "gradient":
        # what was read passes through B twice on its way to a prediction: where B is small it is slow to be learnt, and
        # where G = variance B B' is large a step of ascent from the predicted state overshoots
        outputs[:, :q] *= np.float32(np.sqrt(_REACH / (advanced.variance * max(q, 1))) / _SPREAD)
        features *= np.float32(_LARGER)
    features[unknown] = 0
    some = counts + _FEW
    biases = np.log(some / some.sum()) if advanced.biases else np.zeros(types)
    joint = np.zeros((runs, advanced.joint_width), np.float32)
    return Parameters(
        transition,
        outputs,
        features,
        biases[:, None].astype(np.float32),
        joint,
        variance=advanced.variance,
        exact=settings.inference == "map",
    )


class GradientTrainer(Trainer):
    """A model under training on the likelihood of the text, by AdaGrad with an accumulator for each row of a matrix.

    A batch is (first step, end) of the text. The state at the end of a batch is that before the next; an epoch begins
    with a state of zeros. Gradients go back through the states of a batch; what came before it is taken for constant.
    """

    def __init__(
        self,
        settings: StateSpaceLMSettings,
        parameters: Parameters,
        joint: JointTokens,
        text: Stream,
        positions: Ints,
        valid: Stream | None,
    ) -> None:
        self.current, self.joint = parameters, joint
        self.read = Text(text, settings.window, settings.order - 1, joint)
        self.positions = positions
        self.before = np.zeros((positions.shape[1], self._carried()), parameters.outputs.dtype)
        tables = dict(parameters.items())
        sums = {**dict.fromkeys(tables, _SUM), "joint": settings.advanced.joint_sum}
        rest = {"before": self.before}
        super().__init__(settings, tables, text, valid, sums=sums, rest=rest)

    def _carried(self) -> int:
        """Return how many numbers of each text go from one batch to the next."""
        return self.current.internal

    def step(self, batch: tuple[int, int], learning_rate: float) -> StepResult:
        """Take one step on a piece of the text."""
        begin, end = batch
        piece = self.read.piece(self.positions[begin:end])
        if begin == 0:
            self.before[:] = 0
        with np.errstate(over="ignore", invalid="ignore"):  # a fit that diverges shows in its loss
            loss, norm = self._learn(piece, learning_rate)
        self.steps += 1
        return StepResult(loss, float(piece.live.sum()), norm)

    def predictor(self) -> StateSpacePredictor:
        return StateSpacePredictor(self.current, self.joint, self.settings, self.boundary)

    def _learn(self, piece: Piece, learning_rate: float) -> tuple[float, float | None]:
        """Change the parameters; return the summed loss of the piece, and the norm of the gradient where it has one."""
        piece, keep = self._drop(piece)
        found = forward(self.current, piece, self.before, keep)
        loss, gradients = backward(self.current, piece, found, keep)
        self.before[:] = found.after
        moved = {name: self._known(name, each) for name, each in gradients.items()}
        mean = 1 / max(float(piece.live.sum()), 1.0)
        norm = mean * float(np.sqrt(sum(float((g * g).sum()) for _, g in moved.values())))
        share = mean * min(1.0, _CLIP_NORM / max(norm, 1e-30))
        for name, (rows, gradient) in moved.items():
            if gradient.size:
                # A is applied again and again: whole rows that move at once make it unstable
                slow = np.sqrt(gradient.shape[1]) if name == "transition" else 1.0
                self.move(name, rows, gradient * np.float32(share), learning_rate / float(slow))
        return loss, norm

    def _known(self, name: str, gradient: Gradient) -> Gradient:
        """Leave out what is not learned: the feature vector of an unknown token, and biases where there are none."""
        rows, values = gradient
        if name == "features" and rows is not None:
            known = rows != self.joint.unknown
            return rows[known], values[known]
        if name == "biases" and not self.settings.advanced.biases:
            return rows, values[:0]
        return gradient

    def _drop(self, piece: Piece) -> tuple[Piece, Floats | None]:
        """Draw what this step leaves out: the piece with fewer runs, and factors of the elements of the states.

        A text that is new has not all the runs that the text of training always has; so some places go without those
        of a random length and longer.
        """
        settings = self.settings
        rng = np.random.default_rng([settings.seed, 2, self.steps])
        share = settings.advanced.joint_dropout
        runs, keep = piece.inputs.runs, None
        if runs.shape[-1] and share:
            stays = np.logical_and.accumulate(rng.random(runs.shape) >= share, axis=-1)
            piece = piece._replace(inputs=piece.inputs._replace(runs=np.where(stays, runs, -1)))
        if settings.dropout:
            shape = (*piece.words.shape, self.current.outputs.shape[1])
            keep = dropout_mask(shape, settings.dropout, rng)
        return piece, keep


class RulesTrainer(GradientTrainer):
    """The rules of the paper: each matrix a step towards the states that were found (eqs 10 to 12).

        A += rate mean (s_q(t) - A s(t-1)) s(t-1)' / variance,    B += rate mean (x(t) - x^(t)) s(t)'
        C += rate mean sum_i (s_l,i(t) - C x(t-i)) x(t-i)' / variance

    s(t) is the state after its token was read, and x^(t) what is predicted from it. Eq 12 prints x(t-n) for x(t-i).
    Means over a batch stand for the paper's sums, so that a rate does not depend on the batch. After a step a matrix
    whose squares sum to more than ``norm_limit`` is scaled down to it (section 2.4).
    """

    def _carried(self) -> int:
        return int(self.current.outputs.shape[1])

    def _learn(self, piece: Piece, learning_rate: float) -> tuple[float, float | None]:
        p, n_q = self.current, self.current.internal
        product, x = p.product, piece.inputs.vectors(p)
        sums = {name: np.zeros_like(table) for name, table in p.items()}
        of_features, loss = np.zeros_like(x), 0.0
        for t in range(len(x)):
            q = np.clip(self.before @ p.transition.T, -LIMIT, LIMIT)
            predicted = np.concatenate([q, x[t]], axis=1)
            scores = predicted @ p.outputs.T + p.biases[:, 0]
            rows = log_softmax(scores.copy())
            loss -= float((rows[np.arange(len(rows)), piece.words[t]] * piece.live[t]).sum())
            e, _ = read(rows, scores, piece.words[t], piece.seen[t], product)
            moved = e @ p.outputs  # (s - s^) / variance
            s = predicted + p.variance * moved
            sums["transition"] += moved[:, :n_q].T @ self.before
            sums["outputs"] += e.T @ s
            sums["biases"] += e.sum(axis=0)[:, None]
            of_features[t] = moved[:, n_q:]
            self.before[:] = s * piece.live[t][:, None]
        width = p.features.shape[1]
        words, changes = sum_by_row(piece.inputs.words.ravel(), of_features.reshape(-1, width))
        sums["features"][words] = changes
        self._follow(sums, learning_rate / max(float(piece.live.sum()), 1.0))
        return loss, None

    def _follow(self, sums: dict[str, Floats], rate: float) -> None:
        sums["features"][self.joint.unknown] = 0
        if not self.settings.advanced.biases:
            sums["biases"][:] = 0
        for name, change in sums.items():
            table = getattr(self.current, name)
            table += np.float32(rate) * change
            squares = float((table.astype(np.float64) ** 2).sum())
            if name != "biases" and squares > self.settings.advanced.norm_limit:
                table *= np.float32(np.sqrt(self.settings.advanced.norm_limit / squares))
