"""The sums over hidden units, the specification: one context after another, in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.boltzmann.hidden_sums import Packed

_Array = NDArray[Any]


def log_sums(words: Packed, contexts: _Array) -> _Array:
    """s_tw = sum_j log(1 + exp(a_wj + b_tj))."""
    a = words.inputs.astype(np.float64)
    found = np.empty((len(contexts), len(a)))
    for t, b in enumerate(contexts.astype(np.float64)):
        found[t] = np.logaddexp(0, a + b).sum(axis=1)
    return found.astype(contexts.dtype)
