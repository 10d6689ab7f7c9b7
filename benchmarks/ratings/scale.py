"""Factorizations of a hundred million ratings: rate of learning and peak memory of the process.

    python -m benchmarks.ratings.scale [--ratings 100000000] [--no-save]

As many users, items and ratings as Netflix's prize had, made by a seeded generator: how many ratings a user
has is log-normal, how popular an item is falls off as a power. Every model has a process of its own, which
makes the ratings, fits two epochs with 100 factors, and does what every fit ends with (scores of all ratings
for their noise). One thread. On a machine that others use, the rate by processor time is the one to compare.
"""

from __future__ import annotations

import json
import time
from typing import Any

from benchmarks import reporting
from benchmarks.ratings.measuring import ONE_FIT
from tacenda.datasets import synthetic_ratings
from tacenda.fitting import Callback, FitLoop
from tacenda_surprise import PMF, ConditionalPMF

N_USERS, N_ITEMS = 480_189, 17_770
MODELS = {"PMF": PMF, "ConditionalPMF": ConditionalPMF}


class Clock(Callback):
    """Wall and processor time at the end of each epoch."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []

    def on_epoch_end(self, run: FitLoop) -> bool | None:
        self.wall.append(time.perf_counter())
        self.processor.append(time.process_time())
        return None


def peak() -> float:
    """Most memory that was resident in this process so far, GB."""
    return round(reporting.peak() / 1e9, 2)


def measure(name: str, n_ratings: int) -> dict[str, Any]:
    """One model in this process."""
    MODELS[name](n_factors=100, n_epochs=1).fit(
        synthetic_ratings.generate(50, 40, 500, seed=0).ratings
    )  # compiles
    start = time.perf_counter()
    ratings = synthetic_ratings.generate(N_USERS, N_ITEMS, n_ratings, seed=0).ratings
    made, after_making = time.perf_counter() - start, peak()
    clock, start, processor = Clock(), time.perf_counter(), time.process_time()
    MODELS[name](n_factors=100, n_epochs=2, random_state=0, **ONE_FIT).fit(
        ratings, callbacks=(clock,)
    )
    wall, processor = time.perf_counter() - start, time.process_time() - processor
    return {
        "model": name,
        "ratings": len(ratings),
        "ratings/s": round(len(ratings) / (clock.processor[1] - clock.processor[0])),
        "ratings/s by the wall clock": round(len(ratings) / (clock.wall[1] - clock.wall[0])),
        "fit s": round(processor, 1),
        "fit s by the wall clock": round(wall, 1),
        "peak GB": peak(),
        "peak GB of making the ratings": after_making,
        "making s by the wall clock": round(made, 1),
    }


def main() -> None:
    parser = reporting.Command(__doc__, "no-save")
    parser.add_argument("--ratings", type=int, default=100_000_000)
    parser.add_argument("--only", choices=[*MODELS], help="in this process; prints JSON")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options.ratings)))
        return
    shared = ("--ratings", options.ratings)
    rows = [
        reporting.of_process("benchmarks.ratings.scale", "--only", name, *shared) for name in MODELS
    ]
    protocol = {
        "data": f"synthetic_ratings.generate({N_USERS}, {N_ITEMS}, {options.ratings}, seed=0)",
        "factors": 100,
        "threads": 1,
        "ratings/s": "second epoch of the fitting loop, by processor time; the machine was shared",
        "fit s": "two epochs of one fit and all that comes before and after, by processor time",
        "peak GB": "ru_maxrss of the model's own process, ratings included, 10^9 bytes",
    }
    reporting.save("ratings-scale", protocol, rows, seeds=[0], dry=options.no_save)


if __name__ == "__main__":
    main()
