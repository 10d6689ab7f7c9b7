"""The learned parameters of hidden Markov models: the classes of words, and the distributions of the states.

Every state emits the words of one class only. A block A (k, k) of the transition matrix, ``A[j, i] = p(j | i)``, leads
from the states i of one class to the states j of another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.arrays import (
    Array,
    Arrays,
    Float32,
    Int32,
    Int64,
    Probabilities,
    ascending,
    below,
    over,
)
from tacenda.errors import ArtifactError
from tacenda.forks import cached_property
from tacenda.kernels import hidden_markov as hmm

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int64]


class Lexicon(NamedTuple):
    """The classes of words, and the order of words by class."""

    classes: npt.NDArray[np.int32]  # (words,), the class of each id
    order: _Ids  # (words,), ids sorted by class
    places: _Ids  # (words,), where each id is in order
    offsets: _Ids  # (classes + 1,), where each class begins in order
    n_classes: int  # M, empty classes included

    @classmethod
    def of(cls, classes: npt.NDArray[np.int32], n_classes: int) -> Lexicon:
        """Return the lexicon of a clustering."""
        order = np.argsort(classes, kind="stable").astype(np.int64)
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        offsets = np.searchsorted(classes[order], np.arange(n_classes + 1))
        return cls(classes, order, places, offsets, n_classes)


class Learned(Arrays):
    """Learned parameters; a subclass has those of the transition matrix, and computes blocks of it."""

    emissions: Float32[Array, "types states"]  # p(word | state), words in the order of the lexicon
    starts: Probabilities[Array, "classes states", over()]  # p(first state)

    def check_saved(self) -> None:
        """Raise ArtifactError unless the emissions of every state sum to one over the words of its class."""
        offsets = self.lexicon().offsets
        begins = offsets[np.flatnonzero(np.diff(offsets))]
        sums = np.add.reduceat(self.emissions, begins, axis=0, dtype=np.float64)
        if (self.emissions < 0).any() or not np.allclose(sums, 1.0, rtol=0, atol=1e-3):
            raise ArtifactError(
                "the array 'emissions' does not hold probabilities that sum to one: the model is damaged"
            )

    def lexicon(self) -> Lexicon:
        """Return the classes of words; all words belong to one unless a subclass has more."""
        return Lexicon.of(np.zeros(len(self.emissions), np.int32), len(self.starts))

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """Return A (pairs, k, k); sources are sorted."""
        raise NotImplementedError

    def onward(self, group: int, states: _Floats) -> _Floats:
        """Return p(z') (classes, k, n) after p(z) (n, k) of the states of one class."""
        targets = np.arange(len(self.starts))
        blocks = self.blocks(np.full_like(targets, group), targets)
        return np.asarray(blocks @ states.T, np.float32)


class Clustered(Learned):
    """The base of models whose states are divided among classes of words."""

    classes: Int32[Array, "types", below("classes")]  # the class of each word, by id

    def lexicon(self) -> Lexicon:
        return Lexicon.of(self.classes, len(self.starts))


class TwoLevel(Clustered):
    """p(z' | z) = p(c' | z) p(z' | z, c'), the latter a softmax of x_z . y_z' + b_z' over the states of c'."""

    left: Float32[Array, "classes states width"]  # x
    reached: Float32[Array, "classes states width"]  # y
    bias: Float32[Array, "classes states"]  # b
    to_classes: Probabilities[Array, "classes states classes"]  # p(c' | z)

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        weights = np.ascontiguousarray(self.to_classes[sources, :, targets])
        vectors = hmm.Vectors(self.left, self.reached, self.bias)
        return hmm.block_softmax(vectors, sources, targets, weights)


class Flat(Clustered):
    """p(z' | z) = exp(x_z . y_z' + b_z' - l_z), a softmax over all states."""

    left: Float32[Array, "classes states width"]  # x
    reached: Float32[Array, "classes states width"]  # y
    bias: Float32[Array, "classes states"]  # b

    @cached_property
    def norms(self) -> _Floats:
        """The normalizers l (classes, k): natural logarithms of sums over all states."""
        rows, columns = (x.reshape(-1, x.shape[2]) for x in (self.left, self.reached))
        sums = hmm.streaming_logsumexp(rows, columns, self.bias.ravel())
        return sums.reshape(self.bias.shape)

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        vectors = hmm.Vectors(self.left, self.reached, self.bias)
        return hmm.block_softmax(vectors, sources, targets, norms=self.norms)


class Features(Clustered):
    """p(z' | z) = x_z . y_z' of positive vectors; x_z is scaled so that the probabilities sum to one."""

    left: Float32[Array, "classes states width"]  # x
    reached: Float32[Array, "classes states width"]  # y

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        return np.asarray(self.reached[targets] @ self.left[sources].transpose(0, 2, 1), np.float32)

    def onward(self, group: int, states: _Floats) -> _Floats:
        return np.asarray(self.reached @ (states @ self.left[group]).T, np.float32)


class Free(Clustered):
    """p(z' | z) = p(c' | z) p(z' | z, c'), where the latter is uniform for pairs of classes that the text lacks."""

    keys: Int64[Array, "pairs", ascending]  # source * classes + target
    kept: Probabilities[Array, "pairs states states", over(1)]  # p(z' | z, c')
    to_classes: Probabilities[Array, "classes states classes"]  # p(c' | z)

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        wanted = sources * len(self.to_classes) + targets
        at = np.searchsorted(self.keys, wanted)
        known = np.append(self.keys, -1)[at] == wanted
        k = self.to_classes.shape[1]
        within = np.full((len(wanted), k, k), 1 / k, np.float32)
        within[known] = self.kept[at[known]]
        return np.asarray(within * self.to_classes[sources, :, targets][:, None], np.float32)


class Whole(Learned):
    """The transition matrix itself, of a model with one class, to which all words belong."""

    matrix: Probabilities[Array, "states states", over(0)]  # p(j | i), [j, i]

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        return np.broadcast_to(self.matrix, (len(sources), *self.matrix.shape))


#: By the option ``transitions`` of a `VLHMM`.
KINDS: dict[str, type[Learned]] = {"two_level": TwoLevel, "flat": Flat, "features": Features}
