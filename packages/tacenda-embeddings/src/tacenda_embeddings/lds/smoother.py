"""Smoothing token sequences with a fitted LDS: two scans over gathered rows, and one product.

The sums a_t = F' (a_{t-1} + K' w_{t-1}) and b_t = J (b_{t+1} + K' w_{t+1}), which come into a token from the
left and from the right (``tacenda_embeddings.lds.two_sided``), are run in the basis of the eigenvectors of F'
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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_embeddings.lds.linear_algebra import Matrix
from tacenda_embeddings.lds.recurrence import Float32, Integers, Offsets, Recurrence

__all__ = ["Ends", "Float32", "Messages", "Offsets", "Smoother", "inverse_norms"]

Ids = npt.NDArray[np.integer]

_TINY = np.float32(1e-12)
_LONGEST_KEPT = 256  # longer sequences have thin matrices, which are quickly solved anew
_NEGLIGIBLE = 1e-9  # well below float32's rounding, whatever the sums


def inverse_norms(x: Float32) -> Float32:
    """Return one over the length of each row (rows,); a million for a row without length."""
    squared = np.einsum("ij,ij->i", x, x)
    return np.asarray(1.0 / np.sqrt(np.maximum(squared, _TINY)), np.float32)


class Messages(NamedTuple):
    """The parts of the smoothed mean xs = own + past + future, each (tokens, states) float32."""

    own: Float32
    past: Float32
    future: Float32


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

    Parameters
    ----------
    table
        (vocabulary, states) float32; row i is the input K' w of word i. Kept as an attribute, with
        ``inverse_norms`` (vocabulary,) of its rows.
    forward
        F' (states, states).
    backward
        J (states, states).
    left_end
        L (states, states), maps b_1 to the past message at the first token.
    right_end
        R (states, states), maps a_n to the future message at the last token.
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

    def messages(self, ids: Ids, offsets: Offsets, *, exact_ends: bool) -> Messages:
        """Return own, past and future of every token; ``exact_ends`` integrates over the words outside."""
        contexts = self.contexts(ids, offsets, self.ends(ids, offsets) if exact_ends else None)
        return Messages(self.table.take(ids, axis=0), self.past(contexts), self.future(contexts))

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
