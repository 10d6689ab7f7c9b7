"""What an HLBL learns: feature vectors of words and nodes, weights of positions and tails, biases."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.kernels.log_bilinear.context_sum import Context
from tacenda.kernels.log_bilinear.stream_scores import rounded
from tacenda.kernels.machinery.memory import WIDE, aligned

__all__ = ["Parameters"]

_Floats = npt.NDArray[np.float32]


@dataclass
class Parameters:
    """All float32 in C order.

    Attributes
    ----------
    words
        R (types, width), of the words that have a position.
    far_words
        F (types, width), of those in the tails; no rows where they have the vectors of ``words``.
    positions
        c (context, width), the last word's weights first.
    bias
        b (1, width), of the predicted vector.
    tails
        a (tails, width).
    nodes
        q (nodes, width).
    node_biases
        (nodes, 1).
    """

    words: _Floats
    far_words: _Floats
    positions: _Floats
    bias: _Floats
    tails: _Floats
    nodes: _Floats
    node_biases: _Floats

    @classmethod
    def drawn(
        cls,
        n_words: int,
        width: int,
        context: int,
        rates: tuple[float, ...],
        node_biases: _Floats,
        rng: np.random.Generator,
        *,
        far: bool = False,
    ) -> Parameters:
        """Small random vectors; weights of positions 1 / (2 sqrt(i)), those of a tail sum to about 1/2."""

        def normal(rows: int, scale: float) -> _Floats:
            return _placed(rng.standard_normal((rows, width), np.float32) * np.float32(scale))

        weights = 0.5 / np.sqrt(np.arange(1, context + 1))
        of_tails = 0.5 * (1 - np.array(rates, np.float64))
        return cls(
            words=normal(n_words, 0.05),
            far_words=normal(n_words if far else 0, 0.05),
            positions=_placed(np.repeat(weights[:, None], width, 1).astype(np.float32)),
            bias=np.zeros((1, width), np.float32),
            tails=_placed(np.repeat(of_tails[:, None], width, 1).astype(np.float32)),
            nodes=normal(len(node_biases), 0.01),
            node_biases=node_biases.reshape(-1, 1).astype(np.float32),
        )

    def context(self, rates: tuple[float, ...]) -> Context:
        """As `tacenda.kernels.log_bilinear.context_sum` takes it."""
        return Context(self.positions, self.bias[0], np.array(rates, np.float32), self.tails)

    @property
    def far(self) -> _Floats | None:
        """F, or None where it is R."""
        return self.far_words if len(self.far_words) else None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """By name; the arrays themselves."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def round_nodes(self) -> None:
        """Makes the node vectors what scoring keeps of them, 8 bits and a scale: whatever is computed with them
        agrees with it. Doing it again changes nothing.
        """
        self.nodes = _placed(rounded(self.nodes))

    def copy(self) -> Parameters:
        """Another one with the same numbers."""
        return Parameters(**{name: array.copy() for name, array in self.arrays().items()})

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, npt.NDArray[Any]],
        *,
        n_words: int,
        width: int,
        context: int,
        tails: int,
        n_nodes: int,
        far: bool,
    ) -> Parameters:
        """The parameters of an artefact, checked. Raises ArtifactError."""
        shapes = {
            "words": (n_words, width),
            "far_words": (n_words if far else 0, width),
            "positions": (context, width),
            "bias": (1, width),
            "tails": (tails, width),
            "nodes": (n_nodes, width),
            "node_biases": (n_nodes, 1),
        }
        found = {}
        for name, shape in shapes.items():
            array = require(arrays, name, dtype=np.float32, shape=shape, finite=True)
            found[name] = _placed(
                rounded(array) if name == "nodes" else np.ascontiguousarray(array)
            )
        return cls(**found)


def _placed(array: _Floats) -> _Floats:
    """The same in memory where rows are read fastest, if their width allows."""
    return array if array.shape[1] % WIDE else aligned(array, WIDE)
