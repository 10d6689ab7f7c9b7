"""Ratings from data frames and sparse matrices; a table with a row per user is refused."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from surprise import Dataset, Reader, Trainset

from tacenda.errors import DataError
from tacenda.ratings.files import NAMES, place_of
from tacenda.ratings.table import is_missing
from tacenda_surprise.raw_ids import check_ids, distinct

_MIN_FRAME_ROWS = 10  # fewer are too few to judge whether a data frame is wide
_MAX_LIST_COLUMNS = 10  # of a data frame that is a list of ratings


def as_trainset(data: Any, scale: tuple[float, float] | None = None) -> Trainset:
    """Make a Trainset of a data frame or a sparse matrix, on ``scale``; None: from the lowest to the highest rating.

    Users, items and ratings are the columns of a data frame with these names, or else its first three; row and column
    of a sparse matrix (users, items) are the raw ids, and stored zeros are ratings.

    Raises DataError for anything else, for ratings that are not finite numbers, and if there are neither ratings nor a
    scale.
    """
    columns, where = read_columns(data, 3)
    if not columns:
        raise DataError(
            f"fit cannot read ratings from a {type(data).__name__}: give a Trainset, a sparse matrix, or a data frame "
            "with the columns user, item and rating (ImplicitMF needs no ratings)"
        )
    missing = sum(map(is_missing, columns[2]))
    if missing:
        raise DataError(
            f"{missing} ratings are missing in {where}: leave them out, as dropna() does in a data frame"
        )
    try:
        values = np.array(columns[2], np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{where}, taken for the ratings, does not contain numbers ({error}): correct it, or name the columns "
            "user, item and rating"
        ) from error
    if not np.isfinite(values).all():
        raise DataError("some ratings are not finite; correct or leave them out")
    if not len(values) and scale is None:
        raise DataError("there are no ratings; give at least one")
    reader = Reader(rating_scale=scale or (float(values.min()), float(values.max())))
    rows = zip(columns[0], columns[1], values.tolist(), strict=True)
    return Dataset(reader).construct_trainset([(*row, None) for row in rows])


def read_columns(data: Any, least: int) -> tuple[list[list[Any]], str]:
    """Read users, items and ratings of a sparse matrix or a data frame of ``least`` columns, and name the last column.

    Anything else has no columns. Raises DataError for a Surprise Dataset, and for a table of a row per user.
    """
    if isinstance(data, Dataset):
        raise DataError(
            "fit takes a trainset, not a Dataset: give data.build_full_trainset(), or call cross_validate(algo, data)"
        )
    if issparse(data):
        table = data.tocoo()
        return [part.tolist() for part in (table.row, table.col, table.data)], "the matrix"
    if not hasattr(data, "iloc") or np.ndim(data) != 2 or data.shape[1] < least:
        return [], ""
    columns, where = _take_columns(data, min(data.shape[1], 3))
    if len(columns) == 3:
        _refuse_wide(data, columns)
    for column, what in zip(columns, ("user", "item"), strict=False):
        check_ids(column, what)
    return columns, where


def _take_columns(frame: Any, n: int) -> tuple[list[list[Any]], str]:
    """Take the columns of users, items and ratings by their names, or else the first ``n``; and name the last.

    Raises DataError where some of the names are there, and not where their columns would be taken from.
    """
    names, order = NAMES[:n], ("first", "second", "third")
    raw = list(getattr(frame, "columns", ()))
    labels = [str(label) for label in raw]
    places = [place_of(name, labels) for name in names]
    found = [(k, at) for k, at in enumerate(places) if at is not None]
    if len(found) == n:
        chosen, where = [at for _, at in found], f"the column {raw[found[-1][1]]!r}"
    else:
        chosen, where = list(range(n)), f"the {order[n - 1]} column"
        for k, at in found:
            if k != at:
                raise DataError(
                    f"the data frame has no column {names[places.index(None)]!r}, and its column {raw[at]!r} is not "
                    f"the {order[k]}: name its columns {', '.join(names)}, or give them in this order"
                )
    return [frame.iloc[:, k].tolist() for k in chosen], where


def _refuse_wide(data: Any, columns: Sequence[list[Any]]) -> None:
    """Raise DataError for a data frame with a row per user and a column per item; ``columns`` are its first three.

    A column named item or rating tells it from one. The second and third columns of a pivot table hold numbers alone.
    Its column labels have a name, or are ids of items that are not text. A pivot table that was read from a file has no
    such labels. Its second and third columns hold ratings alone, and its first column holds ratings too, or another
    user in every row.
    """
    labels = getattr(data, "columns", ())
    texts = [str(label) for label in labels]
    if any(place_of(name, texts) is not None for name in NAMES[1:]):
        return
    numbered = [label for label in list(labels)[:3] if not isinstance(label, str)]
    wide = getattr(labels, "name", None) is not None
    # small numbers may count columns instead, as in a file without a header
    wide |= len(numbered) == 3 and not set(numbered) <= set(range(_MAX_LIST_COLUMNS))
    is_long = data.shape[0] >= _MIN_FRAME_ROWS and data.shape[1] > 3
    if not (wide or is_long) or not all(map(_may_be_rating, chain(*columns[1:]))):
        return
    if not wide:
        users, items, values = (
            {x for x in distinct(c, "user") if not is_missing(x)} for c in columns
        )
        if items <= values | {0}:
            pairs = set(zip(*(map(str, one) for one in columns[:2]), strict=True))
            wide = len(users) == len(columns[0])
            # in a list of ratings hardly any pair of user and item occurs twice
            wide |= users <= values | {0} and len(pairs) < 0.9 * len(columns[0])
    if wide:
        raise DataError(
            f"the data frame of shape {data.shape} seems to have a row per user and a column per item: give a row per "
            "rating with the columns user, item and rating, for example with pandas' melt and dropna"
        )


def _may_be_rating(value: Any) -> bool:
    return (isinstance(value, Real | Decimal) and not isinstance(value, bool)) or is_missing(value)
