"""Learning-rate schedules: a rate for every step, some of them moved by the evaluations.

A schedule is a frozen-in-effect configuration (``config()``) and a small state (``state()``), both
JSON; the loop works on a copy, so one schedule object serves many fits.
"""

import math
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from tacenda.errors import ConfigurationError


class Position(NamedTuple):
    """Where a fit is: steps done, epochs done, and the part of the present epoch that is done."""

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
        """The learning rate of the step that begins at ``position``."""
        return self.rate

    def observe(self, value: float) -> None:
        """Takes note of an evaluation (lower is better)."""

    @property
    def exhausted(self) -> bool:
        """True once the schedule says that training on is of no use."""
        return False

    def state(self) -> dict[str, Any]:
        """What ``observe`` has changed, as JSON."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Puts back what ``state()`` gave."""

    def config(self) -> dict[str, Any]:
        """The settings, as JSON."""
        return {"schedule": type(self).__name__} | {
            name: value for name, value in asdict(self).items() if not name.startswith("_")
        }


class Constant(Schedule):
    """The same rate throughout."""


@dataclass
class StepDecay(Schedule):
    """``rate`` times ``factor`` to the power of the number of whole ``epochs`` done."""

    factor: float = 0.5
    epochs: int = 10

    def at(self, position: Position) -> float:
        return self.rate * self.factor ** (position.epoch // self.epochs)


@dataclass
class InverseDecay(Schedule):
    """``rate / (1 + decay * epochs done)``, fractions of an epoch counted."""

    decay: float = 0.1

    def at(self, position: Position) -> float:
        return self.rate / (1.0 + self.decay * (position.epoch + position.fraction))


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
class Plateau(Schedule):
    """Multiplies the rate by ``factor`` (halving) when evaluations have stopped getting better.

    A plateau is ``patience + 1`` evaluations in a row that are not better than the best one by more
    than ``min_delta`` times its absolute value. Once the rate falls below ``minimum`` the schedule
    is exhausted and the loop stops.
    """

    factor: float = 0.5
    patience: int = 0
    min_delta: float = 0.0
    minimum: float = 0.0
    _scale: float = field(default=1.0, init=False, repr=False)
    _best: float | None = field(default=None, init=False, repr=False)
    _bad: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.factor < 1:
            raise ConfigurationError(f"plateau factor {self.factor} is not between 0 and 1")

    def at(self, position: Position) -> float:
        return self.rate * self._scale

    def observe(self, value: float) -> None:
        if self._best is None or value < self._best - self.min_delta * abs(self._best):
            self._best, self._bad = value, 0
            return
        self._bad += 1
        if self._bad > self.patience:
            self._scale, self._bad = self._scale * self.factor, 0

    @property
    def exhausted(self) -> bool:
        return self.rate * self._scale < self.minimum

    def state(self) -> dict[str, Any]:
        return {"scale": self._scale, "best": self._best, "bad": self._bad}

    def load_state(self, state: dict[str, Any]) -> None:
        self._scale, self._best, self._bad = state["scale"], state["best"], state["bad"]


class WarmUp(Schedule):
    """Any schedule, multiplied by (step + 1) / steps during the first ``steps`` steps."""

    def __init__(self, then: Schedule, steps: int) -> None:
        if steps < 1:
            raise ConfigurationError(f"warm-up of {steps} steps; give at least 1")
        super().__init__(then.rate)
        self.then, self.steps = then, steps

    def at(self, position: Position) -> float:
        return self.then.at(position) * min(1.0, (position.step + 1) / self.steps)

    def observe(self, value: float) -> None:
        self.then.observe(value)

    @property
    def exhausted(self) -> bool:
        return self.then.exhausted

    def state(self) -> dict[str, Any]:
        return self.then.state()

    def load_state(self, state: dict[str, Any]) -> None:
        self.then.load_state(state)

    def config(self) -> dict[str, Any]:
        return {"schedule": "WarmUp", "steps": self.steps, "then": self.then.config()}


def as_schedule(rate: "Schedule | float") -> Schedule:
    """A number is a constant rate."""
    return rate if isinstance(rate, Schedule) else Constant(float(rate))
