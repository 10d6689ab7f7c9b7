"""`Configured`: a model made from settings, whose other attributes come from fitting it."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from tacenda.artifact.saveable import Saveable
from tacenda.errors import NotFittedError
from tacenda.settings import HasSettings, Settings

__all__ = ["Configured"]

S = TypeVar("S", bound=Settings)
T = TypeVar("T")


class Configured(Saveable, HasSettings[S]):
    """A mixin for models with `Settings`, which a fit completes and which can be saved.

    See `HasSettings` for the constructor. What a fit finds begins as None and is read through
    `_learned`.

    Attributes
    ----------
    settings
        The options it was made with.
    figures, fitted_on
        What was measured, and what it was fitted to; see `Saveable`.
    """

    #: What ``fit`` takes, as the message of an unfitted model names it.
    _fitted_to: ClassVar[str] = "corpus"

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}

    @property
    def is_fitted(self) -> bool:
        """Whether it was fitted, or loaded from an artefact."""
        return bool(self.fitted_on)

    def _learned(self, part: T | None) -> T:
        """``part``, which a fit or an artefact has set. Raises NotFittedError where neither has."""
        if part is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call fit({self._fitted_to}), or load one with tacenda.load"
            )
        return part
