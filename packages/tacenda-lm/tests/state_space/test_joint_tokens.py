"""Runs of tokens as tokens: against dictionaries of counts, and what is refused."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda.errors import ArtifactError
from tacenda_lm.state_space.joint_tokens import JointTokens
from tacenda_lm.state_space.prediction import read_windows
from tacenda_lm.streams import Stream

TYPES, UNKNOWN, LONGEST = 4, 1, 4


def runs_of(ids):
    windows = read_windows(
        Stream(ids, np.array([0, len(ids)])), np.arange(1, len(ids)), LONGEST, UNKNOWN
    )
    return JointTokens.of(windows, TYPES, UNKNOWN)


@settings(max_examples=50)
@given(st.lists(st.integers(0, TYPES - 1), min_size=1, max_size=60))
def test_a_run_is_listed_if_it_occurs_and_knows_all_its_tokens(words):
    ids = np.array([0, *words], np.int32)
    joint = runs_of(ids)
    before = ids[:-1].tolist()  # what is before some place
    runs = {
        tuple(before[i : i + k]) for k in range(2, LONGEST + 1) for i in range(len(before) - k + 1)
    }
    listed = {run for run in runs if UNKNOWN not in run}
    assert len(joint) == len(listed)
    every = [run for k in (2, 3, 4) for run in product(range(TYPES), repeat=k)]
    windows = np.array([[*run[::-1], *[UNKNOWN] * (LONGEST - len(run))] for run in every])
    found = joint.find_rows(windows)
    own = [rows[len(run) - 2] for run, rows in zip(every, found.tolist(), strict=True)]
    rows = {run: row for run, row in zip(every, own, strict=True) if row >= 0}
    assert set(rows) == listed
    assert sorted(rows.values()) == list(range(len(listed)))


def test_it_comes_back_from_its_arrays():
    ids = np.random.default_rng(0).integers(TYPES, size=200).astype(np.int32)
    joint = runs_of(ids)
    again = JointTokens.from_arrays(joint.to_arrays(), types=TYPES, unknown=UNKNOWN)
    again.check_saved()
    windows = np.random.default_rng(1).integers(TYPES, size=(3, 5, LONGEST))
    np.testing.assert_array_equal(again.find_rows(windows), joint.find_rows(windows))


@pytest.mark.parametrize(
    ("keys", "sizes"),
    [
        ([5, 4], [2]),
        ([-1, 4], [2]),
        ([4, 4], [2]),
        ([3, 16], [2]),
        ([3, 2**63 - 1, -(2**63), 5], [4]),
        ([3, 4], [3]),
        ([3, 4], [2**62, -(2**62) + 2]),
        ([3, 8], [1, 1]),
        ([3], []),
    ],
)
def test_what_are_no_runs_is_refused(keys, sizes):
    with pytest.raises(ArtifactError):
        JointTokens(
            np.array(keys, np.int64), np.array(sizes, np.int64), TYPES, UNKNOWN
        ).check_saved()
