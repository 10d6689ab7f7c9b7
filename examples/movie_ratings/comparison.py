"""Cross-validation, and predicted standard deviations against errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, Dataset
from surprise.model_selection import KFold, cross_validate

from tacenda_surprise import ConditionalBayesianPMF

Floats = npt.NDArray[np.float64]
BINS = 8


class Row(NamedTuple):
    """The errors of one algorithm on all folds, and the seconds to fit and to test a fold."""

    name: str
    rmse: list[float]
    fit: float
    test: float


class Certainty(NamedTuple):
    """Test ratings sorted by predicted deviation and cut into parts of the same size.

    Attributes
    ----------
    foretold
        (parts,) root mean square of the predicted deviations.
    found
        (parts,) root mean square of the errors.
    within
        Share of all ratings less than one predicted deviation away.
    """

    foretold: Floats
    found: Floats
    within: float


def measured(data: Dataset, algorithms: Mapping[str, AlgoBase], n_folds: int) -> list[Row]:
    """Cross-validate all algorithms on the same folds, after compiling their code."""
    warm_up(data, algorithms)
    rows = []
    for name, algo in algorithms.items():
        folds = KFold(n_folds, random_state=0)
        found = cross_validate(algo, data, measures=["rmse"], cv=folds)
        fit, test = float(np.median(found["fit_time"])), float(np.median(found["test_time"]))
        rows.append(Row(name, found["test_rmse"].tolist(), fit, test))
        print(f"  {name}: {np.mean(rows[-1].rmse):.4f}", flush=True)
    return rows


def warm_up(data: Dataset, algorithms: Mapping[str, AlgoBase]) -> None:
    """Fit each algorithm to a few ratings, so that compiling is not counted as fitting."""
    few = data.construct_trainset(data.raw_ratings[:50])
    for algo in algorithms.values():
        algo.fit(few)


def print_table(rows: list[Row]) -> None:
    print(f"\n{'algorithm':32}{'RMSE':>8}{'folds ±':>9}{'fit s':>8}{'test s':>8}")
    for row in sorted(rows, key=lambda row: float(np.mean(row.rmse))):
        print(f"{row.name:32}{np.mean(row.rmse):8.4f}{np.std(row.rmse):9.4f}"
              f"{row.fit:8.2f}{row.test:8.2f}")  # fmt: skip
    print()


def certainty(data: Dataset, algo: ConditionalBayesianPMF) -> Certainty:
    """Fit four fifths of the ratings and test on the others."""
    trainset, testset = next(KFold(5, random_state=0).split(data))
    algo.fit(trainset)
    users, items, truth = zip(*testset, strict=True)
    errors = np.array(truth) - algo.predict_many(users, items)
    deviations = algo.predict_std(users, items)
    parts = np.array_split(np.argsort(deviations, kind="stable"), BINS)
    return Certainty(
        np.array([np.sqrt(np.mean(deviations[part] ** 2)) for part in parts]),
        np.array([np.sqrt(np.mean(errors[part] ** 2)) for part in parts]),
        float(np.mean(np.abs(errors) < deviations)),
    )


def print_certainty(sure: Certainty) -> None:
    for name, part in (("most", 0), ("least", -1)):
        print(
            f"  {name} certain eighth: standard deviation {sure.foretold[part]:.2f} predicted, "
            f"{sure.found[part]:.2f} measured"
        )
    print(
        f"  {sure.within:.0%} of the ratings are within one standard deviation (68% if they were normal)"
    )


def save(rows: list[Row], path: Path) -> None:
    """Write the results as JSON."""
    found: list[dict[str, Any]] = [row._asdict() for row in rows]
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
