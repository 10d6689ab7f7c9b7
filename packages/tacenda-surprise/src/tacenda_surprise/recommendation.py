"""Raw ids of a command line as the numbers of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.errors import DataError
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import FoldedUser, RatingModel
from tacenda_surprise.models.catalogue import Catalogue

Numbers = npt.NDArray[np.int64]


def new_user(model: RatingModel, rated: list[str]) -> tuple[FoldedUser, Numbers]:
    """A user folded in from ``ITEM=RATING``, and the numbers of the items.

    Raises DataError for an item the model does not know or a rating that is none.
    """
    catalogue = model.catalogue
    low, high = catalogue.scale
    found: dict[int, float] = {}
    for text in rated:
        item, _, value = text.rpartition("=")
        try:
            rating = float(value)
        except ValueError as error:
            raise DataError(f"--rate takes ITEM=RATING, not {text}") from error
        if not low <= rating <= high:
            raise DataError(f"the rating of {item!r} is {value}, off the scale {low:g} to {high:g}")
        found[catalogue.items.number(item)] = rating
    items = np.fromiter(found, np.int64, len(found))
    return model.fold_in(items, list(found.values())), items


def numbers_of(catalogue: Catalogue, ratings: Ratings) -> tuple[Any, Any, int, int]:
    """User and item numbers (pairs,) of ``ratings`` as the model has them, and how many there are.

    What the model does not know is left out.
    """
    users = np.array([_number(catalogue.users, raw) for raw in ratings.users.raw])
    items = np.array([_number(catalogue.items, raw) for raw in ratings.items.raw])
    u, i = users[ratings.user_ids], items[ratings.item_ids]
    known = (u >= 0) & (i >= 0)
    return u[known], i[known], len(catalogue.users), len(catalogue.items)


def _number(index: Any, raw: object) -> int:
    found = index.find(raw)
    return -1 if found is None else int(found)
