"""Side information: who has rated what, whatever the ratings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from tacenda.errors import DataError
from tacenda_surprise.raw_ids import as_list, check_ids


class SideInfo:
    """Pairs of raw user and item ids that are known to be rated; no ratings.

    Parameters
    ----------
    pairs
        (raw user id, raw item id); further fields are ignored, and duplicates are merged.

    Raises DataError for an element that is not a pair, and for a missing id.

    Examples
    --------
    >>> ConditionalPMF(rated=SideInfo([("alice", "Brazil"), ("alice", "Alien")])).fit(trainset)
    """

    def __init__(self, pairs: Iterable[Iterable[Any]]) -> None:
        rows: list[tuple[Hashable, Hashable]] = []
        for pair in as_list(pairs, "pairs"):
            fields = list(pair) if isinstance(pair, Iterable) else []
            if isinstance(pair, str | bytes) or len(fields) < 2:
                raise DataError(f"{pair!r} is not a pair; give (raw user id, raw item id)")
            rows.append((fields[0], fields[1]))
        check_ids((user for user, _ in rows), "user")
        check_ids((item for _, item in rows), "item")
        self.pairs: list[tuple[Hashable, Hashable]] = list(dict.fromkeys(rows))

    @classmethod
    def from_testset(cls, testset: Iterable[Iterable[Any]]) -> SideInfo:
        """Take the pairs of a Surprise testset, without their ratings.

        Results with it are transductive: the model is told who has rated the items it is tested on, as the
        competitors for the Netflix prize were.
        """
        return cls(testset)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"<SideInfo of {len(self)} pairs>"
