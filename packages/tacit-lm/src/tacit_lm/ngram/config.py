"""Settings of the n-gram models."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from tacit.errors import ConfigurationError

Smoothing = Literal["interpolated", "backoff", "good_turing"]

MAX_ORDER = 16


@dataclass(frozen=True)
class KneserNeyConfig:
    """Settings of `KneserNey`.

    Attributes:
        order: N, the words an n-gram spans: N - 1 of context and the predicted one; 1 to 16.
        smoothing: ``"interpolated"`` modified Kneser-Ney (Chen and Goodman 1998, as lmplz estimates it);
            ``"backoff"``, the same discounts, a lower order asked only where a higher one has not seen the
            word; ``"good_turing"``, Katz's back-off with Good-Turing discounts (Katz 1987) on raw counts.
        min_count: n-grams of three words or more that occur less often are not listed, and predicted from
            their last words; 2 is SRILM's default, and what the back-off forms need to be any good.
        cutoff: k of Katz: counts above it are trusted as they are; for ``good_turing`` only.
    """

    order: int = 5
    smoothing: Smoothing = "interpolated"
    min_count: int = 1
    cutoff: int = 7

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        for name, low, high in (
            ("order", 1, MAX_ORDER),
            ("cutoff", 1, 100),
            ("min_count", 1, 10**9),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigurationError(
                    f"KneserNey: {name} must be a whole number from {low} to {high}, not {value!r}"
                )
        if self.smoothing not in get_args(Smoothing):
            raise ConfigurationError(
                f"KneserNey: smoothing must be one of {', '.join(get_args(Smoothing))}, "
                f"not {self.smoothing!r}"
            )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> KneserNeyConfig:
        """From JSON values; an unknown name or a value out of range is a ConfigurationError."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ConfigurationError(
                f"KneserNey has no setting {unknown[0]!r}; its settings are {', '.join(known)}"
            )
        return cls(**values)
