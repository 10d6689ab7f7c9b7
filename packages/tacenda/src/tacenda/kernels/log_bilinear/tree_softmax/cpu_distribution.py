"""Whole distributions on the CPU: one product with all nodes, then down the tree, every node from its parent."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.log_bilinear.tree_softmax.arguments import check
from tacenda.kernels.log_bilinear.tree_softmax.codes import Codes
from tacenda.kernels.log_bilinear.tree_softmax.cpu import single_precision
from tacenda.kernels.machinery.compiled import njit

_Array = NDArray[Any]
_CELLS = 1 << 21  # activations of a block: 8 MB


@njit
def _descend(x, root, children, leaves, found):  # type: ignore[no-untyped-def]
    """found[t, code's word] = log of the summed probabilities of its leaves, from the root down."""
    stack = np.empty(len(children) + 1, np.int64)
    for t in range(len(x)):
        down = np.empty(len(children))
        total = found[t]
        total[:] = 0
        top, stack[0], down[root] = 1, root, 0.0
        while top:
            top -= 1
            node = stack[top]
            v = np.float64(x[t, node])
            small = math.log1p(math.exp(-abs(v)))
            for side in range(2):
                turned = v if side == 0 else -v
                log_prob = down[node] - small + min(turned, 0.0)
                child = children[node, side]
                if child >= 0:
                    down[child] = log_prob
                    stack[top] = child
                    top += 1
                else:
                    word = leaves[-1 - child]
                    before = total[word]  # 0 where none came before: a log-probability is below
                    if before == 0:
                        total[word] = min(log_prob, -1e-300)
                    else:
                        high, low = max(before, log_prob), min(before, log_prob)
                        total[word] = high + math.log1p(math.exp(low - high))


def distribution(
    vectors: _Array, codes: Codes, node_vectors: _Array, node_biases: _Array
) -> _Array:
    """See `tacenda.kernels.log_bilinear.tree_softmax.distribution`."""
    r, _, q, b = single_precision(check(vectors, None, codes, node_vectors, node_biases))
    children = codes.children
    found = np.empty((len(r), codes.n_words), np.float32)
    if not len(codes.nodes):
        found[:] = 0
        return found
    leaves = np.repeat(np.arange(codes.n_words), np.diff(codes.word_codes))
    size = max(1, _CELLS // max(len(q), 1))
    for i in range(0, len(r), size):
        block = np.empty((len(r[i : i + size]), codes.n_words))
        _descend(r[i : i + size] @ q.T + b, codes.root, children, leaves, block)
        found[i : i + size] = block
    return found
