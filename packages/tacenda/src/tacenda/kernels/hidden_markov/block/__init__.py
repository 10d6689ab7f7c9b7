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

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import (
    as_offsets,
    check_array,
    check_floats,
    check_range,
    common_device,
    on_host,
)

__all__ = ["Backward", "Forward", "Sequences", "backward", "forward", "inner_tokens"]

_Floats = NDArray[np.floating[Any]]
_Ids = NDArray[np.integer[Any]]


class Sequences(NamedTuple):
    """What was observed: sequences of tokens, one after another."""

    pairs: _Ids
    """u (tokens,): the block that leads to each token; not looked at for the first of a sequence."""
    words: _Ids
    """The row of ``emissions`` of each token (tokens,)."""
    first: _Ids
    """The row of ``starts`` of each sequence (sequences,); not looked at where the sequence is empty."""
    offsets: _Ids
    """Where each sequence begins, and the end (sequences + 1,)."""


class Forward(NamedTuple):
    """What the forward pass finds."""

    log_probs: NDArray[np.float64]
    """log c_t (tokens,), natural."""
    states: _Floats
    """a (tokens, k)."""


class Backward(NamedTuple):
    """Expected counts, in the shapes of ``blocks``, ``emissions`` and ``starts``."""

    blocks: _Floats
    emissions: _Floats
    starts: _Floats
    posteriors: _Floats
    """p(z_t | x) (tokens, k)."""


def forward(
    blocks: _Floats, emissions: _Floats, starts: _Floats, observed: Sequences, threads: int = 1
) -> Forward:
    """Find the filtered states, and the log-probability of every token given those before it.

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
        Threads that share the sequences; no result depends on it.

    Returns
    -------
    A token of probability zero has the log-probability -inf and a state of zeros; so has what follows it in its
    sequence. NaN propagates. Releases the GIL.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, or a row does not exist.
    """
    device, observed = _checked(blocks, emissions, starts, observed)
    result: Forward = resolve("hmm_block", device)(blocks, emissions, starts, observed, threads)
    return result


def backward(
    blocks: _Floats,
    emissions: _Floats,
    starts: _Floats,
    observed: Sequences,
    found: Forward,
    threads: int = 1,
) -> Backward:
    """Count the expected transitions, emissions and starts.

    The counts are the gradient of the summed log-probabilities with respect to the logarithms of ``blocks``,
    ``emissions`` and ``starts``.

    Parameters
    ----------
    blocks, emissions, starts, observed, threads
        As in `forward`.
    found
        What `forward` returned for them.

    Returns
    -------
    Arrays of the dtype of ``blocks``. Counts are summed token by token, pair by pair, in the order of the text
    whatever the number of threads. Releases the GIL.

    Raises
    ------
    KernelError
        As in `forward`.
    """
    device, observed = _checked(blocks, emissions, starts, observed, *found)
    check_array(found.states, (len(observed.words), blocks.shape[1]), blocks, "states")
    result: Backward = resolve("hmm_block_backward", device)(
        blocks, emissions, starts, observed, found, threads
    )
    return result


def inner_tokens(offsets: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The tokens that are not the first of their sequence, ascending."""
    inner = np.ones(int(offsets[-1]), bool)
    inner[offsets[:-1][np.diff(offsets) > 0]] = False
    return np.flatnonzero(inner)


def _checked(
    blocks: _Floats, emissions: _Floats, starts: _Floats, observed: Sequences, *found: Any
) -> tuple[str, Sequences]:
    """The device of the tables, and the observed sequences as int32 arrays with int64 offsets."""
    named = dict(zip(("log_probs", "states"), found, strict=False))
    device = common_device(blocks=blocks, emissions=emissions, starts=starts, **named)
    check_floats(blocks, 3, "blocks")
    k = blocks.shape[-1]
    check_array(blocks, (len(blocks), k, k), blocks, "blocks")
    check_array(emissions, (len(emissions), k), blocks, "emissions")
    check_array(starts, (len(starts), k), blocks, "starts")
    pairs, words, first, offsets = map(on_host, observed)
    offsets = as_offsets(offsets, len(words))
    if len(pairs) != len(words) or len(first) != len(offsets) - 1:
        raise KernelError(
            f"{len(pairs)} pairs, {len(words)} words, {len(first)} first rows and "
            f"{len(offsets) - 1} sequences do not fit together"
        )
    check_range(words, len(emissions), "words")
    check_range(pairs[inner_tokens(offsets)], len(blocks), "pairs")
    check_range(first[np.diff(offsets) > 0], len(starts), "first")
    pairs, words, first = (np.ascontiguousarray(part, np.int32) for part in (pairs, words, first))
    return device, Sequences(pairs, words, first, offsets)
