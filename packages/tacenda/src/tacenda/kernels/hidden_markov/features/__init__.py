"""Scaled forward-backward where transitions are products of positive features, in O(Z f) and not O(Z^2).

With x_i and y_j the features of the state left and of that reached, those of x divided by what makes rows sum to one,

    p(z_t = j | z_{t-1} = i) = x_i . y_j

the sum over states before is taken first (Chiu and Rush 2021, generalised softmax):

    a_1 = (s o o_1) / c_1,    m_t = X^T a_t,    a_t = (Y m_{t-1} o o_t) / c_t,    c_t = the sum of the numerator
    b_n = 1,    v_t = o_t o b_t / c_t,    w_t = Y^T v_t,    b_{t-1} = X w_t

The gradients of log p(x) are sum_t a_{t-1} w_t^T with respect to X and sum_t v_t m_{t-1}^T with respect to Y. States
fall into classes as in `tacenda.kernels.hidden_markov.block`, and only those of the token's class take part; a model
with one class has no such restriction.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.hidden_markov.block import Forward
from tacenda.kernels.machinery.arrays import as_offsets, check_array, check_floats, check_range

__all__ = ["Backward", "Classed", "Forward", "Model", "backward", "forward"]

_Floats = NDArray[np.floating[Any]]
_Ids = NDArray[np.integer[Any]]


class Model(NamedTuple):
    """Tables in one dtype, float32 or float64, in C order."""

    left: _Floats
    """x (classes, k, features)."""
    reached: _Floats
    """y (classes, k, features)."""
    emissions: _Floats
    """p(word | state) (rows, k)."""
    starts: _Floats
    """s (classes, k), probabilities of the first state."""


class Classed(NamedTuple):
    """What was observed: sequences of tokens, one after another."""

    classes: _Ids
    """The class of each token (tokens,)."""
    words: _Ids
    """The row of the emissions of each token (tokens,)."""
    offsets: _Ids
    """Where each sequence begins, and the end (sequences + 1,)."""


class Backward(NamedTuple):
    """Gradients with respect to ``left`` and ``reached``; expected counts of ``emissions`` and ``starts``."""

    left: _Floats
    reached: _Floats
    emissions: _Floats
    starts: _Floats


def forward(model: Model, observed: Classed) -> Forward:
    """Find the filtered states, and the log-probability of every token given those before it.

    Sequences are taken side by side: those that are in the same class at the same time make one matrix product.

    Returns
    -------
    A token of probability zero has the log-probability -inf and a state of zeros; so has what follows it in its
    sequence. NaN propagates.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, or a row does not exist.
    """
    result: Forward = resolve("hmm_features")(model, _checked(model, observed))
    return result


def backward(model: Model, observed: Classed, found: Forward) -> Backward:
    """Find gradients and expected counts; ``found`` is what `forward` returned for the same arguments.

    Raises
    ------
    KernelError
        As in `forward`.
    """
    observed = _checked(model, observed)
    check_array(found.states, (len(observed.words), model.left.shape[1]), model.left, "states")
    result: Backward = resolve("hmm_features_backward")(model, observed, found)
    return result


def _checked(model: Model, observed: Classed) -> Classed:
    """The observed sequences as int64 arrays, if they and the model fit together."""
    check_floats(model.left, 3, "left")
    classes, k, _ = model.left.shape
    check_array(model.left, model.left.shape, model.left, "left")
    check_array(model.reached, model.left.shape, model.left, "reached")
    check_array(model.emissions, (len(model.emissions), k), model.left, "emissions")
    check_array(model.starts, (classes, k), model.left, "starts")
    found = Classed(*(np.ascontiguousarray(part, np.int64) for part in observed))
    if len(found.classes) != len(found.words):
        raise KernelError(f"there are {len(found.classes)} classes and {len(found.words)} words")
    check_range(found.classes, classes, "classes")
    check_range(found.words, len(model.emissions), "words")
    return found._replace(offsets=as_offsets(found.offsets, len(found.words)))
