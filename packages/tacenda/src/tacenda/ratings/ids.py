"""`IdIndex`, the raw ids of users or items, which are strings or integers, and their numbers."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import DataError
from tacenda.forks import cached_property

# Values of a missing id, compared as text, so that pandas need not be imported.
_MISSING = {"None", "nan", "NaT", "<NA>"}
_FLOATS = (float, np.floating)
LONGEST_ID = 1_000
"""The maximal number of characters of an id: in an array, every id takes the memory of the longest."""


class IdIndex:
    """Raw ids in the order of their numbers; ``what`` they identify is "user" or "item", for messages.

    Raw ids are strings: the integer 7 and the string "7" are the same id. Raises DataError if an id occurs twice, is
    longer than `LONGEST_ID`, ends in a null character, which NumPy would drop, consists of bytes, is a list or a float,
    or is missing.
    """

    def __init__(self, raw: Iterable[object], what: str) -> None:
        self.raw: NDArray[np.str_] = _as_strings(_unpack(raw, what), what)
        self.what = what
        values, counts = np.unique(self.raw, return_counts=True)
        if len(values) != len(self.raw):
            repeated = values[counts > 1][0]
            raise DataError(f"{what} id {str(repeated)!r} stands for two {what}s; make ids unique")

    def __len__(self) -> int:
        return len(self.raw)

    def __contains__(self, raw: object) -> bool:
        return str(raw) in self.by_raw

    def find(self, raw: object) -> int | None:
        """Return the number of a raw id, or None if it is unknown."""
        return self.by_raw.get(str(raw))

    def number(self, raw: object) -> int:
        """Return the number of a raw id. Raises DataError if it is unknown."""
        number = self.find(raw)
        if number is None:
            raise DataError(f"unknown {self.what} {str(raw)!r}; it has no ratings here")
        return number

    def numbers(self, raw: Iterable[object]) -> NDArray[np.int64]:
        """Return the numbers of raw ids, int64 (ids,); -1 for unknown ones."""
        return np.array([self.by_raw.get(str(raw_id), -1) for raw_id in raw], np.int64)

    @cached_property
    def by_raw(self) -> dict[str, int]:
        """The number of every raw id; callers must not change it."""
        return {raw: number for number, raw in enumerate(self.raw.tolist())}


def number_ids(raw: Any, what: str) -> tuple[IdIndex, NDArray[np.int32]]:
    """Number raw ids in sorted order, integers by value; return the index and the number of each row.

    The numbering depends on the set of ids alone, not on the order of the rows.
    """
    raw = _unpack(raw, what)
    if isinstance(raw, list | tuple):
        array = _read(raw, what)
    elif not isinstance(raw, np.ndarray):
        raise DataError(f"{what} ids are a {type(raw).__name__}; give a list, one id per rating")
    else:
        array = raw if raw.dtype.kind in "iuU" else _as_strings(raw, what)
    values, numbers = np.unique(array, return_inverse=True)
    return IdIndex(values, what), numbers.astype(np.int32)


def _read(ids: Sequence[Any], what: str) -> NDArray[Any]:
    """Return ids as integers if `str` writes each as an integer, which it does not for a bool, else as text.

    NumPy would cut the text of some subclasses of str, and make columns of tuples.
    """
    kinds = set(map(type, _check_ids(ids, what)))
    if kinds <= {str}:
        return np.array(ids, np.str_)
    is_plain = all(kind is int or issubclass(kind, np.integer) for kind in kinds)
    if not is_plain and not all(isinstance(i, Integral) and str(i) == str(int(i)) for i in ids):
        return _as_strings(ids, what)
    array = np.asarray(ids)  # of objects or floats if no integers of NumPy hold all of them
    return array if array.dtype.kind in "iu" else np.array([*map(int, ids)], object)


def _as_strings(raw: Any, what: str) -> NDArray[np.str_]:
    if isinstance(raw, np.ndarray) and raw.dtype.kind in "iuU":
        return raw.astype(np.str_)
    refused = bytes, list, np.ndarray, *_FLOATS
    ids = [one if isinstance(one, refused) or is_missing(one) else str(one) for one in raw]
    return np.array(_check_ids(ids, what), dtype=np.str_)


def is_missing(value: object) -> bool:
    """Return whether a value marks a missing one in a data frame, as None and nan do."""
    return not isinstance(value, str | int) and str(value) in _MISSING


def _unpack(raw: Any, what: str) -> Any:
    """Return ids as a list if they are an array of objects, floats, or strings so wide that one may be too long.

    Raises DataError for a single id and for an array of more than one dimension.
    """
    if isinstance(raw, list | tuple):
        return raw
    array = np.asarray(raw)
    if array.dtype.kind != "O" and array.ndim != 1:
        raise DataError(f"{what} ids have {array.ndim} dimensions; give a list of ids")
    is_wide = array.dtype.kind == "U" and array.dtype.itemsize > 4 * LONGEST_ID
    if array.ndim and (is_wide or array.dtype.kind in "Of"):
        return array.tolist()
    return array if array.ndim else raw


def _check_ids(raw: Sequence[Any], what: str) -> Sequence[Any]:
    """Return the ids. Raises DataError for one that is missing, bytes, a list, a float, too long, or ends in a null."""
    for number, raw_id in enumerate(raw, start=1):
        if is_missing(raw_id):
            raise DataError(
                f"{what} id number {number} is missing, it is {raw_id}: give the id, or leave the rating out"
            )
        if isinstance(raw_id, bytes):
            raise DataError(f"{what} id number {number} is bytes, {raw_id[:40]!r}: decode the ids")
        if isinstance(raw_id, list | np.ndarray):
            raise DataError(f"{what} id number {number} is several, {raw_id!r:.40}: give one")
        if isinstance(raw_id, _FLOATS):
            raise DataError(f"{what} ids are floats; give integers or strings")
        if isinstance(raw_id, str) and raw_id.endswith("\0"):
            raise DataError(
                f"{what} id number {number}, {raw_id[:40]!r}, ends in a null character: remove it"
            )
        if isinstance(raw_id, str) and len(raw_id) > LONGEST_ID:
            raise DataError(
                f"{what} id number {number} has {len(raw_id):,} characters, and at most {LONGEST_ID:,} are allowed: "
                f"{raw_id[:40]!r}..."
            )
    return raw
