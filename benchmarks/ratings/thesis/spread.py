"""By how much fits of one model differ that differ in nothing but the seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean, stdev

from benchmarks import reporting
from benchmarks.ratings.thesis import fits
from benchmarks.ratings.thesis.fits import Bench
from tacenda_surprise import RatingAlgorithm

NAME = "ratings-thesis-spread"
SEEDS = range(5)
MODELS: dict[str, Callable[[int], RatingAlgorithm]] = {
    "PMF, 50 factors": lambda seed: fits.pmf(50, seed=seed),
    "PMF ours, 50 factors": lambda seed: fits.pmf(50, ours=True, seed=seed),
    "RBM, 25 hidden units": lambda seed: fits.rbm(25, seed=seed),
    "RBM ours, 25 hidden units": lambda seed: fits.rbm(25, ours=True, seed=seed),
}


def main(bench: Bench, save: bool) -> None:
    rows = []
    for name, make in MODELS.items():
        found = [bench.fit(make(seed)).rmse for seed in SEEDS]
        deviation = stdev(found)
        rows.append(
            {
                "model": name,
                "RMSE": round(fmean(found), 4),
                "deviation": round(deviation, 5),
                "by chance": round(2 * math.sqrt(2) * deviation, 4),
                "RMSE of seeds": found,
            }
        )
    protocol = {
        "measure": "RMSE of the test part; its standard deviation over seeds; twice the deviation of the difference "
        "between two fits",
        "data": fits.SPLIT,
        "PMF, RBM": fits.THESIS,
        "ours": "default settings but for the width",
    }
    if save:
        reporting.save(NAME, protocol, rows, seeds=SEEDS)
    else:
        reporting.print_table(rows)
