"""`OldConfigured`: a model that is made from settings, and that fitting gives all the rest."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from tacenda.artifact.saveable import Saveable
from tacenda.errors import NotFittedError

__all__ = ["OldConfigured", "Settings"]


class Settings(Protocol):
    """What a dataclass of settings offers."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        ...

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """From JSON values. Raises ConfigurationError for an unknown name or a value out of range."""
        ...


S = TypeVar("S", bound=Settings)
T = TypeVar("T")


class OldConfigured(Saveable, Generic[S]):
    """A mixin for models with a dataclass of settings: their constructor, and what an unfitted one says.

    A class sets ``settings`` to the dataclass. What a fit finds begins as None and is read through `_learned`.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of the dataclass.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range.
    """

    settings: type[S]
    #: What ``fit`` takes, as the message of an unfitted model names it.
    _fitted_to: ClassVar[str] = "corpus"

    def __init__(self, config: S | None = None, **settings: Any) -> None:
        given = (config or self.settings()).to_dict()
        self.config: S = self.settings.from_dict({**given, **settings})
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}

    def _learned(self, part: T | None) -> T:
        """``part``, which a fit or an artefact has set. Raises NotFittedError where neither has."""
        if part is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call fit({self._fitted_to}), or load one with tacenda.load"
            )
        return part
