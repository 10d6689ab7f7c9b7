"""Learning-rate schedules: the rate of every step, as a function of its position in the fit."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from tacenda.errors import ConfigurationError


class Position(NamedTuple):
    """Where a fit is: steps done, epochs done, and the fraction of the current epoch that is done."""

    step: int
    epoch: int
    fraction: float


@dataclass
class Schedule:
    """Base of all schedules; by itself a constant ``rate``."""

    rate: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and self.rate >= 0):
            raise ConfigurationError(f"learning rate {self.rate} is not a finite number >= 0")

    def at(self, position: Position) -> float:
        """Return the learning rate of the step that begins at ``position``."""
        return self.rate

    def config(self) -> dict[str, Any]:
        """Return the settings as JSON; they tell schedules apart when a fit is resumed."""
        return {"schedule": type(self).__name__, **asdict(self)}


@dataclass
class StepDecay(Schedule):
    """``rate`` times ``factor`` to the power of the number of times that ``epochs`` epochs were done."""

    factor: float = 0.5
    epochs: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least_one(self.epochs, "a step decay", "epochs")
        if not (math.isfinite(self.factor) and self.factor >= 0):
            raise ConfigurationError(
                f"a step decay's factor {self.factor} is not a finite number >= 0"
            )

    def at(self, position: Position) -> float:
        """Return the rate, decayed as often as so many whole epochs were done."""
        return self.rate * self.factor ** (position.epoch // self.epochs)


@dataclass
class Cosine(Schedule):
    """From ``rate`` down to ``floor`` over ``epochs`` along half a cosine, ``floor`` afterwards.

    Loshchilov and Hutter 2017 (arXiv 1608.03983), equation 5, without restarts.
    """

    epochs: int = 10
    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least_one(self.epochs, "a cosine", "epochs")
        if not (math.isfinite(self.floor) and self.floor >= 0):
            raise ConfigurationError(f"a cosine's floor {self.floor} is not a finite number >= 0")

    def at(self, position: Position) -> float:
        """Return the rate of a place on the cosine, which fractions of an epoch move on."""
        done = min(1.0, (position.epoch + position.fraction) / self.epochs)
        return self.floor + 0.5 * (self.rate - self.floor) * (1.0 + math.cos(math.pi * done))


@dataclass
class WarmUp(Schedule):
    """Another schedule, multiplied by (step + 1) / steps during the first ``steps`` steps."""

    rate: float = field(init=False, repr=False)
    then: Schedule
    steps: int

    def __post_init__(self) -> None:
        self.rate = self.then.rate
        super().__post_init__()
        _at_least_one(self.steps, "a warm-up", "steps")

    def at(self, position: Position) -> float:
        """Return the rate of the other schedule, or a growing part of it."""
        return self.then.at(position) * min(1.0, (position.step + 1) / self.steps)

    def config(self) -> dict[str, Any]:
        return {"schedule": "WarmUp", "steps": self.steps, "then": self.then.config()}


def _at_least_one(value: float, schedule: str, what: str) -> None:
    """Raise ConfigurationError for a schedule over less than one epoch or step."""
    if not value >= 1:
        raise ConfigurationError(f"{schedule} of {value} {what}; give at least 1")


def as_schedule(rate: Schedule | float) -> Schedule:
    """Return a schedule as it is, and a number as a constant rate."""
    return rate if isinstance(rate, Schedule) else Schedule(float(rate))
