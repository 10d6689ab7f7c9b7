"""Whether the machine can do what the settings say, asked before any work: its device and its memory."""

from __future__ import annotations

import os

from tacenda.errors import ConfigurationError, KernelError
from tacenda.kernels import resolve
from tacenda_lm.hidden_markov.settings import VLHMMSettings

__all__ = ["bytes_needed", "check_device", "check_memory"]

_OPERATIONS = "block_softmax", "class_softmax", "hmm_block", "streaming_logsumexp"
_COPIES = 5  # of parameters: themselves, gradient, two moments, average


def check_device(settings: VLHMMSettings) -> None:
    """Raise ConfigurationError where the device of the settings is not there, or has no kernels."""
    device = settings.device
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


def bytes_needed(settings: VLHMMSettings, n_types: int, pairs: int, evaluated: int = 0) -> int:
    """Estimate the bytes of the parameters and of the largest step.

    ``pairs`` is the largest number of pairs of classes in a step; ``evaluated`` is the same where held-out text is
    evaluated, which keeps all states.
    """
    M, k, h = settings.n_classes, settings.states_per_class, settings.width
    kept = max(1, round(k * (1 - settings.state_dropout)))
    parameters = M * k * h + n_types * h + 6 * h * h
    if not settings.advanced.neural:
        parameters = pairs * k * k + M * k * M + n_types * k
    step = pairs * (2 * kept * kept + kept * h) + 2 * n_types * kept
    if settings.transitions == "features":
        step = 4 * M * kept * settings.advanced.n_features + 2 * n_types * kept
        evaluated = 0
    if settings.transitions == "two_level":
        step += 2 * M * M * kept
    return 4 * (_COPIES * parameters + max(step, evaluated * k * k))


def check_memory(settings: VLHMMSettings, n_types: int, pairs: int, evaluated: int = 0) -> None:
    """Raise ConfigurationError where a fit needs more memory than the machine has; see `bytes_needed`."""
    needed, there = bytes_needed(settings, n_types, pairs, evaluated), _installed()
    if there and needed > there:
        raise ConfigurationError(
            f"VLHMM: {settings.n_classes} classes of {settings.states_per_class} states and width {settings.width} "
            f"need about {needed / 1e9:,.0f} GB in training, and the machine has {there / 1e9:,.0f} GB: give "
            "fewer states_per_class, a smaller width or batch_words, or more state_dropout"
        )


def _installed() -> int:
    """Return the bytes of the machine's memory; 0 where they cannot be known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0
