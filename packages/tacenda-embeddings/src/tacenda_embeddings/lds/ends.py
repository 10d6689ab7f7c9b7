"""The messages that come into a finite sequence from the unobserved words outside, exactly.

With a_n and b_1 the sums of ``tacenda_embeddings.lds.two_sided`` at the ends of a sequence of n tokens, both
started from zero, the two messages depend on each other through the sequence:

    future = R (a_n + F'^{n-1} past)       R, L: ``right_end`` and ``left_end``
    past   = L (b_1 + J^{n-1} future)

    =>  future = R (I - Y_n)^{-1} y,   y = a_n + F'^{n-1} L b_1,   Y_n = F'^{n-1} L J^{n-1} R

In the basis of the eigenvectors Y_n has few rows that matter, the fewer the longer the sequence. With E the
columns of the identity at those rows, (I - Y_n)^{-1} y = y + E (I - E^T Y_n E)^{-1} E^T Y_n y, so that a length
costs one thin matrix, found when it is first met.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_embeddings.lds.linear_algebra import Matrix
from tacenda_embeddings.lds.recurrence import Float32, Integers, Recurrence

_LONGEST_KEPT = 256  # longer sequences have thin matrices and are quickly solved anew
_NEGLIGIBLE = 1e-9  # well below float32's rounding, whatever the sums


class _Echo(NamedTuple):
    """What y gains by going there and back through the sequence: y[:, rows] += y @ matrix."""

    rows: npt.NDArray[np.intp]
    matrix: Float32


class ExactEnds:
    """Solves for the messages at the ends. Re-entrant: all it writes is a cache.

    Parameters
    ----------
    forward
        The recurrence of a.
    backward
        The recurrence of b.
    left_end
        L (states, states), in the coordinates of the tables.
    right_end
        R (states, states), likewise.
    """

    def __init__(
        self, forward: Recurrence, backward: Recurrence, left_end: Matrix, right_end: Matrix
    ) -> None:
        self._forward, self._backward = forward, backward
        self._L = forward.basis_inverse @ left_end @ backward.basis
        self._R = backward.basis_inverse @ right_end @ forward.basis
        self._L_T = self._L.T.astype(np.float32)
        self._R_T = self._R.T.astype(np.float32)
        self._echoes: dict[int, _Echo] = {}

    def solve(self, a: Float32, b: Float32, lengths: Integers) -> tuple[Float32, Float32]:
        """Messages past and future (sequences, states), in the own bases of the two recurrences.

        Parameters
        ----------
        a
            a_n without messages (sequences, states), in the own basis of its recurrence.
        b
            b_1 without messages, likewise.
        lengths
            n (sequences,), at least 1.
        """
        distinct, which = np.unique(lengths, return_inverse=True)
        past: Float32 = b @ self._L_T
        y: Float32 = a + self._forward.powers.times(past, lengths - 1)
        groups = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
        for n, group in zip(distinct.tolist(), groups, strict=True):
            echo = self._echo(n)
            if len(echo.rows):
                y[np.ix_(group, echo.rows)] += y[group] @ echo.matrix
        future: Float32 = y @ self._R_T
        echoed: Float32 = self._backward.powers.times(future, lengths - 1) @ self._L_T
        past += echoed
        return past, future

    def _echo(self, n: int) -> _Echo:
        if n in self._echoes:
            return self._echoes[n]
        exponents = np.full(len(self._L), n - 1)
        there = self._forward.powers.times(self._L.T, exponents).T
        back = self._backward.powers.times(self._R.T, exponents).T
        rows = _that_matter(there, back)
        columns = _that_matter(back, there)
        Y = there[np.ix_(rows, columns)] @ back[columns]
        matrix = np.linalg.solve(np.eye(len(rows)) - Y[:, rows], Y).T.astype(np.float32)
        echo = _Echo(rows, matrix)
        if n <= _LONGEST_KEPT:
            self._echoes[n] = echo
        return echo


def _that_matter(X: Matrix, other: Matrix) -> npt.NDArray[np.intp]:
    """Indices of the rows of X whose product with anything of ``other`` is not negligible."""
    size = np.linalg.norm(X, axis=1) * np.linalg.norm(other)
    return np.flatnonzero(size > _NEGLIGIBLE)
