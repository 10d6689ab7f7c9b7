"""Users an algorithm was not fitted to, in raw ids."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError, DataError
from tacenda_surprise.models.base import Floats, FoldedUser, RatingModel, folded_probabilities
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.ranking import Lists, check_length
from tacenda_surprise.output import named
from tacenda_surprise.trainsets import check_ids

Numbers = npt.NDArray[np.int64]


def ratings_by_item(
    ratings: Mapping[Any, float] | Iterable[tuple[Any, float]],
) -> dict[Any, float]:
    """Read the ratings of one user, by raw item id. Raises ConfigurationError for what are no pairs."""
    try:
        return dict(ratings)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"ratings is {reprlib.repr(ratings)}; give the items with their ratings, as {{item: rating}} or "
            "[(item, rating)], and items without ratings as rated=[item]"
        ) from error


class Given(NamedTuple):
    """What is known of a new user; items are numbers of the model."""

    uid: Hashable | None  # raw id; None if the user is not to be found under any
    items: Numbers  # (n,) items whose ratings are known
    values: npt.NDArray[np.float32]  # (n,) the ratings
    rated: Numbers  # further items known to be rated

    @classmethod
    def of(
        cls,
        uid: Hashable | None,
        ratings: Mapping[Any, float],
        rated: Iterable[Any],
        items: Mapping[Any, int],
        scale: tuple[float, float],
    ) -> Given:
        """Number raw item ids, without those that are unknown.

        Raises DataError for a rating that is no number or off the scale, and for an item whose id is missing.
        """
        rated = list(rated)
        check_ids([*ratings, *rated], "item")
        low, high = scale
        for item, value in ratings.items():
            if not isinstance(value, Real):
                raise DataError(f"the rating of item {item!r} is {value!r}; give a number")
            if not low <= value <= high:
                raise DataError(
                    f"the rating of item {item!r} is {value}, off the scale {low:g} to {high:g}"
                )
        known = {items[item]: value for item, value in ratings.items() if item in items}
        more = [items[item] for item in rated if item in items]
        return cls(
            uid,
            np.fromiter(known, np.int64, len(known)),
            np.array(list(known.values()), np.float32),
            np.array(more, np.int64),
        )


class NewUser(NamedTuple):
    """Predictions for a user the algorithm was not fitted to."""

    model_user: FoldedUser  # the same user in the model's numbers
    items: Mapping[Hashable, int]  # raw item id -> number
    scale: tuple[float, float]  # lowest and highest rating
    given: Given  # what is known of the user
    catalogue: Catalogue  # of the model, whose levels `predict_proba` is about
    lists: Callable[..., Lists]  # what lists are ranked by, for the arguments of ``top_n``

    @classmethod
    def of(
        cls,
        model: RatingModel,
        items: Mapping[Hashable, int],
        scale: tuple[float, float],
        given: Given,
        lists: Callable[..., Lists],
    ) -> NewUser:
        """Fold a user into a fitted model."""
        identities = given.rated if model.folds_identities else None
        user = model.fold_in(given.items, given.values, identities)
        return cls(user, items, scale, given, model.catalogue, lists)

    @property
    def levels(self) -> Floats:
        """The ratings (levels,) that `predict_proba` is about; none on a continuous scale."""
        return self.catalogue.levels

    @property
    def seen(self) -> Numbers:
        """Numbers of the items the user is known to have rated."""
        return np.union1d(self.given.items, self.given.rated).astype(np.int64)

    def predict(self, iid: Hashable) -> float:
        """The expected rating of an item, clipped to the scale."""
        score = float(self.model_user.score(np.array([self.items.get(iid, -1)]))[0])
        return min(max(score, self.scale[0]), self.scale[1])

    def predict_std(self, iid: Hashable) -> float:
        """The standard deviation of the rating of an item, its noise included."""
        return float(self.model_user.deviations(np.array([self.items.get(iid, -1)]))[0])

    def predict_proba(self, iid: Hashable) -> Floats:
        """The probability of each of ``levels`` (levels,). Raises ConfigurationError on a continuous scale."""
        if not len(self.levels):
            raise ConfigurationError(
                "the ratings are continuous, and no single one has a probability"
            )
        item = np.array([self.items.get(iid, -1)])
        return np.asarray(folded_probabilities(self.model_user, item, self.catalogue)[0])

    def top_n(
        self, n: int = 10, *, exclude_seen: bool = True, **filters: Any
    ) -> list[tuple[Any, float]]:
        """The ``n`` best items: (raw item id, estimate), best first.

        ``filters`` are ``by``, ``candidates``, ``exclude`` and ``min_ratings`` of the algorithm's ``top_n``.
        """
        check_length(n)
        items, scores = self.best(self.lists(**filters), n, exclude_seen=exclude_seen)
        return named(items, scores, list(self.items), self.scale)

    def best(
        self, lists: Lists, n: int, *, exclude_seen: bool
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """Numbers and expected ratings of the ``n`` items that ``lists`` ranks best."""
        return lists.of_new_user(self.model_user, self.seen, n, self.seen if exclude_seen else None)


class NewUsers(dict[str, NewUser]):
    """The users that were folded in under a raw id, by its text, as Surprise asks for them."""

    def add(self, user: NewUser) -> NewUser:
        """Keep a user who has a raw id, and return it.

        Raises ConfigurationError if another user has an id of the same text.
        """
        uid = user.given.uid
        before = None if uid is None else self.get(str(uid))
        if before is not None and before.given.uid != uid:
            raise ConfigurationError(
                f"user {before.given.uid!r} was folded in before, and predict cannot tell {uid!r} from "
                "that: Surprise asks for unknown users by the text of their ids"
            )
        if uid is not None:
            self[str(uid)] = user
        return user

    def given(self) -> list[Given]:
        """Return what the users were folded in from."""
        return [user.given for user in self.values()]

    def rows(self, uids: Sequence[Any], users: Numbers) -> Iterator[tuple[FoldedUser, Numbers]]:
        """Find the new users among ``uids``, each with its rows; ``users`` (their numbers) are -1 there."""
        places: dict[str, list[int]] = {}
        for row in np.flatnonzero(users < 0).tolist() if self else ():
            text = str(uids[row])
            if text in self:
                places.setdefault(text, []).append(row)
        for text, found in places.items():
            yield self[text].model_user, np.array(found)
