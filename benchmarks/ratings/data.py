"""The ratings that are measured on, as Surprise data sets, and the folds of them that are tested."""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

from surprise import Dataset, Reader, Trainset
from surprise.model_selection import KFold, train_test_split

from tacenda import datasets
from tacenda.ratings import Ratings, read_ratings
from tacenda_surprise.testing import make_dataset

NAMES = ("ml-100k", "ml-1m")
SEED = 0
SPLITS = {
    "ml-100k": f"MovieLens-100K, KFold(5, random_state={SEED})",
    "ml-1m": "MovieLens-1M, train_test_split(test_size=0.1, random_state=s), s from 0 to 4",
}


class Fold(NamedTuple):
    """A training part, and the pairs that are tested with their ratings: (raw user, raw item, rating)."""

    trainset: Trainset
    testset: list[tuple[Any, Any, float]]


def movielens(name: str) -> Dataset:
    """ "ml-100k" in the order of its file, or "ml-1m" sorted by user and movie."""
    if name == "ml-100k":
        path = datasets.locate(name)["ratings"]
        reader = Reader(line_format="user item rating timestamp", sep="\t", rating_scale=(1, 5))
        return Dataset.load_from_file(str(path), reader)
    ratings = read_ratings(datasets.locate(name)["ratings"])
    users, items = ratings.users.raw[ratings.user_ids], ratings.items.raw[ratings.item_ids]
    values = ratings.values.astype(float)
    return make_dataset(zip(users.tolist(), items.tolist(), values.tolist(), strict=True))


def folds(name: str, most: int = 5) -> list[Fold]:
    """The first of five folds: of MovieLens-1M random splits, as published ones are. See `SPLITS`."""
    loaded = movielens(name)
    if name == "ml-100k":
        return [Fold(*parts) for parts in islice(KFold(5, random_state=SEED).split(loaded), most)]
    splits = (train_test_split(loaded, test_size=0.1, random_state=seed) for seed in range(5))
    return [Fold(*parts) for parts in islice(splits, most)]


def trainset(ratings: Ratings) -> Trainset:
    """The trainset of ``ratings``, whose raw ids are the numbers of users and items."""
    ids = zip(ratings.user_ids.tolist(), ratings.item_ids.tolist(), strict=True)
    rows = [(*pair, r, None) for pair, r in zip(ids, ratings.values.tolist(), strict=True)]
    return Dataset(Reader(rating_scale=ratings.scale)).construct_trainset(rows)


def held_out(fold: Fold, share: float = 0.1) -> Fold:
    """The training part of ``fold`` parted again: what settings are chosen on, which no test part enters."""
    data = make_dataset(triples(fold.trainset), fold.trainset.rating_scale)
    return Fold(*train_test_split(data, test_size=share, random_state=SEED))


def triples(trainset: Trainset) -> list[tuple[Any, Any, float]]:
    """The ratings of a trainset: (raw user, raw item, rating)."""
    user, item = trainset.to_raw_uid, trainset.to_raw_iid
    return [(user(u), item(i), rating) for u, i, rating in trainset.all_ratings()]
