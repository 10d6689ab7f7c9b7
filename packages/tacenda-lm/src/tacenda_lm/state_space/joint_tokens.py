"""`JointTokens`: runs of tokens that have feature vectors of their own in a `StateSpaceLM`."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Int64
from tacenda.errors import ArtifactError
from tacenda.forks import cached_property
from tacenda.offsets import rises
from tacenda_lm.sequences import Integers

_Int64 = npt.NDArray[np.int64]


class JointTokens(Arrays):
    """Runs of two and more tokens, numbered from the shortest to the longest.

    A sum of feature vectors of single tokens cannot say what follows two of them together; a vector of the pair can.
    Runs are stored as a trie: a run of k tokens is the place of its first k - 1 tokens among the runs of that length,
    and its last token.
    """

    runs: Int64[Array, "runs"]  # the keys of runs of two tokens, then of three, and so on
    run_sizes: Int64[Array, "lengths"]  # how many runs there are of each length
    types: int  # the number of ids
    unknown: int  # the id of an unknown token, and of the tokens before the first; no run is found with it

    def __len__(self) -> int:
        return len(self.runs)

    @cached_property
    def keys(self) -> list[_Int64]:
        """The keys of the runs of each length from 2, int64 (runs,), ascending.

        A key is the place of all tokens but the last, times ``types``, plus the last token. The place of a single
        token is its id.
        """
        cuts = np.cumsum(self.run_sizes)[:-1]
        return np.split(self.runs, cuts) if len(self.run_sizes) else []

    @property
    def longest(self) -> int:
        """The number of tokens of the longest runs that were looked for, even if none were found; 0 without lengths."""
        return len(self.keys) + 1 if self.keys else 0

    @classmethod
    def of(cls, windows: Integers, types: int, unknown: int) -> Self:
        """Find the runs at the ends of windows (places, longest run), the last token first."""
        nothing = np.empty(0, np.int64)
        joint = cls(nothing, nothing, types, unknown)
        for k in range(2, windows.shape[1] + 1):
            possible, key = joint._compute_keys(windows[:, :k])
            new = np.unique(key[possible])
            runs, sizes = np.append(joint.runs, new), np.append(joint.run_sizes, len(new))
            joint = cls(runs, sizes, types, unknown)
        return joint

    def find_rows(self, windows: Integers) -> _Int64:
        """Return the rows of the runs that end windows (..., tokens), the last token first: int64 (..., lengths).

        A run that is not stored has the row -1.
        """
        rows = np.full((*windows.shape[:-1], len(self.keys)), -1, np.int64)
        first_row = 0
        for i, keys in enumerate(self.keys):
            places = self._find_places(windows[..., : i + 2])
            rows[..., i] = np.where(places >= 0, places + first_row, -1)
            first_row += len(keys)
        return rows

    def _compute_keys(self, windows: Integers) -> tuple[npt.NDArray[np.bool_], _Int64]:
        """Return which windows have a known last token and a stored run before it, and the keys of all windows."""
        before, last = self._find_places(windows[..., 1:]), windows[..., 0].astype(np.int64)
        return (before >= 0) & (last != self.unknown), before * self.types + last

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

    def check_saved(self) -> None:
        """Raise ArtifactError unless these are runs of a saved model."""
        sizes = self.run_sizes
        if ((sizes < 0) | (sizes > len(self))).any() or sizes.sum() != len(self):
            raise ArtifactError("run_sizes do not cut the runs of tokens; the model is damaged")
        n_shorter = self.types  # runs with one token less
        for k, keys in enumerate(self.keys, start=2):
            in_range = not len(keys) or 0 <= keys[0] <= keys[-1] < n_shorter * self.types
            if not in_range or not rises(keys, strictly=True):
                raise ArtifactError(
                    f"the runs of {k} tokens are not in order; the model is damaged"
                )
            n_shorter = len(keys)
