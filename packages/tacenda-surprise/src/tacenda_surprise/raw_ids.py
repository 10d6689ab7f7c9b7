"""Raw ids as arrays: unlike those of a model they keep their type, 7 and "7" being two."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError

Arrays = dict[str, npt.NDArray[Any]]

_TEXT, _WHOLE, _REAL = 0, 1, 2


def pack(ids: Iterable[Hashable], name: str) -> Arrays:
    """Ids as ``<name>.text`` (bytes,), ``<name>.offsets`` (ids + 1,) and ``<name>.types`` (ids,).

    Raises ArtifactError for an id that is neither text nor a number.
    """
    types, encoded = [], []
    for one in ids:
        if isinstance(one, str):
            kind, text = _TEXT, one
        elif isinstance(one, int | np.integer):
            kind, text = _WHOLE, str(int(one))
        elif isinstance(one, float | np.floating):
            kind, text = _REAL, repr(float(one))
        else:
            raise ArtifactError(
                f"the id {one!r} is a {type(one).__name__}; only text and numbers can be saved"
            )
        types.append(kind)
        # surrogates come from files that were read with errors="surrogateescape"
        encoded.append(text.encode("utf-8", "surrogatepass"))
    return {
        f"{name}.text": np.frombuffer(b"".join(encoded), np.uint8),
        f"{name}.offsets": np.cumsum([0, *map(len, encoded)]).astype(np.int64),
        f"{name}.types": np.array(types, np.uint8),
    }


def unpack(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> list[Hashable]:
    """What `pack` was given. Raises ArtifactError for arrays that do not fit each other."""
    text = require(arrays, f"{name}.text", shape=("bytes",), dtype=np.uint8).tobytes()
    types = require(arrays, f"{name}.types", shape=("ids",), dtype=np.uint8)
    offsets = require(arrays, f"{name}.offsets", shape=(len(types) + 1,), dtype=np.int64)
    if offsets[0] or offsets[-1] != len(text) or (np.diff(offsets) < 0).any():
        raise ArtifactError(f"the array '{name}.offsets' does not fit '{name}.text'")
    if len(types) and types.max() > _REAL:
        raise ArtifactError(f"the array '{name}.types' holds {types.max()}, which is no type")
    read = (lambda raw: raw, int, float)
    try:
        found = [
            read[kind](text[i:j].decode("utf-8", "surrogatepass"))
            for kind, (i, j) in zip(types.tolist(), pairwise(offsets.tolist()), strict=True)
        ]
    except ValueError as error:
        raise ArtifactError(f"the array '{name}.text' holds an id that is none: {error}") from error
    if len(set(found)) != len(found):
        raise ArtifactError(f"the array '{name}.text' holds an id twice")
    return found
