"""The recurrences for torch: the kernels' forward and backward pairs as differentiable functions.

Imported on demand only, as it imports torch (``tacenda.kernels`` itself needs none). Tensors on the
CPU share their memory with the numpy arrays that the kernels work on; tensors elsewhere are given
to the backend that serves their device. `tacenda.kernels.use` around the forward call holds for the
backward call as well. Gradients are not differentiable again.
"""

from contextvars import copy_context
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.tensors import to_array, to_tensor

__all__ = ["linear_recurrence", "modal_recurrence"]


def linear_recurrence(
    F: torch.Tensor,
    u: torch.Tensor,
    offsets: Any,
    initial: torch.Tensor | None = None,
    reverse: bool = False,
    threads: int = 1,
) -> torch.Tensor:
    """The states a_t = F a_{t-1} + u_t (tokens, states), differentiable in F, u and initial.

    Arguments as in `tacenda.kernels.dynamics.linear_recurrence.forward`, as tensors on one device, float32 or
    float64; ``offsets`` a tensor, an array or a list. Raises KernelError where they do not fit, or
    where no backend serves the device.
    """
    tensors = {"F": F, "u": u, "initial": initial}
    return _apply("linear_recurrence", tensors, u.device, offsets, reverse, threads)


def modal_recurrence(
    real: torch.Tensor,
    complex: torch.Tensor,
    u: torch.Tensor,
    offsets: Any,
    initial: torch.Tensor | None = None,
    reverse: bool = False,
    threads: int = 1,
) -> torch.Tensor:
    """The states m_t = Lambda m_{t-1} + u_t (tokens, states), differentiable in all four tensors.

    Arguments as in `tacenda.kernels.dynamics.modal_recurrence.forward`, otherwise as `linear_recurrence`.
    """
    tensors = {"real": real, "complex": complex, "u": u, "initial": initial}
    return _apply("modal_recurrence", tensors, u.device, offsets, reverse, threads)


def _apply(
    operation: str,
    tensors: dict[str, torch.Tensor | None],
    device: torch.device,
    offsets: Any,
    reverse: bool,
    threads: int,
) -> torch.Tensor:
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if tensor.dtype not in (torch.float32, torch.float64):
            raise KernelError(f"{name} must be float32 or float64, not {tensor.dtype}")
        if tensor.device != device:
            raise KernelError(f"{name} is on {tensor.device} and u on {device}: move one of them")
    offsets = np.asarray(torch.as_tensor(offsets).cpu())
    return _Recurrence.apply(operation, offsets, reverse, threads, *tensors.values())


class _Recurrence(torch.autograd.Function):
    """Of the tensors the last two are u and initial; the kernels' results have the same order."""

    @staticmethod
    def forward(
        ctx: Any, operation: str, offsets: Any, reverse: bool, threads: int, *tensors: Any
    ) -> torch.Tensor:
        *matrices, u, initial = tensors
        run = resolve(operation, str(u.device))
        states = to_tensor(
            run(
                *map(to_array, matrices),
                to_array(u),
                offsets,
                to_array(initial),
                reverse,
                None,
                threads,
            )
        )
        ctx.save_for_backward(*matrices, states, initial)
        ctx.settings = operation, offsets, reverse, threads
        ctx.context = copy_context()  # a device's gradients are computed in another thread
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        *matrices, states, initial = ctx.saved_tensors
        operation, offsets, reverse, threads = ctx.settings
        context = ctx.context.copy()
        run = context.run(resolve, f"{operation}_backward", str(states.device))
        arrays = [to_array(tensor) for tensor in (*matrices, states)]
        found = context.run(
            run, *arrays, offsets, to_array(grad), to_array(initial), reverse, threads
        )
        *gradients, d_initial = map(to_tensor, found)
        return None, None, None, None, *gradients, None if initial is None else d_initial
