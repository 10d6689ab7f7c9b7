"""Speed of the rating algorithms beside Surprise's: training, testing, scoring, cross-validation.

    python -m benchmarks.ratings.speed [--repeats 5]

One thread, D = 100, compiled code warm; its first-use cost is reported apart. MovieLens-1M and, drawn anew
each time, ratings shaped like Netflix's: 480,000 users and 17,800 items, skewed, as many ratings as
`--netflix` says. For a quiet machine; medians of repeated runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from surprise import SVD
from surprise.model_selection import KFold, cross_validate

from benchmarks import reporting
from benchmarks.ratings import data
from benchmarks.ratings.measuring import ONE_FIT, Clock
from benchmarks.reporting import Row, Table, in_process, main
from tacenda.datasets import synthetic_ratings
from tacenda.ratings import Ratings
from tacenda_surprise import PMF, ConditionalPMF
from tacenda_surprise.trainsets import ratings_of

PROTOCOL = {
    "threads": 1,
    "factors": 100,
    "sgd": "ratings visited a second by an epoch of the fitting loop, first epoch left out, median",
    "test": "AlgoBase.test of 20,000 pairs of MovieLens-100K, microseconds a pair, before larger data is read",
    "pairs": "score_pairs of 10 million random pairs of MovieLens-1M",
    "cross-validation": "cross_validate, 5 folds of MovieLens-100K, everything included",
}


def first_fit() -> float:
    """Return the seconds of the first fit of a process."""
    start = time.perf_counter()
    ConditionalPMF(n_factors=2, n_epochs=1).fit(Ratings.from_triples([("u", "i", 3.0)]))
    return time.perf_counter() - start


def seconds(call: Callable[[], Any], repeats: int) -> dict[str, float | int]:
    return reporting.summary(reporting.interleaved({"": call}, repeats, time.perf_counter)[""])


def sgd_rates(name: str, ratings: Ratings, epochs: int) -> list[Row]:
    rows = []
    for model_class in (PMF, ConditionalPMF):
        clock = Clock()
        model_class(n_epochs=epochs + 1, random_state=0, **ONE_FIT).fit(ratings, callbacks=(clock,))
        rates = [len(ratings) / (b - a) for a, b in pairwise(clock.wall)]
        found = reporting.summary(rates)
        row = f"SGD, {name}, {model_class.name}"
        rows.append({"row": row, "ratings/s": round(found["median"]), "epochs": found})
    return rows


def hundred_thousand(repeats: int) -> list[Row]:
    """What is measured on MovieLens-100K, in a process that holds nothing larger yet."""
    rows: list[Row] = []
    small = data.movielens("ml-100k")
    trainset, testset = next(KFold(5, random_state=0).split(small))
    for name, algo in (("PMF", PMF(n_epochs=2)), ("Surprise SVD", SVD(n_epochs=2))):
        algo.fit(trainset)
        found = seconds(lambda algo=algo: algo.test(testset), 5 * repeats)
        each = found["median"] / len(testset) * 1e6
        rows.append({"row": f"test(), {name}", "microseconds a pair": each, "seconds": found})
    folds = KFold(5, random_state=0)
    for name, algo in (("ConditionalPMF", ConditionalPMF()), ("Surprise SVD", SVD())):
        found = seconds(lambda algo=algo: cross_validate(algo, small, cv=folds), 3)
        rows.append({"row": f"5-fold cross_validate, {name}", "seconds": found})
    first = in_process(first_fit)
    return [*rows, {"row": "first fit in a new process, compiled code cached", "seconds": first}]


def million(repeats: int) -> list[Row]:
    """What is measured on MovieLens-1M."""
    loaded = data.movielens("ml-1m")
    trainset = loaded.construct_trainset(loaded.raw_ratings)
    ratings = ratings_of(trainset)
    rows = sgd_rates("MovieLens-1M", ratings, 10)
    svd = seconds(lambda: SVD(n_epochs=4).fit(trainset), 2)
    rate = round(4 * len(ratings) / svd["median"])
    rows.append({"row": "SGD, MovieLens-1M, Surprise SVD", "ratings/s": rate})

    model = PMF(n_epochs=1, random_state=0).fit(ratings)
    rng = np.random.default_rng(0)
    users = rng.integers(0, ratings.n_users, 10_000_000)
    items = rng.integers(0, ratings.n_items, 10_000_000)
    found = seconds(lambda: model.score_pairs(users, items), repeats)
    rows.append({"row": "score_pairs", "pairs/s": round(1e7 / found["median"]), "seconds": found})
    fitted = PMF(n_epochs=1).fit(trainset)
    found = seconds(lambda: fitted.top_n(10), repeats)
    return [*rows, {"row": "top_n(10) for all users of MovieLens-1M", "seconds": found}]


def rows(options: Any) -> Iterator[Row]:
    yield from hundred_thousand(options.repeats)
    yield from million(options.repeats)
    if options.netflix:
        start = time.perf_counter()
        shaped = synthetic_ratings.generate(480_000, 17_800, options.netflix, seed=0).ratings
        yield {"row": "generating ratings", "seconds": time.perf_counter() - start}
        yield from sgd_rates(f"Netflix-shaped, {len(shaped):,}", shaped, 3)


if __name__ == "__main__":
    main(__doc__, Table("ratings-speed", PROTOCOL, rows), repeats=5, netflix=20_000_000)
