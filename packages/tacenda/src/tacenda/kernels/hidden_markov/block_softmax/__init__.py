"""Blocks of a transition matrix between classes of states, from vectors of the states.

With x the vectors of the states left, y those of the states reached, c and c' the classes of pair u:

    A_u[j, i] = w_u[i] softmax_j (x_{c,i} . y_{c',j} + b_{c',j})          with weights (two levels: class, then state)
    A_u[j, i] = exp(x_{c,i} . y_{c',j} + b_{c',j} - l_{c,i})               with norms (one softmax over all states)

Only the blocks asked for are made. The gradient is that of expected counts N, as `hidden_markov.block` counts
them: D_u = N_u - (A_u / w_u) n_u with n_u[i] = sum_j N_u[j, i], or D_u = N_u with norms, and

    dx_{c} += D_u^T y_{c'},    dy_{c'} += D_u x_c,    db_{c'} += sum_i D_u.

On a CUDA device vectors, weights, norms, blocks and counts are torch tensors; sources and targets stay arrays.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import (
    check_array,
    check_floats,
    check_range,
    common_device,
    on_host,
)
from tacenda.offsets import rises

__all__ = ["Gradients", "Vectors", "backward", "forward"]

_Floats = NDArray[np.floating[Any]]
_Ids = NDArray[np.integer[Any]]


class Vectors(NamedTuple):
    """Vectors and biases of the states, in one dtype."""

    left: _Floats
    """x (classes, k, width), of the state left."""
    reached: _Floats
    """y (classes, k, width), of the state reached."""
    bias: _Floats
    """b (classes, k)."""


class Gradients(NamedTuple):
    """Gradients in the shapes of `Vectors`, and departures."""

    left: _Floats
    reached: _Floats
    bias: _Floats
    departures: _Floats
    """n (pairs, k): the gradient with respect to the logarithms of the weights, and what is taken from that with
    respect to the norms."""


def forward(
    vectors: Vectors,
    sources: _Ids,
    targets: _Ids,
    weights: _Floats | None = None,
    norms: _Floats | None = None,
    threads: int = 1,
) -> _Floats:
    """Make the blocks A (pairs, k, k), ``[u, j, i]`` from state i of the source to state j of the target.

    Parameters
    ----------
    vectors
        float32 or float64, C order.
    sources, targets
        c and c' (pairs,), sorted by the source.
    weights
        w (pairs, k), for two levels: class, then state.
    norms
        l (classes, k), for one level. Give either weights or norms.
    threads
        Threads that share the pairs; no result depends on it.

    Returns
    -------
    In the dtype of the vectors. float32 exponentials are right to 2e-6 of themselves, and those below 1e-38 are
    taken as that. Releases the GIL.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, or a class does not exist.
    """
    if (weights is None) == (norms is None):
        raise KernelError("give either weights or norms")
    device = common_device(**vectors._asdict(), weights=weights, norms=norms)
    sources, targets = _checked(vectors, sources, targets, weights)
    if norms is not None:
        check_array(norms, vectors.bias.shape, vectors.left, "norms")
    result: _Floats = resolve("block_softmax", device)(
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
    """The gradient of ``(counts * log(blocks)).sum()``, with the counts held fixed.

    Parameters
    ----------
    vectors, sources, targets, weights, threads
        As in `forward`; without weights the blocks were made with norms.
    blocks
        A, what `forward` returned.
    counts
        N (pairs, k, k).

    Raises
    ------
    KernelError
        As in `forward`.
    """
    device = common_device(**vectors._asdict(), blocks=blocks, counts=counts, weights=weights)
    sources, targets = _checked(vectors, sources, targets, weights)
    k = vectors.left.shape[1]
    for name, table in (("blocks", blocks), ("counts", counts)):
        check_array(table, (len(sources), k, k), vectors.left, name)
    result: Gradients = resolve("block_softmax_backward", device)(
        vectors, sources, targets, blocks, counts, weights, threads
    )
    return result


def _checked(
    vectors: Vectors, sources: Any, targets: Any, weights: _Floats | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sources and targets as int64, if they and the arrays fit together."""
    check_floats(vectors.left, 3, "left")
    classes, k, width = vectors.left.shape
    check_array(vectors.left, (classes, k, width), vectors.left, "left")
    check_array(vectors.reached, (classes, k, width), vectors.left, "reached")
    check_array(vectors.bias, (classes, k), vectors.left, "bias")
    sources, targets = on_host(sources), on_host(targets)
    check_range(sources, classes, "sources")
    check_range(targets, classes, "targets")
    if len(sources) != len(targets) or not rises(sources):
        raise KernelError(
            f"{len(sources)} sources and {len(targets)} targets must make pairs, sorted by their sources"
        )
    if weights is not None:
        check_array(weights, (len(sources), k), vectors.left, "weights")
    return sources.astype(np.int64), targets.astype(np.int64)
