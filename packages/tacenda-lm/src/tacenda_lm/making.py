"""Language models for the command line: made from a name and settings, loaded, named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tacenda
from tacenda import plugins
from tacenda.artifact.manifest import checked_name
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda_lm.language_model import LanguageModel

__all__ = ["load_model", "make_model", "names_of"]


def make_model(name: str, settings: dict[str, Any], distribution: str | None = None) -> Any:
    """An unfitted model. Raises ConfigurationError for a setting it does not have."""
    model_class = plugins.get("language_models", name, distribution=distribution)
    try:
        return model_class(**settings)
    except TypeError as error:
        raise ConfigurationError(
            f"{model_class.__name__} cannot be made with the settings "
            f"{', '.join(settings) or '(none)'}: {error}"
        ) from error


def load_model(folder: Path) -> LanguageModel:
    """A saved language model. Raises ConfigurationError for a model of another kind."""
    model = tacenda.load(folder)
    if not isinstance(model, LanguageModel):
        name = getattr(model, "name", type(model).__name__)
        raise ConfigurationError(f"{folder} holds a model {name!r}, not a language model")
    return model


def names_of(folders: Sequence[Path]) -> list[str]:
    """What the components of a mixture are called: as their folders, where that can be."""
    names = [folder.resolve().name for folder in folders]
    try:
        usable = len(set(names)) == len(names) and all(map(checked_name, names))
    except ArtifactError:
        usable = False
    return names if usable else [f"model-{i}" for i in range(len(folders))]
