"""The ratings that are measured on, as Surprise data sets."""

from __future__ import annotations

import numpy as np
from surprise import Dataset, Reader

from tacenda import datasets
from tacenda.ratings import read_ratings


def movielens(name: str) -> Dataset:
    """ "ml-100k" in the order of its file, or "ml-1m" sorted by user and movie."""
    if name == "ml-100k":
        path = datasets.locate(name)["ratings"]
        reader = Reader(line_format="user item rating timestamp", sep="\t", rating_scale=(1, 5))
        return Dataset.load_from_file(str(path), reader)
    ratings = read_ratings(datasets.locate(name)["ratings"])
    data = Dataset(Reader(rating_scale=(1, 5)))
    users, items = ratings.users.raw[ratings.user_ids], ratings.items.raw[ratings.item_ids]
    rows = zip(users.tolist(), items.tolist(), ratings.values.astype(float).tolist(), strict=True)
    data.raw_ratings = [(user, item, value, None) for user, item, value in rows]
    return data


def spread(values: list[float]) -> dict[str, float]:
    """Mean and standard deviation over folds."""
    return {"mean": float(np.mean(values)), "sd": float(np.std(values)), "n": len(values)}
