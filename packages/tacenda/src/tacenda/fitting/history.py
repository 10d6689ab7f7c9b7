"""`History`, the course of a fit, and `DivergenceError`, its bad end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from tacenda.errors import FittingError


class Evaluation(NamedTuple):
    """A criterion value (lower is better) after ``step`` steps, in epoch ``epoch`` (from 1)."""

    step: int
    epoch: int
    value: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Evaluation:
        """Make an evaluation of three numbers."""
        step, epoch, value = values
        return cls(read_count(step), read_count(epoch), float(value))


def read_count(value: Any) -> int:
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
        try:
            found = cls(
                epoch_losses=[float(loss) for loss in values["epoch_losses"]],
                learning_rates=[float(rate) for rate in values["learning_rates"]],
                gradient_norms=[None if norm is None else float(norm) for norm in norms],
                evaluations=[Evaluation.of(evaluation) for evaluation in values["evaluations"]],
                best=None if best is None else Evaluation.of(best),
                steps=read_count(values["steps"]),
                epochs=read_count(values["epochs"]),
                stopped=str(values["stopped"]),
                seconds=float(values["seconds"]),
            )
        except OverflowError as error:
            raise ValueError(str(error)) from error
        for name in ("epoch_losses", "learning_rates", "gradient_norms"):
            if len(getattr(found, name)) != found.epochs:
                raise ValueError(f"{len(getattr(found, name))} {name} of {found.epochs} epochs")
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

    ``outcome`` is the part of the message that says whether the model holds earlier parameters. Process pools pickle
    the arguments and the attributes.
    """

    def __init__(self, what: str, value: float, step: int, learning_rate: float) -> None:
        super().__init__()
        self.args = what, value, step, learning_rate
        self.what, self.value = what, value
        self.step, self.learning_rate = step, learning_rate
        self.history: History | None = None
        self.outcome = ""
        self.advice = f"use a lower learning rate than {learning_rate:g} or clip gradients"

    def __str__(self) -> str:
        return f"the {self.what} is {self.value} at step {self.step}{self.outcome}; {self.advice}"
