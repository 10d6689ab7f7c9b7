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

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import as_offsets, check_array, check_floats, common_device

__all__ = ["Gradients", "backward", "forward"]

_Floats = NDArray[np.floating[Any]]
_Ids = NDArray[np.integer[Any]]


class Gradients(NamedTuple):
    """Gradients in the shapes of ``words``, ``bias`` and ``states``."""

    words: _Floats
    bias: _Floats
    states: _Floats


def forward(words: _Floats, bias: _Floats, states: _Floats, offsets: _Ids) -> _Floats:
    """Find p(word | state) for the states of the word's class: o (words, k).

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
        Shapes or dtypes do not fit.
    """
    device = common_device(words=words, bias=bias, states=states)
    offsets = _checked(words, bias, states, offsets)
    result: _Floats = resolve("class_softmax", device)(words, bias, states, offsets)
    return result


def backward(
    words: _Floats, bias: _Floats, states: _Floats, offsets: _Ids, found: _Floats, counts: _Floats
) -> Gradients:
    """The gradient of ``(counts * log(found)).sum()``, with the counts held fixed.

    Parameters
    ----------
    words, bias, states, offsets
        As in `forward`.
    found
        o, what `forward` returned for them.
    counts
        E (words, k).

    Raises
    ------
    KernelError
        As in `forward`.
    """
    device = common_device(words=words, bias=bias, states=states, found=found, counts=counts)
    offsets = _checked(words, bias, states, offsets)
    for name, table in (("found", found), ("counts", counts)):
        check_array(table, (len(words), states.shape[1]), words, name)
    result: Gradients = resolve("class_softmax_backward", device)(
        words, bias, states, offsets, found, counts
    )
    return result


def _checked(words: _Floats, bias: _Floats, states: _Floats, offsets: Any) -> NDArray[np.int64]:
    """The offsets as int64, if they and the arrays fit together."""
    check_floats(words, 2, "words")
    check_array(words, words.shape, words, "words")
    check_array(bias, words.shape[:1], words, "bias")
    check_floats(states, 3, "states")
    check_array(states, (*states.shape[:2], words.shape[1]), words, "states")
    found = as_offsets(offsets, len(words))
    if len(found) != len(states) + 1:
        raise KernelError(
            f"there must be {len(states) + 1} offsets for {len(states)} classes, not {len(found)}"
        )
    return found
