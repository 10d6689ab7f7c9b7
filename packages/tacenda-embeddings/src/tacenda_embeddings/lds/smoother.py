"""Smoothing token sequences with a fitted LDS: two scans over gathered rows, and one product.

The sums a_t = F' (a_{t-1} + K' w_{t-1}) and b_t = J (b_{t+1} + K' w_{t+1}), which come into a token from the
left and from the right (``tacenda_embeddings.lds.fitted``), are run in the basis of the eigenvectors of F'
and J, where a step is elementwise. Both are written side by side, so that past + future is one product of
(tokens, 2 states) by (2 states, states), at the full rate of the matrix unit and whatever the batch: a single
document is as fast per token as a thousand.

The messages that come into a finite sequence from the unobserved words outside it are exact. With a_n and b_1
the sums at the ends of a sequence of n tokens, both started from zero, the two messages depend on each other
through the sequence:

    future = R (a_n + F'^{n-1} past)       R, L: ``right_end`` and ``left_end``
    past   = L (b_1 + J^{n-1} future)

    =>  future = R (I - Y_n)^{-1} y,   y = a_n + F'^{n-1} L b_1,   Y_n = F'^{n-1} L J^{n-1} R

In the basis of the eigenvectors few rows of Y_n matter, and the fewer the longer the sequence. With E the
columns of the identity at those rows, (I - Y_n)^{-1} y = y + E (I - E^T Y_n E)^{-1} E^T Y_n y, so that a length
costs one thin matrix, found when that length is first met.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda.errors import KernelError
from tacenda.kernels.dynamics import linear_recurrence, modal_recurrence
from tacenda_embeddings.lds.steady_state import Matrix

__all__ = ["Ends", "Float32", "Offsets", "Smoother", "inverse_norms"]

Float32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.integer]
Integers = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int64]
Rows = TypeVar("Rows", npt.NDArray[np.float32], npt.NDArray[np.float64])

#: Eigenvectors of a larger condition are not used.
MAXIMUM_CONDITION = 1e5

_POWERS_KEPT = 256  # powers that are found once; sequences are rarely longer

_TINY = np.float32(1e-12)
_LONGEST_KEPT = 256  # longer sequences have thin matrices, which are quickly solved anew
_NEGLIGIBLE = 1e-9  # well below float32's rounding, whatever the sums


def inverse_norms(x: Float32) -> Float32:
    """Return one over the length of each row (rows,); a million for a row without length."""
    squared = np.einsum("ij,ij->i", x, x)
    return np.asarray(1.0 / np.sqrt(np.maximum(squared, _TINY)), np.float32)


class Ends(NamedTuple):
    """What comes into every sequence from outside, (sequences, states), in the scans' own bases."""

    past: Float32
    future: Float32


class _Echo(NamedTuple):
    """What y gains on its way there and back through the sequence: y[:, rows] += y @ matrix."""

    rows: npt.NDArray[np.intp]
    matrix: Float32


class Smoother:
    """Inference with a fitted model. Re-entrant: all that a call writes is a cache.

    ``table`` (vocabulary, states) float32 has the input K' w of word i in row i, and ``inverse_norms`` (vocabulary,)
    are those of its rows; the other arguments are the matrices of `tacenda_embeddings.lds.fitted.TwoSided`.
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
        self.inverse_norms = inverse_norms(table)
        self.states = table.shape[1]
        self._forward = Recurrence(forward, table, reverse=False)
        self._backward = Recurrence(backward, table, reverse=True)
        bases = (self._forward.basis.T, self._backward.basis.T)
        self._from_own = np.concatenate(bases).astype(np.float32)  # (2 states, states)
        self._L = self._forward.basis_inverse @ left_end @ self._backward.basis
        self._R = self._backward.basis_inverse @ right_end @ self._forward.basis
        self._L_T = self._L.T.astype(np.float32)
        self._R_T = self._R.T.astype(np.float32)
        self._echoes: dict[int, _Echo] = {}

    def over(self, ids: Ids, more: Float32) -> Smoother:
        """Return the same over a table of its own: rows ``ids`` of this one's, then ``more`` (n, states)."""
        other = copy.copy(self)
        other.table = np.concatenate([self.table.take(ids, axis=0), more])
        other.inverse_norms = inverse_norms(other.table)
        other._forward = self._forward.over(ids, more)
        other._backward = self._backward.over(ids, more)
        return other

    # -- the two scans and their products ----------------------------------------------------------

    def contexts(
        self, ids: Ids, offsets: Offsets, ends: Ends | None, out: Float32 | None = None
    ) -> Float32:
        """Return past and future side by side in their own bases, (tokens, 2 states): for the products.

        ``ids`` (tokens,) and ``offsets`` (sequences + 1,) are packed sequences, ``ends`` what comes in from
        outside. The result is written into the first rows of ``out`` if given.
        """
        if out is None:
            out = np.empty((len(ids), 2 * self.states), np.float32)
        past, future = ends or (None, None)
        self._forward.scan(ids, offsets, past, out)
        self._backward.scan(ids, offsets, future, out, self.states)
        return out[: len(ids)]

    def past(self, contexts: Float32, out: Float32 | None = None) -> Float32:
        """Return the messages from the left (tokens, states), in ``out`` if given."""
        h = self.states
        return np.matmul(contexts[:, :h], self._from_own[:h], out=out)

    def future(self, contexts: Float32, out: Float32 | None = None) -> Float32:
        """Return the messages from the right (tokens, states), in ``out`` if given."""
        h = self.states
        return np.matmul(contexts[:, h:], self._from_own[h:], out=out)

    def both(self, contexts: Float32, out: Float32 | None = None) -> Float32:
        """Return the sum of the two (tokens, states), in ``out`` if given."""
        return np.matmul(contexts, self._from_own, out=out)

    # -- the ends of sequences ---------------------------------------------------------------------

    def ends(self, ids: Ids, offsets: Offsets) -> Ends:
        """Return the messages from the unobserved words outside every packed sequence, exactly."""
        past, future = np.zeros((2, len(offsets) - 1, self.states), np.float32)
        lengths = np.diff(offsets)
        filled = np.flatnonzero(lengths)
        if len(filled):
            a = self._forward.scan(ids, offsets)[filled]
            b = self._backward.scan(ids, offsets)[filled]
            past[filled], future[filled] = self._solve(a, b, lengths[filled])
        return Ends(past, future)

    def _solve(self, a: Float32, b: Float32, lengths: Integers) -> tuple[Float32, Float32]:
        """The messages past and future, from a_n, b_1 (sequences, states) and n >= 1 (sequences,)."""
        distinct, which = np.unique(lengths, return_inverse=True)
        past: Float32 = b @ self._L_T
        y: Float32 = a + self._forward.powers.times(past, lengths - 1)
        # sequences of one length share a matrix
        groups = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
        for n, group in zip(distinct.tolist(), groups, strict=True):
            echo = self._echo(n)
            if len(echo.rows):
                y[np.ix_(group, echo.rows)] += y[group] @ echo.matrix
        future: Float32 = y @ self._R_T
        past += self._backward.powers.times(future, lengths - 1) @ self._L_T
        return past, future

    def _echo(self, n: int) -> _Echo:
        """(I - Y_n)^{-1} - I as the few rows that matter."""
        if n in self._echoes:
            return self._echoes[n]
        exponents = np.full(len(self._L), n - 1)
        there = self._forward.powers.times(self._L.T, exponents).T
        back = self._backward.powers.times(self._R.T, exponents).T
        rows = _rows_that_matter(there, back)
        columns = _rows_that_matter(back, there)
        Y = there[np.ix_(rows, columns)] @ back[columns]
        matrix = np.linalg.solve(np.eye(len(rows)) - Y[:, rows], Y).T.astype(np.float32)
        echo = _Echo(rows, matrix)
        if n <= _LONGEST_KEPT:
            self._echoes[n] = echo
        return echo


def _rows_that_matter(X: Matrix, other: Matrix) -> npt.NDArray[np.intp]:
    """Return the indices of the rows of X whose product with anything of ``other`` is not negligible."""
    size = np.linalg.norm(X, axis=1) * np.linalg.norm(other)
    return np.flatnonzero(size > _NEGLIGIBLE)


# -- the recurrence of either direction ---------------------------------------------------------------


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

    Its eigenvalues are ``real`` (n_real,) and ``pairs`` (n_pairs, 2) as (re, im).
    """

    def __init__(self, real: npt.NDArray[np.float64], pairs: npt.NDArray[np.float64]) -> None:
        self._real, self._n_pairs = real, len(pairs)
        self._size = np.hypot(pairs[:, 0], pairs[:, 1])
        self._angle = np.arctan2(pairs[:, 1], pairs[:, 0])
        factors = self._factors(np.arange(_POWERS_KEPT))
        self._kept: dict[np.dtype[Any], tuple[npt.NDArray[Any], ...]] = {
            np.dtype(kind): tuple(f.astype(kind) for f in factors)
            for kind in (np.float32, np.float64)
        }

    def times(self, rows: Rows, exponents: Integers) -> Rows:
        """Multiply row i of ``rows`` (n, states) by power ``exponents[i]`` >= 0, in the dtype of the rows."""
        factors, which = self._kept[rows.dtype], exponents
        if exponents.max(initial=0) >= _POWERS_KEPT:
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

    In the basis of the eigenvectors of M a step is elementwise and reads every number once. Rounding of float32 is
    magnified by the condition of the eigenvectors, so beyond `MAXIMUM_CONDITION` the dense recurrence runs.
    ``basis`` (states, states) takes the recurrence's own basis to the coordinates of ``table`` (vocabulary, states),
    and ``powers`` are those of M in the own basis. With ``reverse`` it runs from the last token to the first.
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

    def over(self, ids: Ids, more: Float32) -> Recurrence:
        """Return the same over a table of its own: rows ``ids`` of this one's, then ``more`` (n, states)."""
        other = copy.copy(self)
        projected = more if self._modes is None else more @ self.basis_inverse.T.astype(np.float32)
        other._inputs = np.concatenate([self._inputs.take(ids, axis=0), projected])
        return other

    def scan(
        self,
        ids: Ids,
        offsets: Offsets,
        initial: Float32 | None = None,
        out: Float32 | None = None,
        column: int = 0,
    ) -> Float32:
        """Run over packed sequences, with everything in the basis of this recurrence.

        ``initial`` (sequences, states) comes into the first tokens; zeros if None. The x_t are written into the
        columns of ``out`` (tokens or more, width) that begin at ``column``. Returns x + table[w] of the last token
        (sequences, states), which is ``initial`` for an empty sequence.
        """
        if self._modes is None:
            return self._scan_densely(ids, offsets, initial, out, column)
        found = modal_recurrence.scan(
            *self._steps, self._inputs, ids, offsets, initial, self._reverse, out, column
        )
        return np.asarray(found.last)

    def _scan_densely(
        self,
        ids: Ids,
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
