"""`Ratings`, explicit ratings in order of user and item, and seeded splits of them.

The ratings of user ``u`` are at ``user_offsets[u]:user_offsets[u + 1]`` of ``item_ids`` (n_ratings,) int32, ascending,
and ``values`` (n_ratings,) float32. The same ratings in order of item and user are computed on first use. Both together
take 16 bytes per rating.
"""

import hashlib
from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tacenda.errors import ConfigurationError, DataError, check_whole
from tacenda.forks import cached_property
from tacenda.offsets import check_offsets
from tacenda.ratings.ids import IdIndex, is_missing, number_ids

Duplicates = Literal["error", "last"]
Ints = NDArray[np.int32]
Offsets = NDArray[np.int64]
Values = NDArray[np.float32]

_IDS_PER_PASS = 1 << 22


class Ratings:
    """Explicit ratings of numbered users and items, immutable by convention.

    A part of a data set (a fold) keeps users, items and scale of the whole, so that numbers mean the same. The
    constructor takes numbers, in any order; see `from_arrays` for raw ids. Arrays that already have the order and the
    types above are not copied, so do not change them later.

    Parameters
    ----------
    user_ids, item_ids
        (n_ratings,) integers: the numbers of users and items.
    values
        (n_ratings,): the ratings, stored as float32.
    users, items
        The raw ids of the numbers.
    scale
        The lowest and the highest rating possible; by default the lowest and the highest of the values.
    duplicates
        What to do if a user rated an item twice: ``"error"``, or ``"last"``, which keeps the later rating.

    Raises
    ------
    DataError
        Lengths differ, ``users`` or ``items`` is no `IdIndex`, a number is out of range, a value is no finite number or
        off the scale, a pair of user and item repeats, or there are neither ratings nor a scale.
    """

    def __init__(
        self,
        user_ids: ArrayLike,
        item_ids: ArrayLike,
        values: ArrayLike,
        users: IdIndex,
        items: IdIndex,
        *,
        scale: tuple[float, float] | None = None,
        duplicates: Duplicates = "error",
    ) -> None:
        if duplicates not in ("error", "last"):
            raise DataError(f"duplicates is {duplicates!r}; give 'error' or 'last'")
        u, i = _numbers(user_ids, users), _numbers(item_ids, items)
        self.users, self.items = users, items
        # users and items without a rating in this table are included
        self.n_users, self.n_items = len(users), len(items)
        try:
            v = np.asarray(values)
            if v.dtype.kind in "mMc":  # NumPy would make numbers of times, and drop imaginary parts
                raise TypeError(f"they are of type {v.dtype}")
            v = v.astype(np.float32, copy=False)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"the values are not numbers ({error}); give one for every rating"
            ) from error
        if not (u.shape == i.shape == v.shape and v.ndim == 1):
            raise DataError(
                f"users, items and values have shapes {u.shape}, {i.shape}, {v.shape}; "
                "give one of each for every rating"
            )

        def name_pair(at: Any) -> str:
            return f"user {str(users.raw[u[at]])!r} for item {str(items.raw[i[at]])!r}"

        bad = ~np.isfinite(v)
        if bad.any():
            first = bad.argmax()
            raise DataError(
                f"the rating of {name_pair(first)} is {v[first]:g}; ratings must be finite"
            )
        if scale is None and not len(v):
            raise DataError("there are no ratings; give at least one, or the scale")
        ends = (v.min(), v.max()) if scale is None else scale
        try:
            low, high = map(float, [ends] if isinstance(ends, str) else ends)
        except (TypeError, ValueError):
            raise DataError(f"the rating scale is {scale!r}; give (lowest, highest)") from None
        if not -np.inf < low <= high < np.inf:
            raise DataError(
                f"the rating scale {low:g} to {high:g} is empty or infinite; give (lowest, highest)"
            )
        self.scale = low, high
        bad = (v < np.float32(low)) | (v > np.float32(high))
        if bad.any():
            first = bad.argmax()
            raise DataError(
                f"the rating of {name_pair(first)} is {v[first]:g}, off the scale {low:g} to {high:g}; "
                "correct the rating or the scale"
            )
        is_after_previous = i[1:] > i[:-1]
        is_after_previous &= u[1:] == u[:-1]
        is_after_previous |= u[1:] > u[:-1]
        # otherwise ratings are out of order, or a pair repeats
        if not is_after_previous.all():
            order, at = _sort_pairs(u, i)
            if duplicates == "error" and at is not None:
                raise DataError(
                    f"user {str(users.raw[u[at]])!r} rated item {str(items.raw[i[at]])!r} "
                    "more than once; give duplicates='last' to keep the later rating"
                )
            u, i, v = u[order], i[order], v[order]
        self.user_offsets: Offsets = np.append(0, np.cumsum(_counts(u, len(users))))
        self.item_ids: Ints = i
        self.values: Values = v

    @classmethod
    def from_csr(
        cls,
        user_offsets: ArrayLike,
        item_ids: ArrayLike,
        values: ArrayLike,
        users: IdIndex,
        items: IdIndex,
        *,
        scale: tuple[float, float] | None = None,
    ) -> "Ratings":
        """Build a table from sorted ratings, without copying int32 ``item_ids`` and float32 ``values``.

        The ratings of user ``u`` are at ``user_offsets[u]:user_offsets[u + 1]``. Raises DataError for offsets
        that do not fit, and where the constructor does.
        """
        offsets = check_offsets(
            user_offsets, np.size(item_ids), what="user offsets", pieces=len(users)
        )
        numbers = np.repeat(np.arange(len(users), dtype=np.int32), np.diff(offsets))
        return cls(numbers, item_ids, values, users, items, scale=scale)

    @classmethod
    def from_arrays(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        values: ArrayLike,
        *,
        scale: tuple[float, float] | None = None,
        duplicates: Duplicates = "error",
    ) -> "Ratings":
        """Build a table from raw ids, one user and one item for each value: integers, or anything with a ``str``.

        Users and items are numbered in sorted order, integers by value. Options and errors: see the constructor and
        `IdIndex`.
        """
        user_index, user_ids = number_ids(users, "user")
        item_index, item_ids = number_ids(items, "item")
        ids = user_ids, item_ids
        return cls(*ids, values, user_index, item_index, scale=scale, duplicates=duplicates)

    @classmethod
    def from_triples(
        cls, triples: Iterable[tuple[object, object, float]], **options: Any
    ) -> "Ratings":
        """Build a table from (raw user, raw item, value) triples; ids, options and errors as in `from_arrays`."""
        message = "triples are not all (user, item, rating); give three fields of each rating"
        try:
            given = list(triples)
            rows = list(map(tuple, given))
        except TypeError as error:  # such as of a triple that is not in a list
            raise DataError(message) from error
        if str in map(type, given) or any(len(row) != 3 for row in rows):
            raise DataError(message)
        return cls.from_arrays(*([*zip(*rows, strict=True)] or [()] * 3), **options)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        low, high = self.scale
        return f"Ratings({len(self)} ratings from {low:g} to {high:g}, {self.n_users} users, {self.n_items} items)"

    @cached_property
    def mean(self) -> float:
        """The mean rating, summed in float64; NaN if there are none."""
        return float(self.values.mean(dtype=np.float64)) if len(self) else float("nan")

    @cached_property
    def std(self) -> float:
        """The standard deviation of the ratings, in float64; if all are equal, a quarter of the scale, or 1."""
        std = float(self.values.std(dtype=np.float64)) if len(self) > 1 else 0.0
        # less may be the rounding errors of ratings of this size
        if std > 1e-6 * float(np.abs(self.values).max(initial=0.0)):
            return std
        low, high = self.scale
        return (high - low) / 4 or 1.0

    @cached_property
    def sparsity(self) -> float:
        """The sparsity of the ratings: 2 if each user and each item has one, towards 0 as they have more."""
        sides = np.diff(self.user_offsets), self.item_counts
        return sum(float(np.sqrt(counts).sum()) for counts in sides) / max(len(self), 1)

    @cached_property
    def levels(self) -> Values:
        """The different values that occur, ascending."""
        return np.unique(self.values)

    @cached_property
    def user_ids(self) -> Ints:
        """The user of every rating, (n_ratings), in the order of ``item_ids`` and ``values``."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), np.diff(self.user_offsets))

    @cached_property
    def item_counts(self) -> Offsets:
        """The number of ratings of every item, (n_items)."""
        return _counts(self.item_ids, self.n_items)

    def of_user(self, user: int) -> tuple[Ints, Values]:
        """Return the items that a user rated, and the ratings, as views."""
        span = slice(self.user_offsets[user], self.user_offsets[user + 1])
        return self.item_ids[span], self.values[span]

    def of_item(self, item: int) -> tuple[Ints, Values]:
        """Return the users who rated an item, and the ratings, as views."""
        return self.by_item.of_user(item)

    @cached_property
    def by_item(self) -> "Ratings":
        """The ratings with users and items exchanged, computed on first use."""
        # a counting sort, which keeps the order of users
        columns = self.to_csr().tocsc()
        return Ratings.from_csr(
            columns.indptr, columns.indices, columns.data, self.items, self.users, scale=self.scale
        )

    def select(self, keep: NDArray[Any]) -> "Ratings":
        """Return the ratings at these positions (a mask or indices), with the same users, items, scale."""
        user_ids, item_ids, values = self.user_ids[keep], self.item_ids[keep], self.values[keep]
        return Ratings(user_ids, item_ids, values, self.users, self.items, scale=self.scale)

    def standardize(self, mean: float, unit: float) -> "Ratings":
        """Return the ratings less ``mean``, divided by ``unit``."""
        values = ((self.values.astype(np.float64) - mean) / unit).astype(np.float32)
        low, high = ((end - mean) / unit for end in self.scale)
        slack = 1e-5 * (abs(low) + abs(high))  # of the rounding
        scale = low - slack, high + slack
        offsets, items = self.user_offsets, self.item_ids
        return Ratings.from_csr(offsets, items, values, self.users, self.items, scale=scale)

    def to_csr(self) -> scipy.sparse.csr_array:
        """Return the (n_users, n_items) sparse matrix of the values; a rating of 0 is a stored zero."""
        shape = (self.n_users, self.n_items)
        return scipy.sparse.csr_array((self.values, self.item_ids, self.user_offsets), shape=shape)

    @cached_property
    def fingerprint(self) -> str:
        """A hex digest of ratings, raw ids and scale, which does not depend on the order in which they were given."""
        digest = hashlib.blake2b(repr(self.scale).encode(), digest_size=16)
        for index in (self.users, self.items):
            digest.update(len(index).to_bytes(8, "little"))
            for raw in index.raw.tolist():
                encoded = raw.encode("utf-8", "surrogatepass")
                digest.update(len(encoded).to_bytes(8, "little") + encoded)
        for array in (self.user_offsets, self.item_ids, self.values):
            digest.update(array.tobytes())
        return digest.hexdigest()


def _numbers(ids: ArrayLike, index: IdIndex) -> Ints:
    """Return user or item numbers as int32. Raises DataError for numbers outside the index, or another object."""
    if not isinstance(index, IdIndex):
        raise DataError(
            f"users and items are each an IdIndex, not {index!r:.60}; Ratings.from_arrays takes raw ids"
        )
    array = np.asarray(ids)
    if array.size == 0:
        array = array.astype(np.int32)
    if array.dtype.kind not in "iu":
        raise DataError(f"{index.what} numbers are of type {array.dtype}; give integers")
    if array.size and (int(array.min()) < 0 or int(array.max()) >= len(index)):
        raise DataError(
            f"one of the {index.what} numbers is not in 0 to {len(index) - 1}; renumber them"
        )
    return array.astype(np.int32, copy=False)


def _sort_pairs(user_ids: Ints, item_ids: Ints) -> tuple[Offsets, int | None]:
    """Return the last row of every pair of user and item, in the order of pairs, and a row that repeats, if any."""
    key = user_ids.astype(np.int64) * (int(item_ids.max()) + 1) + item_ids
    order = np.argsort(key, kind="stable")
    is_last_of_pair = np.append(np.diff(key[order]) != 0, True)
    repeated = None if is_last_of_pair.all() else int(order[np.argmin(is_last_of_pair)])
    return order[is_last_of_pair], repeated


def _counts(ids: Ints, n: int) -> Offsets:
    """Count each number below ``n``, in several passes, because ``bincount`` copies its argument to int64."""
    counts = np.zeros(n, np.int64)
    for start in range(0, len(ids), _IDS_PER_PASS):
        counts += np.bincount(ids[start : start + _IDS_PER_PASS], minlength=n)
    return counts


# ---- seeded splits; both parts keep the users, items and scale of the whole ----


def split(ratings: Ratings, fraction: float = 0.1, *, seed: int = 0) -> tuple[Ratings, Ratings]:
    """Return (train, test), where test is a random ``fraction`` of the ratings: rounded, and at least one."""
    _check_fraction(fraction)
    order = _shuffle(ratings, seed)
    n_test = min(max(round(fraction * len(ratings)), 1), len(ratings) - 1)
    test = np.zeros(len(ratings), bool)
    test[order[:n_test]] = True
    return ratings.select(~test), ratings.select(test)


def folds(
    ratings: Ratings, n_folds: int = 5, *, seed: int = 0
) -> Iterator[tuple[Ratings, Ratings]]:
    """Iterate over (train, test), where test is each of ``n_folds`` random parts, whose sizes differ by at most 1."""
    order = _shuffle(ratings, seed)
    if not isinstance(n_folds, int | np.integer) or not 2 <= n_folds <= len(ratings):
        raise ConfigurationError(
            f"{len(ratings)} ratings cannot be split into {n_folds} folds: give 2 to {len(ratings)}"
        )
    fold = order % n_folds
    return (
        (ratings.select(fold != number), ratings.select(fold == number))
        for number in range(n_folds)
    )


def split_per_user(
    ratings: Ratings, n_test: int = 1, *, seed: int = 0, least: int = 1
) -> tuple[Ratings, Ratings]:
    """Return (train, test), where test has ``n_test`` random ratings of every user who keeps at least ``least``."""
    check_whole("n_test", n_test)
    check_whole("least", least, 0)
    check_whole("seed", seed, 0)
    sizes = np.diff(ratings.user_offsets)
    n_chosen = np.where(sizes >= n_test + least, n_test, 0)
    # the first in a random order
    return _split_by_rank(ratings, np.random.default_rng(seed).random(len(ratings)), n_chosen)


def split_last(
    ratings: Ratings, times: ArrayLike, fraction: float = 0.2
) -> tuple[Ratings, Ratings]:
    """Return (train, test), where test is the last ``fraction`` of the ratings of every user, rounded down.

    ``times`` (n_ratings,) are in the order of the ratings, which also decides between ratings at the same time.
    """
    _check_fraction(fraction)
    times = np.asarray(times)
    if times.shape != (len(ratings),):
        raise ConfigurationError(
            f"there are {len(ratings)} ratings and times of shape {times.shape}; give one time for each"
        )
    are_objects = times.dtype.kind == "O"
    if any(map(is_missing, times)) if are_objects else (times != times).any():  # NaN or NaT
        raise ConfigurationError("a time is missing; give one for each rating")
    if are_objects:  # such as datetimes, whose ranks NumPy can sort by
        try:
            times = np.unique(times, return_inverse=True)[1]
        except TypeError as error:
            raise ConfigurationError(f"the times cannot be compared ({error})") from error
    sizes = np.diff(ratings.user_offsets)
    # 0.7 * 90 is a little less than 63
    n_train = sizes - np.floor(fraction * sizes + 1e-9).astype(int)
    test, train = _split_by_rank(ratings, times, n_train)
    return train, test


def _check_fraction(fraction: float) -> None:
    if not isinstance(fraction, Real) or not 0.0 < fraction < 1.0:
        raise ConfigurationError(f"fraction is {fraction!r:.40}; give a number between 0 and 1")


def _shuffle(ratings: Ratings, seed: int) -> NDArray[np.int64]:
    """Return the places of all ratings in a random order. Raises ConfigurationError for fewer than two."""
    check_whole("seed", seed, 0)
    if len(ratings) < 2:
        raise ConfigurationError("fewer than two ratings cannot be split; give more ratings")
    return np.random.default_rng(seed).permutation(len(ratings))


def _split_by_rank(
    ratings: Ratings, keys: NDArray[Any], n_first: NDArray[Any]
) -> tuple[Ratings, Ratings]:
    """Return (the rest, the first ``n_first`` (users,) ratings of every user in order of their keys)."""
    order = np.lexsort((keys, ratings.user_ids))
    sizes = np.diff(ratings.user_offsets)
    rank = np.arange(len(ratings)) - np.repeat(ratings.user_offsets[:-1], sizes)
    first = np.zeros(len(ratings), bool)
    first[order[rank < np.repeat(n_first, sizes)]] = True
    return ratings.select(~first), ratings.select(first)
