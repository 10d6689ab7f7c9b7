"""Smoothing token sequences with a fitted LDS: gather, two scans, two products.

The recursions a_t = F' a_{t-1} + K' w_t and b_t = J b_{t+1} + K' w_t (``tacit_embeddings.lds.two_sided``) are
run in the basis of the eigenvectors of F' and J, where a step is elementwise; what is left is one large
product per direction, at the full rate of the matrix unit and whatever the batch: a single document is as
fast per token as a thousand. Where eigenvectors are too ill-conditioned for float32 the dense recurrence runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.errors import KernelError
from tacit.kernels import linear_recurrence, modal_recurrence
from tacit_embeddings.lds.linear_algebra import Matrix

Float32 = npt.NDArray[np.float32]
Offsets = npt.NDArray[np.int64]

#: Rounding of float32 is magnified by the condition of the eigenvectors; beyond this the dense form runs.
MAXIMUM_CONDITION = 1e5
_ROUNDS = 2


class Messages(NamedTuple):
    """The parts of the smoothed mean xs = own + past + future, each (tokens, states) float32."""

    own: Float32
    past: Float32
    future: Float32


class _Direction:
    """One recursion over packed sequences, y_t = M y_{t-1} + K' w_t, with inputs added at the first token."""

    def __init__(self, M: Matrix, table: Float32, reverse: bool) -> None:
        self._M = M
        self._reverse = reverse
        self._modal = None
        try:
            modes = modal_recurrence.decompose(M)
        except KernelError:
            modes = None
        if modes is not None and modes.condition <= MAXIMUM_CONDITION:
            self._modal = (modes.real.astype(np.float32), modes.complex.astype(np.float32))
            self._to_modes = modes.P_inv.T.astype(np.float32)
            self._from_modes = modes.P.T.astype(np.float32)
            self._inputs = table @ self._to_modes
        else:
            self._inputs = table

    def gather(self, ids: npt.NDArray[np.integer]) -> Float32:
        """Inputs K' w_t in the recursion's own basis (tokens, states)."""
        return self._inputs.take(ids, axis=0)

    def run(self, u: Float32, offsets: Offsets) -> Float32:
        """The recursion's states, in its own basis (tokens, states)."""
        if self._modal is not None:
            real, pairs = self._modal
            return np.asarray(
                modal_recurrence.forward(real, pairs, u, offsets, reverse=self._reverse)
            )
        M = self._M.astype(np.float32)
        return np.asarray(linear_recurrence.forward(M, u, offsets, reverse=self._reverse))

    def inward(self, x: Float32) -> Float32:
        """Rows in output coordinates, brought to the recursion's own basis."""
        return x @ self._to_modes if self._modal is not None else x

    def outward(self, y: Float32) -> Float32:
        """Rows in the recursion's own basis, brought to output coordinates."""
        return y @ self._from_modes if self._modal is not None else y


class Smoother:
    """Inference with a fitted model. Re-entrant: nothing is written after construction.

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
        self._forward = _Direction(forward, table, reverse=False)
        self._backward = _Direction(backward, table, reverse=True)
        self._left_end = left_end.T.astype(np.float32)
        self._right_end = right_end.T.astype(np.float32)

    def sums(
        self, ids: npt.NDArray[np.integer], offsets: Offsets, *, exact_ends: bool
    ) -> tuple[Float32, Float32]:
        """The sums a and b, both (tokens, states) float32: own + past and own + future.

        Args:
            ids: (tokens,) packed sequences.
            offsets: (sequences + 1,) where each begins, and the end.
            exact_ends: integrate over the unobserved words outside every sequence.
        """
        forward, backward = self._forward, self._backward
        u_a = forward.gather(ids)
        a = forward.run(u_a, offsets)
        u_b = backward.gather(ids)
        if not exact_ends or not len(ids):
            return forward.outward(a), backward.outward(backward.run(u_b, offsets))
        filled = np.flatnonzero(np.diff(offsets))
        first, last = offsets[filled], offsets[filled + 1] - 1
        start_a, start_b = u_a[first], u_b[last]
        for remaining in reversed(range(_ROUNDS)):
            future = forward.outward(a[last]) @ self._right_end
            u_b[last] = start_b + backward.inward(future)
            b = backward.run(u_b, offsets)
            past = backward.outward(b[first]) @ self._left_end
            if remaining:
                u_a[first] = start_a + forward.inward(past)
                a = forward.run(u_a, offsets)
        return forward.outward(a), backward.outward(b)

    def messages(
        self, ids: npt.NDArray[np.integer], offsets: Offsets, *, exact_ends: bool
    ) -> Messages:
        """own, past and future of every token; arguments as in ``sums``."""
        a, b = self.sums(ids, offsets, exact_ends=exact_ends)
        own = self.table.take(ids, axis=0)
        a -= own
        b -= own
        return Messages(own, a, b)
