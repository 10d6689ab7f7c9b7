"""New users, whom an algorithm was not fitted to, in numbers and in raw ids; and pairs that may be of such users."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError, DataError, check_whole, warn
from tacenda_surprise.catalogue import Catalogue, Doubles, Floats, Numbers
from tacenda_surprise.levels import fit_level_probabilities
from tacenda_surprise.raw_ids import check_ids, find_type_mismatch, find_unknown
from tacenda_surprise.rows import TableScores
from tacenda_surprise.top_n import Lists, check_answer, check_scores, name_items
from tacenda_surprise.variance import PredictiveVariance


class FoldedUser(Protocol):
    """A user the model was not fitted to, who is predicted like one it was fitted to.

    A model with its own distribution adds ``probabilities(items)`` (items, levels).
    """

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        ...

    def deviations(self, items: Numbers) -> Floats:
        """Predictive standard deviations (items,), in units of the ratings."""
        ...


class FoldedFactors(NamedTuple):
    """Bias b and factors x of a new user; see `FoldedUser`."""

    bias: float
    factors: Floats
    scores: TableScores  # of the model
    n_ratings: int  # of the user
    spread: PredictiveVariance | None  # None of a model that knows no ratings
    scale: tuple[float, float]  # lowest and highest rating

    def score(self, items: Numbers | None = None) -> Floats:
        return self.scores.of_new_user(self.bias, self.factors, items)

    def deviations(self, items: Numbers) -> Floats:
        """See `tacenda_surprise.variance`, (items,). Raises ConfigurationError without a spread."""
        if self.spread is None:
            refuse_deviations()
        variance = self.spread.of_new_user(self.n_ratings)
        spread = replace(self.spread, of_users=np.array([variance], np.float32))
        user = np.zeros(len(items), np.int64)
        return spread.deviations(user, items, self.score(items), self.scale)


def refuse_deviations() -> NoReturn:
    """Raise ConfigurationError for a model that predicts no ratings."""
    raise ConfigurationError(
        "ImplicitMF knows no ratings, and so no deviations or probabilities of them: fit a model of ratings"
    )


def check_rated(
    items: npt.ArrayLike,
    values: npt.ArrayLike,
    n_items: int,
    scale: tuple[float, float] = (-math.inf, math.inf),
) -> Floats:
    """Return the ratings (n,) of the ``items`` (n,) of a user as float32.

    Raises ConfigurationError for anything but lists of the same length, and for an item number that is out of range,
    fractional or repeated; DataError for a rating that is not a number, not finite or off the ``scale``, if one is
    given.
    """
    numbers, given = check_numbers(items, n_items), _as_row(values, "ratings")
    if given.dtype.kind not in "iuf":
        converted = [_as_float(value) for value in given.tolist()]
        if None in converted:
            raise DataError(
                f"a user's ratings are no numbers, one rating for every item, but {reprlib.repr(given.tolist())}: "
                "give numbers"
            )
        given = np.array(converted, np.float64)
    if len(numbers) != len(given):
        raise ConfigurationError(
            f"a user has {len(numbers)} items and {len(given)} ratings; give one rating for every item"
        )
    ascending = np.sort(numbers)
    if len(repeated := ascending[1:][ascending[1:] == ascending[:-1]]):
        raise ConfigurationError(
            f"an item number is repeated, {repeated[0]}; give one rating for every item"
        )
    with np.errstate(over="ignore"):  # of a number too large for float32, which is refused below
        found = given.astype(np.float32)
    low, high = scale
    finite = np.isfinite(found)
    good = finite & (found >= np.float32(low)) & (found <= np.float32(high))
    if not good.all():
        place = good.argmin()
        fault = f"off the scale {low:g} to {high:g}" if finite[place] else "not finite"
        raise DataError(
            f"a rating is {fault}: item number {numbers[place]} has {given[place]}; correct it or leave it out"
        )
    return found


def check_numbers(items: npt.ArrayLike, n_items: int) -> npt.NDArray[np.int64]:
    """Return item numbers (n,). Raises ConfigurationError unless they are a list of integers below ``n_items``."""
    numbers = _as_row(items, "item numbers")
    if len(numbers) and numbers.dtype.kind not in "iu":
        raise ConfigurationError(
            f"item numbers are of type {numbers.dtype}; give integers, or raw ids to fold_in"
        )
    if len(strange := numbers[(numbers < 0) | (numbers >= n_items)]):
        raise ConfigurationError(
            f"an item number is not in 0 to {n_items - 1}: it is {strange[0]}; leave the item out, or give raw ids to "
            "fold_in"
        )
    return numbers.astype(np.int64)


def _as_row(given: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    """Return a list (n,) as an array. Raises ConfigurationError, which names ``what`` it has, for anything else."""
    with suppress(ValueError):  # of rows of different lengths
        found = np.asarray(given)
        if found.ndim == 1:
            return found
    raise ConfigurationError(f"a user's {what} are {reprlib.repr(given)}; give a list of numbers")


def _as_float(value: object) -> float | None:
    """Return a rating as a float, which is infinite if the rating is too large, or None if it is not a number."""
    if not isinstance(value, Real | Decimal):
        return None
    try:
        return float(value)
    except OverflowError:  # of an integer, which may have too many digits to be shown
        return -math.inf if value < 0 else math.inf
    except ValueError:  # of a signaling NaN
        return math.nan


def ratings_by_item(ratings: Mapping[Any, float] | Iterable[tuple[Any, float]]) -> dict[Any, float]:
    """Read the ratings of one user, by raw item id; of an item that is repeated, the last rating.

    Raises ConfigurationError for anything but pairs.
    """
    try:
        return dict(ratings)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"ratings is {reprlib.repr(ratings)}; give the items with their ratings, as {{item: rating}} or "
            "[(item, rating)], and items without ratings as rated=[item]"
        ) from error


class Given(NamedTuple):
    """The ratings of a new user; items are numbers of the model."""

    uid: Hashable | None  # raw id; None if the user is not to be found under any
    items: npt.NDArray[np.int64]  # (n,) items whose ratings are known
    values: Floats  # (n,) the ratings
    rated: npt.NDArray[np.int64]  # further items known to be rated

    @classmethod
    def of(
        cls,
        uid: Hashable | None,
        ratings: Mapping[Any, float],
        rated: Sequence[Any],
        items: Mapping[Any, int],
        scale: tuple[float, float],
    ) -> Given:
        """Number raw item ids, and leave out unknown ones.

        Raises DataError for a rating that is not a number or off the scale, and for a missing item id.
        """
        check_ids([*ratings, *rated], "item")
        low, high = scale
        known: dict[int, float] = {}
        for item, value in ratings.items():
            number = _as_float(value)
            if number is None:
                raise DataError(f"the rating of item {item!r} is {value!r}; give a number")
            if not low <= number <= high:
                raise DataError(
                    f"the rating of item {item!r} is {number:g}, off the scale {low:g} to {high:g}: correct it or "
                    "leave it out"
                )
            if item in items:
                known[items[item]] = number
        more = [items[item] for item in rated if item in items]
        return cls(
            uid,
            np.fromiter(known, np.int64, len(known)),
            np.array(list(known.values()), np.float64).astype(np.float32),
            np.array(more, np.int64),
        )


class NewUser(NamedTuple):
    """Predictions for a new user; made by ``fold_in``."""

    model_user: FoldedUser  # the user in the numbers of the model
    items: Mapping[Hashable, int]  # raw item id -> number
    given: Given  # what is known of the user
    catalogue: Catalogue  # of the model, with its scale and levels
    lists: Callable[..., Lists]  # how lists are ranked, for the arguments of ``top_n``

    @property
    def levels(self) -> Floats:
        """The ratings (levels,) of `predict_proba`; none on a continuous scale."""
        return self.catalogue.levels

    @property
    def seen(self) -> npt.NDArray[np.int64]:
        """Numbers of the items the user is known to have rated."""
        return np.union1d(self.given.items, self.given.rated).astype(np.int64)

    def ask(self, method: str, items: Numbers) -> Floats:
        """Call a ``method`` of the model, which takes pairs, for this user and some items (items,)."""
        user, catalogue = self.model_user, self.catalogue
        if method == "score_pairs":
            return user.score(items)
        if method == "deviations" or hasattr(user, method):
            return np.asarray(getattr(user, method)(items), np.float32)
        means = np.clip(user.score(items), *catalogue.scale)
        return fit_level_probabilities(
            means, user.deviations(items), catalogue.levels, catalogue.counts
        )

    def predict(self, iid: Hashable) -> float:
        """Return the expected rating of an item, clipped to the scale."""
        score = float(self.model_user.score(self._number(iid))[0])
        return float(np.clip(score, *self.catalogue.scale))

    def predict_std(self, iid: Hashable) -> float:
        """Return the standard deviation of the rating of an item, including noise."""
        return float(self.model_user.deviations(self._number(iid))[0])

    def predict_proba(self, iid: Hashable) -> Floats:
        """Return the probability of each rating in ``levels`` (levels,).

        Raises ConfigurationError on a continuous scale.
        """
        self.catalogue.require_levels("predict_proba")
        return np.asarray(self.ask("probabilities", self._number(iid))[0])

    def top_n(
        self, n: int = 10, *, exclude_seen: bool = True, **filters: Any
    ) -> list[tuple[Any, float]]:
        """Find the ``n`` best items: (raw item id, estimate), best first.

        ``filters`` are ``by``, ``candidates``, ``exclude`` and ``min_ratings`` of the algorithm's ``top_n``.
        """
        check_whole("n", n)
        items, scores = self.best(self.lists(**filters), n, exclude_seen=exclude_seen)
        return name_items(items, scores, list(self.items), self.catalogue.scale)

    def best(
        self, lists: Lists, n: int, *, exclude_seen: bool
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """Find the ``n`` items that ``lists`` ranks best: their numbers and expected ratings."""
        x = None if lists.factors is None else lists.factors.of_new_user(self.seen)
        scores, n_items = self.model_user.score(), len(self.catalogue.items)
        ratings = check_scores(self.model_user, "score", scores, n_items)
        values = lists.values(ratings[None], x)[0]
        items = lists.choose(values, n, self.seen if exclude_seen else None)
        return items, ratings[items]

    def _number(self, iid: Hashable) -> Numbers:
        if find_unknown([iid], self.items):
            mismatch = find_type_mismatch([iid], self.items)
            why = "" if mismatch is None else f": {mismatch}"
            warn(f"item {iid!r} is predicted as an average item, as it is not in the trainset{why}")
        return np.array([self.items.get(iid, -1)])


class NewUsers(dict[Hashable, NewUser]):
    """The users folded in with a raw id, by this id."""

    def find(self, uids: Sequence[Any], users: Numbers) -> list[tuple[NewUser, Numbers]]:
        """Find the new users among ``uids``, each with its places; ``users`` (their numbers) are -1 there."""
        places: dict[Hashable, list[int]] = {}
        for place in np.flatnonzero(users < 0).tolist() if self else ():
            if uids[place] in self:
                places.setdefault(uids[place], []).append(place)
        return [(self[uid], np.array(found)) for uid, found in places.items()]


class Asked(NamedTuple):
    """Pairs of users and items that a model is asked about."""

    users: Numbers  # (pairs,); -1 for a user whom the model was not fitted to
    items: Numbers  # (pairs,); -1 for an unknown item
    # users folded in, each with the places of their pairs
    new: Sequence[tuple[NewUser, Numbers]] = ()

    def answers(self, model: object, method: str, *columns: int) -> Doubles:
        """Ask a ``method`` of the model, or of the new users: (pairs, *columns).

        Raises PluginError if the model answers with anything but floats of this shape.
        """
        answers = getattr(model, method)(self.users, self.items)
        found = check_answer(model, method, answers, len(self.users), *columns).astype(np.float64)
        for user, places in self.new:
            found[places] = user.ask(method, self.items[places])
        return found

    def explain_unknown(self) -> dict[int, str]:
        """Say what is unknown in each pair, by its place, that has an unknown user or item."""
        users = self.users.copy()
        for _, places in self.new:
            users[places] = 0
        unknown = (users < 0) + 2 * (self.items < 0)
        reasons = "", "User is unknown.", "Item is unknown.", "User and item are unknown."
        return {place: reasons[unknown[place]] for place in np.flatnonzero(unknown).tolist()}
