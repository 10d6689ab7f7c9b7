"""Vectors in compiled loops: every operation against numpy, all widths and tails, and what is refused."""

import numpy as np
import pytest
from numba.core.errors import TypingError

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import (
    LANES,
    add,
    add_exponents,
    add_up,
    as_floats,
    copy_bytes,
    load,
    mantissas,
    multiply,
    multiply_add,
    no_sums,
    prefetch,
    spread,
    store,
)

WIDTHS = [*range(36), 47, 48, 49, 63, 64, 65, 100, 208]


@njit
def combined(table, i, x, factor, out):
    """``out = factor table[i] + x``, and the sum of all of it."""
    width, total = len(x), spread(0)
    for d in range(0, width, LANES):
        n = width - d
        row, other = load(table, i * width + d, n), load(x, d, n)
        both = multiply_add(spread(factor), row, other)
        store(both, out, d, n)
        total = add(total, both)
    return add_up(total)


@njit
def squared(x, n):
    """The first n of the sixteen numbers of ``x`` squared, by a vector that is read whole and written in part."""
    out = np.full(LANES + 2, np.float32(-1))
    lanes = load(x, 0, LANES)
    store(multiply(lanes, lanes), out, 1, n)
    return out


@njit
def part(x, offset, n):
    """What `load` gives, all lanes of it."""
    out = np.empty(LANES, np.float32)
    store(load(x, offset, n), out, 0, LANES)
    return out


@njit
def taken_apart(x, y, out):
    """``out[0]`` = the sums of the exponents of 16 numbers of x and y, ``out[1]`` = the mantissas of x."""
    first = load(x, 0, LANES)
    sums = add_exponents(add_exponents(no_sums(), first), load(y, 0, LANES))
    store(as_floats(sums), out, 0, LANES)
    store(mantissas(first), out, LANES, LANES)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_loop_over_columns_serves_every_width_and_touches_nothing_else(width):
    rng = np.random.default_rng(width)
    table, x = rng.standard_normal((3, width), np.float32), rng.standard_normal(width, np.float32)
    memory = np.full(width + 2 * LANES, np.float32(7))
    out = memory[LANES : LANES + width]
    total = combined(table, 1, x, np.float32(3), out)
    np.testing.assert_allclose(out, 3 * table[1] + x, 1e-6, 1e-6)
    assert total == pytest.approx(out.astype(np.float64).sum(), rel=1e-5, abs=1e-5)
    assert (memory[:LANES] == 7).all()
    assert (memory[LANES + width :] == 7).all()


@pytest.mark.parametrize("n", range(-2, LANES + 3))
def test_lanes_past_the_end_are_zero_when_read_and_left_alone_when_written(n):
    x = np.arange(1, 41, dtype=np.float32)
    lanes = min(max(n, 0), LANES)
    expected = np.zeros(LANES, np.float32)
    expected[:lanes] = x[5 : 5 + lanes]
    np.testing.assert_array_equal(part(x, 5, n), expected)
    found = squared(x, n)
    np.testing.assert_array_equal(found[1 : 1 + lanes], x[:lanes] ** 2)
    assert (found[1 + lanes :] == -1).all()
    assert found[0] == -1


def test_what_is_not_finite_stays_so():
    x = np.ones((1, 20), np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        x[0, 18] = bad
        out = np.empty(20, np.float32)
        total = combined(x, 0, np.ones(20, np.float32), np.float32(2), out)
        np.testing.assert_array_equal(total, bad)
        np.testing.assert_array_equal(out[18], bad)
        assert np.isfinite(np.delete(out, 18)).all()


def test_arrays_that_are_not_float32_in_c_order_are_refused_when_a_loop_is_compiled():
    row, factor = np.ones(3, np.float32), np.float32(1)
    single = np.ones((2, 6), np.float32)
    for table in (np.ones((2, 3)), single.T, single[:, ::2]):
        with pytest.raises(TypingError, match="float32 arrays in C order"):
            combined(table, 0, row, factor, row.copy())


def read_only(array):
    array.flags.writeable = False
    return array


def test_nothing_is_written_into_arrays_that_are_read_only():
    x, out = np.ones(3, np.float32), read_only(np.zeros(3, np.float32))
    with pytest.raises(TypingError, match="cannot be written into"):
        combined(x[None], 0, x, np.float32(1), out)
    combined(read_only(x[None]), 0, read_only(x), np.float32(1), out.copy())
    assert (out == 0).all()


def test_asking_for_memory_changes_nothing_and_faults_nowhere():
    @njit
    def ask(x):
        prefetch(x, 3, 100)
        prefetch(x, 1 << 40, 1)
        prefetch(x, -(1 << 40), 5)
        return x.sum()

    assert ask(np.ones((2, 5))) == 10


def test_sixteen_bytes_are_copied_from_any_place_to_any_other():
    @njit
    def copy(source, begin, target, at):
        copy_bytes(source, begin, target, at)

    source, target = np.arange(40, dtype=np.uint8), np.zeros(40, np.uint8)
    copy(source, 3, target, 7)
    assert target.tolist() == [0] * 7 + list(range(3, 19)) + [0] * 17
    copy(source, 5, source, 1)
    assert source.tolist() == [0, *range(5, 21), *range(17, 40)]
    with pytest.raises(TypingError, match="uint8 arrays in C order"):
        copy(source.astype(np.int32), 0, target, 0)
    with pytest.raises(TypingError, match="cannot be written into"):
        copy(source, 0, read_only(target), 0)


def test_positive_numbers_are_taken_apart_into_exponent_and_mantissa():
    rng, out = np.random.default_rng(0), np.empty((2, LANES), np.float32)
    for spread_of_exponents in (0, 3, 80):
        x, y = np.exp(spread_of_exponents * rng.uniform(-1, 1, (2, LANES))).astype(np.float32)
        x[:4] = [1, 2, np.finfo(np.float32).tiny, np.finfo(np.float32).max]
        taken_apart(x, y, out)
        (m, e), (_, f) = np.frexp(x), np.frexp(y)
        np.testing.assert_array_equal(out[0], (e - 1) + (f - 1))
        np.testing.assert_array_equal(out[1], 2 * m)
