"""Settings of the factorizations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tacenda.errors import ConfigurationError
from tacenda_surprise.models.settings import Settings


@dataclass(frozen=True)
class FactorizationConfig(Settings):
    """Settings of `PMFModel` and `ConditionalPMFModel`; in brackets the thesis's value (section 5.4.2).

    Where None is the default the value follows from the ratings: see `tacenda_surprise.models.factorization.defaults`.

    Attributes
    ----------
    n_factors
        D, width of the factors [10 to 500].
    n_epochs
        Passes over the ratings [250, with early stopping]; None: 60, 40 of a conditional model, 15 of
        alternating least squares.
    biased
        Learn biases of users and items.
    solver
        ``"sgd"``, or ``"als"``, whose sweeps need no learning rate and which does not condition.
    lr_factors
        Learning rate of user and item factors [0.01].
    lr_biases
        Of the biases [0.001].
    lr_side
        Of the conditioning factors W; large, as a step is divided by the number of items rated [0.005,
        after every 100 ratings].
    lr_decay
        All rates are multiplied by it after every epoch [1].
    reg_factors
        Weight of the squared factors in the loss, for each rating [0.01].
    reg_biases
        Of the biases [0.1].
    reg_side
        Of the conditioning factors, for each user who has rated the item [0.003].
    init_std
        Length that a row of factors has at the start, on average.
    validation
        Part of the ratings held out to stop early; 0: none.
    patience
        Epochs without improvement on them before the fit stops [never; the best epoch is restored].
    refit
        Fit anew on all ratings, for as many epochs as were best on the part held out [no].
    seed
        Of the start and of the order of the ratings.
    """

    n_factors: int = 100
    n_epochs: int | None = None
    biased: bool = True
    solver: Literal["sgd", "als"] = "sgd"
    lr_factors: float | None = None
    lr_biases: float = 0.02
    lr_side: float | None = None
    lr_decay: float = 0.97
    reg_factors: float | None = None
    reg_biases: float = 0.08
    reg_side: float | None = None
    init_std: float = 0.1
    validation: float = 0.0
    patience: int = 3
    refit: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        given = {
            n: low for n, low in _LOWEST.items() if getattr(self, n) is not None or n not in _FOUND
        }
        self.check(given, {"solver": ("sgd", "als")})
        if not self.lr_decay <= 1:
            raise ConfigurationError(f"lr_decay must be at most 1, not {self.lr_decay!r}")
        if not self.validation < 1:
            raise ConfigurationError(f"validation must be less than 1, not {self.validation!r}")

    @classmethod
    def thesis(cls, **settings: Any) -> FactorizationConfig:
        """Rates, penalties and early stopping of the thesis; ``settings`` replace single ones.

        What differs still: a user's block of ratings is not cut at 100, so that the step of W is one of
        ``lr_side`` on the summed gradient of all their ratings; training stops after ``patience`` epochs in vain.
        """
        values: dict[str, Any] = {
            "n_epochs": 250,
            "lr_factors": 0.01,
            "lr_biases": 0.001,
            "lr_side": 0.005,
            "lr_decay": 1.0,
            "reg_factors": 0.01,
            "reg_biases": 0.1,
            "reg_side": 0.003,
            "validation": 0.05,
            "patience": 20,
            "refit": False,
        }
        return cls(**(values | settings))

    @classmethod
    def online_svd(cls, **settings: Any) -> FactorizationConfig:
        """The thesis's baseline: no penalties, early stopping alone; ``biased`` says which of the two."""
        bare = {"reg_factors": 0.0, "reg_biases": 0.0, "reg_side": 0.0, "biased": False}
        return cls.thesis(**(bare | settings))


@dataclass(frozen=True)
class BayesianConfig(Settings):
    """Settings of `BayesianPMFModel` and `ConditionalBayesianPMFModel`.

    Attributes
    ----------
    n_factors
        D, width of the factors; averaging keeps wide ones from overfitting, but they mix slowly and
        take longer. None: 8 to 32, more for more ratings a user and item (10 for MovieLens-100K, 18 for
        MovieLens-1M).
    burn_in
        Sweeps before the first sample is taken.
    n_samples
        Sweeps after that; predictions are averages over all of them.
    n_kept
        Samples, evenly spaced among those, that are kept for deviations and for users folded in.
    rank
        Width to which the average over all samples is brought for predicting, see
        `tacenda_surprise.models.factorization.averaging`.
    seed
        Of the chain.
    """

    n_factors: int | None = None
    burn_in: int = 40
    n_samples: int = 160
    n_kept: int = 40
    rank: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        lowest = {"burn_in": 0, "n_samples": 1, "n_kept": 1, "rank": 1, "seed": 0}
        self.check(lowest | ({} if self.n_factors is None else {"n_factors": 0}), {})


_FOUND = (
    "n_epochs",
    "lr_factors",
    "lr_side",
    "reg_factors",
    "reg_side",
)  # from the ratings if None

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
