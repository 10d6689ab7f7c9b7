"""Settings of the factorizations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tacit.errors import ConfigurationError
from tacit_surprise.models.settings import Settings


@dataclass(frozen=True)
class FactorizationConfig(Settings):
    """Settings of `PMFModel` and `ConditionalPMFModel`; in brackets the thesis's value (section 5.4.2).

    Attributes:
        n_factors: D, width of the factors [10 to 500].
        n_epochs: passes over the ratings [250, with early stopping].
        biased: learn biases of users and items.
        solver: ``"sgd"``, or ``"als"``, whose sweeps need no learning rate and which does not condition.
        lr_factors: learning rate of user and item factors [0.01].
        lr_biases: of the biases.
        lr_side: of the conditioning factors W; large, as a step is divided by the number of items rated.
        lr_decay: all rates are multiplied by it after every epoch [1].
        reg_factors: weight of the squared factors in the loss, for each rating.
        reg_biases: of the biases.
        reg_side: of the conditioning factors, for each user who has rated the item.
        init_std: length that a row of factors has at the start, on average.
        validation: part of the ratings held out to stop early; 0: none.
        patience: epochs without improvement on them before the fit stops.
        refit: fit anew on all ratings, for as many epochs as were best on the part held out.
        seed: of the start and of the order of the ratings.
    """

    n_factors: int = 100
    n_epochs: int = 40
    biased: bool = True
    solver: Literal["sgd", "als"] = "sgd"
    lr_factors: float = 0.02
    lr_biases: float = 0.02
    lr_side: float = 0.5
    lr_decay: float = 0.97
    reg_factors: float = 0.085
    reg_biases: float = 0.08
    reg_side: float = 0.7
    init_std: float = 0.1
    validation: float = 0.0
    patience: int = 3
    refit: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        self.check(_LOWEST, {"solver": ("sgd", "als")})
        if not self.lr_decay <= 1:
            raise ConfigurationError(f"lr_decay must be at most 1, not {self.lr_decay!r}")
        if not self.validation < 1:
            raise ConfigurationError(f"validation must be less than 1, not {self.validation!r}")


@dataclass(frozen=True)
class BayesianConfig(Settings):
    """Settings of `BayesianPMFModel` and `ConditionalBayesianPMFModel`.

    Attributes:
        n_factors: D, width of the factors; averaging keeps wide ones from overfitting, but they mix slowly.
        burn_in: sweeps before the first sample is kept.
        n_samples: sweeps whose parameters are kept; predictions are averages over them, and memory and the
            time of a prediction grow with their number.
        seed: of the chain.
    """

    n_factors: int = 10
    burn_in: int = 40
    n_samples: int = 160
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        self.check({"n_factors": 0, "burn_in": 0, "n_samples": 1, "seed": 0}, {})


_LOWEST: dict[str, float] = {
    "n_factors": 0,
    "n_epochs": 0,
    "lr_factors": 0.0,
    "lr_biases": 0.0,
    "lr_side": 0.0,
    "lr_decay": 0.0,
    "reg_factors": 0.0,
    "reg_biases": 0.0,
    "reg_side": 0.0,
    "init_std": 0.0,
    "validation": 0.0,
    "patience": 1,
    "seed": 0,
}
