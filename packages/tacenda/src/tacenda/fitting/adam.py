"""Adam for numpy arrays, or for tensors on a device, in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.array_ops import to_device, to_numpy, zeros
from tacenda.errors import ConfigurationError
from tacenda.kernels.shared import adam

NamedArrays = Mapping[str, NDArray[Any]]


class Adam:
    """The optimizer Adam of Kingma and Ba 2015 (arXiv 1412.6980), algorithm 1: beta1 0.9, beta2 0.999, epsilon 1e-8.

    Parameters and gradients are dictionaries of arrays by name. A parameter, its gradient and its running means have
    one dtype, float32 or float64. A parameter whose name is absent from the gradients of a step is left as it is.

    Parameters
    ----------
    weight_decay
        By parameter name: this number times the parameter is added to its gradient (L2 penalty).
    device
        Of parameters and gradients; see `tacenda.devices`.
    """

    def __init__(
        self, *, weight_decay: Mapping[str, float] | None = None, device: str = "cpu"
    ) -> None:
        self.weight_decay, self._device = dict(weight_decay or {}), device
        self._slots: dict[str, NDArray[Any]] = {}

    def update(self, parameters: NamedArrays, gradients: NamedArrays, learning_rate: float) -> None:
        """Make one step, in place. Raises ConfigurationError for a gradient that fits no parameter."""
        for name, gradient in gradients.items():
            parameter = parameters.get(name)
            if parameter is None:
                raise ConfigurationError(
                    f"gradient of {name!r} has no parameter; there are: {', '.join(parameters)}"
                )
            if gradient.shape != parameter.shape:
                raise ConfigurationError(
                    f"gradient of {name!r} has shape {gradient.shape}, "
                    f"its parameter {parameter.shape}; they must be equal"
                )
            decay = self.weight_decay.get(name, 0.0)
            if decay:
                gradient = gradient + decay * parameter
            if f"steps/{name}" not in self._slots:
                for slot in ("mean", "square"):
                    self._slots[f"{slot}/{name}"] = zeros(parameter.shape, parameter)
                self._slots[f"steps/{name}"] = np.zeros((), np.int64)
            m, v, steps = (self._slots[f"{slot}/{name}"] for slot in ("mean", "square", "steps"))
            # in place: the slots hold this 0-dimensional array
            steps += 1
            adam(parameter, m, v, gradient, learning_rate, int(steps))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the running means and step counts as numpy arrays by name; empty before the first update.

        Arrays on the CPU are not copied.
        """
        return {key: to_numpy(array) for key, array in self._slots.items()}

    def load_state(self, state: NamedArrays) -> None:
        """Put copies of what `state` returned back, the step counts on the CPU."""
        self._slots = {
            key: to_device(
                np.array(array, copy=True), "cpu" if key.startswith("steps/") else self._device
            )
            for key, array in state.items()
        }
