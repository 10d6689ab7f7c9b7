"""Forward-backward over features, the specification: token by token (Chiu and Rush 2021)."""

from itertools import pairwise

import numpy as np

from tacenda.kernels.hidden_markov.features import Backward, Classed, Forward, Model


def forward(model: Model, observed: Classed) -> Forward:
    """a_t = (Y X^T a_{t-1} o o_t) / c_t, where c_t makes a_t sum to one."""
    classes, words, offsets = observed
    x, y, o, s = (array.astype(np.float64) for array in model)
    c, a = np.empty(len(words)), np.empty((len(words), o.shape[1]))
    for begin, end in pairwise(offsets.tolist()):
        for t in range(begin, end):
            reached = s[classes[t]]
            if t > begin:
                reached = y[classes[t]] @ (x[classes[t - 1]].T @ a[t - 1])
            a[t] = reached * o[words[t]]
            c[t] = a[t].sum()
            if c[t] != 0:
                a[t] /= c[t]
    with np.errstate(divide="ignore"):
        return Forward(np.log(c), a.astype(model.left.dtype))


def backward(model: Model, observed: Classed, found: Forward) -> Backward:
    """v_t = o_t o b_t / c_t, w_t = Y^T v_t, b_{t-1} = X w_t; dX = sum_t a_{t-1} w_t^T, dY = sum_t v_t m_{t-1}^T."""
    classes, words, offsets = observed
    x, y, o, s = (array.astype(np.float64) for array in model)
    c, a = np.exp(found.log_probs), found.states.astype(np.float64)
    dx, dy, E, S = (np.zeros_like(array) for array in (x, y, o, s))
    for begin, end in pairwise(offsets.tolist()):
        b = np.ones(o.shape[1])
        for t in range(end - 1, begin - 1, -1):
            posterior = a[t] * b
            E[words[t]] += posterior
            if t == begin:
                S[classes[t]] += posterior
                continue
            v = o[words[t]] * b / c[t] if c[t] != 0 else 0 * b
            w = y[classes[t]].T @ v
            dx[classes[t - 1]] += np.outer(a[t - 1], w)
            dy[classes[t]] += np.outer(v, x[classes[t - 1]].T @ a[t - 1])
            b = x[classes[t - 1]] @ w
    return Backward(*(array.astype(model.left.dtype) for array in (dx, dy, E, S)))
