"""Words as arrays, for tensor files: UTF-8 text and the offsets that cut it into words."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import ArtifactError


def pack(words: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Text uint8 (bytes,) and offsets int64 (words + 1,).

    Word i is ``text[offsets[i] : offsets[i + 1]]`` in UTF-8, lone surrogates encoded as CPython's
    "surrogatepass" has them, so that any string survives.
    """
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(data) for data in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack(arrays: Mapping[str, NDArray[Any]]) -> tuple[list[str], NDArray[np.int64]]:
    """Words and counts from ``vocabulary.text``, ``.offsets`` and ``.counts``.

    Raises ArtifactError if an array is missing or the three do not fit.
    """
    text = _array(arrays, "vocabulary.text", np.uint8)
    offsets = _array(arrays, "vocabulary.offsets", np.int64)
    counts = _array(arrays, "vocabulary.counts", np.int64)
    fits = len(offsets) == len(counts) + 1 and offsets[0] == 0 and offsets[-1] == len(text)
    if not fits or (np.diff(offsets) < 0).any():
        raise ArtifactError(
            "vocabulary.offsets do not cut vocabulary.text into one word a count; "
            "the model is damaged"
        )
    data = text.tobytes()
    try:
        words = [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offsets.tolist())]
    except UnicodeDecodeError as error:
        raise ArtifactError(
            f"vocabulary.text is not UTF-8 ({error.reason}); the model is damaged"
        ) from error
    return words, counts


def _array(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    array = arrays.get(name)
    if array is None:
        raise ArtifactError(f"{name} is missing; the model is damaged or has no vocabulary")
    if array.ndim != 1 or array.dtype != dtype:
        raise ArtifactError(
            f"{name} is {array.dtype} of shape {array.shape}, not one dimension of "
            f"{np.dtype(dtype)}; the model is damaged"
        )
    return array
