"""`ConfiguredLanguageModel`: a language model made from settings, over the vocabulary of the text it was fitted on."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from tacenda.artifact import Configured
from tacenda.settings import Settings
from tacenda.vocabulary import Vocabulary
from tacenda_lm.language_model import LanguageModel

__all__ = ["ConfiguredLanguageModel"]

S = TypeVar("S", bound=Settings)


class ConfiguredLanguageModel(LanguageModel, Configured[S]):
    """Base of the models of this package but `Mixture`; ``_fit`` and ``from_arrays`` set ``_vocabulary``."""

    distribution: ClassVar[str] = "tacenda-lm"
    _fitted_to: ClassVar[str] = "text"
    _vocabulary: Vocabulary | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """What the ids mean. Raises NotFittedError."""
        return self._learned(self._vocabulary)

    def config_dict(self) -> dict[str, Any]:
        """Return the settings and the vocabulary's as JSON values."""
        return {"settings": self.settings.to_dict(), "vocabulary": self.vocabulary.config_dict()}
