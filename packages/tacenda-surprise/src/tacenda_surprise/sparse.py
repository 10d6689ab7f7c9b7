"""Sparse tables on a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda.array_ops import to_device
from tacenda.arrays import Array
from tacenda.ratings import Ratings


class DeviceCSR(NamedTuple):
    """A sparse table whose column ids and values are on a device, row after row."""

    offsets: npt.NDArray[np.int64]  # (rows + 1,)
    ids: Array
    values: Array

    @classmethod
    def from_table(cls, table: csr_array, device: str) -> DeviceCSR:
        """Copy a table to ``device``."""
        parts = table.indices.astype(np.int32), table.data.astype(np.float32)
        return cls(table.indptr.astype(np.int64), *(to_device(part, device) for part in parts))

    @classmethod
    def from_ratings(cls, ratings: Ratings, device: str) -> DeviceCSR:
        """Copy ratings to ``device``, a row for each user."""
        parts = ratings.item_ids, ratings.values
        return cls(ratings.user_offsets, *(to_device(part, device) for part in parts))
