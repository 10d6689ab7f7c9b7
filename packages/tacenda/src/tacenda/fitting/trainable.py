"""What the fitting loop asks of a model, and of the data it is fitted to.

A model that offers the four methods of `Trainable` can be fitted by `tacenda.fitting.fit`, whatever it
computes with. The loop sees numpy arrays only; `tacenda.fitting.torch_model` converts those of torch.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, SupportsFloat, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import LARGEST

State = Mapping[str, NDArray[Any]]


class StepResult(NamedTuple):
    """What one step reports: the loss *summed* over the batch and the number of units in it.

    The loss may be anything that ``float()`` takes. A torch scalar left on its device is converted
    only every ``FitSettings.check_losses_every`` steps, so that nothing waits for the device.
    """

    loss: SupportsFloat
    units: float
    gradient_norm: SupportsFloat | None = None


@runtime_checkable
class Trainable(Protocol):
    """A model as the fitting loop sees it.

    ``state()`` holds everything the next steps depend on: parameters, optimizer state, the state of
    every random generator. ``load_state(state())`` must change nothing at all: then a resumed run
    equals an uninterrupted one bit for bit. The loop copies what it keeps.
    """

    def step(self, batch: Any, learning_rate: float) -> StepResult | tuple[SupportsFloat, float]:
        """Update the parameters once, from one batch, at the given (base) learning rate."""
        ...

    def evaluate(self) -> float | None:
        """Return the criterion on held-out data, lower is better; None if there is none."""
        ...

    def state(self) -> State:
        """Return all arrays (bool, integer or float; any shape) that the next steps depend on."""
        ...

    def load_state(self, state: State) -> None:
        """Put back what ``state()`` returned; raise ValueError where names or shapes do not fit."""
        ...


@runtime_checkable
class HasParameters(Protocol):
    """Optional: a model whose fitted part is less than its whole state (no optimizer moments)."""

    def parameters(self) -> State:
        """Return the arrays that make up the fitted model."""
        ...

    def load_parameters(self, parameters: State) -> None:
        """Put back what ``parameters()`` returned."""
        ...


class BatchSource(Protocol):
    """Batches whose order depends on the epoch alone, so that two integers say where a fit is."""

    def n_batches(self, epoch: int) -> int | None:
        """Return the number of batches of an epoch (epochs count from 0); None if it is not known."""
        ...

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Any]:
        """Yield the batches of an epoch without the first ``skip``; the same ones at every call."""
        ...

    def fingerprint(self) -> str:
        """Identify data, order and batch size; a checkpoint of another fingerprint is refused."""
        ...


def check_state(found: State, own: State) -> None:
    """Raise ValueError unless a state that was saved could be one of the model whose state is ``own`` now.

    Its floating-point arrays must be there, of the same type and shape, and no number may be infinite or implausibly
    large (above 1e15). There may be more arrays, as those of an optimizer, which has none before its first step.
    """
    for name, array in own.items():
        like, kept = np.asarray(array), found[name]
        if like.dtype.kind == "f" and (kept.dtype, kept.shape) != (like.dtype, like.shape):
            raise ValueError(
                f"{name!r} is {kept.dtype} of shape {kept.shape}, not {like.dtype} of {like.shape}"
            )
    for name, array in found.items():
        if not _is_plausible(array):
            raise ValueError(
                f"{name!r} holds NaN, infinite or implausibly large (above 1e15) numbers"
            )


def is_plausible(state: State) -> bool:
    """Return whether no number of a state is NaN, infinite or implausibly large, so that it is worth keeping."""
    return all(_is_plausible(np.asarray(array)) for array in state.values())


def _is_plausible(array: NDArray[Any]) -> bool:
    return array.dtype.kind != "f" or bool((np.abs(array) <= np.float64(LARGEST)).all())


def copy_state(state: State) -> dict[str, NDArray[Any]]:
    """Copy every array, in C order; 0-d arrays stay 0-d."""
    return {name: np.array(array, order="C", copy=True) for name, array in state.items()}
