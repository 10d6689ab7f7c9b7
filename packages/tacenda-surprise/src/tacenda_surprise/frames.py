"""Data frames of pandas and polars, sparse matrices and pairs of raw ids, as columns of users, items and ratings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from decimal import Decimal
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from surprise import Dataset

from tacenda.errors import DataError
from tacenda.ratings.files import NAMES, place_of
from tacenda.ratings.ids import is_missing
from tacenda_surprise.raw_ids import check_ids, distinct

_MIN_ROWS = 10  # fewer are too few to judge whether a data frame is wide
_MAX_LIST_COLUMNS = 10  # of a data frame that is a list of ratings
_MAX_FIELDS = 4  # of a rating with its time


def read_columns(data: Any, n: int) -> tuple[list[list[Any]], str]:
    """Read the first ``n`` of users, items and ratings of a sparse matrix or a data frame, and name the last.

    Stored zeros of a matrix are ratings, and without ratings they are no pairs. Anything else has no columns.

    Raises DataError for a Surprise Dataset, and for a data frame with too few columns or a row per user.
    """
    if isinstance(data, Dataset):
        raise DataError(
            "fit takes a trainset, not a Dataset: give data.build_full_trainset(), or call cross_validate(algo, data)"
        )
    if issparse(data):
        table = data.tocoo()
        kept = slice(None) if n > 2 else table.data != 0
        parts = (table.row, table.col, table.data)[:n]
        return [part[kept].tolist() for part in parts], "the matrix"
    is_frame = hasattr(data, "iloc") or hasattr(data, "to_series")
    if not is_frame or len(getattr(data, "shape", ())) != 2:
        return [], ""
    if data.shape[1] < n:
        advice = " (ImplicitMF needs no ratings)" if n > 2 else ""
        raise DataError(
            f"the data frame has {data.shape[1]} columns: give {', '.join(NAMES[:n])}{advice}"
        )
    columns, where = _take_columns(data, n)
    if data.shape[1] > 2:
        _refuse_wide(data)
    for column, what in zip(columns, ("user", "item"), strict=False):
        check_ids(column, what)
    return columns, where


def _take_column(frame: Any, k: int) -> list[Any]:
    """Take a column of a data frame of pandas, or else of polars."""
    column: list[Any] = (
        frame.iloc[:, k].tolist() if hasattr(frame, "iloc") else frame.to_series(k).to_list()
    )
    return column


def _take_columns(frame: Any, n: int) -> tuple[list[list[Any]], str]:
    """Take the first ``n`` of users, items and ratings by the names of columns, or else in order; and name the last.

    Raises DataError where some of the names are there, and not where their columns would be taken from.
    """
    order = ("first", "second", "third")
    raw = list(getattr(frame, "columns", ()))
    labels = [str(label) for label in raw]
    places = [place_of(name, labels) for name in NAMES]
    chosen = [at for at in places[:n] if at is not None]
    if len(chosen) == n:
        where = f"the column {raw[chosen[-1]]!r}"
    else:
        chosen, where = list(range(n)), f"the {order[n - 1]} column"
        for k, at in enumerate(places):
            if at not in (None, k):
                raise DataError(
                    f"the data frame has no column {NAMES[places.index(None)]!r}, and its column {raw[at]!r} is not "
                    f"the {order[k]}: name its columns {', '.join(NAMES[:n])}, or give them in this order"
                )
    return [_take_column(frame, k) for k in chosen], where


def _refuse_wide(data: Any) -> None:
    """Raise DataError for a data frame with a row per user and a column per item.

    A frame with a column named item or rating is a list of ratings. Otherwise the second and third columns of a pivot
    table hold numbers alone, and its labels or its values tell that the numbers are ratings.
    """
    labels = getattr(data, "columns", ())
    texts = [str(label) for label in labels]
    if any(place_of(name, texts) is not None for name in NAMES[1:]):
        return
    numbered = {label for label in list(labels)[:3] if not isinstance(label, str)}
    # Items, as in a pivot table of pandas; small numbers may count columns instead, as in a file without a header.
    is_pivot = getattr(labels, "name", None) is not None
    is_pivot |= len(numbered) == 3 and not numbered <= set(range(_MAX_LIST_COLUMNS))
    can_tell = data.shape[0] >= _MIN_ROWS and data.shape[1] > 3
    if not (is_pivot or can_tell):
        return
    columns = [_take_column(data, k) for k in range(3)]
    if not all(map(_may_be_rating, chain(*columns[1:]))):
        return
    if is_pivot or (_hold_ratings(*columns) and not _has_further_columns(data, columns[2])):
        raise DataError(
            f"the data frame of shape {data.shape} seems to have a row per user and a column per item: give a row per "
            "rating with the columns user, item and rating, for example with pandas' melt and dropna"
        )


def _hold_ratings(*columns: list[Any]) -> bool:
    """Whether three columns are of a pivot table that was read from a file, and not users, items and ratings.

    All values of the second column are then in the third, too, or zero. The first column has another user in every row,
    or holds ratings as well.
    """
    first, second, third = ({x for x in distinct(c, "user") if not is_missing(x)} for c in columns)
    return second <= third | {0} and (len(first) == len(columns[0]) or first <= third | {0})


def _has_further_columns(frame: Any, ratings: list[Any]) -> bool:
    """Whether a column after the third one is no rating, such as the time: text, or numbers that are much larger."""
    if frame.shape[1] > _MAX_LIST_COLUMNS:
        return False
    highest = max((abs(x) for x in ratings if not is_missing(x)), default=0)
    rest = (_take_column(frame, k) for k in range(3, frame.shape[1]))
    return any(
        not _may_be_rating(x) or (not is_missing(x) and abs(x) > 2 * highest) for x in chain(*rest)
    )


def _may_be_rating(value: Any) -> bool:
    return (isinstance(value, Real | Decimal) and not isinstance(value, bool)) or is_missing(value)


class SideInfo:
    """Pairs of raw user and item ids that are known to be rated; no ratings.

    Parameters
    ----------
    pairs
        (raw user id, raw item id), or a data frame or sparse matrix of them; further fields are ignored, and duplicates
        are merged. An array has at most four columns; a wider one is taken for a matrix of users and items.

    Raises DataError for anything but pairs, and for a missing id.

    Examples
    --------
    >>> ConditionalPMF(rated=SideInfo([("alice", "Brazil"), ("alice", "Alien")])).fit(trainset)
    """

    def __init__(self, pairs: Iterable[Iterable[Any]]) -> None:
        if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
            raise DataError(f"{pairs!r:.80} is no list of pairs; give (raw user id, raw item id)")
        if isinstance(pairs, np.ndarray) and pairs.shape[1:] > (_MAX_FIELDS,):
            raise DataError(
                f"an array of shape {pairs.shape} seems to be a matrix of users and items: give the pairs, as "
                "np.argwhere(matrix) does"
            )
        columns, _ = read_columns(pairs, 2)
        rows: list[tuple[Hashable, Hashable]] = list(zip(*columns, strict=True))
        for pair in () if columns else pairs:
            fields = list(pair) if isinstance(pair, Iterable) else []
            if isinstance(pair, str | bytes) or len(fields) < 2:
                raise DataError(f"{pair!r} is not a pair; give (raw user id, raw item id)")
            rows.append((fields[0], fields[1]))
        check_ids((user for user, _ in rows), "user")
        check_ids((item for _, item in rows), "item")
        self.pairs: list[tuple[Hashable, Hashable]] = list(dict.fromkeys(rows))

    @classmethod
    def from_testset(cls, testset: Iterable[Iterable[Any]]) -> SideInfo:
        """Take the pairs of a Surprise testset, without their ratings.

        Results with it are transductive: the model is told who has rated the items it is tested on, as the
        competitors for the Netflix prize were.
        """
        return cls(testset)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"<SideInfo of {len(self)} pairs>"
