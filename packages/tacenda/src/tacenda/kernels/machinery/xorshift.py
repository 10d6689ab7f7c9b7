"""The random numbers of the rating kernels: xorshift64, seeded by a hash of a seed and the number of a row.

A row's numbers depend on nothing else, so that results do not depend on the order of the rows or on how they are
shared between threads. Compiled loops use `njit(seeded)`, `njit(advanced)` and `njit(uniform)`; specifications use
`states` and `uniforms`, which run the same functions on numpy's scalars.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np


def seeded(seed: Any, row: Any) -> Any:
    """The state, a uint64 that is not zero, from which a row's numbers start; seed and row are uint64."""
    state = seed * np.uint64(0x9E3779B97F4A7C15)
    state += (row + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    return ((state ^ (state >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)) | np.uint64(1)


def advanced(state: Any) -> Any:
    """The next state (Marsaglia, "Xorshift RNGs", 2003)."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


def uniform(state: Any) -> Any:
    """The number in [0, 1) that a state stands for: its upper 24 bits, which float32 holds exactly."""
    return np.float32(state >> np.uint64(40)) / np.float32(1 << 24)


def states(seed: int, row: int) -> Iterator[Any]:
    """A row's states, one after another, without end."""
    with np.errstate(over="ignore"):  # products are meant modulo 2^64
        state = seeded(np.uint64(seed % (1 << 64)), np.uint64(row))
    while True:
        state = advanced(state)
        yield state


def uniforms(seed: int, row: int) -> Iterator[float]:
    """A row's numbers in [0, 1), one after another, without end."""
    return (float(uniform(state)) for state in states(seed, row))
