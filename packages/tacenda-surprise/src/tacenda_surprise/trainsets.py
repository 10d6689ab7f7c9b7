"""Training data: ratings, raw ids and side information, numbered alike whatever the source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from surprise import Dataset, Reader, Trainset

from tacenda.errors import ConfigurationError, DataError, warn
from tacenda.ratings import IdIndex, Ratings
from tacenda.ratings.ids import is_missing
from tacenda_surprise.frames import SideInfo, read_columns
from tacenda_surprise.identities import Identities
from tacenda_surprise.raw_ids import add_ids, check_twins, numbers, raw_index
from tacenda_surprise.rows import Touched

_OLD_PER_NEW = 200  # new ratings are few if there are so many old ones for each
_MAX_DENSITY = 0.9  # above it, the pairs of side information carry no information
_MIN_PAIRS = 100  # fewer are too few to judge density
# The ratings of a Trainset, and how many users, items and ratings it had when they were converted.
_CONVERTED: WeakKeyDictionary[Trainset, tuple[tuple[int, ...], Ratings]] = WeakKeyDictionary()


class FitData(NamedTuple):
    """The ratings and ids that an algorithm is fitted to."""

    ratings: Ratings  # users of whom only side information is known have numbers too, the last ones
    identities: Identities | None  # who is known to have rated what, apart from the ratings
    users: dict[Hashable, int]  # raw id -> number
    items: dict[Hashable, int]
    n_users: int  # of the trainset: those after the last one with ratings are not in it
    mean: float  # of all ratings, as Surprise has it
    trainset: Trainset | None = None  # of the ratings; made when it is asked for

    @classmethod
    def of(
        cls, data: Any, scale: tuple[float, float] | None = None, *, takes_ratings: bool = True
    ) -> FitData:
        """Read ratings of any kind that `RatingAlgorithm.fit` takes; ``scale`` is for those that have none.

        For an algorithm that takes no ratings, see `interactions_of`. Raises DataError for anything else.
        """
        if not takes_ratings:
            return interactions_of(data)
        if isinstance(data, FitData):
            return data
        if isinstance(data, Ratings):
            by_raw: tuple[Any, Any] = data.users.by_raw, data.items.by_raw
            return cls(data, None, *by_raw, data.n_users, data.mean if data else 0.0)
        found = data if isinstance(data, Trainset) else as_trainset(data, scale)
        ids = found._raw2inner_id_users, found._raw2inner_id_items
        mean = found.global_mean if found.n_ratings else 0.0
        return cls(ratings_of(found), None, *ids, found.n_users, mean, found)

    def find_unrated(self, seen: Identities) -> list[tuple[Hashable, Hashable]]:
        """Return the raw ids of the pairs in ``seen``, which has all rated ones, that have no rating."""
        if len(seen.item_ids) == len(self.ratings):
            return []
        users, items, n = list(self.users), list(self.items), max(len(self.items), 1)
        rated, every = (k.user_ids.astype(np.int64) * n + k.item_ids for k in (self.ratings, seen))
        return [(users[c // n], items[c % n]) for c in np.setdiff1d(every, rated).tolist()]

    def with_trainset(self) -> FitData:
        """Add Surprise's trainset if there is none; numbers are its inner ids, and its lists are in their order."""
        if self.trainset is not None:
            return self
        n, ratings = self.n_users, self.ratings
        own = Ratings.from_csr(
            ratings.user_offsets[: n + 1], ratings.item_ids, ratings.values,
            IdIndex(ratings.users.raw[:n].tolist(), "user"), ratings.items, scale=ratings.scale,
        )  # fmt: skip
        users = dict(islice(self.users.items(), n))
        rows, sizes = map(_lists, (own, own.by_item)), (n, own.n_items, len(own))
        found = Trainset(*rows, *sizes, own.scale, users, dict(self.items))
        found._global_mean = self.mean
        _CONVERTED[found] = sizes, own
        return self._replace(trainset=found)

    def merge(self, more: FitData) -> tuple[FitData, Touched | None]:
        """Join ``more`` ratings, which replace old ratings of the same pairs; known users and items keep their numbers.

        ``more`` has no identities. Returns all ratings, and ``more`` with the same numbers if they are few.

        Raises ConfigurationError if the rating scales differ.
        """
        old, new = self.ratings, more.ratings
        if not np.array_equal(np.array(new.scale, np.float32), np.array(old.scale, np.float32)):
            raise ConfigurationError(
                f"the new ratings have the scale {new.scale} and the old ones {old.scale}; give both the same "
                "Reader(rating_scale=...)"
            )
        new_users = [raw for raw in more.users if raw not in self.users]
        new_items = [raw for raw in more.items if raw not in self.items]
        check_twins(list(more.users), self.users, "user")
        check_twins(list(more.items), self.items, "item")
        users = self.users | {raw: len(self.users) + k for k, raw in enumerate(new_users)}
        items = self.items | {raw: len(self.items) + k for k, raw in enumerate(new_items)}
        user_numbers, item_numbers = numbers(more.users, users), numbers(more.items, items)
        ratings = Ratings(
            np.concatenate([old.user_ids, user_numbers[new.user_ids]]),
            np.concatenate([old.item_ids, item_numbers[new.item_ids]]),
            np.concatenate([old.values, new.values]),
            add_ids(old.users, new_users),
            add_ids(old.items, new_items),
            scale=old.scale,
            duplicates="last",
        )
        touched = None
        if len(new) * _OLD_PER_NEW <= len(old):
            pairs = user_numbers[new.user_ids], item_numbers[new.item_ids]
            touched = Touched.of(*pairs, new.values, old)
        n_users = max(self.n_users, int(np.searchsorted(ratings.user_offsets, len(ratings))))
        return FitData(ratings, self.identities, users, items, n_users, ratings.mean), touched

    def changes_only(
        self, touched: Touched, before: FitData, seen: Identities, known: Identities | None
    ) -> bool:
        """Whether a model fitted to ``before`` and ``seen`` needs new rows only for the users and items ``touched``.

        New users and items must be among these, and what users are ``known`` to have rated may have changed for these
        users alone; ``known`` is None for a model that does not learn from it.
        """
        sides = (touched.users, before.users, self.users), (touched.items, before.items, self.items)
        for ids, old, new in sides:
            if len(np.unique(ids[ids >= len(old)])) < len(new) - len(old):
                return False
        if known is None or self.identities is None:
            return True
        pairs = (np.stack([one.user_ids, one.item_ids]) for one in (seen, known))
        before_of_others, of_others = (part[:, ~np.isin(part[0], touched.users)] for part in pairs)
        return np.array_equal(before_of_others, of_others)

    def join(self, side: SideInfo) -> FitData:
        """Add the pairs of ``side`` to those known; users without ratings are numbered after the others.

        Raises DataError for unusable pairs; warns of pairs that are left out, and of ids of another type.
        """
        check_twins([user for user, _ in side.pairs], self.users, "user")
        check_twins([item for _, item in side.pairs], self.items, "item")
        ratings, users = self.ratings, dict(self.users)
        pairs = [(user, item) for user, item in side.pairs if item in self.items]
        user_ids = np.array([users.setdefault(user, len(users)) for user, _ in pairs], np.int64)
        item_ids = numbers([item for _, item in pairs], self.items)
        found = Identities.from_pairs(user_ids, item_ids, len(users), len(self.items))
        if self.identities is not None:
            found = found.union(self.identities, len(self.items))
        seen, rated = Identities.of(ratings, found), len(ratings)
        n, possible = len(seen.item_ids) - rated, seen.n_users * ratings.n_items - rated
        # An anti-testset contains nearly all pairs.
        if n > max(_MAX_DENSITY * possible, _MIN_PAIRS):
            raise DataError(
                f"{n} of the {possible} pairs without a rating are said to be rated, nearly all: give "
                "those that are known to be rated, not an anti-testset"
            )
        if len(pairs) < len(side):
            warn(
                f"{len(side) - len(pairs)} identities are of items that nobody has rated in the trainset; left out"
            )
        new_users = list(users)[len(self.users) :]
        if new_users:
            offsets = np.append(ratings.user_offsets, [len(ratings)] * len(new_users))
            ratings = Ratings.from_csr(
                offsets, ratings.item_ids, ratings.values,
                add_ids(ratings.users, new_users), ratings.items, scale=ratings.scale,
            )  # fmt: skip
        return self._replace(ratings=ratings, identities=found, users=users)


def read_data(
    trainset: Any, identities: Identities | None, rated: SideInfo | None, *, takes_ratings: bool
) -> FitData:
    """Read the data of a fit: a ``trainset`` of any kind, and what is known to be rated, by numbers or by raw ids.

    Raises DataError if there are no ratings, and ConfigurationError or DataError for identities that do not fit them;
    warns if all ratings are equal.
    """
    data = FitData.of(trainset, takes_ratings=takes_ratings)
    if identities is not None:
        if not isinstance(identities, Identities):
            raise ConfigurationError(
                f"identities is a {type(identities).__name__}, not Identities: give raw ids as rated=..."
            )
        if identities.n_users > data.ratings.n_users:
            raise DataError(
                f"the identities are of {identities.n_users} users and the ratings of {data.ratings.n_users}; "
                "number both alike"
            )
        data = data._replace(identities=identities)
    if not len(data.ratings):
        raise DataError(
            "there are no ratings; give at least one"
            if takes_ratings
            else "nobody has chosen anything; give at least one pair of a user and an item"
        )
    if rated is not None:
        data = data.join(rated)
    values = data.ratings.values
    if takes_ratings and len(values) > 1 and values.min() == values.max():
        warn(
            f"all {len(values)} ratings are {values[0]:g}: they tell no item from another; give ratings that "
            "differ, or rank by what gets chosen, top_n(by='choice')"
        )
    return data


def interactions_of(data: Any) -> FitData:
    """Read who has chosen what, without ratings: each pair is a rating of 1 on the scale 0 to 1.

    ``data`` is what `FitData.of` takes, whose ratings are ignored, a data frame of two columns, or pairs of raw ids,
    whose further fields are ignored. Zeros of a sparse matrix are no choices. Raises DataError for anything else.
    """
    if isinstance(data, FitData | Ratings):
        found = FitData.of(data)
        chosen = found.ratings.user_ids, found.ratings.item_ids
        return _collect_choices(*chosen, found.users, found.items)
    if isinstance(data, Trainset):
        pairs = np.array([(u, i) for u, i, _ in data.all_ratings()], np.int64).reshape(-1, 2)
        ids = data._raw2inner_id_users, data._raw2inner_id_items
        return _collect_choices(pairs[:, 0], pairs[:, 1], *ids)
    columns, _ = read_columns(data, 2)
    if not columns:
        pairs_of_ids = data if isinstance(data, SideInfo) else SideInfo(data)
        columns = [list(part) for part in zip(*pairs_of_ids.pairs, strict=True)] or [[], []]
    users, items = ({raw: k for k, raw in enumerate(dict.fromkeys(c))} for c in columns)
    return _collect_choices(numbers(columns[0], users), numbers(columns[1], items), users, items)


def _collect_choices(
    user_ids: Any, item_ids: Any, users: dict[Hashable, int], items: dict[Hashable, int]
) -> FitData:
    pairs = Identities.from_pairs(user_ids, item_ids, len(users), len(items))
    ratings = Ratings.from_csr(
        pairs.offsets, pairs.item_ids, np.ones(len(pairs.item_ids), np.float32),
        raw_index(users, "user"), raw_index(items, "item"), scale=(0.0, 1.0),
    )  # fmt: skip
    return FitData(ratings, None, users, items, len(users), 1.0)


def ratings_of(trainset: Trainset) -> Ratings:
    """Convert the ratings of ``trainset``, users and items numbered by its inner ids.

    Kept for as long as the trainset lives and has as many users, items and ratings, so that the algorithms of a grid
    search convert it once. Where a user rated an item twice the later rating counts, and a warning says how often that
    was.

    Raises DataError for a rating that is not finite or off the scale.
    """
    sizes = n_users, _, n = trainset.n_users, trainset.n_items, trainset.n_ratings
    former, found = _CONVERTED.get(trainset, (None, None))
    if found is not None and former == sizes:
        return found
    rows = [trainset.ur.get(u, ()) for u in range(n_users)]  # not ur[u], which would add lists
    # (item, rating, item, rating, ...) of all users in one pass, without a new object a rating.
    flat = np.fromiter(chain.from_iterable(chain.from_iterable(rows)), np.float64, 2 * n)
    users = np.repeat(np.arange(len(rows)), np.fromiter(map(len, rows), np.int64, len(rows)))
    raw = trainset._raw2inner_id_users, trainset._raw2inner_id_items
    found = Ratings(
        users, flat[::2].astype(np.int64), flat[1::2], *map(raw_index, raw, ("user", "item")),
        scale=trainset.rating_scale, duplicates="last",
    )  # fmt: skip
    if len(found) < n:
        warn(f"{n - len(found)} ratings repeat a user and an item; the last of each counts")
    _CONVERTED[trainset] = sizes, found
    return found


def _lists(ratings: Ratings) -> defaultdict[int, list[tuple[int, float]]]:
    pairs = list(zip(ratings.item_ids.tolist(), ratings.values.tolist(), strict=True))
    ends = ratings.user_offsets.tolist()
    return defaultdict(list, {u: pairs[i:j] for u, (i, j) in enumerate(pairwise(ends)) if j > i})


def as_trainset(data: Any, scale: tuple[float, float] | None = None) -> Trainset:
    """Make a Trainset of a data frame or a sparse matrix, on ``scale``; None: from the lowest to the highest rating.

    Users, items and ratings are the columns of a data frame with these names, or else its first three; row and column
    of a sparse matrix (users, items) are the raw ids, and stored zeros are ratings.

    Raises DataError for anything else, and for ratings that are missing or no numbers.
    """
    columns, where = read_columns(data, 3)
    if not columns:
        raise DataError(
            f"fit cannot read ratings from a {type(data).__name__}: give a Trainset, a sparse matrix, or a data frame "
            "with the columns user, item and rating (ImplicitMF needs no ratings)"
        )
    missing = sum(map(is_missing, columns[2]))
    if missing:
        raise DataError(
            f"{missing} ratings are missing in {where}: leave them out, as dropna() does in a data frame"
        )
    try:
        values = np.array(columns[2], np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{where}, taken for the ratings, does not contain numbers ({error}): correct it, or name the columns "
            "user, item and rating"
        ) from error
    ends = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    reader = Reader(rating_scale=scale or ends)
    rows = zip(columns[0], columns[1], values.tolist(), strict=True)
    return Dataset(reader).construct_trainset([(*row, None) for row in rows])
