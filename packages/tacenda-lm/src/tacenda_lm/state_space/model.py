"""`StateSpaceLM`: a softmax over the next token from a linear state (Siivola and Honkela 2003), and its training.

Training follows the likelihood of the text, with gradients that go back through states and their inference, or the
rules of the paper. `tacenda_lm.state_space.recurrence` has the equations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.fitting import FitRun, State, StepResult
from tacenda.settings import Group, Settings, configured_by, group, option
from tacenda_lm import options
from tacenda_lm.distributions import log_softmax
from tacenda_lm.state_space.joint_tokens import JointTokens
from tacenda_lm.state_space.prediction import PieceReader, StateSpacePredictor, read_windows
from tacenda_lm.state_space.recurrence import LIMIT, Parameters, Piece, Recurrence
from tacenda_lm.stream_model import StreamModel
from tacenda_lm.streams import Pieces, Stream, streams_of
from tacenda_lm.training import Gradient, StreamTrainer, draw_dropout_mask, smooth_counts, train

# what training begins with
_INITIAL_SCALE = 0.1  # of the elements of matrices
_FEATURES_SCALE = 5  # of feature vectors, relative to other matrices
_INITIAL_REACH = 1.0  # of a token's e on its own score through the internal state
_INITIAL_MEMORY = 0.8  # share of an element of the internal state that is left after a token
_INITIAL_SUM = 1e-6  # of squares, in AdaGrad

_MAX_GRADIENT_NORM = 1.0  # of the mean gradient of a token; a longer gradient is scaled down
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
    def inputs(self) -> int:
        """The number of elements of the state that depend on the last tokens only."""
        of_runs = self.advanced.joint_width if self.advanced.joint_order > 1 else 0
        return (self.order - 1) * self.features + of_runs

    def idle(self) -> Mapping[str, str]:
        of_rules, of_runs = ("last_piece", "norm_limit"), ("width", "dropout", "sum")
        reasons = {"dropout": 'with training="rules"'}
        if self.training == "gradient":
            reasons = {f"advanced.{name}": 'with training="gradient"' for name in of_rules}
        if self.advanced.joint_order == 1:
            reasons |= {f"advanced.joint_{name}": "with joint_order=1" for name in of_runs}
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
    learned_class = StateSpacePredictor

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
        places = np.flatnonzero(~text.firsts)
        windows = read_windows(text, places, advanced.joint_order, unknown)
        joint = JointTokens.of(windows, types, unknown)
        parameters = draw_parameters(settings, corpus.type_counts, unknown, len(joint))
        streams = max(1, min(advanced.streams, len(text.ids) // _MIN_TOKENS_PER_STREAM))
        trainer_class = RulesTrainer if settings.training == "rules" else GradientTrainer
        last = advanced.last_piece if trainer_class.by_rules else advanced.piece
        source = Pieces(text, streams, advanced.piece, last, settings.epochs)
        trainer = trainer_class(settings, parameters, joint, source, held_out)
        history = train(trainer, source, run)
        self._vocabulary, self.learned = vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

    def _sizes(self) -> dict[str, Any]:
        settings, advanced = self.settings, self.settings.advanced
        return {
            **super()._sizes(),
            "state": settings.internal + settings.inputs,
            "joint_width": advanced.joint_width,
            "lengths": advanced.joint_order - 1,
            "variance": advanced.variance,
            "exact": settings.inference == "map",
            "n": settings.order - 1,
            "unknown": self.vocabulary.unknown_id,
        }


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

    transition, outputs = draw_normal(q, state), draw_normal(types, state)
    features = draw_normal(types, settings.features)
    if settings.training == "gradient":
        # random and diagonal part together shrink a state, however wide it is
        transition[:, :q] /= np.float32(np.sqrt(max(q, 1)))
        transition[:, :q] += np.float32(_INITIAL_MEMORY) * np.eye(q, dtype=np.float32)
        # a token that was read passes through B twice on its way to a prediction: a small B is learned slowly, and with
        # a large G = variance B B' a step of ascent from the predicted state overshoots
        reach = np.sqrt(_INITIAL_REACH / (advanced.variance * max(q, 1)))
        outputs[:, :q] *= np.float32(reach / _INITIAL_SCALE)
        features *= np.float32(_FEATURES_SCALE)
    features[unknown] = 0
    biases = np.log(smooth_counts(counts)) if advanced.biases else np.zeros(types)
    return Parameters(
        transition,
        outputs,
        features,
        biases[:, None].astype(np.float32),
        joint=np.zeros((runs, advanced.joint_width), np.float32),
        variance=advanced.variance,
        exact=settings.inference == "map",
    )


class StateSpaceTrainer(StreamTrainer):
    """A model under training; a subclass implements `_learn`.

    Batches come from `Pieces`. The state after a batch is the state before the next; an epoch begins with zero states.
    """

    warm_up = 50
    #: Whether the next batch needs the whole state, and steps no sums of AdaGrad, as with the rules of the paper.
    by_rules: ClassVar[bool]

    def __init__(
        self,
        settings: StateSpaceLMSettings,
        parameters: Parameters,
        joint: JointTokens,
        source: Pieces,
        valid: Stream | None,
    ) -> None:
        self.current, self.joint, self.source = parameters, joint, source
        self._reader = PieceReader(source.text, settings.order - 1, joint)
        n_carried = parameters.outputs.shape[1] if self.by_rules else parameters.internal
        self._carried = np.zeros((source.parts, n_carried), parameters.outputs.dtype)
        tables, rest = dict(parameters.items()), {"before": self._carried}
        sums = {**dict.fromkeys(tables, _INITIAL_SUM), "joint": settings.advanced.joint_sum}
        given = {} if self.by_rules else sums
        super().__init__(settings, tables, source.text, valid, accumulators=given, rest=rest)

    def step(self, batch: tuple[int, int], learning_rate: float) -> StepResult:
        piece = self._reader.read_piece(self.source.positions(batch))
        if batch[0] == 0:
            self._carried[:] = 0
        with np.errstate(over="ignore", invalid="ignore"):  # a fit that diverges shows in its loss
            loss, norm = self._learn(piece, learning_rate)
        self.steps += 1
        return StepResult(loss, float(piece.live.sum()), norm)

    def predictor(self) -> StateSpacePredictor:
        return StateSpacePredictor(self.current, self.boundary, self.joint, self._reader.n)

    def _learn(self, piece: Piece, learning_rate: float) -> tuple[float, float | None]:
        """Change the parameters, and return the summed loss of the piece and the norm of the mean gradient, if any."""
        raise NotImplementedError

    def _leave_out_fixed(self, directions: dict[str, Gradient]) -> None:
        """Leave out the vector of an unknown token, which stays zero, and biases where the model has none."""
        rows, values = map(np.asarray, directions["features"])
        known = rows != self.joint.unknown
        directions["features"] = rows[known], values[known]
        if not self.settings.advanced.biases:
            del directions["biases"]


class GradientTrainer(StateSpaceTrainer):
    """A model under training on the likelihood of the text, by AdaGrad with an accumulator for each row of a matrix.

    Gradients go back through the states of a batch; the state before it is a constant.
    """

    by_rules = False

    def _learn(self, piece: Piece, learning_rate: float) -> tuple[float, float | None]:
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
        recurrence = Recurrence(self.current)
        passed = recurrence.forward(piece, self._carried, keep)
        loss, gradients = recurrence.backward(piece, passed, keep)
        self._carried[:] = passed.after
        self._leave_out_fixed(gradients)
        per_token = 1 / max(float(piece.live.sum()), 1.0)
        squares = sum(float((gradient * gradient).sum()) for _, gradient in gradients.values())
        norm = per_token * float(np.sqrt(squares))
        factor = np.float32(per_token * min(1.0, _MAX_GRADIENT_NORM / max(norm, 1e-30)))
        for name, (rows, gradient) in gradients.items():
            if gradient.size:
                # A is applied again and again: whole rows that move at once make it unstable
                slower = float(np.sqrt(gradient.shape[1])) if name == "transition" else 1.0
                self.move(name, rows, gradient * factor, learning_rate / slower)
        return loss, norm


class RulesTrainer(StateSpaceTrainer):
    """A model under training by the rules of the paper, which move each matrix towards the states (eqs 10 to 12).

        A += rate mean (s_q(t) - A s(t-1)) s(t-1)' / variance,    B += rate mean e(t) s(t)'
        C += rate mean sum_i (s_l,i(t) - C x(t-i)) x(t-i)' / variance

    s(t) is the state after its token was read. e(t) is x(t) less the probabilities predicted from s(t) with the
    inference "map", as in the paper, and from the predicted state s^(t) with "step". Eq 12 prints x(t-n) for x(t-i).
    Means over a batch replace the paper's sums, so that a rate does not depend on the batch. After a step, a matrix
    whose squares sum to more than ``norm_limit`` is scaled down to it (section 2.4).
    """

    by_rules = True

    def load_state(self, saved: State, /) -> None:
        # earlier versions saved the sums of AdaGrad, which the rules do not use
        super().load_state({k: each for k, each in saved.items() if not k.startswith("sums/")})

    def _learn(self, piece: Piece, learning_rate: float) -> tuple[float, float | None]:
        p, n_q, recurrence = self.current, self.current.internal, Recurrence(self.current)
        x = piece.inputs.look_up(p)
        d_transition, d_outputs, d_biases = map(np.zeros_like, (p.transition, p.outputs, p.biases))
        d_features, loss = np.zeros_like(x), 0.0
        for t in range(len(x)):
            q = np.clip(self._carried @ p.transition.T, -LIMIT, LIMIT)
            predicted = np.concatenate([q, x[t]], axis=1)
            scores = predicted @ p.outputs.T + p.biases[:, 0]
            rows = log_softmax(scores.copy())
            loss -= float((rows[np.arange(len(rows)), piece.words[t]] * piece.live[t]).sum())
            e, _ = recurrence.read(rows, scores, piece.words[t], piece.seen[t])
            moved = e @ p.outputs  # (s - s^) / variance
            s = predicted + p.variance * moved
            d_transition += moved[:, :n_q].T @ self._carried
            d_outputs += e.T @ s
            d_biases += e.sum(axis=0)[:, None]
            d_features[t] = moved[:, n_q:]
            self._carried[:] = s * piece.live[t][:, None]
        directions: dict[str, Gradient] = {
            "transition": (None, d_transition),
            "outputs": (None, d_outputs),
            "features": piece.inputs.sum_gradients(p, d_features)["features"],
            "biases": (None, d_biases),
        }
        self._leave_out_fixed(directions)
        rate = np.float32(learning_rate / max(float(piece.live.sum()), 1.0))
        limit = self.settings.advanced.norm_limit
        for name, (changed, direction) in directions.items():
            table = self.tables[name]
            table[slice(None) if changed is None else changed] += rate * direction
            squares = float((table.astype(np.float64) ** 2).sum())
            if name != "biases" and squares > limit:
                table *= np.float32(np.sqrt(limit / squares))
        return loss, None
