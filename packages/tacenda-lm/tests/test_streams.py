"""Texts as streams with boundaries, and the pieces that training takes of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda_lm.streams import Stream

END = 0


@pytest.mark.parametrize(
    ("across", "ids", "offsets"),
    [
        (True, [0, 3, 0, 4, 0, 0, 5], [0, 5, 7]),
        (False, [0, 3, 0, 0, 4, 0, 0, 5], [0, 3, 6, 8]),
    ],
)
def test_an_end_is_put_before_every_sequence(across, ids, offsets):
    stream = Stream.of(np.array([3, 0, 4, 0, 5]), np.array([0, 4, 4, 5]), END, across)
    assert stream.ids.tolist() == ids
    assert stream.offsets.tolist() == offsets


@pytest.mark.parametrize("offsets", [[0], [0, 0], [0, 0, 0]])
def test_nothing_is_no_sequence(offsets):
    stream = Stream.of(np.array([], int), np.array(offsets), END, True)
    assert len(stream.ids) == 0
    assert stream.offsets.tolist() == [0]


@given(st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=6), st.booleans())
def test_all_but_the_firsts_are_the_text(sequences, across):
    ids = np.array([i for s in sequences for i in s], int)
    stream = Stream.of(ids, np.cumsum([0, *map(len, sequences)]), END, across)
    assert stream.ids[~stream.firsts].tolist() == ids.tolist()
    assert (stream.ids[stream.firsts] == END).all()


@settings(max_examples=60)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 12), st.data())
def test_windows_hold_the_words_before_and_no_other_sequence(lengths, reach, data):
    ids = np.arange(sum(lengths), dtype=np.int32)
    stream = Stream(ids, np.concatenate([[0], np.cumsum(lengths)]))
    starts = np.array(data.draw(st.lists(st.integers(0, len(ids) - 1), min_size=1, max_size=4)))
    ends = np.minimum(starts + data.draw(st.integers(1, 10)), len(ids))
    found = stream.windows(starts, ends, reach)
    rows = [t for s, e in zip(starts, ends, strict=True) for t in range(s, e)]
    assert found.targets.tolist() == rows
    begin = {t: max(b for b in stream.offsets[:-1] if b <= t) for t in range(len(ids))}
    assert found.counted.tolist() == [t > begin[t] for t in rows]
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        low, high = found.starts[i], found.ends[i]
        assert found.ids[low:high].tolist() == list(range(start, end))
        first = max(o for o in found.offsets if o <= low)
        expected = list(range(max(begin[start], start - reach), start))
        assert found.ids[first:low].tolist() == expected
        inside = [int(found.ids[o]) for o in found.offsets if low < o < high]
        assert inside == [b for b in stream.offsets[:-1] if start < b < end]
