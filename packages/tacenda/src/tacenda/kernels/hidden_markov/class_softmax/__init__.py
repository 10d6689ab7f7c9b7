"""Softmax over the words of each class, for every state of the class.

    o_w[j] = exp(y_w . x_{c,j} + b_w) / sum_{w' in c} exp(y_{w'} . x_{c,j} + b_{w'}),   c the class of w

Words are sorted by class, so that a class is a product of two small matrices: k V d multiplications in all for k
states a class, and not Z V d. The gradient is that of expected counts E: D = E - o sum_{w in c} E, and

    dy_w = D_w x_c,    dx_c += D_w^T y_w,    db_w = sum_j D_w[j].

On a CUDA device all but the offsets are torch tensors.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import device_of

__all__ = ["Gradients", "backward", "forward"]

_Floats = NDArray[np.floating[Any]]
_Ids = NDArray[np.integer[Any]]


class Gradients(NamedTuple):
    """In the shapes of ``words``, ``bias`` and ``states``."""

    words: _Floats
    bias: _Floats
    states: _Floats


def forward(words: _Floats, bias: _Floats, states: _Floats, offsets: _Ids) -> _Floats:
    """p(word | state) for the states of the word's class: o (words, k).

    Parameters
    ----------
    words
        y (words, width), sorted by class; float32 or float64, C order.
    bias
        b (words,), in the same dtype.
    states
        x (classes, k, width), in the same dtype.
    offsets
        (classes + 1,): where each class begins among the words, and the end; a class may be empty.

    Returns
    -------
    In the dtype of the words. Releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit.
    """
    result: _Floats = resolve("class_softmax", device_of(words))(words, bias, states, offsets)
    return result


def backward(
    words: _Floats, bias: _Floats, states: _Floats, offsets: _Ids, found: _Floats, counts: _Floats
) -> Gradients:
    """The gradient of ``(counts * log(found)).sum()``, where counts do not change.

    Parameters
    ----------
    words, bias, states, offsets
        As in `forward`.
    found
        o, what it gave for them.
    counts
        E (words, k).

    Raises
    ------
    KernelError
        As in `forward`.
    """
    result: Gradients = resolve("class_softmax_backward", device_of(words))(
        words, bias, states, offsets, found, counts
    )
    return result
