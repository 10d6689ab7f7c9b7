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

All that has a row for each token or sequence lies on the smoother's device, as arrays of numpy on the CPU and as
tensors elsewhere, and so does what it is multiplied by; offsets and lengths are on the host.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, multiply_into, to_device
from tacenda.errors import KernelError
from tacenda.kernels.dynamics import linear_recurrence, modal_recurrence
from tacenda.kernels.machinery.arrays import zeros
from tacenda_embeddings.lds.steady_state import Matrix

__all__ = ["OPERATIONS", "Ends", "Float32", "Offsets", "Smoother"]

Float32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.integer]
Integers = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int64]

#: The operations of `tacenda.kernels` that smoothing is made of.
OPERATIONS = "modal_scan", "linear_recurrence", "unit_rows"

#: Eigenvectors of a larger condition are not used.
MAXIMUM_CONDITION = 1e5

_POWERS_KEPT = 256  # powers that are found once; sequences are rarely longer

_LONGEST_KEPT = 256  # longer sequences have thin matrices, which are quickly solved anew
_NEGLIGIBLE = 1e-9  # well below float32's rounding, whatever the sums


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

    ``table`` (vocabulary, states) float32 has the input K' w of word i in row i; the other arguments are the matrices
    of `tacenda_embeddings.lds.fitted.TwoSided`, and the device to work on.
    """

    def __init__(
        self,
        table: Float32,
        forward: Matrix,
        backward: Matrix,
        left_end: Matrix,
        right_end: Matrix,
        device: str = "cpu",
    ) -> None:
        self.device = device
        self.table = self.put(table)
        self.states = table.shape[1]
        self._forward = Recurrence(forward, table, device, reverse=False)
        self._backward = Recurrence(backward, table, device, reverse=True)
        bases = (self._forward.basis.T, self._backward.basis.T)
        self._from_own = self.put(np.concatenate(bases).astype(np.float32))  # (2 states, states)
        self._L = self._forward.basis_inverse @ left_end @ self._backward.basis
        self._R = self._backward.basis_inverse @ right_end @ self._forward.basis
        self._L_T = self.put(self._L.T.astype(np.float32))
        self._R_T = self.put(self._R.T.astype(np.float32))
        self._echoes: dict[int, _Echo] = {}

    def put(self, array: npt.NDArray[Any]) -> Any:
        """Return an array as this smoother works with it."""
        return to_device(array, self.device)

    def over(self, ids: Ids, more: Float32) -> Smoother:
        """On the CPU, return the same over another table: rows ``ids`` of this one's, then ``more`` (n, states)."""
        other = copy.copy(self)
        other.table = np.concatenate([self.table.take(ids, axis=0), more])
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
            out = zeros((len(ids), 2 * self.states), self.table)
        past, future = ends or (None, None)
        self._forward.scan(ids, offsets, past, out)
        self._backward.scan(ids, offsets, future, out, self.states)
        return out[: len(ids)]

    def past(self, contexts: Array, out: Array | None = None) -> Array:
        """Return the messages from the left (tokens, states), in ``out`` if given."""
        return self._product(contexts[:, : self.states], self._from_own[: self.states], out)

    def future(self, contexts: Array, out: Array | None = None) -> Array:
        """Return the messages from the right (tokens, states), in ``out`` if given."""
        return self._product(contexts[:, self.states :], self._from_own[self.states :], out)

    def both(self, contexts: Array, out: Array | None = None) -> Array:
        """Return the sum of the two (tokens, states), in ``out`` if given."""
        return self._product(contexts, self._from_own, out)

    def _product(self, contexts: Array, basis: Array, out: Array | None) -> Array:
        if out is None:
            out = zeros((len(contexts), self.states), contexts)
        multiply_into(contexts, basis, out)
        return out

    # -- the ends of sequences ---------------------------------------------------------------------

    def ends(self, ids: Ids, offsets: Offsets) -> Ends:
        """Return the messages from the unobserved words outside every packed sequence, exactly."""
        a = self._forward.scan(ids, offsets)
        b = self._backward.scan(ids, offsets)
        return self._solve(a, b, np.diff(offsets))

    def _solve(self, a: Float32, b: Float32, lengths: Integers) -> Ends:
        """The messages past and future, from a_n and b_1 (sequences, states), which are zeros where n = 0."""
        # shortest first: sequences of one length share a matrix
        order = np.argsort(lengths, kind="stable")
        sorted_lengths = lengths[order]
        distinct, starts = np.unique(sorted_lengths, return_index=True)
        by_length = self.put(order)
        a, b = a[by_length], b[by_length]
        between = np.maximum(sorted_lengths - 1, 0)
        past: Float32 = b @ self._L_T
        y: Float32 = a + self._forward.powers.times(past, between)
        borders = pairwise([*starts.tolist(), len(y)])
        for n, (i, j) in zip(distinct.tolist(), borders, strict=True):
            echo = self._echo(max(n, 1))
            if len(echo.rows):
                y[i:j, echo.rows] += y[i:j] @ echo.matrix
        future: Float32 = y @ self._R_T
        past += self._backward.powers.times(future, between) @ self._L_T
        as_given = self.put(np.argsort(order))
        return Ends(past[as_given], future[as_given])

    def _echo(self, n: int) -> _Echo:
        """(I - Y_n)^{-1} - I as the few rows that matter."""
        if n in self._echoes:
            return self._echoes[n]
        there = self._forward.powers.exactly(self._L.T, n - 1).T
        back = self._backward.powers.exactly(self._R.T, n - 1).T
        rows = _rows_that_matter(there, back)
        columns = _rows_that_matter(back, there)
        Y = there[np.ix_(rows, columns)] @ back[columns]
        matrix = np.linalg.solve(np.eye(len(rows)) - Y[:, rows], Y).T.astype(np.float32)
        echo = _Echo(self.put(rows), self.put(matrix))
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

    def __init__(self, M: Matrix, device: str) -> None:
        self._M, self._device = M, device

    def times(self, rows: Array, exponents: Integers) -> Array:
        """Multiply row i of ``rows`` (n, states), on the device, by power ``exponents[i]`` >= 0."""
        product = zeros(tuple(rows.shape), rows)
        for n in np.unique(exponents).tolist():
            chosen = to_device(np.flatnonzero(exponents == n), self._device)
            power = np.linalg.matrix_power(self._M, n).T.astype(np.float32)
            product[chosen] = rows[chosen] @ to_device(power, self._device)
        return product

    def exactly(self, rows: Matrix, exponent: int) -> Matrix:
        """Multiply every row of ``rows`` (n, states), on the host, by one power in float64."""
        found: Matrix = rows @ np.linalg.matrix_power(self._M, exponent).T
        return found


class ModalPowers:
    """Powers of the block-diagonal matrix of ``tacenda.kernels.dynamics.modal_recurrence``, whose layout they keep.

    Its eigenvalues are ``real`` (n_real,) and ``pairs`` (n_pairs, 2) as (re, im).
    """

    def __init__(
        self, real: npt.NDArray[np.float64], pairs: npt.NDArray[np.float64], device: str
    ) -> None:
        self._real, self._n_pairs, self._device = real, len(pairs), device
        self._size = np.hypot(pairs[:, 0], pairs[:, 1])
        self._angle = np.arctan2(pairs[:, 1], pairs[:, 0])
        self._kept = self._on_device(np.arange(_POWERS_KEPT))

    def times(self, rows: Array, exponents: Integers) -> Array:
        """Multiply row i of ``rows`` (n, states), on the device, by power ``exponents[i]`` >= 0."""
        factors, which = self._kept, exponents
        if exponents.max(initial=0) >= _POWERS_KEPT:
            distinct, which = np.unique(exponents, return_inverse=True)
            factors = self._on_device(distinct)
        at = to_device(which, self._device)
        same, cross = (f[at] for f in factors)
        same *= rows
        return self._rotated(same, rows, cross)

    def exactly(self, rows: Matrix, exponent: int) -> Matrix:
        """Multiply every row of ``rows`` (n, states), on the host, by one power in float64."""
        same, cross = self._factors(np.array([exponent]))
        found: Matrix = self._rotated(rows * same, rows, cross)
        return found

    def _rotated(self, product: Any, rows: Any, cross: Any) -> Any:
        """Add to each coordinate of a pair, in place, what comes from the other one."""
        first, middle = len(self._real), len(self._real) + self._n_pairs
        product[:, first:middle] += rows[:, middle:] * cross
        product[:, middle:] -= rows[:, first:middle] * cross
        return product

    def _on_device(self, exponents: Integers) -> tuple[Array, ...]:
        return tuple(
            to_device(f.astype(np.float32), self._device) for f in self._factors(exponents)
        )

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

    def __init__(self, M: Matrix, table: Float32, device: str, *, reverse: bool) -> None:
        self._M, self._device, self._reverse = M, device, reverse
        try:
            modes = modal_recurrence.decompose(M)
        except KernelError:
            modes = None
        if modes is not None and modes.condition > MAXIMUM_CONDITION:
            modes = None
        self._modes = modes
        if modes is None:
            self.basis = self.basis_inverse = np.eye(len(M))
            self.powers: DensePowers | ModalPowers = DensePowers(M, device)
            self._inputs = to_device(table, device)
            return
        self.basis, self.basis_inverse = modes.P, modes.P_inv
        self.powers = ModalPowers(modes.real, modes.complex, device)
        self._real, self._pairs = (
            to_device(values.astype(np.float32), device) for values in (modes.real, modes.complex)
        )
        self._inputs = to_device(table @ self.basis_inverse.T.astype(np.float32), device)

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
            self._real, self._pairs, self._inputs, ids, offsets, initial, self._reverse, out, column
        )
        return found.last

    def _scan_densely(
        self,
        ids: Ids,
        offsets: Offsets,
        initial: Float32 | None,
        out: Float32 | None,
        column: int,
    ) -> Float32:
        """Run the recurrence in the coordinates of the table, where the eigenvectors are too close."""
        filled = np.flatnonzero(np.diff(offsets))
        first, last = offsets[filled], offsets[filled + 1] - 1
        if self._reverse:
            first, last = last, first
        M, first, last, filled = (
            to_device(a, self._device) for a in (self._M.astype(np.float32), first, last, filled)
        )
        if initial is None:
            initial = zeros((len(offsets) - 1, len(M)), self._inputs)
        own = self._inputs[ids]
        u = own * 1
        u[first] += initial[filled]
        y = linear_recurrence.forward(M, u, offsets, reverse=self._reverse)
        if out is not None:
            x = out[: len(ids), column : column + len(M)]
            x[:] = y - own
            x[first] = initial[filled]
        ends = initial * 1
        ends[filled] = y[last]
        return ends
