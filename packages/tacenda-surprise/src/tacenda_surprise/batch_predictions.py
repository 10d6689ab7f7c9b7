"""What a hosted model says of many pairs at once, in raw ids."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from surprise import Prediction

from tacenda.errors import NotFittedError
from tacenda_surprise.models.base import FoldedUser, RatingModel, folded_probabilities
from tacenda_surprise.models.checked import checked
from tacenda_surprise.models.levels import density
from tacenda_surprise.new_users import NewUsers
from tacenda_surprise.output import no_collection, prediction_objects, why_impossible
from tacenda_surprise.top_n import TopN
from tacenda_surprise.trainsets import as_list, as_pairs, check_ratings, numbers

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


class BatchPredictions(TopN):
    """Predictions of many pairs: ratings, how far off they may be, and distributions.

    A subclass fits or loads ``model`` and sets what is declared here.
    """

    model: RatingModel | None
    _users: dict[Hashable, int]  # the number of every raw id, as of ``_items``
    _items: dict[Hashable, int]
    _new_users: NewUsers  # who was folded in

    @property
    def predicts_unknown(self) -> bool:
        """Whether pairs with an unknown user or item can be predicted."""
        return True

    def _fitted(self) -> RatingModel:
        if self.model is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit(trainset)")
        return self.model

    def test(
        self, testset: Iterable[tuple[Any, Any, float | None]], verbose: bool = False
    ) -> list[Prediction]:
        """Return what AlgoBase.test returns, predicting all pairs at once."""
        model, rows = self._fitted(), list(testset)
        with no_collection():
            uids, iids, truths = zip(*rows, strict=True) if rows else ((),) * 3
            users, items = numbers(uids, self._users), numbers(iids, self._items)
            impossible = ((users < 0) | (items < 0)) & (not self.predicts_unknown)
            scores = checked(
                model, "score_pairs", model.score_pairs(users, items), len(rows)
            ).astype(np.float64)
            for user, places in self._new_users.rows(uids, users):
                scores[places] = user.score(items[places])
                impossible[places] = False
            scores[impossible] = self.default_prediction()
            estimates = np.clip(scores, *self.trainset.rating_scale).tolist()
            refused = np.flatnonzero(impossible).tolist()
            reasons = {row: why_impossible(users[row], items[row]) for row in refused}
            predictions = prediction_objects(uids, iids, truths, estimates, reasons)
        if verbose:
            for prediction in predictions:
                print(prediction)
        return predictions

    def predict_many(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Estimate the ratings (pairs,) of raw ids, clipped to the scale: ``predict`` without its objects.

        Raises ConfigurationError if there is not one item for every user.
        """
        scores = self._per_pair(uids, iids, "score_pairs", lambda user, items: user.score(items))
        return np.asarray(np.clip(scores, *self.trainset.rating_scale))

    def predict_users(self, uids: Sequence[Any]) -> Floats:
        """Estimate the ratings (users, items) of all items, in the order of their inner ids, for some users.

        Raises DataError for an unknown user.
        """
        uids = as_list(uids, "uids")
        self._require_known(uids)
        users = numbers(uids, self._users)
        model = self._fitted()
        n_items = len(model.catalogue.items)
        scores = checked(
            model, "score_users", model.score_users(users), len(users), n_items
        ).astype(np.float64)
        for user, rows in self._new_users.rows(uids, users):
            scores[rows] = user.score()
        return np.asarray(np.clip(scores, *self.trainset.rating_scale))

    def predict_std(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Return standard deviations (pairs,) of the ratings of raw ids, their noise included.

        Raises ConfigurationError if there is not one item for every user.
        """
        return self._per_pair(uids, iids, "deviations", lambda user, items: user.deviations(items))

    def predict_proba(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Return probabilities (pairs, levels) of the ratings `levels`.

        Raises ConfigurationError on a continuous scale, or if there is not one item for every user.
        """
        catalogue = self._fitted().catalogue
        return self._per_pair(
            uids,
            iids,
            "probabilities",
            lambda user, items: folded_probabilities(user, items, catalogue),
            len(catalogue.levels),
        )

    def predict_density(
        self, uids: Sequence[Any], iids: Sequence[Any], ratings: Sequence[float]
    ) -> Floats:
        """Return the density (pairs,) of ``ratings`` (pairs,) of raw ids: normal about the score, not clipped.

        The question to ask on a continuous scale, where no single rating has a probability.
        """
        check_ratings(uids, ratings)
        scores = self._per_pair(uids, iids, "score_pairs", lambda user, items: user.score(items))
        return density(ratings, scores, self.predict_std(uids, iids))

    @property
    def levels(self) -> Floats:
        """The ratings (levels,) that `predict_proba` is about, ascending."""
        return self._fitted().catalogue.levels.astype(np.float64)

    def _knows(self, uid: Any) -> bool:
        """Whether the user was fitted, is known by identities, or was folded in."""
        return uid in self._users or self._new_users.get(str(uid)) is not None

    def _per_pair(
        self,
        uids: Sequence[Any],
        iids: Sequence[Any],
        method: str,
        of_new_user: Callable[[FoldedUser, Numbers], npt.NDArray[np.float32]],
        *columns: int,
    ) -> Floats:
        """Ask a method of the model, or a new user, about pairs of raw ids; the answers are (pairs, *columns)."""
        model = self._fitted()
        uids, iids = as_pairs(uids, iids)
        users, items = numbers(uids, self._users), numbers(iids, self._items)
        answers = checked(model, method, getattr(model, method)(users, items), len(uids), *columns)
        found = answers.astype(np.float64)
        for user, rows in self._new_users.rows(uids, users):
            found[rows] = of_new_user(user, items[rows])
        return found
