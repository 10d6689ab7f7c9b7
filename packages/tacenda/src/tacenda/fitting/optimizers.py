"""Gradient steps on numpy arrays, in place: SGD with momentum, Adam, AdaGrad.

The update rules and their defaults are those of ``torch.optim`` (2.x), against which they are
tested. Parameters and gradients are dictionaries of arrays by name; a name may be absent from the
gradients of a step, and is then left as it is. Parameter groups: ``scales`` multiplies the learning
rate of the parameters named in it, ``weight_decay`` may be a number or a number by name.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import ConfigurationError

Arrays = Mapping[str, NDArray[Any]]


class Optimizer:
    """Base: state by "slot/parameter" name, weight decay, rate scales."""

    def __init__(
        self,
        *,
        weight_decay: float | Mapping[str, float] = 0.0,
        scales: Mapping[str, float] | None = None,
    ) -> None:
        self.weight_decay, self.scales = weight_decay, dict(scales or {})
        self._slots: dict[str, NDArray[Any]] = {}

    def update(self, parameters: Arrays, gradients: Arrays, learning_rate: float) -> None:
        """One step, in place. ``gradients[name]`` has the shape of ``parameters[name]``."""
        for name, gradient in gradients.items():
            parameter = parameters[name]
            if gradient.shape != parameter.shape:
                raise ConfigurationError(
                    f"gradient of {name!r} has shape {gradient.shape}, "
                    f"its parameter {parameter.shape}; they must be equal"
                )
            decay = self._decay(name)
            if decay:
                gradient = gradient + decay * parameter
            self._step(name, parameter, gradient, learning_rate * self.scales.get(name, 1.0))

    def _step(self, name: str, w: NDArray[Any], g: NDArray[Any], rate: float) -> None:
        raise NotImplementedError

    def _decay(self, name: str) -> float:
        if isinstance(self.weight_decay, Mapping):
            return float(self.weight_decay.get(name, 0.0))
        return float(self.weight_decay)

    def _slot(self, slot: str, name: str, like: NDArray[Any], value: float = 0.0) -> NDArray[Any]:
        key = f"{slot}/{name}"
        if key not in self._slots:
            self._slots[key] = np.full_like(like, value, order="C")
        return self._slots[key]

    def _count(self, name: str) -> int:
        """Number of updates of this parameter, this one included."""
        counter = self._slots.setdefault(f"steps/{name}", np.zeros((), np.int64))
        counter += 1
        return int(counter)

    def state(self) -> dict[str, NDArray[Any]]:
        """All slots (not copied); empty before the first update."""
        return dict(self._slots)

    def load_state(self, state: Arrays) -> None:
        """Puts back (copies of) what ``state()`` gave."""
        self._slots = {key: np.array(array, copy=True) for key, array in state.items()}


class SGD(Optimizer):
    """v = momentum v + g; w -= rate v (Nesterov: w -= rate (g + momentum v))."""

    def __init__(self, *, momentum: float = 0.0, nesterov: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.momentum, self.nesterov = momentum, nesterov

    def _step(self, name: str, w: NDArray[Any], g: NDArray[Any], rate: float) -> None:
        if self.momentum:
            v = self._slot("velocity", name, w)
            v *= self.momentum
            v += g
            g = g + self.momentum * v if self.nesterov else v
        w -= rate * g


class Adam(Optimizer):
    """Kingma and Ba 2015 (arXiv 1412.6980), algorithm 1; ``decoupled=True`` is AdamW."""

    def __init__(
        self,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        decoupled: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.betas, self.epsilon, self.decoupled = betas, epsilon, decoupled

    def update(self, parameters: Arrays, gradients: Arrays, learning_rate: float) -> None:
        if self.decoupled:
            for name in gradients:
                rate = learning_rate * self.scales.get(name, 1.0)
                parameters[name][...] *= 1.0 - rate * super()._decay(name)
        super().update(parameters, gradients, learning_rate)

    def _decay(self, name: str) -> float:
        return 0.0 if self.decoupled else super()._decay(name)

    def _step(self, name: str, w: NDArray[Any], g: NDArray[Any], rate: float) -> None:
        b1, b2 = self.betas
        m, v = self._slot("mean", name, w), self._slot("square", name, w)
        t = self._count(name)
        m += (1.0 - b1) * (g - m)
        v *= b2
        v += (1.0 - b2) * (g * g)
        denominator = np.sqrt(v)
        denominator *= 1.0 / (1.0 - b2**t) ** 0.5
        denominator += self.epsilon
        np.divide(m, denominator, out=denominator)
        denominator *= rate / (1.0 - b1**t)
        w -= denominator


class AdaGrad(Optimizer):
    """Duchi, Hazan and Singer 2011: s += g^2; w -= rate g / (sqrt(s) + epsilon)."""

    def __init__(self, *, initial: float = 0.0, epsilon: float = 1e-10, **options: Any) -> None:
        super().__init__(**options)
        self.initial, self.epsilon = initial, epsilon

    def _step(self, name: str, w: NDArray[Any], g: NDArray[Any], rate: float) -> None:
        s = self._slot("sum", name, w, self.initial)
        s += g * g
        w -= rate * g / (np.sqrt(s) + self.epsilon)


def gradient_norm(gradients: Arrays) -> float:
    """Euclidean norm of all gradients together."""
    return float(np.sqrt(sum(float(np.vdot(g, g).real) for g in gradients.values())))


def clip_gradients(gradients: Arrays, maximum: float) -> float:
    """Scales the gradients in place so that their common norm is at most ``maximum``.

    Returns the norm before.
    """
    norm = gradient_norm(gradients)
    if norm > maximum:
        for gradient in gradients.values():
            gradient *= maximum / norm
    return norm
