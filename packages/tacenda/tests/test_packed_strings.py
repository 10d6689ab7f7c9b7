import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.errors import ArtifactError
from tacenda.packed_strings import pack_words, unpack_words


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
