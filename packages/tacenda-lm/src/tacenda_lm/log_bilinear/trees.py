"""`Tree`: a binary tree over the words of a vocabulary, as the codes of its leaves; trees joined into one."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError, KernelError
from tacenda.kernels.log_bilinear.tree_softmax import Codes

__all__ = ["MAX_CODES", "MAX_DEPTH", "Rule", "Statistics", "Tree", "joined", "packed"]

#: How words are split into a tree; see `tree_building`.
Rule = Literal["random", "balanced", "adaptive", "noisy"]
#: Codes of a word in one tree, and steps of a code, before copies are joined.
MAX_CODES, MAX_DEPTH = 4, 40

_SEEN = 0.1  # added to the counts of both sides of a node, so that no turn is impossible
_Ints = npt.NDArray[np.int64]
Step = tuple[int, int]  # a node, and 1 for left or -1 for right


class Statistics(NamedTuple):
    """What Table 4.3 of the thesis says of a tree: means over words; ``n_nodes`` leaves out the leaves.

    ``weighted_code_length`` weights words by how often they occur: times the codes of a word it gives the steps per
    token.
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
        """Return figures of the tree; ``counts`` (words,) say how often each word occurs."""
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
        """Return how often each node is left to the left and to the right, float64 (nodes, 2).

        Every word's count is divided evenly among its codes.
        """
        codes = self.codes
        n_codes = np.diff(codes.word_codes)
        of_codes = np.repeat(np.asarray(counts, np.float64) / n_codes, n_codes)
        of_steps = np.repeat(of_codes, np.diff(codes.code_steps))
        place = 2 * codes.nodes.astype(np.int64) + (codes.signs < 0)
        return np.asarray(np.bincount(place, of_steps, 2 * self.n_nodes), np.float64).reshape(-1, 2)

    def biases(self, counts: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float32]:
        """Return the log odds of going left, (nodes,), which make a unigram model where all vectors are zero."""
        left, right = (self.masses(counts) + _SEEN).T
        return np.asarray(np.log(left / right), np.float32)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the codes, for an artefact."""
        return {f"tree.{name}": np.array(array) for name, array in self.codes._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]], n_words: int) -> Tree:
        """Return the tree of an artefact over so many words, checked. Raises ArtifactError."""
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
        """Return the tree of paths written out: the codes of each word, and the steps (node, 1 or -1) of each code."""
        flat = [code for codes in paths for code in codes]
        steps = np.array([step for code in flat for step in code], np.int64).reshape(-1, 2)
        word_codes = np.cumsum([0, *map(len, paths)])
        return cls(Codes(word_codes, np.cumsum([0, *map(len, flat)]), steps[:, 0], steps[:, 1]))


def packed(words: _Ints, lengths: _Ints, steps: _Ints, n_words: int) -> Tree:
    """Return a tree from codes in any order: their words, lengths, and steps (2 node, plus 1 for right)."""
    order = np.argsort(words, kind="stable")
    begins = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    code_steps = np.concatenate([[0], np.cumsum(lengths[order])])
    at = np.repeat(begins[order] - code_steps[:-1], lengths[order]) + np.arange(len(steps))
    word_codes = np.searchsorted(words[order], np.arange(n_words + 1))
    return Tree(Codes(word_codes, code_steps, steps[at] // 2, 1 - 2 * (steps[at] % 2)))


def joined(trees: list[Tree]) -> Tree:
    """Join trees over the same words under a balanced top: one overcomplete tree with every word in each part.

    Nodes are numbered by depth, so that those visited most lie together.
    """
    n_words = trees[0].n_words
    if len(trees) == 1:
        return _renumbered(trees[0])
    top = _balanced(len(trees)).codes
    n_nodes = top.n_nodes
    words, lengths, steps = [], [], []
    for i, tree in enumerate(trees):
        codes = tree.codes
        head = top.code_steps[i : i + 2]
        above = 2 * top.nodes[slice(*head)].astype(np.int64) + (top.signs[slice(*head)] < 0)
        own = 2 * (codes.nodes.astype(np.int64) + n_nodes) + (codes.signs < 0)
        own_lengths = np.diff(codes.code_steps)
        places = np.repeat(codes.code_steps[:-1], len(above))
        steps.append(np.insert(own, places, np.tile(above, codes.n_codes)))
        lengths.append(own_lengths + len(above))
        words.append(np.repeat(np.arange(n_words), np.diff(codes.word_codes)))
        n_nodes += tree.n_nodes
    return _renumbered(
        packed(np.concatenate(words), np.concatenate(lengths), np.concatenate(steps), n_words)
    )


def _renumbered(tree: Tree) -> Tree:
    """Return the same tree with its nodes numbered by depth."""
    codes = tree.codes
    depth = np.zeros(codes.n_nodes, np.int64)
    lengths = np.diff(codes.code_steps)
    depth[codes.nodes] = np.arange(len(codes.nodes)) - np.repeat(codes.code_steps[:-1], lengths)
    number = np.empty(codes.n_nodes, np.int64)
    number[np.argsort(depth, kind="stable")] = np.arange(codes.n_nodes)
    return Tree(Codes(codes.word_codes, codes.code_steps, number[codes.nodes], codes.signs))


def _balanced(n_leaves: int) -> Tree:
    """Return a tree of leaves in order, each under as few steps as there can be."""
    paths: dict[int, list[Step]] = {}
    groups: list[tuple[int, int, list[Step]]] = [(0, n_leaves, [])]
    n_nodes = 0
    while groups:
        first, last, path = groups.pop(0)
        if last - first == 1:
            paths[first] = path
            continue
        middle = (first + last) // 2
        groups.append((first, middle, [*path, (n_nodes, 1)]))
        groups.append((middle, last, [*path, (n_nodes, -1)]))
        n_nodes += 1
    return Tree.of_paths([[paths[i]] for i in range(n_leaves)])
