"""Divergence and entropy of Bernoulli vectors: against their definitions, and what must always hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit

from tacenda_embeddings.varembed.model import divergence, entropy

LOGITS = st.floats(-60, 60)


def by_definition(g, s):
    """Sum over both values of the bit, in extended precision."""
    g, s = np.longdouble(g), np.longdouble(s)
    q = np.array([1 / (1 + np.exp(g)), 1 / (1 + np.exp(-g))])
    p = np.array([1 / (1 + np.exp(s)), 1 / (1 + np.exp(-s))])
    return float(np.sum(q * (np.log(q) - np.log(p))))


@given(LOGITS, LOGITS)
def test_divergence_is_the_sum_over_both_values_of_the_bit(g, s):
    found = float(divergence(np.array([g]), np.array([s]))[0])
    assert_allclose(found, by_definition(g, s), rtol=1e-9, atol=1e-12)
    assert found >= 0


@given(st.floats(-1e4, 1e4))
def test_divergence_from_itself_is_zero(g):
    assert divergence(np.array([g]), np.array([g]))[0] == 0


@given(LOGITS)
def test_entropy_is_that_of_a_coin(g):
    q = float(expit(np.array([g]))[0])
    expected = -sum(x * np.log2(x) for x in (q, 1 - q) if x > 0)
    assert_allclose(entropy(np.array([g]))[0], expected, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept_and_extremes_are_finite(dtype):
    extremes = np.array([-1e30, -800, -1e-30, 0, 1e-30, 800, 1e30], dtype)
    for found in (
        divergence(extremes[1:-1], extremes[1:-1][::-1].copy()),
        entropy(extremes),
        expit(extremes),
    ):
        assert found.dtype == dtype
        assert np.isfinite(found).all()
