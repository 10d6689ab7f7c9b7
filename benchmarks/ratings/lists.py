"""Lists of ten items, ours and those of other libraries, on the same ratings.

    python -m benchmarks.ratings.lists [--data ml-100k tiny ...] [--only NAME ...]

A hit is an item that the user has rated in the part held out: each user's last fifth of MovieLens-100K, a random fifth
of MovieLens-1M, whose ratings have no times here, and of the generated sets (`benchmarks.ratings.generated`, on which
the numbers of our lists were chosen). The set of likes is what users of MovieLens-100K have rated 4 or 5, without the
ratings. Items that the user has rated before are left out. implicit's alternating least squares is given the pairs
alone, as our model of choices is; it has a row with its defaults, and one with the settings of `GRID` that are best on
a fifth of the training part. Surprise's SVD ranks by the expected rating. implicit is left out where it is
not installed.
Every cell that is finished is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from surprise import SVD

from benchmarks import kept, reporting
from benchmarks.ratings import data
from benchmarks.ratings.generated import SHAPES, generate
from benchmarks.reporting import Row, Table, main
from tacenda import datasets
from tacenda.ratings import Ratings, read_ratings, split, split_last
from tacenda_surprise import PMF, ConditionalPMF, ImplicitMF
from tacenda_surprise.choices import ImplicitFactors
from tacenda_surprise.identities import Identities
from tacenda_surprise.top_n import Lists, Ranked, best_items, most_popular, quality, top

PLACES, SEED, HELD_OUT = 10, 0, 0.2
MOVIELENS, LIKES, LARGER = "ml-100k", "ml-100k-likes", "ml-1m"
#: What is tried of implicit: the number of factors, the penalty, and the weight of a pair that was chosen.
GRID = {
    "factors": (16, 32, 64, 100),
    "regularization": (0.01, 1.0, 10.0, 20.0, 30.0, 50.0, 100.0),
    "alpha": (1.0, 2.0, 4.0, 8.0),
}


class Found(NamedTuple):
    """The lists of all users that are tested, and processor seconds of the fit and of the lists."""

    lists: list[Ranked]
    fit: float
    ranking: float


def timed(fit: Callable[[], Any], rank: Callable[[Any], Iterator[Ranked]]) -> Found:
    start = time.process_time()
    fitted = fit()
    between = time.process_time()
    lists = list(rank(fitted))
    return Found(lists, between - start, time.process_time() - between)


def movielens(least: float) -> tuple[Ratings, Ratings]:
    """The ratings of MovieLens-100K from ``least`` on, and of these each user's last fifth."""
    users, items, values, times = zip(*data.movielens(MOVIELENS).raw_ratings, strict=True)
    ratings = Ratings.from_triples(list(zip(users, items, values, strict=True)))
    at = {(str(u), str(i)): float(t) for u, i, t in zip(users, items, times, strict=True)}
    pairs = zip(ratings.user_ids.tolist(), ratings.item_ids.tolist(), strict=True)
    raw_users, raw_items = ratings.users.raw, ratings.items.raw
    moments = [at[raw_users[user], raw_items[item]] for user, item in pairs]
    chosen = ratings.values >= least
    return split_last(ratings.select(chosen), np.array(moments)[chosen], HELD_OUT)


def parted(name: str) -> tuple[Ratings, Ratings]:
    if name in (MOVIELENS, LIKES):
        return movielens(4 if name == LIKES else 1)
    whole = (
        read_ratings(datasets.locate(name)["ratings"]) if name == LARGER else generate(name, SEED)
    )
    return split(whole, HELD_OUT, seed=SEED)


def ours(model: type[PMF], by: Any) -> Callable[[Ratings, np.ndarray], Found]:
    """Ranked by the model of ratings, that of choices, or both."""

    def found(train: Ratings, users: np.ndarray) -> Found:
        seen = Identities.of(train)
        return timed(
            lambda: (model(random_state=SEED).fit(train), ImplicitFactors.of(train, seen)),
            lambda pair: best_items(pair[0], users, PLACES, seen, Lists.of(pair[1], by)),
        )

    return found


def svd(train: Ratings, users: np.ndarray) -> Found:
    """The highest ratings that Surprise's SVD expects."""
    trainset = data.trainset(train)
    items = np.array([trainset.to_raw_iid(i) for i in trainset.all_items()])

    def rank(fitted: Any) -> Iterator[Ranked]:
        for user in users.tolist():
            scores = np.full(train.n_items, -np.inf, np.float32)
            scores[items] = fitted.bi
            if trainset.knows_user(inner := trainset._raw2inner_id_users.get(user, -1)):
                scores[items] += fitted.qi @ fitted.pu[inner] + fitted.bu[inner]
            yield Ranked(user, *top(scores, PLACES, train.of_user(user)[0]))

    return timed(lambda: SVD(random_state=SEED).fit(trainset), rank)


def implicit(**options: Any) -> Callable[[Ratings, np.ndarray], Found]:
    """implicit's alternating least squares, of who has rated what."""

    def found(train: Ratings, users: np.ndarray) -> Found:
        from implicit.als import AlternatingLeastSquares

        table = csr_matrix(train.to_csr(), dtype=np.float32)
        table.data[:] = 1.0

        def fit() -> Any:
            model = AlternatingLeastSquares(random_state=SEED, num_threads=1, **options)
            model.fit(table, show_progress=False)
            return model

        def rank(fitted: Any) -> Iterator[Ranked]:
            ids, scores = fitted.recommend(users, table[users], N=PLACES)
            for user, row, own in zip(users.tolist(), ids, scores, strict=True):
                yield Ranked(user, row.astype(np.int64), own)

        return timed(fit, rank)

    return found


def chosen(train: Ratings) -> dict[str, Any]:
    """The options of implicit that are best on a fifth of ``train``."""
    part, held_out = split(train, HELD_OUT, seed=SEED)
    users = np.flatnonzero(np.diff(held_out.user_offsets))

    def gain(options: dict[str, Any]) -> float:
        return quality(implicit(**options)(part, users).lists, held_out, PLACES).ndcg

    return max((dict(zip(GRID, each, strict=True)) for each in product(*GRID.values())), key=gain)


def choices(train: Ratings, users: np.ndarray) -> Found:
    """`ImplicitMF`, of who has rated what."""
    seen = Identities.of(train)
    return timed(
        lambda: ImplicitMF(random_state=SEED).fit(train),
        lambda fitted: best_items(fitted, users, PLACES, seen),
    )


OURS: dict[str, Callable[[Ratings, np.ndarray], Found]] = {
    "ConditionalPMF and choices": ours(ConditionalPMF, "both"),
    "choices alone": ours(ConditionalPMF, "choice"),
    "ImplicitMF": choices,
    "ConditionalPMF alone": ours(ConditionalPMF, "rating"),
    "Surprise SVD": svd,
}
IMPLICIT, CHOSEN, POPULAR = "implicit ALS", "implicit ALS, chosen settings", "popularity"
OF_LIKES = "ImplicitMF", POPULAR, IMPLICIT, CHOSEN  # what needs no ratings
OF_LARGER = "ConditionalPMF and choices", *OF_LIKES
USUAL = dict.fromkeys((MOVIELENS, *SHAPES), (*OURS, POPULAR, IMPLICIT, CHOSEN))
MORE = {LIKES: OF_LIKES, LARGER: OF_LARGER}


def measure(name: str, row: str) -> dict[str, Any]:
    """One way of ranking on one set."""
    train, held_out = parted(name)
    users = np.flatnonzero(np.diff(held_out.user_offsets))
    if row == POPULAR:
        return {**most_popular(train, users, PLACES, held_out)._asdict(), "fit": 0.0, "rank": 0.0}
    told: dict[str, Any] = chosen(train) if row == CHOSEN else {}
    found = (implicit(**told) if row in (IMPLICIT, CHOSEN) else OURS[row])(train, users)
    good = quality(found.lists, held_out, PLACES)._asdict()
    return {**good, "fit": found.fit, "rank": found.ranking, "settings": told}


def protocol(_: Any) -> dict[str, Any]:
    version = reporting.installed("implicit") or "not installed"
    return {
        "data": f"{MOVIELENS}: each user's last fifth held out; the others: a random fifth",
        "lists": f"{PLACES} items that the user has not rated in the training part",
        "implicit": f"{version}; chosen settings: factors, penalty and alpha by NDCG on a fifth of the training "
        "part",
        "time": "seconds of processor time, one thread",
    }


def protocol_of_more(options: Any) -> dict[str, Any]:
    return {
        **protocol(options),
        "data": f"{LIKES}: each user's last fifth of the ratings of 4 and 5, which only say who has chosen what; "
        f"{LARGER}: a random fifth",
    }


def measured(wanted: Mapping[str, Sequence[str]], options: Any) -> Iterator[Row]:
    """The ``wanted`` ways of ranking of every set, as far as the command line names them."""
    cells, names = kept.Cells("ratings-lists"), [*OURS, POPULAR]
    version = reporting.installed("implicit")
    if version is None:
        options.leave_out("implicit", "it is not installed")
    else:
        names += [IMPLICIT, CHOSEN]
    for name, row in product(options.data, options.chosen(names)):
        if row not in wanted.get(name, ()):
            continue
        theirs = row in (IMPLICIT, CHOSEN)
        key = kept.cell_key(data=name, row=row, of=version if theirs else "ours")
        found = cells.measure(key, lambda: measure(name, row), ours=not theirs)  # noqa: B023
        yield {
            "row": f"{name}: {row}",
            "data": name,
            "ranked by": row,
            "HR": round(found["hit_rate"], 3),
            "NDCG": round(found["ndcg"], 3),
            "MRR": round(found["mrr"], 3),
            "recall": round(found["recall"], 3),
            "fit s": round(found["fit"], 2),
            "lists s": round(found["rank"], 3),
            "settings": found.get("settings", {}),
        }


if __name__ == "__main__":
    main(
        __doc__,
        Table("ratings-lists", protocol, partial(measured, USUAL), key="row"),
        Table("ratings-lists-more", protocol_of_more, partial(measured, MORE), key="row"),
        data=(MOVIELENS, *MORE, *SHAPES),
    )
