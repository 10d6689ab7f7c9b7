"""Raw ids as users give them: their numbers in a model, and what is said of ids that are missing or unknown."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import repeat
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError, DataError, warn
from tacenda.ratings import IdIndex

_MISSING = {"None", "nan", "NaT", "<NA>"}  # their texts, as pandas is not needed

Numbers = npt.NDArray[np.int64]


def as_list(ids: Iterable[Any], what: str) -> list[Any]:
    """The ids as a list. Raises ConfigurationError for a text, which would be split into letters."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ConfigurationError(f"{what} is {ids!r}; give a list of ids, as [{ids!r}]")
    return ids if isinstance(ids, list) else list(ids)


def numbers(ids: Iterable[Any], index: Mapping[Any, int]) -> Numbers:
    """The number of every raw id, -1 for those that are unknown."""
    wanted: Sequence[Any] = ids if isinstance(ids, Sequence) else list(ids)
    return np.fromiter(map(index.get, wanted, repeat(-1)), np.int64, len(wanted))


def raw_index(raw: Iterable[Hashable], what: str) -> IdIndex:
    """Index raw ids by their text, in this order; where both 7 and "7" occur, as Python writes them.

    Raises DataError for None, and for the other values that data frames have instead of a missing id.
    """
    ids = list(raw)
    check_ids(ids, what)
    texts = [str(one) for one in ids]
    return IdIndex(texts if len(set(texts)) == len(texts) else [repr(one) for one in ids], what)


def add_ids(index: IdIndex, new: Sequence[Hashable]) -> IdIndex:
    """Add raw ids at the end of ``index``, each as text that is not there already."""
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


def is_missing(value: Any) -> bool:
    """Whether ``value`` is what data frames have where there is none, as None and nan."""
    return not isinstance(value, str) and str(value) in _MISSING


def check_ids(ids: Iterable[Any], what: str) -> None:
    """Raise DataError for an id that is missing, as None and nan are."""
    for one in ids:
        if is_missing(one):
            raise DataError(
                f"the {what} of a rating is missing, its id is {one}: give the id, or leave the rating out"
            )


def check_known(
    ids: Sequence[Any], index: Mapping[Hashable, int], what: str, owner: object
) -> None:
    """Warn, once for each ``owner``, of ids that are unknown. Raises DataError if all are."""
    unknown = [one for one in ids if one not in index]
    if not unknown:
        return
    why = explain_type(unknown, index)
    if len(unknown) == len(ids):
        raise DataError(
            f"none of the {what} is in the trainset{why or f', such as {unknown[0]!r}'}: give items that somebody "
            "has rated, by the ids of the trainset"
        )
    warn(
        f"{len(unknown)} of {len(ids)} {what} are not in the trainset and left out, such as {unknown[0]!r}{why}",
        once=(owner, what),
    )


def check_asked(
    ids: Sequence[Any], found: Numbers, index: Mapping[Hashable, int], what: str, owner: object
) -> None:
    """Warn, once for each ``owner``, if none of ``ids`` was ``found`` because of their type."""
    if len(found) and found.max() < 0 and (why := explain_type(ids[:1], index)):
        warn(
            f"none of the {what}s asked for is in the trainset{why}",
            once=(owner, f"type of {what}s"),
        )


def check_text(text: str, index: IdIndex, known: Mapping[Hashable, int], owner: object) -> None:
    """Warn, once for each ``owner``, if ``text``, an unknown id, is the text of a ``known`` id of another type."""
    if text not in index:
        return
    one = next(iter(known))
    if isinstance(one, str):
        why = f"strings, as Surprise reads them from files, and {text} is not: ask for {text!r}"
    else:
        why = f"of the type {type(one).__name__}, such as {one!r}, and {text!r} is not: ask with that type"
    warn(
        f"{index.what} {text} was not found: the ids in the trainset are {why}",
        once=(owner, f"type of {index.what}s"),
    )


def check_twins(new: Sequence[Hashable], known: Mapping[Hashable, int], what: str) -> None:
    """Warn of new ids that are known ids but for their type. Raises DataError where none of the new ones is known."""
    strangers = [raw for raw in new if raw not in known]
    texts = set(map(str, known)) if (why := explain_type(strangers, known)) else ()
    twins = [raw for raw in strangers if str(raw) in texts]
    if not twins:
        return
    told = f"{len(twins)} {what}s of the new ratings have the id of a known {what} but for its type"
    if len(strangers) == len(new):
        raise DataError(f"{told}{why}: convert the new ids")
    warn(f"{told}, and count as others{why}")


def explain_type(unknown: Iterable[Any], index: Mapping[Hashable, int]) -> str:
    """Return how the type of unknown ids differs from that of all known ones, as a part of a message, or nothing."""
    kinds: dict[type, Any] = {}
    for one in unknown:
        kinds.setdefault(_kind(one), one)
    for kind, one in kinds.items():
        if index and not any(_kind(known) is kind for known in index):
            known = next(iter(index))
            return (
                f", whose ids are {type(known).__name__}, such as {known!r}, and not {type(one).__name__}, such as "
                f"{one!r}"
            )
    return ""


def _kind(raw: Any) -> type:
    """Return the type of a raw id; numbers are alike, whatever their type."""
    return str if isinstance(raw, str) else Real if isinstance(raw, Real) else type(raw)
