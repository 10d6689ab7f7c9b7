"""What a fit has seen: its history, the losses of the current epoch, the best parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray

from tacenda.errors import FittingError
from tacenda.fitting.trainable import (
    HasParameters,
    State,
    StepResult,
    Trainable,
    check_state,
    copy_state,
    is_plausible,
)

__all__ = ["BestSeen", "DivergenceError", "Evaluation", "History", "LossMeter", "saved_count"]


class Evaluation(NamedTuple):
    """A criterion value (lower is better) after ``step`` steps, in epoch ``epoch`` (from 1)."""

    step: int
    epoch: int
    value: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Evaluation:
        """Make an evaluation of three numbers."""
        step, epoch, value = values
        return cls(saved_count(step), saved_count(epoch), float(value))


def saved_count(value: Any) -> int:
    """Return a number of things that was saved. Raises ValueError if it is none."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r:.80} where a number of things was saved")
    return value


@dataclass
class History:
    """The course of a fit.

    Two histories are equal if everything but the times is equal: a resumed run has the history of an
    uninterrupted one. ``seconds`` add up over resumed runs.
    """

    epoch_losses: list[float] = field(default_factory=list)
    """Mean training loss per unit, one value for each finished epoch."""
    learning_rates: list[float] = field(default_factory=list)
    """Learning rate of the last step of each finished epoch."""
    gradient_norms: list[float | None] = field(default_factory=list)
    """Mean of the finite gradient norms of each finished epoch; None where the model reports none."""
    evaluations: list[Evaluation] = field(default_factory=list)
    best: Evaluation | None = None
    """The evaluation whose parameters the model now holds, if the best were restored."""
    steps: int = 0
    epochs: int = 0
    """Finished epochs."""
    stopped: str = ""
    """Why the fit ended: "epochs", "patience", "callback", "interrupted" or "diverged"; empty while it runs."""
    seconds: float = field(default=0.0, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the history as JSON values, with all floats exact."""
        values = asdict(self)
        values["evaluations"] = [list(evaluation) for evaluation in self.evaluations]
        values["best"] = None if self.best is None else list(self.best)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> History:
        """Make a history from what `as_dict` returned. Raises KeyError, TypeError, ValueError for anything else."""
        best, norms = values["best"], values["gradient_norms"]
        found = cls(
            epoch_losses=[float(loss) for loss in values["epoch_losses"]],
            learning_rates=[float(rate) for rate in values["learning_rates"]],
            gradient_norms=[None if norm is None else float(norm) for norm in norms],
            evaluations=[Evaluation.of(evaluation) for evaluation in values["evaluations"]],
            best=None if best is None else Evaluation.of(best),
            steps=saved_count(values["steps"]),
            epochs=saved_count(values["epochs"]),
            stopped=str(values["stopped"]),
            seconds=float(values["seconds"]),
        )
        if len(found.epoch_losses) != found.epochs:
            raise ValueError(f"{len(found.epoch_losses)} losses of {found.epochs} epochs")
        return found

    def figure(self, criterion: str = "criterion") -> dict[str, Any]:
        """Return one entry for ``Artifact.figures``: what was reached, after how much training."""
        return {
            "name": "fit",
            "training_loss": self.epoch_losses[-1] if self.epoch_losses else None,
            "criterion": criterion,
            "best": None if self.best is None else self.best.value,
            "best_step": None if self.best is None else self.best.step,
            "steps": self.steps,
            "epochs": self.epochs,
            "stopped": self.stopped,
            "seconds": round(self.seconds, 3),
        }


class DivergenceError(FittingError):
    """A loss or an evaluation is NaN or infinite.

    The model holds the best parameters seen; with ``first``, the fit diverged in its first epoch and
    there are none to keep.
    """

    def __init__(
        self, what: str, value: float, step: int, learning_rate: float, first: bool = False
    ) -> None:
        outcome = (
            ", in the first epoch, so there is no model to keep; use a lower learning rate"
            if first
            else "; the best parameters before it are kept; use a lower learning rate"
        )
        super().__init__(
            f"the {what} is {value} at step {step} (learning rate {learning_rate:g}){outcome} or clip gradients"
        )
        self.first = first
        self.what, self.value = what, value
        self.step, self.learning_rate = step, learning_rate
        self.history: History | None = None

    def in_first_epoch(self) -> DivergenceError:
        """Return the same error with ``first`` set."""
        found = DivergenceError(self.what, self.value, self.step, self.learning_rate, first=True)
        found.history = self.history
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all fields: process pools send exceptions, and by default only the message survives."""
        arguments = (self.what, self.value, self.step, self.learning_rate, self.first)
        return type(self), arguments, {"history": self.history}


class LossMeter:
    """Adds up what the steps of an epoch report.

    Losses are kept as the model gave them and converted together, so that a model on a GPU need not
    wait for its device at every step. The sums, float64 in the order of the steps, do not depend on
    when that happens.
    """

    def __init__(self, check_every: int) -> None:
        self.check_every = check_every
        self.rate = math.nan
        self._pending: list[tuple[int, float, StepResult]] = []
        self._clear()

    def _clear(self) -> None:
        """Start the sums of an epoch."""
        self._loss = self._count = self._norm = 0.0
        self._norms = 0

    def add(self, step: int, rate: float, result: StepResult) -> None:
        """Take the result of a step; raise DivergenceError if a loss converted now is not finite."""
        self.rate = rate
        self._pending.append((step, rate, result))
        if len(self._pending) >= self.check_every:
            self.flush()

    def flush(self) -> None:
        """Convert and check the pending losses."""
        pending, self._pending = self._pending, []
        for step, rate, result in pending:
            loss = float(result.loss)
            if not math.isfinite(loss):
                raise DivergenceError("training loss", loss, step, rate)
            self._loss += loss
            self._count += float(result.units)
            norm = math.nan if result.gradient_norm is None else float(result.gradient_norm)
            if math.isfinite(norm):
                self._norm += norm
                self._norms += 1

    def close_epoch(self) -> tuple[float, float | None]:
        """Return the epoch's mean loss per unit and mean gradient norm (None if none was reported)."""
        self.flush()
        loss = self._loss / self._count if self._count else 0.0
        norm = self._norm / self._norms if self._norms else None
        self._clear()
        return loss, norm

    def state(self) -> dict[str, Any]:
        """Return the sums as JSON; call `flush` first."""
        return {
            "rate": None if math.isnan(self.rate) else self.rate,
            "loss": self._loss,
            "count": self._count,
            "norm": self._norm,
            "norms": self._norms,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Put back what `state` returned."""
        self.rate = math.nan if state["rate"] is None else float(state["rate"])
        self._loss, self._count = float(state["loss"]), float(state["count"])
        self._norm, self._norms = float(state["norm"]), saved_count(state["norms"])


class BestSeen:
    """Keeps a copy of the parameters with the lowest evaluation, and counts evaluations since then."""

    def __init__(self, model: Trainable, *, keep: bool) -> None:
        self.parameters: Mapping[str, NDArray[Any]] | None = None
        self.version = 0  # changes whenever `parameters` does
        self.waited = 0  # evaluations since the best one
        self._model, self._keep = model, keep

    def observe(self, evaluation: Evaluation, best: Evaluation | None) -> Evaluation:
        """Take an evaluation of the model as it is, and return the best so far."""
        if best is not None and evaluation.value >= best.value:
            self.waited += 1
            return best
        self.waited = 0
        self.keep()
        return evaluation

    def keep(self) -> None:
        """Copy the model's parameters, unless none are to be restored, or these are beyond use already."""
        if not self._keep:
            return
        found = self._saved()
        if is_plausible(found):
            self.parameters = copy_state(found)
            self.version += 1

    @property
    def holds_only_the_start(self) -> bool:
        """Whether the copied parameters are those that the fit began with."""
        return self.parameters is not None and self.version == 1

    def _saved(self) -> State:
        """The arrays that are kept, as the model has them now."""
        model = self._model
        return model.parameters() if isinstance(model, HasParameters) else model.state()

    def restore(self) -> None:
        """Put the copied parameters back into the model."""
        if self.parameters is None:
            return
        if isinstance(self._model, HasParameters):
            self._model.load_parameters(self.parameters)
        else:
            self._model.load_state(self.parameters)

    def state(self) -> dict[str, Any]:
        """Return the counters as JSON; the parameters are saved separately, as arrays."""
        return {"waited": self.waited, "version": self.version}

    def load_state(
        self, state: dict[str, Any], parameters: Mapping[str, NDArray[Any]] | None
    ) -> None:
        """Put back what `state` returned, and the parameters."""
        self.waited, self.version = saved_count(state["waited"]), saved_count(state["version"])
        if parameters is not None:
            check_state(parameters, self._saved())
        self.parameters = parameters
