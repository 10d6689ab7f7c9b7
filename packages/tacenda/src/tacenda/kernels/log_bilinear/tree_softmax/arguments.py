"""The checks of what the tree softmax is given, once for every backend."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.log_bilinear.tree_softmax.codes import Codes

_Array = NDArray[Any]


class Checked(NamedTuple):
    """In C order and one dtype."""

    vectors: _Array
    words: NDArray[np.int32]
    node_vectors: _Array
    node_biases: _Array


def check(
    vectors: _Array, words: _Array | None, codes: Codes, node_vectors: _Array, node_biases: _Array
) -> Checked:
    """The arrays as the loops need them; ``words`` None stands for none."""
    vectors = np.ascontiguousarray(vectors)
    if vectors.ndim != 2 or vectors.dtype not in (np.float32, np.float64):
        raise KernelError(
            f"vectors must be (tokens, width) in float32 or float64, not {vectors.dtype} {vectors.shape}"
        )
    q = np.ascontiguousarray(node_vectors, vectors.dtype)
    b = np.ascontiguousarray(node_biases, vectors.dtype)
    if q.ndim != 2 or q.shape[1] != vectors.shape[1] or b.shape != q.shape[:1]:
        raise KernelError(
            f"node vectors {q.shape} and biases {b.shape} do not fit vectors of width {vectors.shape[1]}"
        )
    if codes.n_nodes > len(q):
        raise KernelError(f"the codes name node {codes.n_nodes - 1}, and there are {len(q)}")
    words = np.empty(0, np.int32) if words is None else np.asarray(words)
    if words.ndim != 1 or (words.dtype.kind not in "iu" and words.size):
        raise KernelError(f"words must be (tokens,) integers, not {words.dtype} {words.shape}")
    if len(words) and (words.min() < 0 or words.max() >= codes.n_words):
        raise KernelError(
            f"words run from {words.min()} to {words.max()}, and {codes.n_words} have codes"
        )
    return Checked(vectors, np.ascontiguousarray(words, np.int32), q, b)


def check_pairs(vectors: _Array, words: _Array) -> None:
    """One word for every vector."""
    if len(vectors) != len(words):
        raise KernelError(f"there are {len(vectors)} vectors and {len(words)} words")


def check_grad(grad: _Array, vectors: _Array) -> _Array:
    """``grad`` (tokens,) in the dtype of the vectors."""
    grad = np.ascontiguousarray(grad, vectors.dtype)
    if grad.shape != (len(vectors),):
        raise KernelError(f"grad must be ({len(vectors)},), not {grad.shape}")
    return grad


def check_accumulators(
    node_vectors: _Array, node_biases: _Array, sums: _Array, bias_sums: _Array
) -> None:
    """What is to be changed in place: (nodes, width) and three times (nodes,), of one dtype, in C order."""
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


def starts(words: NDArray[np.int32], codes: Codes) -> NDArray[np.int64]:
    """Where each token's steps begin among those of all tokens: (tokens + 1,)."""
    bounds = codes.code_steps[codes.word_codes]
    lengths = bounds[words.astype(np.int64) + 1] - bounds[words]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
