"""Which states belong to which eigenvalue, and the check that they add up."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import KernelError

_Array = NDArray[Any]


def check_eigenvalues(real: _Array, complex: _Array, states: int) -> None:
    """Accept real (n_real,) and complex (n_pairs, 2) if n_real + 2 n_pairs = ``states``."""
    shapes = np.shape(real), np.shape(complex)
    if len(shapes[0]) != 1 or len(shapes[1]) != 2 or shapes[1][1] != 2:
        raise KernelError(
            f"real must be (n_real,) and complex (n_pairs, 2), not {shapes[0]} and {shapes[1]}"
        )
    if shapes[0][0] + 2 * shapes[1][0] != states:
        raise KernelError(
            f"{shapes[0][0]} real eigenvalues and {shapes[1][0]} pairs make "
            f"{shapes[0][0] + 2 * shapes[1][0]} states, and the sequences have {states}"
        )
