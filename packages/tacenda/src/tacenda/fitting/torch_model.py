"""The state of a torch model, its optimizer and its random generators as numpy arrays, and back.

Imported on demand only: ``tacenda.fitting`` itself needs no torch. While a fit is running, torch's
global random generator belongs to it (dropout draws from it): seed it before, and put
``torch.random.fork_rng()`` around the fit where others depend on it.
"""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tacenda.fitting.trainer import State

Arrays = dict[str, NDArray[Any]]

if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads, and a fit there would wait for them forever.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


def to_array(tensor: torch.Tensor) -> NDArray[Any]:
    """Copy a tensor to the host; bfloat16, which numpy lacks, becomes int16 of the same bits."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return np.array(tensor.cpu().numpy(), copy=True)


def to_tensor(array: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    """Make a tensor of what `to_array` returned, on the device and of the type of ``like``."""
    tensor = torch.from_numpy(np.array(array, order="C", copy=True))
    if like.dtype == torch.bfloat16:
        tensor = tensor.view(torch.bfloat16)
    return tensor.to(like.device)


def module_arrays(module: torch.nn.Module) -> Arrays:
    """Return parameters and buffers under their names in ``state_dict``."""
    return {name: to_array(tensor) for name, tensor in module.state_dict().items()}


def load_module_arrays(module: torch.nn.Module, arrays: State) -> None:
    """Put back what `module_arrays` returned; raise ValueError where names or shapes do not fit."""
    present = module.state_dict()
    if set(present) != set(arrays):
        odd = sorted(set(present) ^ set(arrays))
        raise ValueError(f"the arrays of the module do not match: {', '.join(odd[:5])}")
    for name, tensor in present.items():
        if tuple(tensor.shape) != arrays[name].shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {tuple(tensor.shape)}")
    module.load_state_dict({name: to_tensor(arrays[name], t) for name, t in present.items()})


def optimizer_arrays(optimizer: torch.optim.Optimizer) -> Arrays:
    """Return the optimizer's state of each parameter as "number of the parameter/name", without settings."""
    arrays: Arrays = {}
    for number, slots in optimizer.state_dict()["state"].items():
        for name, value in slots.items():
            if isinstance(value, torch.Tensor):
                arrays[f"{number}/{name}"] = to_array(value)
            elif value is not None:
                arrays[f"{number}/{name}"] = np.asarray(value)
    return arrays


def load_optimizer_arrays(optimizer: torch.optim.Optimizer, arrays: State) -> None:
    """Put back what `optimizer_arrays` returned."""
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
    """Return the states (uint8) of torch's global generators and of the given ones."""
    arrays = {"cpu": torch.get_rng_state().numpy().copy()}
    if cuda:
        arrays["cuda"] = torch.cuda.get_rng_state().numpy().copy()
    for name, generator in generators.items():
        arrays[f"own/{name}"] = generator.get_state().numpy().copy()
    return arrays


def load_generator_arrays(generators: Mapping[str, torch.Generator], arrays: State) -> None:
    """Put back what `generator_arrays` returned."""
    torch.set_rng_state(torch.from_numpy(np.array(arrays["cpu"])))
    if "cuda" in arrays:
        torch.cuda.set_rng_state(torch.from_numpy(np.array(arrays["cuda"])))
    for name, generator in generators.items():
        generator.set_state(torch.from_numpy(np.array(arrays[f"own/{name}"])))


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the rate of every parameter group, times the group's own "scale" where it has one."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group.get("scale", 1.0)
