"""The models of the thesis, by the names of its tables, with its settings and with ours.

What the thesis stops on is the set it reports (section 5.4.3). Here a twentieth of the training part decides
where to stop, and the test part decides nothing.
"""

from __future__ import annotations

from typing import Literal, TypeVar

from tacenda_surprise.models import (
    BiasModel,
    BoltzmannSettings,
    ConditionalBoltzmannSettings,
    ConditionalFactorizationSettings,
    ConditionalPMFModel,
    ConditionalRBMModel,
    FactorizationSettings,
    PMFModel,
    RBMModel,
)

M = TypeVar("M", bound=BoltzmannSettings)
F = TypeVar("F", bound=FactorizationSettings)

VALIDATION = 0.05
THESIS = (
    "FactorizationSettings.thesis (250 epochs at most, patience 20), .online_svd, BoltzmannSettings.thesis "
    "(250 passes); of all these the parameters of the pass that predicts a twentieth of the training part best"
)


def rbm(hidden: int, *, ours: bool = False, seed: int = 0) -> RBMModel:
    return RBMModel.from_settings(_machine(BoltzmannSettings, hidden, ours, seed))


def conditional_rbm(hidden: int, *, ours: bool = False, seed: int = 0) -> ConditionalRBMModel:
    settings = _machine(ConditionalBoltzmannSettings, hidden, ours, seed)
    return ConditionalRBMModel.from_settings(settings)


def _machine(settings: type[M], hidden: int, ours: bool, seed: int) -> M:
    if ours:
        return settings(n_hidden=hidden, seed=seed)
    return settings.thesis(n_hidden=hidden, seed=seed, validation=VALIDATION)


def pmf(width: int, *, ours: bool = False, seed: int = 0) -> PMFModel:
    return PMFModel.from_settings(_factorization(FactorizationSettings, width, ours, seed))


def conditional_pmf(width: int, *, ours: bool = False, seed: int = 0) -> ConditionalPMFModel:
    settings = _factorization(ConditionalFactorizationSettings, width, ours, seed)
    return ConditionalPMFModel.from_settings(settings)


def _factorization(settings: type[F], width: int, ours: bool, seed: int) -> F:
    if ours:
        return settings(n_factors=width, seed=seed)
    return settings.thesis(n_factors=width, seed=seed, validation=VALIDATION)


def online_svd(width: int, *, biased: bool, seed: int = 0) -> PMFModel:
    settings = FactorizationSettings.online_svd(
        n_factors=width, biased=biased, seed=seed, validation=VALIDATION
    )
    return PMFModel.from_settings(settings)


def bias(biases: Literal["both", "items", "users", "none"]) -> BiasModel:
    return BiasModel(biases=biases)
