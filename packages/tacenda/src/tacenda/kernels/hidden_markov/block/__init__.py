"""Scaled forward-backward of hidden Markov models whose states fall into observed classes.

Where every word belongs to one class, and every state to one, the class of each token is observed, so only a
block of the transition matrix leads from one token to the next. With the probabilities

    A_u[j, i] = p(z_t = j | z_{t-1} = i),  u the pair of classes of tokens t-1 and t,  o_t[j] = p(x_t | z_t = j)

the forward pass is (Rabiner 1989, section V.A; Chiu and Rush 2020, section 3)

    a_1 = (s o o_1) / c_1,    a_t = (A_u a_{t-1} o o_t) / c_t,    c_t = the sum of the numerator

so that log p(x_t | x_<t) = log c_t. The backward pass is

    b_n = 1,    v_t = o_t o b_t / c_t,    b_{t-1} = A_u^T v_t

and the expected counts, which are the gradient of the log-likelihood in the logarithms of the probabilities, are

    N_u[j, i] = sum_t A_u[j, i] v_t[j] a_{t-1}[i],    p(z_t = j | x) = a_t[j] b_t[j].

Matrices have the state that is reached in front: both passes then read rows. On a CUDA device the tables are torch
tensors, and so is what is found; ids stay arrays on the host.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import device_of

__all__ = ["Backward", "Forward", "Sequences", "backward", "forward"]

_Floats = NDArray[np.floating[Any]]
_Ids = NDArray[np.integer[Any]]


class Sequences(NamedTuple):
    """What was observed: sequences end to end.

    Attributes
    ----------
    pairs
        u (tokens,): the block that leads to each token; not looked at for the first of a sequence.
    words
        (tokens,): the row of ``emissions`` of each token.
    first
        (sequences,): the row of ``starts`` of each sequence; not looked at where it is empty.
    offsets
        (sequences + 1,): where each begins, and the end.
    """

    pairs: _Ids
    words: _Ids
    first: _Ids
    offsets: _Ids


class Forward(NamedTuple):
    """``log_probs`` float64 (tokens,), natural, log c_t; ``states`` a (tokens, k)."""

    log_probs: NDArray[np.float64]
    states: _Floats


class Backward(NamedTuple):
    """Expected counts, in the shapes of ``blocks``, ``emissions`` and ``starts``, and ``posteriors``
    p(z_t | x) (tokens, k).
    """

    blocks: _Floats
    emissions: _Floats
    starts: _Floats
    posteriors: _Floats


def forward(
    blocks: _Floats, emissions: _Floats, starts: _Floats, observed: Sequences, threads: int = 1
) -> Forward:
    """The filtered states, and the log-probability of every token given those before it.

    Parameters
    ----------
    blocks
        A (blocks, k, k), ``[u, j, i]`` from state i to state j; float32 or float64, C order.
    emissions
        p(word | state) (rows, k), in the same dtype.
    starts
        s (rows, k), probabilities of the first state, in the same dtype.
    observed
        Integers; any sequence may be empty.
    threads
        To share the sequences; no result depends on it.

    Returns
    -------
    A token of probability zero has the log-probability -inf and a state of zeros; so has what follows it in its
    sequence. NaN propagates. Releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, or a row does not exist.
    """
    result: Forward = resolve("hmm_block", device_of(blocks))(
        blocks, emissions, starts, observed, threads
    )
    return result


def backward(
    blocks: _Floats,
    emissions: _Floats,
    starts: _Floats,
    observed: Sequences,
    found: Forward,
    threads: int = 1,
) -> Backward:
    """Expected counts of transitions, emissions and starts: the gradient of the summed log-probabilities in the
    logarithms of ``blocks``, ``emissions`` and ``starts``.

    Parameters
    ----------
    blocks, emissions, starts, observed, threads
        As in `forward`.
    found
        What `forward` gave for them.

    Returns
    -------
    Arrays of the dtype of ``blocks``. Counts are summed token by token, pair by pair, in the order of the text
    whatever the number of threads. Releases the GIL.

    Raises
    ------
    KernelError
        As in `forward`.
    """
    result: Backward = resolve("hmm_block_backward", device_of(blocks))(
        blocks, emissions, starts, observed, found, threads
    )
    return result
