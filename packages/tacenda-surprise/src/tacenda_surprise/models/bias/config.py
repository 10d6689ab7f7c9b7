"""Settings of the bias-only model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tacenda_surprise.models.settings import Settings


@dataclass(frozen=True)
class BiasConfig(Settings):
    """Settings of `BiasModel`; the thesis learns the same biases by SGD without regularization.

    Attributes
    ----------
    biases
        ``"both"``, ``"items"``, ``"users"``, or ``"none"``: the mean of all ratings.
    n_epochs
        Times that items and users are gone through; few are needed.
    reg_users
        lambda_u, ratings at the expected value that are added to those of every user.
    reg_items
        lambda_i, likewise.
    seed
        Without effect, as nothing is random; every model takes one.
    """

    biases: Literal["both", "items", "users", "none"] = "both"
    n_epochs: int = 10
    reg_users: float = 5.0
    reg_items: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        self.check(
            {"n_epochs": 1, "reg_users": 0.0, "reg_items": 0.0, "seed": 0},
            {"biases": ("both", "items", "users", "none")},
        )

    @property
    def of_users(self) -> bool:
        """Whether users have biases."""
        return self.biases in ("both", "users")

    @property
    def of_items(self) -> bool:
        """Whether items have biases."""
        return self.biases in ("both", "items")
