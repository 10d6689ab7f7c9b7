"""Lists of strings as two arrays, in which models save words and names: UTF-8 text and offsets."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import Array, Offsets, UInt8, take
from tacenda.errors import ArtifactError


def pack_words(words: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return words as UTF-8 text, uint8 (bytes,), and their offsets in it, int64 (words + 1,).

    Word ``i`` is ``text[offsets[i] : offsets[i + 1]]``. Lone surrogates are encoded with Python's "surrogatepass", so
    any string can be packed.
    """
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(data) for data in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack_words(text: NDArray[np.uint8], offsets: NDArray[np.int64], name: str) -> list[str]:
    """Return the words that `pack_words` packed; `tacenda.offsets.check_offsets` has checked the offsets.

    Raises ArtifactError, which calls the arrays ``<name>.text`` and ``<name>.offsets``, if they are not valid UTF-8.
    """
    try:
        whole = text.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ArtifactError(
            f"{name}.text is not UTF-8 ({error.reason}); the model is damaged"
        ) from error
    # the whole text is decoded and then cut at offsets in characters, which is faster than decoding word by word
    is_first = np.append((text & 0xC0) != 0x80, True)
    if not is_first[offsets].all():
        raise ArtifactError(f"{name}.offsets cut a character in two; the model is damaged")
    places = np.concatenate([[0], np.cumsum(is_first)])[offsets]
    return [whole[i:j] for i, j in pairwise(places.tolist())]


def pack_names(prefix: str, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return ``<prefix>.text`` uint8 (bytes,) and ``<prefix>.offsets`` int64 (names + 1,), see `pack_words`."""
    text, offsets = pack_words(names)
    return {f"{prefix}.text": text, f"{prefix}.offsets": offsets}


def unpack_names(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the strings that `pack_names` packed. Raises ArtifactError."""
    sizes: dict[str, Any] = {}
    text = take(arrays, f"{prefix}.text", UInt8[Array, "bytes"], sizes)
    offsets = take(arrays, f"{prefix}.offsets", Offsets[Array, "names bytes"], sizes)
    return unpack_words(text, offsets, prefix)
