"""Other libraries' factorizations with their own defaults, as far as Surprise's `fit` and `test` go.

Each is imported where it is used, so that one which is missing hinders no other. What a library cannot
predict (a user or an item without training ratings) is predicted as the mean of the training ratings.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse
from surprise import Prediction, Trainset

from tacenda.ratings import Ratings
from tacenda_surprise.trainsets import numbers, ratings_of

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Library:
    """A peer: `learn` from ratings by number, then `score` pairs of numbers, -1 for what is unknown."""

    requirements: tuple[str, ...] = ()

    def learn(self, ratings: Ratings) -> None:
        raise NotImplementedError

    def score(self, users: Numbers, items: Numbers) -> Floats:
        """Expected ratings (pairs,); NaN where there is none."""
        raise NotImplementedError

    def fit(self, trainset: Trainset) -> Self:
        self._trainset = trainset
        self.learn(ratings_of(trainset))
        return self

    def test(self, testset: list[tuple[Any, Any, float]]) -> list[Prediction]:
        trainset = self._trainset
        uids, iids, truths = zip(*testset, strict=True)
        users = numbers(uids, trainset._raw2inner_id_users)
        items = numbers(iids, trainset._raw2inner_id_items)
        known = (users >= 0) & (items >= 0)
        scores = np.full(len(users), np.nan)
        scores[known] = self.score(users[known], items[known])
        scores[~np.isfinite(scores)] = trainset.global_mean
        estimates = np.clip(scores, *trainset.rating_scale).tolist()
        rows = zip(uids, iids, truths, estimates, strict=True)
        return [Prediction(*row, {}) for row in rows]


class Cornac(Library):
    """``name``: "MF" or "PMF" of cornac.models."""

    requirements = ("cornac",)

    def __init__(self, name: str, seed: int) -> None:
        from cornac import models

        settings: dict[str, Any] = {"num_threads": 1} if name == "MF" else {}
        self._model = getattr(models, name)(seed=seed, **settings)

    def learn(self, ratings: Ratings) -> None:
        from cornac.data import Dataset

        users, items = ({n: n for n in range(k)} for k in (ratings.n_users, ratings.n_items))
        numbered = (ids.astype(np.int64) for ids in (ratings.user_ids, ratings.item_ids))
        triples = (*numbered, ratings.values.astype(np.float64))
        self._model.fit(Dataset(ratings.n_users, ratings.n_items, users, items, triples))

    def score(self, users: Numbers, items: Numbers) -> Floats:
        pairs = zip(users.tolist(), items.tolist(), strict=True)
        return np.array([self._model.rate(u, i) for u, i in pairs], float)


class LensKit(Library):
    """Explicit ALS with biases."""

    requirements = ("lenskit",)

    def __init__(self, seed: int) -> None:
        from lenskit.als import BiasedMFScorer

        self._model, self._seed = BiasedMFScorer(), seed

    def learn(self, ratings: Ratings) -> None:
        import pandas as pd
        from lenskit.data import from_interactions_df
        from lenskit.training import TrainingOptions

        frame = pd.DataFrame(
            {
                "user_id": ratings.user_ids,
                "item_id": ratings.item_ids,
                "rating": ratings.values.astype(np.float64),
            }
        )
        self._model.train(from_interactions_df(frame), TrainingOptions(rng=self._seed))

    def score(self, users: Numbers, items: Numbers) -> Floats:
        from lenskit.data import ItemList

        found = np.empty(len(users))
        order = np.argsort(users, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(users[order])) + 1):
            if len(rows):
                wanted = ItemList(item_ids=items[rows])
                found[rows] = self._model(int(users[rows[0]]), wanted).scores()
        return found


class MyFM(Library):
    """A factorization machine of user and item alone: Bayesian matrix factorization, by Gibbs sampling.

    It has no default rank; 10, 200 sweeps and groups for users and items are those of its documentation.
    """

    requirements = ("myfm", "setuptools<81")

    def __init__(self, seed: int, rank: int = 10, sweeps: int = 200) -> None:
        from myfm import MyFMRegressor

        self._model, self._sweeps = MyFMRegressor(rank, random_seed=seed), sweeps

    def learn(self, ratings: Ratings) -> None:
        self._sizes = [ratings.n_users, ratings.n_items]
        self._model.fit(
            self._rows(ratings.user_ids.astype(np.int64), ratings.item_ids.astype(np.int64)),
            ratings.values.astype(np.float64),
            n_iter=self._sweeps,
            n_kept_samples=self._sweeps,
            group_shapes=self._sizes,
        )

    def score(self, users: Numbers, items: Numbers) -> Floats:
        return np.asarray(self._model.predict(self._rows(users, items)), float)

    def _rows(self, users: Numbers, items: Numbers) -> scipy.sparse.csr_matrix:
        columns = np.stack([users, items + self._sizes[0]], axis=1).ravel()
        offsets = np.arange(0, len(columns) + 1, 2)
        shape = (len(users), sum(self._sizes))
        return scipy.sparse.csr_matrix((np.ones(len(columns)), columns, offsets), shape)
