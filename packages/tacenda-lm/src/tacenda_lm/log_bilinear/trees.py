"""`Tree`: a binary tree over the words of a vocabulary, as the codes of its leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError, KernelError
from tacenda.kernels.log_bilinear.tree_softmax import Codes

__all__ = ["Statistics", "Tree"]

_SEEN = 0.1  # added to the counts of both sides of a node, so that no turn is impossible
Step = tuple[int, int]


class Statistics(NamedTuple):
    """What Table 4.3 of the thesis says of a tree: means over words, and nodes without leaves.

    ``weighted_code_length`` is weighted by how often the words occur: steps per token are it times the codes.
    """

    mean_code_length: float
    weighted_code_length: float
    codes_per_word: float
    steps_per_token: float
    n_nodes: int
    depth: int


class Tree:
    """A binary tree whose leaves are words, every word at one leaf or more.

    Parameters
    ----------
    codes
        The path of every leaf. Nodes are numbered from 0 without gaps.

    Raises
    ------
    KernelError
        The codes are not the leaves of one tree.
    """

    def __init__(self, codes: Codes) -> None:
        if codes.n_codes > 1 and codes.n_codes != codes.n_nodes + 1:
            raise KernelError(
                f"a binary tree of {codes.n_codes} leaves has {codes.n_codes - 1} nodes, not {codes.n_nodes}"
            )
        _ = codes.children  # refuses what is no tree
        self.codes = codes

    @property
    def n_words(self) -> int:
        """Words at the leaves."""
        return self.codes.n_words

    @property
    def n_nodes(self) -> int:
        """Nodes with a vector: all but the leaves."""
        return self.codes.n_nodes

    def statistics(self, counts: npt.NDArray[np.integer[Any]]) -> Statistics:
        """Figures of the tree; ``counts`` (words,) say how often each word occurs."""
        lengths = np.diff(self.codes.code_steps)
        n_codes = np.diff(self.codes.word_codes)
        steps = np.diff(self.codes.code_steps[self.codes.word_codes])
        weights = np.asarray(counts, np.float64)
        weights = (
            weights / weights.sum() if weights.sum() else np.full(len(n_codes), 1 / len(n_codes))
        )
        return Statistics(
            mean_code_length=float((steps / n_codes).mean()),
            weighted_code_length=float((steps / n_codes) @ weights),
            codes_per_word=float(n_codes.mean()),
            steps_per_token=float(steps @ weights),
            n_nodes=self.n_nodes,
            depth=int(lengths.max(initial=0)),
        )

    def masses(self, counts: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
        """How often each node is left to the left and to the right, float64 (nodes, 2).

        Every word's count is divided evenly among its codes.
        """
        codes = self.codes
        n_codes = np.diff(codes.word_codes)
        of_codes = np.repeat(np.asarray(counts, np.float64) / n_codes, n_codes)
        of_steps = np.repeat(of_codes, np.diff(codes.code_steps))
        place = 2 * codes.nodes.astype(np.int64) + (codes.signs < 0)
        return np.asarray(np.bincount(place, of_steps, 2 * self.n_nodes), np.float64).reshape(-1, 2)

    def biases(self, counts: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float32]:
        """Log odds of going left, which make the tree a unigram model where vectors are zero: (nodes,)."""
        left, right = (self.masses(counts) + _SEEN).T
        return np.asarray(np.log(left / right), np.float32)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The codes, for an artefact."""
        return {f"tree.{name}": np.array(array) for name, array in self.codes._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]], n_words: int) -> Tree:
        """The tree of an artefact over so many words, checked. Raises ArtifactError."""
        found = {}
        for name, kind in zip(Codes._fields, ("int64", "int64", "int32", "int8"), strict=True):
            found[name] = require(arrays, f"tree.{name}", dtype=kind, shape=(f"of {name}",))
        try:
            tree = cls(Codes(**found))
        except KernelError as error:
            raise ArtifactError(f"the tree of the model is damaged: {error}") from error
        if tree.n_words != n_words:
            raise ArtifactError(
                f"the tree of the model has {tree.n_words} words, and its vocabulary {n_words}"
            )
        return tree

    @classmethod
    def of_paths(cls, paths: list[list[list[Step]]]) -> Tree:
        """The tree of paths written out: of each word its codes, of each code the steps (node, 1 or -1)."""
        flat = [code for codes in paths for code in codes]
        steps = np.array([step for code in flat for step in code], np.int64).reshape(-1, 2)
        word_codes = np.cumsum([0, *map(len, paths)])
        return cls(Codes(word_codes, np.cumsum([0, *map(len, flat)]), steps[:, 0], steps[:, 1]))
