"""Predicted vectors from the words before: weights by position, and tails of exponentially fading weight.

    r_t = b + sum_{i=1..n} c_i o R[w_{t-i}] + sum_k a_k o u_k(t),    u_k(t) = lambda_k u_k(t-1) + F[w_{t-n-1}]

c_i are the weight vectors of the n last positions (Mnih 2010, eq 4.7, with a bias), o the elementwise product;
a_k weighs the k-th tail, which holds everything older, fading by lambda_k a word. Far words have vectors F of their
own, or those of near ones. Nothing comes from before the beginning of a sequence. A tail costs as much as one more
position, however far it reaches.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve

__all__ = ["Context", "Forward", "Gradients", "backward", "forward"]

_Floats = NDArray[np.floating[Any]]
_Ints = NDArray[np.integer[Any]]


class Context(NamedTuple):
    """What turns words into predictions, in one dtype: c (n, width), b (width,), lambda (tails,), a (tails, width)."""

    weights: _Floats
    bias: _Floats
    rates: _Floats
    tail_weights: _Floats


class Forward(NamedTuple):
    """Predicted vectors r (rows, width), the spans one after another, and the tails u (spans, tails, width) at the
    first position of every span (``before``) and at the one behind its last (``after``).
    """

    vectors: _Floats
    before: _Floats
    after: _Floats


class Gradients(NamedTuple):
    """Of the words from n positions before a span to its last but one (all others have none): their numbers int32
    (touched,), each once, ascending, and rows (touched, width); the same of F, without rows where F is R; of c, b
    and a in their shapes.
    """

    words: NDArray[np.int32]
    rows: _Floats
    far_rows: _Floats
    weights: _Floats
    bias: _Floats
    tail_weights: _Floats


def forward(
    table: _Floats,
    ids: _Ints,
    offsets: _Ints,
    starts: _Ints,
    ends: _Ints,
    context: Context,
    tails: _Floats | None = None,
    far: _Floats | None = None,
    threads: int = 1,
) -> Forward:
    """The predicted vectors at spans of positions.

    Parameters
    ----------
    table
        R (words, width), float32; float64 is served by the reference alone.
    ids
        w (tokens,), all sequences one after another.
    offsets
        (sequences + 1,) from 0 to tokens; empty sequences are allowed.
    starts, ends
        (spans,): r is computed at the positions ``starts[i]`` to ``ends[i]``, the end left out. A span may
        run over the ends of sequences. Position ``tokens``, behind the last word, may be asked for.
    context
        See `Context`.
    tails
        (spans, tails, width): u at the first position of each span, such as ``after`` of the span before
        it. Where left out, they are summed up from the beginning of the sequence.
    far
        F (words, width), in the dtype of the table; R itself where left out.
    threads
        Threads to share the spans; no result depends on it.

    Returns
    -------
    See `Forward`. Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, or a number is out of range.
    """
    result: Forward = resolve("context_sum")(
        table, ids, offsets, starts, ends, context, tails, far, threads
    )
    return result


def backward(
    table: _Floats,
    ids: _Ints,
    offsets: _Ints,
    starts: _Ints,
    ends: _Ints,
    context: Context,
    before: _Floats,
    grad: _Floats,
    far: _Floats | None = None,
    threads: int = 1,
) -> Gradients:
    """Gradients of a loss, of which ``grad`` (rows, width) is the gradient by the predicted vectors.

    ``before`` is that of `Forward`; as part of the input it is taken for constant (the gradient of the words it
    was summed from is cut off there). Sums are in a fixed order, whatever the number of threads.
    """
    result: Gradients = resolve("context_sum_backward")(
        table, ids, offsets, starts, ends, context, before, grad, far, threads
    )
    return result
