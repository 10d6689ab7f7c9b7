"""`StateSpaceLM`: a softmax over the next token from a linear state (Siivola and Honkela 2003).

    s^(t) = [q(t); l(t-1); ...; l(t-n); j(t)],    q(t) = A s(t-1),    l(t-i) = C x(t-i)       (eqs 4 and 5)
    P(y(t) = w | s) = exp(B s + b)_w / sum_v exp(B s + b)_v                                   (eq 3, with a bias)

x(t) is the indicator vector of a token, and zero for an unknown one and where there is none. j(t) is the sum of the
vectors of the runs of tokens that end at t - 1 (not in the paper; see `JointTokens`). The matrix A takes the whole
state, as eq 10 and the discussion of the paper have it; its eq 5 prints N_q columns.

At every place the state s^ is predicted, the token y is scored and read, and the internal state goes on:

    u = B (keep o s^) + b,    log P(y) = log softmax(u)_y,    q(t+1) = A s(t),    s(t) = s^ + Lambda B' e(u, y)

``keep`` is dropout. e is x - softmax(u), one step of ascent from the predicted state, or that of the most probable
state given the token (eq 9), by Newton's method for many states at once:

    s* = argmax_s  log P(y | s) - (s - s^)' Lambda^-1 (s - s^) / 2,    Lambda = variance I

The gradient is zero where s = s^ + Lambda B' e with the error e = x - softmax(B s + b), so a state is found through
its e, which has one element a token. With the scores u^ = B s^ + b and G = Lambda B B' it is the largest of

    phi(e) = log softmax(u^ + G e)_y - e' G e / 2

which is concave. A Newton step d solves (I + D G) d = x - p - e with p = softmax(u^ + G e), D = diag(p) - p p'. That
matrix is symmetric and positive in the inner product of G, so conjugate gradients in this product solve for d; nothing
is needed of G but its product with vectors, which is a small matrix for letters, and two products with B for words.
A token that is unknown says nothing: e = 0 (section 2.5).

All that depends on the last tokens alone is computed for a whole piece in matrix products; what is left in the loop
over time are products with N_q columns. Gradients go back through e too: through a softmax for one step; for the most
probable state by the implicit function theorem, which asks for one more system with the matrix of a Newton step,
(I + D G) w = D de. They are written out: autograd takes 1.7 to 1.8 times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Float32, Int64, take
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.fitting import FitRun, StepResult
from tacenda.offsets import runs
from tacenda.settings import Group, Settings, configured_by, group, option
from tacenda_lm import options
from tacenda_lm.sequences import Float64, Ids
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

_Int64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]
Product: TypeAlias = Callable[[Floats], Floats]
"""Rows e (states, types) to the rows G e."""

LIMIT = 1e6  # no element of an internal state exceeds it, so that a recurrence which is not stable cannot overflow
SMALL = 512  # types, up to which G is kept as a matrix, and a loop over time is compiled
_STEPS = 30  # of Newton's method, at most; two to four are usual
_HALVED = 20  # times that a step is halved, at most
_SOLVES = 60  # steps of conjugate gradients, at most
_TOLERANCE = {4: 1e-5, 8: 1e-10}  # length of the gradient at the end, by the bytes of a number

#: Options that only one way of training has.
_OF_GRADIENTS = ("dropout",)
_OF_RULES = ("advanced.last_piece", "advanced.norm_limit")
_OF_RUNS = tuple(f"advanced.joint_{name}" for name in ("width", "dropout", "sum"))
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
        "the longest run of last tokens that has its own feature vector, as if it were one token; runs that the "
        "training text does not have, like unknown tokens, are zero vectors; 1, as in the paper, uses no runs",
        16,
    )
    joint_width: int = options.width(25, "elements of the feature vector of a run")
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
        "without runs of three and longer, and so on",
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
    advanced: Group[StateSpaceLMAdvanced] = group(StateSpaceLMAdvanced)

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
            joint = JointTokens.of(windows, types, unknown)
        parameters = draw_parameters(settings, corpus.type_counts, unknown, len(joint))
        parts = max(1, min(advanced.streams, len(text.ids) // _SHORT))
        rules = settings.training == "rules"
        last = advanced.last_piece if rules else advanced.piece
        source = Pieces(text, parts, advanced.piece, last, settings.epochs)
        kind = RulesTrainer if rules else GradientTrainer
        trainer = kind(settings, parameters, joint, source, held_out)
        rate = schedule_rate(settings.learning_rate, settings.epochs, source, warm_up=_WARM)
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


# -- what is learned, and the inputs of a state ------------------------------------------------------


class Parameters(Arrays):
    """The matrices, of one dtype; a state is (internal + inputs,) long."""

    transition: Float32[Array, "internal state", options.BOUNDED_WEIGHTS]  # A
    outputs: Float32[Array, "types state", options.BOUNDED_WEIGHTS]  # B
    features: Float32[
        Array, "types features", options.BOUNDED_WEIGHTS
    ]  # C, transposed; the row of <unk> is zero
    biases: Float32[Array, "types 1", options.BOUNDED_WEIGHTS]  # b
    joint: Float32[
        Array, "runs joint_width", options.BOUNDED_WEIGHTS
    ]  # the vectors of runs of tokens
    variance: float = 1.0  # the diagonal of Lambda
    exact: bool = False  # whether tokens that are read make the most probable state

    @property
    def internal(self) -> int:
        """Elements of the internal state, N_q."""
        return len(self.transition)

    @property
    def gain(self) -> Floats:
        """Lambda B A' (types, internal): what e adds to the next internal state."""
        found: Floats = (self.outputs @ self.transition.T) * self.outputs.dtype.type(self.variance)
        return found

    @property
    def product(self) -> Product | None:
        """The product with G where states are the most probable ones, else None."""
        return product_of(self.outputs, self.variance) if self.exact else None


class Inputs(NamedTuple):
    """The tokens before some places of a text, which give all of the predicted state but the internal one."""

    words: Ints  # (..., order - 1), the last token first, <unk> where there is none
    runs: Ints  # (..., joint_order - 1), rows of the vectors of runs, -1 where there is none

    @classmethod
    def of(cls, windows: Ints, n: int, joint: JointTokens) -> Inputs:
        """Return the inputs of windows (..., window) of the last tokens, the last first."""
        return cls(windows[..., :n], joint.rows(windows))

    def vectors(self, p: Parameters) -> Floats:
        """Return [l(t-1); ...; l(t-n); j(t)], (..., inputs)."""
        *shape, n = self.words.shape
        parts = [p.features[self.words].reshape(*shape, n * p.features.shape[1])]
        if self.runs.shape[-1]:
            table = np.vstack([p.joint, np.zeros_like(p.joint, shape=(1, p.joint.shape[1]))])
            parts.append(table[self.runs].sum(axis=-2))  # -1 is the row of zeros
        return np.concatenate(parts, axis=-1)


class JointTokens:
    """Runs of two and more tokens that are taken for one, so that a state can hold a feature vector of them.

    A sum of feature vectors of single tokens cannot say what follows two of them together; a vector of the pair can.
    Runs are numbered from the shortest to the longest, and kept as a trie: a run of k tokens is the place of its first
    k - 1 among the runs of that length, and its last token.

    Parameters
    ----------
    keys
        For every length from two on, int64 (runs,), ascending: place of the first tokens * types + last token. The
        place of one token is its id.
    n_types
        Number of ids.
    unknown
        The id that stands for an unknown token and for none; no run has it.
    """

    def __init__(self, keys: list[_Int64], n_types: int, unknown: int) -> None:
        self.keys, self.n_types, self.unknown = keys, n_types, unknown
        # row of the first run of each length
        self._first = list(accumulate(map(len, keys), initial=0))

    def __len__(self) -> int:
        return self._first[-1]

    @classmethod
    def of(cls, windows: Ints, n_types: int, unknown: int) -> Self:
        """Find the runs at the ends of windows (places, longest), last token first."""
        keys: list[_Int64] = []
        for k in range(2, windows.shape[1] + 1):
            shorter = cls(keys, n_types, unknown)
            known, key = shorter._keys(windows[:, :k])
            keys.append(np.unique(key[known]))
        return cls(keys, n_types, unknown)

    def rows(self, windows: Ints) -> _Int64:
        """Return the rows of the runs that end windows (..., tokens), the last token first: int64 (..., lengths).

        -1 where a run is not among those kept.
        """
        found = np.full((*windows.shape[:-1], len(self.keys)), -1, np.int64)
        for i in range(len(self.keys)):
            place = self._places(windows[..., : i + 2])
            found[..., i] = np.where(place >= 0, place + self._first[i], -1)
        return found

    def _keys(self, windows: Ints) -> tuple[npt.NDArray[np.bool_], _Int64]:
        """Return which windows have all but their last token listed and a known last one, and the keys of all."""
        before, last = self._places(windows[..., 1:]), windows[..., 0].astype(np.int64)
        return (before >= 0) & (last != self.unknown), before * self.n_types + last

    def _places(self, windows: Ints) -> _Int64:
        """Return the places of whole windows among the runs of their length, -1 for one that is not there."""
        k = windows.shape[-1]
        if k == 1:
            ids = windows[..., 0].astype(np.int64)
            return np.where(ids == self.unknown, -1, ids)
        keys = self.keys[k - 2]
        known, key = self._keys(windows)
        if not len(keys):
            return np.full(known.shape, -1)
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where(known & (keys[place] == key), place, -1)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the keys of all lengths end to end, and how many there are of each."""
        sizes = np.array([len(each) for each in self.keys], np.int64)
        return {"runs": np.concatenate([np.empty(0, np.int64), *self.keys]), "run_sizes": sizes}

    @classmethod
    def from_arrays(cls, keys: _Int64, sizes: _Int64, n_types: int, unknown: int) -> Self:
        """Return what `arrays` gave. Raises ArtifactError where these are no runs."""
        if ((sizes < 0) | (sizes > len(keys))).any() or sizes.sum() != len(keys):
            raise ArtifactError("run_sizes do not cut the runs of tokens; the model is damaged")
        cut = np.split(keys, np.cumsum(sizes)[:-1]) if len(sizes) else []
        places = n_types
        for k, own in enumerate(cut, start=2):
            ordered = (own[1:] > own[:-1]).all()
            if len(own) and not (ordered and own[0] >= 0 and own[-1] // n_types < places):
                raise ArtifactError(
                    f"the runs of {k} tokens are not in order; the model is damaged"
                )
            places = len(own)
        return cls(cut, n_types, unknown)


# -- the most probable state -------------------------------------------------------------------------


def product_of(outputs: Floats, variance: float) -> Product:
    """Return the product with G = variance B B', for B (types, state)."""
    if len(outputs) <= SMALL:
        matrix = (outputs @ outputs.T) * outputs.dtype.type(variance)
        return lambda e: e @ matrix
    return lambda e: ((e @ outputs) * outputs.dtype.type(variance)) @ outputs.T


def errors_of_step(p: Floats, words: Ints, seen: Floats) -> Floats:
    """Return e = x - p (states, types): what one step of ascent from the predicted state takes for e.

    ``p`` are the probabilities there, and ``seen`` (states,) is 1, or 0 for a token that says nothing.
    """
    e: Floats = -p * seen[:, None]
    e[np.arange(len(e)), words] += seen
    return e


def find_most_probable(
    scores: Floats, words: Ints, seen: Floats, product: Product
) -> tuple[Floats, Floats]:
    """Return e at the most probable states, and the probabilities of tokens there, both (states, types).

    ``scores`` are u^ (states, types) of the predicted states, and ``words`` y (states,), the tokens read;
    ``seen`` (states,) is 1, or 0 for a token that says nothing.
    """
    rows, tolerance = np.arange(len(scores)), _TOLERANCE[scores.dtype.itemsize]
    e, moved = np.zeros_like(scores), np.zeros_like(scores)  # moved = G e
    log_p = log_softmax(scores.copy())
    value = log_p[rows, words]  # phi
    active = np.array(seen)
    for _ in range(_STEPS):
        p = np.exp(log_p)
        slope = (errors_of_step(p, words, seen) - e) * active[:, None]
        step, moves, size = solve(p, seen, product, slope)
        active = active * (size > tolerance**2)
        share = np.array(active)
        for _ in range(_HALVED):
            new, there = e + share[:, None] * step, moved + share[:, None] * moves
            log_new = log_softmax(scores + there)
            reached = log_new[rows, words] - (new * there).sum(axis=1) / 2
            higher = reached >= value - tolerance
            if higher.all():
                break
            share[~higher] /= 2
        # a state that cannot be bettered, or is no number, stays where it is
        active = active * higher
        better = active > 0
        if not better.any():
            break
        for now, after in ((e, new), (moved, there), (log_p, log_new), (value, reached)):
            now[better] = after[better]
    p = np.exp(log_p)
    # the same but for what G takes to zero, where B has fewer columns than rows
    return errors_of_step(p, words, seen), p


def solve(p: Floats, seen: Floats, product: Product, rhs: Floats) -> tuple[Floats, Floats, Floats]:
    """Solve (I + D G) d = rhs for every state by conjugate gradients in the product of G.

    ``p`` (states, types) are the probabilities in D, and ``seen`` (states,) is 0 for a state whose D is zero. Returns d
    and G d, (states, types), d up to what G takes to zero; and rhs' G rhs, (states,).
    """
    d, moves = np.zeros_like(rhs), np.zeros_like(rhs)
    left, ahead = rhs, rhs  # what is left, and the direction
    left_moves = ahead_moves = product(rhs)
    first = size = (left * left_moves).sum(axis=1)
    enough = first * _TOLERANCE[rhs.dtype.itemsize] ** 2
    for _ in range(_SOLVES):
        more = size > enough  # the others are done, and what is left of them is rounding
        if not more.any():
            break
        applied = ahead + times_covariance(p, seen, ahead_moves)
        curvature = (ahead_moves * applied).sum(axis=1)
        a = np.divide(size, curvature, out=np.zeros_like(size), where=more & (curvature > 0))
        d, moves = d + a[:, None] * ahead, moves + a[:, None] * ahead_moves
        left = left - a[:, None] * applied
        left_moves = product(left)
        now = (left * left_moves).sum(axis=1)
        b = np.divide(now, size, out=np.zeros_like(size), where=more)[:, None]
        ahead, ahead_moves, size = left + b * ahead, left_moves + b * ahead_moves, now
    return d, moves, first


def times_covariance(p: Floats, seen: Floats, v: Floats) -> Floats:
    """Return D v = p o (v - p'v), zero for a state whose token is not seen."""
    inner = (p * v).sum(axis=1, keepdims=True)
    return np.asarray(p * (v - inner) * seen[:, None])


# -- pieces of texts ---------------------------------------------------------------------------------


class Piece(NamedTuple):
    """Places of several texts side by side: (steps, texts) each."""

    inputs: Inputs
    words: Ints  # y, the tokens at these places
    live: Floats  # 1; 0 at a token that is context only, after which the state begins anew
    seen: Floats  # 1; 0 at a token that is unknown or context only


class Forward(NamedTuple):
    """Results of `forward`, with the values that `backward` needs."""

    log_probs: Floats  # (steps, texts, types), natural
    after: Floats  # (texts, internal): the internal state after the last token
    states: Floats  # q (steps, texts, internal)
    errors: Floats  # e (steps, texts, types); without an internal state none are needed
    reached: Floats  # the probabilities at the most probable states, likewise


def read(
    log_probs: Floats, scores: Floats, words: Ints, seen: Floats, product: Product | None
) -> tuple[Floats, Floats]:
    """Return e of tokens that are read, and the probabilities where it was taken, both (states, types)."""
    if product is not None:
        return find_most_probable(scores, words, seen, product)
    reached = np.exp(log_probs)
    return errors_of_step(reached, words, seen), reached


def forward(p: Parameters, piece: Piece, before: Floats, keep: Floats | None = None) -> Forward:
    """Score a piece, from the internal states ``before`` (texts, internal) at its first places.

    ``keep`` (steps, texts, state) are factors of the elements of the predicted states.
    """
    n_q, (steps, texts) = p.internal, piece.words.shape
    x = piece.inputs.vectors(p)
    rows = (x if keep is None else x * keep[..., n_q:]) @ p.outputs[:, n_q:].T + p.biases[:, 0]
    if not n_q:
        none = rows[:, :, :0]
        return Forward(log_softmax(rows), before, none, none, none)
    from_inputs, gain = x @ p.transition[:, n_q:].T, p.gain
    states = np.empty((steps, texts, n_q), rows.dtype)
    errors = np.empty_like(rows)
    if not p.exact and rows.shape[2] <= SMALL:
        from tacenda_lm.compiled import read_side_by_side  # imports numba

        q, dtype = np.array(before, rows.dtype), rows.dtype
        own = keep[..., :n_q] if keep is not None else np.empty((0, 0, 0))
        matrices = p.outputs[:, :n_q], p.transition[:, :n_q], gain
        tables, masks = (
            tuple(np.ascontiguousarray(each, dtype) for each in given)
            for given in (matrices, (piece.live, piece.seen, own))
        )
        words = np.ascontiguousarray(piece.words, np.int64)
        given = words, dtype.type(LIMIT), np.ascontiguousarray(from_inputs, dtype), tables, masks
        read_side_by_side(*given, rows, q, (states, errors))
        return Forward(rows, q, states, errors, np.exp(rows))
    q, reached, product = before, np.empty_like(rows), p.product
    for t in range(steps):
        states[t] = q
        rows[t] += (q if keep is None else q * keep[t, :, :n_q]) @ p.outputs[:, :n_q].T
        scores = rows[t].copy() if p.exact else rows[t]
        log_softmax(rows[t])
        errors[t], reached[t] = read(rows[t], scores, piece.words[t], piece.seen[t], product)
        q = q @ p.transition[:, :n_q].T + from_inputs[t] + errors[t] @ gain
        q = np.clip(q, -LIMIT, LIMIT) * piece.live[t][:, None]
    return Forward(rows, q, states, errors, reached)


def backward(
    p: Parameters, piece: Piece, passed: Forward, keep: Floats | None = None
) -> tuple[float, dict[str, Gradient]]:
    """Return the summed -log P of the live places, and its gradients; arguments as of `forward`.

    The state before the piece is taken for constant.
    """
    n_q, (steps, texts) = p.internal, piece.words.shape
    x = piece.inputs.vectors(p)
    d_rows = np.exp(passed.log_probs) * piece.live[..., None]
    at = np.arange(steps)[:, None], np.arange(texts), piece.words
    loss = -float((passed.log_probs[at] * piece.live).sum(dtype=np.float64))
    d_rows[at] -= piece.live
    d_x = np.zeros_like(x)
    d_transition = np.zeros_like(p.transition)
    d_outputs = np.zeros_like(p.outputs)
    if n_q:
        gain, product = p.gain, p.product
        # by A s^ (steps, texts, internal), by the gain, and by the state that follows
        d_onward, d_gain = np.empty_like(passed.states), np.zeros_like(gain)
        d_q = np.zeros_like(passed.after)
        for t in reversed(range(steps)):
            g = d_onward[t]
            np.multiply(d_q, piece.live[t][:, None], out=g)
            d_gain += passed.errors[t].T @ g
            # w is minus the gradient by u that comes through e
            w = times_covariance(passed.reached[t], piece.seen[t], g @ gain.T)
            if product is not None:
                w, *_ = solve(passed.reached[t], piece.seen[t], product, w)
                # G = variance B B' stands beside u in the softmax: u + G e
                d_outputs -= p.variance * (w.T @ (passed.errors[t] @ p.outputs))
                d_outputs -= p.variance * (passed.errors[t].T @ (w @ p.outputs))
            d_rows[t] -= w
            back = d_rows[t] @ p.outputs[:, :n_q]
            d_q = g @ p.transition[:, :n_q] + (back if keep is None else back * keep[t, :, :n_q])
        flat = _flat(d_onward)
        d_transition[:, :n_q] = flat.T @ _flat(passed.states)
        d_transition[:, n_q:] = flat.T @ _flat(x)
        # gain = variance B A'
        d_transition += p.variance * (d_gain.T @ p.outputs)
        d_outputs += p.variance * (d_gain @ p.transition)
        d_x += d_onward @ p.transition[:, n_q:]
        shown = passed.states if keep is None else passed.states * keep[..., :n_q]
        d_outputs[:, :n_q] += _flat(d_rows).T @ _flat(shown)
    shown = x if keep is None else x * keep[..., n_q:]
    d_outputs[:, n_q:] += _flat(d_rows).T @ _flat(shown)
    back = d_rows @ p.outputs[:, n_q:]
    d_x += back if keep is None else back * keep[..., n_q:]
    n, width = piece.inputs.words.shape[-1], p.features.shape[1]
    d_features = d_x[..., : n * width]
    found: dict[str, Gradient] = {
        "transition": (None, d_transition),
        "outputs": (None, d_outputs),
        "features": sum_by_row(piece.inputs.words.ravel(), d_features.reshape(-1, width)),
        "biases": (None, _flat(d_rows).sum(axis=0)[:, None]),
    }
    if piece.inputs.runs.shape[-1]:
        there = np.nonzero(piece.inputs.runs >= 0)
        found["joint"] = sum_by_row(piece.inputs.runs[there], d_x[there[:2]][:, n * width :])
    return loss, found


def _flat(array: Floats) -> Floats:
    """Return (steps * texts, width)."""
    steps, texts, width = array.shape
    return array.reshape(steps * texts, width)


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
        q, inputs = self._take_apart([state])
        one = Inputs(inputs.words[None], inputs.runs[None])
        live = np.ones((1, 1), np.float32)
        piece = Piece(one, np.array([[word]]), live, live * (word != self.joint.unknown))
        return self._state((*state.parts(2)[0], word), forward(self.parameters, piece, q).after[0])

    def vectors(self, states: Sequence[State]) -> Floats:
        """Return s^ of each state, (states, internal + inputs)."""
        q, inputs = self._take_apart(states)
        return np.concatenate([q, inputs.vectors(self.parameters)], axis=1)

    def rows(self, vectors: Floats) -> npt.NDArray[np.float32]:
        if not len(vectors):
            return np.empty((0, self.n_types), np.float32)
        p = self.parameters
        return np.asarray(log_softmax(vectors @ p.outputs.T + p.biases[:, 0]), np.float32)

    def _state(self, words: tuple[int, ...], q: Floats) -> State:
        """Return a state after the last of some tokens."""
        last = words[len(words) - min(self.window, len(words)) :]
        return State((last, np.asarray(q, np.float32).tobytes()))

    def _take_apart(self, states: Sequence[State]) -> tuple[Floats, Inputs]:
        """Return q (states, internal) and the tokens before. Raises DataError for states of another model."""
        p, parts = self.parameters, [state.parts(2) for state in states]
        windows = [window_of(words, self.window, self.n_types) for words, _ in parts]
        words, present, _ = Contexts.of_windows(windows, self.window)
        q = np.empty((len(states), p.internal), p.outputs.dtype)
        for row, (_, data) in zip(q, parts, strict=True):
            row[:] = vector_of(data, np.float32, p.internal)
        return q, Inputs.of(np.where(present, words, self.joint.unknown), self.n, self.joint)

    # -- whole texts -------------------------------------------------------------------------------

    def score(self, stream: Stream) -> Float64:
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
        for first, last in runs(offsets, most):  # whole sequences, or one in parts
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

    def _text(self, stream: Stream) -> Text:
        return Text(stream, self.window, self.n, self.joint)

    def _steps(self, texts: int) -> int:
        """Return how many steps of so many texts a piece has."""
        return max(1, _CELLS // (texts * self.n_types))

    def _passes(self, text: Text, sequences: Ints) -> Iterator[tuple[Ints, Forward]]:
        """Yield positions (steps, texts), -1 behind the end of a text, with what was found there.

        Sequences of similar lengths are side by side; the values of one sequence come in their order.
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

    def piece(self, positions: Ints) -> Piece:
        """Return the places at positions (steps, texts), -1 where a text has ended."""
        there, unknown = positions >= 0, self.joint.unknown
        windows = windows_of(self.stream, positions, self.window, unknown)
        words = np.where(there, self.stream.ids[positions], 0)
        live = there & ~self._firsts[positions]
        seen = live & (words != unknown)
        inputs = Inputs.of(windows, self.n, self.joint)
        return Piece(inputs, words, live.astype(np.float32), seen.astype(np.float32))


# -- training ---------------------------------------------------------------------------------------


def draw_parameters(
    settings: StateSpaceLMSettings, counts: npt.NDArray[np.integer[Any]], unknown: int, runs: int
) -> Parameters:
    """Draw small numbers; the internal state begins as sums that fade, and biases make a unigram model.

    The vectors of runs begin as zeros.
    """
    rng, advanced = np.random.default_rng([settings.seed, 1]), settings.advanced
    types, q, state = len(counts), settings.internal, settings.internal + settings.inputs

    def normal(*shape: int) -> npt.NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32) * np.float32(_SPREAD)

    transition = normal(q, state)
    if settings.training == "gradient":
        # so that the sum of both fades, however wide it is
        transition[:, :q] /= np.float32(np.sqrt(max(q, 1)))
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

    Batches come from `Pieces`. The state at the end of a batch is the state before the next; an epoch begins
    with a state of zeros. Gradients go back through the states of a batch; what came before it is taken for constant.
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
        self.read = Text(text, settings.window, settings.order - 1, joint)
        self.before = np.zeros((source.parts, self._carried_width()), parameters.outputs.dtype)
        tables = dict(parameters.items())
        sums = {**dict.fromkeys(tables, _SUM), "joint": settings.advanced.joint_sum}
        rest = {"before": self.before}
        super().__init__(settings, tables, text, valid, accumulators=sums, rest=rest)

    def _carried_width(self) -> int:
        """Return how many numbers of each text go from one batch to the next."""
        return self.current.internal

    def step(self, batch: tuple[int, int], learning_rate: float) -> StepResult:
        piece = self.read.piece(self.source.positions(batch))
        if batch[0] == 0:
            self.before[:] = 0
        with np.errstate(over="ignore", invalid="ignore"):  # a fit that diverges shows in its loss
            loss, norm = self._learn(piece, learning_rate)
        self.steps += 1
        return StepResult(loss, float(piece.live.sum()), norm)

    def predictor(self) -> StateSpacePredictor:
        return StateSpacePredictor(self.current, self.joint, self.settings, self.boundary)

    def _learn(self, piece: Piece, learning_rate: float) -> tuple[float, float | None]:
        """Change the parameters; return the summed loss of the piece, and the norm of the gradient where it has one."""
        # what this step leaves out: runs, and elements of the states. A text that is new has not all the runs that the
        # text of training always has; so some places ignore runs of a random length and longer
        settings, keep = self.settings, None
        rng = np.random.default_rng([settings.seed, 2, self.steps])
        share, runs = settings.advanced.joint_dropout, piece.inputs.runs
        if runs.shape[-1] and share:
            stays = np.logical_and.accumulate(rng.random(runs.shape) >= share, axis=-1)
            piece = piece._replace(inputs=piece.inputs._replace(runs=np.where(stays, runs, -1)))
        if settings.dropout:
            shape = (*piece.words.shape, self.current.outputs.shape[1])
            keep = draw_dropout_mask(shape, settings.dropout, rng)
        found = forward(self.current, piece, self.before, keep)
        loss, gradients = backward(self.current, piece, found, keep)
        self.before[:] = found.after
        rows, values = map(np.asarray, gradients["features"])
        known = rows != self.joint.unknown  # the vector of an unknown token stays zero
        moved = {**gradients, "features": (rows[known], values[known])}
        if not self.settings.advanced.biases:
            del moved["biases"]
        mean = 1 / max(float(piece.live.sum()), 1.0)
        norm = mean * float(np.sqrt(sum(float((g * g).sum()) for _, g in moved.values())))
        share = mean * min(1.0, _CLIP_NORM / max(norm, 1e-30))
        for name, (rows, gradient) in moved.items():
            if gradient.size:
                # A is applied again and again: whole rows that move at once make it unstable
                slow = np.sqrt(gradient.shape[1]) if name == "transition" else 1.0
                self.move(name, rows, gradient * np.float32(share), learning_rate / float(slow))
        return loss, norm


class RulesTrainer(GradientTrainer):
    """The rules of the paper: each matrix a step towards the states that were found (eqs 10 to 12).

        A += rate mean (s_q(t) - A s(t-1)) s(t-1)' / variance,    B += rate mean (x(t) - x^(t)) s(t)'
        C += rate mean sum_i (s_l,i(t) - C x(t-i)) x(t-i)' / variance

    s(t) is the state after its token was read, and x^(t) what is predicted from it. Eq 12 prints x(t-n) for x(t-i).
    Means over a batch stand for the paper's sums, so that a rate does not depend on the batch. After a step a matrix
    whose squares sum to more than ``norm_limit`` is scaled down to it (section 2.4).
    """

    def _carried_width(self) -> int:
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
