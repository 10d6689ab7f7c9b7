"""Text as word classes, and passes over it with the probabilities of a fitted hidden Markov model.

The class of a word is observed, so a text is a sequence of pairs of classes. A step of inference uses one block of the
transition matrix, which leads from the states of one class to those of another (see `parameters`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus.storage import PASS_ITEMS
from tacenda.forks import renew_in_children
from tacenda.kernels import hidden_markov as hmm
from tacenda.offsets import runs
from tacenda_lm.hidden_markov.parameters import Learned, Lexicon
from tacenda_lm.sequences import Ids, Offsets, pieces

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int64]
_TOKENS_PER_PASS = 16384  # at most; fewer if the store has no room for as many blocks
_STORE_BYTES = 1 << 29  # of transition blocks
MIN_PROBABILITY = np.finfo(np.float32).tiny  # replaces probabilities that float32 cannot hold

# -- text as classes of words ------------------------------------------------------------------------


class Observed(NamedTuple):
    """Sequences of a text, and the distinct pairs of neighboring classes in them."""

    sources: _Ids  # (pairs,), sorted
    targets: _Ids  # (pairs,)
    # its ``pairs`` are indexes of the pairs above, its ``words`` places in the lexicon, its ``first`` classes
    sequences: hmm.Sequences

    @classmethod
    def of(cls, ids: Ids, offsets: Offsets, lexicon: Lexicon) -> Observed:
        """Return all sequences, each from the start of a sentence."""
        classes = lexicon.classes[ids].astype(np.int64)
        occupied = np.diff(offsets) > 0
        reached = hmm.inner_tokens(offsets)
        keys = classes[reached - 1] * lexicon.n_classes + classes[reached]
        distinct, numbers = np.unique(keys, return_inverse=True)
        pairs = np.zeros(len(ids), np.int32)
        pairs[reached] = numbers
        first = np.zeros(len(offsets) - 1, np.int32)
        first[occupied] = classes[offsets[:-1][occupied]]
        sequences = hmm.Sequences(pairs, lexicon.places[ids].astype(np.int32), first, offsets)
        return cls(*np.divmod(distinct, lexicon.n_classes), sequences)


def pairs_of(ids: Ids, offsets: Offsets, lexicon: Lexicon) -> _Ids:
    """Return the pairs of classes that follow each other in a sentence, sorted: source times classes plus target."""
    keys = np.empty(0, np.int64)
    for at, piece in zip(range(0, len(ids), PASS_ITEMS), pieces(ids, overlap=1), strict=False):
        begins = offsets[slice(*np.searchsorted(offsets, (at, at + len(piece))))] - at
        reached = hmm.inner_tokens(np.concatenate([[0], begins, [len(piece)]]))
        classes = lexicon.classes[piece].astype(np.int64)
        keys = np.union1d(keys, classes[reached - 1] * lexicon.n_classes + classes[reached])
    return keys


# -- passes over text --------------------------------------------------------------------------------


class BlockStore:
    """A cache of transition blocks, computed when a pair of classes is first needed; threads may share it.

    Blocks in a pool never change. A full pool is replaced by a new one, and callers that read the old one keep it. A
    pool has at most ``size`` bytes, but room for one block at least.
    """

    def __init__(self, transitions: Learned, size: int = _STORE_BYTES) -> None:
        self._given = transitions, size
        n_classes, k = transitions.starts.shape
        self.transitions, self._classes = transitions, n_classes
        self.capacity = min(max(1, size // (4 * k * k)), n_classes * n_classes)
        self._lock = threading.Lock()
        self._pool = np.empty((self.capacity, k, k), np.float32)
        self._slots: dict[int, int] = {}
        renew_in_children(self)

    def renew(self) -> None:
        """Empty the store in a forked child, if a thread of the parent, which the child lacks, held the lock."""
        if self._lock.locked():
            BlockStore.__init__(self, *self._given)

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockStore, self._given  # without blocks, and with a lock of its own

    def get(self, sources: _Ids, targets: _Ids) -> tuple[_Floats, npt.NDArray[np.int32]]:
        """Return a pool of blocks (capacity, k, k), and the slot of each pair in it (pairs,).

        Pairs may repeat; at most ``capacity`` are different.
        """
        keys = (sources * self._classes + targets).tolist()
        with self._lock:
            missing = set(keys).difference(self._slots)
            # other threads may still read the full pool, so it is replaced, not emptied
            if len(self._slots) + len(missing) > self.capacity:
                self._pool, self._slots, missing = np.empty_like(self._pool), {}, set(keys)
            if missing:
                new, first = sorted(missing), len(self._slots)
                pairs = np.divmod(np.array(new, np.int64), self._classes)
                self._pool[first : first + len(new)] = self.transitions.blocks(*pairs)
                self._slots.update(zip(new, range(first, first + len(new)), strict=True))
            return self._pool, np.array([self._slots[key] for key in keys], np.int32)


class Tables:
    """The probabilities of a fitted model, and the passes over text that use them."""

    def __init__(self, learned: Learned) -> None:
        self.learned = learned
        self.emissions: _Floats = learned.emissions
        self.starts: _Floats = learned.starts
        self.k = int(self.starts.shape[1])  # states of a class
        self.lexicon = learned.lexicon()
        self.store = BlockStore(learned)

    @property
    def tokens_per_pass(self) -> int:
        """How many tokens a pass reads at once; the store has room for all blocks between them."""
        capacity, n_pairs = self.store.capacity, len(self.starts) ** 2
        return _TOKENS_PER_PASS if capacity == n_pairs else min(_TOKENS_PER_PASS, capacity)

    def passes(
        self, ids: Ids, offsets: Offsets, first: _Floats | None = None
    ) -> Iterator[tuple[slice, hmm.Forward]]:
        """Yield the forward pass over sentences in pieces of bounded size, each with its place in the text.

        ``offsets`` (sentences + 1,) cut the ids. If the first sentence began earlier, ``first`` (k,) are the
        probabilities of the states of its first token's class, given the words before.
        """
        size = self.tokens_per_pass
        for begin, end in runs(offsets, size):
            stop = int(offsets[end])
            # a sentence may be longer than a piece
            for at in range(int(offsets[begin]), stop, size):
                tokens = slice(at, min(at + size, stop))
                cuts = np.clip(offsets[begin : end + 1], at, tokens.stop) - at
                passed, first = self._pass(ids[tokens], cuts, first), None
                yield tokens, passed
                if tokens.stop < stop:
                    before, after = self.lexicon.classes[ids[tokens.stop - 1 : tokens.stop + 1]]
                    first = self.reach(int(before), passed.states[-1], int(after))

    def _pass(self, ids: Ids, offsets: Offsets, first: _Floats | None) -> hmm.Forward:
        seen = Observed.of(ids, offsets, self.lexicon)
        pool, slots = self.store.get(seen.sources, seen.targets)
        pairs = slots[seen.sequences.pairs] if len(slots) else seen.sequences.pairs
        sequences, starts = seen.sequences._replace(pairs=pairs), self.starts
        if first is not None:
            # the first sentence starts from an own row, inserted before those of the classes
            rows = sequences.first + 1
            rows[:1] = 0
            sequences = sequences._replace(first=rows)
            starts = np.concatenate([first[None], starts])
        log_probs, states = hmm.hmm_block(pool, self.emissions, starts, sequences)
        # the kernel gives up a sentence at a word of probability zero
        for t in np.flatnonzero(np.isneginf(log_probs)).tolist():
            if t in offsets:
                reached = starts[sequences.first[np.searchsorted(offsets, t, side="right") - 1]]
            else:
                before, own = self.lexicon.classes[ids[t - 1 : t + 1]]
                reached = self.reach(int(before), states[t - 1], int(own))
            log_probs[t], states[t] = self.observe(reached, int(ids[t]))
        return hmm.Forward(np.maximum(log_probs, np.log(np.float64(MIN_PROBABILITY))), states)

    def observe(self, reached: _Floats, word: int) -> tuple[float, _Floats]:
        """Return natural log p(word) and p(z | word) (k,) after p(z) ``reached`` of the states of its class.

        If float32 cannot hold the probability, it is `MIN_PROBABILITY`; if it is zero, every state is as likely.
        """
        joint = np.asarray(reached * self.emissions[self.lexicon.places[word]], np.float32)
        total = joint.sum(dtype=np.float64)
        states = joint / np.float32(total) if total > 0 else np.full_like(joint, 1 / len(joint))
        return math.log(max(total, MIN_PROBABILITY)), states

    def reach(self, source: int, state: _Floats, target: int) -> _Floats:
        """Return p(z') (k,), not normalized, for the states of one class after p(z) ``state`` of another."""
        pool, slots = self.store.get(np.array([source]), np.array([target]))
        return np.asarray(pool[slots[0]] @ state, np.float32)

    def words(self, reached: _Floats) -> _Floats:
        """Return p(word) by id (n, words) from p(z') (classes, k, n)."""
        sorted_words = np.empty((reached.shape[2], len(self.emissions)), np.float32)
        cuts = self.lexicon.offsets
        for c in np.flatnonzero(np.diff(cuts)).tolist():
            own = slice(int(cuts[c]), int(cuts[c + 1]))
            sorted_words[:, own] = (self.emissions[own] @ reached[c]).T
        return sorted_words[:, self.lexicon.places]
