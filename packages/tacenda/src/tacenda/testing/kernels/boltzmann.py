"""Cases of the operations of restricted Boltzmann machines of words."""

from collections.abc import Iterator

import numpy as np

from tacenda.kernels.boltzmann.hidden_sums import pack
from tacenda.testing.kernels.shared import Case


def hidden_sums() -> Iterator[Case]:
    """No contexts, one word, one hidden unit, words and contexts beside whole vectors, numbers of every size."""
    for contexts, types, hidden, size in (
        (0, 3, 2, 1.0),
        (1, 1, 1, 1.0),
        (3, 17, 1, 30.0),
        (5, 33, 63, 0.1),
        (9, 15, 100, 3.0),
    ):
        rng = np.random.default_rng(hidden)
        inputs = (rng.standard_normal((types, hidden)) * size).astype(np.float32)
        given = (rng.standard_normal((contexts, hidden)) * size).astype(np.float32)
        yield f"{contexts} contexts, {types} words, {hidden} units", (pack(inputs), given)


CASES = (hidden_sums,)
