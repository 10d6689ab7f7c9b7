"""Blocks of a transition matrix between classes of states, from vectors of the states.

With x the vectors of the states left, y those of the states reached, c and c' the classes of pair u:

    A_u[j, i] = w_u[i] softmax_j (x_{c,i} . y_{c',j} + b_{c',j})          with weights (two levels: class, then state)
    A_u[j, i] = exp(x_{c,i} . y_{c',j} + b_{c',j} - l_{c,i})               with norms (one softmax over all states)

Only the blocks asked for are made. The gradient is that of expected counts N, as `hidden_markov.block` gives
them: D_u = N_u - (A_u / w_u) n_u with n_u[i] = sum_j N_u[j, i], or D_u = N_u with norms, and

    dx_{c} += D_u^T y_{c'},    dy_{c'} += D_u x_c,    db_{c'} += sum_i D_u.

On a CUDA device vectors, weights, norms, blocks and counts are torch tensors; sources and targets stay arrays.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import device_of

__all__ = ["Gradients", "Vectors", "backward", "forward"]

_Floats = NDArray[np.floating[Any]]
_Ids = NDArray[np.integer[Any]]


class Vectors(NamedTuple):
    """``left`` x (classes, k, width), ``reached`` y (classes, k, width), ``bias`` b (classes, k); one dtype."""

    left: _Floats
    reached: _Floats
    bias: _Floats


class Gradients(NamedTuple):
    """In the shapes of `Vectors`; ``departures`` n (pairs, k): the gradient in the logarithms of the weights, and
    what is taken from that of the norms.
    """

    left: _Floats
    reached: _Floats
    bias: _Floats
    departures: _Floats


def forward(
    vectors: Vectors,
    sources: _Ids,
    targets: _Ids,
    weights: _Floats | None = None,
    norms: _Floats | None = None,
    threads: int = 1,
) -> _Floats:
    """The blocks A (pairs, k, k), ``[u, j, i]`` from state i of the source to state j of the target.

    Parameters
    ----------
    vectors
        float32 or float64, C order.
    sources, targets
        c and c' (pairs,), sorted by the source.
    weights
        w (pairs, k), of two levels.
    norms
        l (classes, k), of one; exactly one of both is given.
    threads
        To share the pairs; no result depends on it.

    Returns
    -------
    In the dtype of the vectors. float32 exponentials are right to 2e-6 of themselves, and those below 1e-38 are
    taken as that. Releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, or a class does not exist.
    """
    result: _Floats = resolve("block_softmax", device_of(vectors.left))(
        vectors, sources, targets, weights, norms, threads
    )
    return result


def backward(
    vectors: Vectors,
    sources: _Ids,
    targets: _Ids,
    blocks: _Floats,
    counts: _Floats,
    weights: _Floats | None = None,
    threads: int = 1,
) -> Gradients:
    """The gradient of ``(counts * log(blocks)).sum()``, where counts do not change.

    Parameters
    ----------
    vectors, sources, targets, weights, threads
        As in `forward`; without weights the blocks were made with norms.
    blocks
        A, what `forward` gave.
    counts
        N (pairs, k, k).

    Raises
    ------
    KernelError
        As in `forward`.
    """
    result: Gradients = resolve("block_softmax_backward", device_of(vectors.left))(
        vectors, sources, targets, blocks, counts, weights, threads
    )
    return result
