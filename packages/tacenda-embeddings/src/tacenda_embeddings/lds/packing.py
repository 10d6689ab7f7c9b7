"""Sentences of word ids, one after another in one array, in chunks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.errors import DataError

Ids = npt.NDArray[np.integer[Any]]

#: What the messages at the ends of so many sequences need is a few megabytes.
CHUNK_SEQUENCES = 4096
CHUNK_TOKENS = 1 << 18


class Packed(NamedTuple):
    """ids (tokens,) of all sequences, and offsets (sequences + 1,) where each begins, and the end."""

    ids: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]


def pack(sentences: Sequence[Ids]) -> Packed:
    """One array of all sentences."""
    offsets = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
    ids = np.concatenate(sentences) if len(sentences) else np.empty(0)
    return Packed(ids.astype(np.int64), offsets)


def chunks(sentences: Sequence[Ids]) -> Iterator[Packed]:
    """All sentences, so many at a time that working memory is bounded; a longer one goes alone."""
    chunk: list[Ids] = []
    n_tokens = 0
    for sentence in sentences:
        full = n_tokens + len(sentence) > CHUNK_TOKENS or len(chunk) == CHUNK_SEQUENCES
        if chunk and full:
            yield pack(chunk)
            chunk, n_tokens = [], 0
        chunk.append(sentence)
        n_tokens += len(sentence)
    if chunk:
        yield pack(chunk)


def check(packed: Packed, n_types: int) -> None:
    """Raises DataError for an id that is not in a vocabulary of ``n_types``."""
    ids = packed.ids
    if len(ids) and (ids.min() < 0 or ids.max() >= n_types):
        strange = ids.min() if ids.min() < 0 else ids.max()
        raise DataError(
            f"there is no word id {strange} in a vocabulary of {n_types} types; "
            "encode the text with the vocabulary of this model"
        )


def check_offsets(packed: Packed) -> None:
    """Raises DataError unless the offsets ascend from 0 to the number of ids."""
    ids, offsets = packed
    if ids.ndim != 1 or offsets.ndim != 1 or not len(offsets):
        raise DataError(
            f"ids and offsets have shapes {ids.shape} and {offsets.shape}; give (tokens,) and "
            "(sequences + 1,)"
        )
    if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        raise DataError(
            f"offsets must ascend from 0 to the {len(ids)} ids, and run from {offsets[0]} to "
            f"{offsets[-1]}"
        )
