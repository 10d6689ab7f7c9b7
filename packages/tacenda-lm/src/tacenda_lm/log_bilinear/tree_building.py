"""Building trees over words: at random, or by splitting words that follow similar contexts (section 4.4).

Levels are built one after another, all groups of a level at once. Words are split by the responsibilities p of a
mixture of two Gaussians:

    random      halves at random; no vectors are needed
    balanced    halves, in the order of p
    adaptive    p > 1/2 left, the others right; with ``overlap`` epsilon > 0 words with |p - 1/2| <= epsilon go
                both ways and get two codes: ADAPTIVE(epsilon)
    noisy       as adaptive, but a word that goes one way only takes the likely one with probability p

The mixture of each group of words is one of two spherical Gaussians, fitted by EM in compiled loops:

    p_j = pi_1 N(x_j; m_1, v_1 I) / sum_c pi_c N(x_j; m_c, v_c I)

Words can weigh more than others. Import this module only where it is needed: it imports numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.trees import Codes
from tacenda_lm.log_bilinear.trees import Rule, Tree

_Ints = npt.NDArray[np.int64]
# words, lengths of their paths, and all steps: 2 node, plus 1 for right
_Leaves = tuple[_Ints, _Ints, _Ints]

_EM_STEPS = 10  # the thesis's
_FIRST = 0.9  # responsibility to begin with, for a random half
_LEAST = 1e-9  # of a component's weight and, relative to the group's, its variance
_MAX_CODES = 4  # of a word in one copy of the tree
_MAX_DEPTH = 40  # steps of a code in one copy


class _Level(NamedTuple):
    """Groups of words that are still together, and the path of each word so far."""

    members: _Ints  # words, group after group
    borders: _Ints  # (groups + 1,)
    paths: _Ints  # (members, level): 2 node + (1 where right)


def build_tree(
    rule: Rule,
    n_words: int,
    *,
    vectors: npt.NDArray[np.floating[Any]] | None = None,
    weights: npt.NDArray[np.floating[Any]] | None = None,
    overlap: float = 0.0,
    copies: int = 1,
    seed: int = 0,
) -> Tree:
    """Build a tree over words.

    Parameters
    ----------
    rule
        ``"random"`` (halves at random), ``"balanced"`` (halves of similar words), ``"adaptive"`` (clusters of any size)
        or ``"noisy"`` (clusters drawn at random by their probabilities).
    n_words
        Number of words; each has at least one leaf.
    vectors
        (words, width), what words are clustered by: the average predicted vector of each. ``"random"`` needs none.
    weights
        (words,), positive: the weight of each word in the clustering; by default all are equal.
    overlap
        epsilon, in [0, 0.5): a word goes to both sides of a split if its probability is this close to 1/2.
        For ``"adaptive"`` and ``"noisy"``.
    copies
        Independent trees joined under a balanced top: an overcomplete tree.
    seed
        Seed of all random choices; the same seed gives the same tree.

    Raises
    ------
    ConfigurationError
        An argument is out of range or missing.
    """
    if rule not in get_args(Rule):
        raise ConfigurationError(
            f"there is no tree {rule!r}; choose from {', '.join(get_args(Rule))}"
        )
    if n_words < 1 or copies < 1 or not 0 <= overlap < 0.5:
        raise ConfigurationError(
            f"a tree needs words ({n_words}) and copies ({copies}) of at least 1, and overlap ({overlap}) in [0, 0.5)"
        )
    x = np.zeros((n_words, 1), np.float32)
    if rule != "random":
        if vectors is None or np.shape(vectors)[:1] != (n_words,) or np.ndim(vectors) != 2:
            raise ConfigurationError(
                f"a tree by {rule!r} needs one vector for each of {n_words} words"
            )
        x = np.ascontiguousarray(vectors, np.float32)
        if not np.isfinite(x).all():
            raise ConfigurationError("the vectors that words are clustered by hold NaN or infinity")
    w = np.ones(n_words, np.float32) if weights is None else np.asarray(weights, np.float32)
    if w.shape != (n_words,) or not (w > 0).all():
        raise ConfigurationError("the weights of a clustering must be positive, one for every word")
    splitting = _Splitting(rule, x, w, overlap, np.random.default_rng([seed, 7]))
    return join([splitting.grow() for _ in range(copies)])


class _Splitting(NamedTuple):
    """How groups of words are split in two."""

    rule: Rule
    x: npt.NDArray[np.float32]  # (words, width), what words are clustered by
    weights: npt.NDArray[np.float32]  # (words,)
    overlap: float
    rng: np.random.Generator

    def grow(self) -> Tree:
        """Build one tree, level by level."""
        n_words = len(self.x)
        codes_of = np.ones(n_words, np.int64)
        level = _Level(np.arange(n_words), np.array([0, n_words]), np.zeros((n_words, 0), np.int64))
        n_nodes, leaves = 0, []
        while len(level.members):
            sizes = np.diff(level.borders)
            ready = np.repeat(sizes == 1, sizes)
            words, paths = level.members[ready], level.paths[ready]
            leaves.append((words, np.full(len(words), paths.shape[1]), paths.ravel()))
            borders = np.concatenate([[0], np.cumsum(sizes[sizes > 1])])
            level = _Level(level.members[~ready], borders, level.paths[~ready])
            level = self._split(level, codes_of, n_nodes)
            n_nodes += len(borders) - 1
        return _assemble(leaves, n_words)

    def _split(self, level: _Level, codes_of: _Ints, n_nodes: int) -> _Level:
        """Return the level below: every group's left members, then its right ones; some words are among both.

        ``codes_of`` (words,) is brought up to date. The new nodes are numbered from ``n_nodes``.
        """
        (members, borders, paths), rule = level, self.rule
        sizes, n = np.diff(borders), len(members)
        group = np.repeat(np.arange(len(sizes)), sizes)
        if rule == "random":
            odds = self.rng.random(n)
        else:
            p, odds = np.where(self.rng.random(n) < 0.5, _FIRST, 1 - _FIRST), np.zeros(n)
            _em(self.x, self.weights, members.astype(np.int32), borders, p, _EM_STEPS, odds)
        # beyond 500 p is 0 or 1 in float64, and exp would overflow
        p = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        left, both = p > 0.5, np.zeros(n, bool)
        if self.overlap > 0 and rule in ("adaptive", "noisy"):
            wanted = np.flatnonzero((np.abs(p - 0.5) <= self.overlap) & (sizes > 2)[group])
            # the first members that want another code have it, up to the word's limit
            wanted = wanted[np.argsort(members[wanted], kind="stable")]
            words = members[wanted]
            nth = np.arange(len(words)) - np.searchsorted(words, words)
            both[wanted] = codes_of[words] + nth < _MAX_CODES
        if rule == "noisy":
            left = np.where(both, left, self.rng.random(n) < p)
        # a group that would stay together is cut without overlap, and if that is no cut, in halves
        sides = [left | both, ~left | both]
        on_left, on_right = np.add.reduceat(sides, borders[:-1], axis=1, dtype=np.int64)
        both &= ~((on_left == 0) | (on_left == sizes) | (on_right == sizes))[group]
        sides = [left, left | both, ~left | both]
        lefts, on_left, on_right = np.add.reduceat(sides, borders[:-1], axis=1, dtype=np.int64)
        room = _MAX_DEPTH - paths.shape[1] - 1  # steps left below the children
        most = np.maximum(on_left, on_right)
        halved = (lefts == 0) | (lefts == sizes) | (np.ceil(np.log2(most)) > room)
        if rule in ("random", "balanced"):
            halved[:] = True
        both &= ~halved[group]
        # by odds, not by p: where p is 1 for many, their order is still known
        order = np.lexsort((self.rng.random(n), -odds, group))  # ties at random
        rank = np.empty(n, np.int64)
        rank[order] = np.arange(n) - np.repeat(borders[:-1], sizes)
        left = np.where(halved[group], rank < (sizes // 2)[group], left)
        np.add.at(codes_of, members[both], 1)
        # the children, group by group
        places = np.concatenate([np.flatnonzero(left | both), np.flatnonzero(~left | both)])
        side = np.repeat([0, 1], [(left | both).sum(), (~left | both).sum()])
        child = 2 * group[places] + side
        order = np.argsort(child, kind="stable")
        places, child = places[order], child[order]
        steps = 2 * (n_nodes + group[places]) + side[order]
        below = np.searchsorted(child, np.arange(2 * len(sizes) + 1))
        return _Level(members[places], below, np.column_stack([paths[places], steps]))


# -- trees of codes ----------------------------------------------------------------------------------


def _assemble(leaves: list[_Leaves], n_words: int) -> Tree:
    """Return the tree of leaves given in any order."""
    words, lengths, steps = (np.concatenate(part) for part in zip(*leaves, strict=True))
    order = np.argsort(words, kind="stable")
    # the steps of each leaf are gathered in the order of the words, without a loop over leaves
    begins = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    code_steps = np.concatenate([[0], np.cumsum(lengths[order])])
    at = np.repeat(begins[order] - code_steps[:-1], lengths[order]) + np.arange(len(steps))
    word_codes = np.searchsorted(words[order], np.arange(n_words + 1))
    return Tree(Codes(word_codes, code_steps, steps[at] // 2, 1 - 2 * (steps[at] % 2)))


def join(trees: list[Tree]) -> Tree:
    """Join trees over the same words under a balanced top: one overcomplete tree with every word in each part.

    Nodes are numbered by depth, so that those visited most are next to each other in memory.
    """
    n_words, tree = trees[0].n_words, trees[0]
    if len(trees) > 1:
        # the top, level by level: groups of trees with the steps to them, in two until each is of one
        groups: list[tuple[int, int, list[int]]] = [(0, len(trees), [])]
        tops: list[list[int]] = [[]] * len(trees)
        n_nodes, leaves = 0, []
        while groups:
            first, last, path = groups.pop(0)
            if last - first == 1:
                tops[first] = path
                continue
            middle = (first + last) // 2
            groups.append((first, middle, [*path, 2 * n_nodes]))
            groups.append((middle, last, [*path, 2 * n_nodes + 1]))
            n_nodes += 1
        for tree, above in zip(trees, tops, strict=True):
            codes = tree.codes
            own = 2 * (codes.nodes.astype(np.int64) + n_nodes) + (codes.signs < 0)
            words = np.repeat(np.arange(n_words), np.diff(codes.word_codes))
            places = np.repeat(codes.code_steps[:-1], len(above))
            steps = np.insert(own, places, np.tile(above, codes.n_codes))
            leaves.append((words, np.diff(codes.code_steps) + len(above), steps))
            n_nodes += tree.n_nodes
        tree = _assemble(leaves, n_words)
    codes, lengths = tree.codes, np.diff(tree.codes.code_steps)
    depth, number = np.zeros(tree.n_nodes, np.int64), np.empty(tree.n_nodes, np.int64)
    depth[codes.nodes] = np.arange(len(codes.nodes)) - np.repeat(codes.code_steps[:-1], lengths)
    number[np.argsort(depth, kind="stable")] = np.arange(tree.n_nodes)
    return Tree(Codes(codes.word_codes, codes.code_steps, number[codes.nodes], codes.signs))


# -- the mixtures ------------------------------------------------------------------------------------


@njit(fastmath={"contract", "reassoc"})
def _dot(x, y):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for d in range(len(x)):
        total += x[d] * y[d]
    return total


@njit(fastmath={"contract", "reassoc"})
def _add(sums, scale, x):  # type: ignore[no-untyped-def]
    for d in range(len(x)):
        sums[d] += scale * x[d]


@njit
def _em(x, weights, members, borders, p, steps, found):  # type: ignore[no-untyped-def]
    """Set the log-odds of the first component for all members; ``p`` holds the responsibilities to begin with."""
    width = x.shape[1]
    means = np.empty((2, width), np.float32)
    center = np.empty(width, np.float32)
    mass, spread, square = np.empty(2), np.empty(2), np.empty(2)
    for g in range(len(borders) - 1):
        first, last = borders[g], borders[g + 1]
        # the scatter about the group's center, by which no variance is lost where groups are small and far out
        center[:] = 0
        for j in range(first, last):
            _add(center, np.float32(1.0 / (last - first)), x[members[j]])
        shift = np.float64(_dot(center, center))
        scatter = 0.0
        for j in range(first, last):
            row = x[members[j]]
            scatter += max(_dot(row, row) - 2 * _dot(row, center) + shift, 0.0)
        floor = max(_LEAST, 1e-6 * scatter / (last - first) / width)
        for _ in range(steps):
            means[:] = 0
            mass[:] = 0
            square[:] = 0
            # M step: mass, mean and variance of both components, from the responsibilities
            for j in range(first, last):
                row, w = x[members[j]], np.float64(weights[members[j]])
                length = _dot(row, row)
                for c in range(2):
                    share = w * (p[j] if c == 0 else 1.0 - p[j])
                    mass[c] += share
                    square[c] += share * length
                    _add(means[c], np.float32(share), row)
            for c in range(2):
                total = max(mass[c], _LEAST)
                for d in range(width):
                    means[c, d] = means[c, d] / total
                of_mean = np.float64(_dot(means[c], means[c]))
                spread[c] = max((square[c] / total - of_mean) / width, floor)
            # E step: the log-odds of every member from its distances to both means
            base = math.log(max(mass[0], _LEAST)) - math.log(max(mass[1], _LEAST))
            base -= 0.5 * width * (math.log(spread[0]) - math.log(spread[1]))
            n0, n1 = np.float64(_dot(means[0], means[0])), np.float64(_dot(means[1], means[1]))
            for j in range(first, last):
                row = x[members[j]]
                length = np.float64(_dot(row, row))
                d0 = length - 2 * np.float64(_dot(row, means[0])) + n0
                d1 = length - 2 * np.float64(_dot(row, means[1])) + n1
                odds = base - 0.5 * (d0 / spread[0] - d1 / spread[1])
                found[j] = odds
                p[j] = 1.0 / (1.0 + math.exp(-min(max(odds, -500.0), 500.0)))


@njit
def add_rows(sums, words, rows):  # type: ignore[no-untyped-def]
    """Add every row to the sum of its word, in float64."""
    for t in range(len(words)):
        into, row = sums[words[t]], rows[t]
        for d in range(len(row)):
            into[d] += row[d]
