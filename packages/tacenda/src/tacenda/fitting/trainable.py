"""What the fitting loop asks of a model, and of the data it is fitted on.

A model that offers the four methods of :class:`Trainable` can be fitted by
:func:`tacenda.fitting.fit`, whatever it computes with. The loop sees numpy arrays only; a torch
model converts (:mod:`tacenda.fitting.torch_model` has the conversions).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, SupportsFloat, runtime_checkable

import numpy as np
from numpy.typing import NDArray

State = Mapping[str, NDArray[Any]]


class StepResult(NamedTuple):
    """What one step reports: the loss *summed* over the batch and the number of units in it.

    The loss may be anything ``float()`` takes; a torch scalar left on its device is converted only
    every ``FitSettings.check_losses_every`` steps, so that the device is not waited for.
    """

    loss: SupportsFloat
    units: float
    gradient_norm: SupportsFloat | None = None


@runtime_checkable
class Trainable(Protocol):
    """A model as the fitting loop sees it.

    ``state()`` holds everything the next steps depend on: parameters, optimiser state, the state of
    every random generator. ``load_state(state())`` must change nothing at all: from that follows
    that a resumed run equals an uninterrupted one bit for bit. The loop copies what it keeps.
    """

    def step(self, batch: Any, learning_rate: float) -> StepResult | tuple[SupportsFloat, float]:
        """One update of the parameters from one batch, at the given (base) learning rate."""
        ...

    def evaluate(self) -> float | None:
        """The criterion on held-out data, lower is better; None if there is none."""
        ...

    def state(self) -> State:
        """All arrays (bool, integer or float; any shape) that the next steps depend on."""
        ...

    def load_state(self, state: State) -> None:
        """Puts back what ``state()`` gave; raises ValueError where names or shapes do not fit."""
        ...


@runtime_checkable
class HasParameters(Protocol):
    """Optional: a model whose best state is less than its whole state (no optimiser moments)."""

    def parameters(self) -> State:
        """The arrays that make up the fitted model."""
        ...

    def load_parameters(self, parameters: State) -> None:
        """Puts back what ``parameters()`` gave."""
        ...


class BatchSource(Protocol):
    """Batches whose order is a function of the epoch alone, so that a position is two integers."""

    def n_batches(self, epoch: int) -> int | None:
        """Number of batches of an epoch (epochs count from 0); None if it is not known."""
        ...

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Any]:
        """The batches of an epoch, without the first ``skip``; the same at every call."""
        ...

    def fingerprint(self) -> str:
        """Identifies data, order and batch size; a checkpoint of another one is refused."""
        ...


def copy_state(state: State) -> dict[str, NDArray[Any]]:
    """A copy in C order of every array; 0-d arrays stay 0-d."""
    return {name: np.array(array, order="C", copy=True) for name, array in state.items()}
