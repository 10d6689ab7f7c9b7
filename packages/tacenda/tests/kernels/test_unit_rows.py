"""Rows scaled to unit length in place: whole matrices, some of their columns, and views that are not contiguous."""

import numpy as np
import pytest

from tacenda.kernels.sequences import LEAST_SQUARED_LENGTH, unit_rows

PARTS = {
    "all of it": np.s_[:, :],
    "the first columns": np.s_[:, :3],
    "the last columns": np.s_[:, 4:],
    "every other row": np.s_[::2],
    "every other column": np.s_[:, ::2],
    "rows backwards": np.s_[::-1],
    "one row": np.s_[2:3, 1:5],
    "one column": np.s_[:, 5:6],
    "no rows": np.s_[:0],
    "no columns": np.s_[:, :0],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_matrix_has_unit_rows_and_the_rest_stays(part, transposed, dtype):
    matrix = np.random.default_rng(0).normal(size=(7, 9)).astype(dtype)
    matrix[2] = 0
    matrix = matrix.T if transposed else matrix
    expected = matrix.astype(np.float64)
    rows = expected[PARTS[part]]
    rows /= np.sqrt(np.maximum((rows**2).sum(axis=1, keepdims=True), LEAST_SQUARED_LENGTH))
    view = matrix[PARTS[part]]
    assert unit_rows(view) is view
    np.testing.assert_allclose(matrix, expected, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transposed", [False, True])
def test_rows_whose_squares_are_beyond_their_dtype_have_unit_length(transposed, dtype):
    rows = np.array([[3e20, 4e20], [3e37, 4e37], [-3e38, 3e38], [3, 4], [np.inf, 1]], dtype)
    matrix = np.asfortranarray(rows) if transposed else rows
    with np.errstate(invalid="ignore"):
        unit_rows(matrix)
    root = np.sqrt(0.5)
    expected = [[0.6, 0.8], [0.6, 0.8], [-root, root], [0.6, 0.8], [np.nan, 0.0]]
    np.testing.assert_allclose(matrix, expected, rtol=4 * np.finfo(dtype).eps)
