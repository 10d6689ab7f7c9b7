"""The checks of what the scores of a stream are given, beyond those of the operations they are made of."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import KernelError


def check_first(first: int, ids: NDArray[Any]) -> int:
    """A position of the text, or the one behind it."""
    if not 0 <= first <= np.size(ids):
        raise KernelError(f"first is {first}, and there are {np.size(ids)} ids")
    return int(first)
