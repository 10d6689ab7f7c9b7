"""Raw ids as users give them: their numbers in a model, and messages about ids that are missing or unknown."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import islice, repeat
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError, DataError, warn
from tacenda.ratings import IdIndex
from tacenda.ratings.ids import is_missing

Numbers = npt.NDArray[np.int64]

# Made once: one pair is predicted in microseconds. The numbers are without end, and so never used up.
_UNKNOWN, _INT64 = repeat(-1), np.dtype(np.int64)


def as_list(ids: Iterable[Any], what: str) -> list[Any]:
    """Return the ids as a list. Raises ConfigurationError for a single id; a string would be split into letters."""
    if isinstance(ids, list):
        return ids
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ConfigurationError(f"{what} is {ids!r:.80}; give a list of ids, as [{ids!r:.80}]")
    return list(ids)


def numbers(ids: Iterable[Any], index: Mapping[Any, int], what: str = "user or item") -> Numbers:
    """Return the number of every raw id (ids,), -1 for unknown ones. Raises DataError for one that cannot be hashed."""
    wanted = list(ids)
    try:
        return np.fromiter(map(index.get, wanted, _UNKNOWN), _INT64, len(wanted))
    except TypeError:  # one cannot be hashed
        distinct(wanted, what)
        raise


def find_unknown(ids: Sequence[Any], index: Mapping[Any, int]) -> list[Any]:
    """Return the raw ids that have no number. Raises DataError for one that cannot be hashed."""
    return [raw for raw, number in zip(ids, numbers(ids, index), strict=True) if number < 0]


def raw_index(raw: Iterable[Hashable], what: str) -> IdIndex:
    """Index raw ids by their text, in this order; where both 7 and "7" occur, as Python writes them.

    Raises DataError for None, and for the other values that data frames have instead of a missing id.
    """
    ids = list(raw)
    check_ids(ids, what)
    texts = [str(one) for one in ids]
    return IdIndex(texts if len(set(texts)) == len(texts) else [repr(one) for one in ids], what)


def add_ids(index: IdIndex, new: Sequence[Hashable]) -> IdIndex:
    """Add raw ids at the end of ``index``, each as a text that is not in it.

    Raises DataError for two ids that no text tells apart.
    """
    if not new:
        return index
    texts = dict.fromkeys(index.raw.tolist())
    for raw in new:
        ways = (str(raw), repr(raw), f"{type(raw).__name__} {raw!r}")
        texts[next((text for text in ways if text not in texts), ways[0])] = None
    if len(texts) < len(index) + len(new):
        raise DataError(
            f"two {index.what}s have ids of the same text, as 7 and '7'; make the ids of one type"
        )
    return IdIndex(texts, index.what)


def distinct(ids: Iterable[Any], what: str) -> dict[Any, None]:
    """Return the distinct ids in order. Raises DataError for an id that cannot be hashed, as a list."""
    try:
        return dict.fromkeys(ids)
    except TypeError as error:
        raise DataError(
            f"the {what} ids include an {error}; give ids that are text or numbers"
        ) from error


def check_ids(ids: Iterable[Any], what: str) -> None:
    """Raise DataError for an id that is missing, as None and nan are, or that cannot be hashed, as a list."""
    for one in distinct(ids, what):
        if is_missing(one):
            raise DataError(
                f"the {what} of a rating is missing, its id is {one}: give the id, or leave the rating out"
            )


def find_type_mismatch(unknown: Iterable[Any], index: Mapping[Hashable, int]) -> str | None:
    """Say which id among the ``unknown`` ones has a type that none of the known ids has; None if there is no such."""
    by_kind: dict[type, Any] = {}
    for raw in unknown:
        by_kind.setdefault(_kind(raw), raw)
    for kind, raw in by_kind.items():
        if index and not any(_kind(known) is kind for known in index):
            known = next(iter(index))
            return (
                f"its ids are {type(known).__name__} (such as {known!r}) and yours are {type(raw).__name__} "
                f"(such as {raw!r})"
            )
    return None


def _kind(raw: Any) -> type:
    """Return the type of a raw id; all types of numbers count as one."""
    if isinstance(raw, str):
        return str
    return Real if isinstance(raw, Real) else type(raw)


def check_known(
    ids: Sequence[Any], index: Mapping[Hashable, int], what: str, owner: object
) -> None:
    """Warn, once for each ``owner``, of ids that are unknown. Raises DataError if all are."""
    unknown = find_unknown(ids, index)
    if not unknown:
        return
    mismatch = find_type_mismatch(unknown, index)
    if len(unknown) < len(ids):
        advice = "" if mismatch is None else f": {mismatch}"
        warn(
            f"{len(unknown)} of {len(ids)} {what} are not in the trainset and left out, such as {unknown[0]!r}{advice}",
            once=(owner, what),
        )
    elif mismatch is not None:
        raise DataError(f"none of the {what} is in the trainset: {mismatch}")
    else:
        raise DataError(
            f"none of the {what} is in the trainset, such as {unknown[0]!r}: give items that somebody has rated"
        )


def check_asked(
    ids: Sequence[Any],
    found: Numbers,
    known: Mapping[Hashable, int],
    texts: IdIndex,
    owner: object,
    new: Collection[Hashable] = (),
) -> None:
    """Warn, once for each ``owner``, if none of ``ids`` was ``found`` because of their type.

    The ``known`` ids have the numbers of ``texts``; the ``new`` ones were folded in.
    """
    if not len(found) or found.max() >= 0:
        return
    what, text, where = texts.what, str(ids[0]), "in the trainset"
    example = None
    if len(ids) == 1 and (twin := texts.find(ids[0])) is not None:
        example = next(islice(known, twin, None))
    elif len(ids) == 1:
        example, where = next((one for one in new if str(one) == text), None), "folded in"
    if example is not None:
        kind = f"the {type(example).__name__} {example!r}, and {text!r} is not: ask with that type"
        if isinstance(example, str):
            kind = f"a string, as Surprise reads it from files, and {text} is not: ask for {text!r}"
        fault = f"{what} {text} was not found: the id {where} is {kind}"
    elif _kind(ids[0]) in map(_kind, new):
        return
    elif mismatch := find_type_mismatch(ids[:1], known):
        fault = f"none of the {what}s asked for is in the trainset: {mismatch}"
    else:
        return
    warn(fault, once=(owner, f"type of {what}s"))


def check_twins(new: Sequence[Hashable], known: Mapping[Hashable, int], what: str) -> None:
    """Warn of new ids that match known ones except for their type. Raises DataError if no new id is known."""
    unknown = find_unknown(new, known)
    mismatch = find_type_mismatch(unknown, known)
    if mismatch is None:
        return
    texts = set(map(str, known))
    n = sum(str(raw) in texts for raw in unknown)
    if not n:
        return
    fault = f"{n} new {what}s match known {what}s except for the type of the id"
    if len(unknown) == len(new):
        raise DataError(f"{fault}: for the trainset, {mismatch}; convert the new ids")
    warn(f"{fault}, and count as new {what}s: for the trainset, {mismatch}")
