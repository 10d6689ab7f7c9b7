"""`StateSpaceLM`: a softmax over the next token from a linear state (Siivola and Honkela 2003).

    s^(t) = [q(t); l(t-1); ...; l(t-n); j(t)],    q(t) = A s(t-1),    l(t-i) = C x(t-i)       (eqs 4 and 5)
    P(y(t) = w | s) = exp(B s + b)_w / sum_v exp(B s + b)_v                                   (eq 3, with a bias)

x(t) is the indicator vector of a token, and zero for an unknown one and where there is none. j(t) is the sum of the
vectors of the runs of tokens that end at t - 1 (not in the paper; see `JointTokens`). The matrix A takes the whole
state, as eq 10 and the discussion of the paper have it; its eq 5 prints N_q columns.

At every place the state s^ is predicted, the token y is scored and read, and the next internal state is computed:

    u = B (keep o s^) + b,    log P(y) = log softmax(u)_y,    q(t+1) = A s(t),    s(t) = s^ + Lambda B' e(u, y)

``keep`` is dropout. e is x - softmax(u), one step of ascent from the predicted state, or that of the most probable
state given the token (`tacenda_lm.state_inference`). A token that is unknown says nothing: e = 0 (section 2.5).

Everything that depends on the last tokens alone is computed for a whole piece in matrix products; the loop over time
has only products with N_q columns. Gradients go back through e too: through a softmax for one step; for the most
probable state by the implicit function theorem, which needs one more system with the matrix of a Newton step,
(I + D G) w = D de. They are written out, because autograd takes 1.7 to 1.8 times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Float32, Int64, take
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.fitting import FitRun, StepResult
from tacenda.offsets import runs
from tacenda.settings import Group, Settings, configured_by, group, option
from tacenda_lm import options
from tacenda_lm.joint_tokens import Ints, JointTokens
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.state_inference import (
    SMALL_VOCABULARY,
    Floats,
    Product,
    compute_errors,
    find_most_probable,
    make_product,
    multiply_by_covariance,
    solve,
)
from tacenda_lm.states import State, log_softmax, rows_of_block, vector_of, window_of
from tacenda_lm.streams import Contexts, Predictor, Stream, StreamModel, streams_of
from tacenda_lm.training import (
    Gradient,
    Pieces,
    Trainer,
    draw_dropout_mask,
    schedule_rate,
    sum_by_row,
    train,
)

LIMIT = 1e6  # bound of the elements of an internal state, so that an unstable recurrence cannot overflow

# options that only one way of training has
_GRADIENT_OPTIONS = ("dropout",)
_RULES_OPTIONS = ("advanced.last_piece", "advanced.norm_limit")
_JOINT_OPTIONS = tuple(f"advanced.joint_{name}" for name in ("width", "dropout", "sum"))

# scoring
_TEXTS_PER_BLOCK = 64  # scored side by side
_LOG_PROBS_PER_PIECE = 1 << 18

# what training begins with
_INITIAL_SCALE = 0.1  # of the elements of matrices
_FEATURES_SCALE = 5  # of feature vectors, relative to other matrices
_INITIAL_REACH = 1.0  # of a token's e on its own score through the internal state
_INITIAL_MEMORY = 0.8  # share of an element of the internal state that is left after a token
_ADDED_COUNT = 0.1  # added to the count of every token, so that none is impossible
_INITIAL_SUM = 1e-6  # of squares, in AdaGrad

_MAX_GRADIENT_NORM = 1.0  # of the mean gradient of a token; a longer gradient is scaled down
_MAX_WARMUP_STEPS = 50  # in which the learning rate rises
_MIN_TOKENS_PER_STREAM = 16


@dataclass(frozen=True, kw_only=True)
class StateSpaceLMAdvanced(Settings):
    """Options of `StateSpaceLM` that few need to change."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"clip_norm": ..., "joint_min_count": ...}
    )

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
        "the longest run of last tokens that has a feature vector of its own, as if it were one token; runs that do "
        "not occur in the training text have zero vectors, like unknown tokens; 1, as in the paper, uses no runs",
        16,
    )
    joint_width: int = options.width(25, "elements of the feature vector of a run")
    joint_sum: float = option(
        1e-5,
        "the sum of squares that AdaGrad begins with for the vector of a run, 1e-6 for everything else: the larger it "
        "is, the less is learned from rare runs",
        above=0,
        at_most=1e6,
    )
    joint_dropout: float = options.dropout(
        0.3,
        "share of the places that ignore all runs in training; of the others, the same share ignores runs of three "
        "tokens and more, and so on",
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
class StateSpaceLMSettings(options.SeededSettings):
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
        "how a token that was read corrects the state: by one step of ascent from the predicted state, or to the most "
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
    advanced: Group[StateSpaceLMAdvanced] = group(StateSpaceLMAdvanced)

    @property
    def window(self) -> int:
        """The number of last tokens that a state holds."""
        joint = self.advanced.joint_order
        return max(self.order - 1, joint if joint > 1 else 0)

    @property
    def inputs(self) -> int:
        """The number of elements of the state that depend on the last tokens only."""
        of_runs = self.advanced.joint_width if self.advanced.joint_order > 1 else 0
        return (self.order - 1) * self.features + of_runs

    def idle(self) -> Mapping[str, str]:
        of_others = _RULES_OPTIONS if self.training == "gradient" else _GRADIENT_OPTIONS
        reasons = dict.fromkeys(of_others, f'with training="{self.training}"')
        if self.advanced.joint_order == 1:
            reasons |= dict.fromkeys(_JOINT_OPTIONS, "with joint_order=1")
        if self.order == 1:
            reasons["features"] = "with order=1"
        if not self.internal and self.training == "gradient":
            # the rules learn from the whole state after its token was read, gradients only from what it predicts
            reasons |= dict.fromkeys(
                ("inference", "advanced.variance"), "without an internal state"
            )
        return reasons


class StateSpaceLM(StreamModel):
    """A state-space language model.

        s^(t) = [A s(t-1); C x(t-1); ...; C x(t-n)],    P(y(t) | s^(t)) = softmax(B s^(t) + b)

    (Siivola and Honkela 2003, eqs 3 to 5, and a bias.) The state consists of an internal part, which is computed from
    the last state, and the feature vectors of the last n = order - 1 tokens. A token that was read corrects the state
    that was predicted. An unknown token is a zero vector and corrects nothing (section 2.5). To get the models of the
    paper, set ``training="rules"``, ``inference="map"`` and, in ``advanced``, ``biases=False`` and ``norm_limit=10``.
    """

    name: ClassVar[str] = "state_space"
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
                "StateSpaceLM: with order=1 and internal=0 the state is empty: increase one of them"
            )

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        settings, advanced = self.settings, self.settings.advanced
        vocabulary = corpus.vocabulary
        text, held_out = streams_of(corpus, valid, across=settings.across_sentences)
        types, unknown = len(vocabulary), vocabulary.unknown_id
        joint = JointTokens([], types, unknown)
        if advanced.joint_order > 1:
            places = np.flatnonzero(~text.firsts)
            windows = read_windows(text, places, advanced.joint_order, unknown)
            joint = JointTokens.of(windows, types, unknown)
        parameters = draw_parameters(settings, corpus.type_counts, unknown, len(joint))
        streams = max(1, min(advanced.streams, len(text.ids) // _MIN_TOKENS_PER_STREAM))
        by_rules = settings.training == "rules"
        last = advanced.last_piece if by_rules else advanced.piece
        source = Pieces(text, streams, advanced.piece, last, settings.epochs)
        trainer_class = RulesTrainer if by_rules else GradientTrainer
        trainer = trainer_class(settings, parameters, joint, source, held_out)
        rate = schedule_rate(
            settings.learning_rate, settings.epochs, source, warm_up=_MAX_WARMUP_STEPS
        )
        history = train(trainer, source, run, rate)
        self._vocabulary, self._predictor = vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

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


# -- parameters, and the inputs of a state -----------------------------------------------------------


class Parameters(Arrays):
    """The learned matrices, all of one dtype; a state has internal + inputs elements."""

    transition: Float32[Array, "internal state", options.BOUNDED_WEIGHTS]  # A
    outputs: Float32[Array, "types state", options.BOUNDED_WEIGHTS]  # B
    # C, transposed; the row of <unk> is zero
    features: Float32[Array, "types features", options.BOUNDED_WEIGHTS]
    biases: Float32[Array, "types 1", options.BOUNDED_WEIGHTS]  # b
    # the vectors of runs of tokens
    joint: Float32[Array, "runs joint_width", options.BOUNDED_WEIGHTS]
    variance: float = 1.0  # the diagonal of Lambda
    exact: bool = False  # whether a token that was read corrects the state to the most probable one

    @property
    def internal(self) -> int:
        """Elements of the internal state, N_q."""
        return len(self.transition)

    def compute_gain(self) -> Floats:
        """Return Lambda B A' (types, internal), by which e changes the next internal state."""
        gain: Floats = (self.outputs @ self.transition.T) * self.outputs.dtype.type(self.variance)
        return gain

    @property
    def product(self) -> Product | None:
        """The multiplication by G, which finds the most probable states; None if states are not the most probable."""
        return make_product(self.outputs, self.variance) if self.exact else None


class Inputs(NamedTuple):
    """The tokens before some places of a text, which determine the predicted state except its internal part."""

    words: Ints  # (..., order - 1), the last token first, <unk> where there is none
    runs: Ints  # (..., joint_order - 1), rows of the vectors of runs, -1 where there is none

    @classmethod
    def of(cls, windows: Ints, n: int, joint: JointTokens) -> Inputs:
        """Return the inputs of windows (..., window) of the last tokens, the last first."""
        return cls(windows[..., :n], joint.find_rows(windows))

    def look_up(self, p: Parameters) -> Floats:
        """Return [l(t-1); ...; l(t-n); j(t)] (..., inputs)."""
        *shape, n = self.words.shape
        parts = [p.features[self.words].reshape(*shape, n * p.features.shape[1])]
        if self.runs.shape[-1]:
            table = np.vstack([p.joint, np.zeros_like(p.joint, shape=(1, p.joint.shape[1]))])
            parts.append(table[self.runs].sum(axis=-2))  # -1 is the row of zeros
        return np.concatenate(parts, axis=-1)


# -- pieces of texts ---------------------------------------------------------------------------------


class Piece(NamedTuple):
    """Places of several texts side by side; every field but ``inputs`` is (steps, texts)."""

    inputs: Inputs
    words: Ints  # y, the tokens at these places
    live: Floats  # 1; 0 at a token that is context only, after which the state is zero
    seen: Floats  # 1; 0 at a token that is unknown or context only


class Forward(NamedTuple):
    """Results of `forward`, with the values that `backward` needs."""

    log_probs: Floats  # (steps, texts, types), natural
    after: Floats  # (texts, internal): the internal state after the last token
    states: Floats  # q (steps, texts, internal)
    errors: Floats  # e (steps, texts, types); empty without an internal state
    # (steps, texts, types): the probabilities at which e was computed; empty likewise
    reached: Floats


def read(
    log_probs: Floats, scores: Floats, words: Ints, seen: Floats, product: Product | None
) -> tuple[Floats, Floats]:
    """Return e of tokens that are read, and the probabilities at which it is computed, both (states, types)."""
    if product is not None:
        return find_most_probable(scores, words, seen, product)
    reached = np.exp(log_probs)
    return compute_errors(reached, words, seen), reached


def forward(p: Parameters, piece: Piece, before: Floats, keep: Floats | None = None) -> Forward:
    """Score a piece, from the internal states ``before`` (texts, internal) at its first places.

    ``keep`` (steps, texts, state) are factors of the elements of the predicted states, for dropout.
    """
    n_q = p.internal
    x = piece.inputs.look_up(p)
    rows = (x if keep is None else x * keep[..., n_q:]) @ p.outputs[:, n_q:].T + p.biases[:, 0]
    if not n_q:
        none = rows[:, :, :0]
        return Forward(log_softmax(rows), before, none, none, none)
    from_inputs = x @ p.transition[:, n_q:].T
    states, dtype = np.empty((*piece.words.shape, n_q), rows.dtype), rows.dtype
    errors, reached = np.empty_like(rows), np.empty_like(rows)
    q, product = np.array(before, dtype), p.product
    if not p.exact and rows.shape[2] <= SMALL_VOCABULARY:  # the loop below in compiled code
        from tacenda_lm.compiled import read_side_by_side  # imports numba

        def convert(*arrays: Floats) -> tuple[Floats, ...]:
            return tuple(np.ascontiguousarray(array, dtype) for array in arrays)

        read_side_by_side(
            np.ascontiguousarray(piece.words, np.int64),
            dtype.type(LIMIT),
            *convert(from_inputs),
            convert(p.outputs[:, :n_q], p.transition[:, :n_q], p.compute_gain()),
            convert(
                piece.live, piece.seen, np.empty((0, 0, 0)) if keep is None else keep[..., :n_q]
            ),
            rows,
            q,
            (states, errors),
        )
        return Forward(rows, q, states, errors, np.exp(rows))
    # computing the gain costs as much as correcting the states of so many places without it
    gain = p.compute_gain() if len(rows) * len(q) > n_q else None
    for t in range(len(rows)):
        states[t] = q
        rows[t] += (q if keep is None else q * keep[t, :, :n_q]) @ p.outputs[:, :n_q].T
        scores = rows[t].copy() if p.exact else rows[t]
        log_softmax(rows[t])
        errors[t], reached[t] = read(rows[t], scores, piece.words[t], piece.seen[t], product)
        e = errors[t]
        by_e = p.variance * (e @ p.outputs) @ p.transition.T if gain is None else e @ gain
        q = q @ p.transition[:, :n_q].T + from_inputs[t] + by_e
        q = np.clip(q, -LIMIT, LIMIT) * piece.live[t][:, None]
    return Forward(rows, q, states, errors, reached)


def backward(
    p: Parameters, piece: Piece, passed: Forward, keep: Floats | None = None
) -> tuple[float, dict[str, Gradient]]:
    """Return the summed -log P of the live places, and its gradients by name; arguments as of `forward`.

    The state before the piece is a constant.
    """
    n_q, (steps, texts) = p.internal, piece.words.shape
    flat = steps * texts, -1
    x = piece.inputs.look_up(p)
    d_scores = np.exp(passed.log_probs) * piece.live[..., None]
    at = np.arange(steps)[:, None], np.arange(texts), piece.words
    loss = -float((passed.log_probs[at] * piece.live).sum(dtype=np.float64))
    d_scores[at] -= piece.live
    d_x, d_transition = np.zeros_like(x), np.zeros_like(p.transition)
    d_outputs = np.zeros_like(p.outputs)
    if n_q:
        # by A s (steps, texts, internal); this changes d_scores too
        d_next = _go_back(p, piece, passed, keep, d_scores, d_transition, d_outputs)
        back = d_next.reshape(flat).T
        d_transition[:, :n_q] += back @ passed.states.reshape(flat)
        d_transition[:, n_q:] += back @ x.reshape(flat)
        d_x += d_next @ p.transition[:, n_q:]
        seen_by_output = passed.states if keep is None else passed.states * keep[..., :n_q]
        d_outputs[:, :n_q] += d_scores.reshape(flat).T @ seen_by_output.reshape(flat)
    seen_by_output = x if keep is None else x * keep[..., n_q:]
    d_outputs[:, n_q:] += d_scores.reshape(flat).T @ seen_by_output.reshape(flat)
    back = d_scores @ p.outputs[:, n_q:]
    d_x += back if keep is None else back * keep[..., n_q:]
    n, width = piece.inputs.words.shape[-1], p.features.shape[1]
    d_features = d_x[..., : n * width]
    gradients: dict[str, Gradient] = {
        "transition": (None, d_transition),
        "outputs": (None, d_outputs),
        "features": sum_by_row(piece.inputs.words.ravel(), d_features.reshape(-1, width)),
        "biases": (None, d_scores.reshape(flat).sum(axis=0)[:, None]),
    }
    if piece.inputs.runs.shape[-1]:
        stored = np.nonzero(piece.inputs.runs >= 0)
        d_joint = d_x[stored[:2]][:, n * width :]
        gradients["joint"] = sum_by_row(piece.inputs.runs[stored], d_joint)
    return loss, gradients


def _go_back(
    p: Parameters,
    piece: Piece,
    passed: Forward,
    keep: Floats | None,
    d_scores: Floats,
    d_transition: Floats,
    d_outputs: Floats,
) -> Floats:
    """Propagate gradients back through the internal states, and return those by A s (steps, texts, internal).

    What comes through e is added to ``d_scores``, ``d_transition`` and ``d_outputs``, the gradients by u, A and B.
    """
    n_q, gain, product = p.internal, p.compute_gain(), p.product
    d_next, d_gain = np.empty_like(passed.states), np.zeros_like(gain)
    d_q = np.zeros_like(passed.after)
    for t in reversed(range(len(d_next))):
        g, errors = d_next[t], passed.errors[t]
        np.multiply(d_q, piece.live[t][:, None], out=g)
        d_gain += errors.T @ g
        # w is minus the gradient by u that comes through e
        w = multiply_by_covariance(passed.reached[t], piece.seen[t], g @ gain.T)
        if product is not None:
            w = solve(passed.reached[t], piece.seen[t], product, w).d
            # the softmax is of u + G e, and G = variance B B'
            d_outputs -= p.variance * (w.T @ (errors @ p.outputs))
            d_outputs -= p.variance * (errors.T @ (w @ p.outputs))
        d_scores[t] -= w
        back = d_scores[t] @ p.outputs[:, :n_q]
        d_q = g @ p.transition[:, :n_q] + (back if keep is None else back * keep[t, :, :n_q])
    # gain = variance B A'
    d_transition += p.variance * (d_gain.T @ p.outputs)
    d_outputs += p.variance * (d_gain @ p.transition)
    return d_next


# -- prediction -------------------------------------------------------------------------------------


class StateSpacePredictor(Predictor):
    """A fitted model, whose vectors are the predicted states s^.

    The value of a state is a pair: the last tokens, oldest first, and the bytes of the internal state q after them.
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
        return self._make_state((self.boundary,), np.zeros(self.parameters.internal))

    def after(self, state: State, word: int) -> State:
        q, inputs = self._unpack([state])
        inputs = Inputs(inputs.words[None], inputs.runs[None])  # of one step
        live = np.ones((1, 1), np.float32)
        piece = Piece(inputs, np.array([[word]]), live, live * (word != self.joint.unknown))
        q_after = forward(self.parameters, piece, q).after[0]
        return self._make_state((*state.parts(2)[0], word), q_after)

    def vectors(self, states: Sequence[State]) -> Floats:
        """Return s^ of each state, (states, internal + inputs)."""
        q, inputs = self._unpack(states)
        return np.concatenate([q, inputs.look_up(self.parameters)], axis=1)

    def rows(self, vectors: Floats) -> npt.NDArray[np.float32]:
        if not len(vectors):
            return np.empty((0, self.n_types), np.float32)
        p = self.parameters
        return np.asarray(log_softmax(vectors @ p.outputs.T + p.biases[:, 0]), np.float32)

    def _make_state(self, words: tuple[int, ...], q: Floats) -> State:
        """Return the state after some tokens, with the internal state q (internal,)."""
        last = words[max(len(words) - self.window, 0) :]
        return State((last, np.asarray(q, np.float32).tobytes()))

    def _unpack(self, states: Sequence[State]) -> tuple[Floats, Inputs]:
        """Return q (states, internal) and the inputs of states. Raises DataError for states of another model."""
        p, parts = self.parameters, [state.parts(2) for state in states]
        windows = [window_of(words, self.window, self.n_types) for words, _ in parts]
        words, present, _ = Contexts.of_windows(windows, self.window)
        q = np.empty((len(states), p.internal), p.outputs.dtype)
        for row, (_, data) in zip(q, parts, strict=True):
            row[:] = vector_of(data, np.float32, p.internal)
        return q, Inputs.of(np.where(present, words, self.joint.unknown), self.n, self.joint)

    # -- whole texts -------------------------------------------------------------------------------

    def score(self, stream: Stream) -> Float64:
        scores = np.zeros(len(stream.ids))
        sequences = np.arange(len(stream.offsets) - 1)
        text = Text(stream, self.window, self.n, self.joint)
        for positions, passed in self._forward_blocks(text, sequences):
            inside = positions >= 0
            words = np.where(inside, stream.ids[positions], 0)
            of_words = np.take_along_axis(passed.log_probs, words[..., None], 2)[..., 0]
            scores[positions[inside]] = of_words[inside]
        return scores[~stream.firsts]

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        parts, last = [np.empty(0)], state
        for piece, passed, after in self._forward_from(state, ids):
            rows = passed.log_probs[:, 0]
            parts.append(rows[np.arange(len(rows)), piece.words[:, 0]].astype(np.float64))
            last = after
        return np.concatenate(parts), State(last.value)

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[Floats, Ids, State | None]]:
        """Yield blocks of a stream: the s^ that predicts each token, tokens, and the state after, if one is given.

        `score` and `distributions` of this class score texts side by side, and do not call it.
        """
        if state is None:
            for begin, end in pairwise(stream.offsets.tolist()):
                first = self._make_state(
                    (int(stream.ids[begin]),), np.zeros(self.parameters.internal)
                )
                rest = Stream.following(stream.ids[begin + 1 : end])
                yield from ((x, words, None) for x, words, _ in self.passes(rest, first))
            return
        for piece, passed, last in self._forward_from(state, stream.ids):
            x = piece.inputs.look_up(self.parameters)
            words = piece.words[:, 0].astype(np.int32)
            yield np.concatenate([passed.states, x], axis=2)[:, 0], words, last

    def _forward_from(self, state: State, ids: Ids) -> Iterator[tuple[Piece, Forward, State]]:
        """Yield pieces (steps, 1) of a text that follows a state, their results, and the state after each."""
        (q, _), words = self._unpack([state]), state.parts(2)[0]
        if not len(ids):
            return
        text = Text(Stream.following(ids, words), self.window, self.n, self.joint)
        size, begin = self._count_steps(1), len(words)
        for i in range(0, len(ids), size):
            end = min(i + size, len(ids))
            piece = text.read_piece(np.arange(begin + i, begin + end)[:, None])
            # the first token is read too if the state has no tokens before it
            seen = (piece.words != self.joint.unknown).astype(np.float32)
            piece = piece._replace(live=np.ones_like(piece.live), seen=seen)
            passed = forward(self.parameters, piece, q)
            q = passed.after
            yield piece, passed, self._make_state((*words, *ids[:end].tolist()), q[0])

    def distributions(self, stream: Stream) -> Iterator[npt.NDArray[np.float32]]:
        text = Text(stream, self.window, self.n, self.joint)
        offsets, firsts, types = stream.offsets, stream.firsts, self.n_types
        # a block has whole sequences, or is a part of one
        for first, last in runs(offsets, rows_of_block(types)):
            begin, end = int(offsets[first]), int(offsets[last])
            blocks = self._forward_blocks(text, np.arange(first, last))
            if last == first + 1:
                for positions, passed in blocks:
                    yield np.asarray(passed.log_probs[~firsts[positions]], np.float32)
            else:
                rows = np.empty((end - begin, types), np.float32)
                for positions, passed in blocks:
                    inside = positions >= 0
                    rows[positions[inside] - begin] = passed.log_probs[inside]
                yield rows[~firsts[begin:end]]

    def _count_steps(self, texts: int) -> int:
        """Return the number of steps of a piece of so many texts."""
        return max(1, _LOG_PROBS_PER_PIECE // (texts * self.n_types))

    def _forward_blocks(self, text: Text, sequences: Ints) -> Iterator[tuple[Ints, Forward]]:
        """Yield positions (steps, texts), -1 after the end of a text, and the results there.

        Sequences of similar lengths are side by side; the positions of one sequence come in their order.
        """
        p, offsets = self.parameters, text.stream.offsets
        lengths = np.diff(offsets)[sequences]
        longest_first = np.argsort(-lengths, kind="stable")
        for i in range(0, len(sequences), _TEXTS_PER_BLOCK):
            block = longest_first[i : i + _TEXTS_PER_BLOCK]
            begins, sizes = offsets[sequences[block]], lengths[block]
            q, t = np.zeros((len(block), p.internal), p.outputs.dtype), 0
            while t < sizes[0]:
                n = int(np.count_nonzero(sizes > t))  # the others have ended
                steps = t + np.arange(min(self._count_steps(n), int(sizes[0]) - t))[:, None]
                positions = np.where(steps < sizes[:n], begins[:n] + steps, -1)
                passed = forward(p, text.read_piece(positions), q[:n])
                yield positions, passed
                q, t = passed.after, t + len(steps)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {**self.parameters.to_arrays(), **self.joint.arrays()}


# -- texts ------------------------------------------------------------------------------------------


def read_windows(stream: Stream, positions: Ints, n: int, filler: int) -> Ints:
    """Return the n tokens before each position, the last first (..., n), ``filler`` before the start of a sequence."""
    words, present = stream.before(positions, n)
    return np.where(present, words, filler)


class Text:
    """A stream, with the size of a window and the number ``n`` of single tokens that are inputs at each place."""

    def __init__(self, stream: Stream, window: int, n: int, joint: JointTokens) -> None:
        self.stream, self.window, self.n, self.joint = stream, window, n, joint
        self._firsts = stream.firsts

    def read_piece(self, positions: Ints) -> Piece:
        """Return the places at positions (steps, texts), -1 after the end of a text."""
        inside, unknown = positions >= 0, self.joint.unknown
        windows = read_windows(self.stream, positions, self.window, unknown)
        words = np.where(inside, self.stream.ids[positions], 0)
        # the first token of a sequence is context only
        live = inside & ~self._firsts[positions]
        seen = live & (words != unknown)
        inputs = Inputs.of(windows, self.n, self.joint)
        return Piece(inputs, words, live.astype(np.float32), seen.astype(np.float32))


# -- training ---------------------------------------------------------------------------------------


def draw_parameters(
    settings: StateSpaceLMSettings, counts: npt.NDArray[np.integer[Any]], unknown: int, runs: int
) -> Parameters:
    """Draw the parameters that training begins with; ``counts`` (types,) are of the training text.

    Matrices are small random numbers, with which internal states are fading sums. The biases make a unigram model, and
    the vectors of runs are zero.
    """
    rng, advanced = np.random.default_rng([settings.seed, 1]), settings.advanced
    types, q, state = len(counts), settings.internal, settings.internal + settings.inputs

    def draw_normal(*shape: int) -> npt.NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32) * np.float32(_INITIAL_SCALE)

    transition = draw_normal(q, state)
    if settings.training == "gradient":
        # random and diagonal part together shrink a state, however wide it is
        transition[:, :q] /= np.float32(np.sqrt(max(q, 1)))
        transition[:, :q] += np.float32(_INITIAL_MEMORY) * np.eye(q, dtype=np.float32)
    outputs, features = draw_normal(types, state), draw_normal(types, settings.features)
    if settings.training == "gradient":
        # a token that was read passes through B twice on its way to a prediction: a small B is learned slowly, and with
        # a large G = variance B B' a step of ascent from the predicted state overshoots
        reach = np.sqrt(_INITIAL_REACH / (advanced.variance * max(q, 1)))
        outputs[:, :q] *= np.float32(reach / _INITIAL_SCALE)
        features *= np.float32(_FEATURES_SCALE)
    features[unknown] = 0
    smoothed = counts + _ADDED_COUNT
    biases = np.log(smoothed / smoothed.sum()) if advanced.biases else np.zeros(types)
    return Parameters(
        transition,
        outputs,
        features,
        biases[:, None].astype(np.float32),
        joint=np.zeros((runs, advanced.joint_width), np.float32),
        variance=advanced.variance,
        exact=settings.inference == "map",
    )


class GradientTrainer(Trainer):
    """A model under training on the likelihood of the text, by AdaGrad with an accumulator for each row of a matrix.

    Batches come from `Pieces`. The state at the end of a batch is the state before the next; an epoch begins with zero
    states. Gradients go back through the states of a batch; the state before it is a constant.
    """

    def __init__(
        self,
        settings: StateSpaceLMSettings,
        parameters: Parameters,
        joint: JointTokens,
        source: Pieces,
        valid: Stream | None,
    ) -> None:
        self.current, self.joint = parameters, joint
        self.source, text = source, source.text
        self._pieces = Text(text, settings.window, settings.order - 1, joint)
        shape = source.parts, self._count_carried()
        # the states before the next batch
        self._carried = np.zeros(shape, parameters.outputs.dtype)
        tables = dict(parameters.items())
        sums = {**dict.fromkeys(tables, _INITIAL_SUM), "joint": settings.advanced.joint_sum}
        rest = {"before": self._carried}
        super().__init__(settings, tables, text, valid, accumulators=sums, rest=rest)

    def _count_carried(self) -> int:
        """Return the number of elements of a state that the next batch needs."""
        return self.current.internal

    def step(self, batch: tuple[int, int], learning_rate: float) -> StepResult:
        piece = self._pieces.read_piece(self.source.positions(batch))
        if batch[0] == 0:
            self._carried[:] = 0
        with np.errstate(over="ignore", invalid="ignore"):  # a fit that diverges shows in its loss
            loss, norm = self._learn(piece, learning_rate)
        self.steps += 1
        return StepResult(loss, float(piece.live.sum()), norm)

    def predictor(self) -> StateSpacePredictor:
        return StateSpacePredictor(self.current, self.joint, self.settings, self.boundary)

    def _learn(self, piece: Piece, learning_rate: float) -> tuple[float, float | None]:
        """Change the parameters, and return the summed loss of the piece and the norm of the mean gradient, if any."""
        settings, keep = self.settings, None
        rng = np.random.default_rng([settings.seed, 2, self.steps])
        share, runs = settings.advanced.joint_dropout, piece.inputs.runs
        if runs.shape[-1] and share:
            # new text lacks some runs, which the training text never does: some places ignore runs from a random length
            stays = np.logical_and.accumulate(rng.random(runs.shape) >= share, axis=-1)
            piece = piece._replace(inputs=piece.inputs._replace(runs=np.where(stays, runs, -1)))
        if settings.dropout:
            shape = (*piece.words.shape, self.current.outputs.shape[1])
            keep = draw_dropout_mask(shape, settings.dropout, rng)
        found = forward(self.current, piece, self._carried, keep)
        loss, gradients = backward(self.current, piece, found, keep)
        self._carried[:] = found.after
        rows, values = map(np.asarray, gradients["features"])
        known = rows != self.joint.unknown  # the vector of an unknown token stays zero
        gradients["features"] = rows[known], values[known]
        if not settings.advanced.biases:
            del gradients["biases"]
        per_token = 1 / max(float(piece.live.sum()), 1.0)
        squares = sum(float((gradient * gradient).sum()) for _, gradient in gradients.values())
        norm = per_token * float(np.sqrt(squares))
        factor = np.float32(per_token * min(1.0, _MAX_GRADIENT_NORM / max(norm, 1e-30)))
        for name, (table_rows, gradient) in gradients.items():
            if gradient.size:
                # A is applied again and again: whole rows that move at once make it unstable
                slower = float(np.sqrt(gradient.shape[1])) if name == "transition" else 1.0
                self.move(name, table_rows, gradient * factor, learning_rate / slower)
        return loss, norm


class RulesTrainer(GradientTrainer):
    """A model under training by the rules of the paper, which move each matrix towards the states (eqs 10 to 12).

        A += rate mean (s_q(t) - A s(t-1)) s(t-1)' / variance,    B += rate mean (x(t) - x^(t)) s(t)'
        C += rate mean sum_i (s_l,i(t) - C x(t-i)) x(t-i)' / variance

    s(t) is the state after its token was read, and x^(t) the probabilities predicted from it. Eq 12 prints x(t-n) for
    x(t-i). Means over a batch replace the paper's sums, so that a rate does not depend on the batch. After a step, a
    matrix whose squares sum to more than ``norm_limit`` is scaled down to it (section 2.4).
    """

    def _count_carried(self) -> int:
        return int(self.current.outputs.shape[1])

    def _learn(self, piece: Piece, learning_rate: float) -> tuple[float, float | None]:
        p, n_q = self.current, self.current.internal
        product, x = p.product, piece.inputs.look_up(p)
        changes = {name: np.zeros_like(table) for name, table in p.items()}
        d_features, loss = np.zeros_like(x), 0.0
        for t in range(len(x)):
            q = np.clip(self._carried @ p.transition.T, -LIMIT, LIMIT)
            predicted = np.concatenate([q, x[t]], axis=1)
            scores = predicted @ p.outputs.T + p.biases[:, 0]
            rows = log_softmax(scores.copy())
            loss -= float((rows[np.arange(len(rows)), piece.words[t]] * piece.live[t]).sum())
            e, _ = read(rows, scores, piece.words[t], piece.seen[t], product)
            moved = e @ p.outputs  # (s - s^) / variance
            s = predicted + p.variance * moved
            changes["transition"] += moved[:, :n_q].T @ self._carried
            changes["outputs"] += e.T @ s
            changes["biases"] += e.sum(axis=0)[:, None]
            d_features[t] = moved[:, n_q:]
            self._carried[:] = s * piece.live[t][:, None]
        width = p.features.shape[1]
        words, sums = sum_by_row(piece.inputs.words.ravel(), d_features.reshape(-1, width))
        changes["features"][words] = sums
        advanced, rate = self.settings.advanced, learning_rate / max(float(piece.live.sum()), 1.0)
        changes["features"][self.joint.unknown] = 0
        if not advanced.biases:
            changes["biases"][:] = 0
        for name, change in changes.items():
            table = getattr(self.current, name)
            table += np.float32(rate) * change
            squares = float((table.astype(np.float64) ** 2).sum())
            if name != "biases" and squares > advanced.norm_limit:
                table *= np.float32(np.sqrt(advanced.norm_limit / squares))
        return loss, None
