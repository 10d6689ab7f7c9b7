"""The transition matrices of fitted models, as vectors that blocks are made from."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.kernels.hidden_markov import block_softmax, streaming_logsumexp
from tacenda.kernels.hidden_markov.block_softmax import Vectors

__all__ = ["Features", "Flat", "Free", "TwoLevel", "transitions_of"]

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int64]
_Arrays = dict[str, npt.NDArray[Any]]


class TwoLevel(NamedTuple):
    """p(z' | z) = p(c' | z) p(z' | z, c').

    Attributes
    ----------
    left
        (classes, k, width).
    reached
        (classes, k, width).
    bias
        (classes, k).
    to_classes
        p(c' | z) (classes, k, classes).
    """

    left: _Floats
    reached: _Floats
    bias: _Floats
    to_classes: _Floats

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """A (pairs, k, k)."""
        weights = np.ascontiguousarray(self.to_classes[sources, :, targets])
        vectors = Vectors(self.left, self.reached, self.bias)
        return block_softmax.forward(vectors, sources, targets, weights)

    def onward(self, group: int, states: _Floats) -> _Floats:
        """p(z') (classes, k, n)."""
        return _onward(self, group, states)

    def arrays(self) -> _Arrays:
        """By name."""
        return self._asdict()

    @classmethod
    def from_arrays(cls, arrays: _Arrays, n_classes: int, k: int, width: int) -> Self:
        """Of an artefact, checked. Raises ArtifactError."""
        left, reached, bias = _vectors(arrays, n_classes, k, width)
        shape = n_classes, k, n_classes
        to_classes = require(arrays, "to_classes", dtype=np.float32, shape=shape, finite=True)
        return cls(left, reached, bias, np.ascontiguousarray(to_classes))


class Flat(NamedTuple):
    """p(z' | z) = exp(x_z . y_z' + b_z' - l_z), with the logarithms l of the sums over all states."""

    left: _Floats
    reached: _Floats
    bias: _Floats
    norms: _Floats

    @classmethod
    def of(cls, left: _Floats, reached: _Floats, bias: _Floats) -> Self:
        """With the normalisers computed."""
        width = left.shape[2]
        rows, columns = left.reshape(-1, width), reached.reshape(-1, width)
        norms = streaming_logsumexp.forward(rows, columns, bias.ravel()).reshape(bias.shape)
        return cls(left, reached, bias, norms)

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """A (pairs, k, k)."""
        vectors = Vectors(self.left, self.reached, self.bias)
        return block_softmax.forward(vectors, sources, targets, norms=self.norms)

    def onward(self, group: int, states: _Floats) -> _Floats:
        """p(z') (classes, k, n)."""
        return _onward(self, group, states)

    def arrays(self) -> _Arrays:
        """By name."""
        return {"left": self.left, "reached": self.reached, "bias": self.bias}

    @classmethod
    def from_arrays(cls, arrays: _Arrays, n_classes: int, k: int, width: int) -> Self:
        """Of an artefact, checked. Raises ArtifactError."""
        return cls.of(*_vectors(arrays, n_classes, k, width))


class Features(NamedTuple):
    """p(z' | z) = x_z . y_z', positive vectors, those of z divided by what makes it sum to one."""

    left: _Floats
    reached: _Floats

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """A (pairs, k, k)."""
        return np.asarray(self.reached[targets] @ self.left[sources].transpose(0, 2, 1), np.float32)

    def onward(self, group: int, states: _Floats) -> _Floats:
        """p(z') (classes, k, n), without a block."""
        return np.asarray(self.reached @ (states @ self.left[group]).T, np.float32)

    def arrays(self) -> _Arrays:
        """By name."""
        return self._asdict()

    @classmethod
    def from_arrays(cls, arrays: _Arrays, n_classes: int, k: int, width: int) -> Self:
        """Of an artefact, checked. Raises ArtifactError."""
        return cls(*_vectors(arrays, n_classes, k, width, bias=False))


class Free(NamedTuple):
    """p(z' | z) = p(c' | z) p(z' | z, c'), the latter kept for the pairs of classes of the text, else uniform.

    Attributes
    ----------
    kept
        p(z' | z, c') (pairs, k, k).
    keys
        int64 (pairs,), sorted: ``source * classes + target``.
    to_classes
        p(c' | z) (classes, k, classes).
    """

    kept: _Floats
    keys: _Ids
    to_classes: _Floats

    def blocks(self, sources: _Ids, targets: _Ids) -> _Floats:
        """A (pairs, k, k)."""
        wanted = sources * len(self.to_classes) + targets
        at = np.minimum(np.searchsorted(self.keys, wanted), max(len(self.keys) - 1, 0))
        k = self.to_classes.shape[1]
        found = np.full((len(wanted), k, k), 1 / k, np.float32)
        if len(self.keys):
            known = self.keys[at] == wanted
            found[known] = self.kept[at[known]]
        return found * self.to_classes[sources, :, targets][:, None]

    def onward(self, group: int, states: _Floats) -> _Floats:
        """p(z') (classes, k, n)."""
        return _onward(self, group, states)

    def arrays(self) -> _Arrays:
        """By name."""
        return self._asdict()

    @classmethod
    def from_arrays(cls, arrays: _Arrays, n_classes: int, k: int, width: int) -> Self:
        """Of an artefact, checked. Raises ArtifactError."""
        shape = n_classes, k, n_classes
        to_classes = require(arrays, "to_classes", dtype=np.float32, shape=shape, finite=True)
        keys = require(arrays, "keys", dtype=np.int64, shape=("pairs",))
        if (np.diff(keys) <= 0).any():
            raise ArtifactError("keys must rise; the artefact is damaged")
        shape = len(keys), k, k
        kept = require(arrays, "kept", dtype=np.float32, shape=shape, finite=True)
        return cls(*map(np.ascontiguousarray, (kept, keys, to_classes)))


def _onward(transitions: TwoLevel | Flat | Free, group: int, states: _Floats) -> _Floats:
    M = len(transitions.to_classes if isinstance(transitions, Free) else transitions.left)
    blocks = transitions.blocks(np.full(M, group, np.int64), np.arange(M))
    return np.asarray(blocks @ states.T, np.float32)


def _vectors(
    arrays: _Arrays, n_classes: int, k: int, width: int, bias: bool = True
) -> list[_Floats]:
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("left", "reached"), (n_classes, k, width))
    if bias:
        shapes["bias"] = n_classes, k
    return [
        np.ascontiguousarray(require(arrays, name, dtype=np.float32, shape=shape, finite=True))
        for name, shape in shapes.items()
    ]


def transitions_of(
    kind: str, arrays: _Arrays, n_classes: int, k: int, width: int
) -> TwoLevel | Flat | Features | Free:
    """Of an artefact whose configuration says ``kind``. Raises ArtifactError."""
    found: type[TwoLevel | Flat | Features | Free] = {
        "two_level": TwoLevel, "flat": Flat, "features": Features, "free": Free
    }[kind]  # fmt: skip
    return found.from_arrays(arrays, n_classes, k, width)
