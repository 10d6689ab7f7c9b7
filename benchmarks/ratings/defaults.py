"""The search for our defaults, on generated sets that no table shows (`benchmarks.ratings.generated`).

    python -m benchmarks.ratings.defaults [--seeds 0 1] [--sets tiny sparse ...] [--only NAME ...]

A fifth of every set is held out, and every set is drawn once for each seed. The rows named after a model alone are its
defaults. In each of the others one constant has another value while a model is fitted and all the rest are as they are;
where that is better on average, the constant is to be changed. Errors are percentages above those of `BiasOnly` with
its defaults, on the same ratings. Lists are of ten items, and a hit is an item that the user has rated in the part held
out, or rated above the mean. Every cell that is finished is kept, so that an interrupted search goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import product
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from surprise import SVD

from benchmarks import kept
from benchmarks.ratings import data
from benchmarks.ratings.generated import SHAPES, generate
from benchmarks.reporting import Row, Table, main
from tacenda.ratings import Ratings, split
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    BiasOnly,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
    RatingAlgorithm,
    bias,
    gibbs,
    samples,
    top_n,
)
from tacenda_surprise import boltzmann as of_machines
from tacenda_surprise import factorization as of_factors
from tacenda_surprise.algorithm import best_items
from tacenda_surprise.catalogue import Identities
from tacenda_surprise.top_n import ImplicitFactors, Lists, most_popular, quality

HELD_OUT, PLACES = 0.2, 10
SHORT = {"burn_in": 40, "n_samples": 60}  # of a chain: constants are compared on shorter ones
SVD_ROW = "Surprise SVD"


class Tried(NamedTuple):
    """A model with settings, and with another value of one constant of a module."""

    model: type[Any]
    told: Mapping[str, Any] = {}
    module: ModuleType | None = None
    constant: str = ""
    value: Any = None

    @property
    def row(self) -> str:
        told = [f"{name}={value}" for name, value in self.told.items()]
        other = [f"{self.constant}={self.value}"] if self.constant else []
        return ", ".join([self.model.name, *told, *other])

    def fit(self, train: Ratings) -> RatingAlgorithm:
        with ExitStack() as stack:
            if self.module is not None:
                stack.enter_context(mock.patch.object(self.module, self.constant, self.value))
            seed = {} if self.model is BiasOnly else {"random_state": 0}
            model: RatingAlgorithm = self.model(**{**seed, **self.told}).fit(train)
        return model


def _others(
    model: type[Any], module: ModuleType, values: Mapping[str, tuple[Any, ...]], **told: Any
) -> list[Tried]:
    return [
        Tried(model, told, module, name, value) for name, found in values.items() for value in found
    ]


def _told(model: type[Any], **values: tuple[Any, ...]) -> list[Tried]:
    return [Tried(model, {name: value}) for name, found in values.items() for value in found]


OF_BOTH = {
    "_PENALTY": (0.11, 0.23),
    "_RATE": (0.07, 0.28),
    "_KAPPA": (5.0, 20.0),
    "_SLOWEST": (0.01, 0.1),
    "_USUAL_RATINGS": (7.0, 60.0),
}
OF_CHAINS = {"_ROWS": (1.0, 16.0), "_VARIANCE": (0.07, 0.3)}
TRIED = [
    *(
        Tried(model)
        for model in (
            PMF, ConditionalPMF, BayesianPMF, ConditionalBayesianPMF, RBM,
            ConditionalRBM,
        )
    ),
    *_others(BiasOnly, bias, {"_WEIGHT": (1.0, 16.0)}),
    *_others(PMF, of_factors, OF_BOTH),
    *_told(PMF, lr_bu=(0.03, 0.12), lr_bi=(0.03, 0.12), noise_power=(0.0, 0.5, 1.0), n_epochs=(14, 30)),
    *_others(
        ConditionalPMF,
        of_factors,
        {**OF_BOTH, "_SIDE_PENALTY": (0.5, 0.7, 1.4, 2.0), "_SIDE_RATE": (0.7, 2.8)},
    ),
    *_told(
        ConditionalPMF, lr_bu=(0.03, 0.12), lr_bi=(0.03, 0.12), noise_power=(0.0, 0.5, 1.0),
        n_epochs=(14, 30),
    ),
    Tried(BayesianPMF, SHORT),
    *_others(BayesianPMF, gibbs, OF_CHAINS, **SHORT),
    *_others(BayesianPMF, gibbs, {"_WIDTH": (2.2, 3.3, 7.5)}),
    *_others(ConditionalBayesianPMF, gibbs, {"_WIDTH": (2.2, 3.3, 7.5)}),
    *_others(BayesianPMF, samples, {"_PRIOR_OF_WEIGHT": (4.0, 64.0)}, **SHORT),
    Tried(ConditionalBayesianPMF, SHORT),
    *_others(ConditionalBayesianPMF, gibbs, {"_TAU_RATE": (0.03, 0.3)}, **SHORT),
    *_others(
        RBM,
        of_machines,
        {"_PENALTY": (0.01, 0.04), "_USUAL_NOISE": (0.2, 0.3), "_STEEP": (4, 12), "_BATCH": (16, 64)},
    ),
    *_others(RBM, of_machines, {"_SHAPE": (30.0, 300.0)}),
    *_told(RBM, lr_all=(0.0025, 0.01), n_epochs=(40, 90), n_hidden=(50, 200)),
    *_others(
        ConditionalRBM,
        of_machines,
        {"_SIDE_PENALTY": (0.001, 0.004), "_SIDE_TOTAL": (1.0, 9.0)},
    ),
]  # fmt: skip
OF_LISTS: dict[str, tuple[float, ...]] = {
    "_CONFIDENCE": (0.3, 3.0),
    "_POPULAR": (0.0, 0.1),
    "_LIKED": (0.0, 0.5, 1.0),
}


def rmse(scores: Any, test: Ratings) -> dict[str, float]:
    errors = np.clip(scores, *test.scale) - test.values
    return {"RMSE": float(np.sqrt(np.mean(errors**2, dtype=np.float64)))}


def error(tried: Tried, train: Ratings, test: Ratings) -> dict[str, float]:
    return rmse(tried.fit(train).score_pairs(test.user_ids, test.item_ids), test)


def of_svd(train: Ratings, test: Ratings) -> dict[str, float]:
    """Surprise's SVD, which our factorizations must not be worse than."""
    algo = SVD(random_state=0).fit(data.trainset(train))
    pairs = zip(test.user_ids.tolist(), test.item_ids.tolist(), strict=True)
    return rmse(np.array([algo.predict(u, i).est for u, i in pairs]), test)


class Ranking(NamedTuple):
    """What lists are made of and compared with; the model of ratings is the same for all constants."""

    train: Ratings
    test: Ratings
    model: RatingAlgorithm

    def popularity(self) -> dict[str, float]:
        users = np.flatnonzero(np.diff(self.test.user_offsets))
        return {"HR": most_popular(self.train, users, PLACES, self.test).hit_rate}

    def hits(self, constant: str = "", value: float = 0.0) -> dict[str, float]:
        """How often lists by both hold what the user has rated, and what the user has rated above the mean."""
        users, seen = np.flatnonzero(np.diff(self.test.user_offsets)), Identities.of(self.train)
        with ExitStack() as stack:
            if constant:
                stack.enter_context(mock.patch.object(top_n, constant, value))
            lists = Lists.of(ImplicitFactors.of(self.train, seen), "both")
            found = list(best_items(self.model, users, PLACES, seen, lists))
        liked = self.test.select(self.test.values > self.train.mean)
        return {
            "HR": quality(found, self.test, PLACES).hit_rate,
            "liked": quality(found, liked, PLACES).hit_rate,
        }


def cells_of(train: Ratings, test: Ratings) -> Iterator[tuple[str, Callable[[], dict[str, float]]]]:
    """Every row of a set by its name, and what measures it."""
    yield BiasOnly.name, lambda: error(Tried(BiasOnly), train, test)
    yield SVD_ROW, lambda: of_svd(train, test)
    for tried in TRIED:
        yield tried.row, lambda tried=tried: error(tried, train, test)  # type: ignore[misc]
    fitted: list[Ranking] = []

    def ranking() -> Ranking:
        if not fitted:
            model = ConditionalPMF(n_factors=20, random_state=0).fit(train)
            fitted.append(Ranking(train, test, model))
        return fitted[0]

    yield "lists by popularity", lambda: ranking().popularity()
    yield "lists", lambda: ranking().hits()
    for name, values in OF_LISTS.items():
        for value in values:
            row = f"lists, {name}={value:g}"
            yield row, lambda name=name, value=value: ranking().hits(name, value)  # type: ignore[misc]


def table(found: Mapping[str, Mapping[str, list[dict[str, float]]]]) -> list[Row]:
    """Return one row for each measure of a row: means over the seeds of each set, and over the sets."""
    rows = []
    for row, of_sets in found.items():
        measures = dict.fromkeys(name for each in of_sets.values() for name in each[0])
        for name in measures:
            values = {each: [cell[name] for cell in cells] for each, cells in of_sets.items()}
            if name == "RMSE":
                base = {
                    each: [cell["RMSE"] for cell in found[BiasOnly.name][each]] for each in values
                }
                values = {
                    each: [
                        100 * (own / usual - 1) for own, usual in zip(part, base[each], strict=True)
                    ]
                    for each, part in values.items()
                }
            means = {each: round(float(np.mean(part)), 3) for each, part in values.items()}
            rows.append(
                {
                    "tried": row if name != "liked" else f"{row}: liked",
                    "mean": round(float(np.mean(list(means.values()))), 3),
                    **means,
                    "of seeds": {each: np.round(part, 3).tolist() for each, part in values.items()},
                }
            )
    return rows


def rows(options: Any) -> list[Row]:
    cells = kept.Cells("ratings-defaults")
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name, seed in product(options.sets, options.seeds):
        train, test = split(generate(name, seed), HELD_OUT, seed=seed)
        every = dict(cells_of(train, test))
        for row in dict.fromkeys([BiasOnly.name, *options.chosen(every)]):
            key = kept.cell_key(set=name, seed=seed, row=row)
            cell = cells.measure(key, every[row])
            found.setdefault(row, {}).setdefault(name, []).append(cell)
        print(f"{name}, seed {seed}: done", flush=True)
    return table(found)


PROTOCOL = {
    "data": f"generated sets; a fraction of {HELD_OUT} of the ratings held out",
    "errors": "percent above the RMSE of BiasOnly with its defaults, means over the seeds",
    "chains": f"constants of Bayesian models but for the width are compared with {SHORT}",
    "lists": f"hit rate of {PLACES} items by both; liked: of items that were rated above the mean",
}
if __name__ == "__main__":
    main(
        __doc__,
        Table("ratings-defaults", PROTOCOL, rows, key="tried", seeds=lambda options: options.seeds),
        seeds=[0, 1],
        sets=tuple(SHAPES),
    )
