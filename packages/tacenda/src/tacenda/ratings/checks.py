"""What is refused as ratings, in sentences that name the user and the item."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacenda.errors import DataError
from tacenda.ratings.index import IdIndex

Duplicates = Literal["error", "last"]
Ints = NDArray[np.int32]
Offsets = NDArray[np.int64]
Values = NDArray[np.float32]


def numbers(ids: ArrayLike, index: IdIndex) -> Ints:
    """User or item numbers as int32."""
    array = np.asarray(ids)
    if array.size == 0:
        array = array.astype(np.int32)
    if array.dtype.kind not in "iu":
        raise DataError(f"{index.what} numbers are of type {array.dtype}; give integers")
    if array.size and (int(array.min()) < 0 or int(array.max()) >= len(index)):
        raise DataError(f"a {index.what} number is not in 0 to {len(index) - 1}; number them anew")
    return array.astype(np.int32, copy=False)


class Rows(NamedTuple):
    """Ratings as they were given: a user, an item and a value each, and what the numbers stand for."""

    user_ids: Ints
    item_ids: Ints
    values: Values
    users: IdIndex
    items: IdIndex

    def check_finite(self) -> None:
        """Raises DataError for NaN and infinity."""
        bad = np.flatnonzero(~np.isfinite(self.values))
        if len(bad):
            raise DataError(
                f"{self._name(bad[0])} is {self.values[bad[0]]}; ratings must be finite"
            )

    def check_scale(self, low: float, high: float) -> None:
        """Raises DataError for a rating off the scale, and for a scale without ratings."""
        if not low <= high:
            raise DataError(
                f"the rating scale {low:g} to {high:g} is empty; give (lowest, highest)"
            )
        v = self.values
        bad = np.flatnonzero((v < np.float32(low)) | (v > np.float32(high)))
        if len(bad):
            raise DataError(
                f"{self._name(bad[0])} is {v[bad[0]]:g}, off the scale {low:g} to {high:g}; "
                "correct the rating or the scale"
            )

    def _name(self, row: int) -> str:
        user, item = self.users.raw[self.user_ids[row]], self.items.raw[self.item_ids[row]]
        return f"the rating of user {str(user)!r} for item {str(item)!r}"

    def kept(self, key: Offsets, duplicates: Duplicates) -> NDArray[np.bool_]:
        """Which of the rows with these sorted keys stay."""
        last = np.append(key[1:] != key[:-1], True)[: len(key)]
        if duplicates == "error" and not last.all():
            user, item = divmod(int(key[np.argmin(last)]), len(self.items))
            raise DataError(
                f"user {str(self.users.raw[user])!r} rated item {str(self.items.raw[item])!r} "
                "more than once; give duplicates='last' to keep the later rating"
            )
        if duplicates not in ("error", "last"):
            raise DataError(f"duplicates is {duplicates!r}; give 'error' or 'last'")
        return last
