"""Whether the device of the settings is there, asked before any work."""

from __future__ import annotations

from tacenda.errors import ConfigurationError, KernelError
from tacenda.kernels import resolve
from tacenda_lm.hidden_markov.config import VLHMMConfig

__all__ = ["check_device"]

_OPERATIONS = "block_softmax", "class_softmax", "hmm_block", "streaming_logsumexp"


def check_device(config: VLHMMConfig) -> None:
    """Raises ConfigurationError where there is no such device, or no kernels for it."""
    device = config.device
    if device == "cpu":
        return
    import torch

    said = f"VLHMM: device is {device!r}, and"
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not found:
        raise ConfigurationError(
            f'{said} torch {torch.__version__} finds no CUDA device here: train with device="cpu", '
            "or on a machine with one and a torch that is built for it"
        )
    if int(device.partition(":")[2] or 0) >= found:
        raise ConfigurationError(f"{said} the last one here is cuda:{found - 1}")
    try:
        for operation in _OPERATIONS:
            for name in (operation, f"{operation}_backward"):
                resolve(name, device)
    except KernelError as error:
        raise ConfigurationError(f"{said} {error}") from error
