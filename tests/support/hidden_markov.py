"""Hidden Markov models of random numbers, and sequences that they score."""

import numpy as np

from tacenda.kernels.hidden_markov import Sequences


def stochastic(rng, *shape):
    found = rng.random(shape) + 0.01
    return found / found.sum(axis=-2, keepdims=True)


def problem(lengths, k=3, blocks=4, words=5, seed=0, dtype=np.float64):
    """Blocks, emissions and starts of ``k`` states, and sequences of these lengths."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *lengths])
    n = int(offsets[-1])
    observed = Sequences(
        rng.integers(0, blocks, n), rng.integers(0, words, n), rng.integers(0, 2, len(lengths)), offsets
    )  # fmt: skip
    tables = stochastic(rng, blocks, k, k), stochastic(rng, words, k), stochastic(rng, k, 2).T
    return *(np.ascontiguousarray(table, dtype) for table in tables), observed
