"""`FitSettings`: epochs, evaluations and the end of a fit; and schedules, the learning rate of every step."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

from tacenda.errors import ConfigurationError, check_whole

_LOWER_BOUNDS = {"rate": 0, "factor": 0, "floor": 0, "epochs": 1, "steps": 1}


class Position(NamedTuple):
    """Where a fit is: steps done, epochs done, and the fraction of the current epoch that is done."""

    step: int
    epoch: int
    fraction: float


@dataclass
class Schedule:
    """Base of all schedules; by itself a constant ``rate``.

    Raises ConfigurationError for a rate, factor or floor that is no finite number or negative, epochs or steps below 1,
    or a ``then`` that is no schedule; a subclass checks what else it has.
    """

    rate: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = _LOWER_BOUNDS.get(name)
            if name == "then" and not isinstance(value, Schedule):
                raise ConfigurationError(
                    f"{type(self).__name__}: then is {value!r}; give a schedule"
                )
            if least is None:
                continue
            if not isinstance(value, Real) or not least <= float(value) < math.inf:
                raise ConfigurationError(
                    f"{type(self).__name__}: {name} is {value!r}; give a finite number, at least {least}"
                )
            # checkpoints hold JSON, which has no numbers of NumPy
            setattr(self, name, int(value) if isinstance(value, Integral) else float(value))

    def at(self, position: Position) -> float:
        """Return the learning rate of the step that begins at ``position``."""
        return self.rate

    def config(self) -> dict[str, Any]:
        """Return the settings as JSON; they distinguish schedules when a fit is resumed."""
        return {"schedule": type(self).__name__, **asdict(self)}


@dataclass
class StepDecay(Schedule):
    """``rate`` times ``factor`` to the power of the number of times that ``epochs`` epochs were done."""

    factor: float = 0.5
    epochs: int = 10

    def at(self, position: Position) -> float:
        return self.rate * self.factor ** (position.epoch // self.epochs)


@dataclass
class Cosine(Schedule):
    """From ``rate`` down to ``floor`` over ``epochs`` along half a cosine, ``floor`` afterwards.

    Loshchilov and Hutter 2017 (arXiv 1608.03983), equation 5, without restarts.
    """

    epochs: int = 10
    floor: float = 0.0

    def at(self, position: Position) -> float:
        done = min(1.0, (position.epoch + position.fraction) / self.epochs)
        return self.floor + 0.5 * (self.rate - self.floor) * (1.0 + math.cos(math.pi * done))


@dataclass
class WarmUp(Schedule):
    """Another schedule, multiplied by (step + 1) / steps during the first ``steps`` steps."""

    rate: float = field(init=False, repr=False, default=0.0)  # that of the other schedule counts
    then: Schedule
    steps: int

    def at(self, position: Position) -> float:
        return self.then.at(position) * min(1.0, (position.step + 1) / self.steps)

    def config(self) -> dict[str, Any]:
        return {"schedule": "WarmUp", "steps": self.steps, "then": self.then.config()}


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How long to train, at what rate, when to evaluate and when to stop.

    Attributes
    ----------
    epochs
        Passes over the batch source at most.
    learning_rate
        The rate of every step; a number becomes a constant schedule.
    evaluate_every
        Evaluate after every so many epochs; 0: only at the end.
    patience
        Stop after this many evaluations in a row without a new best; None: never. It needs ``evaluate_every``.
    restore_best
        Leave the model with its best parameters, which needs memory for one copy of them. Without evaluations these
        are the last ones; after a divergence, the ones of the last whole epoch.
    check_losses_every
        Convert losses to numbers, and look for NaN, every so many steps.
    on_divergence
        What to do after a loss or an evaluation that is not finite, once the best parameters are restored. ``"return"``
        warns; it raises too where there are none, as in the first epoch and its evaluation or without ``restore_best``.

    Raises
    ------
    ConfigurationError
        A value is out of range.
    """

    epochs: int
    learning_rate: float | Schedule
    evaluate_every: int = 1
    patience: int | None = None
    restore_best: bool = True
    check_losses_every: int = 1
    on_divergence: Literal["raise", "return"] = "raise"

    def __post_init__(self) -> None:
        least = {"epochs": 0, "evaluate_every": 0, "check_losses_every": 1, "patience": 1}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None or name != "patience":
                check_whole(name, value, bound)
                object.__setattr__(self, name, int(value))  # checkpoints hold JSON
        if self.patience is not None and not self.evaluate_every:
            raise ConfigurationError(
                "patience has no effect with evaluate_every=0, which evaluates only at the end: leave one out"
            )
        if not isinstance(self.learning_rate, Schedule):
            object.__setattr__(self, "learning_rate", Schedule(self.learning_rate))
        if self.on_divergence not in ("raise", "return"):
            raise ConfigurationError(
                f'on_divergence is "raise" or "return", not {self.on_divergence!r}'
            )
