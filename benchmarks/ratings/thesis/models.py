"""The models of the thesis, by the names of its tables, with its settings and with ours.

What the thesis stops on is the set it reports (section 5.4.3). Here a twentieth of the training part decides
where to stop, and the test part decides nothing.
"""

from __future__ import annotations

from typing import Any

from tacenda_surprise.models import (
    BiasModel,
    BoltzmannConfig,
    ConditionalPMFModel,
    ConditionalRBMModel,
    FactorizationConfig,
    PMFModel,
    RBMModel,
)

VALIDATION = 0.05
THESIS = (
    "FactorizationConfig.thesis (250 epochs at most, patience 20), .online_svd, BoltzmannConfig.thesis "
    "(30 epochs); of all these the parameters of the epoch that predicts a twentieth of the training part best"
)


def rbm(hidden: int, *, ours: bool = False) -> RBMModel:
    return RBMModel(_machine(hidden, ours))


def conditional_rbm(hidden: int, *, ours: bool = False) -> ConditionalRBMModel:
    return ConditionalRBMModel(_machine(hidden, ours))


def _machine(hidden: int, ours: bool) -> BoltzmannConfig:
    if ours:
        return BoltzmannConfig(n_hidden=hidden)
    epochs = BoltzmannConfig.thesis().n_epochs
    held_out: dict[str, Any] = {"validation": VALIDATION, "patience": epochs, "refit": False}
    return BoltzmannConfig.thesis(n_hidden=hidden, **held_out)


def pmf(width: int, *, ours: bool = False, seed: int = 0) -> PMFModel:
    return PMFModel(_factorization(width, ours, seed))


def conditional_pmf(width: int, *, ours: bool = False, seed: int = 0) -> ConditionalPMFModel:
    return ConditionalPMFModel(_factorization(width, ours, seed))


def _factorization(width: int, ours: bool, seed: int) -> FactorizationConfig:
    if ours:
        return FactorizationConfig(n_factors=width, seed=seed)
    return FactorizationConfig.thesis(n_factors=width, seed=seed, validation=VALIDATION)


def online_svd(width: int, *, biased: bool, seed: int = 0) -> PMFModel:
    config = FactorizationConfig.online_svd(
        n_factors=width, biased=biased, seed=seed, validation=VALIDATION
    )
    return PMFModel(config)


def bias(biases: str) -> BiasModel:
    return BiasModel(biases=biases)
