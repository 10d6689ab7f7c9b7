"""Probabilities of words as paths through binary trees: what takes the place of a softmax over a vocabulary.

    P(w | r) = sum_{d in D(w)} prod_i P(d_i | q_i, r),      P(d_i = 1 | q_i, r) = sigma(r . q_i + b_i)

(Mnih 2010, eqs 4.3 to 4.6.) r is a predicted vector, D(w) the codes of word w; each is a path from the root to
a leaf, d_i = 1 where it turns left at the node with vector q_i and bias b_i. With every leaf of a tree being a
word the probabilities sum to one. A word costs the nodes of its codes rather than the whole vocabulary.

On a CUDA device all that is floating-point is a torch tensor there, and words may be one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.log_bilinear.tree_softmax.codes import Codes
from tacenda.kernels.machinery.arrays import (
    check_array,
    check_floats,
    check_range,
    common_device,
    given,
    in_c_order,
)

__all__ = [
    "Codes",
    "Gradients",
    "Step",
    "backward",
    "check_tree",
    "distribution",
    "forward",
    "step",
]

_Floats = NDArray[np.floating[Any]]
_Ints = NDArray[np.integer[Any]]


class Step(NamedTuple):
    """Natural log-probabilities, float64 (tokens,), and the gradient with respect to the vectors (tokens, width)."""

    log_probs: NDArray[np.float64]
    vectors: _Floats


class Gradients(NamedTuple):
    """Natural log-probabilities, and the gradients with respect to vectors and to the nodes that were visited."""

    log_probs: NDArray[np.float64]  # (tokens,)
    vectors: _Floats  # (tokens, width)
    nodes: NDArray[np.int32]  # (visited,), ascending
    node_vectors: _Floats  # (visited, width)
    node_biases: _Floats  # (visited,)


def forward(
    vectors: _Floats, words: _Ints, codes: Codes, node_vectors: _Floats, node_biases: _Floats
) -> NDArray[np.float64]:
    """Find log P(word | vector), natural, for pairs of both: (tokens,).

    Parameters
    ----------
    vectors
        r (tokens, width), float32; float64 is served by the reference alone. C order costs no copy.
    words
        (tokens,) of those that have codes.
    codes
        See `Codes`.
    node_vectors, node_biases
        q (nodes, width) and b (nodes,), in the dtype of the vectors.

    Returns
    -------
    A code's factors are multiplied and logarithms taken in float64. NaN and infinity in the vectors propagate.
    Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, or a word has no codes.
    """
    device = common_device(vectors=vectors, node_vectors=node_vectors, node_biases=node_biases)
    pairs = _check_pairs(vectors, words, codes, node_vectors, node_biases)
    result: NDArray[np.float64] = resolve("tree_softmax", device)(*pairs)
    return result


def step(
    vectors: _Floats,
    words: _Ints,
    codes: Codes,
    node_vectors: _Floats,
    node_biases: _Floats,
    grad: _Floats,
    sums: _Floats,
    bias_sums: _Floats,
    rate: float,
    threads: int = 1,
) -> Step:
    """Find log-probabilities and their gradients, and take a step on all nodes that were visited, in one.

    The step is that of `tacenda.kernels.shared.row_steps`. A node's gradient is a sum over its tokens in their order.

    Parameters
    ----------
    vectors, words, codes
        As in `forward`.
    node_vectors, node_biases, sums, bias_sums
        q (nodes, width) and b (nodes,) and their accumulators (nodes,) each, in the dtype of the vectors and in C
        order; changed in place.
    grad
        (tokens,), the gradient of the loss with respect to the log-probabilities.
    rate
        A positive number.
    threads
        Threads to share the tokens, then the nodes; no result depends on it.

    Raises
    ------
    KernelError
        As in `forward`.
    """
    device = common_device(
        vectors=vectors,
        node_vectors=node_vectors,
        node_biases=node_biases,
        sums=sums,
        bias_sums=bias_sums,
    )
    pairs = _check_pairs(vectors, words, codes, node_vectors, node_biases)
    nodes = node_vectors.shape[:1]
    check_array(node_vectors, node_vectors.shape, pairs[0], "node_vectors, changed in place,")
    check_array(node_biases, nodes, pairs[0], "node_biases, changed in place,")
    check_array(sums, nodes, pairs[0], "sums, changed in place,")
    check_array(bias_sums, nodes, pairs[0], "bias_sums, changed in place,")
    grad = in_c_order(given(grad), pairs[0].dtype)
    check_array(grad, pairs[1].shape, pairs[0], "grad")
    # not the nodes that the check returns: these are changed in place
    tables = node_vectors, node_biases, grad, sums, bias_sums
    result: Step = resolve("tree_softmax_step", device)(*pairs[:3], *tables, rate, threads)
    return result


def backward(
    vectors: _Floats,
    words: _Ints,
    codes: Codes,
    node_vectors: _Floats,
    node_biases: _Floats,
    grad: _Floats,
    threads: int = 1,
) -> Gradients:
    """Find log-probabilities and all their gradients, for who adds those of others to them before a step.

    The arguments are as in `step`, but nothing is changed.

    Raises
    ------
    KernelError
        As in `forward`.
    """
    device = common_device(vectors=vectors, node_vectors=node_vectors, node_biases=node_biases)
    pairs = _check_pairs(vectors, words, codes, node_vectors, node_biases)
    grad = in_c_order(given(grad), pairs[0].dtype)
    check_array(grad, pairs[1].shape, pairs[0], "grad")
    result: Gradients = resolve("tree_softmax_backward", device)(*pairs, grad, threads)
    return result


def distribution(
    vectors: _Floats, codes: Codes, node_vectors: _Floats, node_biases: _Floats
) -> _Floats:
    """Log P(w | vector) of every word, natural: (tokens, words) in the dtype of the vectors.

    One product with all node vectors, then every node's probability from its parent's: the cost of a flat
    softmax over as many words as there are leaves. Raises KernelError if the codes do not make up trees with
    one root, since probabilities would not sum to one.
    """
    vectors, q, b = check_tree(vectors, codes, node_vectors, node_biases)
    _ = codes.children  # refuses what is no tree
    result: _Floats = resolve("tree_softmax_distribution")(vectors, codes, q, b)
    return result


def check_tree(
    vectors: _Floats, codes: Codes, node_vectors: _Floats, node_biases: _Floats
) -> tuple[_Floats, _Floats, _Floats]:
    """Vectors, node vectors and biases in C order and one dtype. Raises KernelError."""
    vectors = in_c_order(given(vectors))
    check_floats(vectors, 2, "vectors")
    q = in_c_order(given(node_vectors), vectors.dtype)
    b = in_c_order(given(node_biases), vectors.dtype)
    if q.ndim != 2 or q.shape[1] != vectors.shape[1] or b.shape != q.shape[:1]:
        raise KernelError(
            f"node vectors {q.shape} and biases {b.shape} do not fit vectors of width {vectors.shape[1]}"
        )
    if codes.n_nodes > len(q):
        raise KernelError(f"the codes name node {codes.n_nodes - 1}, and there are {len(q)}")
    return vectors, q, b


def _check_pairs(
    vectors: _Floats, words: _Ints, codes: Codes, node_vectors: _Floats, node_biases: _Floats
) -> tuple[_Floats, NDArray[np.int32], Codes, _Floats, _Floats]:
    """The arguments of `forward`, one word for every vector. Raises KernelError."""
    vectors, q, b = check_tree(vectors, codes, node_vectors, node_biases)
    ids: Any = given(words)
    check_range(ids, codes.n_words, "words")
    if len(vectors) != len(ids):
        raise KernelError(f"there are {len(vectors)} vectors and {len(ids)} words")
    return vectors, in_c_order(ids, np.int32 if isinstance(ids, np.ndarray) else None), codes, q, b
