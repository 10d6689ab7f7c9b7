"""A fitted hidden Markov model: starts, transitions, emissions, and all that is computed from them.

Transition matrices are kept as what their blocks are made from. A block A[u] (k, k) leads from the states i of one
class to the states j of another, ``A[u, j, i] = p(j | i)``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.kernels.hidden_markov import block as hmm_block
from tacenda.kernels.hidden_markov import block_softmax, streaming_logsumexp
from tacenda.kernels.hidden_markov.block import Backward, Forward, Sequences
from tacenda.kernels.hidden_markov.block_softmax import Vectors
from tacenda.offsets import rises
from tacenda_lm.hidden_markov.classed_text import Lexicon, Observed
from tacenda_lm.sequences import Ids, Offsets

__all__ = [
    "BlockStore",
    "Features",
    "Flat",
    "Free",
    "Passed",
    "Tables",
    "TwoLevel",
    "Whole",
    "required",
    "transitions_of",
]

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int64]
_Arrays = dict[str, npt.NDArray[Any]]
_TOKENS = 16384  # of a piece of text, unless there is no room for as many blocks
_BYTES = 1 << 29  # of transition blocks kept


class Transitions:
    """A transition matrix, class by class; a subclass implements `blocks`, and is a dataclass of arrays."""

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """Return A (pairs, k, k); sources are sorted."""
        raise NotImplementedError

    def onward(self, n_classes: int, group: int, states: _Floats) -> _Floats:
        """Return p(z') (classes, k, n) after p(z) (n, k) of the states of one class."""
        blocks = self.blocks(np.full(n_classes, group, np.int64), np.arange(n_classes))
        return np.asarray(blocks @ states.T, np.float32)

    def arrays(self) -> _Arrays:
        """Return what the matrix is made of, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class TwoLevel(Transitions):
    """p(z' | z) = p(c' | z) p(z' | z, c')."""

    left: _Floats  # (classes, k, width)
    reached: _Floats  # (classes, k, width)
    bias: _Floats  # (classes, k)
    to_classes: _Floats  # p(c' | z) (classes, k, classes)

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """Return A (pairs, k, k)."""
        weights = np.ascontiguousarray(self.to_classes[sources, :, targets])
        vectors = Vectors(self.left, self.reached, self.bias)
        return block_softmax.forward(vectors, sources, targets, weights)


@dataclass(frozen=True)
class Flat(Transitions):
    """p(z' | z) = exp(x_z . y_z' + b_z' - l_z)."""

    left: _Floats  # x (classes, k, width)
    reached: _Floats  # y (classes, k, width)
    bias: _Floats  # b (classes, k)
    norms: _Floats  # l (classes, k), logarithms of the sums over all states

    @classmethod
    def of(cls, left: _Floats, reached: _Floats, bias: _Floats) -> Self:
        """Return the matrix with its normalisers computed."""
        width = left.shape[2]
        rows, columns = left.reshape(-1, width), reached.reshape(-1, width)
        norms = streaming_logsumexp.forward(rows, columns, bias.ravel()).reshape(bias.shape)
        return cls(left, reached, bias, norms)

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """Return A (pairs, k, k)."""
        vectors = Vectors(self.left, self.reached, self.bias)
        return block_softmax.forward(vectors, sources, targets, norms=self.norms)

    def arrays(self) -> _Arrays:
        """Return all fields but the normalisers, by name."""
        return {"left": self.left, "reached": self.reached, "bias": self.bias}


@dataclass(frozen=True)
class Features(Transitions):
    """p(z' | z) = x_z . y_z', positive vectors; x_z is divided by what makes the row sum to one."""

    left: _Floats  # x (classes, k, features)
    reached: _Floats  # y (classes, k, features)

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """Return A (pairs, k, k)."""
        return np.asarray(self.reached[targets] @ self.left[sources].transpose(0, 2, 1), np.float32)

    def onward(self, n_classes: int, group: int, states: _Floats) -> _Floats:
        """Return p(z') (classes, k, n), without a block."""
        return np.asarray(self.reached @ (states @ self.left[group]).T, np.float32)


@dataclass(frozen=True)
class Free(Transitions):
    """p(z' | z) = p(c' | z) p(z' | z, c'); the latter is kept for the pairs of classes of the text, else uniform."""

    kept: _Floats  # p(z' | z, c') (pairs, k, k)
    keys: _Ids  # (pairs,), sorted: source * classes + target
    to_classes: _Floats  # p(c' | z) (classes, k, classes)

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """Return A (pairs, k, k)."""
        wanted = sources * len(self.to_classes) + targets
        at = np.minimum(np.searchsorted(self.keys, wanted), max(len(self.keys) - 1, 0))
        k = self.to_classes.shape[1]
        found = np.full((len(wanted), k, k), 1 / k, np.float32)
        if len(self.keys):
            known = self.keys[at] == wanted
            found[known] = self.kept[at[known]]
        return found * self.to_classes[sources, :, targets][:, None]


@dataclass(frozen=True)
class Whole(Transitions):
    """The one block of a model with one class."""

    matrix: _Floats  # p(j | i) (Z, Z), [j, i]

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """Return A (pairs, Z, Z)."""
        return np.repeat(self.matrix[None], len(sources), 0)

    def onward(self, n_classes: int, group: int, states: _Floats) -> _Floats:
        """Return p(z') (1, Z, n)."""
        return np.asarray(self.matrix @ states.T, np.float32)[None]


def required(arrays: _Arrays, name: str, *shape: int) -> _Floats:
    """Return a float32 array of an artefact in C order, checked. Raises ArtifactError."""
    array = require(arrays, name, dtype=np.float32, shape=shape, finite=True)
    return np.ascontiguousarray(array)


def distributions(arrays: _Arrays, name: str, *shape: int, over: int | None = None) -> _Floats:
    """Return an array of probabilities that sum to one over an axis, or in all. Raises ArtifactError."""
    array = required(arrays, name, *shape)
    require_sums(name, array, array.sum(over, dtype=np.float64))
    return array


def require_sums(name: str, array: _Floats, sums: npt.ArrayLike) -> None:
    """Raise ArtifactError where a number is negative or a sum is not one, but for rounding."""
    if (array < 0).any() or not np.allclose(sums, 1.0, rtol=0, atol=1e-3):
        raise ArtifactError(
            f"the array {name!r} does not hold probabilities that sum to one; the artefact is damaged"
        )


def transitions_of(kind: str, arrays: _Arrays, n_classes: int, k: int, width: int) -> Transitions:
    """Return the matrix of an artefact whose settings say ``kind``, checked. Raises ArtifactError."""
    if kind == "free":
        keys = require(arrays, "keys", dtype=np.int64, shape=("pairs",))
        if not rises(keys, strictly=True):
            raise ArtifactError("keys must rise; the artefact is damaged")
        kept = distributions(arrays, "kept", len(keys), k, k, over=1)
        to_classes = distributions(arrays, "to_classes", n_classes, k, n_classes, over=2)
        return Free(kept, np.ascontiguousarray(keys), to_classes)
    left, reached = (required(arrays, name, n_classes, k, width) for name in ("left", "reached"))
    if kind == "features":
        return Features(left, reached)
    bias = required(arrays, "bias", n_classes, k)
    if kind == "flat":
        return Flat.of(left, reached, bias)
    return TwoLevel(
        left, reached, bias, distributions(arrays, "to_classes", n_classes, k, n_classes, over=2)
    )


class BlockStore:
    """Transition blocks, made when a pair of classes is first met and kept for the next time; threads may share it.

    Blocks in a pool never change. Where a pool is full a new one takes its place, and who still reads the old one
    keeps it. At most ``size`` bytes are kept, but always one block.
    """

    def __init__(
        self, transitions: Transitions, n_classes: int, k: int, size: int = _BYTES
    ) -> None:
        self.transitions, self._classes, self._k = transitions, n_classes, k
        self.capacity = min(max(1, size // (4 * k * k)), n_classes * n_classes)
        self.holds_all = self.capacity == n_classes * n_classes
        self._lock = threading.Lock()
        self._empty()

    def _empty(self) -> None:
        self._pool = np.empty((self.capacity, self._k, self._k), np.float32)
        self._slots: dict[int, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        left_out = "_lock", "_pool", "_slots"
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._empty()

    def get(self, sources: _Ids, targets: _Ids) -> tuple[_Floats, npt.NDArray[np.int32]]:
        """Return a pool of blocks (capacity, k, k), and where in it each pair is (pairs,).

        ``sources`` (pairs,) are sorted; there are at most ``capacity`` pairs, each once.
        """
        keys = (sources * self._classes + targets).tolist()
        with self._lock:
            slots = [self._slots.get(key, -1) for key in keys]
            missing = [n for n, slot in enumerate(slots) if slot < 0]
            if len(self._slots) + len(missing) > self.capacity:
                self._empty()
                slots, missing = [-1] * len(keys), list(range(len(keys)))
            if missing:
                first = len(self._slots)
                made = self.transitions.blocks(sources[missing], targets[missing])
                self._pool[first : first + len(missing)] = made
                for slot, n in enumerate(missing, first):
                    self._slots[keys[n]] = slots[n] = slot
            return self._pool, np.array(slots, np.int32)


class Passed(NamedTuple):
    """Sentences of a piece of text after the forward pass."""

    tokens: slice  # where in the text they are
    observed: Sequences  # pairs are numbers of blocks of the pool
    pool: _Floats
    forward: Forward  # scores and filtered states


class Tables:
    """Probabilities of a fitted model, and the passes over text that use them."""

    def __init__(
        self, lexicon: Lexicon, emissions: _Floats, starts: _Floats, transitions: Transitions
    ) -> None:
        self.lexicon = lexicon
        self.emissions = emissions  # p(word | state) (words, k), words in the order of the lexicon
        self.starts = starts  # p(first state) (classes, k)
        self.store = BlockStore(transitions, *starts.shape)

    @property
    def k(self) -> int:
        """States of a class."""
        return int(self.starts.shape[1])

    def passes(self, ids: Ids, offsets: Offsets, first: _Floats | None = None) -> Iterator[Passed]:
        """Yield the forward pass over sentences, in pieces of bounded size.

        Sentences lie end to end in ``ids``. Where the first does not stand at a start, ``first`` (k,) are the
        probabilities of its first state given what came before, in the class of its first token.
        """
        size = _TOKENS if self.store.holds_all else min(_TOKENS, self.store.capacity)
        begin = 0
        while begin < len(offsets) - 1:
            end = int(np.searchsorted(offsets, offsets[begin] + size, side="right")) - 1
            if end <= begin:  # one sentence longer than that
                place = slice(int(offsets[begin]), int(offsets[begin + 1]))
                yield from self._long(ids, place, size, first)
                begin, first = begin + 1, None
                continue
            tokens = slice(int(offsets[begin]), int(offsets[end]))
            yield self._pass(ids, tokens, offsets[begin : end + 1] - offsets[begin], first)
            begin, first = end, None

    def _long(self, ids: Ids, place: slice, size: int, first: _Floats | None) -> Iterator[Passed]:
        """Yield a sentence in pieces, each from the state after the one before."""
        for at in range(place.start, place.stop, size):
            tokens = slice(at, min(at + size, place.stop))
            found = self._pass(ids, tokens, np.array([0, tokens.stop - at]), first)
            yield found
            if tokens.stop < place.stop:
                last = found.forward.states[-1]
                before, after = self.lexicon.classes[ids[tokens.stop - 1 : tokens.stop + 1]]
                first = self.reach(int(before), last, int(after))

    def _pass(self, ids: Ids, tokens: slice, offsets: Offsets, first: _Floats | None) -> Passed:
        seen = Observed.of(ids[tokens], offsets, self.lexicon)
        pool, slots = self.store.get(seen.sources, seen.targets)
        pairs = slots[seen.sequences.pairs] if len(slots) else seen.sequences.pairs
        sequences, starts = seen.sequences._replace(pairs=pairs), self.starts
        if first is not None:
            # the first sentence starts from a row of its own, put before the others
            rows = sequences.first + 1
            rows[:1] = 0
            sequences = sequences._replace(first=rows)
            starts = np.concatenate([first[None], starts])
        passed = hmm_block.forward(pool, self.emissions, starts, sequences)
        return Passed(tokens, sequences, pool, passed)

    def backward(self, passed: Passed) -> Backward:
        """Return expected counts and posteriors of what was passed."""
        pairs, words, first, offsets = passed.observed
        # a pool is large, and counts are as large as the pool they are for: take the blocks that occur
        used, numbers = np.unique(pairs, return_inverse=True)
        observed = Sequences(numbers.astype(np.int32), words, np.zeros_like(first), offsets)
        blocks, starts = passed.pool[used], self.starts[:1]
        return hmm_block.backward(blocks, self.emissions, starts, observed, passed.forward)

    def reach(self, source: int, state: _Floats, target: int) -> _Floats:
        """Return p(z') (k,), not normalised, for the states of one class after p(z) ``state`` of another."""
        pool, slots = self.store.get(np.array([source]), np.array([target]))
        return np.asarray(pool[slots[0]] @ state, np.float32)

    def onward(self, group: int, states: _Floats) -> _Floats:
        """Return p(z') (classes, k, n) after p(z) (n, k) of the states of one class."""
        return self.store.transitions.onward(len(self.starts), group, states)

    def words(self, reached: _Floats) -> _Floats:
        """Return p(word) by id (n, words) from p(z') (classes, k, n)."""
        sorted_words = np.empty((reached.shape[2], len(self.emissions)), np.float32)
        cuts = self.lexicon.offsets
        for c in np.flatnonzero(np.diff(cuts)).tolist():
            own = slice(int(cuts[c]), int(cuts[c + 1]))
            sorted_words[:, own] = (self.emissions[own] @ reached[c]).T
        return sorted_words[:, self.lexicon.places]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all of them by name."""
        own = {"emissions": self.emissions, "starts": self.starts, "classes": self.lexicon.classes}
        return {**own, **self.store.transitions.arrays()}
