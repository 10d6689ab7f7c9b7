"""Any rating model as a Surprise algorithm: everything AlgoBase promises, and what it never had."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import repeat
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, Prediction, PredictionImpossible, Trainset
from surprise.utils import get_rng

from tacenda.errors import ConfigurationError, NotFittedError
from tacenda.fitting import Callback
from tacenda_surprise import storage
from tacenda_surprise.folded import Folded
from tacenda_surprise.garbage import no_collection
from tacenda_surprise.inputs import Input, input_of
from tacenda_surprise.many import ManyAtOnce
from tacenda_surprise.merging import merged
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.reporting import EpochPrinter
from tacenda_surprise.side_info import SideInfo, as_side_info
from tacenda_surprise.trainsets import numbers

__all__ = ["TacendaAlgorithm"]

Floats = npt.NDArray[np.float64]
_UNKNOWN = "UKN__"  # how AlgoBase.predict marks a raw id the trainset does not know


class TacendaAlgorithm(ManyAtOnce, AlgoBase):  # type: ignore[misc]
    """Hosts a `tacenda_surprise.models.RatingModel`; subclasses say which, and with which settings.

    Attributes
    ----------
    model
        The fitted model; None before ``fit``.
    bu, bi
        Biases of users and items (users,), (items,) float64; None where the model has none.
    pu, qi
        Factors (users, factors), (items, factors) float64; likewise.
    """

    #: Whether an unknown user or item leaves anything to predict from.
    predicts_unknown = True

    #: Whether identities without ratings are of any use to it.
    conditional = False

    def __init__(
        self,
        *,
        rated: SideInfo | Iterable[Iterable[Any]] | None = None,
        random_state: Any = None,
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
        checkpoints: str | os.PathLike[str] | None = None,
    ) -> None:
        AlgoBase.__init__(self)
        if rated is not None and not self.conditional:
            raise ConfigurationError(
                f"{type(self).__name__} does not condition on what is rated; leave out rated=, or use a "
                "conditional algorithm"
            )
        self.rated = as_side_info(rated)  # an iterator would be empty at the second fit
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoints = checkpoints
        self.model: RatingModel | None = None

    def _new_model(self, seed: int) -> RatingModel:
        """The unfitted model that these settings describe."""
        raise NotImplementedError(f"{type(self).__name__} does not say which model it hosts")

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, trainset: Trainset) -> Self:
        """Fit to ``trainset`` and return self.

        Raises `DataError` for ratings that are not finite or off the scale, `ConfigurationError` for
        settings out of range.
        """
        seed = int(get_rng(self.random_state).randint(2**31 - 1))
        data = input_of(trainset, as_side_info(self.rated))
        model = self._new_model(seed).fit(
            data.ratings,
            identities=data.identities,
            callbacks=self._callbacks(),
            checkpoints=self.checkpoints,
            progress=type(self).__name__,
        )
        self._adopt(trainset, model, data)
        return self

    def _adopt(self, trainset: Trainset, model: RatingModel, data: Input) -> None:
        """Takes a fitted model: all at once, so that an interrupted fit leaves the algorithm as it was."""
        AlgoBase.fit(self, trainset)
        self.model = model
        self._users, self._items = data.users, trainset._raw2inner_id_items
        n = trainset.n_users
        self._quiet = {str(raw): number for raw, number in data.users.items() if number >= n}
        self._seen = Identities.of(data.ratings, data.identities)
        self._folded: dict[str, Folded] = {}
        self._publish()

    def partial_fit(self, trainset: Trainset, n_epochs: int | None = None) -> Self:
        """Go on from the present parameters with more ratings, and return self.

        Users and items that are new begin where their ratings put them; everybody keeps their inner ids, and
        users who were folded in stay so unless they now have ratings.

        Parameters
        ----------
        trainset
            The new ratings, or old and new ones; of a pair in both the new rating counts.
        n_epochs
            Passes over all ratings, old and new; None: what the model finds enough.

        Raises
        ------
        ConfigurationError
            The model cannot go on, or the rating scales differ.
        """
        model = copy(self._fitted())
        everything = merged(self.trainset, trainset, self._users, self._items, model.catalogue)
        data = input_of(everything, as_side_info(self.rated))
        model.partial_fit(
            data.ratings,
            identities=data.identities,
            n_epochs=n_epochs,
            callbacks=self._callbacks(),
            progress=type(self).__name__,
        )
        given = [user.given for user in self._folded.values()]
        self._adopt(everything, model, data)
        for one in given:
            if one.uid not in self._users:
                self._fold(one)
        return self

    def _callbacks(self) -> Sequence[Callback]:
        return (EpochPrinter(), *self.callbacks) if self.verbose else self.callbacks

    def _publish(self) -> None:
        """Sets what Surprise's users read: bu, bi, pu, qi."""
        tables = getattr(self.model, "tables", None)
        if tables is None:
            return
        n = self.trainset.n_users
        self.bu, self.bi = tables.user_biases[:n].astype(float), tables.item_biases.astype(float)
        self.pu, self.qi = tables.user_factors[:n].astype(float), tables.item_factors.astype(float)

    # -- disk --------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save into the folder ``path`` what `load` needs: settings, model, trainset, users folded in.

        Tensors and a JSON file, never pickle; raw ids keep their types, ratings are float32. Callbacks,
        checkpoints and a ``random_state`` that is no number are left out.
        """
        storage.write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A saved algorithm of this class or one derived from it: ``TacendaAlgorithm.load`` loads any.

        Raises `ArtifactError` for a folder that is missing, damaged or of another class.
        """
        found = storage.read(path, cls)
        algo, trainset = found.algorithm, found.trainset
        algo._adopt(trainset, found.model, Input(found.ratings, found.seen, found.users))
        for given in found.folded:
            algo._fold(given)
        return cast(Self, algo)

    def _arguments(self) -> dict[str, Any]:
        return storage.arguments_of(self)

    def _fitted(self) -> RatingModel:
        if self.model is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit(trainset)")
        return self.model

    # -- what Surprise calls -----------------------------------------------------------------------

    def estimate(self, u: int | str, i: int | str) -> float:
        """Expected rating, not clipped, of inner ids or of AlgoBase's marks for unknown ones."""
        model = self._fitted()
        item = -1 if isinstance(i, str) else i
        user = -1
        if not isinstance(u, str):
            user = u
        elif (raw := u.removeprefix(_UNKNOWN)) in self._folded:
            return float(self._folded[raw].model_user.score(np.array([item]))[0])
        else:
            user = self._quiet.get(raw, -1)
        self._refuse(user, item)
        return float(model.score_pairs(np.array([user]), np.array([item]))[0])

    def test(
        self, testset: Iterable[tuple[Any, Any, float | None]], verbose: bool = False
    ) -> list[Prediction]:
        """What AlgoBase.test gives, for all pairs at once."""
        self._fitted()
        with no_collection():
            predictions = self._predictions(list(testset))
        if verbose:
            for prediction in predictions:
                print(prediction)
        return predictions

    def _predictions(self, testset: list[tuple[Any, Any, float | None]]) -> list[Prediction]:
        uids, iids, truths = zip(*testset, strict=True) if testset else ((),) * 3
        users, items = numbers(uids, self._users), numbers(iids, self._items)
        impossible = np.zeros(len(users), bool)
        if not self.predicts_unknown:
            impossible = (users < 0) | (items < 0)
        scores = self._fitted().score_pairs(users, items).astype(np.float64)
        for user, places in self._folded_rows(uids, users):
            scores[places] = user.score(items[places])
            impossible[places] = False
        scores[impossible] = self.default_prediction()
        estimates = np.clip(scores, *self.trainset.rating_scale).tolist()
        possible: dict[str, Any] = {"was_impossible": False}
        details = list(map(dict.copy, repeat(possible, len(uids))))
        for row in np.flatnonzero(impossible):
            details[row] = {"was_impossible": True, "reason": _reason(users[row], items[row])}
        rows = zip(uids, iids, truths, estimates, details, strict=True)
        return list(map(tuple.__new__, repeat(Prediction), rows))

    def _refuse(self, user: int, item: int) -> None:
        if not self.predicts_unknown and (user < 0 or item < 0):
            raise PredictionImpossible(_reason(user, item))


def _reason(user: int, item: int) -> str:
    if user < 0 and item < 0:
        return "User and item are unknown."
    return "User is unknown." if user < 0 else "Item is unknown."
