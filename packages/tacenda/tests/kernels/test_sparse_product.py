import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda.errors import KernelError
from tacenda.kernels.shared import sparse_product
from tacenda.testing.kernels.samples import run_specification


def random_csr(rows, columns, density, seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    present = rng.random((rows, columns)) < density
    indptr = np.r_[0, np.cumsum(present.sum(axis=1))].astype(np.int64)
    counts = rng.integers(1, 100, indptr[-1]).astype(dtype)
    return indptr, np.nonzero(present)[1].astype(np.int32), counts


def assert_close(actual, expected, scale=1.0):
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-4 * scale)


@settings(max_examples=60)
@given(
    rows=st.integers(0, 20),
    columns=st.integers(1, 20),
    width=st.sampled_from([0, 1, 3, 15, 16, 17, 65, 130, 257, 600]),
    density=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    integer=st.booleans(),
    scaled=st.booleans(),
    threads=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_agrees_with_the_plain_loop(rows, columns, width, density, integer, scaled, threads, seed):
    csr = random_csr(rows, columns, density, seed, np.int32 if integer else np.float32)
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((columns, width)).astype(np.float32)
    scales = {}
    if scaled:
        scales["row_scale"] = rng.random(rows, dtype=np.float32)
        scales["column_scale"] = rng.random(columns, dtype=np.float32)
    actual = sparse_product(*csr, dense, threads=threads, **scales)
    expected = run_specification(sparse_product, *csr, dense, **scales)
    assert actual.dtype == np.float32
    assert_close(actual, expected)


def test_the_result_is_the_same_to_the_bit_for_any_number_of_threads():
    # Wide rows make both column tiles appear: the first holds 1 MB of the dense operand.
    csr = random_csr(3000, 3000, 0.01, seed=1)
    dense = np.random.default_rng(1).standard_normal((3000, 130)).astype(np.float32)
    one = sparse_product(*csr, dense)
    matrix = scipy.sparse.csr_array((csr[2], csr[1], csr[0]), shape=(3000, 3000))
    assert_close(one, matrix @ dense.astype(np.float64), scale=10)
    for threads in (2, 3, 7):
        many = sparse_product(*csr, dense, threads=threads)
        np.testing.assert_array_equal(one, many)


def test_reads_any_layout():
    csr = random_csr(30, 40, 0.2, seed=2)
    dense = np.asfortranarray(np.random.default_rng(2).standard_normal((40, 33)), np.float32)
    scale = np.repeat(np.linspace(0, 1, 40, dtype=np.float32), 2)[::2]
    for scales in ({}, {"column_scale": scale}):
        assert_close(
            sparse_product(*csr, dense, **scales),
            run_specification(sparse_product, *csr, dense, **scales),
        )


def test_nan_and_infinity_reach_exactly_the_rows_that_use_them():
    indptr, indices = np.array([0, 1, 2, 2]), np.array([0, 1])
    dense = np.array([[np.nan], [np.inf]], np.float32)
    out = sparse_product(indptr, indices, np.ones(2, np.float32), dense)
    np.testing.assert_array_equal(out, [[np.nan], [np.inf], [0.0]])


def test_duplicate_indices_are_added():
    out = sparse_product([0, 3], [1, 1, 1], [1, 2, 4], np.eye(2, dtype=np.float32))
    np.testing.assert_array_equal(out, [[0.0, 7.0]])


@pytest.mark.parametrize("width", [0, 4])
@pytest.mark.parametrize(
    "indices",
    [[0, 3], [-1, 0], [1, 0], [0, 2**32 + 1]],
    ids=["too large", "negative", "unsorted", "beyond int32"],
)
def test_bad_indices_are_refused_before_memory_is_touched(indices, width):
    with pytest.raises(KernelError, match="row 1 of the sparse operand has column indices"):
        sparse_product([0, 0, 2, 2], indices, [1, 1], np.ones((3, width), np.float32))


def test_indices_are_refused_where_the_dense_operand_has_no_rows():
    with pytest.raises(KernelError, match="row 0 of the sparse operand"):
        sparse_product([0, 1], [0], [1], np.ones((0, 4), np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.ones(1, np.float32)}, r"data must be numbers \(nonzeros=2\)"),
        ({"indptr": np.array([0, 1, 9])}, "there are 2 indices"),
        ({"indptr": np.array([0, 5, 2])}, "row 0 of .* runs from 0 to 5: indptr does not ascend"),
        (
            {"indptr": np.array([0, 2, 1, 2])},
            "row 1 of .* runs from 2 to 1: indptr does not ascend",
        ),
        (
            {"indptr": [0, 5, 0], "indices": [], "data": []},
            "row 0 of .* from 0 to 5: indptr does not ascend",
        ),
        ({"row_scale": np.ones(3, np.float32)}, r"indptr must be integers \(rows=3\+1\)"),
        ({"indptr": np.empty(0, int)}, r"indptr must be integers \(rows\+1\)"),
        ({"column_scale": np.ones(3, np.float32)}, "column_scale must be"),
        ({"threads": 0}, "threads must be"),
    ],
)
def test_shapes_that_disagree_are_named(change, message, dtype):
    arguments = {"indptr": [0, 1, 2], "indices": [0, 1], "data": [1, 1]}
    arguments["dense"] = np.ones((2, 2), dtype)
    with pytest.raises(KernelError, match=message):
        sparse_product(**(arguments | change))


def test_float64_is_left_to_the_reference_with_a_warning():
    csr = random_csr(5, 5, 0.5, seed=5)
    with pytest.warns(RuntimeWarning, match="only float32"):
        found = sparse_product(*csr, np.ones((5, 2)))
    np.testing.assert_array_equal(found, run_specification(sparse_product, *csr, np.ones((5, 2))))
