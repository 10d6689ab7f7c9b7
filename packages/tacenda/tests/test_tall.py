"""Products of tall matrices are those of plain loops in float64, for arrays of numpy and for tensors."""

import numpy as np
import pytest

from tacenda import tall
from tacenda.array_ops import to_numpy

SIZES = [(0, 2), (5, 0), (1, 1), (63, 7)]


@pytest.fixture(params=["numpy", "torch"])
def made(request):
    """A function that makes a matrix as the kind of array under test has it; columns may lie next to each other."""
    if request.param == "numpy":
        return lambda array: array
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    return torch.from_numpy


def draw(rows, width, seed=0, dtype=np.float32):
    return np.random.default_rng([rows, width, seed]).standard_normal((rows, width)).astype(dtype)


def assert_close(found, expected):
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_a_gram_is_a_sum_of_outer_products_in_the_wider_dtype(made, rows, width):
    X, Y = draw(width, rows).T, draw(rows, 3, dtype=np.float64)
    found = tall.gram(made(X), made(Y))
    assert found.dtype == np.float64
    expected = sum((np.outer(x, y) for x, y in zip(X, Y, strict=True)), np.zeros((width, 3)))
    assert_close(found, expected)


@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_a_product_has_the_dtype_of_the_tall_matrix_and_c_order(made, rows, width):
    X, M = draw(width, rows).T, draw(4, width, dtype=np.float64).T
    found = tall.product(made(X), M)
    assert found.shape == (rows, 4)
    assert "float32" in str(found.dtype)
    assert_close(found, np.array([x @ M for x in X.astype(np.float64)]).reshape(rows, 4))


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_moments_are_about_the_mean_or_about_zero(made, rows, width, centered):
    X = draw(rows, width) + 3
    mean, scatter = tall.moments(made(X), centered)
    assert mean.dtype == scatter.dtype == np.float64
    expected = np.zeros(width) if centered or not rows else X.mean(axis=0, dtype=np.float64)
    assert_close(mean, expected)
    rows_about = (x - expected for x in X.astype(np.float64))
    assert_close(scatter, sum((np.outer(x, x) for x in rows_about), np.zeros((width, width))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_an_update_is_made_in_place_also_from_the_matrix_itself(made, rows, width, dtype):
    Y, X, u = draw(rows, width, dtype=dtype), draw(rows, width, 1, dtype), draw(rows, 1, 2)[:, 0]
    for other in (X, Y):
        target = made(Y.copy())
        source = target if other is Y else made(X)
        expected = Y - 0.5 * np.outer(u, u.astype(np.float64) @ other)
        assert tall.update(target, u, source, 0.5) is target
        assert_close(target, expected)
