"""Trees from codes in any order, and several trees joined into one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacenda.kernels.log_bilinear.tree_softmax import Codes
from tacenda_lm.log_bilinear.trees import Step, Tree

__all__ = ["joined", "packed"]

_Ints = npt.NDArray[np.int64]


def packed(words: _Ints, lengths: _Ints, steps: _Ints, n_words: int) -> Tree:
    """Codes in the order of words, from codes in any order."""
    order = np.argsort(words, kind="stable")
    begins = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    code_steps = np.concatenate([[0], np.cumsum(lengths[order])])
    at = np.repeat(begins[order] - code_steps[:-1], lengths[order]) + np.arange(len(steps))
    word_codes = np.searchsorted(words[order], np.arange(n_words + 1))
    return Tree(Codes(word_codes, code_steps, steps[at] // 2, 1 - 2 * (steps[at] % 2)))


def joined(trees: list[Tree]) -> Tree:
    """Trees over the same words under a balanced top: one overcomplete tree, every word in each part.

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
    """The same tree with its nodes numbered by depth."""
    codes = tree.codes
    depth = np.zeros(codes.n_nodes, np.int64)
    lengths = np.diff(codes.code_steps)
    depth[codes.nodes] = np.arange(len(codes.nodes)) - np.repeat(codes.code_steps[:-1], lengths)
    number = np.empty(codes.n_nodes, np.int64)
    number[np.argsort(depth, kind="stable")] = np.arange(codes.n_nodes)
    return Tree(Codes(codes.word_codes, codes.code_steps, number[codes.nodes], codes.signs))


def _balanced(n_leaves: int) -> Tree:
    """Leaves in order under as few steps as there can be."""
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
