"""Large tables of vectors of which a step touches a few rows: the rows are leaves of autograd, not the table.

AdaGrad with one accumulator a row (as `tacenda.kernels.shared.row_steps`), on whatever device the table is: nothing
is ever done to rows that a batch does not contain.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["RowTable", "Rows"]

_START = 1e-6  # of the accumulators


class Rows(NamedTuple):
    """Rows of a table as a batch uses them.

    Attributes
    ----------
    ids
        int64 (rows,), ascending, each once.
    places
        int64, of the shape that was asked for: which of ``ids`` stands where.
    values
        (rows, width), a leaf that collects the gradient.
    """

    ids: Tensor
    places: Tensor
    values: Tensor


class RowTable:
    """A float32 table (all, width) and its accumulators (all, 1)."""

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.sums = torch.full((len(values), 1), _START, device=values.device)

    def rows(self, ids: Tensor) -> Rows:
        """The rows with these ids (any shape), as leaves."""
        different, places = torch.unique(ids, return_inverse=True)
        return Rows(different, places, self.values[different].requires_grad_())

    def step(self, rows: Rows, rate: float) -> None:
        """S += mean(g ** 2), w -= rate g / sqrt(s), for these rows; none if they have no gradient."""
        gradient = rows.values.grad
        if gradient is None:
            return
        sums = self.sums[rows.ids] + gradient.square().mean(1, keepdim=True)
        self.sums[rows.ids] = sums
        self.values[rows.ids] = rows.values.detach() - rate * gradient / sums.sqrt()
