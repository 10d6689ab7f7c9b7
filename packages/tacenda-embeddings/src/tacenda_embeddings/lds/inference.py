"""Smoothing token sequences with a fitted LDS: two scans over gathered rows, and one product.

The sums a_t = F' (a_{t-1} + K' w_{t-1}) and b_t = J (b_{t+1} + K' w_{t+1}), which come into a token from the
left and from the right (``tacenda_embeddings.lds.two_sided``), are run in the basis of the eigenvectors of F'
and J, where a step is elementwise. Both are written side by side, so that past + future is one product of
(tokens, 2 states) by (2 states, states), at the full rate of the matrix unit and whatever the batch: a single
document is as fast per token as a thousand.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_embeddings.lds.ends import ExactEnds
from tacenda_embeddings.lds.linear_algebra import Matrix
from tacenda_embeddings.lds.recurrence import Float32, Offsets, Recurrence

__all__ = ["Ends", "Float32", "Messages", "Offsets", "Smoother", "inverse_norms"]

Ids = npt.NDArray[np.integer]

_ENDS_AT_A_TIME = 1024  # sequences: enough for a product, and what it reads stays in the cache
_TINY = np.float32(1e-12)


def inverse_norms(x: Float32) -> Float32:
    """One over the length of each row (rows,); a million for a row without length."""
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


class Smoother:
    """Inference with a fitted model. Re-entrant.

    Parameters
    ----------
    table
        (vocabulary, states) float32, row i being the input K' w of word i; kept as an attribute, with
        ``inverse_norms`` (vocabulary,) of its rows.
    forward
        F' (states, states).
    backward
        J (states, states).
    left_end
        (states, states), maps b_1 to the past message at the first token.
    right_end
        (states, states), maps a_n to the future message at the last token.
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
        self._ends = ExactEnds(self._forward, self._backward, left_end, right_end)
        bases = (self._forward.basis.T, self._backward.basis.T)
        self._from_own = np.concatenate(bases).astype(np.float32)  # (2 states, states)

    def over(self, ids: Ids, more: Float32) -> Smoother:
        """The same over a table of its own: rows ``ids`` of this one's, then ``more`` (n, states)."""
        other = copy.copy(self)
        other.table = np.concatenate([self.table.take(ids, axis=0), more])
        other.inverse_norms = inverse_norms(other.table)
        other._forward = self._forward.over(ids, more)
        other._backward = self._backward.over(ids, more)
        return other

    def ends(self, ids: Ids, offsets: Offsets) -> Ends:
        """The messages from the unobserved words outside every sequence, exactly.

        Parameters
        ----------
        ids
            (tokens,) packed sequences.
        offsets
            (sequences + 1,) where each begins, and the end.
        """
        past, future = np.zeros((2, len(offsets) - 1, self.states), np.float32)
        for first in range(0, len(offsets) - 1, _ENDS_AT_A_TIME):
            bounds = offsets[first : first + _ENDS_AT_A_TIME + 1]
            part, local = ids[bounds[0] : bounds[-1]], bounds - bounds[0]
            lengths = np.diff(bounds)
            filled = np.flatnonzero(lengths)
            if not len(filled):
                continue
            a = self._forward.scan(part, local)[filled]
            b = self._backward.scan(part, local)[filled]
            found = self._ends.solve(a, b, lengths[filled])
            past[first + filled], future[first + filled] = found
        return Ends(past, future)

    def contexts(
        self, ids: Ids, offsets: Offsets, ends: Ends | None, out: Float32 | None = None
    ) -> Float32:
        """Past and future side by side in their own bases, (tokens, 2 states): for the products.

        Parameters
        ----------
        ids
            (tokens,) packed sequences.
        offsets
            (sequences + 1,) where each begins, and the end.
        ends
            What comes in from outside; nothing if None.
        out
            (tokens or more, 2 states) float32 to write into.
        """
        if out is None:
            out = np.empty((len(ids), 2 * self.states), np.float32)
        past, future = ends or (None, None)
        self._forward.scan(ids, offsets, past, out)
        self._backward.scan(ids, offsets, future, out, self.states)
        return out[: len(ids)]

    def past(self, contexts: Float32, out: Float32 | None = None) -> Float32:
        """The messages from the left (tokens, states), into ``out`` if given."""
        h = self.states
        return np.matmul(contexts[:, :h], self._from_own[:h], out=out)

    def future(self, contexts: Float32, out: Float32 | None = None) -> Float32:
        """The messages from the right (tokens, states), into ``out`` if given."""
        h = self.states
        return np.matmul(contexts[:, h:], self._from_own[h:], out=out)

    def both(self, contexts: Float32, out: Float32 | None = None) -> Float32:
        """The sum of the two (tokens, states), into ``out`` if given."""
        return np.matmul(contexts, self._from_own, out=out)

    def messages(self, ids: Ids, offsets: Offsets, *, exact_ends: bool) -> Messages:
        """own, past and future of every token; ``exact_ends`` integrates over the words outside."""
        contexts = self.contexts(ids, offsets, self.ends(ids, offsets) if exact_ends else None)
        return Messages(self.table.take(ids, axis=0), self.past(contexts), self.future(contexts))
