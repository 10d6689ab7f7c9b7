"""A recurrence over packed sequences in the basis where a step is cheapest, and powers of its matrix.

In the basis of the eigenvectors a step is elementwise and reads every number once. Rounding of float32 is
magnified by the condition of the eigenvectors, so beyond `MAXIMUM_CONDITION` the dense recurrence runs.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda.errors import KernelError
from tacenda.kernels.dynamics import linear_recurrence, modal_recurrence
from tacenda_embeddings.lds.linear_algebra import Matrix

Float32 = npt.NDArray[np.float32]
Offsets = npt.NDArray[np.int64]
Rows = TypeVar("Rows", npt.NDArray[np.float32], npt.NDArray[np.float64])
Integers = npt.NDArray[np.int64]

_KEPT = 256  # powers that are found once; sequences are rarely longer

#: Eigenvectors of a larger condition are not used.
MAXIMUM_CONDITION = 1e5


class DensePowers:
    """Powers of any matrix M (states, states)."""

    def __init__(self, M: Matrix) -> None:
        self._M = M

    def times(self, rows: Rows, exponents: Integers) -> Rows:
        """Multiply row i of ``rows`` (n, states) by power ``exponents[i]`` >= 0, in the dtype of the rows."""
        product = np.empty_like(rows)
        for n in np.unique(exponents).tolist():
            chosen = exponents == n
            power = np.linalg.matrix_power(self._M, n).T.astype(rows.dtype)
            product[chosen] = rows[chosen] @ power
        return product


class ModalPowers:
    """Powers of the block-diagonal matrix of ``tacenda.kernels.dynamics.modal_recurrence``, whose layout they keep.

    Parameters
    ----------
    real
        Eigenvalues (n_real,).
    pairs
        Eigenvalues (n_pairs, 2) as (re, im).
    """

    def __init__(self, real: npt.NDArray[np.float64], pairs: npt.NDArray[np.float64]) -> None:
        self._real, self._n_pairs = real, len(pairs)
        self._size = np.hypot(pairs[:, 0], pairs[:, 1])
        self._angle = np.arctan2(pairs[:, 1], pairs[:, 0])
        factors = self._factors(np.arange(_KEPT))
        self._kept: dict[np.dtype[Any], tuple[npt.NDArray[Any], ...]] = {
            np.dtype(kind): tuple(f.astype(kind) for f in factors)
            for kind in (np.float32, np.float64)
        }

    def times(self, rows: Rows, exponents: Integers) -> Rows:
        """Multiply row i of ``rows`` (n, states) by power ``exponents[i]`` >= 0, in the dtype of the rows."""
        factors, which = self._kept[rows.dtype], exponents
        if exponents.max(initial=0) >= _KEPT:
            distinct, which = np.unique(exponents, return_inverse=True)
            factors = tuple(f.astype(rows.dtype) for f in self._factors(distinct))
        same, cross = (f.take(which, axis=0) for f in factors)
        first, middle = len(self._real), len(self._real) + self._n_pairs
        product: Rows = np.multiply(rows, same, out=same)
        product[:, first:middle] += rows[:, middle:] * cross
        product[:, middle:] -= rows[:, first:middle] * cross
        return product

    def _factors(self, exponents: Integers) -> tuple[Matrix, Matrix]:
        """Return what multiplies each state (n, states), and its partner in a pair (n, n_pairs)."""
        n = exponents.astype(np.float64)[:, None]
        size, angle = self._size**n, n * self._angle
        cosine = size * np.cos(angle)
        return np.concatenate([self._real**n, cosine, cosine], axis=1), size * np.sin(angle)


class Recurrence:
    """x_t = M (x_{t-1} + table[w_{t-1}]): what comes into every token of packed sequences.

    Parameters
    ----------
    M
        (states, states).
    table
        (vocabulary, states) float32.
    reverse
        Run from the last token to the first.

    Attributes
    ----------
    basis
        (states, states), takes the recurrence's own basis to the coordinates of ``table``.
    basis_inverse
        Its inverse.
    powers
        Of M, in the own basis.
    """

    def __init__(self, M: Matrix, table: Float32, *, reverse: bool) -> None:
        self._M = M
        self._reverse = reverse
        try:
            modes = modal_recurrence.decompose(M)
        except KernelError:
            modes = None
        if modes is not None and modes.condition > MAXIMUM_CONDITION:
            modes = None
        self._modes = modes
        if modes is None:
            self.basis = self.basis_inverse = np.eye(len(M))
            self.powers: DensePowers | ModalPowers = DensePowers(M)
            self._inputs = table
            return
        self.basis, self.basis_inverse = modes.P, modes.P_inv
        self.powers = ModalPowers(modes.real, modes.complex)
        self._steps = (modes.real.astype(np.float32), modes.complex.astype(np.float32))
        self._inputs = table @ self.basis_inverse.T.astype(np.float32)

    def over(self, ids: npt.NDArray[np.integer], more: Float32) -> Recurrence:
        """Return the same over a table of its own: rows ``ids`` of this one's, then ``more`` (n, states)."""
        other = copy.copy(self)
        projected = more if self._modes is None else more @ self.basis_inverse.T.astype(np.float32)
        other._inputs = np.concatenate([self._inputs.take(ids, axis=0), projected])
        return other

    def scan(
        self,
        ids: npt.NDArray[np.integer],
        offsets: Offsets,
        initial: Float32 | None = None,
        out: Float32 | None = None,
        column: int = 0,
    ) -> Float32:
        """Run over packed sequences, with everything in the basis of this recurrence.

        Parameters
        ----------
        ids
            (tokens,), the w_t.
        offsets
            (sequences + 1,).
        initial
            (sequences, states), what comes into the first token; zeros if None.
        out
            (tokens or more, width), takes x_t.
        column
            Where in ``out`` its columns begin.

        Returns
        -------
        (sequences, states), x + table[w] of the last token; ``initial`` if there is none.
        """
        if self._modes is None:
            return self._scan_densely(ids, offsets, initial, out, column)
        found = modal_recurrence.scan(
            *self._steps, self._inputs, ids, offsets, initial, self._reverse, out, column
        )
        return np.asarray(found.last)

    def _scan_densely(
        self,
        ids: npt.NDArray[np.integer],
        offsets: Offsets,
        initial: Float32 | None,
        out: Float32 | None,
        column: int,
    ) -> Float32:
        """Run the recurrence in the coordinates of the table, where the eigenvectors are too close."""
        M = self._M.astype(np.float32)
        filled = np.flatnonzero(np.diff(offsets))
        first, last = offsets[filled], offsets[filled + 1] - 1
        if self._reverse:
            first, last = last, first
        if initial is None:
            initial = np.zeros((len(offsets) - 1, len(M)), np.float32)
        own = self._inputs.take(ids, axis=0)
        u = own.copy()
        u[first] += initial[filled]
        y = linear_recurrence.forward(M, u, offsets, reverse=self._reverse)
        if out is not None:
            x = out[: len(ids), column : column + len(M)]
            np.subtract(y, own, out=x)
            x[first] = initial[filled]
        ends = initial.copy()
        ends[filled] = y[last]
        return ends
