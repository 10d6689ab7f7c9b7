"""Texts as a state-space model reads them: several places side by side, each with the tokens before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.fitting import fingerprint_arrays
from tacenda_lm.state_space.joint_tokens import JointTokens
from tacenda_lm.state_space.parameters import Inputs, Ints
from tacenda_lm.state_space.recurrence import Piece
from tacenda_lm.streams import Stream

__all__ = ["Pieces", "Text", "side_by_side", "windows_of"]

_Int64 = npt.NDArray[np.int64]


def windows_of(stream: Stream, positions: Ints, n: int, none: int) -> Ints:
    """Return the n tokens before each position, the last first: (..., n); ``none`` where its sequence has none."""
    words, present = stream.before(positions, n)
    return np.where(present, words, none)


class Text:
    """A stream, the first token of each sequence being context only; ``n`` feature vectors are asked for at a place."""

    def __init__(self, stream: Stream, window: int, n: int, joint: JointTokens) -> None:
        self.stream, self.window, self.n, self.joint = stream, window, n, joint
        self._firsts = stream.firsts

    def inputs(self, positions: Ints) -> Inputs:
        """Return the tokens before some positions."""
        unknown = self.joint.unknown
        return Inputs.of(
            windows_of(self.stream, positions, self.window, unknown), self.n, self.joint
        )

    def piece(self, positions: Ints) -> Piece:
        """Return the places at positions (steps, texts), -1 where a text has ended."""
        there = positions >= 0
        words = np.where(there, self.stream.ids[positions], 0)
        live = there & ~self._firsts[positions]
        seen = live & (words != self.joint.unknown)
        return Piece(
            self.inputs(positions), words, live.astype(np.float32), seen.astype(np.float32)
        )


def side_by_side(stream: Stream, texts: int) -> _Int64:
    """Return the positions of a stream cut into ``texts`` parts: (steps, texts), -1 behind the end."""
    steps = -(-len(stream.ids) // texts)
    found = np.arange(steps)[:, None] + steps * np.arange(texts)
    return np.where(found < len(stream.ids), found, -1)


class Pieces(NamedTuple):
    """Steps of a text in their order, as `tacenda.fitting` takes batches; a batch is (first step, end).

    In the first of ``epochs`` epochs a batch has ``first`` steps, in the last ``last``.
    """

    positions: _Int64  # (steps, texts)
    ids: Ints
    first: int
    last: int
    epochs: int

    def length(self, epoch: int) -> int:
        """Return how many steps a batch of an epoch has."""
        share = epoch / max(self.epochs - 1, 1)
        grown: float = self.first * (self.last / self.first) ** share
        return max(1, round(grown))

    def n_batches(self, epoch: int) -> int:
        """Return the number of batches of an epoch."""
        return -(-len(self.positions) // self.length(epoch))

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the batches of an epoch without the first ``skip``."""
        length, steps = self.length(epoch), len(self.positions)
        for begin in range(skip * length, steps, length):
            yield begin, min(begin + length, steps)

    def fingerprint(self) -> str:
        """Identify text and batches."""
        return fingerprint_arrays(
            (self.positions, self.ids), "in order", self.first, self.last, self.epochs
        )
