"""The ratings, and the titles of their items."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from surprise import Dataset, Reader

from tacenda import datasets
from tacenda.datasets import synthetic_ratings
from tacenda.errors import ConfigurationError, DataError
from tacenda.ratings import Ratings, read_ratings

MOVIELENS = ("ml-100k", "ml-1m")
QUICK = 60  # users of a trial
TITLES = {"u.item": "|", "movies.dat": "::", "movies.csv": ","}
"""Files of titles as GroupLens names them, and what separates id and title there."""


@dataclass(frozen=True)
class Material:
    """Ratings with the titles of the items, as far as they are known."""

    name: str
    ratings: Ratings
    titles: Mapping[str, str]

    def title(self, item: str) -> str:
        """What to call an item."""
        return self.titles.get(item, f"item {item}")


def find(name: str | None, titles: Path | None, columns: str | None, *, quick: bool) -> Material:
    """MovieLens by its name, a file by its path, or else MovieLens-100K or invented ratings.

    Raises
    ------
    DataError
        a file or a data set is not there or cannot be read.
    ConfigurationError
        The columns are not three numbers.
    """
    if name is None and not os.environ.get("TACENDA_DATA"):
        return invented(quick=quick)
    found = real(name or "ml-100k", titles, columns)
    if not quick or found.ratings.n_users <= QUICK:
        return found
    few = f"{found.name}, {QUICK} users"
    return Material(few, first_users(found.ratings, QUICK), found.titles)


def real(name: str, titles: Path | None, columns: str | None) -> Material:
    """MovieLens by its name, or a file by its path; raises as `find`."""
    if name in MOVIELENS and not Path(name).is_file():
        files = datasets.locate(name)
        called = titles or (files["items"] if "items" in files.files else None)
        return Material(name, read_ratings(files["ratings"]), read_titles(called))
    path = Path(name)
    if not path.is_file():
        raise DataError(f"there is no file {path}; give {', '.join(MOVIELENS)} or a file")
    try:
        places = None if columns is None else [int(place) for place in columns.split(",")]
    except ValueError:
        places = []
    if places is not None and len(places) != 3:
        raise ConfigurationError(f"--columns takes three numbers, not {columns!r}")
    beside = (path.with_name(known) for known in TITLES)
    called = titles or next((file for file in beside if file.is_file()), None)
    return Material(path.name, read_ratings(path, columns=places), read_titles(called))


def invented(*, quick: bool) -> Material:
    """Make ratings with a seeded generator; users mostly rate what they like."""
    users, items, n = (150, 80, 3000) if quick else (900, 500, 60_000)
    made = synthetic_ratings.generate(users, items, n, informative=1.0, seed=0)
    best = made.bayes_rmse
    return Material(
        f"made-up ratings; the lowest possible RMSE is {best:.4f} (set TACENDA_DATA for MovieLens)",
        made.ratings,
        {},
    )


def first_users(ratings: Ratings, n: int) -> Ratings:
    """The ratings of the first ``n`` users, and of the items that these have rated."""
    stop = ratings.user_offsets[n]
    users = ratings.users.raw[ratings.user_ids[:stop]]
    items = ratings.items.raw[ratings.item_ids[:stop]]
    return Ratings.from_arrays(users, items, ratings.values[:stop], scale=ratings.scale)


def read_titles(path: Path | None) -> dict[str, str]:
    """Item id -> title, from one of MovieLens's files; empty without a file."""
    if path is None:
        return {}
    separator = TITLES.get(path.name, ",")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"the titles {path} cannot be read: {error.strerror}") from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # as the older ones are
    lines = text.splitlines()
    apart = [line.split(separator) for line in lines]
    rows = list(csv.reader(lines))[1:] if separator == "," else apart
    return {row[0]: row[1].strip() for row in rows if len(row) > 1}


def dataset(ratings: Ratings) -> Dataset:
    """The ratings as Surprise takes them."""
    users, items = ratings.users.raw[ratings.user_ids], ratings.items.raw[ratings.item_ids]
    values = ratings.values.astype(float).tolist()
    data = Dataset(Reader(rating_scale=ratings.scale))
    data.raw_ratings = [
        (user, item, value, None)
        for user, item, value in zip(users.tolist(), items.tolist(), values, strict=True)
    ]
    return data
