"""Word groups that the transition operator turns into each other (the paper's Table 1)."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from tacenda.corpus import Corpus
from tacenda_embeddings import LDS
from tacenda_embeddings.lds import solve_stationary_covariance

FIRST = [f"first{i}" for i in range(6)]
LAST = [f"last{i}" for i in range(6)]
OTHER = [f"word{i}" for i in range(30)]


@pytest.fixture(scope="module")
def model():
    """Names of two words, between words of no order."""
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(1500):
        words = [OTHER[i] for i in rng.integers(0, 30, rng.integers(1, 4))]
        words += [FIRST[rng.integers(6)], LAST[rng.integers(6)]]
        words += [OTHER[i] for i in rng.integers(0, 30, rng.integers(1, 4))]
        sentences.append(words)
    return LDS(n_states=4, kappa=5.0).fit(Corpus.from_sentences(sentences))


def test_first_names_turn_into_last_names(model):
    pairs = model.transition_pairs(n_pairs=4, n_words=6)
    assert any(set(p.before) == set(FIRST) and set(p.after) == set(LAST) for p in pairs)
    assert not any(set(p.before) == set(LAST) and set(p.after) == set(FIRST) for p in pairs)


def test_pairs_come_in_both_signs_from_the_largest(model):
    pairs = model.transition_pairs(n_pairs=8, n_words=5)
    values = [p.singular_value for p in pairs]
    assert len(pairs) == 8
    assert values == sorted(values, reverse=True)
    assert values[::2] == values[1::2]
    assert values[0] <= 1.0 + 1e-9
    assert pairs[0].before != pairs[1].before


def test_no_more_pairs_than_the_operator_has(model):
    assert len(model.transition_pairs(n_pairs=100)) == 8
    assert len(model.transition_pairs(n_pairs=3)) == 3
    assert model.transition_pairs(n_pairs=0) == []


def test_rare_words_and_classes_are_not_shown(model):
    shown = {w for p in model.transition_pairs(n_words=100, min_count=50) for w in p.before}
    assert shown <= {*FIRST, *LAST, *OTHER}
    often = int(model.vocabulary.counts[model.vocabulary.id_of("first0")])
    frequent = {w for p in model.transition_pairs(n_words=100, min_count=often) for w in p.before}
    assert frequent <= {
        w for w in shown if model.vocabulary.counts[model.vocabulary.id_of(w)] >= often
    }
    assert "first0" in frequent


def test_a_threshold_beyond_every_count_shows_the_most_frequent_words(model):
    """The boundary, which is no word, is more frequent than any."""
    vocabulary = model.vocabulary
    most = max(vocabulary.counts[vocabulary.id_of(word)] for word in FIRST + LAST + OTHER)
    assert vocabulary.counts[vocabulary.boundary_id] > most
    for pair in model.transition_pairs(min_count=10**9):
        assert pair.before
        assert {int(vocabulary.counts[vocabulary.id_of(word)]) for word in pair.before} == {most}


def test_pairs_do_not_depend_on_the_coordinates_of_the_state(model, rng):
    state, T = model.learned, rng.standard_normal((4, 4)) + 3 * np.eye(4)
    inverse, turned = np.linalg.inv(T), copy(model)
    A, Q = T @ state.A @ inverse, T @ state.Q @ T.T
    turned.learned = replace(state, A=A, C=state.C @ inverse, Q=Q)
    one, other = (each.transition_pairs(8, 4, 0) for each in (model, turned))
    np.testing.assert_allclose(
        [p.singular_value for p in one], [p.singular_value for p in other], rtol=1e-6
    )
    # a singular vector's sign is arbitrary: pairs of a value may be exchanged
    for i in range(0, 8, 2):
        signs = [(p.before, p.after) for p in one[i : i + 2]]
        assert sorted(signs) == sorted((p.before, p.after) for p in other[i : i + 2])


def test_singular_values_are_canonical_correlations(model):
    """Of x_{t+1} with x_t: those of the whitened lagged covariance."""
    A, _, Q, _ = model.learned.parameters
    P = solve_stationary_covariance(A, Q)
    lower = np.linalg.cholesky(P)
    expected = np.linalg.svd(np.linalg.solve(lower, A @ lower), compute_uv=False)
    found = [p.singular_value for p in model.transition_pairs(n_pairs=8)[::2]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
