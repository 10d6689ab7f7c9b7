"""Moments of text from counts, against one-hot rows and dense matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda.corpus import Corpus
from tacenda_embeddings.lds import HANKEL_BLOCKS, N_LAGS, learning
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_embeddings.lds.moments import SparseMoments, project
from tacenda_embeddings.settings import LDSSettings


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "far"]
    sentences = [[words[i] for i in rng.integers(0, 10, n)] for n in rng.integers(1, 9, 80)]
    corpus = Corpus.from_sentences(sentences)
    found = LaggedCounts.from_corpus(corpus, 4)
    found.ids = np.concatenate(list(corpus.stream(10**6)))
    return found


@pytest.mark.parametrize("kappa", [0.5, 7.0])
@pytest.mark.parametrize("whiten", [True, False])
def test_products_equal_the_dense_formula_in_both_directions(counts, kappa, whiten, rng, oracles):
    V = len(counts.vocabulary)
    expected = oracles.text_moments(counts.ids, V, 4, kappa, whiten)
    moments = SparseMoments(counts, kappa, whiten=whiten)
    X = rng.standard_normal((V, 3)).astype(np.float32)
    for k in range(1, 5):
        scale = np.abs(expected[k]).max()
        for lag, Psi in ((k, expected[k]), (-k, expected[k].T)):
            np.testing.assert_allclose(moments.apply(lag, X), Psi @ X, atol=1e-5 * scale)
            left = moments.multiply_left(X, lag)
            np.testing.assert_allclose(left, X.T @ Psi, atol=1e-5 * scale)


@pytest.mark.parametrize("kappa", [0.1, 3.0, 200.0])
def test_pseudo_counts_keep_the_mean_without_covariance(counts, kappa, oracles):
    """Psi_k m = 0: exactly by the definition, to rounding in float32."""
    moments = SparseMoments(counts, kappa)
    m = moments.mean[:, None].astype(np.float32)
    for k, Psi in enumerate(oracles.text_moments(counts.ids, len(m), 4, kappa)[1:], start=1):
        np.testing.assert_allclose(Psi @ moments.mean, 0, atol=1e-15)
        np.testing.assert_allclose(Psi.T @ moments.mean, 0, atol=1e-15)
        np.testing.assert_allclose(moments.apply(k, m), 0, atol=1e-6)
        np.testing.assert_allclose(moments.apply(-k, m), 0, atol=1e-6)


@pytest.mark.parametrize("k", [0, 5, -5])
def test_a_lag_that_was_not_counted_is_refused(counts, k):
    moments, B = SparseMoments(counts, 1.0), np.zeros((len(counts.vocabulary), 1), np.float32)
    for refusing in (
        lambda: moments.apply(k, B),
        lambda: project(moments, B, 4).multiply_left(B.T @ B, k),
    ):
        with pytest.raises(ValueError, match=f"lag {k} was not counted"):
            refusing()


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_projection_is_exact_within_the_subspace(counts, oracles, seed, width):
    rng = np.random.default_rng(seed)
    V = len(counts.vocabulary)
    moments = SparseMoments(counts, 1.0)
    B = rng.standard_normal((V, width))
    B = np.linalg.qr(B - np.outer(moments.mean, moments.mean @ B))[0]
    inside = project(moments, B.astype(np.float32), 3)
    np.testing.assert_array_equal(inside.mean, np.zeros(width))
    c = rng.standard_normal((width, 2))
    for k, Psi in enumerate(oracles.text_moments(counts.ids, V, 3, 1.0)[1:], start=1):
        np.testing.assert_allclose(inside.multiply_left(c, k), (B @ c).T @ Psi @ B, atol=1e-5)
        np.testing.assert_allclose(inside.multiply_left(c, -k), (B @ c).T @ Psi.T @ B, atol=1e-5)


def test_threads_do_not_change_the_result(counts, rng):
    X = rng.standard_normal((len(counts.vocabulary), 40)).astype(np.float32)
    one, two = (SparseMoments(counts, 1.0, threads=n).apply(2, X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_without_whitening_factors_are_of_plain_covariances_and_whitened_afterwards(rng, oracles):
    """Against a dense SVD of the Hankel matrix of all lags of a ring."""
    ids = rng.integers(0, 8, 3000) ** 2 // 8
    corpus = Corpus.from_sentences([[f"w{i}" for i in ids]])
    counts = LaggedCounts.from_corpus(corpus, N_LAGS)
    stream = np.concatenate(list(corpus.stream(10**6)))
    V, h = len(counts.vocabulary), 3
    plain = oracles.text_moments(stream, V, N_LAGS, 2.0, whiten=False)
    U, S, Vt = np.linalg.svd(oracles.hankel(plain, HANKEL_BLOCKS))
    moments = SparseMoments(counts, 2.0)
    settings = LDSSettings(n_states=h, advanced={"whiten": False})
    found = learning._compute_hankel_factors(settings, counts, moments, rng, print)
    scale = np.tile(moments.scale, HANKEL_BLOCKS)
    expected = scale[:, None] * ((U[:, :h] * S[:h]) @ Vt[:h]) * scale
    product = found.Gamma.reshape(-1, h) @ found.Delta.reshape(-1, h).T
    np.testing.assert_allclose(product, expected, atol=0.02 * np.abs(expected).max())
