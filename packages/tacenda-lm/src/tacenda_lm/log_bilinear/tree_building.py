"""Building trees over words: at random, or by splitting words that follow similar contexts (section 4.4).

Levels are built one after another, all groups of a level at once. Words are split by p, their probability of the first
component in a mixture of two Gaussians:

    random      halves at random; no vectors are needed
    balanced    halves, in the order of p
    adaptive    p > 1/2 left, the others right; with ``overlap`` epsilon > 0 words with |p - 1/2| <= epsilon go
                both ways and get two codes: ADAPTIVE(epsilon)
    noisy       as adaptive, but a word that goes one way only takes the likely one with probability p

The Gaussians of each group are spherical, fitted to the words' vectors x_j and weights by EM in compiled loops:

    p_j = pi_1 N(x_j; m_1, v_1 I) / sum_c pi_c N(x_j; m_c, v_c I)

Import this module only where it is needed: it imports numba.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError, check_whole
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.trees import Codes
from tacenda_lm.log_bilinear.trees import Rule, Tree
from tacenda_lm.stream_model import Predictor
from tacenda_lm.streams import Stream

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
# words, lengths of their paths, and the steps of all paths: 2 node, plus 1 for right
_Leaves = tuple[_Ints, _Ints, _Ints]

_EM_STEPS = 10  # as in the thesis
# of the first component for a random half of the words, of the second for the others
_INITIAL_RESPONSIBILITY = 0.9
_MIN_MASS, _MIN_VARIANCE = 1e-9, 1e-9  # of a component
_MIN_RELATIVE_VARIANCE = 1e-6  # of a component, as a share of its group's variance
_MAX_CODES = 4  # of a word in one copy of the tree
_MAX_DEPTH = 40  # steps of a code in one copy
# added to the contexts of each word, so that vectors of rare words are less noisy
_AVERAGE_CONTEXTS = 5.0


class _Level(NamedTuple):
    """Groups of words that are not split yet, and the path from the root to each word's group."""

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
        (words, width), the vectors that words are clustered by. ``"random"`` needs none.
    weights
        (words,), positive: the weight of each word in the clustering; by default all are equal.
    overlap
        epsilon, in [0, 0.5): a word goes to both sides of a split if its probability is this close to 1/2.
        For ``"adaptive"`` and ``"noisy"``.
    copies
        Number of independent trees to join under a balanced top: an overcomplete tree.
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
    for name, number, least in (("n_words", n_words, 1), ("copies", copies, 1), ("seed", seed, 0)):
        check_whole(name, number, least)
    if not isinstance(overlap, Real) or not 0 <= overlap < 0.5:
        raise ConfigurationError(f"overlap is {overlap!r}; it must be from 0 to below 0.5")
    try:
        x = np.ascontiguousarray(
            np.zeros((n_words, 1)) if rule == "random" else vectors, np.float32
        )
        w = np.asarray(np.ones(n_words) if weights is None else weights, np.float32)
    except (TypeError, ValueError):
        raise ConfigurationError(
            "the vectors and weights of a tree must be numbers, and its vectors of one width"
        ) from None
    if rule != "random":
        if x.ndim != 2 or len(x) != n_words or not x.size:
            raise ConfigurationError(
                f"a tree by the rule {rule!r} needs vectors of the shape ({n_words}, width): one for each word"
            )
        if not np.isfinite(x).all():
            raise ConfigurationError(
                "the vectors of a tree must be finite: they contain NaN or infinity"
            )
    if w.shape != (n_words,) or not (np.isfinite(w) & (w > 0)).all():
        raise ConfigurationError(
            f"the weights of a tree must be positive numbers of the shape ({n_words},): one for each word"
        )
    builder = _TreeBuilder(rule, x, w, overlap, np.random.default_rng([seed, 7]))
    return join([builder.grow() for _ in range(copies)], n_words)


class _TreeBuilder(NamedTuple):
    """A rule for splitting groups of words in two, and what it depends on."""

    rule: Rule
    x: npt.NDArray[np.float32]  # (words, width), the vectors that words are clustered by
    weights: npt.NDArray[np.float32]  # (words,)
    overlap: float
    rng: np.random.Generator

    def grow(self) -> _Leaves:
        """Build one tree, level by level, and return its leaves."""
        n_words = len(self.x)
        codes_of = np.ones(n_words, np.int64)
        level = _Level(np.arange(n_words), np.array([0, n_words]), np.zeros((n_words, 0), np.int64))
        n_nodes, leaves = 0, list[_Leaves]()
        while len(level.members):
            sizes = np.diff(level.borders)
            is_leaf = np.repeat(sizes == 1, sizes)
            words, paths = level.members[is_leaf], level.paths[is_leaf]
            leaves.append((words, np.full(len(words), paths.shape[1]), paths.ravel()))
            borders = np.concatenate([[0], np.cumsum(sizes[sizes > 1])])
            level = _Level(level.members[~is_leaf], borders, level.paths[~is_leaf])
            level = self._split(level, codes_of, n_nodes)
            n_nodes += len(borders) - 1
        words, lengths, steps = map(np.concatenate, zip(*leaves, strict=True))
        return words, lengths, steps

    def _split(self, level: _Level, codes_of: _Ints, n_nodes: int) -> _Level:
        """Split every group in two, and return the level below; some words go to both sides.

        ``codes_of`` (words,), the codes of each word so far, is updated. The new nodes are numbered from ``n_nodes``.
        """
        members, borders, paths = level
        n, sizes, begins = len(members), np.diff(borders), borders[:-1]
        group = np.repeat(np.arange(len(sizes)), sizes)
        if self.rule == "random":
            odds = self.rng.random(n)
        else:  # the log odds of the left component of each group's mixture
            q = _INITIAL_RESPONSIBILITY
            p, odds = np.where(self.rng.random(n) < 0.5, q, 1 - q), np.zeros(n)
            _em(self.x, self.weights, members.astype(np.int32), borders, p, _EM_STEPS, odds)
        left, both = self._choose_sides(odds, members, (sizes > 2)[group], codes_of)
        # a group that would stay together on one side is split without overlap
        sides = np.stack([left | both, ~left | both])
        n_left, n_right = np.add.reduceat(sides, begins, axis=1, dtype=np.int64)
        both &= ~((n_left == 0) | (n_left == sizes) | (n_right == sizes))[group]
        # one that then still stays together, or whose codes would become too long, is halved
        sides = np.stack([left, left | both, ~left | both])
        n_only, n_left, n_right = np.add.reduceat(sides, begins, axis=1, dtype=np.int64)
        depth = np.ceil(np.log2(np.maximum(n_left, n_right)))
        halved = (n_only == 0) | (n_only == sizes) | (depth > _MAX_DEPTH - paths.shape[1] - 1)
        if self.rule in ("random", "balanced"):
            halved[:] = True
        both &= ~halved[group]
        # by the odds, not by p, which is 1 for many whose odds differ; ties at random
        order = np.lexsort((self.rng.random(n), -odds, group))
        rank = np.empty(n, np.int64)
        rank[order] = np.arange(n) - np.repeat(begins, sizes)
        left = np.where(halved[group], rank < (sizes // 2)[group], left)
        np.add.at(codes_of, members[both], 1)
        # the level below: the members of every group that go left, then those that go right
        on_left, on_right = np.flatnonzero(left | both), np.flatnonzero(~left | both)
        places = np.concatenate([on_left, on_right])
        child = 2 * group[places] + np.repeat([0, 1], [len(on_left), len(on_right)])
        order = np.argsort(child, kind="stable")
        places, child = places[order], child[order]
        below = np.searchsorted(child, np.arange(2 * len(sizes) + 1))
        return _Level(members[places], below, np.column_stack([paths[places], 2 * n_nodes + child]))

    def _choose_sides(
        self, odds: npt.NDArray[np.float64], members: _Ints, may_overlap: _Bools, codes_of: _Ints
    ) -> tuple[_Bools, _Bools]:
        """Return which members go left and which to both sides, by the rule alone, (members,)."""
        n = len(members)
        # beyond 500 p is 0 or 1 in float64, and exp would overflow
        p = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        left, both = p > 0.5, np.zeros(n, bool)
        if self.overlap > 0 and self.rule in ("adaptive", "noisy"):
            undecided = np.flatnonzero((np.abs(p - 0.5) <= self.overlap) & may_overlap)
            # a word that is undecided in several groups gets codes in the first ones, up to its limit
            undecided = undecided[np.argsort(members[undecided], kind="stable")]
            words = members[undecided]
            nth = np.arange(len(words)) - np.searchsorted(words, words)
            both[undecided] = codes_of[words] + nth < _MAX_CODES
        if self.rule == "noisy":
            left = np.where(both, left, self.rng.random(n) < p)
        return left, both


# -- vectors to cluster by --------------------------------------------------------------------------


def average_predictions(predictor: Predictor, stream: Stream) -> npt.NDArray[np.float64]:
    """Return the mean predicted vector of the contexts each word follows, minus that of all words: (types, width).

    `build_tree` is given these vectors (section 4.4). Those of rare words are mostly noise, so they are moved towards
    the mean, as if each word had followed a few more contexts.
    """
    sums = np.zeros(predictor.parameters.words.shape)
    counts = np.zeros(len(sums))
    for vectors, words, _ in predictor.passes(stream):
        _add_rows(sums, words, vectors)
        counts += np.bincount(words, minlength=len(counts))
    # what all contexts have in common says nothing about a word, and would dominate every split
    mean = sums.sum(axis=0) / max(counts.sum(), 1)
    return np.asarray((sums - counts[:, None] * mean) / (counts + _AVERAGE_CONTEXTS)[:, None])


# -- trees of codes ----------------------------------------------------------------------------------


def join(trees: list[_Leaves], n_words: int) -> Tree:
    """Join trees over the same words under a balanced top: one overcomplete tree with every word in each part.

    Nodes are numbered by depth, so that those visited most are next to each other in memory.
    """
    paths, n_nodes = _build_top(len(trees))
    parts = []
    for (words, lengths, steps), path in zip(trees, paths, strict=True):
        begins = np.repeat(np.cumsum(lengths) - lengths, len(path))
        longer = np.insert(steps + 2 * n_nodes, begins, np.tile(path, len(words)))
        parts.append((words, lengths + len(path), longer))
        n_nodes += int(steps.max(initial=-1)) // 2 + 1
    words, lengths, steps = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(words, kind="stable")
    # the steps of each leaf are gathered in the order of the words, without a loop over leaves
    begins, lengths = (np.cumsum(lengths) - lengths)[order], lengths[order]
    code_steps = np.concatenate([[0], np.cumsum(lengths)])
    place = np.arange(len(steps)) - np.repeat(code_steps[:-1], lengths)  # of each step in its code
    nodes, turns = np.divmod(steps[np.repeat(begins, lengths) + place], 2)
    depth, number = np.zeros(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    depth[nodes] = place
    number[np.argsort(depth, kind="stable")] = np.arange(n_nodes)
    word_codes = np.searchsorted(words[order], np.arange(n_words + 1))
    return Tree(Codes(word_codes, code_steps, number[nodes], 1 - 2 * turns))


def _build_top(n_trees: int) -> tuple[list[list[int]], int]:
    """Build a balanced tree whose leaves are trees; return the steps to each, and the number of nodes."""
    groups: list[tuple[int, int, list[int]]] = [(0, n_trees, [])]
    paths: list[list[int]] = [[]] * n_trees
    n_nodes = 0
    while groups:
        first, last, path = groups.pop(0)
        if last - first == 1:
            paths[first] = path
            continue
        middle = (first + last) // 2
        groups.append((first, middle, [*path, 2 * n_nodes]))
        groups.append((middle, last, [*path, 2 * n_nodes + 1]))
        n_nodes += 1
    return paths, n_nodes


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
def _em(x, weights, members, borders, p, steps, odds):  # type: ignore[no-untyped-def]
    """Fit the mixture of every group to the vectors ``x`` (words, width) of its members.

    ``p`` (members,) are the first responsibilities. The log odds of the first component go into ``odds`` (members,).
    """
    width = x.shape[1]
    means = np.empty((2, width), np.float32)
    center = np.empty(width, np.float32)
    mass, variance, square = np.empty(2), np.empty(2), np.empty(2)
    for g in range(len(borders) - 1):
        first, last = borders[g], borders[g + 1]
        # the scatter about the group's center bounds variances, which differences of large squares cannot resolve
        center[:] = 0
        for j in range(first, last):
            _add(center, np.float32(1.0 / (last - first)), x[members[j]])
        center_square = np.float64(_dot(center, center))
        scatter = 0.0
        for j in range(first, last):
            row = x[members[j]]
            scatter += max(_dot(row, row) - 2 * _dot(row, center) + center_square, 0.0)
        floor = max(_MIN_VARIANCE, _MIN_RELATIVE_VARIANCE * scatter / (last - first) / width)
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
                total = max(mass[c], _MIN_MASS)
                for d in range(width):
                    means[c, d] = means[c, d] / total
                mean_square = np.float64(_dot(means[c], means[c]))
                variance[c] = max((square[c] / total - mean_square) / width, floor)
            # E step: the log odds of every member from its distances to both means
            base = math.log(max(mass[0], _MIN_MASS)) - math.log(max(mass[1], _MIN_MASS))
            base -= 0.5 * width * (math.log(variance[0]) - math.log(variance[1]))
            n0, n1 = np.float64(_dot(means[0], means[0])), np.float64(_dot(means[1], means[1]))
            for j in range(first, last):
                row = x[members[j]]
                length = np.float64(_dot(row, row))
                d0 = length - 2 * np.float64(_dot(row, means[0])) + n0
                d1 = length - 2 * np.float64(_dot(row, means[1])) + n1
                odds[j] = base - 0.5 * (d0 / variance[0] - d1 / variance[1])
                p[j] = 1.0 / (1.0 + math.exp(-min(max(odds[j], -500.0), 500.0)))


@njit
def _add_rows(sums, words, rows):  # type: ignore[no-untyped-def]
    """Add every row (rows, width) to the sum of its word, float64 (types, width)."""
    for t in range(len(words)):
        total, row = sums[words[t]], rows[t]
        for d in range(len(row)):
            total[d] += row[d]
