"""The rating models as components of LensKit pipelines: ``pip install tacenda-surprise[lenskit]``.

    from lenskit.pipeline import topn_pipeline
    from tacenda_surprise.lenskit import ConditionalPMFScorer

    pipe = topn_pipeline(ConditionalPMFScorer(n_factors=50))
    pipe.train(dataset)

The configuration of a scorer is that of its algorithm. Unless ``random_state`` is given, the seed is drawn from the
``rng`` of LensKit's training options, and is 0 if they have none (LensKit's global generator is not asked). Scores are
expected ratings; `ChoiceScorer` ranks items by how likely they are to be chosen and liked, as ``top_n`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from lenskit.data import Dataset, ItemList, QueryInput, RecQuery, Vocabulary
from lenskit.pipeline import Component
from lenskit.training import Trainable, TrainingOptions

from tacenda.errors import DataError, warn
from tacenda.ratings import IdIndex, Ratings
from tacenda.settings import Settings
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.bayesian import BayesianPMF, ConditionalBayesianPMF
from tacenda_surprise.bias import BiasOnly
from tacenda_surprise.catalogue import Floats
from tacenda_surprise.choices import ImplicitFactors
from tacenda_surprise.frames import SideInfo
from tacenda_surprise.identities import Identities
from tacenda_surprise.implicit import ImplicitMF
from tacenda_surprise.pmf import PMF, ConditionalPMF
from tacenda_surprise.rbm import RBM, ConditionalRBM

_NOT_JSON = SideInfo, np.random.RandomState


def has_ratings(data: Dataset) -> bool:
    """Whether the interactions of a data set have ratings."""
    return "rating" in data.interactions().attribute_names


def ratings_of(data: Dataset) -> Ratings:
    """Read the ratings of a data set, with its numbers of users and items; 1 for interactions without ratings."""
    matrix = data.interactions().matrix()
    table = matrix.scipy(layout="coo")
    if has_ratings(data):
        n_interactions, table = table.nnz, matrix.scipy(attribute="rating", layout="coo")
        if table.nnz < n_interactions:
            warn(f"{n_interactions - table.nnz} interactions have no rating and are left out")
    users, items = (
        IdIndex([str(raw) for raw in vocabulary.ids()], what)
        for vocabulary, what in ((data.users, "user"), (data.items, "item"))
    )
    values = np.asarray(table.data, np.float32)
    return Ratings(table.row, table.col, values, users, items, duplicates="last")


class RatingScorer(Component[ItemList], Trainable):  # type: ignore[misc]
    """Base of the scorers: the algorithm that ``model_class`` names, fitted to the ratings of a data set."""

    config: Settings
    model_class: ClassVar[type[RatingAlgorithm]]
    model: RatingAlgorithm
    users: Vocabulary
    items: Vocabulary

    @classmethod
    def validate_config(cls, data: Settings | Mapping[str, Any] | None = None) -> Settings:
        """Make the configuration from options by name, as the algorithm does. Raises ConfigurationError."""
        if isinstance(data, Settings):  # of a pipeline that is cloned
            return data
        return cls.model_class.settings_class.from_dict(data or {})

    def dump_config(self) -> dict[str, Any]:
        """Return the options by name as JSON values, without ``rated`` and a `RandomState`, which cannot be JSON."""
        values = self.config.to_dict()
        return {name: value for name, value in values.items() if not isinstance(value, _NOT_JSON)}

    def is_trained(self) -> bool:
        return hasattr(self, "model")

    def train(self, data: Dataset, options: TrainingOptions = TrainingOptions()) -> None:  # noqa: B008
        """Fit the model to the ratings of ``data``. Raises DataError if it has none."""
        if self.is_trained() and not options.retrain:
            return
        if self.model_class.takes_ratings and not has_ratings(data):
            raise DataError(
                "the data set has interactions without ratings; give ratings, or rank with ChoiceScorer or "
                "ImplicitMFScorer"
            )
        settings: Any = self.config
        if getattr(settings, "random_state", 0) is None:
            drawn = 0 if options.rng is None else options.random_generator().integers(2**31 - 1)
            settings = replace(settings, random_state=int(drawn))
        if getattr(settings, "rated", None) is not None:
            pairs = SideInfo((str(user), str(item)) for user, item in settings.rated.pairs)
            settings = replace(settings, rated=pairs)
        self.model = self.model_class.from_settings(settings).fit(ratings_of(data))
        self.users, self.items = data.users, data.items

    def __call__(self, query: QueryInput, items: ItemList) -> ItemList:
        """Score ``items``; a history with ratings of known items replaces what was learned of the user."""
        scores = self._scores(RecQuery.create(query), self._numbers(items))
        if self.model.takes_ratings:
            np.clip(scores, *self.model.catalogue.scale, out=scores)
        return ItemList(items, scores=scores)

    def _scores(self, query: RecQuery, numbers: npt.NDArray[np.int64]) -> Floats:
        history = self._history(query)
        if history is not None:
            return np.asarray(self.model.fold(*history).score(numbers), np.float32)
        user = self._user(query)
        return self.model.score_pairs(np.full(len(numbers), user), numbers)

    def _user(self, query: RecQuery) -> int:
        """Return the number of the user; -1 if unknown."""
        uid = query.user_id
        number = None if uid is None else self.users.number(uid, missing="none")
        return -1 if number is None else int(number)

    def _history(self, query: RecQuery) -> tuple[npt.NDArray[np.int64], Floats] | None:
        """Return the known items of the history and their last ratings; None if there are none."""
        history = query.history_items
        ratings = None if history is None else history.field("rating")
        if history is not None and not self.model.takes_ratings:
            ratings = np.ones(len(history), np.float32)
        if history is None or ratings is None:
            return None
        numbers, values = self._numbers(history), np.asarray(ratings, np.float32)
        known = np.flatnonzero((numbers >= 0) & np.isfinite(values))[::-1]  # NaN: no rating
        items, last = np.unique(numbers[known], return_index=True)
        return (items, values[known[last]]) if len(known) else None

    def _numbers(self, items: ItemList) -> npt.NDArray[np.int64]:
        """Return the numbers of ``items`` (items,); -1 for an unknown one."""
        return np.asarray(items.numbers(vocabulary=self.items, missing="negative"), np.int64)


class BiasScorer(RatingScorer):
    """`BiasOnly`."""

    model_class = BiasOnly


class PMFScorer(RatingScorer):
    """`PMF`."""

    model_class = PMF


class ConditionalPMFScorer(RatingScorer):
    """`ConditionalPMF`: try this scorer first."""

    model_class = ConditionalPMF


class BayesianPMFScorer(RatingScorer):
    """`BayesianPMF`."""

    model_class = BayesianPMF


class ConditionalBayesianPMFScorer(RatingScorer):
    """`ConditionalBayesianPMF`."""

    model_class = ConditionalBayesianPMF


class RBMScorer(RatingScorer):
    """`RBM`."""

    model_class = RBM


class ConditionalRBMScorer(RatingScorer):
    """`ConditionalRBM`."""

    model_class = ConditionalRBM


class ImplicitMFScorer(RatingScorer):
    """`ImplicitMF`, from interactions with or without ratings: scores rank items and are no ratings.

    The items of a history replace what was learned of the user.
    """

    model_class = ImplicitMF


class ChoiceScorer(ConditionalPMFScorer):
    """Ranks items by how likely a user is to choose and like them; scores are no ratings.

    From interactions without ratings it learns only who chooses what.
    """

    choices: ImplicitFactors

    def is_trained(self) -> bool:
        return hasattr(self, "choices")

    def train(self, data: Dataset, options: TrainingOptions = TrainingOptions()) -> None:  # noqa: B008
        """Fit the model of choices, and the model of ratings if ``data`` has any."""
        if self.is_trained() and not options.retrain:
            return
        if has_ratings(data):
            super().train(data, options)
            self.choices = self.model.implicit_factors
            return
        self.__dict__.pop("model", None)
        interactions = ratings_of(data)
        self.choices = ImplicitFactors.of(interactions, Identities.of(interactions))
        self.users, self.items = data.users, data.items

    def __call__(self, query: QueryInput, items: ItemList) -> ItemList:
        """Score ``items``; 0 for an unknown one. A history of known items replaces what was learned of the user."""
        asked = RecQuery.create(query)
        numbers, user, history = self._numbers(items), self._user(asked), asked.history_items
        chosen = np.unique([] if history is None else self._numbers(history)).astype(np.int64)
        if (chosen >= 0).any():
            x = self.choices.of_new_user(chosen[chosen >= 0])
        else:
            x = self.choices.x[[user]] * (user >= 0)
        if hasattr(self, "model"):
            every = np.arange(len(self.items))
            scores = self.choices.combine(x, self._scores(asked, every)[None, :])[0]
        else:
            scores = self.choices.scores(x)[0]
        return ItemList(items, scores=scores[numbers] * (numbers >= 0))
