"""Conversion and checks that the configurations of all models share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Self

from tacenda.errors import ConfigurationError


class Settings:
    """Base of the frozen dataclasses that configure models."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """From JSON values. Raises ConfigurationError for an unknown name or a value out of range."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigurationError(
                f"there is no setting {unknown[0]!r}; the settings are {', '.join(sorted(known))}"
            )
        return cls(**values)

    def check(self, lowest: Mapping[str, float], choices: Mapping[str, tuple[str, ...]]) -> None:
        """Raises ConfigurationError, in one sentence that names the setting.

        Parameters
        ----------
        lowest
            Least value of every number; where that is an int, the number must be whole.
        choices
            The words that a setting may be.
        """
        for name, low in lowest.items():
            value = getattr(self, name)
            if isinstance(low, int) and (isinstance(value, bool) or not isinstance(value, int)):
                raise ConfigurationError(f"{name} must be a whole number, not {value!r}")
            if not (isinstance(value, int | float) and low <= value < math.inf):
                raise ConfigurationError(f"{name} must be at least {low:g}, not {value!r}")
        for name, words in choices.items():
            if getattr(self, name) not in words:
                listed = " or ".join(repr(word) for word in words)
                raise ConfigurationError(f"{name} must be {listed}, not {getattr(self, name)!r}")
