"""The checks of what the context sum is given, once for every backend."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.machinery.arrays import as_offsets

if TYPE_CHECKING:
    from tacenda.kernels.log_bilinear.context_sum import Context

_Array = NDArray[Any]


class Checked(NamedTuple):
    """In C order and one dtype; ``places`` (spans + 1,) says which rows belong to a span."""

    table: _Array
    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    places: NDArray[np.int64]
    context: "Context"


def check(
    table: _Array, ids: _Array, offsets: _Array, starts: _Array, ends: _Array, context: "Context"
) -> Checked:
    """The arrays as the loops need them."""
    table, ids = np.ascontiguousarray(table), np.asarray(ids)
    if table.ndim != 2 or table.dtype not in (np.float32, np.float64):
        raise KernelError(
            f"table must be (words, width) in float32 or float64, not {table.dtype} {table.shape}"
        )
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
        raise KernelError(f"ids must be (tokens,) integers, not {ids.dtype} {ids.shape}")
    if len(ids) and (ids.min() < 0 or ids.max() >= len(table)):
        raise KernelError(
            f"ids run from {ids.min()} to {ids.max()}, and the table has {len(table)} rows"
        )
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
    places = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
    width = table.shape[1]
    n, tails = len(context.weights), len(context.rates)
    shapes = ((n, width), (width,), (tails,), (tails, width))
    parts = [np.ascontiguousarray(part, table.dtype) for part in context]
    for name, part, shape in zip(context._fields, parts, shapes, strict=True):
        if part.shape != shape:
            raise KernelError(f"{name} must be {shape}, not {part.shape}")
    return Checked(
        table,
        np.ascontiguousarray(ids, np.int32),
        offsets,
        starts,
        ends,
        places,
        type(context)(*parts),
    )


def check_tails(tails: _Array, spans: int, context: "Context", what: str) -> _Array:
    """U (spans, tails, width) in the dtype of the context."""
    tails = np.ascontiguousarray(tails, context.bias.dtype)
    shape = (spans, *context.tail_weights.shape)
    if tails.shape != shape:
        raise KernelError(f"{what} must be {shape}, not {tails.shape}")
    return tails


def check_grad(grad: _Array, rows: int, context: "Context") -> _Array:
    """The gradient by the predicted vectors, (rows, width)."""
    grad = np.ascontiguousarray(grad, context.bias.dtype)
    if grad.shape != (rows, len(context.bias)):
        raise KernelError(f"grad must be {(rows, len(context.bias))}, not {grad.shape}")
    return grad


def check_far(far: _Array, table: _Array) -> _Array:
    """F like R."""
    far = np.ascontiguousarray(far, table.dtype)
    if far.shape != table.shape:
        raise KernelError(f"far must be {table.shape} as the table is, not {far.shape}")
    return far
