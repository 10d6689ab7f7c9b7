"""States of models whose context is the last words and tails of all older ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tacenda.kernels.log_bilinear.context_sum import Context
from tacenda_lm.state import State

__all__ = ["ContextStates"]

_Floats = npt.NDArray[np.float32]


class ContextStates:
    """States, one word after another: ``(last n words, oldest first; bytes of the tails)``.

    Parameters
    ----------
    words
        R, float32 (types, width).
    far
        F, of the words in the tails, float32 (types, width).
    context
        Weights of positions and tails, and rates.
    boundary
        The id of ``</s>``.
    """

    def __init__(self, words: _Floats, far: _Floats, context: Context, boundary: int) -> None:
        self._words, self._far = words, far
        self._context, self._boundary = context, boundary

    def start(self) -> State:
        """After one ``</s>``."""
        nothing = np.zeros(self._context.tail_weights.shape, np.float32)
        return self._after((), nothing, self._boundary)

    def advance(self, state: State, word: int) -> State:
        """After one more word: the one that leaves the window goes into the tails."""
        window, tails = self._parts(state)
        return self._after(window, tails, word)

    def vectors(self, states: Sequence[State]) -> _Floats:
        """The predicted vector of each state, float32 (states, width)."""
        c, b, _, a = self._context
        found = np.repeat(b[None], len(states), 0)
        for row, state in zip(found, states, strict=True):
            window, tails = self._parts(state)
            if window:
                row += (c[: len(window)] * self._words[list(reversed(window))]).sum(axis=0)
            row += (a * tails).sum(axis=0)
        return found

    def read(self, state: State) -> tuple[tuple[int, ...], _Floats]:
        """The window, oldest word first, and the tails (tails, width) before the next word."""
        return self._parts(state)

    def after_text(self, window: tuple[int, ...], tails: _Floats) -> State:
        """The state of a window and tails that a kernel has summed up."""
        n = len(self._context.weights)
        return State((tuple(window[max(0, len(window) - n) :]), tails.tobytes()))

    def _after(self, window: tuple[int, ...], tails: _Floats, word: int) -> State:
        n, rates = len(self._context.weights), self._context.rates
        window = (*window, word)
        if len(window) > n:
            tails = rates[:, None] * tails + self._far[window[0]]
            window = window[1:]
        return State((window, tails.tobytes()))

    def _parts(self, state: State) -> tuple[tuple[int, ...], _Floats]:
        window, packed = state.parts()
        return window, np.frombuffer(packed, np.float32).reshape(self._context.tail_weights.shape)
