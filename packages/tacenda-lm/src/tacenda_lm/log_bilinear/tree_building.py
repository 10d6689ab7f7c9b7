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
from tacenda_lm.log_bilinear.trees import MAX_CODES, MAX_DEPTH, Rule, Tree, joined, packed

__all__ = ["add_rows", "build_tree"]

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

_EM_STEPS = 10  # the thesis's
_FIRST = 0.9  # responsibility to begin with, for a random half
_LEAST = 1e-9  # of a component's weight and, relative to the group's, its variance


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
    max_codes: int = MAX_CODES,
    max_depth: int = MAX_DEPTH,
) -> Tree:
    """Build a tree over words.

    Parameters
    ----------
    rule
        ``"random"`` (halves at random), ``"balanced"`` (halves of similar words), ``"adaptive"`` (clusters of any size)
        or ``"noisy"`` (clusters drawn at random by their probabilities).
    n_words
        Words, each of which has a leaf or more.
    vectors
        (words, width), what words are clustered by: the average predicted vector of each. ``"random"`` needs none.
    weights
        (words,), positive: how much each word counts in the clustering; all count the same if left out.
    overlap
        epsilon, in [0, 0.5): a word goes to both sides of a split where its probability is this near to 1/2.
        For ``"adaptive"`` and ``"noisy"``.
    copies
        Independent trees joined under a balanced top: an overcomplete tree.
    seed
        Of all choices; the same gives the same tree.
    max_codes
        Codes of a word in each copy.
    max_depth
        Steps of a code in each copy; no fewer than a balanced tree needs.

    Raises
    ------
    ConfigurationError
        An argument is out of range or missing.
    """
    if rule not in get_args(Rule):
        raise ConfigurationError(
            f"there is no tree {rule!r}; choose from {', '.join(get_args(Rule))}"
        )
    needed = math.ceil(math.log2(max(n_words, 1)))
    if n_words < 1 or copies < 1 or not 0 <= overlap < 0.5 or max_codes < 1 or max_depth < needed:
        raise ConfigurationError(
            f"a tree needs words ({n_words}), copies ({copies}) and max_codes ({max_codes}) of at least 1, "
            f"overlap ({overlap}) in [0, 0.5) and max_depth ({max_depth}) of at least {needed}"
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
    rng = np.random.default_rng([seed, 7])
    return joined([_one(rule, x, w, overlap, rng, max_codes, max_depth) for _ in range(copies)])


def _one(
    rule: Rule,
    x: npt.NDArray[np.float32],
    weights: npt.NDArray[np.float32],
    overlap: float,
    rng: np.random.Generator,
    max_codes: int,
    max_depth: int,
) -> Tree:
    n_words = len(x)
    codes_of = np.ones(n_words, np.int64)
    level = _Level(np.arange(n_words), np.array([0, n_words]), np.zeros((n_words, 0), np.int64))
    n_nodes, leaves = 0, []
    while len(level.members):
        sizes = np.diff(level.borders)
        ready = np.repeat(sizes == 1, sizes)
        leaves.append((level.members[ready], level.paths[ready]))
        level = _Level(
            level.members[~ready],
            np.concatenate([[0], np.cumsum(sizes[sizes > 1])]),
            level.paths[~ready],
        )
        if not len(level.members):
            break
        left, right = _sides(rule, x, weights, overlap, rng, level, codes_of, max_codes, max_depth)
        level = _descended(level, left, right, n_nodes)
        n_nodes += len(sizes) - int((sizes == 1).sum())
    return _of_leaves(leaves, n_words)


def _sides(
    rule: Rule,
    x: npt.NDArray[np.float32],
    weights: npt.NDArray[np.float32],
    overlap: float,
    rng: np.random.Generator,
    level: _Level,
    codes_of: _Ints,
    max_codes: int,
    max_depth: int,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which members go left and which right; some go both ways. ``codes_of`` is brought up to date."""
    members, borders = level.members, level.borders
    sizes, n = np.diff(borders), len(members)
    group = np.repeat(np.arange(len(sizes)), sizes)
    if rule == "random":
        odds = rng.random(n)
    else:
        start = np.where(rng.random(n) < 0.5, _FIRST, 1 - _FIRST)
        odds = _log_odds(x, weights, level, start)
    p = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
    left, both = p > 0.5, np.zeros(n, bool)
    if overlap > 0 and rule in ("adaptive", "noisy"):
        both = (np.abs(p - 0.5) <= overlap) & (sizes > 2)[group]
        both &= _allowed(members, both, codes_of, max_codes)
    if rule == "noisy":
        left = np.where(both, left, rng.random(n) < p)
    # a group that would stay together is cut without overlap, and if that is no cut, in halves
    stuck = np.isin(_count(left | both, group, sizes), (0,)) | (
        _count(left | both, group, sizes) == sizes
    )
    stuck |= _count(~left | both, group, sizes) == sizes
    both &= ~stuck[group]
    lefts = _count(left, group, sizes)
    room = max_depth - level.paths.shape[1] - 1  # steps left below the children
    most = np.maximum(_count(left | both, group, sizes), _count(~left | both, group, sizes))
    halved = (lefts == 0) | (lefts == sizes) | (np.ceil(np.log2(most)) > room)
    if rule in ("random", "balanced"):
        halved[:] = True
    both &= ~halved[group]
    order = np.lexsort((rng.random(n), -odds, group))  # ties at random
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n) - np.repeat(borders[:-1], sizes)
    left = np.where(halved[group], rank < (sizes // 2)[group], left)
    np.add.at(codes_of, members[both], 1)
    return left | both, ~left | both


def _count(chosen: npt.NDArray[np.bool_], group: _Ints, sizes: _Ints) -> _Ints:
    return np.bincount(group[chosen], minlength=len(sizes))


def _allowed(
    members: _Ints, wanted: npt.NDArray[np.bool_], codes_of: _Ints, max_codes: int
) -> npt.NDArray[np.bool_]:
    """Return which of the members that want another code may have it: the first ones, up to the word's limit."""
    places = np.flatnonzero(wanted)
    order = np.argsort(members[places], kind="stable")
    words = members[places][order]
    rank = np.arange(len(words)) - np.searchsorted(words, words)
    found = np.zeros(len(members), bool)
    found[places[order]] = codes_of[words] + rank < max_codes
    return found


def _descended(
    level: _Level, left: npt.NDArray[np.bool_], right: npt.NDArray[np.bool_], n_nodes: int
) -> _Level:
    """Return the level below: every group's left members, then its right ones."""
    sizes = np.diff(level.borders)
    group = np.repeat(np.arange(len(sizes)), sizes)
    places = np.concatenate([np.flatnonzero(left), np.flatnonzero(right)])
    sides = np.repeat([0, 1], [left.sum(), right.sum()])
    child = 2 * group[places] + sides
    order = np.argsort(child, kind="stable")
    places, child = places[order], child[order]
    steps = 2 * (n_nodes + group[places]) + sides[order]
    borders = np.searchsorted(child, np.arange(2 * len(sizes) + 1))
    return _Level(level.members[places], borders, np.column_stack([level.paths[places], steps]))


def _of_leaves(leaves: list[tuple[_Ints, _Ints]], n_words: int) -> Tree:
    """Return the tree of leaves given level by level: words, and their paths (leaves, level)."""
    words = np.concatenate([words for words, _ in leaves])
    lengths = np.concatenate(
        [np.full(len(words), level) for level, (words, _) in enumerate(leaves)]
    )
    steps = np.concatenate([paths.ravel() for _, paths in leaves])
    return packed(words, lengths, steps, n_words)


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
        # the scatter about the group's centre, by which no variance is lost where groups are small and far out
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


def _log_odds(
    vectors: npt.NDArray[np.float32], weights: npt.NDArray[np.float32], level: _Level, p: _Floats
) -> _Floats:
    """Return log p / (1 - p) of every member of every group, after some steps of EM from ``p`` (members,)."""
    found = np.zeros(len(p))
    members = level.members.astype(np.int32)
    _em(vectors, weights, members, level.borders, p, _EM_STEPS, found)
    return found


@njit
def add_rows(sums, words, rows):  # type: ignore[no-untyped-def]
    """Add every row to the sum of its word, in float64."""
    for t in range(len(words)):
        into, row = sums[words[t]], rows[t]
        for d in range(len(row)):
            into[d] += row[d]
