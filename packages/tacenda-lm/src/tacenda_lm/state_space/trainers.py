"""Two ways to train a state-space model: by gradients through its states, and by the rules of the paper."""

from __future__ import annotations

import numpy as np

from tacenda.fitting import StepResult
from tacenda.kernels.shared.row_steps import adagrad
from tacenda_lm.state_space.inference import product_of
from tacenda_lm.state_space.joint_tokens import JointTokens
from tacenda_lm.state_space.parameters import Floats, Ints, Parameters
from tacenda_lm.state_space.predictor import StateSpacePredictor
from tacenda_lm.state_space.recurrence import (
    LIMIT,
    Piece,
    backward,
    forward,
    read,
)
from tacenda_lm.state_space.settings import StateSpaceLMSettings
from tacenda_lm.state_space.texts import Text
from tacenda_lm.states import log_softmax
from tacenda_lm.streams import Stream
from tacenda_lm.training import Gradient, Trainer, dropout_mask, sum_by_row

__all__ = ["GradientTrainer", "RulesTrainer"]

_SUM = 1e-6  # accumulators of AdaGrad to begin with


class _Trainer(Trainer):
    """A model under training; a batch is (first step, end) of the text.

    The state at the end of a batch is that before the next; an epoch begins with a state of zeros.
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
        self.settings, self.current, self.joint = settings, parameters, joint
        self.read = Text(text, settings.window, settings.order - 1, joint)
        self.positions = positions
        self.variance, self.exact = settings.advanced.variance, settings.inference == "map"
        self.before = np.zeros((positions.shape[1], self._carried()), parameters.outputs.dtype)
        super().__init__(parameters._asdict(), text, valid, settings.seed, {"before": self.before})

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

    def _learn(self, piece: Piece, learning_rate: float) -> tuple[float, float | None]:
        """Change the parameters; return the summed loss of the piece, and the norm of the gradient where it has one."""
        raise NotImplementedError

    def predictor(self) -> StateSpacePredictor:
        """Return what the present parameters predict."""
        return StateSpacePredictor(self.current, self.joint, self.settings, self.boundary)


class GradientTrainer(_Trainer):
    """The likelihood of the text, by AdaGrad with an accumulator for each row of a matrix.

    Gradients go back through the states of a piece; what came before it is taken for constant.
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
        super().__init__(settings, parameters, joint, text, positions, valid)
        self.sums = {
            name: np.full(len(table), _SUM, np.float32)
            for name, table in parameters._asdict().items()
        }
        self.sums["joint"][:] = settings.advanced.joint_sum
        self.rest |= {f"sums/{name}": each for name, each in self.sums.items()}

    def _learn(self, piece: Piece, learning_rate: float) -> tuple[float, float | None]:
        piece, keep = self._dropped(piece)
        way = self.variance, self.exact, keep
        found = forward(self.current, piece, self.before, *way)
        loss, gradients = backward(self.current, piece, found, *way)
        self.before[:] = found.after
        moved = {name: self._known(name, each) for name, each in gradients.items()}
        mean = 1 / max(float(piece.live.sum()), 1.0)
        norm = mean * float(np.sqrt(sum(float((g * g).sum()) for _, g in moved.values())))
        share = mean * min(1.0, self.settings.advanced.clip_norm / max(norm, 1e-30))
        for name, (rows, gradient) in moved.items():
            if gradient.size:
                self._move(name, rows, gradient * np.float32(share), learning_rate)
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

    def _move(self, name: str, rows: Ints | None, gradient: Floats, learning_rate: float) -> None:
        table = getattr(self.current, name)
        every = np.arange(len(table)) if rows is None else rows
        if (
            name == "transition"
        ):  # it is applied again and again: whole rows that move at once make it unstable
            learning_rate /= float(np.sqrt(table.shape[1]))
        adagrad(table, self.sums[name], every, gradient, learning_rate)

    def _dropped(self, piece: Piece) -> tuple[Piece, Floats | None]:
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


class RulesTrainer(_Trainer):
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
        product = product_of(p.outputs, self.variance) if self.exact else None
        x = piece.inputs.vectors(p)
        sums = {name: np.zeros_like(table) for name, table in p._asdict().items()}
        of_features, loss = np.zeros_like(x), 0.0
        for t in range(len(x)):
            q = np.clip(self.before @ p.transition.T, -LIMIT, LIMIT)
            predicted = np.concatenate([q, x[t]], axis=1)
            scores = predicted @ p.outputs.T + p.biases[:, 0]
            rows = log_softmax(scores.copy())
            loss -= float((rows[np.arange(len(rows)), piece.words[t]] * piece.live[t]).sum())
            e, _ = read(rows, scores, piece.words[t], piece.seen[t], product)
            moved = e @ p.outputs  # (s - s^) / variance
            s = predicted + self.variance * moved
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
