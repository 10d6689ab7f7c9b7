"""The settings of one fit."""

from dataclasses import dataclass
from typing import Any, Literal

from tacenda.errors import ConfigurationError
from tacenda.fitting.schedules import Schedule, as_schedule

_MAY_DIFFER = {
    "epochs",
    "max_steps",
    "max_seconds",
    "check_losses_every",
    "on_interrupt",
    "on_divergence",
    "learning_rate",  # compared by Schedule.config()
}


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How long to train, at what rate, when to evaluate and when to stop."""

    epochs: int
    """Passes over the batch source at most."""
    learning_rate: float | Schedule
    """A number is a constant rate."""
    evaluate_every: int = 1
    """Evaluate after so many epochs or steps (``evaluate_unit``); 0: only at the end."""
    evaluate_unit: Literal["epochs", "steps"] = "epochs"
    evaluate_first: bool = False
    """Evaluate before the first step too: then the result is never worse than the start."""
    patience: int | None = None
    """Stop after so many evaluations in a row without improvement; None: never."""
    min_delta: float = 0.0
    """An evaluation improves if it is lower than the best by more than this."""
    restore_best: bool = True
    """Leave the model with its best parameters (needs memory for one copy of them). Without
    evaluations these are the last ones; after a divergence those of the last whole epoch."""
    max_steps: int | None = None
    max_seconds: float | None = None
    """Time budget, resumed runs added up; a step or an evaluation is never cut short. A fit that
    was ended by its time budget is not reproducible."""
    check_losses_every: int = 1
    """Convert losses to numbers, and look for NaN, every so many steps."""
    on_interrupt: Literal["raise", "return"] = "raise"
    """After Ctrl-C (first a checkpoint is saved and the best parameters restored)."""
    on_divergence: Literal["raise", "return"] = "raise"
    """After a loss or an evaluation that is not finite (first the best parameters are restored).
    "return" warns; in the first epoch, which leaves nothing to keep, it raises DivergenceError."""

    def __post_init__(self) -> None:
        _at_least("epochs", self.epochs, 0)
        _at_least("evaluate_every", self.evaluate_every, 0)
        _at_least("check_losses_every", self.check_losses_every, 1)
        for name in ("patience", "max_steps", "max_seconds"):
            if getattr(self, name) is not None:
                _at_least(name, getattr(self, name), 1 if name == "patience" else 0)
        if self.evaluate_unit not in ("epochs", "steps"):
            raise ConfigurationError(
                f"evaluate_unit is {self.evaluate_unit!r}; give 'epochs' or 'steps'"
            )
        as_schedule(self.learning_rate)

    def fingerprint(self) -> dict[str, Any]:
        """The settings a resumed run must share with the one it goes on from, as JSON.

        A run may be resumed with more epochs, steps or time than it began with.
        """
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        shared = {name: value for name, value in values.items() if name not in _MAY_DIFFER}
        return shared | {"learning_rate": as_schedule(self.learning_rate).config()}


def _at_least(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise ConfigurationError(f"{name} is {value}; it must be at least {least}")
