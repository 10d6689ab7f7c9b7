"""What a fit has been through: losses, evaluations, rates; goes into an artefact's figures."""

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple


class Evaluation(NamedTuple):
    """A criterion value (lower is better) after ``step`` steps, in epoch ``epoch`` (from 1)."""

    step: int
    epoch: int
    value: float


@dataclass
class History:
    """The course of a fit.

    Two histories are equal if everything but the times is: a resumed run has the history of an
    uninterrupted one. ``seconds`` add up over resumed runs.
    """

    epoch_losses: list[float] = field(default_factory=list)
    """Mean training loss per unit, one value for each finished epoch."""
    learning_rates: list[float] = field(default_factory=list)
    """Learning rate of the last step of each finished epoch."""
    gradient_norms: list[float | None] = field(default_factory=list)
    """Mean gradient norm of each finished epoch; None where the model reports none."""
    evaluations: list[Evaluation] = field(default_factory=list)
    best: Evaluation | None = None
    """The evaluation whose parameters the model now holds, if the best were restored."""
    steps: int = 0
    epochs: int = 0
    """Finished epochs."""
    stopped: str = ""
    """Why: "epochs", "steps", "time", "patience", "rate", "callback", "interrupted", "diverged";
    empty while the fit is running."""
    seconds: float = field(default=0.0, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """JSON, with all floats exact."""
        values = asdict(self)
        values["evaluations"] = [list(evaluation) for evaluation in self.evaluations]
        values["best"] = None if self.best is None else list(self.best)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "History":
        """The inverse of ``as_dict``."""
        values = dict(values)
        values["evaluations"] = [Evaluation(*evaluation) for evaluation in values["evaluations"]]
        values["best"] = None if values["best"] is None else Evaluation(*values["best"])
        return cls(**values)

    def figure(self, criterion: str = "criterion") -> dict[str, Any]:
        """One entry for ``Artifact.figures``: what was reached, after how much training."""
        last = self.epoch_losses[-1] if self.epoch_losses else None
        return {
            "name": "fit",
            "training_loss": last,
            "criterion": criterion,
            "best": None if self.best is None else self.best.value,
            "best_step": None if self.best is None else self.best.step,
            "steps": self.steps,
            "epochs": self.epochs,
            "stopped": self.stopped,
            "seconds": round(self.seconds, 3),
        }
