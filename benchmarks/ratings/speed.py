"""Speed of the rating algorithms beside Surprise's: training, testing, scoring, cross-validation.

    python -m benchmarks.ratings.speed [--repeats 5]

One thread, D = 100, compiled code warm; its first-use cost is reported apart. MovieLens-1M and, drawn anew
each time, ratings shaped like Netflix's: 480,000 users and 17,800 items, skewed, as many ratings as
`--netflix` says. For a quiet machine; medians of repeated runs.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from surprise import SVD
from surprise.model_selection import KFold, cross_validate

from benchmarks import reporting
from benchmarks.ratings import data
from benchmarks.ratings.measuring import ONE_FIT
from tacenda.datasets import synthetic_ratings
from tacenda.fitting import Callback, FitLoop
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
_COLD = """
import time, numpy as np
from tacenda.ratings import Ratings
from tacenda_surprise import ConditionalPMF
start = time.perf_counter()
ConditionalPMF(n_factors=2, n_epochs=1).fit(Ratings.from_triples([("u", "i", 3.0)]))
print(time.perf_counter() - start)
"""


def seconds(call: Callable[[], Any], repeats: int) -> dict[str, float | int]:
    return reporting.summary(reporting.timed(call, repeats))


class Clock(Callback):
    """Notes when each epoch ends."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_epoch_end(self, run: FitLoop) -> bool | None:
        self.times.append(time.perf_counter())
        return None


def sgd_rates(name: str, ratings: Ratings, epochs: int) -> list[dict[str, Any]]:
    rows = []
    for model_class in (PMF, ConditionalPMF):
        clock = Clock()
        model_class(n_epochs=epochs + 1, random_state=0, **ONE_FIT).fit(ratings, callbacks=(clock,))
        rates = [len(ratings) / (b - a) for a, b in pairwise(clock.times)]
        found = reporting.summary(rates)
        row = f"SGD, {name}, {model_class.name}"
        rows.append({"row": row, "ratings/s": round(found["median"]), "epochs": found})
    return rows


def hundred_thousand(repeats: int) -> list[dict[str, Any]]:
    """What is measured on MovieLens-100K, in a process that holds nothing larger yet."""
    rows: list[dict[str, Any]] = []
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
    cold = subprocess.run([sys.executable, "-c", _COLD], capture_output=True, text=True, check=True)
    first = float(cold.stdout)
    return [*rows, {"row": "first fit in a new process, compiled code cached", "seconds": first}]


def million(repeats: int) -> list[dict[str, Any]]:
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


def main() -> None:
    parser = reporting.Command(__doc__, "no-save")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--netflix", type=int, default=20_000_000, help="ratings to generate")
    options = parser.parse_args()
    rows = [*hundred_thousand(options.repeats), *million(options.repeats)]
    if options.netflix:
        start = time.perf_counter()
        shaped = synthetic_ratings.generate(480_000, 17_800, options.netflix, seed=0).ratings
        rows.append({"row": "generating ratings", "seconds": time.perf_counter() - start})
        rows += sgd_rates(f"Netflix-shaped, {len(shaped):,}", shaped, 3)
    reporting.save("ratings-speed", PROTOCOL, rows, seeds=[0], dry=options.no_save)


if __name__ == "__main__":
    main()
