"""Hidden units summed out: every configuration of them written out, and the fast path at the ends of its range."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels.boltzmann import hidden_sums, pack_inputs
from tacenda.testing.kernels.samples import run_specification


def problem(contexts, types, hidden, size, seed=0):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((n, hidden)) * size for n in (types, contexts))
    return a.astype(np.float32), b.astype(np.float32)


def test_the_specification_sums_over_all_configurations_of_the_hidden_units():
    a, b = (array.astype(np.float64) for array in problem(3, 4, 5, 2.0))
    expected = np.zeros((3, 4))
    for states in itertools.product((0, 1), repeat=5):
        expected += np.exp((b[:, None] + a[None]) @ np.array(states))
    found = run_specification(hidden_sums, pack_inputs(a), b)
    np.testing.assert_allclose(found, np.log(expected), rtol=1e-12)


@settings(max_examples=60)
@given(
    st.integers(0, 9), st.integers(1, 50), st.integers(0, 70),
    st.sampled_from([0.01, 1.0, 5.0, 20.0]), st.floats(-500, 500), st.integers(0, 99),
)  # fmt: skip
def test_the_fast_path_agrees_whatever_the_sizes(contexts, types, hidden, size, shift, seed):
    """Also where all contexts turn all units on, or off."""
    a, b = problem(contexts, types, hidden, size, seed)
    b += np.float32(shift)
    words = pack_inputs(a)
    expected = run_specification(hidden_sums, words, b)
    with kernels.use("cpu"):
        found = hidden_sums(words, b)
    assert found.shape == expected.shape
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=2e-5)
    scale = 1 + (1 + np.abs(a).max(axis=0) + np.abs(b)).sum(axis=1, keepdims=True)
    assert (np.abs(found - expected) <= 5e-7 * scale).all()


def test_infinity_and_nan_stay_in_the_rows_of_their_contexts():
    a, b = problem(9, 40, 12, 2.0)
    words, finite = pack_inputs(a), [0, 4, 8]
    for row, values in {1: [np.nan], 2: [np.inf], 3: [-np.inf], 5: [np.inf, -np.inf],
                        6: [np.nan, np.inf], 7: [-np.inf] * 12}.items():  # fmt: skip
        b[row, : len(values)] = values
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = hidden_sums(words, b)
    np.testing.assert_allclose(found[finite], hidden_sums(words, b[finite]), rtol=1e-6)
    expected = run_specification(hidden_sums, words, b)
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=2e-5)


def test_units_that_are_far_apart_are_left_to_the_specification():
    a, b = problem(3, 5, 4, 1.0)
    a[2, 1] = 1000
    with kernels.use("cpu"), pytest.raises(KernelError, match="too far apart"):
        hidden_sums(pack_inputs(a), b)
    assert np.isfinite(run_specification(hidden_sums, pack_inputs(a), b)).all()


def test_a_context_does_not_depend_on_the_others():
    a, b = problem(7, 40, 9, 2.0)
    words = pack_inputs(a)
    together = hidden_sums(words, b)
    for i in range(7):
        np.testing.assert_allclose(hidden_sums(words, b[i : i + 1])[0], together[i], rtol=1e-6)


def test_what_does_not_fit_is_refused():
    a, b = problem(3, 5, 4, 1.0)
    with pytest.raises(KernelError, match="inputs must be float32"):
        pack_inputs(a[0])
    with pytest.raises(KernelError, match="at least one row"):
        pack_inputs(a[:0])
    with pytest.raises(KernelError, match="contexts must be float32"):
        hidden_sums(pack_inputs(a), b[:, :3])
    with pytest.raises(KernelError, match="contexts must be float32"):
        hidden_sums(pack_inputs(a), b.astype(np.float64))
