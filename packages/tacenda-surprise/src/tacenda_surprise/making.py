"""Models by the names they are registered under."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from tacenda import plugins
from tacenda.errors import ConfigurationError
from tacenda_surprise.models.base import RatingModel


def model_class(name: str, distribution: str | None = None) -> Any:
    """The class. Raises PluginError if there is none of that name, or it cannot be loaded."""
    return plugins.get("recommenders", name, distribution=distribution)


def make_model(
    name: str,
    settings: Mapping[str, Any],
    *,
    seed: int | None = None,
    distribution: str | None = None,
) -> RatingModel:
    """An unfitted model.

    Parameters
    ----------
    name
        Of the model.
    settings
        Keyword arguments of its class.
    seed
        Given as ``seed`` to a class that takes one, unless ``settings`` has it.
    distribution
        That registers the model, where several use the name.

    Raises
    ------
    ConfigurationError
        The class does not take these settings.
    PluginError
        See `model_class`.
    """
    found = model_class(name, distribution)
    seeded = {} if seed is None or not _takes(found, "seed") else {"seed": seed}
    try:
        model: RatingModel = found(**{**seeded, **settings})
    except TypeError as error:
        raise ConfigurationError(f"{name} cannot be made with these settings: {error}") from error
    return model


def _takes(callee: Any, name: str) -> bool:
    parameters = inspect.signature(callee).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
