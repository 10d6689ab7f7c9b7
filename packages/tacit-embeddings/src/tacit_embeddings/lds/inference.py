"""Smoothing token sequences with a fitted LDS: gather, two scans, two products.

The recursions a_t = F' a_{t-1} + K' w_t and b_t = J b_{t+1} + K' w_t (``tacit_embeddings.lds.two_sided``) are
run in the basis of the eigenvectors of F' and J, where a step is elementwise; what is left is one large
product per direction, at the full rate of the matrix unit and whatever the batch: a single document is as
fast per token as a thousand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacit_embeddings.lds.ends import ExactEnds
from tacit_embeddings.lds.linear_algebra import Matrix
from tacit_embeddings.lds.recurrence import Float32, Offsets, Recurrence

__all__ = ["Float32", "Messages", "Offsets", "Smoother"]


class Messages(NamedTuple):
    """The parts of the smoothed mean xs = own + past + future, each (tokens, states) float32."""

    own: Float32
    past: Float32
    future: Float32


class Smoother:
    """Inference with a fitted model. Re-entrant.

    Args:
        table: (vocabulary, states) float32, row i being the input K' w of word i.
        forward: F' (states, states).
        backward: J (states, states).
        left_end: (states, states), maps b_1 to the past message at the first token.
        right_end: (states, states), maps a_n to the future message at the last token.
    """

    def __init__(
        self,
        table: Float32,
        forward: Matrix,
        backward: Matrix,
        left_end: Matrix,
        right_end: Matrix,
    ) -> None:
        self.table = table
        self._forward = Recurrence(forward, table, reverse=False)
        self._backward = Recurrence(backward, table, reverse=True)
        self._ends = ExactEnds(self._forward, self._backward, left_end, right_end)

    def messages(
        self, ids: npt.NDArray[np.integer], offsets: Offsets, *, exact_ends: bool
    ) -> Messages:
        """own, past and future of every token.

        Args:
            ids: (tokens,) packed sequences.
            offsets: (sequences + 1,) where each begins, and the end.
            exact_ends: integrate over the unobserved words outside every sequence.
        """
        forward, backward = self._forward, self._backward
        u_a, u_b = forward.gather(ids), backward.gather(ids)
        a, b = forward.run(u_a, offsets), backward.run(u_b, offsets)
        filled = np.flatnonzero(np.diff(offsets))
        first, last = offsets[filled], offsets[filled + 1] - 1
        if exact_ends and len(filled):
            past, future = self._ends.solve(a[last], b[first], last - first + 1)
            u_a[first] += past
            u_b[last] += future
            a = forward.run(u_a, offsets, out=a)
            b = backward.run(u_b, offsets, out=b)
        # A word's own input goes before the change of basis, which would leave its rounding behind.
        a -= u_a
        b -= u_b
        if exact_ends and len(filled):
            a[first], b[last] = past, future
        return Messages(self.table.take(ids, axis=0), forward.outward(a), backward.outward(b))
