"""Lists of items for users, of any algorithm that says what it expects of all items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, Prediction

from tacenda.errors import ConfigurationError, DataError
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import By, Lists, check_length
from tacenda_surprise.output import named
from tacenda_surprise.trainsets import as_list, numbers, ratings_of

Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]  # items and ratings, best first


class TopN(AlgoBase):  # type: ignore[misc]
    """``top_n``, and what it goes by.

    A subclass defines the methods that raise NotImplementedError here, and sets ``_choices`` to None when it is fitted.
    """

    _choices: Choices | None

    def predict(
        self, uid: Any, iid: Any, r_ui: Any = None, clip: bool = True, verbose: bool = False
    ) -> Prediction:
        """Return what AlgoBase.predict returns. Raises NotFittedError."""
        self._fitted()
        return super().predict(uid, iid, r_ui, clip, verbose)

    def top_n(
        self,
        n: int = 10,
        uids: Iterable[Any] | None = None,
        *,
        exclude_seen: bool = True,
        by: By = "both",
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        min_ratings: int = 0,
    ) -> dict[Any, list[tuple[Any, float]]]:
        """Find the ``n`` best items of every user, or of ``uids``: (raw item id, estimate), best first.

        No anti-testset is built: it takes the memory of one block of users. The first call fits the model of what
        gets chosen.

        Parameters
        ----------
        n
            Items for each user.
        uids
            Raw user ids; an unknown one is a `DataError`.
        exclude_seen
            Leave out what the user has rated or is known to have rated.
        by
            What is best: ``"both"`` is an item that the user is likely to choose and to like then
            (`tacenda_surprise.models.choices`); ``"choice"`` and ``"rating"`` are one of the two alone. The
            highest estimates are often those of obscure items.
        candidates
            Raw ids of the items that may be listed; None: all. Unknown ones are left out.
        exclude
            Raw ids of items that may not.
        min_ratings
            How many users must have rated an item; one who has rated it twice counts once.

        Raises
        ------
        ConfigurationError
            ``n`` is no whole number of at least 1, or ``by`` is something else.
        """
        self._fitted()
        check_length(n)
        wanted = self._everybody() if uids is None else as_list(uids, "uids")
        self._require_known(wanted)
        lists = self._lists(by, candidates, exclude, min_ratings)
        ranked = self._ranked(wanted, n, lists, exclude_seen=exclude_seen)
        raw, scale = list(self.trainset._raw2inner_id_items), self.trainset.rating_scale
        return {
            uid: named(items, scores, raw, scale)
            for uid, (items, scores) in zip(wanted, ranked, strict=True)
        }

    @property
    def choices(self) -> Choices:
        """The model of what gets chosen, fitted when it is asked for first."""
        self._fitted()
        if self._choices is None:
            self._choices = Choices.of(ratings_of(self.trainset), self._identities())
        return self._choices

    def _lists(
        self,
        by: By = "both",
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        min_ratings: int = 0,
        of: Any = None,
    ) -> Lists:
        """What ``top_n`` ranks by, and what it leaves out.

        Raises ConfigurationError where ``of``, the trainset of a user who was folded in, is no longer that of the fit.
        """
        if of is not None and of is not self.trainset:
            raise ConfigurationError(
                "the algorithm was fitted again since this user was folded in: fold the user in anew"
            )
        index = self.trainset._raw2inner_id_items
        allowed, banned = (
            None if ids is None else numbers(as_list(ids, what), index)
            for ids, what in ((candidates, "candidates"), (exclude, "exclude"))
        )
        unsupported = None
        if min_ratings > 0:
            unsupported = ratings_of(self.trainset).item_counts < min_ratings
        return Lists.of(
            None if by == "rating" else self.choices,
            by,
            len(index),
            None if allowed is None else allowed[allowed >= 0].tolist(),
            () if banned is None else banned[banned >= 0].tolist(),
            unsupported,
        )

    def _require_known(self, uids: Iterable[Any]) -> None:
        for uid in uids:
            if not self._knows(uid):
                raise DataError(
                    f"user {uid!r} is not in the trainset; fold_in(uid={uid!r}, ratings=...) makes it known"
                )

    # -- what a subclass says ----------------------------------------------------------------------

    def _fitted(self) -> Any:
        """What was fitted. Raises NotFittedError."""
        raise NotImplementedError

    def _everybody(self) -> list[Any]:
        """Raw ids of all users but those who were folded in."""
        raise NotImplementedError

    def _knows(self, uid: Any) -> bool:
        """Whether there can be a list for a raw user id."""
        raise NotImplementedError

    def _identities(self) -> Identities:
        """Who has rated what, in the numbers of the items."""
        raise NotImplementedError

    def _ranked(
        self, uids: list[Any], n: int, lists: Lists, *, exclude_seen: bool
    ) -> Iterator[Found]:
        """Numbers and expected ratings of the best items, for each of ``uids`` in turn."""
        raise NotImplementedError
