"""An embedder from its name and settings, and a record of the text it was fitted on."""

from __future__ import annotations

from typing import Any

from tacit.errors import ConfigurationError

__all__ = ["build", "record_text"]


def build(model_class: Any, settings: dict[str, Any]) -> Any:
    """Make an unfitted embedder.

    Raises `ConfigurationError` for a setting it does not have.
    """
    try:
        return model_class(**settings)
    except TypeError as error:
        raise ConfigurationError(
            f"{model_class.__name__} cannot be made with the settings "
            f"{', '.join(settings) or '(none)'}: {error}"
        ) from error


def record_text(model: Any, **facts: Any) -> None:
    """Add to what an artefact says of the text its model was fitted on; a None says nothing."""
    known = dict(getattr(model, "fitted_on", None) or {})
    model.fitted_on = {**known, **{name: fact for name, fact in facts.items() if fact is not None}}
