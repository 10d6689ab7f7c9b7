"""Offsets are refused unless every slice that they make lies inside the array that they cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacenda.errors import ArtifactError, DataError
from tacenda.offsets import check_offsets, pack_words, rises, runs, unpack_words

WRAPPING = [0, 2**63 - 1, -2, 20]
LIMITS = np.iinfo(np.int64)
#: Numbers of which many differences do not fit into int64.
FAR_APART = st.sampled_from([LIMITS.min, -(2**62), -2, -1, 0, 1, 2, 7, 2**62, LIMITS.max])
VALUES = st.lists(FAR_APART | st.integers(LIMITS.min, LIMITS.max), max_size=8)


def test_sound_offsets_are_not_copied():
    offsets = np.array([0, 3, 3, 5])
    assert np.shares_memory(check_offsets(offsets, 5), offsets)


def test_other_integers_become_int64_in_c_order():
    for offsets in (np.array([0, 9, 3, 9, 5], np.uint8)[::2], [0, 3, 5], (0, 3, 5)):
        found = check_offsets(offsets, 5)
        assert found.dtype == np.int64
        assert found.flags.c_contiguous
        assert found.tolist() == [0, 3, 5]


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        (WRAPPING, "offsets must ascend from 0 to 20, and one falls"),
        (np.array([0, 2**64 - 1, 20], np.uint64), "one falls"),
        ([0, 2**64, 20], "integers, not (object|float64)"),
        ([0, 21], "run from 0 to 21"),
        ([1, 20], "run from 1 to 20"),
        ([0.0, 20.0], "not float64"),
        ([False, True], "not bool"),
        ([], "not float64"),
        ([[0, 20]], "shape"),
        (0, "shape"),
    ],
)
def test_others_are_refused(offsets, message):
    with pytest.raises(DataError, match=message):
        check_offsets(offsets, 20)


def test_the_caller_says_what_they_are_and_which_error_to_raise():
    with pytest.raises(
        ArtifactError, match=r"^first must ascend from 0 to 5 in 3 steps, not in 2!"
    ):
        check_offsets([0, 3, 5], 5, what="first", pieces=3, error=ArtifactError, advice="!")


def test_strictly_rising_offsets_leave_no_piece_empty():
    assert check_offsets([0, 3, 5], 5, strictly=True).tolist() == [0, 3, 5]
    with pytest.raises(DataError, match="not above the one before"):
        check_offsets([0, 3, 3, 5], 5, strictly=True)


@given(VALUES, st.booleans(), st.sampled_from([1, 2, 1 << 20]))
def test_numbers_rise_as_python_compares_them(values, strictly, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacenda.offsets._BLOCK", block)
        expected = values == sorted(values) and (not strictly or len(set(values)) == len(values))
        assert rises(np.array(values, np.int64), strictly=strictly) == expected


@given(VALUES, FAR_APART)
def test_what_passes_cuts_all_items_and_nothing_else(inner, total):
    offsets = [0, *inner, total]
    try:
        found = check_offsets(offsets, total)
    except DataError:
        assert offsets != sorted(offsets) or total < 0
    else:
        assert found.tolist() == sorted(offsets)
        assert 0 <= found.min() <= found.max() == total


@given(hnp.arrays(hnp.integer_dtypes() | hnp.unsigned_integer_dtypes(), st.integers(0, 6)))
def test_every_dtype_is_compared_before_it_is_converted(values):
    exact = values.tolist()
    if exact and exact[0] == 0 and exact == sorted(exact) and exact[-1] < 2**63:
        assert check_offsets(values, exact[-1]).tolist() == exact
    else:
        with pytest.raises(DataError):
            check_offsets(values, exact[-1] if exact else 0)


@given(
    st.lists(st.integers(0, 5), max_size=9),
    st.integers(1, 7) | st.just(2**63 - 1),
    st.none() | st.integers(1, 3),
)
def test_runs_have_as_many_pieces_as_fit_and_at_least_one(sizes, most, most_pieces):
    found = list(runs(np.cumsum([0, *sizes]), most, most_pieces))
    assert [k for first, last in found for k in range(first, last)] == [*range(len(sizes))]
    for first, last in found:
        fit = [
            sum(sizes[first:end]) <= most and end - first <= (most_pieces or 9)
            for end in (last, last + 1)
        ]
        assert fit[0] or last == first + 1
        assert last == len(sizes) or not fit[1]


@given(st.lists(st.text(st.characters(), max_size=6), max_size=6))
def test_any_strings_come_back(words):
    assert unpack_words(*pack_words(words), "names") == words


@pytest.mark.parametrize(
    ("text", "offsets", "message"),
    [
        (b"\xff", [0, 1], "names.text is not UTF-8"),
        ("é".encode(), [0, 1, 2], "names.offsets cut a character in two"),
    ],
)
def test_what_is_no_text_is_refused_by_name(text, offsets, message):
    with pytest.raises(ArtifactError, match=message):
        unpack_words(np.frombuffer(text, np.uint8), np.array(offsets), "names")
