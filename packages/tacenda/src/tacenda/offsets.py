"""Offsets: the places at which an array is cut into pieces, or a text into words; and blocks of the items."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacenda.errors import ArtifactError, DataError, TacendaError

#: Values compared at a time, so that offsets in a mapped file need little memory.
_BLOCK = 1 << 20


def check_offsets(
    offsets: ArrayLike,
    total: int,
    *,
    what: str = "offsets",
    pieces: int | None = None,
    strictly: bool = False,
    error: type[TacendaError] = DataError,
    advice: str = "",
) -> NDArray[np.int64]:
    """Return ``offsets`` as a C-ordered int64 array, if they cut ``total`` items into pieces.

    They are integers (pieces + 1,) that begin with 0, end with ``total`` and never fall: piece ``i`` is
    ``items[offsets[i] : offsets[i + 1]]``. They are not copied if they are int64 in C order.

    ``pieces`` is the number of pieces, if it is known, and ``strictly`` refuses empty ones. ``error`` is the class of
    the error to raise; its message begins with ``what``, the name of the offsets, and ends with ``advice``. Without
    advice, an ArtifactError says that the file is damaged.
    """
    found = np.asarray(offsets)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        fault = f" as (pieces + 1,) integers, not {found.dtype} of shape {found.shape}"
    elif pieces is not None and len(found) != pieces + 1:
        fault = f", not in {len(found) - 1}"
    elif found[0] != 0 or found[-1] != total:
        fault = f", and run from {found[0]} to {found[-1]}"
    elif not rises(found, strictly=strictly):
        fault = ", and one is not above the one before it" if strictly else ", and one falls"
    else:
        return np.ascontiguousarray(found, np.int64)
    steps = "" if pieces is None else f" in {pieces} steps"
    if error is ArtifactError and not advice:
        advice = "; the file is damaged"
    raise error(f"{what} must ascend from 0 to {total}{steps}{fault}{advice}")


def rises(values: NDArray[Any], *, strictly: bool = False) -> bool:
    """Tell whether values (n,) never fall, or with ``strictly`` always rise.

    Neighbors are compared, not subtracted: a difference of two int64 may wrap around.
    """
    compare = np.greater if strictly else np.greater_equal
    for start in range(0, len(values) - 1, _BLOCK):
        block = values[start : start + _BLOCK + 1]
        if not compare(block[1:], block[:-1]).all():
            return False
    return True


def runs(
    offsets: NDArray[np.int64], most: int, most_pieces: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield runs of consecutive pieces, as the first and one past the last.

    A run has at most ``most`` items and ``most_pieces`` pieces; a single piece of more items is a run of its own.
    """
    first, n = 0, len(offsets) - 1
    while first < n:
        limit = min(int(offsets[first]) + most, int(offsets[-1]))  # no sum that int64 cannot hold
        reached = int(np.searchsorted(offsets, limit, side="right")) - 1
        last = min(max(reached, first + 1), first + (most_pieces or n), n)
        yield first, last
        first = last


def rechunk(blocks: Iterable[NDArray[Any]], size: int) -> Iterator[NDArray[Any]]:
    """Yield the same rows in blocks of ``size``; only the last may be smaller."""
    waiting: list[NDArray[Any]] = []
    n_waiting = 0
    for rows in blocks:
        waiting.append(rows)
        n_waiting += len(rows)
        if n_waiting >= size:
            joined = np.concatenate(waiting) if len(waiting) > 1 else rows
            end = n_waiting - n_waiting % size
            for start in range(0, end, size):
                yield joined[start : start + size]
            n_waiting -= end
            waiting = [joined[end:]] if n_waiting else []
    if n_waiting:
        yield np.concatenate(waiting)


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
    """Return the words that `pack_words` packed; `check_offsets` has checked the offsets.

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
