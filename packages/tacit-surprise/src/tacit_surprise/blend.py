"""A weighted average of fitted algorithms, itself an algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np
from surprise import AlgoBase, Dataset, Prediction, PredictionImpossible, Reader, Trainset
from surprise.utils import get_rng

from tacit.errors import ConfigurationError, DataError, NotFittedError
from tacit_surprise.models.blending import Weights, fit_weights

__all__ = ["Blend"]


class Blend(AlgoBase):  # type: ignore[misc]
    """Averages algorithms with weights fitted on ratings held out; any Surprise algorithms will do.

    Fitting holds out a part of the ratings, fits every algorithm on the rest, finds the weights, and fits
    every algorithm anew on all ratings.

    Args:
        algorithms: what to blend; copies are fitted, these are left alone.
        holdout: part of the ratings that the weights are fitted on.
        refit: fit the algorithms anew on all ratings; False is twice as fast and a little worse.
        random_state: of the part held out.

    Attributes:
        weights: (algorithms,), set by ``fit``.
        fitted: the fitted algorithms.

    Example:
        >>> Blend([ConditionalPMF(random_state=0), ConditionalRBM(random_state=0)]).fit(trainset)
    """

    def __init__(
        self,
        algorithms: Sequence[AlgoBase] = (),
        holdout: float = 0.1,
        refit: bool = True,
        random_state: Any = None,
    ) -> None:
        AlgoBase.__init__(self)
        if not 0 < holdout < 1:
            raise ConfigurationError(f"holdout must lie between 0 and 1, not {holdout!r}")
        self.algorithms = algorithms
        self.holdout = holdout
        self.refit = refit
        self.random_state = random_state
        self.fitted: list[AlgoBase] = []
        self._weights: Weights | None = None

    def fit(self, trainset: Trainset) -> Self:
        """Fit everything to ``trainset`` and return self. Raises `DataError` for fewer than two ratings."""
        if not self.algorithms:
            raise ConfigurationError("a blend needs algorithms: Blend([ConditionalPMF(), RBM()])")
        AlgoBase.fit(self, trainset)
        part, held_out = _parts(trainset, self.holdout, get_rng(self.random_state))
        first = [deepcopy(algo).fit(part) for algo in self.algorithms]
        truth = np.array([rating for _, _, rating in held_out])
        self._weights = fit_weights(_estimates(first, held_out), truth)
        self.fitted = first
        if self.refit:
            self.fitted = [deepcopy(algo).fit(trainset) for algo in self.algorithms]
        return self

    @property
    def weights(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Of the algorithms, in their order."""
        return self._fitted().weights

    def _fitted(self) -> Weights:
        if self._weights is None:
            raise NotFittedError("this Blend is not fitted: call fit(trainset)")
        return self._weights

    def estimate(self, u: int | str, i: int | str) -> float:
        """The weighted average; an algorithm for which it is impossible counts with its default."""
        found = []
        for algo in self.fitted:
            try:
                estimate = algo.estimate(u, i)
            except PredictionImpossible:
                estimate = algo.default_prediction()
            found.append(estimate[0] if isinstance(estimate, tuple) else estimate)
        low, high = self.trainset.rating_scale
        clipped = np.clip(np.array([found], float), low, high)
        return float(self._fitted().combine(clipped)[0])

    def test(
        self, testset: Iterable[tuple[Any, Any, float | None]], verbose: bool = False
    ) -> list[Prediction]:
        """What AlgoBase.test gives, each algorithm testing all pairs at once."""
        pairs = list(testset)
        if not pairs:
            return []
        combined = self._fitted().combine(_estimates(self.fitted, pairs))
        estimates = np.clip(combined, *self.trainset.rating_scale).tolist()
        predictions = [
            Prediction(uid, iid, truth, estimate, {"was_impossible": False})
            for (uid, iid, truth), estimate in zip(pairs, estimates, strict=True)
        ]
        if verbose:
            for prediction in predictions:
                print(prediction)
        return predictions


def _estimates(
    algorithms: Iterable[AlgoBase], pairs: list[tuple[Any, Any, Any]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(pairs, algorithms), clipped to the scale."""
    return np.array([[p.est for p in algo.test(pairs)] for algo in algorithms]).T


def _parts(
    trainset: Trainset, holdout: float, rng: np.random.RandomState
) -> tuple[Trainset, list[tuple[Any, Any, float]]]:
    """A trainset without some of the ratings, and these."""
    triples = [
        (trainset.to_raw_uid(u), trainset.to_raw_iid(i), r) for u, i, r in trainset.all_ratings()
    ]
    n = max(1, round(holdout * len(triples)))
    if n >= len(triples):
        raise DataError("fewer than two ratings cannot be split for a blend; give more ratings")
    order = rng.permutation(len(triples))
    data = Dataset(Reader(rating_scale=trainset.rating_scale))
    part = data.construct_trainset([(*triples[k], None) for k in order[n:]])
    return part, [triples[k] for k in order[:n]]
