"""Sums of losses over an epoch, converted to numbers as late as wished."""

import math
from typing import Any

from tacenda.errors import FittingError
from tacenda.fitting.history import History
from tacenda.fitting.trainable import StepResult


class DivergenceError(FittingError):
    """A loss or an evaluation is NaN or infinite.

    The model holds the best parameters seen; with ``first``, in the first epoch, there is nothing to keep.
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

    def in_first_epoch(self) -> "DivergenceError":
        """The same with ``first``."""
        found = DivergenceError(self.what, self.value, self.step, self.learning_rate, first=True)
        found.history = self.history
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Process pools send exceptions by pickle, which otherwise passes on the message alone."""
        arguments = (self.what, self.value, self.step, self.learning_rate, self.first)
        return type(self), arguments, {"history": self.history}


class LossMeter:
    """Adds up what the steps of an epoch report.

    Losses are kept as the model gave them and converted together (a GPU model need not wait for
    its device at every step); the sums, in float64 in the order of the steps, do not depend on it.
    """

    def __init__(self, check_every: int) -> None:
        self.check_every = check_every
        self.rate = math.nan
        self._pending: list[tuple[int, float, StepResult]] = []
        self._clear()

    def _clear(self) -> None:
        self._loss = self._count = self._norm = 0.0
        self._norms = 0

    def add(self, step: int, rate: float, result: StepResult) -> None:
        """Takes a result; raises DivergenceError when a loss that is looked at is not finite."""
        self.rate = rate
        self._pending.append((step, rate, result))
        if len(self._pending) >= self.check_every:
            self.flush()

    def flush(self) -> None:
        """Converts and checks what is pending."""
        pending, self._pending = self._pending, []
        for step, rate, result in pending:
            loss = float(result.loss)
            if not math.isfinite(loss):
                raise DivergenceError("training loss", loss, step, rate)
            self._loss += loss
            self._count += float(result.units)
            if result.gradient_norm is not None:
                self._norm += float(result.gradient_norm)
                self._norms += 1

    def close_epoch(self) -> tuple[float, float | None]:
        """Mean loss per unit and mean gradient norm (None if none was reported); starts anew."""
        self.flush()
        loss = self._loss / self._count if self._count else 0.0
        norm = self._norm / self._norms if self._norms else None
        self._clear()
        return loss, norm

    def state(self) -> dict[str, Any]:
        """JSON; to be called after ``flush``."""
        return {
            "rate": None if math.isnan(self.rate) else self.rate,
            "loss": self._loss,
            "count": self._count,
            "norm": self._norm,
            "norms": self._norms,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Puts back what ``state()`` gave."""
        self.rate = math.nan if state["rate"] is None else state["rate"]
        self._loss, self._count = state["loss"], state["count"]
        self._norm, self._norms = state["norm"], state["norms"]
