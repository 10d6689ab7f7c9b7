"""Scaled forward-backward where transitions are products of positive features, in O(Z f) and not O(Z^2).

With x_i and y_j the features of the state left and of that reached, those of x divided by what makes rows sum to one,

    p(z_t = j | z_{t-1} = i) = x_i . y_j

the sum over states before is taken first (Chiu and Rush 2021, generalised softmax):

    a_1 = (s o o_1) / c_1,    m_t = X^T a_t,    a_t = (Y m_{t-1} o o_t) / c_t,    c_t = the sum of the numerator
    b_n = 1,    v_t = o_t o b_t / c_t,    w_t = Y^T v_t,    b_{t-1} = X w_t

The gradients of log p(x) are sum_t a_{t-1} w_t^T in X and sum_t v_t m_{t-1}^T in Y. States fall into classes as in
`tacenda.kernels.hidden_markov.block`, and only those of the token's class take part; one class is a model without that.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve

__all__ = ["Backward", "Classed", "Forward", "Model", "backward", "forward"]

_Floats = NDArray[np.floating[Any]]
_Ids = NDArray[np.integer[Any]]


class Model(NamedTuple):
    """One dtype, float32 or float64, C order.

    Attributes
    ----------
    left
        x (classes, k, features).
    reached
        y (classes, k, features).
    emissions
        p(word | state) (rows, k).
    starts
        s (classes, k), probabilities of the first state.
    """

    left: _Floats
    reached: _Floats
    emissions: _Floats
    starts: _Floats


class Classed(NamedTuple):
    """``classes`` (tokens,); ``words`` (tokens,), rows of the emissions; ``offsets`` (sequences + 1,)."""

    classes: _Ids
    words: _Ids
    offsets: _Ids


class Forward(NamedTuple):
    """``log_probs`` float64 (tokens,), natural, log c_t; ``states`` a (tokens, k)."""

    log_probs: NDArray[np.float64]
    states: _Floats


class Backward(NamedTuple):
    """Gradients of the log-likelihood in ``left`` and ``reached``; expected counts of ``emissions`` and ``starts``;
    ``posteriors`` (tokens, k).
    """

    left: _Floats
    reached: _Floats
    emissions: _Floats
    starts: _Floats
    posteriors: _Floats


def forward(model: Model, observed: Classed) -> Forward:
    """The filtered states, and the log-probability of every token given those before it.

    Sequences are taken side by side, those in the same class at the same time as one matrix product.

    Returns
    -------
    A token of probability zero has the log-probability -inf and a state of zeros; so has what follows it in its
    sequence. NaN propagates.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, or a row does not exist.
    """
    result: Forward = resolve("hmm_features")(model, observed)
    return result


def backward(model: Model, observed: Classed, found: Forward) -> Backward:
    """Gradients and expected counts; ``found`` is what `forward` gave for the same arguments.

    Raises
    ------
    KernelError
        As in `forward`.
    """
    result: Backward = resolve("hmm_features_backward")(model, observed, found)
    return result
