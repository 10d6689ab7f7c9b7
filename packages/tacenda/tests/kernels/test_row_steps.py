"""AdaGrad steps on a few rows: the equations, what is left alone, what is refused."""

import numpy as np
import pytest

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels.sequences import modal_scan
from tacenda.kernels.shared import adagrad, adam


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_steps_written_out(backend, dtype):
    table, sums = np.array([[1.0, 2.0], [3.0, 4.0]], dtype), np.zeros(2, dtype)
    with kernels.use(backend):
        adagrad(table, sums, [1], np.array([[3.0, 4.0]], dtype), 0.5)
        adagrad(table, sums, [1], np.array([[0.0, 1.0]], dtype), 0.5)
    first = 0.5 / np.sqrt(12.5)
    second = 0.5 / np.sqrt(13)
    expected = [[1, 2], [3 - 3 * first, 4 - 4 * first - second]]
    np.testing.assert_allclose(table, expected, 1e-6)
    np.testing.assert_allclose(sums, [0, 13], 1e-6)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_rows_without_columns_leave_their_sums(backend):
    with kernels.use(backend):
        _, sums = adagrad(np.zeros((3, 0)), np.ones(3), [0, 2], np.zeros((2, 0)), 0.1)
    np.testing.assert_array_equal(sums, 1)


@pytest.mark.parametrize("t", [0, -1])
def test_a_step_before_the_first_is_refused(t):
    with pytest.raises(KernelError, match=f"adam: t must be at least 1, .* not {t}$"):
        adam(*np.zeros((4, 3)), 0.1, t)


@pytest.mark.parametrize("threads", [0, -1])
def test_fewer_threads_than_one_are_refused(threads):
    with pytest.raises(KernelError, match=f"threads must be at least 1, not {threads}$"):
        adagrad(np.ones((1, 1)), np.ones(1), [0], np.ones((1, 1)), 0.1, threads=threads)


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
    adagrad(**fitting())
    with pytest.raises(KernelError):
        adagrad(**{**fitting(), **change})


def fitting():
    return {
        "table": np.zeros((5, 3), np.float32), "sums": np.zeros(5, np.float32), "rows": [4],
        "gradient": np.ones((1, 3), np.float32), "rate": 0.1,
    }  # fmt: skip


def read_only(*shape):
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("order", ["<i8", ">i8", ">i4", "u1"])
def test_rows_may_be_integers_of_any_width_and_byte_order(order):
    table, sums, gradient = np.zeros((5, 3)), np.zeros(5), np.ones((1, 3))
    adagrad(table, sums, np.array([4], order), gradient, 0.5)
    np.testing.assert_allclose(table[:, 0], [0, 0, 0, 0, -0.5])
    adagrad(table, sums, [], gradient[:0], 0.5)
    np.testing.assert_allclose(sums, [0, 0, 0, 0, 1])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("rows", wrong) for wrong in (None, "ab", 3, {4}, [None], [[1], [1, 2]])),
        *(("table", wrong) for wrong in (None, [[1.0]], read_only(5, 3), np.zeros((5, 3), ">f4"))),
        *(("sums", wrong) for wrong in (None, read_only(5))),
        *(("gradient", wrong) for wrong in (None, "x", np.ones((1, 3), ">f4"))),
        *(("rate", wrong) for wrong in (None, "fast")),
        *(("threads", wrong) for wrong in (None, "two")),
    ],
    ids=str,
)
def test_an_error_names_the_operation_and_its_argument(name, wrong):
    with kernels.use("cpu"), pytest.raises(KernelError, match=rf"^adagrad: {name} (must|is) "):
        adagrad(**{**fitting(), name: wrong})


@pytest.mark.parametrize("group", [None, 3, (), (np.ones(1),)], ids=str)
def test_an_error_names_the_operation_and_its_tuple_of_arrays(group):
    message = r"^modal_scan: modes must be a Modes of real, pairs, not"
    with pytest.raises(KernelError, match=message):
        modal_scan(group, np.ones((1, 1)), [0], [0, 1])
