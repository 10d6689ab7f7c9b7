"""Users an algorithm was not fitted to, in raw ids."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError
from tacenda_surprise.models.base import FoldedUser, RatingModel
from tacenda_surprise.models.ranking import top

Numbers = npt.NDArray[np.int64]


class Given(NamedTuple):
    """What is known of a new user; items are numbers of the model."""

    uid: Hashable | None  # raw id; None if the user is not to be found under any
    items: Numbers  # (n,) items whose ratings are known
    values: npt.NDArray[np.float32]  # (n,) the ratings
    rated: Numbers  # further items known to be rated


class NewUser(NamedTuple):
    """Predictions for a user the algorithm was not fitted to.

    Attributes
    ----------
    model_user
        The same user in the model's numbers.
    items
        Raw item id -> number.
    scale
        Lowest and highest rating.
    given
        What is known of the user.
    """

    model_user: FoldedUser
    items: Mapping[Hashable, int]
    scale: tuple[float, float]
    given: Given

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

    def top_n(self, n: int = 10, *, exclude_seen: bool = True) -> list[tuple[Any, float]]:
        """The ``n`` best items: (raw item id, estimate), best first."""
        numbers, scores = top(self.model_user.score(), n, self.seen if exclude_seen else None)
        raw = np.array(list(self.items), dtype=object)
        return list(zip(raw[numbers], np.clip(scores, *self.scale).tolist(), strict=True))


class NewUsers:
    """The users that were folded in under a raw id, found by its text, as Surprise asks for them.

    Parameters
    ----------
    model
        The fitted model that new users are folded into.
    items
        Raw item id -> number.
    scale
        Lowest and highest rating.
    """

    def __init__(
        self, model: RatingModel, items: Mapping[Hashable, int], scale: tuple[float, float]
    ) -> None:
        self._model, self._items, self._scale = model, items, scale
        self._users: dict[str, NewUser] = {}

    def add(self, given: Given) -> NewUser:
        """Fold a user in, and keep them if they have a raw id.

        Raises ConfigurationError if another user has an id of the same text.
        """
        before = None if given.uid is None else self.find(str(given.uid))
        if before is not None and before.given.uid != given.uid:
            raise ConfigurationError(
                f"user {before.given.uid!r} was folded in before, and predict cannot tell {given.uid!r} from "
                "that: Surprise asks for unknown users by the text of their ids"
            )
        identities = given.rated if self._model.folds_identities else None
        user = self._model.fold_in(given.items, given.values, identities)
        found = NewUser(user, self._items, self._scale, given)
        if given.uid is not None:
            self._users[str(given.uid)] = found
        return found

    def find(self, text: str) -> NewUser | None:
        """Return the user whose raw id has this text, or None."""
        return self._users.get(text)

    def given(self) -> list[Given]:
        """Return what the users were folded in from."""
        return [user.given for user in self._users.values()]

    def rows(self, uids: Sequence[Any], users: Numbers) -> Iterator[tuple[FoldedUser, Numbers]]:
        """Find the new users among ``uids``, each with its rows; ``users`` (their numbers) are -1 there."""
        places: dict[str, list[int]] = {}
        for row in np.flatnonzero(users < 0).tolist() if self._users else ():
            text = str(uids[row])
            if text in self._users:
                places.setdefault(text, []).append(row)
        for text, found in places.items():
            yield self._users[text].model_user, np.array(found)
