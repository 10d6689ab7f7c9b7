"""What a torch model needs to be fitted: its state as numpy arrays, and a ready-made step.

Imported on demand only (``tacenda.fitting`` itself needs no torch). While a fit is running, torch's
global random generator belongs to it (dropout draws from it): seed it before, and put
``torch.random.fork_rng()`` around the fit where others depend on it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tacenda.fitting.trainable import State, StepResult

Arrays = dict[str, NDArray[Any]]


def to_array(tensor: torch.Tensor) -> NDArray[Any]:
    """A copy on the host; bfloat16, which numpy lacks, as the int16 of the same bits."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return np.array(tensor.cpu().numpy(), copy=True)


def to_tensor(array: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    """The inverse of ``to_array``, on the device of ``like``."""
    tensor = torch.from_numpy(np.array(array, order="C", copy=True))
    if like.dtype == torch.bfloat16:
        tensor = tensor.view(torch.bfloat16)
    return tensor.to(like.device)


def module_arrays(module: torch.nn.Module) -> Arrays:
    """Parameters and buffers by the names of ``state_dict``."""
    return {name: to_array(tensor) for name, tensor in module.state_dict().items()}


def load_module_arrays(module: torch.nn.Module, arrays: State) -> None:
    """Puts back ``module_arrays``; raises ValueError where names or shapes do not fit."""
    present = module.state_dict()
    if set(present) != set(arrays):
        odd = sorted(set(present) ^ set(arrays))
        raise ValueError(f"the arrays of the module do not match: {', '.join(odd[:5])}")
    for name, tensor in present.items():
        if tuple(tensor.shape) != arrays[name].shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {tuple(tensor.shape)}")
    module.load_state_dict({name: to_tensor(arrays[name], t) for name, t in present.items()})


def optimizer_arrays(optimizer: torch.optim.Optimizer) -> Arrays:
    """Per-parameter optimiser state as "number of the parameter/name"; settings are not in it."""
    arrays: Arrays = {}
    for number, slots in optimizer.state_dict()["state"].items():
        for name, value in slots.items():
            if isinstance(value, torch.Tensor):
                arrays[f"{number}/{name}"] = to_array(value)
            elif value is not None:
                arrays[f"{number}/{name}"] = np.asarray(value)
    return arrays


def load_optimizer_arrays(optimizer: torch.optim.Optimizer, arrays: State) -> None:
    """Puts back ``optimizer_arrays``."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    slots: dict[int, dict[str, Any]] = {}
    for key, array in arrays.items():
        number, _, name = key.partition("/")
        like = parameters[int(number)]
        # step counters stay where torch keeps them; everything else lies beside its parameter
        if array.ndim == 0 and like.ndim > 0:
            like = torch.empty((), dtype=torch.float32)
        slots.setdefault(int(number), {})[name] = to_tensor(array, like)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": slots, "param_groups": groups})


def generator_arrays(generators: Mapping[str, torch.Generator], cuda: bool) -> Arrays:
    """States (uint8) of torch's global generators and of the given ones."""
    arrays = {"cpu": torch.get_rng_state().numpy().copy()}
    if cuda:
        arrays["cuda"] = torch.cuda.get_rng_state().numpy().copy()
    for name, generator in generators.items():
        arrays[f"own/{name}"] = generator.get_state().numpy().copy()
    return arrays


def load_generator_arrays(generators: Mapping[str, torch.Generator], arrays: State) -> None:
    """Puts back ``generator_arrays``."""
    torch.set_rng_state(torch.from_numpy(np.array(arrays["cpu"])))
    if "cuda" in arrays:
        torch.cuda.set_rng_state(torch.from_numpy(np.array(arrays["cuda"])))
    for name, generator in generators.items():
        generator.set_state(torch.from_numpy(np.array(arrays[f"own/{name}"])))


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Sets the rate of every parameter group, times the group's own "scale" where it has one."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group.get("scale", 1.0)


class TorchTrainable(ABC):
    """A module and its optimiser as the fitting loop wants them; a subclass gives the loss.

    Minimises the mean loss per unit of each batch. ``clip`` bounds the common norm of all gradients
    (which is then reported). ``generators``: the module's own random generators, by name.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        clip: float | None = None,
        generators: Mapping[str, torch.Generator] | None = None,
    ) -> None:
        self.module, self.optimizer, self.clip = module, optimizer, clip
        self.generators = dict(generators or {})

    @abstractmethod
    def loss(self, batch: Any) -> tuple[torch.Tensor, float]:
        """The loss summed over a batch (a scalar with a gradient), and the number of units."""

    def evaluate(self) -> float | None:
        """No held-out data unless a subclass has some."""
        return None

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """One optimiser step on the mean loss of the batch."""
        self.module.train()
        set_learning_rate(self.optimizer, learning_rate)
        self.optimizer.zero_grad(set_to_none=True)
        loss, units = self.loss(batch)
        (loss / units).backward()
        norm = None
        if self.clip is not None:
            norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.clip)
        self.optimizer.step()
        return StepResult(loss.detach(), units, norm)

    def parameters(self) -> Arrays:
        """Parameters and buffers."""
        return module_arrays(self.module)

    def load_parameters(self, parameters: State) -> None:
        """Puts parameters and buffers back."""
        load_module_arrays(self.module, parameters)

    def state(self) -> Arrays:
        """Parameters, buffers, optimiser state and generators."""
        cuda = any(p.is_cuda for p in self.module.parameters())
        parts = {
            "module": module_arrays(self.module),
            "optimizer": optimizer_arrays(self.optimizer),
            "generator": generator_arrays(self.generators, cuda),
        }
        return {f"{part}/{k}": a for part, arrays in parts.items() for k, a in arrays.items()}

    def load_state(self, state: State) -> None:
        """Puts back what ``state()`` gave."""

        def part(name: str) -> Arrays:
            prefix = f"{name}/"
            return {k[len(prefix) :]: a for k, a in state.items() if k.startswith(prefix)}

        load_module_arrays(self.module, part("module"))
        load_optimizer_arrays(self.optimizer, part("optimizer"))
        load_generator_arrays(self.generators, part("generator"))
