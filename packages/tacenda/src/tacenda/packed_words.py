"""Lists of strings as two arrays: their text, one after the other, and where it is cut."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import ArtifactError

__all__ = ["pack_words", "unpack_words"]


def pack_words(words: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return words as UTF-8 text, uint8 (bytes,), and the offsets that cut it, int64 (words + 1,).

    Word ``i`` is ``text[offsets[i] : offsets[i + 1]]``. Lone surrogates are encoded as Python's "surrogatepass" has
    them, so that any string survives.
    """
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(data) for data in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack_words(text: NDArray[np.uint8], offsets: NDArray[np.int64], name: str) -> list[str]:
    """Return the words that `pack_words` packed, of offsets that `tacenda.offsets.checked_offsets` let pass.

    Raises ArtifactError, which calls the arrays ``<name>.text`` and ``<name>.offsets``, where they hold no text.
    """
    try:
        whole = text.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ArtifactError(
            f"{name}.text is not UTF-8 ({error.reason}); the model is damaged"
        ) from error
    # decoded once and cut, which is faster than word by word: the places in characters, of which the first byte tells
    is_first = np.append((text & 0xC0) != 0x80, True)
    if not is_first[offsets].all():
        raise ArtifactError(f"{name}.offsets cut a character in two; the model is damaged")
    places = np.concatenate([[0], np.cumsum(is_first)])[offsets]
    return [whole[i:j] for i, j in pairwise(places.tolist())]
