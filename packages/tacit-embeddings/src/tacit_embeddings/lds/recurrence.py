"""A recurrence over packed sequences in the basis where a step is cheapest, and powers of its matrix.

In the basis of the eigenvectors a step is elementwise and reads every number once. Rounding of float32 is
magnified by the condition of the eigenvectors, so beyond `MAXIMUM_CONDITION` the dense recurrence runs.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tacit.errors import KernelError
from tacit.kernels import linear_recurrence, modal_recurrence
from tacit_embeddings.lds.linear_algebra import Matrix

Float32 = npt.NDArray[np.float32]
Offsets = npt.NDArray[np.int64]
Rows = TypeVar("Rows", npt.NDArray[np.float32], npt.NDArray[np.float64])
Integers = npt.NDArray[np.int64]

#: Eigenvectors of a larger condition are not used.
MAXIMUM_CONDITION = 1e5


class Powers(Protocol):
    """Several powers of a matrix, in the own basis of its recurrence."""

    def times(self, rows: Rows, which: Integers) -> Rows:
        """Row i of ``rows`` (n, states) times power ``which[i]``, in the dtype of the rows."""
        ...


class DensePowers:
    """M^n for every n of ``exponents``."""

    def __init__(self, M: Matrix, exponents: Integers) -> None:
        self._transposed = [np.linalg.matrix_power(M, n).T for n in exponents.tolist()]

    def times(self, rows: Rows, which: Integers) -> Rows:
        """See `Powers`."""
        product = np.empty_like(rows)
        for n in np.unique(which):
            chosen = which == n
            product[chosen] = rows[chosen] @ self._transposed[n].astype(rows.dtype)
        return product


class ModalPowers:
    """Powers of the block-diagonal matrix of ``tacit.kernels.modal_recurrence``, whose layout they keep.

    Args:
        real: eigenvalues (n_real,).
        pairs: eigenvalues (n_pairs, 2) as (re, im).
        exponents: (powers,).
    """

    def __init__(
        self, real: npt.NDArray[np.float64], pairs: npt.NDArray[np.float64], exponents: Integers
    ) -> None:
        n = exponents.astype(np.float64)[:, None]
        size = np.hypot(pairs[:, 0], pairs[:, 1]) ** n
        angle = n * np.arctan2(pairs[:, 1], pairs[:, 0])
        self._cross = size * np.sin(angle)
        self._diagonal = np.concatenate(
            [real**n, size * np.cos(angle), size * np.cos(angle)], axis=1
        )
        self._n_real, self._n_pairs = len(real), len(pairs)

    def times(self, rows: Rows, which: Integers) -> Rows:
        """See `Powers`."""
        middle = self._n_real + self._n_pairs
        product = rows * self._diagonal.astype(rows.dtype)[which]
        cross = self._cross.astype(rows.dtype)[which]
        product[:, self._n_real : middle] += rows[:, middle:] * cross
        product[:, middle:] -= rows[:, self._n_real : middle] * cross
        return product


class Recurrence:
    """y_t = M y_{t-1} + table[w_t] over packed sequences, starting from zero.

    Args:
        M: (states, states).
        table: (vocabulary, states) float32.
        reverse: run from the last token to the first.

    Attributes:
        basis: (states, states), takes the recurrence's own basis to the coordinates of ``table``.
        basis_inverse: its inverse.
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
            self._inputs = table
            return
        self.basis, self.basis_inverse = modes.P, modes.P_inv
        self._steps = (modes.real.astype(np.float32), modes.complex.astype(np.float32))
        self._from_own = self.basis.T.astype(np.float32)
        self._inputs = table @ self.basis_inverse.T.astype(np.float32)

    def gather(self, ids: npt.NDArray[np.integer]) -> Float32:
        """Inputs table[w_t] in the recurrence's own basis (tokens, states)."""
        return self._inputs.take(ids, axis=0)

    def run(self, u: Float32, offsets: Offsets, out: Float32 | None = None) -> Float32:
        """The states for inputs ``u``, both in the recurrence's own basis (tokens, states)."""
        if self._modes is not None:
            real, pairs = self._steps
            y = modal_recurrence.forward(real, pairs, u, offsets, reverse=self._reverse, out=out)
        else:
            M = self._M.astype(np.float32)
            y = linear_recurrence.forward(M, u, offsets, reverse=self._reverse, out=out)
        return np.asarray(y)

    def outward(self, y: Float32) -> Float32:
        """Rows in the recurrence's own basis, brought to the coordinates of ``table``."""
        return y @ self._from_own if self._modes is not None else y

    def powers(self, exponents: Integers) -> Powers:
        """M^n in the recurrence's own basis, for every n >= 0 of ``exponents``."""
        if self._modes is None:
            return DensePowers(self._M, exponents)
        return ModalPowers(self._modes.real, self._modes.complex, exponents)
