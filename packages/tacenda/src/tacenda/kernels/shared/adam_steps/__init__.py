"""A step of Adam on an array (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1).

    m += (1 - beta_1) (g - m),   v = beta_2 v + (1 - beta_2) g^2,
    W -= rate m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon)

On a CUDA device all arrays are torch tensors there.
"""

from typing import Any

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import common_device

__all__ = ["BETA_1", "BETA_2", "EPSILON", "step"]

_Array = Any  # of numpy, or a tensor of torch

# decay of the mean and of the mean square of gradients, and what keeps the division finite
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


def step(
    table: _Array, mean: _Array, square: _Array, gradient: _Array, rate: float, t: int
) -> tuple[_Array, _Array, _Array]:
    """Make step number ``t``, from 1; table, mean and square are changed in place.

    Parameters
    ----------
    table, mean, square
        W, m and v, of one shape and one floating dtype.
    gradient
        g, likewise.
    rate
        Of this step.
    t
        Counts the steps of the array.

    Returns
    -------
    Table, mean and square. NaN propagates.

    Raises
    ------
    KernelError
        Shapes do not fit.
    """
    device = common_device(table=table, mean=mean, square=square, gradient=gradient)
    for name, array in (("mean", mean), ("square", square), ("gradient", gradient)):
        if array.shape != table.shape:
            raise KernelError(f"{name} must be {tuple(table.shape)}, not {tuple(array.shape)}")
    result: tuple[_Array, _Array, _Array] = resolve("adam_steps", device)(
        table, mean, square, gradient, rate, t
    )
    return result
