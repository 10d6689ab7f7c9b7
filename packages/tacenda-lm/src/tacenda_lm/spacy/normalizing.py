"""`Normalizing`: how tokens are spelled for the model, where that differs from the text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tacenda.errors import ConfigurationError

__all__ = ["Normalizing"]

_NUMBER = re.compile(r"[+-]?\d+(?:[.,:/-]\d+)*")


@dataclass(frozen=True)
class Normalizing:
    """Changes to a token before it is looked up; by default none.

    Attributes
    ----------
    lowercase
        Lower-case the token.
    number_word
        The word that replaces a token that is a number as a whole (``12``, ``3.5``, ``1,000``), such as
        ``"N"`` for a model of the Penn Treebank; None leaves numbers as they are.

    Raises
    ------
    ConfigurationError
        ``number_word`` is empty or has whitespace in it.
    """

    lowercase: bool = False
    number_word: str | None = None

    def __post_init__(self) -> None:
        """Refuse a number word that is not one word."""
        if self.number_word is not None and self.number_word.split() != [self.number_word]:
            raise ConfigurationError(
                f"number_word must be one word, such as 'N', or null, not {self.number_word!r}"
            )

    def __call__(self, token: str) -> str:
        """Return the token as the model has it."""
        if self.number_word is not None and _NUMBER.fullmatch(token):
            return self.number_word
        return token.lower() if self.lowercase else token
