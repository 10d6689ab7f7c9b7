"""Factorizations of a hundred million ratings: rate of learning and peak memory of the process.

    python -m benchmarks.ratings.scale [--ratings 100000000] [--no-save]

As many users, items and ratings as Netflix's prize had, made by a seeded generator: how many ratings a user
has is log-normal, how popular an item is falls off as a power. Every model has a process of its own, which
makes the ratings, fits two epochs with 100 factors, and does what every fit ends with (scores of all ratings
for their noise). One thread. On a machine that others use, the rate by processor time is the one to compare.
A process of its own fits Surprise's SVD with as many factors to a million of such ratings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from surprise import SVD

from benchmarks import reporting
from benchmarks.ratings import data
from benchmarks.ratings.measuring import ONE_FIT, Clock
from benchmarks.reporting import Row, Table, in_process, main
from tacenda.datasets import synthetic_ratings
from tacenda_surprise import PMF, ConditionalPMF

N_USERS, N_ITEMS, N_FACTORS = 480_189, 17_770, 100
OF_SVD = 1_000_000  # ratings; a hundred million would take Surprise hours
MODELS = {"PMF": PMF, "ConditionalPMF": ConditionalPMF}


def protocol(options: Any) -> dict[str, Any]:
    return {
        "data": f"synthetic_ratings.generate({N_USERS}, {N_ITEMS}, {options.ratings}, seed=0)",
        "factors": N_FACTORS,
        "threads": 1,
        "ratings/s": "second epoch of the fitting loop, by processor time; the machine was shared",
        "times SVD": f"ratings/s over those of an epoch of Surprise's SVD on {OF_SVD:,} ratings of the same generator, "
        "by processor time",
        "fit s": "two epochs of one fit and all that comes before and after, by processor time",
        "peak GB": "ru_maxrss of the model's own process, ratings included, 10^9 bytes",
    }


def measure(name: str, n_ratings: int) -> Row:
    """Measure one model in this process."""
    MODELS[name](n_factors=N_FACTORS, n_epochs=1).fit(
        synthetic_ratings.generate(50, 40, 500, seed=0).ratings
    )  # compiles
    start = time.perf_counter()
    ratings = synthetic_ratings.generate(N_USERS, N_ITEMS, n_ratings, seed=0).ratings
    made, after_making = time.perf_counter() - start, reporting.peak()
    clock, start, processor = Clock(), time.perf_counter(), time.process_time()
    model = MODELS[name](n_factors=N_FACTORS, n_epochs=2, random_state=0, **ONE_FIT)
    model.fit(ratings, callbacks=(clock,))
    wall, processor = time.perf_counter() - start, time.process_time() - processor
    return {
        "model": name,
        "ratings": len(ratings),
        "ratings/s": round(len(ratings) / (clock.processor[1] - clock.processor[0])),
        "ratings/s by the wall clock": round(len(ratings) / (clock.wall[1] - clock.wall[0])),
        "fit s": round(processor, 1),
        "fit s by the wall clock": round(wall, 1),
        "peak GB": round(reporting.peak() / 1e9, 2),
        "peak GB of making the ratings": round(after_making / 1e9, 2),
        "making s by the wall clock": round(made, 1),
    }


def measure_svd() -> float:
    """Return the ratings per second of an epoch of Surprise's SVD, apart from what every fit begins with."""
    trainset = data.trainset(synthetic_ratings.generate(N_USERS, N_ITEMS, OF_SVD, seed=0).ratings)

    def seconds(n_epochs: int) -> float:
        start = time.process_time()
        SVD(n_factors=N_FACTORS, n_epochs=n_epochs, random_state=0).fit(trainset)
        return time.process_time() - start

    return 2 * trainset.n_ratings / (seconds(3) - seconds(1))


def rows(options: Any) -> Iterator[Row]:
    svd = in_process(measure_svd)
    for name in MODELS:
        row = in_process(measure, name, options.ratings)
        yield {**row, "times SVD": round(row["ratings/s"] / svd, 1)}


if __name__ == "__main__":
    main(__doc__, Table("ratings-scale", protocol, rows), ratings=100_000_000)
