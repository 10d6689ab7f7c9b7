"""RMSE and time of every algorithm, ours, Surprise's and other libraries', on the same folds, with their defaults.

    python -m benchmarks.ratings.accuracy [--data ml-100k] [--only PMF ...]

ML-100K: KFold(5, random_state=0). ML-1M: one random tenth is tested. Compiled code is warm; all test pairs
are scored and clipped to the scale. A library that is not installed is left out, and a line says so; its rows of
an earlier run stay. Nothing was tuned on these folds: settings come from the first two folds
of KFold(5, random_state=1).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

from surprise import SVD, AlgoBase, BaselineOnly, KNNBaseline, SVDpp, Trainset, accuracy
from surprise.model_selection import KFold, train_test_split

from benchmarks import reporting
from benchmarks.ratings import data
from benchmarks.ratings.other_libraries import Cornac, LensKit, Library, MyFM
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    Blend,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
)

SEED = 0
Maker = Callable[[], AlgoBase | Library]
OURS: dict[str, Maker] = {
    "PMF": lambda: PMF(random_state=SEED),
    "PMF, Gibbs": lambda: BayesianPMF(random_state=SEED),
    "ConditionalPMF": lambda: ConditionalPMF(random_state=SEED),
    "ConditionalPMF, Gibbs": lambda: ConditionalBayesianPMF(random_state=SEED),
    "RBM": lambda: RBM(random_state=SEED),
    "ConditionalRBM": lambda: ConditionalRBM(random_state=SEED),
    "RBM of the thesis": lambda: RBM(
        orientation="user",
        ordinal=False,
        offset=False,
        reg_all=0.005,
        n_epochs=30,
        random_state=SEED,
    ),
    "Blend of Gibbs ConditionalPMF and ConditionalRBM": lambda: Blend(
        [
            ConditionalBayesianPMF(random_state=SEED),
            ConditionalRBM(random_state=SEED),
        ],
        random_state=SEED,
    ),
}
PEERS: dict[str, Maker] = {
    "Surprise BaselineOnly": lambda: BaselineOnly(verbose=False),
    "Surprise SVD": lambda: SVD(random_state=SEED),
    "Surprise SVD, biased=False": lambda: SVD(biased=False, random_state=SEED),
    "Surprise KNNBaseline": lambda: KNNBaseline(verbose=False),
    "Surprise SVDpp": lambda: SVDpp(random_state=SEED),
}
LIBRARIES: dict[str, Maker] = {
    "cornac MF": lambda: Cornac("MF", SEED),
    "cornac PMF": lambda: Cornac("PMF", SEED),
    "LensKit ALS with biases": lambda: LensKit(SEED),
    "myFM, rank 10, 200 sweeps": lambda: MyFM(SEED),
}


def folds(name: str) -> Iterator[tuple[Trainset, list[Any]]]:
    loaded = data.movielens(name)
    if name == "ml-100k":
        yield from KFold(5, random_state=SEED).split(loaded)
    else:
        yield train_test_split(loaded, test_size=0.1, random_state=SEED)


def installed(makers: dict[str, Maker]) -> dict[str, Maker]:
    """Those whose library can be imported; a line says why another cannot."""
    found = {}
    for name, make in makers.items():
        try:
            make()
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        found[name] = make
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-100k", choices=["ml-100k", "ml-1m"])
    parser.add_argument("--only", nargs="*", default=[], help="rows with one of these in the name")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    makers = {
        name: make
        for name, make in {**OURS, **PEERS, **LIBRARIES}.items()
        if not options.only or any(part in name for part in options.only)
    }
    makers = installed(makers)
    found: dict[str, dict[str, list[float]]] = {
        name: {"rmse": [], "mae": [], "fit": [], "test": []} for name in makers
    }
    for fold, (trainset, testset) in enumerate(folds(options.data)):
        for name, make in makers.items():
            if not fold:
                make().fit(trainset) if options.data == "ml-100k" and name in OURS else None
            start = time.process_time()
            algo = make().fit(trainset)
            between = time.process_time()
            predictions = algo.test(testset)
            row = found[name]
            row["test"].append(time.process_time() - between)
            row["fit"].append(between - start)
            row["rmse"].append(float(accuracy.rmse(predictions, verbose=False)))
            row["mae"].append(float(accuracy.mae(predictions, verbose=False)))
            print(f"{name}, fold {fold}: {row['rmse'][-1]:.4f}", flush=True)
    rows = [
        {
            "algorithm": name,
            "RMSE": round(data.spread(row["rmse"])["mean"], 4),
            "RMSE of folds": [round(value, 4) for value in row["rmse"]],
            "MAE": round(data.spread(row["mae"])["mean"], 4),
            "fit s": reporting.summary(row["fit"]),
            "test s": reporting.summary(row["test"]),
        }
        for name, row in found.items()
    ]
    protocol = {
        "data": "MovieLens-100K, KFold(5, random_state=0)"
        if options.data == "ml-100k"
        else "MovieLens-1M, train_test_split(test_size=0.1, random_state=0)",
        "settings": "defaults of every algorithm, random_state=0; ours chosen on two folds of "
        "ML-100K, KFold(5, random_state=1)",
        "other libraries": "what cannot be predicted is the mean of the training ratings; myFM has no "
        "default rank: 10, 200 sweeps and groups for users and items are its documentation's, and needs setuptools<81",
        "time": "one thread, seconds of processor time a fold, median; of rows named under "
        "`earlier` by the wall clock",
    }
    if options.no_save:
        reporting.print_table(rows)
    else:
        reporting.save(f"ratings-{options.data}", protocol, rows, keep="algorithm")


if __name__ == "__main__":
    main()
