import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda_lm.training import sum_by_row


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    rows=st.lists(st.integers(0, 9), max_size=40),
    width=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_gradients_of_a_row_are_those_of_all_its_reads(dtype, rows, width, seed):
    rows = np.array(rows, np.int64)
    gradients = np.random.default_rng(seed).standard_normal((len(rows), width)).astype(dtype)
    table = np.zeros((10, width))
    np.add.at(table, rows, gradients)

    found, sums = sum_by_row(rows, gradients)

    assert found.tolist() == sorted(set(rows.tolist()))
    assert sums.dtype == dtype
    assert sums == pytest.approx(table[found], abs=1e-5)
