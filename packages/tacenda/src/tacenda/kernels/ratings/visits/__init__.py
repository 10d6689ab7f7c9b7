"""Visits of stochastic gradient descent to many rows at once, while the other side of the table stays as it is.

    r_ui ~ mean + b_u + c_i + x_u . z_i,     x_u = y_u + s_u

For each row u that is visited, and each of its ratings in an order that depends on seed and row alone, with
e = v_u w_i (r - prediction), as a rating weighs v_u w_i,

    y_u += alpha (e z_i - lambda_u y_u),   b_u += beta (e - eta_u b_u),     both from old values.

s_u is what is known of the row beforehand, the mean of its prior; without one it is zero. Rows do not see each other,
so they can be visited side by side: users with the items held, then items with the users held. Factorizations are
trained so on a device (`tacenda_surprise.factorization`); `tacenda.kernels.ratings.sgd` changes both
sides at every rating instead, one user after another.

The order is that of the arrays, from a place drawn at random to the end, and then from the beginning.
"""

from typing import Any, NamedTuple

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import (
    as_offsets,
    check_array,
    check_range,
    common_device,
    given,
)

__all__ = ["Side", "Visited", "visit"]

_Array = Any  # of numpy, or a tensor of torch


class Side(NamedTuple):
    """One side of the table, float32 in C order: what belongs to its rows, numbered as they are in the model."""

    factors: _Array
    """y (rows, width)."""
    biases: _Array
    """b (rows,)."""
    factor_penalties: _Array
    """lambda (rows,)."""
    bias_penalties: _Array
    """eta (rows,)."""
    weights: _Array
    """v (rows,)."""


class Visited(NamedTuple):
    """What visits changed, and what they found."""

    factors: _Array
    """Those of the side, changed in place."""
    biases: _Array
    """Likewise."""
    errors: _Array
    """The sum of (r - prediction)^2 over the ratings of each row visited (visited,), every one from before its step."""
    sums: _Array
    """The sum of e z_i likewise (visited, width); no rows without a prior."""


def visit(
    offsets: _Array,
    ids: _Array,
    values: _Array,
    rows: _Array,
    side: Side,
    others: _Array,
    other_biases: _Array,
    other_weights: _Array,
    mean: float,
    rates: tuple[float, float],
    seed: int,
    prior: _Array | None = None,
) -> Visited:
    """Visit ``rows``; the side's factors and biases are changed in place.

    On a CUDA device all floating arrays are torch tensors there; offsets, ids and rows may be arrays or tensors.

    Parameters
    ----------
    offsets, ids, values
        The ratings of the rows visited, one row after another: (visited + 1,), (ratings,) rows of ``others`` and
        (ratings,) float32.
    rows
        Which row of the side each is (visited,), none of them twice. Many ratings first is fastest on a device.
    side
        See `Side`.
    others, other_biases, other_weights
        z (others, width), c (others,) and w (others,), float32.
    mean
        Subtracted from every rating.
    rates
        alpha and beta; 0 leaves what it belongs to as it is.
    seed
        Of the places where the orders begin.
    prior
        s (visited, width), float32.

    Returns
    -------
    See `Visited`. Sums are in float32. The same arguments give the same bits on one kind of device. Re-entrant on
    different tables; releases the GIL.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, or a number is out of range.
    """
    device = common_device(**side._asdict(), values=values, others=others, prior=prior)
    offsets, ids, rows = given(offsets), given(ids), given(rows)
    (n, width), visited = side.factors.shape, len(rows)
    shapes = {
        "factors": (n, width),
        "biases": (n,),
        "factor_penalties": (n,),
        "bias_penalties": (n,),
        "weights": (n,),
    }
    for name, shape in shapes.items():
        check_array(getattr(side, name), shape, side.factors, name)
    check_array(values, tuple(ids.shape), side.factors, "values")
    check_array(others, (len(others), width), side.factors, "others")
    check_array(other_biases, (len(others),), side.factors, "other_biases")
    check_array(other_weights, (len(others),), side.factors, "other_weights")
    if prior is not None:
        check_array(prior, (visited, width), side.factors, "prior")
    if str(side.factors.dtype).removeprefix("torch.") != "float32":
        raise KernelError(f"factors must be float32, not {side.factors.dtype}")
    offsets = as_offsets(offsets, len(ids), pieces=visited)
    check_range(ids, len(others), "ids")
    check_range(rows, n, "rows")
    result: Visited = resolve("rating_visits", device)(
        offsets, ids, values, rows, side, others, other_biases, other_weights, float(mean), rates,
        seed % (1 << 64), prior,
    )  # fmt: skip
    return result
