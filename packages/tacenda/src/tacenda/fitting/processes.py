"""Fits that several processes share, each with a part of every batch, by the conventions of ``torchrun``.

    torchrun --nproc-per-node 2 train.py        # every process runs the same script: model.fit(text)

A process group that the script has made with ``torch.distributed.init_process_group`` is used. Under ``torchrun`` one
is made where there is none, with "nccl" on CUDA devices and "gloo" on the CPU. A batch is as many times larger as there
are processes; each takes its part of it, the gradients of all parts are added, and all take the same step. So N
processes end where one with N times the batch does, but for the order of sums. The first process alone saves
checkpoints.

Alone, a process is a group of one, and torch is not imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from tacenda.arrays import merge_rows
from tacenda.errors import ConfigurationError

__all__ = [
    "Processes",
    "add_gradients",
    "add_rows",
    "gathered",
    "join",
    "processes",
    "total",
    "wait",
]


class Processes(NamedTuple):
    """Which process this is, and how many there are."""

    rank: int = 0
    size: int = 1

    def part(self, batch: Any) -> Any:
        """Return what of a batch is this process's: every ``size``-th item."""
        return batch[self.rank :: self.size]


def processes() -> Processes:
    """Return the group that this process is in: itself alone unless `join`, or the script, has made one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return Processes()
    if not torch.distributed.is_initialized():
        return Processes()
    return Processes(torch.distributed.get_rank(), torch.distributed.get_world_size())


def join(device: str) -> Processes:
    """Join the processes that ``torchrun`` has started, if it has; return the group.

    On CUDA devices each process works on that of its ``LOCAL_RANK``, which it makes the current one.

    Raises
    ------
    ConfigurationError
        A device is named by its number, which all processes would share.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return processes()
    import torch

    if device.startswith("cuda"):
        if device != "cuda":
            raise ConfigurationError(
                f'device is {device!r}, and torchrun gives every process a device of its own: use "cuda"'
            )
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    return processes()


def total(value: Any) -> Any:
    """Return the sum of a number over all processes: of a torch scalar as one, of others as float."""
    if processes().size == 1:
        return value
    import torch

    if isinstance(value, torch.Tensor):
        found = value.detach().clone()
    else:
        on_gpu = torch.distributed.get_backend() == "nccl"
        found = torch.tensor(value, dtype=torch.float64, device="cuda" if on_gpu else "cpu")
    torch.distributed.all_reduce(found)
    return found if isinstance(value, torch.Tensor) else found.item()


def add_gradients(parameters: Iterable[Any]) -> None:
    """Add up the gradients of all processes, in place; one that has none here counts as zeros.

    They travel as one array of each dtype, as in DistributedDataParallel.
    """
    if processes().size == 1:
        return
    import torch

    held = list(parameters)
    for parameter in held:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    for dtype in dict.fromkeys(parameter.dtype for parameter in held):  # one order everywhere
        gradients = [parameter.grad for parameter in held if parameter.dtype == dtype]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        torch.distributed.all_reduce(flat)
        parts = flat.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


def add_rows(rows: Any, gradient: Any) -> tuple[Any, Any]:
    """Return the rows of a table that have a gradient in any process, and the sums of their gradients.

    Parameters
    ----------
    rows
        Integers (some,), each once, as an array of numpy or a tensor; None where all rows have a gradient.
    gradient
        (some, width), of numpy or torch. The results are of the same kind, and of the same bits in every process.
    """
    group = processes()
    if group.size == 1:
        return rows, gradient
    import torch

    own = gradient if isinstance(gradient, torch.Tensor) else torch.from_numpy(gradient)
    if rows is None:
        found = [total(own)]
    else:
        ids = torch.as_tensor(rows, dtype=torch.int64, device=own.device)
        counts = ids.new_zeros(group.size)
        counts[group.rank] = len(ids)
        lengths = total(counts).tolist()
        parts = (torch.cat(_of_all(each, lengths)) for each in (ids, own))
        ids, found = merge_rows(*parts)
        rows = ids if isinstance(rows, torch.Tensor) else ids.cpu().numpy()
    return rows, found[0] if own is gradient else found[0].numpy()


def gathered(own: Any, axis: int) -> Any:
    """Return the tensor of a whole batch, of which each process has its `Processes.part` along an axis."""
    group = processes()
    if group.size == 1:
        return own
    import torch

    rows = own.movedim(axis, 0)
    counts = rows.new_zeros(group.size, dtype=torch.int64)
    counts[group.rank] = len(rows)
    parts = _of_all(rows, total(counts).tolist())
    found = rows.new_empty((sum(map(len, parts)), *rows.shape[1:]))
    for rank, part in enumerate(parts):
        found[rank :: group.size] = part
    return found.movedim(0, axis)


def _of_all(own: Any, lengths: list[int]) -> list[Any]:
    """Return the rows of each process; ``lengths`` says how many they have."""
    import torch

    sent = own.new_zeros((max(lengths), *own.shape[1:]))  # all of one size, as collectives want it
    sent[: len(own)] = own
    parts = [torch.empty_like(sent) for _ in lengths]
    torch.distributed.all_gather(parts, sent)
    return [part[:n] for part, n in zip(parts, lengths, strict=True)]


def wait() -> None:
    """Wait until all processes are here."""
    if processes().size > 1:
        import torch

        torch.distributed.barrier()
