"""What is checked of saved counts before they are trusted."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.kernels.dynamics.lagged_counts import Counts


def checked_lag(arrays: dict[str, npt.NDArray[Any]], k: int, unigram: npt.NDArray[Any]) -> Counts:
    """The counts of lag k, in which every index may be trusted from here on."""
    size, name = len(unigram), f"lag{k}"
    dims = {"rows + 1": size + 1}
    indptr = require(arrays, f"{name}.indptr", shape=("rows + 1",), dtype=np.int64, dims=dims)
    indices = require(arrays, f"{name}.indices", shape=("entries",), dtype=np.int32, dims=dims)
    dtype = np.int32 if unigram.dtype == np.int64 else np.float32
    data = require(arrays, f"{name}.data", shape=("entries",), dtype=dtype, dims=dims, finite=True)
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ArtifactError(f"the array '{name}.indptr' does not divide its entries into rows")
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        raise ArtifactError(f"the array '{name}.indices' holds a column outside the vocabulary")
    ascending = np.diff(indices) > 0
    starts = indptr[1:-1]
    ascending[starts[(starts > 0) & (starts < len(indices))] - 1] = True
    if not ascending.all():
        raise ArtifactError(f"the columns of a row of '{name}.indices' do not ascend")
    if (data < 0).any():
        raise ArtifactError(f"the array '{name}.data' holds a negative count")
    if not math.isclose(data.sum(dtype=np.float64), unigram.sum(), rel_tol=1e-4):
        raise ArtifactError(f"the counts of '{name}.data' do not sum to those of 'unigram'")
    return Counts(indptr, indices, data)
