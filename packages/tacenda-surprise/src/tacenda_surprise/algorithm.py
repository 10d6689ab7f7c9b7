"""Any rating model as a Surprise algorithm: everything AlgoBase promises, and what it never had."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, PredictionImpossible, Trainset
from surprise.utils import get_rng

from tacenda import artifact
from tacenda.artifact import Artifact
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.estimator import Estimator
from tacenda.fitting import Callback
from tacenda.fitting.checkpoint import Resume
from tacenda.fitting.history import DivergenceError
from tacenda_surprise import storage
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.models.bias import BiasModel
from tacenda_surprise.models.checked import checked
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.new_users import NewUsers
from tacenda_surprise.output import EpochPrinter, why_impossible
from tacenda_surprise.recommendation import Recommendation
from tacenda_surprise.settings import AlgorithmSettings, ReadArgument
from tacenda_surprise.side_info import SideInfo
from tacenda_surprise.trainsets import (
    FitData,
    as_trainset,
    merged,
    ratings_of,
)

__all__ = ["TacendaAlgorithm"]

S = TypeVar("S", bound=AlgorithmSettings)
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
UNKNOWN = "UKN__"  # how AlgoBase.predict marks a raw id the trainset does not know


class TacendaAlgorithm(Estimator, Recommendation, Generic[S]):
    """Hosts a `tacenda_surprise.models.RatingModel`; subclasses say which one, and its settings.

    A subclass sets ``settings_class`` and ``model_class`` and has a constructor of its own::

        @configured_by(MySettings)
        def __init__(self, settings: MySettings) -> None:
            TacendaAlgorithm.__init__(self, settings)

    Attributes
    ----------
    settings
        The arguments it was made with; each is an attribute as well, which can be read alone.
    model
        The fitted model; None before ``fit``.
    bu, bi
        Biases of users and items (users,), (items,) float64; None where the model has none.
    pu, qi
        Factors (users, factors), (items, factors) float64; likewise.
    """

    settings: S
    model_class: type[RatingModel]

    def __init_subclass__(cls, **more: Any) -> None:
        """Make every argument an attribute too, as in Surprise: ``algo.n_factors`` is that of the settings."""
        super().__init_subclass__(**more)
        if "settings_class" in vars(cls):
            for one in cls.settings_class.options():
                if one.name != "settings" and not hasattr(cls, one.name):
                    setattr(cls, one.name, ReadArgument(one))

    def __init__(self, settings: S) -> None:
        AlgoBase.__init__(self)
        self.settings = settings
        self.model: RatingModel | None = None
        self.bu: Floats | None = None
        self.bi: Floats | None = None
        self.pu: Floats | None = None
        self.qi: Floats | None = None
        self._choices = None
        if self.rated is not None:
            self._require_conditional()

    # -- what it is --------------------------------------------------------------------------------

    @property
    def conditional(self) -> bool:
        """Whether identities without ratings are of any use to it."""
        return bool(getattr(self.model_class, "conditional", False))

    @property
    def is_fitted(self) -> bool:
        """Whether it was fitted or loaded."""
        return self.model is not None

    @property
    def rated(self) -> SideInfo | None:
        """Identities beside those of the trainset, for the next fit."""
        found: SideInfo | None = getattr(self.settings, "rated", None)
        return found

    @rated.setter
    def rated(self, rated: SideInfo | Iterable[Iterable[Any]] | None) -> None:
        if rated is not None:
            self._require_conditional()
        settings: Any = self.settings
        self.settings = replace(settings, rated=rated)

    def _require_conditional(self) -> None:
        if not self.conditional:
            raise ConfigurationError(
                f"{type(self).__name__} does not condition on what is rated; leave out rated=, or use a "
                "conditional algorithm"
            )

    # -- fitting -----------------------------------------------------------------------------------

    def fit(
        self,
        trainset: Any,
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: Resume = "auto",
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Fit to ``trainset`` and return self.

        Parameters
        ----------
        trainset
            What to fit to: a Trainset, or a data frame whose columns are users, items and ratings, or a sparse
            matrix (users, items).
        checkpoints
            Folder for checkpoints, from which an interrupted fit goes on.
        resume
            ``"auto"`` goes on from a checkpoint if there is one, True requires one, False starts afresh.
        callbacks
            The fitting loop calls them.

        Raises
        ------
        DataError
            A rating is not finite or off the scale.
        """
        trainset = as_trainset(trainset)
        data = self._data(trainset)
        try:
            model = self._new_model().fit(
                data.ratings,
                identities=data.identities,
                callbacks=self._callbacks(callbacks),
                checkpoints=checkpoints,
                resume=resume,
                progress=type(self).__name__,
            )
        except DivergenceError as error:
            # A search goes on, and takes other settings for better.
            rates = [one.name for one in self.settings.options() if one.name.startswith("lr_")]
            advice = f"give a lower {rates[0]}" if rates else "give a lower learning rate"
            warnings.warn(
                f"{type(self).__name__} diverged: the {error.what} is {error.value}. It predicts the mean of all "
                f"ratings; {advice}",
                stacklevel=2,
            )
            model = BiasModel(biases="none").fit(data.ratings)
        self._adopt(trainset, model, data)
        return self

    def _new_model(self) -> RatingModel:
        """Make the unfitted model that the settings describe."""
        options = self.settings.for_model()
        if hasattr(self.settings, "random_state"):
            options["seed"] = self._seed()
        model: Any = self.model_class
        made: RatingModel = model(**options)
        return made

    def _data(self, trainset: Trainset) -> FitData:
        """Prepare what the model is given."""
        if self.rated is None:
            return FitData(ratings_of(trainset), None, trainset._raw2inner_id_users)
        return self.rated.joined(trainset)

    def _seed(self) -> int:
        state = getattr(self.settings, "random_state", None)
        return int(get_rng(state).randint(2**31 - 1))

    def _adopt(self, trainset: Trainset, model: RatingModel, data: FitData) -> None:
        """Take a fitted model, all at once: an interrupted fit leaves the algorithm as it was."""
        AlgoBase.fit(self, trainset)
        self.model = model
        self._users, self._items = data.users, trainset._raw2inner_id_items
        n = trainset.n_users
        self._unrated_users = {
            str(raw): number for raw, number in data.users.items() if number >= n
        }
        self._seen = Identities.of(data.ratings, data.identities)
        self._new_users, self._choices = NewUsers(), None
        self.bu = self.bi = self.pu = self.qi = None
        tables = model.tables
        if tables is not None:  # what users of Surprise read
            self.bu = tables.user_biases[:n].astype(float)
            self.bi = tables.item_biases.astype(float)
            self.pu = tables.user_factors[:n].astype(float)
            self.qi = tables.item_factors.astype(float)

    def partial_fit(
        self,
        trainset: Any,
        n_epochs: int | None = None,
        *,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Go on from the present parameters with more ratings, and return self.

        Users and items that are new begin where their ratings put them. Everybody keeps their inner ids, and
        users who were folded in stay so unless they now have ratings.

        Parameters
        ----------
        trainset
            The new ratings, or old and new ones, as for ``fit``; of a pair in both the new rating counts.
        n_epochs
            Passes over all ratings, old and new; None leaves the number to the model.
        callbacks
            The fitting loop calls them.

        Raises
        ------
        ConfigurationError
            The model cannot go on, or the rating scales differ.
        DataError
            A rating is not finite or off the scale.
        """
        model = copy(self._fitted())
        trainset = as_trainset(trainset, self.trainset.rating_scale)
        everything = merged(self.trainset, trainset, self._users, self._items, model.catalogue)
        data = self._data(everything)
        model.partial_fit(
            data.ratings,
            identities=data.identities,
            epochs=n_epochs,
            callbacks=self._callbacks(callbacks),
            progress=type(self).__name__,
        )
        given = self._new_users.given()
        self._adopt(everything, model, data)
        for one in given:
            if one.uid not in self._users:
                self._add(one)
        return self

    def _callbacks(self, callbacks: Sequence[Callback]) -> Sequence[Callback]:
        return (EpochPrinter(), *callbacks) if self.settings.verbose else callbacks

    # -- disk --------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:  # type: ignore[override]
        """Save into the folder ``path`` what `load` needs: arguments, model, trainset, users folded in.

        Tensors and a JSON file, never pickle; raw ids keep their types, and ratings are float32. A
        ``random_state`` that is no number is left out.
        """
        artifact.write(path, self.to_artifact())

    def to_artifact(self) -> Artifact:  # type: ignore[override]
        """Return what `save` writes. Raises NotFittedError."""
        model = self._fitted()
        saved = storage.Saved(
            storage.address_of(type(self)),
            self._saved_arguments(),
            self.trainset,
            self._users,
            self._seen,
            self._new_users.given(),
            self.choices,
        )
        return storage.pack_up(model, saved)

    def _saved_arguments(self) -> dict[str, Any]:
        """Return the arguments as JSON values, without the device, and ``rated``, which is saved as numbers."""
        values = self.settings.to_dict()
        values.pop("rated", None)
        values.pop("device", None)
        return {
            name: None if isinstance(value, np.random.RandomState) else value
            for name, value in values.items()
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load an algorithm of this class or one derived from it; ``TacendaAlgorithm.load`` loads any.

        Raises `ArtifactError` for a folder that is missing, damaged or of another class.
        """
        with storage.load_errors(path):
            return cls.from_artifact(artifact.read(path))

    @classmethod
    def from_artifact(cls, found: Artifact) -> Self:
        """Rebuild what `to_artifact` gave; to be called within ``storage.load_errors``."""
        model, saved, ratings = storage.unpacked(found)
        if "rated" in saved.arguments:
            raise ArtifactError("it names an argument that is never saved: 'rated'")
        algo = storage.class_at(saved.address, cls).from_settings(saved.arguments)
        if algo.conditional:
            algo.rated = saved.more_rated()
        algo._adopt(saved.trainset, model, FitData(ratings, saved.seen, saved.users))
        algo._choices = saved.choices
        for given in saved.given:
            algo._add(given)
        return algo

    # -- one pair ----------------------------------------------------------------------------------

    def estimate(self, u: int | str, i: int | str) -> float:
        """Return the expected rating, not clipped, of inner ids or of AlgoBase's marks for unknown ones."""
        model = self._fitted()
        item = -1 if isinstance(i, str) else i
        user = -1
        if not isinstance(u, str):
            user = u
        elif (new := self._new_users.get(raw := u.removeprefix(UNKNOWN))) is not None:
            return float(new.model_user.score(np.array([item]))[0])
        else:
            user = self._unrated_users.get(raw, -1)
        if not self.predicts_unknown and (user < 0 or item < 0):
            raise PredictionImpossible(why_impossible(user, item))
        scores = model.score_pairs(np.array([user]), np.array([item]))
        return float(checked(model, "score_pairs", scores, 1)[0])
