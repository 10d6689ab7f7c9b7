"""The transition matrices of fitted models, kept as what their blocks are made from.

A block A[u] (k, k) leads from the states i of one class to the states j of another, ``A[u, j, i] = p(j | i)``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.kernels.hidden_markov import block_softmax, streaming_logsumexp
from tacenda.kernels.hidden_markov.block_softmax import Vectors
from tacenda.offsets import rises

__all__ = [
    "Features",
    "Flat",
    "Free",
    "Transitions",
    "TwoLevel",
    "Whole",
    "required",
    "transitions_of",
]

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int64]
_Arrays = dict[str, npt.NDArray[Any]]


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

    @classmethod
    def from_arrays(cls, arrays: _Arrays, n_classes: int, k: int, width: int) -> Self:
        """Return the matrix of an artefact, checked. Raises ArtifactError."""
        left, reached, bias = _vectors(arrays, n_classes, k, width)
        return cls(left, reached, bias, required(arrays, "to_classes", n_classes, k, n_classes))


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

    @classmethod
    def from_arrays(cls, arrays: _Arrays, n_classes: int, k: int, width: int) -> Self:
        """Return the matrix of an artefact, checked. Raises ArtifactError."""
        return cls.of(*_vectors(arrays, n_classes, k, width))


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

    @classmethod
    def from_arrays(cls, arrays: _Arrays, n_classes: int, k: int, width: int) -> Self:
        """Return the matrix of an artefact, checked. Raises ArtifactError."""
        return cls(*(required(arrays, name, n_classes, k, width) for name in ("left", "reached")))


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

    @classmethod
    def from_arrays(cls, arrays: _Arrays, n_classes: int, k: int, width: int) -> Self:
        """Return the matrix of an artefact, checked. Raises ArtifactError."""
        to_classes = required(arrays, "to_classes", n_classes, k, n_classes)
        keys = require(arrays, "keys", dtype=np.int64, shape=("pairs",))
        if not rises(keys, strictly=True):
            raise ArtifactError("keys must rise; the artefact is damaged")
        kept = required(arrays, "kept", len(keys), k, k)
        return cls(kept, np.ascontiguousarray(keys), to_classes)


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


def _vectors(
    arrays: _Arrays, n_classes: int, k: int, width: int
) -> tuple[_Floats, _Floats, _Floats]:
    left, reached = (required(arrays, name, n_classes, k, width) for name in ("left", "reached"))
    return left, reached, required(arrays, "bias", n_classes, k)


def transitions_of(kind: str, arrays: _Arrays, n_classes: int, k: int, width: int) -> Transitions:
    """Return the matrix of an artefact whose settings say ``kind``. Raises ArtifactError."""
    found: type[TwoLevel | Flat | Features | Free] = {
        "two_level": TwoLevel, "flat": Flat, "features": Features, "free": Free
    }[kind]  # fmt: skip
    return found.from_arrays(arrays, n_classes, k, width)
