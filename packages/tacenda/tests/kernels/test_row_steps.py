"""AdaGrad steps on a few rows: the equations, what is left alone, what is refused."""

import numpy as np
import pytest

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels.shared import adagrad


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_steps_written_out(backend, dtype):
    table, sums = np.array([[1.0, 2.0], [3.0, 4.0]], dtype), np.zeros(2, dtype)
    with kernels.use(backend):
        adagrad(table, sums, [1], np.array([[3.0, 4.0]], dtype), 0.5, 0.0)
        adagrad(table, sums, [1], np.array([[0.0, 1.0]], dtype), 0.5, 0.0)
    first = 0.5 / np.sqrt(12.5)
    second = 0.5 / np.sqrt(13)
    expected = [[1, 2], [3 - 3 * first, 4 - 4 * first - second]]
    np.testing.assert_allclose(table, expected, 1e-6)
    np.testing.assert_allclose(sums, [0, 13], 1e-6)


def test_the_number_of_threads_changes_nothing():
    rng = np.random.default_rng(0)
    gradient, found = rng.standard_normal((40, 17)).astype(np.float32), []
    for threads in (1, 2, 7):
        table, sums = np.ones((50, 17), np.float32), np.ones(50, np.float32)
        found.append(adagrad(table, sums, np.arange(40), gradient, 0.1, threads=threads))
    for table, sums in found[1:]:
        np.testing.assert_array_equal(table, found[0][0])
        np.testing.assert_array_equal(sums, found[0][1])


@pytest.mark.parametrize(
    "change",
    [
        {"rows": [5]},
        {"rows": [-1]},
        {"rows": [0, 1]},
        {"gradient": np.zeros((1, 2), np.float32)},
        {"gradient": np.zeros((1, 3))},
        {"sums": np.zeros(4, np.float32)},
        {"table": np.zeros((3, 5), np.float32).T},
        {"table": np.zeros((5, 3), int)},
    ],
)
def test_arguments_that_do_not_fit_are_refused(change):
    good = {
        "table": np.zeros((5, 3), np.float32), "sums": np.zeros(5, np.float32), "rows": [4],
        "gradient": np.ones((1, 3), np.float32), "rate": 0.1,
    }  # fmt: skip
    adagrad(**good)
    with pytest.raises(KernelError):
        adagrad(**{**good, **change})
