"""The models of the thesis, by the names of its tables, with its settings and with ours.

What the thesis stops on is the set it reports (section 5.4.3). Here a twentieth of the training part decides
where to stop, and the test part decides nothing.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from tacenda_surprise import PMF, RBM, BiasOnly, ConditionalPMF, ConditionalRBM

VALIDATION = 0.05
THESIS = (
    "PMF.thesis (250 epochs at most, patience 20), .online_svd, RBM.thesis "
    "(250 passes); of all these the parameters of the pass that predicts a twentieth of the training part best"
)

A = TypeVar("A", PMF, RBM)


def rbm(hidden: int, *, ours: bool = False, seed: int = 0) -> RBM:
    return _made(RBM, ours, n_hidden=hidden, random_state=seed)


def conditional_rbm(hidden: int, *, ours: bool = False, seed: int = 0) -> RBM:
    return _made(ConditionalRBM, ours, n_hidden=hidden, random_state=seed)


def pmf(width: int, *, ours: bool = False, seed: int = 0) -> PMF:
    return _made(PMF, ours, n_factors=width, random_state=seed)


def conditional_pmf(width: int, *, ours: bool = False, seed: int = 0) -> PMF:
    return _made(ConditionalPMF, ours, n_factors=width, random_state=seed)


def _made(model: type[A], ours: bool, **options: Any) -> A:
    return model(**options) if ours else model.thesis(**options, validation=VALIDATION)


def online_svd(width: int, *, biased: bool, seed: int = 0) -> PMF:
    return PMF.online_svd(n_factors=width, biased=biased, random_state=seed, validation=VALIDATION)


def bias(biases: Literal["both", "items", "users", "none"]) -> BiasOnly:
    return BiasOnly(biases=biases)
