"""`ModelSettings`: the way of settings to JSON and back, and checks that name the model and the setting."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, NoReturn, Self

from tacenda.errors import ConfigurationError

__all__ = ["ModelSettings"]


@dataclass(frozen=True)
class ModelSettings:
    """Base of the frozen dataclasses of settings: ``MyModelConfig``, for `OldConfigured` models ``MyModel``.

    A subclass calls the checks from its ``__post_init__``; they raise ConfigurationError in one sentence.
    """

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """From JSON values; an unknown name or a value out of range is a ConfigurationError."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ConfigurationError(
                f"{cls.model()} has no setting {unknown[0]!r}; its settings are {', '.join(known)}"
            )
        given: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        return cls(**given)

    @classmethod
    def model(cls) -> str:
        """Whose settings these are."""
        return cls.__name__.removesuffix("Config")

    def _refuse(self, name: str, wanted: str) -> NoReturn:
        raise ConfigurationError(
            f"{self.model()}: {name} must be {wanted}, not {getattr(self, name)!r}"
        )

    def _whole(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if type(value) is not int or not low <= value <= high:
            self._refuse(name, f"a whole number from {low} to {high}")

    def _real(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < high:
            self._refuse(name, f"a number in [{low:g}, {high:g})")

    def _one_of(self, name: str, choices: tuple[str, ...]) -> None:
        if getattr(self, name) not in choices:
            self._refuse(name, f"one of {', '.join(choices)}")

    def _flag(self, name: str) -> None:
        if type(getattr(self, name)) is not bool:
            self._refuse(name, "true or false")
