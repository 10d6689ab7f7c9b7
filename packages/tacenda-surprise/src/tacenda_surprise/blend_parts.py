"""What the algorithms of a blend say, each asked by raw ids as inner ids may differ; and what they are fitted to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, Dataset, Reader, Trainset

from tacenda.errors import DataError
from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.trainsets import numbers

Floats = npt.NDArray[np.float64]


def deviations_of(
    algorithms: Sequence[AlgoBase], usual: Floats, pairs: Sequence[tuple[Any, Any, Any]]
) -> Floats:
    """Standard deviations (pairs, algorithms); the ``usual`` error of an algorithm that knows none."""
    uids, iids = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return np.stack(
        [
            algo.predict_std(uids, iids)
            if isinstance(algo, TacendaAlgorithm)
            else np.full(len(uids), error)
            for algo, error in zip(algorithms, usual, strict=True)
        ],
        axis=-1,
    )


def estimates_of_users(algo: AlgoBase, uids: Sequence[Any], items: Sequence[Any]) -> Floats:
    """Estimates (users, items) of one algorithm, whatever its inner ids."""
    if isinstance(algo, TacendaAlgorithm) and all(map(algo._knows, uids)):
        found = np.asarray(algo.predict_users(uids))
        places = numbers(items, algo._items)
        strange = np.flatnonzero(places < 0).tolist()
        found = found[:, places]
        for column in strange:  # an item that was only in the part held out
            found[:, column] = algo.predict_many(list(uids), [items[column]] * len(uids))
        return found
    rows = [[algo.predict(uid, iid).est for iid in items] for uid in uids]
    return np.array(rows, float).reshape(len(uids), len(items))


def estimates_of(algorithms: Iterable[AlgoBase], pairs: list[tuple[Any, Any, Any]]) -> Floats:
    """Estimates (pairs, algorithms), clipped to the scale."""
    return np.array([[p.est for p in algo.test(pairs)] for algo in algorithms]).T


def parted(
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
