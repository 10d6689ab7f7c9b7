"""Sequences of word ids, laid end to end in one array, with the offsets that cut them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.errors import DataError
from tacenda.offsets import checked_offsets
from tacenda.vocabulary import Vocabulary

__all__ = [
    "Float64",
    "Ids",
    "Integers",
    "Offsets",
    "check_word",
    "checked",
    "checked_ids",
    "encoded",
    "with_ends",
]

Ids: TypeAlias = npt.NDArray[np.int32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Float64: TypeAlias = npt.NDArray[np.float64]
#: Ids or offsets as a caller may give them.
Integers: TypeAlias = npt.NDArray[np.integer[Any]]


def checked(ids: Integers, offsets: Integers, n_types: int) -> tuple[Ids, Offsets]:
    """Return the ids as int32 (tokens,) and the offsets as int64 (sequences + 1,).

    Raises
    ------
    DataError
        An id is not in 0 .. n_types - 1, or the offsets do not cut the ids.
    """
    ids = checked_ids(ids, n_types)
    return ids, checked_offsets(offsets, len(ids), what="the offsets of the sequences")


def checked_ids(ids: Integers | Sequence[int], n_types: int) -> Ids:
    """Return the ids as int32 (tokens,). Raises DataError for one that is not in 0 .. n_types - 1."""
    found = np.asarray(ids)
    if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
        raise DataError(
            f"ids must be integers in one dimension, not {found.dtype} of shape {found.shape}"
        )
    if len(found) and (found.min() < 0 or found.max() >= n_types):
        wrong = np.flatnonzero((found < 0) | (found >= n_types))
        check_word(int(found[wrong[0]]), n_types, f" (at place {wrong[0]})")
    return np.ascontiguousarray(found, dtype=np.int32)


def check_word(word: int, n_types: int, place: str = "") -> None:
    """Raise DataError unless ``word`` is an id from 0 to n_types - 1; ``place`` says where it stood."""
    if not 0 <= word < n_types:
        raise DataError(
            f"there is no id {word}{place} in a vocabulary of {n_types} types; "
            "encode the text with the vocabulary of the model"
        )


def encoded(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, *, eos: bool = False
) -> tuple[Ids, Offsets]:
    """Encode token lists as int32 ids (tokens,) and int64 offsets (sentences + 1,).

    With ``eos``, ``</s>`` follows every sentence.
    """
    ids = vocabulary.encode(list(chain.from_iterable(sentences)))
    offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    return with_ends(ids, offsets, vocabulary.boundary_id) if eos else (ids, offsets)


def with_ends(ids: Integers, offsets: Integers, boundary: int) -> tuple[Ids, Offsets]:
    """Put the id of ``</s>`` after each sequence: int32 (tokens + sequences,), and the new offsets."""
    cuts = np.asarray(offsets, dtype=np.int64)
    ends = cuts + np.arange(len(cuts))
    longer = np.full(len(ids) + len(cuts) - 1, boundary, dtype=np.int32)
    inside = np.ones(len(longer), dtype=bool)
    inside[ends[1:] - 1] = False
    longer[inside] = ids
    return longer, ends
