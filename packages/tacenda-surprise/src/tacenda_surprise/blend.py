"""A weighted average of fitted algorithms, itself an algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from surprise import AlgoBase, Dataset, Prediction, Reader, Trainset
from surprise.utils import get_rng

from tacenda.errors import ConfigurationError, DataError, NotFittedError
from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.models.ranking import top
from tacenda_surprise.trainsets import numbers

__all__ = ["Blend"]

Floats = npt.NDArray[np.float64]

_SCORES = 2_000_000  # of one algorithm in memory at a time


class Weights(NamedTuple):
    """prediction = center + sum_k weights_k (prediction_k - center)."""

    weights: Floats  # (models,), not negative
    center: float  # mean of the ratings

    def combine(self, predictions: Floats) -> Floats:
        """Blend predictions (pairs, models) into (pairs,)."""
        return np.asarray(self.center + (predictions - self.center) @ self.weights)


def fit_weights(predictions: Floats, truth: Floats, ridge: float = 0.05) -> Weights:
    """Find the non-negative weights with the least squared error of ``predictions`` (ratings, models).

    ``truth`` (ratings,) are the ratings. ``ridge``, a share of the spread of the predictions, pulls towards the
    plain average: models that predict nearly the same have weights that are hardly determined.

    Raises DataError if there is nothing to fit to.
    """
    n, k = predictions.shape
    if not n or not k:
        raise DataError("a blend needs at least one model and one rating held out")
    center = float(truth.mean())
    X, y = predictions - center, truth - center
    size = np.sqrt(ridge * (X**2).mean() * n)
    X = np.concatenate([X, size * np.eye(k)])
    y = np.concatenate([y, np.full(k, size / k)])
    return Weights(nnls(X, y)[0], center)


class Blend(AlgoBase):  # type: ignore[misc]
    """Averages algorithms with weights fitted to ratings held out; any Surprise algorithms will do.

    Fitting holds out a part of the ratings, fits every algorithm to the rest, finds the weights, and fits
    every algorithm anew to all ratings.

    Parameters
    ----------
    algorithms
        What to blend; copies are fitted, these are left alone.
    holdout
        Part of the ratings that the weights are fitted to.
    refit
        Fit the algorithms anew to all ratings; False is twice as fast and a little worse.
    random_state
        Seed of the part held out.

    Attributes
    ----------
    weights
        (algorithms,), set by ``fit``.
    fitted
        The fitted algorithms.

    Examples
    --------
    >>> Blend([ConditionalPMF(random_state=0), ConditionalRBM(random_state=0)]).fit(trainset)
    """

    #: Unknown users and items have the weighted average of what the algorithms say of them.
    predicts_unknown = True

    def __init__(
        self,
        algorithms: Sequence[AlgoBase] = (),
        holdout: float = 0.1,
        refit: bool = True,
        random_state: Any = None,
    ) -> None:
        AlgoBase.__init__(self)
        if not 0 < holdout < 1:
            raise ConfigurationError(f"Blend: holdout must lie between 0 and 1, not {holdout!r}")
        self.algorithms = algorithms
        self.holdout = holdout
        self.refit = refit
        self.random_state = random_state
        self.fitted: list[AlgoBase] = []
        self._weights: Weights | None = None

    def __repr__(self) -> str:
        fitted = "not fitted" if self._weights is None else "fitted"
        return (
            f"<Blend({self.algorithms!r}, holdout={self.holdout!r}, refit={self.refit!r}, "
            f"random_state={self.random_state!r}), {fitted}>"
        )

    def fit(self, trainset: Trainset) -> Self:
        """Fit everything to ``trainset`` and return self. Raises `DataError` for fewer than two ratings."""
        if not self.algorithms:
            raise ConfigurationError("a blend needs algorithms: Blend([ConditionalPMF(), RBM()])")
        part, held_out = _parts(trainset, self.holdout, get_rng(self.random_state))
        first = [deepcopy(algo).fit(part) for algo in self.algorithms]
        truth = np.array([rating for _, _, rating in held_out])
        weights = fit_weights(_estimates(first, held_out), truth)
        if self.refit:
            first = [deepcopy(algo).fit(trainset) for algo in self.algorithms]
        # All at once: an interrupted fit leaves the blend as it was.
        AlgoBase.fit(self, trainset)
        self._weights, self.fitted = weights, first
        return self

    @property
    def weights(self) -> Floats:
        """The weights of the algorithms (algorithms,), in their order."""
        return self._fitted().weights

    def _fitted(self) -> Weights:
        if self._weights is None:
            raise NotFittedError("this Blend is not fitted: call fit(trainset)")
        return self._weights

    def estimate(self, u: int | str, i: int | str) -> float:
        """Return the weighted average; an algorithm that cannot predict counts with its default."""
        weights = self._fitted()
        # By raw ids, as without refitting the inner ids are others. A mark of an unknown id is none.
        uid = u if isinstance(u, str) else self.trainset.to_raw_uid(u)
        iid = i if isinstance(i, str) else self.trainset.to_raw_iid(i)
        estimates = [algo.predict(uid, iid).est for algo in self.fitted]
        return float(weights.combine(np.array([estimates], float))[0])

    def predict_many(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Estimate the ratings (pairs,) of raw ids."""
        if len(uids) != len(iids):
            raise ConfigurationError(
                f"there are {len(uids)} users and {len(iids)} items; give one of each for every pair"
            )
        pairs = [(uid, iid, None) for uid, iid in zip(uids, iids, strict=True)]
        return np.array([prediction.est for prediction in self.test(pairs)])

    def predict_users(self, uids: Sequence[Any]) -> Floats:
        """Estimate the ratings (users, items) of all items, in the order of their inner ids.

        Quick for Tacenda's algorithms; others are asked for one pair after the other.
        """
        weights = self._fitted()
        low, high = self.trainset.rating_scale
        items = [self.trainset.to_raw_iid(i) for i in self.trainset.all_items()]
        every = np.stack([_of_users(algo, uids, items) for algo in self.fitted], axis=-1)
        combined = weights.combine(every.reshape(-1, every.shape[-1]))
        return np.asarray(np.clip(combined, low, high).reshape(len(uids), len(items)))

    def top_n(
        self, n: int = 10, uids: Iterable[Any] | None = None, *, exclude_seen: bool = True
    ) -> dict[Any, list[tuple[Any, float]]]:
        """Find the ``n`` best items of every user, or of ``uids``: (raw item id, estimate), best first.

        Raises DataError for a user who is not in the trainset.
        """
        self._fitted()
        trainset = self.trainset
        users = trainset._raw2inner_id_users
        wanted = list(users) if uids is None else list(uids)
        for uid in wanted:
            if uid not in users:
                raise DataError(f"user {uid!r} is not in the trainset")
        raw = np.array([trainset.to_raw_iid(i) for i in trainset.all_items()], dtype=object)
        found: dict[Any, list[tuple[Any, float]]] = {}
        block = max(1, _SCORES // max(len(raw), 1))
        for start in range(0, len(wanted), block):
            part = wanted[start : start + block]
            for uid, scores in zip(part, self.predict_users(part), strict=True):
                seen = {i for i, _ in trainset.ur[users[uid]]} if exclude_seen else set()
                items, values = top(scores.astype(np.float32), n, np.array(sorted(seen), np.int64))
                found[uid] = list(zip(raw[items], values.astype(float).tolist(), strict=True))
        return found

    def test(
        self, testset: Iterable[tuple[Any, Any, float | None]], verbose: bool = False
    ) -> list[Prediction]:
        """Return what AlgoBase.test returns, each algorithm predicting all pairs at once."""
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


def _of_users(algo: AlgoBase, uids: Sequence[Any], items: Sequence[Any]) -> Floats:
    """Estimates (users, items) of one algorithm, whatever its inner ids."""
    if isinstance(algo, TacendaAlgorithm) and all(uid in algo._users for uid in uids):
        found = np.asarray(algo.predict_users(uids))
        places = numbers(items, algo._items)
        strange = np.flatnonzero(places < 0).tolist()
        found = found[:, places]
        for column in strange:  # an item that was only in the part held out
            found[:, column] = algo.predict_many(list(uids), [items[column]] * len(uids))
        return found
    rows = [[algo.predict(uid, iid).est for iid in items] for uid in uids]
    return np.array(rows, float).reshape(len(uids), len(items))


def _estimates(algorithms: Iterable[AlgoBase], pairs: list[tuple[Any, Any, Any]]) -> Floats:
    """Estimates (pairs, algorithms), clipped to the scale."""
    return np.array([[p.est for p in algo.test(pairs)] for algo in algorithms]).T


def _parts(
    trainset: Trainset, holdout: float, rng: np.random.RandomState
) -> tuple[Trainset, list[tuple[Any, Any, float]]]:
    """Split a trainset: a trainset without some of the ratings, and these ratings."""
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
