"""`JointTokens`: runs of tokens that have feature vectors of their own in a `StateSpaceLM`."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tacenda.errors import ArtifactError
from tacenda_lm.sequences import Integers

_Int64 = npt.NDArray[np.int64]


class JointTokens:
    """Runs of two and more tokens, numbered from the shortest to the longest.

    A sum of feature vectors of single tokens cannot say what follows two of them together; a vector of the pair can.
    Runs are stored as a trie: a run of k tokens is the place of its first k - 1 tokens among the runs of that length,
    and its last token.

    Parameters
    ----------
    keys
        For every length from 2, int64 (runs,), ascending: the place of all tokens but the last, times ``n_types``, plus
        the last token. The place of a single token is its id.
    n_types
        Number of ids.
    unknown
        The id of an unknown token, and of the tokens before the first; no run has it.
    """

    def __init__(self, keys: list[_Int64], n_types: int, unknown: int) -> None:
        self.keys, self.n_types, self.unknown = keys, n_types, unknown
        self._first_rows = list(accumulate(map(len, keys), initial=0))

    def __len__(self) -> int:
        return self._first_rows[-1]

    @property
    def longest(self) -> int:
        """The number of tokens of the longest runs, 0 without runs."""
        return len(self.keys) + 1 if self.keys else 0

    @classmethod
    def of(cls, windows: Integers, n_types: int, unknown: int) -> Self:
        """Find the runs at the ends of windows (places, longest run), the last token first."""
        keys: list[_Int64] = []
        for k in range(2, windows.shape[1] + 1):
            shorter = cls(keys, n_types, unknown)
            possible, key = shorter._compute_keys(windows[:, :k])
            keys.append(np.unique(key[possible]))
        return cls(keys, n_types, unknown)

    def find_rows(self, windows: Integers) -> _Int64:
        """Return the rows of the runs that end windows (..., tokens), the last token first: int64 (..., lengths).

        A run that is not stored has the row -1.
        """
        rows = np.full((*windows.shape[:-1], len(self.keys)), -1, np.int64)
        for i, first_row in enumerate(self._first_rows[:-1]):
            places = self._find_places(windows[..., : i + 2])
            rows[..., i] = np.where(places >= 0, places + first_row, -1)
        return rows

    def _compute_keys(self, windows: Integers) -> tuple[npt.NDArray[np.bool_], _Int64]:
        """Return which windows have a known last token and a stored run before it, and the keys of all windows."""
        before, last = self._find_places(windows[..., 1:]), windows[..., 0].astype(np.int64)
        return (before >= 0) & (last != self.unknown), before * self.n_types + last

    def _find_places(self, windows: Integers) -> _Int64:
        """Return the places of whole windows among the runs of their length, -1 for a run that is not stored."""
        k = windows.shape[-1]
        if k == 1:
            ids = windows[..., 0].astype(np.int64)
            return np.where(ids == self.unknown, -1, ids)
        keys = self.keys[k - 2]
        possible, key = self._compute_keys(windows)
        if not len(keys):
            return np.full(possible.shape, -1)
        places = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where(possible & (keys[places] == key), places, -1)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the keys of all lengths, concatenated, and their number for each length."""
        sizes = np.array(list(map(len, self.keys)), np.int64)
        return {"runs": np.concatenate([np.empty(0, np.int64), *self.keys]), "run_sizes": sizes}

    @classmethod
    def from_arrays(cls, keys: _Int64, sizes: _Int64, n_types: int, unknown: int) -> Self:
        """Restore the runs from their `arrays`. Raises ArtifactError if they are damaged."""
        if ((sizes < 0) | (sizes > len(keys))).any() or sizes.sum() != len(keys):
            raise ArtifactError("run_sizes do not cut the runs of tokens; the model is damaged")
        by_length = np.split(keys, np.cumsum(sizes)[:-1]) if len(sizes) else []
        n_shorter = n_types  # runs with one token less
        for k, of_length in enumerate(by_length, start=2):
            ascending = (of_length[1:] > of_length[:-1]).all()
            if len(of_length) and not (
                ascending and of_length[0] >= 0 and of_length[-1] // n_types < n_shorter
            ):
                raise ArtifactError(
                    f"the runs of {k} tokens are not in order; the model is damaged"
                )
            n_shorter = len(of_length)
        return cls(by_length, n_types, unknown)
