"""`JointTokens`: runs of tokens that are taken for one token, so that a state can hold a feature vector of them.

A sum of feature vectors of single tokens cannot say what follows two of them together; a vector of the pair can. Runs
are kept as a trie: a run of k tokens is the place of its first k - 1 among the runs of that length, and its last token.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tacenda.errors import ArtifactError

__all__ = ["JointTokens"]

_Ints = npt.NDArray[np.integer[Any]]
_Int64 = npt.NDArray[np.int64]


class JointTokens:
    """Runs of two and more tokens, numbered from the shortest to the longest.

    Parameters
    ----------
    keys
        For every length from two on, int64 (runs,), ascending: place of the first tokens * types + last token. The
        place of one token is its id.
    n_types
        Number of ids.
    unknown
        The id that stands for an unknown token and for none; no run has it.
    """

    def __init__(self, keys: list[_Int64], n_types: int, unknown: int) -> None:
        self.keys, self.n_types, self.unknown = keys, n_types, unknown
        self._first = list(
            accumulate(map(len, keys), initial=0)
        )  # row of the first run of each length

    def __len__(self) -> int:
        return self._first[-1]

    @classmethod
    def of(cls, windows: _Ints, n_types: int, unknown: int, least: int) -> Self:
        """Find the runs that occur ``least`` times among the ends of windows (places, longest), last token first."""
        keys: list[_Int64] = []
        for k in range(2, windows.shape[1] + 1):
            shorter = cls(keys, n_types, unknown)
            known, key = shorter._keys(windows[:, :k])
            found, counts = np.unique(key[known], return_counts=True)
            keys.append(found[counts >= least])
        return cls(keys, n_types, unknown)

    def rows(self, windows: _Ints) -> _Int64:
        """Return the rows of the runs that end windows (..., tokens), the last token first: int64 (..., lengths).

        -1 where a run is not among those kept.
        """
        found = np.full((*windows.shape[:-1], len(self.keys)), -1, np.int64)
        for i in range(len(self.keys)):
            place = self._places(windows[..., : i + 2])
            found[..., i] = np.where(place >= 0, place + self._first[i], -1)
        return found

    def _keys(self, windows: _Ints) -> tuple[npt.NDArray[np.bool_], _Int64]:
        """Return which windows have all but their last token listed and a known last one, and the keys of all."""
        before, last = self._places(windows[..., 1:]), windows[..., 0].astype(np.int64)
        return (before >= 0) & (last != self.unknown), before * self.n_types + last

    def _places(self, windows: _Ints) -> _Int64:
        """Return the places of whole windows among the runs of their length, -1 for one that is not there."""
        k = windows.shape[-1]
        if k == 1:
            ids = windows[..., 0].astype(np.int64)
            return np.where(ids == self.unknown, -1, ids)
        keys = self.keys[k - 2]
        known, key = self._keys(windows)
        if not len(keys):
            return np.full(known.shape, -1)
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where(known & (keys[place] == key), place, -1)

    # -- artefact ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the keys of all lengths end to end, and how many there are of each."""
        sizes = np.array([len(each) for each in self.keys], np.int64)
        return {"runs": np.concatenate([np.empty(0, np.int64), *self.keys]), "run_sizes": sizes}

    @classmethod
    def from_arrays(cls, keys: _Int64, sizes: _Int64, n_types: int, unknown: int) -> Self:
        """Return what `arrays` gave. Raises ArtifactError where these are no runs."""
        ends = np.cumsum(sizes)
        if (
            (sizes < 0).any()
            or (sizes > len(keys)).any()
            or (ends[-1] if len(ends) else 0) != len(keys)
        ):
            raise ArtifactError("run_sizes do not cut the runs of tokens; the artefact is damaged")
        cut = np.split(keys, ends[:-1]) if len(ends) else []
        places = n_types
        for k, own in enumerate(cut, start=2):
            ordered = (own[1:] > own[:-1]).all()
            if len(own) and not (ordered and own[0] >= 0 and own[-1] // n_types < places):
                raise ArtifactError(
                    f"the runs of {k} tokens are not in order; the artefact is damaged"
                )
            places = len(own)
        return cls(cut, n_types, unknown)
