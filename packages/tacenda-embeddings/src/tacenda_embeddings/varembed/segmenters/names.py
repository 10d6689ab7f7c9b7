"""Lists of strings as arrays, for tensor files: UTF-8 text and the offsets that cut it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.vocabulary import pack_words

__all__ = ["pack_names", "unpack_names"]


def pack_names(prefix: str, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """``<prefix>.text`` uint8 (bytes,) and ``<prefix>.offsets`` int64 (names + 1,)."""
    text, offsets = pack_words(names)
    return {f"{prefix}.text": text, f"{prefix}.offsets": offsets}


def unpack_names(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """The strings of `pack_names`. Raises ArtifactError."""
    text = require(arrays, f"{prefix}.text", shape=("bytes",), dtype=np.uint8)
    offsets = require(arrays, f"{prefix}.offsets", shape=("cuts",), dtype=np.int64)
    sound = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(text)
    if not sound or (np.diff(offsets) < 0).any():
        raise ArtifactError(f"{prefix}.offsets do not cut {prefix}.text: the file is damaged")
    data = text.tobytes()
    try:
        return [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offsets.tolist())]
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{prefix}.text is not UTF-8: the file is damaged") from error
