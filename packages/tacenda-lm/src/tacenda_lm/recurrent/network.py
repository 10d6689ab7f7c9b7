"""The recurrent network: what it learns, its states along texts, its output, and the gradients of both.

    h_t = sigma(A h_{t-1} + B w_{t-1} + a) - 1/2,   p(w_t | h_t) = SoftMax(C h_t + b),   h_0 = 0

(Belanger and Kakade 2015, equations 18 and 19.) sigma is the logistic function, element by element. The paper has
neither biases nor the 1/2, which the biases make up for: the functions are the same. A state around zero is learned
from much faster, for else every step on C or A would move all scores or states by their sum. Everything is in the
dtype of the parameters.

Nearly all the time of training goes into three products with C, for the output, its gradient and that of C: six
operations a token, word and element of the state. Each is one call of BLAS for all the words of a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "RESTING",
    "Network",
    "States",
    "backward",
    "distribution",
    "forward",
    "output",
    "run",
    "step",
]

_Floats = npt.NDArray[np.floating[Any]]
_Ints = npt.NDArray[np.integer[Any]]

RESTING = 0.0  # every element of h_0
_CELLS = 1 << 23  # probabilities of words that are held at once: 32 MB


class Network(NamedTuple):
    """What is learned, all of one dtype."""

    transitions: _Floats  # A (width, width)
    inputs: _Floats  # B (types, width), the row of each word
    offsets: _Floats  # a (1, width)
    outputs: _Floats  # C and b (types, width + 1): the last column is b

    @property
    def width(self) -> int:
        """The elements of a state."""
        return len(self.transitions)


class States(NamedTuple):
    """The states of a window and what their gradients need."""

    before: _Floats  # (steps, streams, width), h_{t-1}, at rest where a sentence begins
    at: _Floats  # (steps, streams, width), h_t


def step(p: Network, h: _Floats, read: _Floats) -> _Floats:
    """Return h_t (rows, width) from h_{t-1} (rows, width) and what was ``read``, B w + a (rows, width)."""
    z = h @ p.transitions.T
    z += read
    # sigma(z) - 1/2 = tanh(z / 2) / 2, which cannot overflow
    z *= z.dtype.type(0.5)
    np.tanh(z, out=z)
    z *= z.dtype.type(0.5)
    return z


def run(p: Network, ids: _Ints, offsets: _Ints, first: _Floats) -> tuple[_Floats, _Floats]:
    """Return the state that predicts each id, (tokens, width), and that after each sequence, (sequences, width).

    ``first`` (sequences, width) are the states that predict the first id of each sequence. Sequences are read side by
    side, so that many short ones cost little more than their products.
    """
    read = p.inputs[ids] + p.offsets
    found = np.empty_like(read)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    begins, shorter = offsets[:-1][order], -lengths[order]
    last: _Floats = np.array(first, read.dtype)
    h: _Floats = last[order]
    for t in range(int(-shorter[0]) if len(order) else 0):
        n = int(np.searchsorted(shorter, -t))  # the others have ended
        places = begins[:n] + t
        found[places] = h[:n]
        h = step(p, h[:n], read[places])
        last[order[:n]] = h
    return found, last


def forward(
    p: Network, ids: _Ints, h: _Floats, anew: npt.NDArray[np.bool_], kept: _Floats | None
) -> States:
    """Return the states of a window of parallel streams.

    Parameters
    ----------
    p
        The network.
    ids
        (steps, streams), the word that each step reads, w_{t-1}.
    h
        (streams, width), the states before the window.
    anew
        (steps, streams), where the state before a step is put to rest.
    kept
        (steps, streams, width) what the rows of B are multiplied by, dropout; or None.
    """
    read = p.inputs[ids]
    if kept is not None:
        read *= kept
    read += p.offsets
    before, at = np.empty_like(read), read
    for t in range(len(ids)):
        before[t] = h
        before[t, anew[t]] = RESTING
        h = at[t] = step(p, before[t], read[t])
    return States(before, at)


def backward(p: Network, states: States, d_states: _Floats, anew: npt.NDArray[np.bool_]) -> _Floats:
    """Return the gradient of A h + B w + a, (steps, streams, width), from that of the states, which is used up.

    Of the gradient of the state before the window nothing is handed on: back-propagation is truncated there.
    """
    d_z = d_states
    for t in reversed(range(len(d_z))):
        if t + 1 < len(d_z):
            carried = d_z[t + 1] @ p.transitions
            carried[anew[t + 1]] = 0
            d_z[t] += carried
        d_z[t] *= 0.25 - states.at[t] ** 2  # the derivative of sigma(z) - 1/2
    return d_z


def output(
    p: Network, states: _Floats, targets: _Ints, gradient: _Floats | None = None
) -> tuple[_Floats, _Floats]:
    """Return natural log p(w_t | h_t) of the targets and the gradient of minus their sum.

    Parameters
    ----------
    p
        The network.
    states
        (tokens, width), as the output reads them.
    targets
        (tokens,), the words to predict.
    gradient
        Like ``p.outputs``, to be overwritten with the gradient of C and b; None where no gradient is wanted.

    Returns
    -------
    (tokens,) log-probabilities, and the gradient of the states, (tokens, width), which is empty without ``gradient``.
    """
    wanted = gradient is not None
    log_probs = np.empty(len(states), states.dtype)
    d_states = np.empty((len(states) if wanted else 0, p.width), states.dtype)
    for begin, read, e in _blocks(p, states):
        end = begin + len(read)
        rows, words = np.arange(len(read)), targets[begin:end]
        of_targets = e[rows, words]
        np.exp(e, out=e)
        sums = e.sum(axis=1)
        log_probs[begin:end] = of_targets - np.log(sums)
        if gradient is None:
            continue
        # the error of a row is e / its sum, less one at its target
        e[rows, words] -= sums
        np.divide(e @ p.outputs[:, :-1], sums[:, None], out=d_states[begin:end])
        read /= sums[:, None]
        if begin:
            gradient += e.T @ read
        else:
            np.matmul(e.T, read, out=gradient)
    return log_probs, d_states


def distribution(p: Network, states: _Floats) -> _Floats:
    """Return natural log-probabilities of every word after each state (tokens, width): (tokens, types)."""
    found = np.empty((len(states), len(p.outputs)), states.dtype)
    for begin, read, s in _blocks(p, states):
        s -= np.log(np.exp(s).sum(axis=1, keepdims=True))
        found[begin : begin + len(read)] = s
    return found


def _blocks(p: Network, states: _Floats) -> Iterator[tuple[int, _Floats, _Floats]]:
    """Yield blocks of rows: where each begins, its states with a one after each, and C h + b less its maximum.

    The last is (tokens, types): no number in it is above zero, so that its exponentials cannot overflow.
    """
    rows = max(1, _CELLS // len(p.outputs))
    for begin in range(0, len(states), rows):
        block = states[begin : begin + rows]
        read = np.concatenate([block, np.ones((len(block), 1), block.dtype)], axis=1)
        s = read @ p.outputs.T
        s -= s.max(axis=1, keepdims=True)
        yield begin, read, s
