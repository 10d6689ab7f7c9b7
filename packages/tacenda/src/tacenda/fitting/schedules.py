"""Learning-rate schedules: the rate of every step, as a function of its position in the fit."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from tacenda.errors import ConfigurationError

__all__ = ["Cosine", "Position", "Schedule", "StepDecay", "WarmUp", "as_schedule"]


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


class WarmUp(Schedule):
    """Another schedule, multiplied by (step + 1) / steps during the first ``steps`` steps."""

    def __init__(self, then: Schedule, steps: int) -> None:
        if steps < 1:
            raise ConfigurationError(f"warm-up of {steps} steps; give at least 1")
        super().__init__(then.rate)
        self.then, self.steps = then, steps

    def at(self, position: Position) -> float:
        return self.then.at(position) * min(1.0, (position.step + 1) / self.steps)

    def config(self) -> dict[str, Any]:
        return {"schedule": "WarmUp", "steps": self.steps, "then": self.then.config()}


def as_schedule(rate: Schedule | float) -> Schedule:
    """Return a schedule as it is, and a number as a constant rate."""
    return rate if isinstance(rate, Schedule) else Schedule(float(rate))
