"""Probabilistic matrix factorization as Surprise algorithms."""

from __future__ import annotations

from typing import Any, Literal, Self

from tacenda.errors import ConfigurationError
from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.models.factorization import (
    BayesianConfig,
    BayesianPMFModel,
    ConditionalBayesianPMFModel,
    ConditionalPMFModel,
    FactorizationConfig,
    PMFModel,
)

__all__ = ["PMF", "ConditionalPMF"]

_DEFAULT = FactorizationConfig()
_ARGUMENTS = {  # of settings that Surprise calls otherwise
    "init_std": "init_std_dev",
    "lr_factors": "lr_pu",
    "lr_biases": "lr_bi",
    "reg_factors": "reg_pu",
    "reg_biases": "reg_bi",
}


class PMF(TacendaAlgorithm):
    """Probabilistic matrix factorization (Mnih 2010, section 5.3; Salakhutdinov and Mnih 2008).

    Parameters
    ----------
    n_factors
        Width of the factors; None: 100, or 8 to 32, by the number of ratings, for Gibbs sampling.
    n_epochs
        Passes over the ratings, at most with ``early_stopping``; for Gibbs sampling the sweeps whose
        parameters are kept. None: the tuned number.
    biased
        Learn biases; False is what Surprise calls PMF, and leaves unknown users and items impossible.
    init_std_dev
        Length that a row of factors has at the start, on average.
    lr_all
        Learning rate of factors and biases; None: 0.0225 by the ratings' standard deviation, and 0.02.
    reg_all
        Weight of the squared factors and biases; None: what suits the number and the spread of the
        ratings (0.084 for MovieLens-100K, 0.063 for MovieLens-1M), and 0.08.
    lr_bi, lr_pu, reg_bi, reg_pu
        The same for biases and for factors alone.
    lr_decay
        Factor on all rates after every epoch.
    inference
        ``"map"`` finds the most probable parameters; ``"gibbs"`` averages over them, which predicts
        better, knows how sure it is and needs no tuning, but takes ten times as long. Learning rates,
        regularization and early stopping belong to the former.
    solver
        ``"sgd"`` or ``"als"``, for the former.
    burn_in
        Sweeps before those that are kept, for the latter.
    early_stopping
        Hold out part of the ratings, stop when they are predicted worse, and fit anew on all
        ratings for as many epochs as were best.
    validation
        Which part.
    patience
        Epochs without improvement before it stops.
    refit
        Fit anew on all ratings after that.
    more
        ``random_state``, ``verbose``, ``callbacks`` and ``checkpoints`` of `TacendaAlgorithm`.
    """

    _model_class: type[PMFModel] = PMFModel
    _bayesian_class: type[BayesianPMFModel] = BayesianPMFModel

    def __init__(
        self,
        n_factors: int | None = None,
        n_epochs: int | None = None,
        biased: bool = True,
        init_std_dev: float = _DEFAULT.init_std,
        lr_all: float | None = None,
        reg_all: float | None = None,
        lr_bi: float | None = None,
        lr_pu: float | None = None,
        reg_bi: float | None = None,
        reg_pu: float | None = None,
        lr_decay: float = _DEFAULT.lr_decay,
        inference: str = "map",
        solver: Literal["sgd", "als"] = "sgd",
        burn_in: int = BayesianConfig().burn_in,
        early_stopping: bool = False,
        validation: float = 0.05,
        patience: int = _DEFAULT.patience,
        refit: bool = _DEFAULT.refit,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.n_factors = n_factors
        self.n_epochs = n_epochs
        self.biased = biased
        self.init_std_dev = init_std_dev
        self.lr_all = lr_all
        self.reg_all = reg_all
        self.lr_bi = lr_bi
        self.lr_pu = lr_pu
        self.reg_bi = reg_bi
        self.reg_pu = reg_pu
        self.lr_decay = lr_decay
        self.inference = inference
        self.solver = solver
        self.burn_in = burn_in
        self.early_stopping = early_stopping
        self.validation = validation
        self.patience = patience
        self.refit = refit

    @classmethod
    def thesis(cls, **settings: Any) -> Self:
        """Rates, penalties and early stopping of the thesis (section 5.4.2)."""
        return cls(**{**cls._of(FactorizationConfig.thesis()), **settings})

    @classmethod
    def online_svd(cls, **settings: Any) -> Self:
        """The baseline of the thesis: no penalties, early stopping alone; ``biased`` says which of the two."""
        return cls(**{**cls._of(FactorizationConfig.online_svd()), **settings})

    @classmethod
    def _of(cls, config: FactorizationConfig) -> dict[str, Any]:
        """Arguments for the settings of ``config`` that are not the default."""
        values = {n: v for n, v in config.to_dict().items() if v != getattr(_DEFAULT, n)}
        if not cls.conditional:
            values = {n: v for n, v in values.items() if n not in ("lr_side", "reg_side")}
        found = {_ARGUMENTS.get(name, name): value for name, value in values.items()}
        return {**found, "early_stopping": bool(config.validation)}

    @property
    def predicts_unknown(self) -> bool:  # type: ignore[override]
        """Biases are what an unknown user or item is predicted from."""
        return self.biased

    def _settings(self) -> dict[str, Any]:
        return {
            "n_factors": _first(self.n_factors, _DEFAULT.n_factors),
            "n_epochs": self.n_epochs,
            "biased": self.biased,
            "solver": self.solver,
            "init_std": self.init_std_dev,
            "lr_factors": _first(self.lr_pu, self.lr_all),
            "lr_biases": _first(self.lr_bi, self.lr_all, _DEFAULT.lr_biases),
            "lr_decay": self.lr_decay,
            "reg_factors": _first(self.reg_pu, self.reg_all),
            "reg_biases": _first(self.reg_bi, self.reg_all, _DEFAULT.reg_biases),
            "validation": self.validation if self.early_stopping else 0.0,
            "patience": self.patience,
            "refit": self.refit,
        }

    def _new_model(self, seed: int) -> RatingModel:
        if self.inference == "map":
            return self._model_class(seed=seed, **self._settings())
        if self.inference != "gibbs":
            raise ConfigurationError(f"inference must be 'map' or 'gibbs', not {self.inference!r}")
        if not self.biased or self.early_stopping:
            raise ConfigurationError("Gibbs sampling always has biases and never stops early")
        default = BayesianConfig()
        return self._bayesian_class(
            n_factors=_first(self.n_factors, default.n_factors),
            n_samples=_first(self.n_epochs, default.n_samples),
            burn_in=self.burn_in,
            seed=seed,
        )


class ConditionalPMF(PMF):
    """Matrix factorization that also learns from which items a user has rated (Mnih 2010, eq 5.22).

    The one to reach for first: better than `PMF` with every user, and the only one with something to say
    about a user of whom nothing but the identities of rated items is known.

    Parameters
    ----------
    rated
        Items known to be rated beside those of the trainset, as `SideInfo` or (user, item) pairs.
    lr_side
        Learning rate of the conditioning factors; None: what suits the spread of the ratings.
    reg_side
        Their regularization; likewise.
    more
        As in `PMF`.
    """

    _model_class = ConditionalPMFModel
    _bayesian_class = ConditionalBayesianPMFModel
    conditional = True

    def __init__(
        self,
        rated: Any = None,
        lr_side: float | None = None,
        reg_side: float | None = None,
        **more: Any,
    ) -> None:
        super().__init__(rated=rated, **more)
        self.lr_side = lr_side
        self.reg_side = reg_side

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "lr_side": self.lr_side, "reg_side": self.reg_side}


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
