"""Predicted vectors from the words before: weights by position, and tails of exponentially fading weight.

    r_t = b + sum_{i=1..n} c_i o R[w_{t-i}] + sum_k a_k o u_k(t),    u_k(t) = lambda_k u_k(t-1) + F[w_{t-n-1}]

c_i are the weight vectors of the n last positions (Mnih 2010, eq 4.7, with a bias), o the elementwise product;
a_k weighs the k-th tail, which holds everything older, fading by lambda_k a word. Far words have vectors F of their
own, or those of near ones. Nothing comes from before the beginning of a sequence. A tail costs as much as one more
position, however far it reaches.

On a CUDA device all that is floating-point is a torch tensor there, and so are the results; the text is on the host.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import (
    as_offsets,
    check_floats,
    check_range,
    common_device,
    given,
    in_c_order,
)

__all__ = ["Context", "Forward", "Gradients", "backward", "check_text", "forward", "places_of"]

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
    text = check_text(table, ids, offsets, starts, ends, context, far)
    if tails is not None:
        tails = _check_shape(
            "tails", tails, (len(text.starts), *text.context.tail_weights.shape), text
        )
    device = common_device(table=text.table, bias=text.context.bias, tails=tails, far=text.far)
    result: Forward = resolve("context_sum", device)(*text[:6], tails, text.far, threads)
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
    text = check_text(table, ids, offsets, starts, ends, context, far)
    before = _check_shape(
        "before", before, (len(text.starts), *text.context.tail_weights.shape), text
    )
    rows = int(places_of(text.starts, text.ends)[-1])
    grad = _check_shape("grad", grad, (rows, len(text.context.bias)), text)
    device = common_device(table=text.table, before=before, grad=grad, far=text.far)
    result: Gradients = resolve("context_sum_backward", device)(
        *text[:6], before, grad, text.far, threads
    )
    return result


def places_of(starts: _Ints, ends: _Ints) -> NDArray[np.int64]:
    """Where the rows of each span begin among those of all spans, (spans + 1,)."""
    return np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)


class _Text(NamedTuple):
    """Arguments of both operations, checked: in C order, floats in the dtype of the table."""

    table: _Floats
    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    starts: _Ints
    ends: _Ints
    context: Context
    far: _Floats | None


def check_text(
    table: _Floats,
    ids: _Ints,
    offsets: _Ints,
    starts: _Ints,
    ends: _Ints,
    context: Context,
    far: _Floats | None,
) -> _Text:
    """The arguments as the loops need them. Raises KernelError."""
    table, ids = in_c_order(given(table)), np.asarray(ids)
    check_floats(table, 2, "table")
    check_range(ids, len(table), "ids")
    offsets = as_offsets(offsets, len(ids))
    starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    if starts.ndim != 1 or starts.shape != ends.shape:
        raise KernelError(f"starts {starts.shape} and ends {ends.shape} must be (spans,) both")
    last = len(ids)  # the position behind the last word
    if len(starts) and (
        starts.min() < 0 or (starts > ends).any() or starts.max() > last or ends.max() > last + 1
    ):
        raise KernelError(
            f"spans must lie in the positions 0 to {last} and not end before they start"
        )
    width, n, tails = table.shape[1], len(context.weights), len(context.rates)
    shapes = ((n, width), (width,), (tails,), (tails, width))
    text = _Text(table, np.ascontiguousarray(ids, np.int32), offsets, starts, ends, context, None)
    parts = zip(context._fields, context, shapes, strict=True)
    return text._replace(
        context=Context(*(_check_shape(name, part, shape, text) for name, part, shape in parts)),
        far=None if far is None else _check_shape("far", far, table.shape, text),
    )


def _check_shape(name: str, array: _Floats, shape: tuple[int, ...], text: _Text) -> _Floats:
    """``array`` in C order and the dtype of the table. Raises KernelError where it has another shape."""
    array = in_c_order(given(array), text.table.dtype)
    if tuple(array.shape) != tuple(shape):
        raise KernelError(f"{name} must be {tuple(shape)}, not {tuple(array.shape)}")
    return array
