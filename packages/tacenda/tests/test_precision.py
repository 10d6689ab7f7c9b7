"""Compact forms of arrays: bounded errors, stable under saving again, strict about what they read."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from tacenda.artifact.precision import compact, restore
from tacenda.errors import ArtifactError

SHAPES = arrays_of.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=7)
FLOATS = st.floats(-(2.0**100), 2.0**100, width=32)
TABLES = arrays_of.arrays(np.float32, SHAPES, elements=FLOATS)


@given(TABLES)
def test_eight_bits_err_by_a_254th_of_a_row_s_largest_number(table):
    again = restore(compact({"t": table}, {"t"}, "int8"))[0]["t"]
    assert again.dtype == np.float32
    assert again.shape == table.shape
    largest = np.abs(table).max(axis=1, initial=0)
    bound = largest / 254 * 1.0001 + 1e-30  # numbers below 1e-30 are zeros
    assert (np.abs(again - table).max(axis=1, initial=0) <= bound).all()


@given(arrays_of.arrays(np.float32, SHAPES, elements=st.floats(-60000, 60000, width=32)))
def test_sixteen_bits_err_by_a_2048th_of_a_number(table):
    again = restore(compact({"t": table}, {"t"}, "float16"))[0]["t"]
    assert again.dtype == np.float32
    assert (np.abs(again - table) <= np.abs(table) / 2048 + 2.0**-25).all()


@pytest.mark.parametrize("precision", ["int8", "float16"])
@given(table=arrays_of.arrays(np.float32, SHAPES, elements=st.floats(-60000, 60000, width=32)))
def test_what_was_restored_is_stored_as_it_was(precision, table):
    first = compact({"t": table}, {"t"}, precision)
    second = compact(restore(first)[0], {"t"}, precision)
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(second[name], array)
        assert second[name].dtype == array.dtype


@given(arrays_of.arrays(np.int64, st.integers(0, 9)))
def test_integers_are_what_they_were(array):
    again = restore(compact({"n": array}, (), "int8"))[0]["n"]
    np.testing.assert_array_equal(again, array)
    assert again.dtype == np.int64


@given(st.lists(st.integers(0, 2**55), max_size=9))
def test_offsets_are_what_they_were_and_take_the_room_of_their_steps(steps):
    offsets = np.concatenate([[0], np.cumsum(np.array(steps, np.int64))]).astype(np.int64)
    stored = compact({"o": offsets}, (), "int8")
    again = restore(stored)[0]["o"]
    np.testing.assert_array_equal(again, offsets)
    assert again.dtype == np.int64
    if steps and max(steps) < 256:
        assert sum(array.nbytes for array in stored.values()) == len(steps)


def test_other_doubles_are_rounded_to_float32_unless_they_are_too_large():
    small, large = np.array([1 / 3, 2.0]), np.array([1e300])
    again = restore(compact({"small": small, "large": large}, (), "int8"))[0]
    np.testing.assert_array_equal(again["small"], small.astype(np.float32).astype(np.float64))
    assert again["small"].dtype == np.float64
    np.testing.assert_array_equal(again["large"], large)


def test_a_large_double_stays_where_another_is_not_finite():
    mixed = np.array([np.nan, np.inf, 1e300])
    np.testing.assert_array_equal(restore(compact({"x": mixed}, (), "int8"))[0]["x"], mixed)
    small = np.array([np.nan, 1.0])
    assert compact({"x": small}, (), "int8")["x#f8"].dtype == np.float32


def test_what_is_neither_table_nor_wide_stays():
    arrays = {
        "flags": np.array([True, False]),
        "text": np.frombuffer(b"abc", np.uint8),
        "few": np.ones((2, 3), np.float32),
        "empty": np.zeros(0, np.int64),
    }
    stored = compact(arrays, (), "int8")
    assert stored.keys() == arrays.keys()
    for name, array in restore(stored)[0].items():
        np.testing.assert_array_equal(array, arrays[name])


def test_the_precision_of_stored_arrays_is_known():
    table = {"t": np.ones((2, 3), np.float32)}
    assert restore(table)[1] == "full"
    assert restore(compact(table, {"t"}, "int8"))[1] == "int8"
    assert restore(compact(table, {"t"}, "float16"))[1] == "float16"


@pytest.mark.parametrize(
    ("precision", "value", "said"),
    [
        *product(["int8", "float16"], [np.nan, np.inf, -np.inf], ["NaN or infinite"]),
        *product(["int8", "float16"], [1e300], ["numbers beyond float32"]),
        ("float16", 70000.0, "numbers above 65,504, .* use int8"),
    ],
)
def test_a_table_of_what_cannot_be_rounded_is_refused(precision, value, said):
    with pytest.raises(ArtifactError, match=f"'t' holds {said}"):
        compact({"t": np.array([[1.0, value]])}, {"t"}, precision)


ROWS, SCALES = np.ones((2, 3), np.int8), np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"t#rows": ROWS}, "do not fit"),
        ({"t#scales": SCALES}, "no rows"),
        ({"t#rows": ROWS, "t#scales": SCALES[:1]}, "do not fit"),
        ({"t#rows": ROWS.astype(np.int16), "t#scales": SCALES}, "do not fit"),
        ({"t#rows": ROWS[0], "t#scales": SCALES}, "do not fit"),
        ({"t#rows": ROWS, "t#scales": SCALES.astype(np.float64)}, "do not fit"),
        ({"t#rows": ROWS, "t#scales": np.full(2, np.inf, np.float32)}, "infinite"),
        ({"t#rows": ROWS, "t#scales": -SCALES}, "negative"),
        ({"t#rows": ROWS, "t#scales": SCALES, "t": ROWS}, "two forms"),
        ({"t#steps": ROWS}, "no form"),
        ({"t#steps": np.ones(3)}, "no form"),
        ({"t#f4": np.ones(3)}, "no form"),
        ({"t#i8": np.ones(3, np.float32)}, "no form"),
        ({"t#secret": ROWS}, "no form"),
    ],
)
def test_no_other_form_is_read(arrays, said):
    with pytest.raises(ArtifactError, match=said):
        restore(arrays)


def test_steps_that_overflow_are_left_to_the_check_of_offsets():
    found = restore({"o#steps": np.array([2**63 - 1, 2**63 - 1], np.uint64)})[0]["o"]
    assert found.dtype == np.int64
