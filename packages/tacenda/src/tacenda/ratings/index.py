"""Raw ids (strings) and the integers that stand for them."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import DataError


class IdIndex:
    """Raw ids in the order of their numbers.

    Raw ids are strings: the integer 7 and the string "7" are the same id.

    Parameters
    ----------
    raw
        The ids.
    what
        What they stand for in messages: "user" or "item".

    Raises
    ------
    DataError
        An id comes twice.
    """

    def __init__(self, raw: Iterable[object], what: str) -> None:
        self.raw: NDArray[np.str_] = _as_strings(raw)
        self.what = what
        if len(np.unique(self.raw)) != len(self.raw):
            values, counts = np.unique(self.raw, return_counts=True)
            again = values[counts > 1][0]
            raise DataError(f"{what} id {str(again)!r} stands for two {what}s; make ids unique")

    def __len__(self) -> int:
        return len(self.raw)

    def __contains__(self, raw: object) -> bool:
        return str(raw) in self._numbers

    def find(self, raw: object) -> int | None:
        """Return the number of a raw id, or None if it is unknown."""
        return self._numbers.get(str(raw))

    def number(self, raw: object) -> int:
        """Return the number of a raw id. Raises DataError if it is unknown."""
        found = self.find(raw)
        if found is None:
            raise DataError(f"unknown {self.what} {str(raw)!r}; it has no ratings here")
        return found

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {str(raw): number for number, raw in enumerate(self.raw.tolist())}


def number_ids(raw: Any, what: str) -> tuple[IdIndex, NDArray[np.int32]]:
    """Number raw ids in sorted order, integers by value; return the index and the number of each row.

    The numbering depends on the set of ids alone, not on the order of the rows.
    """
    array = np.asarray(raw)
    if array.dtype.kind == "f":
        raise DataError(f"{what} ids are floats; give integers or strings")
    if array.dtype.kind not in "iuU":
        array = _as_strings(raw)
    if array.ndim != 1:
        raise DataError(f"{what} ids have {array.ndim} dimensions; give one id a rating")
    values, numbers = np.unique(array, return_inverse=True)
    return IdIndex(values, what), numbers.astype(np.int32)


def _as_strings(raw: Iterable[object]) -> NDArray[np.str_]:
    if isinstance(raw, np.ndarray) and raw.dtype.kind in "iuU":
        return raw.astype(np.str_)
    return np.array([str(value) for value in raw], dtype=np.str_)
