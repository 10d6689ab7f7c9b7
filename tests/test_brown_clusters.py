"""Brown clusters against the likelihood of the class bigram model, computed plainly."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.embeddings import brown

K, WORDS = 4, 12


@pytest.fixture
def stream():
    rng = np.random.default_rng(0)
    ids = rng.choice(WORDS, 400, p=rng.dirichlet(np.ones(WORDS)))
    return ids, np.array([0, 100, 101, 260, 400])


@pytest.fixture
def rows(stream):
    return brown.bigrams(*stream, WORDS)


def pairs(stream):
    ids, offsets = stream
    for start, stop in pairwise(offsets):
        yield from zip(ids[start : stop - 1], ids[start + 1 : stop], strict=True)


def class_counts(stream, of):
    N = np.zeros((K, K))
    for first, second in pairs(stream):
        N[of[first], of[second]] += 1
    return N


def objective(N):
    """Sum of N log N over class pairs, less that over both margins (the package's docstring)."""
    terms = [n * np.log(n) for n in N.ravel() if n > 0]
    margins = [n * np.log(n) for n in [*N.sum(axis=0), *N.sum(axis=1)] if n > 0]
    return sum(terms) - sum(margins)


def test_bigrams_do_not_cross_sentences(stream, rows):
    dense = np.zeros((WORDS, WORDS))
    for first, second in pairs(stream):
        dense[first, second] += 1
    for (starts, others, counts), expected in zip(rows, (dense, dense.T), strict=True):
        found = np.zeros_like(dense)
        for w in range(WORDS):
            span = slice(starts[w], starts[w + 1])
            found[w, others[span]] = counts[span]
        np.testing.assert_array_equal(found, expected)


def test_an_exchange_never_lowers_the_likelihood_and_ends_where_no_move_helps(stream, rows):
    of = np.arange(WORDS) % K
    values = [objective(class_counts(stream, of))]
    for _ in range(20):
        moved = brown.exchange(*rows, of, K)
        values.append(objective(class_counts(stream, of)))
        if not moved:
            break
    assert not moved
    assert np.diff(values).min() > -1e-9
    assert values[-1] > values[0]


def test_merges_are_the_cheapest_by_brute_force(stream):
    # margins of a circle agree, so that one sum stands for both
    N = class_counts(stream, np.arange(WORDS) % K)
    N = N + N.T
    merges = brown.merge_order(N)
    alive = list(range(K))
    for kept, merged in merges.tolist():
        losses = {}
        for i, a in enumerate(alive):
            for b in alive[i + 1 :]:
                M = N.copy()
                M[a] += M[b]
                M[:, a] += M[:, b]
                M[b] = M[:, b] = 0
                losses[a, b] = objective(N) - objective(M)
        assert losses[kept, merged] == pytest.approx(min(losses.values()), abs=1e-9)
        N[kept] += N[merged]
        N[:, kept] += N[:, merged]
        N[merged] = N[:, merged] = 0
        alive.remove(merged)


def test_paths_tell_all_classes_apart_and_share_what_was_merged_last():
    bits = brown.paths(np.array([[0, 2], [1, 3], [0, 1]]))
    assert sorted(bits) == ["00", "01", "10", "11"]
    assert bits[0][0] == bits[2][0] != bits[1][0] == bits[3][0]
