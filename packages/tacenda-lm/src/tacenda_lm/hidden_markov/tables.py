"""A fitted hidden Markov model: starts, transitions, emissions, and all that is computed from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.hidden_markov import block as hmm_block
from tacenda.kernels.hidden_markov.block import Backward, Forward, Sequences
from tacenda_lm.hidden_markov.blocks import BlockStore
from tacenda_lm.hidden_markov.observed import Lexicon, Observed
from tacenda_lm.sequences import Ids, Offsets

__all__ = ["Passed", "Tables"]

_Floats = npt.NDArray[np.float32]
_TOKENS = 16384  # of a piece of text, unless there is no room for as many blocks


class Passed(NamedTuple):
    """Sentences of a piece of text after the forward pass.

    Attributes
    ----------
    tokens
        Where in the text they are.
    observed
        With ``pairs`` numbering the blocks of ``pool``.
    pool
        Transition blocks.
    forward
        Scores and filtered states.
    """

    tokens: slice
    observed: Sequences
    pool: _Floats
    forward: Forward


class Tables:
    """Probabilities of a fitted model.

    Parameters
    ----------
    lexicon
        Classes of the words.
    emissions
        p(word | state) float32 (words, k), words in the order of the lexicon.
    starts
        p(first state) float32 (classes, k).
    store
        Transition blocks.
    """

    def __init__(
        self, lexicon: Lexicon, emissions: _Floats, starts: _Floats, store: BlockStore
    ) -> None:
        self.lexicon, self.emissions, self.starts, self.store = lexicon, emissions, starts, store

    @property
    def k(self) -> int:
        """States of a class."""
        return int(self.starts.shape[1])

    def passes(self, ids: Ids, offsets: Offsets, first: _Floats | None = None) -> Iterator[Passed]:
        """The forward pass over sentences, in pieces of bounded size.

        Parameters
        ----------
        ids
            Word ids, sentences end to end.
        offsets
            Where each begins, and the end.
        first
            p(z | what came before) (k,) of the first token of the first sentence, in the class of that
            token, if it does not stand at a start.
        """
        size = _TOKENS if self.store.holds_all else min(_TOKENS, self.store.capacity)
        begin = 0
        while begin < len(offsets) - 1:
            end = int(np.searchsorted(offsets, offsets[begin] + size, side="right")) - 1
            if end <= begin:  # one sentence longer than that
                yield from self._long(
                    ids, int(offsets[begin]), int(offsets[begin + 1]), size, first
                )
                begin, first = begin + 1, None
                continue
            tokens = slice(int(offsets[begin]), int(offsets[end]))
            yield self._pass(ids, tokens, offsets[begin : end + 1] - offsets[begin], first)
            begin, first = end, None

    def _long(
        self, ids: Ids, begin: int, end: int, size: int, first: _Floats | None
    ) -> Iterator[Passed]:
        """A sentence in pieces, each from the state after the one before."""
        for at in range(begin, end, size):
            tokens = slice(at, min(at + size, end))
            found = self._pass(ids, tokens, np.array([0, tokens.stop - at]), first)
            yield found
            if tokens.stop < end:
                last = found.forward.states[-1]
                before, after = self.lexicon.classes[ids[tokens.stop - 1 : tokens.stop + 1]]
                first = self.reach(int(before), last, int(after))

    def _pass(self, ids: Ids, tokens: slice, offsets: Offsets, first: _Floats | None) -> Passed:
        seen = Observed.of(ids[tokens], offsets, self.lexicon)
        pool, slots = self.store.get(seen.sources, seen.targets)
        pairs = slots[seen.sequences.pairs] if len(slots) else seen.sequences.pairs
        sequences, starts = seen.sequences._replace(pairs=pairs), self.starts
        if first is not None:
            rows = sequences.first + 1
            rows[:1] = 0
            sequences = sequences._replace(first=rows)
            starts = np.concatenate([first[None], starts])
        passed = hmm_block.forward(pool, self.emissions, starts, sequences)
        return Passed(tokens, sequences, pool, passed)

    def backward(self, passed: Passed) -> Backward:
        """Expected counts and posteriors of what was passed."""
        pairs, words, first, offsets = passed.observed
        used, numbers = np.unique(
            pairs, return_inverse=True
        )  # a pool is large, and counts its size
        observed = Sequences(numbers.astype(np.int32), words, np.zeros_like(first), offsets)
        starts = self.starts[:1]
        return hmm_block.backward(
            passed.pool[used], self.emissions, starts, observed, passed.forward
        )

    def reach(self, source: int, state: _Floats, target: int) -> _Floats:
        """p(z') (k,) for the states of one class after p(z) ``state`` of another; not normalised."""
        pool, slots = self.store.get(np.array([source]), np.array([target]))
        return np.asarray(pool[slots[0]] @ state, np.float32)

    def words(self, reached: _Floats) -> _Floats:
        """p(word) by id (n, words) from p(z') (classes, k, n)."""
        sorted_words = np.empty((reached.shape[2], len(self.emissions)), np.float32)
        cuts = self.lexicon.offsets
        for c in np.flatnonzero(np.diff(cuts)).tolist():
            own = slice(int(cuts[c]), int(cuts[c + 1]))
            sorted_words[:, own] = (self.emissions[own] @ reached[c]).T
        return sorted_words[:, self.lexicon.places]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of them."""
        own = {"emissions": self.emissions, "starts": self.starts, "classes": self.lexicon.classes}
        return {**own, **self.store.transitions.arrays()}
