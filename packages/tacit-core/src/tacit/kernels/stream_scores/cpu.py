"""The scores of a text on the CPU, a token at a time; the next token's nodes are asked for beforehand."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.kernels.compiled import njit
from tacit.kernels.context_sum.arguments import check as check_context
from tacit.kernels.context_sum.arguments import check_far, check_tails
from tacit.kernels.context_sum.cpu import _fade, _predict, _sequence_of
from tacit.kernels.dispatch import UnsupportedShape
from tacit.kernels.prefetch import prefetch
from tacit.kernels.stream_scores import Scores
from tacit.kernels.stream_scores.arguments import check_first
from tacit.kernels.tree_softmax.arguments import check as check_tree
from tacit.kernels.tree_softmax.codes import Codes
from tacit.kernels.tree_softmax.cpu import _activate, _decay, _word

if TYPE_CHECKING:
    from tacit.kernels.context_sum import Context

_Array = NDArray[Any]
_HEAD = 256  # bytes of a row that are asked for; the processor sees where it is going and fetches the rest


@njit
def _scores(  # type: ignore[no-untyped-def]
    table, far, ids, offsets, c, b, rates, a, heads, steps, nodes, signs, q, q_b, first, u, given, most, longest, out
):  # fmt: skip
    n, tokens = len(c), len(ids)
    at = _sequence_of(offsets, first)
    begin = offsets[at]
    if not given:
        for k in range(len(rates)):
            for p in range(begin, first - n):
                _fade(u[k], rates[k], far[ids[p]])
    row = np.empty(len(b), np.float32)
    x, e, powers = (
        np.empty(longest, np.float32),
        np.empty(longest, np.float32),
        np.empty(longest, np.int32),
    )
    negatives, products = np.empty(most), np.empty(most)
    rows, size = q.ctypes.data, q.shape[1] * q.itemsize
    head = min(size, _HEAD)
    for t in range(first, tokens):
        if t >= offsets[at + 1]:
            while t >= offsets[at + 1]:
                at += 1
            begin = offsets[at]
            u[:] = 0
        if t + 1 < tokens:
            for j in range(steps[heads[ids[t + 1]]], steps[heads[ids[t + 1] + 1]]):
                prefetch(rows + nodes[j] * size, head)
        _predict(row, table, ids, c, b, a, u, t, min(n, t - begin))
        c0, c1 = heads[ids[t]], heads[ids[t] + 1]
        m = steps[c1] - steps[c0]
        _activate(row, q, q_b, nodes, steps[c0], steps[c1], x)
        _decay(x[:m], powers[:m], e[:m])
        out[t - first] = _word(c0, c1, steps, signs, x, e, negatives, products)
        if t - n >= begin:
            for k in range(len(rates)):
                _fade(u[k], rates[k], far[ids[t - n]])


def scores(
    table: _Array,
    ids: _Array,
    offsets: _Array,
    context: "Context",
    codes: Codes,
    node_vectors: _Array,
    node_biases: _Array,
    first: int = 0,
    tails: _Array | None = None,
    far: _Array | None = None,
) -> Scores:
    """See `tacit.kernels.stream_scores.scores`."""
    first = check_first(first, ids)
    nowhere = np.empty(0, np.int64)
    table, ids, offsets, *_, context = check_context(table, ids, offsets, nowhere, nowhere, context)
    if table.dtype != np.float32:
        raise UnsupportedShape(f"a {table.dtype} table; float32 is what is compiled")
    _, words, q, b = check_tree(table[:0], ids, codes, node_vectors, node_biases)
    u = np.zeros(context.tail_weights.shape, np.float32)
    if tails is not None:
        u[:] = check_tails(np.asarray(tails)[None], 1, context, "tails")[0]
    log_probs = np.empty(len(ids) - first)
    f = table if far is None else check_far(far, table)
    if len(ids):
        _scores(
            table, f, words, offsets, *context, *codes, q, b, first, u, tails is not None, *codes.most,
            log_probs,
        )  # fmt: skip
    return Scores(log_probs, u)
