from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels.counts import Counts, cpu, lagged_counts, merge_counts
from tacenda.testing.kernels.samples import run_specification


def dense(counts, vocabulary):
    shape = (len(counts.indptr) - 1, vocabulary)
    return scipy.sparse.csr_array((counts.data, counts.indices, counts.indptr), shape).toarray()


def assert_same(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


streams = st.tuples(st.sampled_from([1, 2, 63, 64, 65, 130, 5000]), st.integers(0, 80)).flatmap(
    lambda size: st.tuples(
        st.just(size[0]), st.lists(st.integers(0, size[0] - 1), min_size=size[1], max_size=size[1])
    )
)


@given(streams, st.integers(1, 9), st.integers(0, 90))
def test_agrees_with_the_plain_loop(stream, n_lags, n_history):
    vocabulary, ids = stream
    ids = np.array(ids, np.int32)
    n_history = min(n_history, len(ids))
    actual = lagged_counts(ids, n_lags, vocabulary, n_history)
    assert_same(actual, run_specification(lagged_counts, ids, n_lags, vocabulary, n_history))


def test_the_row_is_the_later_word():
    (one,) = lagged_counts(np.array([0, 1], np.int32), 1, 2)  # 0, then 1
    assert dense(one, 2).tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize("gathered", [1, 5, 8192])
@pytest.mark.parametrize("vocabulary", [3, 400, 9000])
def test_rows_of_any_frequency_agree_with_the_plain_loop(monkeypatch, gathered, vocabulary):
    # Words frequent and rare, in and out of the gathering buffer, with and without the bitmap.
    count = cpu._count.py_func if gathered != 8192 else cpu._count
    if gathered != 8192:
        monkeypatch.setattr(cpu, "_GATHERED", gathered)
        monkeypatch.setattr(cpu, "_count", count)
    rng = np.random.default_rng(0)
    ids = np.minimum(rng.zipf(1.4, 600) - 1, vocabulary - 1).astype(np.int32)
    actual = lagged_counts(ids, 3, vocabulary, 2)
    assert_same(actual, run_specification(lagged_counts, ids, 3, vocabulary, 2))


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=60),
    st.integers(1, 5),
    st.lists(st.integers(1, 59), max_size=4),
)
def test_overlapping_blocks_sum_to_the_whole(ids, n_lags, cuts):
    ids = np.array(ids, np.int32)
    whole = lagged_counts(ids, n_lags, 7)
    edges = sorted({0, len(ids), *(cut for cut in cuts if cut < len(ids))})
    blocks = []
    for a, b in pairwise(edges):
        before = min(n_lags, a)
        blocks.append(lagged_counts(ids[a - before : b], n_lags, 7, before))
    assert_same([merge_counts(list(lag), 7) for lag in zip(*blocks, strict=True)], whole)


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(0, 9), st.sampled_from([1, 2, 63, 300]), st.booleans())
def test_merging_is_the_sum_of_matrices(n_parts, rows, vocabulary, exact):
    rng = np.random.default_rng(rows)
    parts = []
    for _ in range(n_parts):
        m = scipy.sparse.random_array((rows, vocabulary), density=0.2, rng=rng, format="csr")
        m.sort_indices()
        data = rng.integers(1, 9, m.nnz).astype(np.int32 if exact else np.float32)
        parts.append(Counts(m.indptr.astype(np.int64), m.indices.astype(np.int32), data))
    merged = merge_counts(parts, vocabulary)
    assert merged.data.dtype == (np.int32 if exact else np.float32)
    np.testing.assert_allclose(dense(merged, vocabulary), sum(dense(p, vocabulary) for p in parts))
    assert_same([merged], [run_specification(merge_counts, parts, vocabulary)])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_sum_over_int32_is_an_error_not_a_wrong_number(backend):
    one = Counts(np.array([0, 1]), np.zeros(1, np.int32), np.array([2**30], np.int32))
    with kernels.use(backend):
        assert merge_counts([one], 1).data[0] == 2**30
        with pytest.raises(KernelError, match="exceeds int32"):
            merge_counts([one, one], 1)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_negative_counts_are_refused(backend):
    least = np.array([np.iinfo(np.int32).min], np.int32)
    one = Counts(np.array([0, 1]), np.zeros(1, np.int32), least)
    with kernels.use(backend), pytest.raises(KernelError, match="none is negative"):
        merge_counts([one, one], 1)


@pytest.mark.parametrize(
    ("stream", "n_lags", "vocabulary", "n_history", "message"),
    [
        (np.array([0, 5], np.int32), 1, 5, 0, "ids run from"),
        (np.array([0, -1], np.int32), 1, 5, 0, "ids run from"),
        (np.array([0, 2**32]), 1, 5, 0, "stream holds 4294967296, which int32 cannot hold"),
        (np.array([0.0, 1.0]), 1, 5, 0, "stream must be integers"),
        (np.zeros((2, 2), np.int32), 1, 5, 0, "stream must be integers"),
        (np.zeros(0, np.int32), 1, -2, 0, "vocabulary must be at least 0, not -2"),
        (np.zeros(2, np.int32), 0, 5, 0, "at least one lag"),
        (np.zeros(2, np.int32), True, 5, 0, "n_lags must be a whole number, not True"),
        (np.zeros(2, np.int32), 1, 5, 3, "no more history"),
    ],
)
def test_bad_input_is_a_clear_error(stream, n_lags, vocabulary, n_history, message):
    with pytest.raises(KernelError, match=message):
        lagged_counts(stream, n_lags, vocabulary, n_history)


def test_bad_parts_are_a_clear_error():
    def part(rows=1, column=0, dtype=np.int32, extra=0):
        indices = np.full(rows + extra, column, np.int32)
        return Counts(np.arange(rows + 1), indices, np.ones(rows, dtype))

    def with_indptr(*indptr):
        return part(rows=2)._replace(indptr=np.array(indptr))

    for parts, message in (
        ([], "nothing to sum"),
        ([np.eye(2)], "list of Counts"),
        ([with_indptr(0, 9, 2)], "indptr must ascend from 0 to 2, and one falls"),
        ([part(2), with_indptr(0, -9, 2)], "and one falls"),
        ([with_indptr(1, 2, 2)], "run from 1 to 2"),
        ([with_indptr(0.0, 1.0, 2.0)], "integers"),
        ([part(dtype=">i4")], "int32 or float32"),
        ([part(), part(2)], "same rows"),
        ([part(), part(dtype=np.float32)], "float32"),
        ([part(dtype=np.float64)], "float64"),
        ([part(column=9)], "columns run from 9"),
        ([part(extra=1)], "must agree"),
    ):
        with pytest.raises(KernelError, match=message):
            merge_counts(parts, 5)
    with pytest.raises(KernelError, match="vocabulary must be at least 0, not -2"):
        merge_counts([part()], -2)


def test_threads_do_not_disturb_each_other():
    rng = np.random.default_rng(0)
    ids = [rng.integers(0, 300, 20_000).astype(np.int32) for _ in range(8)]
    alone = [lagged_counts(s, 4, 300) for s in ids]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda s: lagged_counts(s, 4, 300), ids))
    for a, b in zip(alone, together, strict=True):
        assert_same(a, b)
