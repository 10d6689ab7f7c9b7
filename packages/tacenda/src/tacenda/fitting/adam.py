"""Adam on arrays of numpy, or on tensors of a device, in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.array_ops import to_device, to_numpy, zeros
from tacenda.errors import ConfigurationError
from tacenda.kernels.shared import adam

Arrays = Mapping[str, NDArray[Any]]


class Adam:
    """Kingma and Ba 2015 (arXiv 1412.6980), algorithm 1, tested against ``torch.optim.Adam``.

    Parameters and gradients are dictionaries of arrays by name. A name may be absent from the
    gradients of a step; its parameter is then left as it is.

    Parameters
    ----------
    weight_decay
        By parameter name: this number times the parameter is added to its gradient (L2 penalty).
    device
        Where parameters and gradients lie; see `tacenda.devices`.
    """

    def __init__(
        self, *, weight_decay: Mapping[str, float] | None = None, device: str = "cpu"
    ) -> None:
        self.weight_decay, self._device = dict(weight_decay or {}), device
        self._slots: dict[str, NDArray[Any]] = {}

    def update(self, parameters: Arrays, gradients: Arrays, learning_rate: float) -> None:
        """Make one step, in place.

        Parameters
        ----------
        parameters
            Arrays to change, by name.
        gradients
            ``gradients[name]`` has the shape of ``parameters[name]``.
        learning_rate
            Rate of this step.

        Raises
        ------
        ConfigurationError
            A gradient has another shape than its parameter.
        """
        for name, gradient in gradients.items():
            parameter = parameters[name]
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
            steps += 1
            adam(parameter, m, v, gradient, learning_rate, int(steps))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the running means and step counts (those of the CPU not copied); empty before the first update."""
        return {key: to_numpy(array) for key, array in self._slots.items()}

    def load_state(self, state: Arrays) -> None:
        """Put back (copies of) what `state` returned."""
        self._slots = {
            key: to_device(np.array(array, copy=True), self._device if array.ndim else "cpu")
            for key, array in state.items()
        }
