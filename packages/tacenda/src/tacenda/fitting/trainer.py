"""`Trainer`: a model under training as the fitting loop sees it, `Adam`, and `pack` and `unpack`, which save both.

For example:

    class Regression(Trainer):
        def __init__(self, width: int, seed: int) -> None:
            self.weights, self.rng = np.zeros(width), np.random.default_rng(seed)
            self.learned = {"weights": self.weights}  # what the model is made of
            self.adam = Adam(self.learned)
            self.rest = {"adam": self.adam, "rng": self.rng}  # what else the next steps depend on

        def step(self, batch, learning_rate):
            ...  # changes the weights in place
            return StepResult(loss, len(batch))

That is all a checkpoint needs to know.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from tacenda.array_ops import assign, to_numpy, zeros
from tacenda.arrays import LARGEST, Arrays
from tacenda.errors import ConfigurationError
from tacenda.kernels.shared import adam

State = Mapping[str, NDArray[Any]]


class StepResult(NamedTuple):
    """The report of one step: the loss *summed* over the batch and the number of units in it.

    The loss may be anything that ``float()`` takes. A torch scalar left on its device is converted
    only every ``FitSettings.check_losses_every`` steps, so that nothing waits for the device.
    """

    loss: SupportsFloat
    units: float
    gradient_norm: SupportsFloat | None = None


class Trainer:
    """A model under training; a subclass implements `step`, and `evaluate` where there is held-out data.

    Attributes
    ----------
    learned
        The parts that make up the model, by name, changed in place by `step`: arrays of numpy or tensors, `Arrays`,
        torch modules, optimizers or generators, generators of numpy, objects with ``state`` and ``load_state``, and
        mappings of these; or one `Arrays`.
    rest
        Whatever else the next steps depend on, likewise.
    steps
        Steps done, if `step` counts them, so that it can draw from a generator seeded with the seed and this number.
    unit
        The unit of the data where it is not about one, as that of amounts. It says which numbers are implausible.
    """

    learned: Mapping[str, Any] | Arrays
    rest: Mapping[str, Any] | Arrays = MappingProxyType({})
    steps: int = 0
    unit: float = 1.0

    def step(self, batch: Any, learning_rate: float) -> StepResult | tuple[SupportsFloat, float]:
        """Update the parameters once, from one batch, at the given (base) learning rate."""
        raise NotImplementedError(f"{type(self).__name__} does not implement step")

    def evaluate(self) -> float | None:
        """Return the criterion on held-out data, lower is better; None if there is none."""
        return None

    def load_parameters(self, saved: State, /) -> None:
        """Put back what ``pack(self.learned)`` returned. Raises ValueError where names, shapes or dtypes differ."""
        unpack(self.learned, saved)

    def state(self) -> State:
        """Return everything the next steps depend on; `load_state` of it changes nothing, to the bit."""
        return {**pack(self.learned), **pack(self.rest), "steps": np.array(self.steps)}

    def load_state(self, saved: State, /) -> None:
        """Put back what `state` returned. Raises ValueError where names, shapes or dtypes differ."""
        steps = np.array(self.steps)
        unpack({**dict(self.learned.items()), **dict(self.rest.items()), "steps": steps}, saved)
        self.steps = int(steps)


# -- optimizers ---------------------------------------------------------------------------------------


class Adam:
    """The optimizer Adam of Kingma and Ba 2015 (arXiv 1412.6980), algorithm 1: beta1 0.9, beta2 0.999, epsilon 1e-8.

    A parameter, its gradient and its running means are on one device and have one dtype, float32 or float64. A
    parameter whose name is absent from the gradients of a step is left as it is.

    Parameters
    ----------
    parameters
        The arrays that `update` changes in place, by name.
    weight_decay
        By parameter name: this number times the parameter is added to its gradient (L2 penalty).

    Raises ConfigurationError for a weight decay of what is no parameter.
    """

    def __init__(
        self, parameters: Mapping[str, Any], *, weight_decay: Mapping[str, float] | None = None
    ) -> None:
        self.parameters, self.weight_decay = dict(parameters), dict(weight_decay or {})
        if unknown := self.weight_decay.keys() - self.parameters.keys():
            raise ConfigurationError(
                f"weight_decay of {min(unknown)!r} has no parameter; there are: {', '.join(self.parameters)}"
            )
        of_each = self.parameters.items()
        self._slots: dict[str, dict[str, Any]] = {
            "mean": {name: zeros(array.shape, array) for name, array in of_each},
            "square": {name: zeros(array.shape, array) for name, array in of_each},
            "steps": {name: np.zeros((), np.int64) for name in self.parameters},
        }

    def update(self, gradients: Mapping[str, Any], learning_rate: float) -> None:
        """Make one step, in place. Raises ConfigurationError for a gradient that fits no parameter."""
        for name, gradient in gradients.items():
            parameter = self.parameters.get(name)
            if parameter is None:
                raise ConfigurationError(
                    f"gradient of {name!r} has no parameter; there are: {', '.join(self.parameters)}"
                )
            if gradient.shape != parameter.shape:
                raise ConfigurationError(
                    f"gradient of {name!r} has shape {gradient.shape}, "
                    f"its parameter {parameter.shape}; they must be equal"
                )
            decay = self.weight_decay.get(name, 0.0)
            if decay:
                gradient = gradient + decay * parameter
            m, v, steps = (slots[name] for slots in self._slots.values())
            # in place: the slots hold this 0-dimensional array
            steps += 1
            adam(parameter, m, v, gradient, learning_rate, int(steps))

    def state(self) -> State:
        """Return the running means and step counts by name; arrays on the CPU are not copied."""
        return pack(self._slots)

    def load_state(self, state: State) -> None:
        """Put back what `state` returned. Raises ValueError where names, shapes or dtypes differ."""
        unpack(self._slots, state)


def set_learning_rate(optimizer: Any, learning_rate: float) -> None:
    """Set the rate of every parameter group of a torch optimizer, times the group's own "scale" if it has one."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group.get("scale", 1.0)


def is_plausible(state: State, unit: float = 1.0) -> bool:
    """Return whether no number of a state is NaN, infinite or above 1e15 squared units, so that it is worth keeping."""
    largest = np.float64(LARGEST * max(unit, 1.0) ** 2)
    return all(
        array.dtype.kind != "f" or bool((np.abs(array) <= largest).all())
        for array in map(np.asarray, state.values())
    )


# -- parts to arrays and back ------------------------------------------------------------------------


def pack(part: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a part by name, "outer/inner" where parts are nested; those of the CPU are not copied.

    Raises ConfigurationError for a part that `unpack` could not change in place, such as a number.
    """
    if isinstance(part, Mapping):
        inner = ((name, key, array) for name in part for key, array in pack(part[name]).items())
        return {f"{name}/{key}" if key else name: array for name, key, array in inner}
    if isinstance(part, Arrays):
        return part.to_arrays()
    if isinstance(part, np.random.Generator):
        # those of MT19937, Philox and SFC64 have arrays in their state, and take lists for them
        text = json.dumps(part.bit_generator.state, default=np.ndarray.tolist)
        return {"": np.frombuffer(text.encode(), np.uint8)}
    if (torch := sys.modules.get("torch")) is not None:
        if isinstance(part, torch.nn.Module):
            return pack(part.state_dict())
        if isinstance(part, torch.optim.Optimizer):
            return pack(_slots_of(part))
        if isinstance(part, torch.Generator):
            return {"": part.get_state().numpy()}
    if hasattr(part, "state"):
        return dict(part.state())
    if not (hasattr(part, "dtype") and hasattr(part, "__setitem__")):
        raise ConfigurationError(
            f"a trainer cannot restore {part!r:.80}: keep it in an array that `step` changes in place, or use a "
            "generator of numpy"
        )
    return {"": np.asarray(to_numpy(part))}


def unpack(part: Any, saved: State) -> None:
    """Put arrays that `pack` gave back into the part, in place. Raises ValueError where they do not fit."""
    torch = sys.modules.get("torch")
    if isinstance(part, Mapping):
        own: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in part}
        for key, array in saved.items():
            names = [name for name in own if key == name or key.startswith(f"{name}/")]
            if not names:
                raise ValueError(f"names differ: nothing here is called {key!r}")
            name = max(names, key=len)
            own[name][key[len(name) + 1 :]] = array
        for name, inner in part.items():
            try:
                unpack(inner, own[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
    elif isinstance(part, Arrays):
        unpack(dict(part.items()), saved)
    elif torch is not None and isinstance(part, torch.nn.Module):
        unpack(part.state_dict(), saved)  # its tensors share the memory of the parameters
    elif torch is not None and isinstance(part, torch.optim.Optimizer):
        _fill_slots(part, {key.partition("/")[0] for key in saved})
        unpack(_slots_of(part), saved)
    elif hasattr(part, "load_state"):
        part.load_state(saved)
    elif set(saved) != {""}:
        raise ValueError("names differ: it is one array, and is missing or has parts")
    else:
        array = saved[""]
        if isinstance(part, np.random.Generator):
            part.bit_generator.state = json.loads(array.tobytes())
        elif torch is not None and isinstance(part, torch.Generator):
            part.set_state(torch.from_numpy(np.array(array)))
        else:
            here = f"{str(part.dtype).removeprefix('torch.')} {tuple(part.shape)}"
            if here != f"{array.dtype} {array.shape}":
                raise ValueError(f"it is {here}, not {array.dtype} {array.shape}")
            assign(part.detach() if hasattr(part, "detach") else part, array)


def _slots_of(optimizer: Any) -> dict[str, dict[str, Any]]:
    """Return the slots of a torch optimizer that are not None, by the number of their parameter."""
    slots = optimizer.state_dict()["state"].items()
    return {str(n): {k: v for k, v in own.items() if v is not None} for n, own in slots}


def _fill_slots(optimizer: Any, numbers: set[str]) -> None:
    """Give these parameters of a torch optimizer the slots of a first step, which leaves them as they are."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.state.clear()
    for number, parameter in enumerate(parameters):
        parameter.grad = zeros(parameter.shape, parameter) if str(number) in numbers else None
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    optimizer.zero_grad()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
