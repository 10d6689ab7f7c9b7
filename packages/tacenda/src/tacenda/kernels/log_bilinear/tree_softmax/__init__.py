"""Probabilities of words as paths through binary trees: what takes the place of a softmax over a vocabulary.

    P(w | r) = sum_{d in D(w)} prod_i P(d_i | q_i, r),      P(d_i = 1 | q_i, r) = sigma(r . q_i + b_i)

(Mnih 2010, eqs 4.3 to 4.6.) r is a predicted vector, D(w) the codes of word w; each is a path from the root to
a leaf, d_i = 1 where it turns left at the node with vector q_i and bias b_i. With every leaf of a tree being a
word the probabilities sum to one. A word costs the nodes of its codes rather than the whole vocabulary.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.log_bilinear.tree_softmax.codes import Codes
from tacenda.kernels.machinery.arrays import check_floats, check_range

__all__ = [
    "Codes",
    "Forward",
    "Gradients",
    "Step",
    "backward",
    "check_tree",
    "distribution",
    "forward",
    "starts_of",
    "step",
]

_Floats = NDArray[np.floating[Any]]
_Ints = NDArray[np.integer[Any]]


class Forward(NamedTuple):
    """Natural log-probabilities, float64 (tokens,), and what `backward` needs of them.

    ``starts`` int64 (tokens + 1,) says where in ``activations`` the r . q_i + b_i of a token's codes lie, in
    the order of `Codes`.
    """

    log_probs: NDArray[np.float64]
    starts: NDArray[np.int64]
    activations: _Floats


class Gradients(NamedTuple):
    """In the dtype of the vectors: of the predicted vectors (tokens, width), and of the nodes that were visited:
    their numbers int32 (visited,), each once, in the order of first visit, and the gradients of their vectors
    (visited, width) and biases (visited,). Those of all other nodes are zero.
    """

    vectors: _Floats
    nodes: NDArray[np.int32]
    node_vectors: _Floats
    node_biases: _Floats


class Step(NamedTuple):
    """Natural log-probabilities, float64 (tokens,), and the gradient by the predicted vectors (tokens, width)."""

    log_probs: NDArray[np.float64]
    vectors: _Floats


def forward(
    vectors: _Floats,
    words: _Ints,
    codes: Codes,
    node_vectors: _Floats,
    node_biases: _Floats,
    threads: int = 1,
) -> Forward:
    """Log P(word | vector), natural, for pairs.

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
    threads
        Threads to share the tokens; no result depends on it.

    Returns
    -------
    See `Forward`. A code's factors are multiplied and logarithms taken in float64. NaN and infinity in the
    vectors propagate. Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit or a word has no codes.
    """
    pairs = _check_pairs(vectors, words, codes, node_vectors, node_biases)
    result: Forward = resolve("tree_softmax")(*pairs, threads)
    return result


def backward(
    vectors: _Floats,
    words: _Ints,
    codes: Codes,
    node_vectors: _Floats,
    node_biases: _Floats,
    found: Forward,
    grad: _Floats,
    threads: int = 1,
) -> Gradients:
    """Gradients of a loss, of which ``grad`` (tokens,) is the gradient by the log-probabilities.

    The other arguments as in `forward`, which returned ``found``. Every node's gradient is a sum over its
    tokens in their order, whatever the number of threads.
    """
    pairs = _check_pairs(vectors, words, codes, node_vectors, node_biases)
    grad = _check_grad(grad, pairs[0])
    result: Gradients = resolve("tree_softmax_backward")(*pairs, found, grad, threads)
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
    epsilon: float = 1e-8,
    threads: int = 1,
) -> Step:
    """`forward`, `backward` and a step of `tacenda.kernels.shared.row_steps` on all nodes that were visited, in one.

    Parameters
    ----------
    vectors, words, codes, grad
        As in `backward`.
    node_vectors, node_biases, sums, bias_sums
        q (nodes, width) and b (nodes,) and their accumulators (nodes,) each, in the dtype of the vectors and in C
        order; changed in place.
    rate, epsilon
        Positive numbers.
    threads
        Threads to share the tokens, then the nodes; no result depends on it.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit or a word has no codes.
    """
    pairs = _check_pairs(vectors, words, codes, node_vectors, node_biases)
    _check_in_place(node_vectors, node_biases, sums, bias_sums)
    grad = _check_grad(grad, pairs[0])
    # not what the check returns: these are changed in place
    tables = node_vectors, node_biases, grad, sums, bias_sums
    result: Step = resolve("tree_softmax_step")(*pairs[:3], *tables, rate, epsilon, threads)
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


def starts_of(words: NDArray[np.int32], codes: Codes) -> NDArray[np.int64]:
    """Where each token's steps begin among those of all tokens, (tokens + 1,)."""
    bounds = codes.code_steps[codes.word_codes]
    lengths = bounds[words.astype(np.int64) + 1] - bounds[words]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def check_tree(
    vectors: _Floats, codes: Codes, node_vectors: _Floats, node_biases: _Floats
) -> tuple[_Floats, _Floats, _Floats]:
    """Vectors, node vectors and biases in C order and one dtype. Raises KernelError."""
    vectors = np.ascontiguousarray(vectors)
    check_floats(vectors, 2, "vectors")
    q = np.ascontiguousarray(node_vectors, vectors.dtype)
    b = np.ascontiguousarray(node_biases, vectors.dtype)
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
    words = np.asarray(words)
    check_range(words, codes.n_words, "words")
    if len(vectors) != len(words):
        raise KernelError(f"there are {len(vectors)} vectors and {len(words)} words")
    return vectors, np.ascontiguousarray(words, np.int32), codes, q, b


def _check_grad(grad: _Floats, vectors: _Floats) -> _Floats:
    """``grad`` (tokens,) in the dtype of the vectors. Raises KernelError."""
    grad = np.ascontiguousarray(grad, vectors.dtype)
    if grad.shape != (len(vectors),):
        raise KernelError(f"grad must be ({len(vectors)},), not {grad.shape}")
    return grad


def _check_in_place(
    node_vectors: _Floats, node_biases: _Floats, sums: _Floats, bias_sums: _Floats
) -> None:
    """What `step` changes: (nodes, width) and three times (nodes,), of one dtype, in C order. Raises KernelError."""
    named = {
        "node_vectors": node_vectors,
        "node_biases": node_biases,
        "sums": sums,
        "bias_sums": bias_sums,
    }
    for name, array in named.items():
        shape = node_vectors.shape if name == "node_vectors" else node_vectors.shape[:1]
        if not isinstance(array, np.ndarray) or not (
            array.shape == shape and array.dtype == node_vectors.dtype and array.flags.c_contiguous
        ):
            raise KernelError(
                f"{name} is changed in place and must be {node_vectors.dtype} {shape} in C order, "
                f"not {getattr(array, 'dtype', type(array))} {np.shape(array)}"
            )
