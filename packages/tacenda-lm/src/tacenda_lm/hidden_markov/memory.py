"""What memory a fit takes, estimated before anything is allocated."""

from __future__ import annotations

import os

from tacenda.errors import ConfigurationError
from tacenda_lm.hidden_markov.config import VLHMMConfig

__all__ = ["bytes_needed", "check_memory"]

_COPIES = 5  # of parameters: themselves, gradient, two moments, average


def bytes_needed(config: VLHMMConfig, n_types: int, pairs: int, evaluated: int = 0) -> int:
    """Bytes of the parameters and of the largest step, about.

    Parameters
    ----------
    config
        Settings.
    n_types
        Words.
    pairs
        Pairs of classes in a step at most.
    evaluated
        The same where held-out text is evaluated, all states kept.
    """
    M, k, h = config.n_classes, config.states_per_class, config.width
    kept = max(1, round(k * (1 - config.state_dropout)))
    parameters = M * k * h + n_types * h + 6 * h * h
    if not config.neural:
        parameters = pairs * k * k + M * k * M + n_types * k
    step = pairs * (2 * kept * kept + kept * h) + 2 * n_types * kept
    if config.transitions == "features":
        step = 4 * M * kept * config.features + 2 * n_types * kept
        evaluated = 0
    if config.transitions == "two_level":
        step += 2 * M * M * kept
    return 4 * (_COPIES * parameters + max(step, evaluated * k * k))


def check_memory(config: VLHMMConfig, n_types: int, pairs: int, evaluated: int = 0) -> None:
    """Raise ConfigurationError where a fit needs more than the machine has; arguments as of `bytes_needed`."""
    needed, there = bytes_needed(config, n_types, pairs, evaluated), _installed()
    if there and needed > there:
        raise ConfigurationError(
            f"VLHMM: {config.n_classes} classes of {config.states_per_class} states and width {config.width} "
            f"need about {needed / 1e9:,.0f} GB in training, and the machine has {there / 1e9:,.0f} GB: give "
            "fewer states_per_class, a smaller width or batch, or more state_dropout"
        )


def _installed() -> int:
    """Bytes of the machine's memory; 0 where it cannot be known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0
