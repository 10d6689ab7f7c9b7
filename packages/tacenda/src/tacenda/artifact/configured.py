"""`Configured`: a model made from settings, whose other attributes come from fitting it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Generic, Self, TypeVar

from tacenda.artifact.saveable import Saveable
from tacenda.errors import NotFittedError
from tacenda.settings import Settings

__all__ = ["Configured"]

S = TypeVar("S", bound=Settings)
T = TypeVar("T")


class Configured(Saveable, Generic[S]):
    """A mixin for models with `Settings`: constructor, ``repr``, and what an unfitted one says.

    A class sets ``settings_class`` and decorates its constructor with `tacenda.settings.configured_by`; its
    docstring then lists the options. What a fit finds begins as None and is read through `_learned`.

    Attributes
    ----------
    settings
        The options it was made with.
    figures, fitted_on
        What was measured, and what it was fitted to; see `Saveable`.
    """

    settings_class: ClassVar[type[Settings]]
    #: What ``fit`` takes, as the message of an unfitted model names it.
    _fitted_to: ClassVar[str] = "corpus"

    def __init__(self, settings: S) -> None:
        self.settings = settings
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        """Add the options to the docstring of a class that has settings of its own."""
        super().__init_subclass__(**more)
        if "settings_class" in vars(cls):
            about = inspect.cleandoc(cls.__doc__ or "")
            cls.__doc__ = f"{about}\n\n{cls.settings_class.described()}\n"

    @classmethod
    def from_settings(cls, settings: S | Mapping[str, Any]) -> Self:
        """An unfitted model with these settings, which may be JSON values.

        Raises
        ------
        ConfigurationError
            An option is unknown, of the wrong type or out of bounds.
        """
        if isinstance(settings, Settings):
            settings = {one.name: getattr(settings, one.name) for one in fields(settings)}
        make: Any = cls
        made: Self = make(**settings)
        return made

    @property
    def is_fitted(self) -> bool:
        """Whether it was fitted, or loaded from an artefact."""
        return bool(self.fitted_on)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{one.name}={getattr(self.settings, one.name)!r}" for one in fields(self.settings)
        )
        return f"<{type(self).__name__}({shown}), {'fitted' if self.is_fitted else 'not fitted'}>"

    def _learned(self, part: T | None) -> T:
        """``part``, which a fit or an artefact has set. Raises NotFittedError where neither has."""
        if part is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call fit({self._fitted_to}), or load one with tacenda.load"
            )
        return part
