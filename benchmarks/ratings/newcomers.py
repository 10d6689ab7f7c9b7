"""Users who come later: MovieLens-100K split by time, with the newest fifth of all ratings tested.

    python -m benchmarks.ratings.newcomers [--only NAME ...]

Most tested ratings are by users who have none in the training part, and are predicted from what is known of the item
alone. Then each of these users is folded in with their first ratings, and the other ratings are predicted. Errors are
relative to those of Surprise's SVD, which can't fold users in. The last row is no model: it adds to the predictions of
PMF the mean error of all other tested ratings of the user, shrunk, which no model can know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from surprise import SVD

from benchmarks.ratings import data
from benchmarks.reporting import Row, Table, main
from tacenda.ratings import Ratings
from tacenda_surprise import PMF, BayesianPMF, BiasOnly, ConditionalBayesianPMF, ConditionalPMF
from tacenda_surprise.algorithm import RatingAlgorithm

NEWEST, FIRST, SEED = 0.2, 3, 0
_SHRUNK = 2.0  # ratings without error that count among those of a user
MODELS: dict[str, Callable[[], RatingAlgorithm]] = {
    "BiasOnly": BiasOnly,
    "PMF": lambda: PMF(random_state=SEED),
    "ConditionalPMF": lambda: ConditionalPMF(random_state=SEED),
    "BayesianPMF": lambda: BayesianPMF(random_state=SEED),
    "ConditionalBayesianPMF": lambda: ConditionalBayesianPMF(random_state=SEED),
}
ALL_OTHERS = "PMF and all other ratings of the user"


class Parts(NamedTuple):
    """The older ratings, and the newest: numbers of users and items there, or -1, the ratings, and who is who."""

    train: Ratings
    users: np.ndarray
    items: np.ndarray
    values: np.ndarray
    #: of every newcomer the places of their ratings, by time
    newcomers: list[np.ndarray]


@cache
def parts() -> Parts:
    users, items, values, times = (
        np.array(part) for part in zip(*data.movielens("ml-100k").raw_ratings, strict=True)
    )
    at = times.astype(float)
    late = at > np.quantile(at, 1 - NEWEST)
    train = Ratings.from_arrays(users[~late], items[~late], values[~late], scale=(1, 5))
    u, i = train.users.numbers(users[late]), train.items.numbers(items[late])
    order, raw = np.argsort(at[late], kind="stable"), users[late]
    newcomers = [order[raw[order] == one] for one in np.unique(raw[u < 0])]
    return Parts(train, u, i, values[late].astype(float), newcomers)


def rmse(estimates: np.ndarray, places: np.ndarray | slice = slice(None)) -> float:
    return float(np.sqrt(np.mean((estimates - parts().values[places]) ** 2)))


def by_svd() -> np.ndarray:
    """What SVD expects of all the newest ratings."""
    train, users, items, _, _ = parts()
    fitted = SVD(random_state=SEED).fit(data.trainset(train))
    pairs = zip(users.tolist(), items.tolist(), strict=True)
    return np.array([fitted.predict(user, item).est for user, item in pairs])


def measure(name: str, base: np.ndarray) -> Row:
    """The errors of a model over those of ``base``."""
    train, users, items, _, newcomers = parts()
    new = np.concatenate(newcomers)
    later = np.concatenate([places[FIRST:] for places in newcomers])
    model = MODELS["PMF" if name == ALL_OTHERS else name]().fit(train)
    every = np.clip(model.score_pairs(users, items), *model.catalogue.scale)
    if name == ALL_OTHERS:
        for places in newcomers:
            left = parts().values[places] - every[places]
            known = (left.sum() - left) / (len(left) - 1 + _SHRUNK)
            every[places] = np.clip(every[places] + known, *model.catalogue.scale)
        return {
            "model": name,
            "unknown users": round(rmse(every[new], new) / rmse(base[new], new), 4),
        }
    folded = np.concatenate([_after_first(model, places) for places in newcomers])
    return {
        "model": name,
        "all": round(rmse(every) / rmse(base), 4),
        "unknown users": round(rmse(every[new], new) / rmse(base[new], new), 4),
        "folded in": round(rmse(folded, later) / rmse(base[later], later), 4),
    }


def _after_first(model: RatingAlgorithm, places: np.ndarray) -> np.ndarray:
    """What a model expects of the ratings of a newcomer once it knows the first of them."""
    items, values = parts().items, parts().values
    known = places[:FIRST][items[places[:FIRST]] >= 0]
    folded = model.fold(items[known], values[known])
    return np.clip(folded.score(items[places[FIRST:]]), *model.catalogue.scale)


def protocol(_: Any) -> dict[str, Any]:
    _, users, _, _, newcomers = parts()
    return {
        "data": f"MovieLens-100K, the newest {NEWEST:.0%} of all ratings tested",
        "tested": f"{len(users)} ratings, {sum(map(len, newcomers))} of them by {len(newcomers)} unknown users",
        "folded in": f"with their first {FIRST} ratings; the others are tested",
        "errors": "RMSE over that of Surprise's SVD with its defaults on the same ratings",
    }


def rows(options: Any) -> Iterator[Row]:
    base = by_svd()
    for name in options.chosen([*MODELS, ALL_OTHERS]):
        yield measure(name, base)


if __name__ == "__main__":
    main(__doc__, Table("ratings-newcomers", protocol, rows, key="model"))
