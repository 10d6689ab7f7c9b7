"""A bounded store of transition blocks, made when a pair of classes is first met and kept for the next time."""

from __future__ import annotations

import threading
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["BlockStore", "Transitions"]

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int64]
_BYTES = 1 << 29


class Transitions(Protocol):
    """The transition matrix of a fitted model, class by class."""

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """A (pairs, k, k), ``[u, j, i]`` from i to j; sources sorted."""
        ...

    def onward(self, group: int, states: _Floats) -> _Floats:
        """p(z') (classes, k, n) after p(z) (n, k) of the states of one class."""
        ...

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What it is made of."""
        ...


class BlockStore:
    """Blocks by pair of classes; threads may share it.

    Blocks in a pool are never changed. Where a pool is full a new one takes its place, and who still reads the old
    one keeps it.

    Parameters
    ----------
    transitions
        What makes them.
    n_classes
        M.
    k
        States of a class.
    size
        Bytes of blocks kept at most; one block fits always.

    Attributes
    ----------
    capacity
        Blocks that fit.
    holds_all
        Whether there are no more than that.
    """

    def __init__(
        self, transitions: Transitions, n_classes: int, k: int, size: int = _BYTES
    ) -> None:
        self.transitions, self._classes, self._k = transitions, n_classes, k
        self.capacity = min(max(1, size // (4 * k * k)), n_classes * n_classes)
        self.holds_all = self.capacity == n_classes * n_classes
        self._lock = threading.Lock()
        self._empty()

    def _empty(self) -> None:
        self._pool = np.empty((self.capacity, self._k, self._k), np.float32)
        self._slots: dict[int, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        kept = dict(self.__dict__)
        for name in ("_lock", "_pool", "_slots"):
            del kept[name]
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._empty()

    def get(self, sources: _Ids, targets: _Ids) -> tuple[_Floats, npt.NDArray[np.int32]]:
        """A pool of blocks, and where in it each pair is: (capacity, k, k), (pairs,).

        Parameters
        ----------
        sources
            (pairs,), sorted; at most ``capacity`` pairs, each once.
        targets
            (pairs,).
        """
        keys = (sources * self._classes + targets).tolist()
        with self._lock:
            slots = [self._slots.get(key, -1) for key in keys]
            missing = [n for n, slot in enumerate(slots) if slot < 0]
            if len(self._slots) + len(missing) > self.capacity:
                self._empty()
                slots, missing = [-1] * len(keys), list(range(len(keys)))
            if missing:
                first = len(self._slots)
                made = self.transitions.blocks(sources[missing], targets[missing])
                self._pool[first : first + len(missing)] = made
                for slot, n in enumerate(missing, first):
                    self._slots[keys[n]] = slots[n] = slot
            return self._pool, np.array(slots, np.int32)
