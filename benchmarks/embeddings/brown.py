"""Brown clusters (Brown et al. 1992) of the same text and vocabulary: word classes by exchange.

Maximizes the likelihood of a class bigram model, that is  sum_cd N(c,d) log N(c,d)
- 2 sum_c N(c,.) log N(c,.),  by moving one word at a time to its best class (Martin, Liermann and
Ney 1998); N(c,.) stands for N(.,c) too, from which it differs at the ends of sentences only. The
classes are then merged greedily, always the pair that costs the least, which gives every class a bit
string whose prefixes are coarser classes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

from benchmarks.embeddings import common, text

N_CLASSES = 320
ITERATIONS = 5


@numba.njit(cache=True)
def xlogx(n: float) -> float:
    return n * np.log(n) if n > 0 else 0.0


@numba.njit(cache=True)
def _profile(row: Any, starts: Any, others: Any, counts: Any, of: Any, out: Any) -> None:
    """Counts of one word's neighbors by their class; the word itself is left out."""
    out[:] = 0.0
    for i in range(starts[row], starts[row + 1]):
        if others[i] != row:
            out[of[others[i]]] += counts[i]


@numba.njit(cache=True)
def _shift(c: int, sign: float, N: Any, after: Any, before: Any, own: float) -> None:
    """Add (or take away) a word's bigrams to (from) class c."""
    for d in range(len(after)):
        N[c, d] += sign * after[d]
        N[d, c] += sign * before[d]
    N[c, c] += sign * own


@numba.njit(cache=True)
def _gain(
    c: int, N: Any, sums: Any, after: Any, before: Any, own: float, total: float, used: Any
) -> float:
    """Change of the objective when the word joins class c."""
    gain = -2.0 * (xlogx(sums[c] + total) - xlogx(sums[c]))
    for d in used:
        if d != c:
            if after[d] > 0:
                gain += xlogx(N[c, d] + after[d]) - xlogx(N[c, d])
            if before[d] > 0:
                gain += xlogx(N[d, c] + before[d]) - xlogx(N[d, c])
    return gain + xlogx(N[c, c] + after[c] + before[c] + own) - xlogx(N[c, c])


@numba.njit(cache=True)
def exchange(
    right: tuple[Any, Any, Any], left: tuple[Any, Any, Any], of: Any, n_classes: int
) -> int:
    """One pass over all words by frequency; classes `of` (words,) change in place. Moves made."""
    n_words = len(of)
    N = np.zeros((n_classes, n_classes))
    for w in range(n_words):
        for i in range(right[0][w], right[0][w + 1]):
            N[of[w], of[right[1][i]]] += right[2][i]
    sums = N.sum(axis=1)
    after, before = np.zeros(n_classes), np.zeros(n_classes)
    moves = 0
    for w in range(n_words):
        _profile(w, right[0], right[1], right[2], of, after)
        _profile(w, left[0], left[1], left[2], of, before)
        own = 0.0
        for i in range(right[0][w], right[0][w + 1]):
            if right[1][i] == w:
                own = right[2][i]
        total = after.sum() + own
        if total + before.sum() == 0:
            continue
        old = of[w]
        _shift(old, -1.0, N, after, before, own)
        sums[old] -= total
        used = np.nonzero(after + before)[0]
        best, best_gain = old, _gain(old, N, sums, after, before, own, total, used)
        for c in range(n_classes):
            gain = _gain(c, N, sums, after, before, own, total, used)
            if gain > best_gain + 1e-9:
                best, best_gain = c, gain
        _shift(best, 1.0, N, after, before, own)
        sums[best] += total
        of[w] = best
        moves += best != old
    return moves


@numba.njit(cache=True)
def _merge_loss(a: int, b: int, N: Any, sums: Any, alive: Any) -> float:
    loss = 2.0 * (xlogx(sums[a] + sums[b]) - xlogx(sums[a]) - xlogx(sums[b]))
    for d in range(len(sums)):
        if alive[d] and d != a and d != b:
            loss += xlogx(N[a, d]) + xlogx(N[b, d]) - xlogx(N[a, d] + N[b, d])
            loss += xlogx(N[d, a]) + xlogx(N[d, b]) - xlogx(N[d, a] + N[d, b])
    inner = xlogx(N[a, a]) + xlogx(N[a, b]) + xlogx(N[b, a]) + xlogx(N[b, b])
    return loss + inner - xlogx(N[a, a] + N[a, b] + N[b, a] + N[b, b])


@numba.njit(cache=True)
def merge_order(N: Any) -> Any:
    """Pairs (kept, merged) in the order of the merges, (classes - 1, 2)."""
    N, k = N.copy(), len(N)
    sums, alive = N.sum(axis=1), np.ones(len(N), dtype=np.bool_)
    pairs = np.zeros((k - 1, 2), dtype=np.int64)
    for step in range(k - 1):
        best, best_a, best_b = np.inf, -1, -1
        for a in range(k):
            for b in range(a + 1, k):
                if alive[a] and alive[b]:
                    loss = _merge_loss(a, b, N, sums, alive)
                    if loss < best:
                        best, best_a, best_b = loss, a, b
        N[best_a] += N[best_b]
        N[:, best_a] += N[:, best_b]
        sums[best_a] += sums[best_b]
        alive[best_b] = False
        pairs[step] = best_a, best_b
    return pairs


def paths(pairs: np.ndarray) -> list[str]:
    """The bit string of every class, from the root of the merges down."""
    bits = {int(pairs[-1][0]): ""}
    for kept, merged in pairs[::-1].tolist():
        bits[merged] = bits[kept] + "1"
        bits[kept] += "0"
    return [bits[c] for c in range(len(bits))]


Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def bigrams(ids: np.ndarray, offsets: np.ndarray, n_words: int) -> tuple[Rows, Rows]:
    """Counts of adjacent words inside sentences, as rows by first and by second word."""
    inside = np.ones(len(ids) - 1, dtype=bool)
    inside[offsets[1:-1] - 1] = False
    first, second = ids[:-1][inside].astype(np.int64), ids[1:][inside].astype(np.int64)
    right = _rows(first, second, n_words)
    return right, _rows(second, first, n_words)


def _rows(key: np.ndarray, other: np.ndarray, n: int) -> Rows:
    codes, counts = np.unique(key * n + other, return_counts=True)
    starts = np.searchsorted(codes // n, np.arange(n + 1))
    return starts, codes % n, counts.astype(np.float64)


def clusters(cache: Path, n_classes: int = N_CLASSES) -> dict[str, str]:
    """Word -> bit string, computed once and kept in the cache."""
    path = cache / f"brown-{n_classes}.json"
    if path.exists():
        found: dict[str, str] = json.loads(path.read_text(encoding="utf8"))
        return found
    log = common.logger("brown", cache)
    corpus = text.corpus(cache)
    start = time.perf_counter()
    n_words = len(corpus.vocabulary)
    right, left = bigrams(np.asarray(corpus.ids), np.asarray(corpus.offsets), n_words)
    log.info("%d bigram types in %.0f s", len(right[1]), time.perf_counter() - start)
    of = np.arange(n_words) % n_classes
    for _ in range(ITERATIONS):
        moves = exchange(right, left, of, n_classes)
        log.info("%d words moved, %.0f s", moves, time.perf_counter() - start)
    N = np.zeros((n_classes, n_classes))
    first = np.repeat(np.arange(n_words), np.diff(right[0]))
    np.add.at(N, (of[first], of[right[1]]), right[2])
    bits = paths(merge_order(N))
    words = {w: bits[of[i]] for i, w in enumerate(corpus.vocabulary.words)}
    log.info("%d classes in %.0f s", n_classes, time.perf_counter() - start)
    common.write_json(path, words)
    return words


if __name__ == "__main__":
    clusters(common.arguments(__doc__).parse_args().cache)
