"""Fits in rounds, as on a device, against one user after another: python -m benchmarks.ratings.rounds [--sets dense].

Why an epoch has eight rounds, more of them with identities, and lower rates
(`tacenda_surprise.sgd`): errors of the ratings held out, on generated sets that no table shows.
A stand-in plays the device, so this runs anywhere, and says nothing of speed.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.ratings.generated import SHAPES, generate
from tacenda.errors import FittingError
from tacenda.ratings import Ratings, split
from tacenda_surprise import PMF, ConditionalPMF, RatingAlgorithm
from tacenda_surprise import sgd as rounds

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from support.devices import stand_in

HELD_OUT = 0.2
TRIED = {
    PMF: {"_ROUNDS": (2, 8, 32), "_RATE": (0.5, 1.0)},
    ConditionalPMF: {"_SHARED": (1.0, 4.0, 16.0), "_RATE": (0.5, 1.0)},
}


def error(model: RatingAlgorithm, train: Ratings, test: Ratings, *, in_rounds: bool) -> float:
    """RMSE on the ratings held out; NaN where the fit diverges."""
    try:
        with stand_in() if in_rounds else nullcontext():
            model.fit(train)
    except FittingError:
        return float("nan")
    scores = model.catalogue.clip(model.score_pairs(test.user_ids, test.item_ids))
    return float(np.sqrt(np.mean((scores - test.values) ** 2)))


def main() -> None:
    """Prints a line for each set and model: percentages above the error of one user after another."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SHAPES, default=["dense", "films"])
    options = parser.parse_args()
    for name in options.sets:
        train, test = split(generate(name), HELD_OUT, seed=0)
        for model, tried in TRIED.items():
            usual, found = error(model(random_state=0), train, test, in_rounds=False), []
            for constant, value in (
                (name, value) for name, values in tried.items() for value in values
            ):
                # with identities the number of rounds follows from the other constant alone
                fewest = {"_ROUNDS": 1} if constant == "_SHARED" else {}
                with mock.patch.multiple(rounds, **fewest, **{constant: value}):
                    above = 100 * (
                        error(model(random_state=0), train, test, in_rounds=True) / usual - 1
                    )
                found.append(f"{constant}={value:g}: {above:+.2f} %")
            print(f"{name}, {model.name}, RMSE {usual:.4f}; {', '.join(found)}", flush=True)


if __name__ == "__main__":
    main()
