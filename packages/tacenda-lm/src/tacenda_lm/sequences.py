"""Sequences of word ids that lie end to end in one array, with the offsets that cut them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.errors import DataError

__all__ = ["Float64", "Ids", "Offsets", "check_word", "checked", "with_ends"]

Ids: TypeAlias = npt.NDArray[np.int32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Float64: TypeAlias = npt.NDArray[np.float64]


def checked(
    ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]], n_types: int
) -> tuple[Ids, Offsets]:
    """The ids as int32 (tokens,) and the offsets as int64 (sequences + 1,).

    Raises DataError for an id that is not in 0 .. n_types - 1, or offsets that do not cut the ids.
    """
    ids, offsets = np.asarray(ids), np.asarray(offsets)
    for name, array in (("ids", ids), ("offsets", offsets)):
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            raise DataError(
                f"{name} must be integers in one dimension, not {array.dtype} of shape {array.shape}"
            )
    if len(ids) and (ids.min() < 0 or ids.max() >= n_types):
        wrong = np.flatnonzero((ids < 0) | (ids >= n_types))
        check_word(int(ids[wrong[0]]), n_types, f" (at place {wrong[0]})")
    cuts = offsets.astype(np.int64)
    if not len(cuts) or cuts[0] or cuts[-1] != len(ids) or (np.diff(cuts) < 0).any():
        raise DataError(
            f"the offsets must rise from 0 to the number of ids, which is {len(ids)}; "
            "sequence i is ids[offsets[i] : offsets[i + 1]]"
        )
    return np.ascontiguousarray(ids, dtype=np.int32), cuts


def check_word(word: int, n_types: int, place: str = "") -> None:
    """Raise DataError unless a word is an id from 0 to n_types - 1."""
    if not 0 <= word < n_types:
        raise DataError(
            f"there is no id {word}{place} in a vocabulary of {n_types} types; "
            "encode the text with the vocabulary of the model"
        )


def with_ends(
    ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]], boundary: int
) -> tuple[Ids, Offsets]:
    """The same sequences with the id of ``</s>`` after each: int32 (tokens + sequences,), offsets."""
    cuts = np.asarray(offsets, dtype=np.int64)
    ends = cuts + np.arange(len(cuts))
    longer = np.full(len(ids) + len(cuts) - 1, boundary, dtype=np.int32)
    inside = np.ones(len(longer), dtype=bool)
    inside[ends[1:] - 1] = False
    longer[inside] = ids
    return longer, ends
