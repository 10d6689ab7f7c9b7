"""The random numbers of the rating kernels: xorshift64, seeded by a hash of a seed and the number of a row.

The numbers of a row depend on nothing else, so that results do not depend on the order of the rows or on their shares
between threads. Compiled loops use `njit(seed_state)`, `njit(advance)` and `njit(to_uniform)`; specifications use
`generate_states` and `generate_uniforms`, which run the same functions on NumPy's scalars.
"""

from collections.abc import Iterator
from operator import index
from typing import Any

import numpy as np


def wrap_seed(seed: int) -> Any:
    """Return a seed of any size, also one of NumPy, modulo 2^64 as uint64."""
    return np.uint64(index(seed) % (1 << 64))


def seed_state(seed: Any, row: Any) -> Any:
    """Return the first state of a row, a uint64 that is not zero; seed and row are uint64."""
    state = seed * np.uint64(0x9E3779B97F4A7C15)
    state += (row + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    return ((state ^ (state >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)) | np.uint64(1)


def advance(state: Any) -> Any:
    """Return the next state (Marsaglia, "Xorshift RNGs", 2003)."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


def to_uniform(state: Any) -> Any:
    """Convert a state to a number in [0, 1), by its upper 24 bits, which float32 holds exactly."""
    return np.float32(state >> np.uint64(40)) / np.float32(1 << 24)


def generate_states(seed: int, row: int) -> Iterator[Any]:
    """Yield the states of a row, without end."""
    with np.errstate(over="ignore"):  # products are meant modulo 2^64
        state = seed_state(wrap_seed(seed), np.uint64(row))
    while True:
        state = advance(state)
        yield state


def generate_uniforms(seed: int, row: int) -> Iterator[float]:
    """Return an iterator over the numbers of a row in [0, 1), without end."""
    return (float(to_uniform(state)) for state in generate_states(seed, row))
