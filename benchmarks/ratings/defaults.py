"""The search for our defaults, on generated sets that no table shows (`benchmarks.ratings.generated`).

    python -m benchmarks.ratings.defaults [--seeds 0] [--sets tiny sparse ...]

A fifth of every set is held out. Each constant is tried with the others as they are: in every row one of them is
replaced for the fit. Errors are percentages above those of `BiasModel` with its defaults, on the same ratings. Lists
are of ten items, and a hit is an item that the user has rated in the part held out. Every cell that is finished is
kept, so that an interrupted search goes on where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from benchmarks import parts, reporting
from benchmarks.embeddings import common
from benchmarks.ratings.generated import SHAPES, generate
from tacenda.ratings import Ratings, split
from tacenda_surprise.models import (
    BayesianPMFModel,
    BiasModel,
    ConditionalBayesianPMFModel,
    ConditionalPMFModel,
    Identities,
    PMFModel,
    RatingModel,
    RBMModel,
    choices,
)
from tacenda_surprise.models.factorization import gibbs, settings
from tacenda_surprise.models.ranking import Lists, best_items, most_popular, quality

HELD_OUT, PLACES = 0.2, 10


class Tried(NamedTuple):
    """A model with one constant of its module replaced, or with settings."""

    name: str
    make: Callable[[], RatingModel]
    module: ModuleType | None = None
    constant: str = ""
    value: Any = None

    @property
    def row(self) -> str:
        return f"{self.name}, {self.constant}={self.value}" if self.constant else self.name


def _of(model: type[Any], **options: Any) -> Callable[[], RatingModel]:
    return lambda: model(**options)


RATES = [
    Tried(f"{model.name}, bias rate {rate}", _of(model, advanced={"bias_learning_rate": rate}))
    for model in (PMFModel, ConditionalPMFModel)
    for rate in (0.005, 0.02)
]
TRIED = [
    *(
        Tried(
            f"bias, lambda {users:g}/{items:g}",
            _of(BiasModel, penalty_users=users, penalty_items=items),
        )
        for users, items in ((5.0, 2.0), (15.0, 10.0))
    ),
    *RATES,
    *(
        Tried(model.name, _of(model), settings, "_KAPPA", value)
        for model in (PMFModel, ConditionalPMFModel)
        for value in (0.0, 5.0, 10.0, 15.0, 40.0)
    ),
    *(
        Tried(model.name, _of(model), gibbs, "_ROWS", value)
        for model in (BayesianPMFModel, ConditionalBayesianPMFModel)
        for value in (4.0, 20.0)
    ),
    Tried("rbm", _of(RBMModel)),
]
LISTS = [
    {"_CONFIDENCE": confidence, "_PENALTY": penalty, "_POPULAR": popular}
    for confidence, penalty, popular in (
        (3.0, 40.0, 0.3), (1.0, 40.0, 0.3), (10.0, 40.0, 0.3), (3.0, 10.0, 0.3), (3.0, 40.0, 0.0),
    )
]  # fmt: skip


def rmse(model: RatingModel, test: Ratings) -> float:
    scores = model.catalogue.clip(model.score_pairs(test.user_ids, test.item_ids))
    return float(np.sqrt(np.mean((scores - test.values) ** 2, dtype=np.float64)))


def error(tried: Tried, train: Ratings, test: Ratings) -> dict[str, Any]:
    """The error of a fit with the constant replaced, which is put back."""
    if tried.module is None:
        return {"RMSE": rmse(tried.make().fit(train), test)}
    before = getattr(tried.module, tried.constant)
    setattr(tried.module, tried.constant, tried.value)
    try:
        return {"RMSE": rmse(tried.make().fit(train), test)}
    finally:
        setattr(tried.module, tried.constant, before)


def hits(constants: dict[str, float], train: Ratings, test: Ratings) -> dict[str, Any]:
    """How often lists by both hold what the user has rated, and lists of the most popular items."""
    before = {name: getattr(choices, name) for name in constants}
    users, seen = np.flatnonzero(np.diff(test.user_offsets)), Identities.of(train)
    try:
        for name, value in constants.items():
            setattr(choices, name, value)
        lists = Lists.of(choices.Choices.of(train, seen), "both", train.n_items)
        model = ConditionalPMFModel(n_factors=20).fit(train)
        found = quality(best_items(model, users, PLACES, seen, lists), test, PLACES)
    finally:
        for name, value in before.items():
            setattr(choices, name, value)
    popular = most_popular(train, users, PLACES, test)
    return {"HR": found.hit_rate, "popularity": popular.hit_rate}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--sets", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--cache", type=Path, default=parts.kept_folder())
    options = parser.parse_args()
    cells = common.Cells(options.cache, "ratings-defaults")
    rows: dict[str, dict[str, Any]] = {}
    for name in options.sets:
        for seed in options.seeds:
            train, test = split(generate(name, seed), HELD_OUT, seed=seed)

            def measured(row: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
                key = common.cell_key(set=name, seed=seed, row=row)  # noqa: B023
                return cells.measure(key, run)

            base = measured("bias", lambda: error(Tried("bias", BiasModel), train, test))["RMSE"]  # noqa: B023
            for tried in TRIED:
                found = measured(tried.row, lambda: error(tried, train, test))["RMSE"]  # noqa: B023
                rows.setdefault(tried.row, {}).setdefault(name, []).append(100 * (found / base - 1))
            for constants in LISTS:
                row = "lists, " + ", ".join(f"{n}={v:g}" for n, v in constants.items())
                found = measured(row, lambda: hits(constants, train, test))  # noqa: B023
                rows.setdefault(row, {}).setdefault(name, []).append(found["HR"])
                rows.setdefault("lists, popularity", {}).setdefault(name, []).append(
                    found["popularity"]
                )
            print(f"{name}, seed {seed}: done", flush=True)
    table = [
        {"tried": row, **{name: round(float(np.mean(values)), 3) for name, values in found.items()}}
        for row, found in rows.items()
    ]
    protocol = {
        "data": f"generated sets; a fraction of {HELD_OUT} of the ratings held out",
        "errors": "percent above the RMSE of BiasModel with its defaults",
        "lists": f"hit rate of {PLACES} items by both",
    }
    reporting.save("ratings-defaults", protocol, table, seeds=options.seeds, keep="tried")


if __name__ == "__main__":
    main()
