"""Operations of log-bilinear models on contexts: predicted vectors, and gradients of the words and weights of contexts.

On the CPU, only float32 is compiled, and float64 runs on the reference; a CUDA device serves both. Floating arrays and
results are torch tensors there; the text is on the host. Operations are re-entrant and release the GIL, and no result
depends on a number of threads.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import Array, Float, Int32, Int64, Offsets, below
from tacenda.errors import KernelError
from tacenda.kernels.machinery.arguments import cast, host
from tacenda.kernels.operation import operation


class Spans(NamedTuple):
    """A text on the host, and spans of its positions: span i has the positions ``starts[i]`` to ``ends[i] - 1``.

    A span may reach over the ends of sequences, and may include position ``tokens``, the one after the last word.
    """

    ids: Int32[Array, "tokens", below("words"), host]
    offsets: Offsets[Array, "sequences tokens"]
    starts: Int64[Array, "spans", host]
    ends: Int64[Array, "spans", host]

    @property
    def places(self) -> NDArray[np.int64]:
        """The first row of each span among the rows of all spans, and the number of rows: int64 (spans + 1,)."""
        return np.concatenate([[0], np.cumsum(self.ends - self.starts)]).astype(np.int64)


class Context(NamedTuple):
    """Parameters of predictions: c of the last n positions, b, and lambda and a of every tail."""

    weights: Float[Array, "n width", cast]
    bias: Float[Array, "width", cast]
    rates: Float[Array, "tails", cast]
    tail_weights: Float[Array, "tails width", cast]


class Predicted(NamedTuple):
    """Predicted vectors, and the tails at both ends of every span."""

    vectors: Any  # r (rows, width), the spans one after another
    before: Any  # u (spans, tails, width) at the first position of each span
    #: the same one position after its last, as if the sequence of its last position continued there
    after: Any


class ContextGradients(NamedTuple):
    """Gradients of the words from n positions before a span to its last but one, and of the weights."""

    words: NDArray[np.int32]  # (touched,): ids of the words that have a gradient, ascending
    rows: Any  # (touched, width), their gradients
    weights: Any  # of c, b and a, in their shapes
    bias: Any
    tail_weights: Any


def _check_spans(text: Spans, grad: Any = None) -> None:
    starts, ends = text.starts, text.ends
    last = len(text.ids)  # the position after the last word
    if len(starts) and (
        starts.min() < 0 or (starts > ends).any() or starts.max() > last or ends.max() > last + 1
    ):
        raise KernelError(
            f"spans must lie in the positions 0 to {last} and not end before they start"
        )
    if grad is not None and len(grad) != text.places[-1]:
        raise KernelError(f"grad must have {text.places[-1]} rows, not {len(grad)}")


@operation(prepare=_check_spans)
def context_sum(
    table: Float[Array, "words width"],
    text: Spans,
    context: Context,
    tails: Float[Array, "spans tails width", cast] | None = None,
    threads: int = 1,
) -> Predicted:
    """Predict vectors at spans of positions: weights by position, and tails of exponentially fading weight.

        r_t = b + sum_{i=1..n} c_i o R[w_{t-i}] + sum_k a_k o u_k(t),    u_k(t) = lambda_k u_k(t-1) + R[w_{t-n-1}]

    c_i are the weight vectors of the last n positions (Mnih 2010, eq 4.7, with a bias), o the elementwise product; a_k
    weighs the k-th tail, the sum of all older words, which fades by the factor lambda_k with every word. A sequence
    begins without words before it. A tail costs as much as one more position, however far it reaches.

    Parameters
    ----------
    table
        R.
    tails
        u at the first position of each span, which is ``after`` of the span before it if its sequence continues. Where
        a sequence begins at the first position, u must be 0, and ``after`` of the span before it is not: that has the
        words of the sequence that ended. By default, u is summed from the beginning of the sequence.
    threads
        The spans are shared between them on the CPU.
    """
    R, places, offsets, ids = table, text.places, text.offsets, text.ids
    c, b, rates, a = (part.astype(np.float64) for part in context)
    n, spans = len(c), len(text.starts)
    vectors = np.empty((places[-1], len(b)))
    before, after = np.zeros((spans, *a.shape)), np.zeros((spans, *a.shape))
    if tails is not None:
        before[:] = tails
    for s in range(spans):
        start = int(text.starts[s])
        begin = _find_beginning(offsets, start)
        if tails is None:
            for p in range(begin, start - n):
                before[s] = rates[:, None] * before[s] + R[ids[p]]
        u = before[s].copy()
        for t in range(start, int(text.ends[s])):
            if _find_beginning(offsets, t) != begin:
                begin, u = _find_beginning(offsets, t), np.zeros_like(u)
            row = b + (a * u).sum(axis=0)
            for i in range(1, min(n, t - begin) + 1):
                row += c[i - 1] * R[ids[t - i]]  # eq 4.7
            vectors[places[s] + t - start] = row
            if t - n >= begin and t < len(ids):
                u = rates[:, None] * u + R[ids[t - n]]
        after[s] = u
    return Predicted(*(part.astype(R.dtype) for part in (vectors, before, after)))


@operation(prepare=_check_spans)
def context_sum_backward(
    table: Float[Array, "words width"],
    text: Spans,
    context: Context,
    before: Float[Array, "spans tails width", cast],
    grad: Float[Array, "rows width", cast],
    threads: int = 1,
) -> ContextGradients:
    """Compute gradients of a loss with respect to R, c, b and a of `context_sum`.

    ``grad`` (rows, width) is the gradient of the loss with respect to the predicted vectors. The rates lambda and
    ``before``, of `Predicted`, are taken as constants: no gradient reaches the words that ``before`` was summed from.
    Sums have a fixed order, whatever the number of threads.
    """
    R, places, offsets, ids = table, text.places, text.offsets, text.ids
    c, _, rates, a = (part.astype(np.float64) for part in context)
    grad, n = grad.astype(np.float64), len(c)
    d_R, d_c, d_a = np.zeros(R.shape), np.zeros_like(c), np.zeros_like(a)
    touched: set[int] = set()
    for s in range(len(text.starts)):
        start, end = int(text.starts[s]), int(text.ends[s])
        first = begin = _find_beginning(offsets, start)
        touched.update(ids[max(start - n, 0) : max(end - 1, 0)].tolist())
        age: dict[int, int] = {}  # position -> steps since its word joined the tails
        for t in range(start, end):
            if _find_beginning(offsets, t) != begin:
                begin, age = _find_beginning(offsets, t), {}
            g = grad[places[s] + t - start]
            if begin == first:
                d_a += g * rates[:, None] ** (t - start) * before[s]
            for p, steps in age.items():
                d_a += g * rates[:, None] ** steps * R[ids[p]]
                d_R[ids[p]] += (a * rates[:, None] ** steps).sum(axis=0) * g
            for i in range(1, min(n, t - begin) + 1):
                d_c[i - 1] += g * R[ids[t - i]]
                d_R[ids[t - i]] += g * c[i - 1]
            age = {p: steps + 1 for p, steps in age.items()}
            if t - n >= begin and t < len(ids):
                age[t - n] = 0
    words = np.array(sorted(touched), np.int32)
    parts = (d_R[words], d_c, grad.sum(axis=0), d_a)
    return ContextGradients(words, *(part.astype(R.dtype) for part in parts))


def _find_beginning(offsets: Any, t: int) -> int:
    """Return the first position of the sequence of position t; position ``tokens`` continues the last word's."""
    if t == offsets[-1]:
        filled = offsets[:-1][np.diff(offsets) > 0]
        return int(filled[-1]) if len(filled) else 0
    return int(offsets[np.searchsorted(offsets, t, side="right") - 1])
