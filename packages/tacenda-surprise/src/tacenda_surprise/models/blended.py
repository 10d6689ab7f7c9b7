"""A weighted average of fitted rating models as a model: what a saved blend is to programs without Surprise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.errors import ArtifactError, ConfigurationError, NotFittedError
from tacenda.estimator import Estimator
from tacenda.ratings import IdIndex, Ratings
from tacenda_surprise.models.base import (
    Floats,
    FoldedUser,
    Loop,
    Numbers,
    RatingModel,
    check_rated,
)
from tacenda_surprise.models.blending import Weights
from tacenda_surprise.models.identities import Identities

_Scale = tuple[float, float]


class _Part(NamedTuple):
    """One of the models, and its numbers of the users (users,) and items (items,) of the blend.

    -1 is a user of whom only another model knows, from side information.
    """

    model: RatingModel
    users: Numbers
    items: Numbers

    @classmethod
    def of(cls, model: RatingModel, users: IdIndex, items: IdIndex) -> _Part:
        """Find users and items by their raw ids. Raises ArtifactError for an item that the model does not know."""
        own = model.catalogue
        known = cls(model, own.users.numbers(users.raw), own.items.numbers(items.raw))
        if (known.items < 0).any():
            raise ArtifactError(
                f"the models of a blend know different items: {model.name} lacks one of the first's"
            )
        return known

    def of_blend(self, what: str, numbers: Numbers) -> Numbers:
        """Turn numbers of the blend's ``users`` or ``items`` into those of the model; -1 stays."""
        own: Numbers = np.append(getattr(self, what), -1)
        return own[np.asarray(numbers)]


class BlendModel(RatingModel):
    """Averages the expected ratings of fitted models, each clipped to the scale, with weights.

    `tacenda_surprise.Blend` fits the models and the weights; this is what it saves, and what `tacenda.load` gives.

    Parameters
    ----------
    models
        Fitted to the same ratings.
    weights
        Of the models, in their order.
    n_users
        How many of the first model's users are the blend's; None: all. Further ones may be known to one model alone.

    Raises
    ------
    ArtifactError
        The models know different items, or there is not one weight for each.
    """

    name: ClassVar[str] = "blend"
    keeps_checkpoints: ClassVar[bool] = False

    def __init__(
        self,
        models: Sequence[RatingModel] = (),
        weights: Weights | None = None,
        n_users: int | None = None,
    ) -> None:
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}
        self._parts: list[_Part] = []
        self._weights = weights
        if not models:
            return
        if weights is None or len(weights.weights) != len(models):
            raise ArtifactError(f"a blend of {len(models)} models needs as many weights")
        first = models[0].catalogue
        users = IdIndex(first.users.raw[:n_users].tolist(), "user")
        self._catalogue = replace(first, users=users)
        self._parts = [_Part.of(model, users, first.items) for model in models]
        self.fitted_on = dict(models[0].fitted_on)

    def _fit(self, loop: Loop, ratings: Ratings, identities: Identities | None) -> None:
        raise ConfigurationError(
            "a blend is made of fitted algorithms: fit tacenda_surprise.Blend([...]), and save that"
        )

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """See `RatingModel.score_pairs`."""
        return self._combined(
            [
                part.model.score_pairs(part.of_blend("users", users), part.of_blend("items", items))
                for part in self._fitted_parts()
            ]
        )

    def score_users(self, users: Numbers) -> Floats:
        """See `RatingModel.score_users`."""
        return self._combined(
            [
                part.model.score_users(part.of_blend("users", users))[:, part.items]
                for part in self._fitted_parts()
            ]
        )

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """The weighted average of those of the models, with the factor of the weights."""
        every = [
            part.model.deviations(part.of_blend("users", users), part.of_blend("items", items))
            for part in self._fitted_parts()
        ]
        return self._required_weights().deviations(np.stack(every, axis=-1)).astype(np.float32)

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedUser:
        """See `RatingModel.fold_in`; identities are for the models that use them."""
        parts, scale = self._fitted_parts(), self.catalogue.scale
        check_rated(items, values, len(self.catalogue.items))
        self._known_items(items, identities)
        users = []
        for part in parts:
            more = None
            if identities is not None and part.model.folds_identities:
                more = part.of_blend("items", identities)
            users.append(part.model.fold_in(part.of_blend("items", items), values, more))
        return FoldedBlend(users, parts, self._required_weights(), scale)

    @property
    def folds_identities(self) -> bool:
        """Whether any of the models does."""
        return any(part.model.folds_identities for part in self._parts)

    def _fitted_parts(self) -> list[_Part]:
        _ = self.catalogue  # raises where nothing was fitted
        return self._parts

    def _required_weights(self) -> Weights:
        if self._weights is None:
            raise NotFittedError("this BlendModel is not fitted: load one with tacenda.load")
        return self._weights

    def _combined(self, every: Sequence[Floats]) -> Floats:
        return combined(every, self._required_weights(), self.catalogue.scale)

    # -- disk --------------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Weights, and how many users it has."""
        weights = self._required_weights()
        return {**weights.config(), "n_users": len(self.catalogue.users)}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """None of its own. Raises NotFittedError."""
        self._fitted_parts()
        return {}

    def nested(self) -> Mapping[str, Estimator]:
        """The models, ``algorithm-0`` and so on."""
        return {f"algorithm-{k}": part.model for k, part in enumerate(self._parts)}

    @classmethod
    def from_arrays(
        cls,
        config: dict[str, Any],
        arrays: dict[str, npt.NDArray[Any]],
        *,
        nested: Mapping[str, Any] | None = None,
    ) -> Self:
        """Rebuild a blend from its weights and its loaded models."""
        nested = nested or {}
        models = [nested[f"algorithm-{k}"] for k in range(len(nested))]
        if not models or not all(isinstance(model, RatingModel) for model in models):
            raise ArtifactError("it is a blend of something else than rating models: it is damaged")
        n_users, most = int(config["n_users"]), len(models[0].catalogue.users)
        if not 0 < n_users <= most:
            raise ArtifactError(f"it is a blend for {n_users} users, of a model for {most}")
        weights = Weights.from_config(config, len(models), models[0].catalogue.scale)
        return cls(models, weights, n_users)


class FoldedBlend(NamedTuple):
    """A user the models were not fitted to; see `FoldedUser`."""

    users: list[FoldedUser]  # what every model made of the user
    parts: list[_Part]
    weights: Weights
    scale: _Scale

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,); of all items if None; -1 is an unknown item."""
        every = [
            user.score()[part.items] if items is None else user.score(part.of_blend("items", items))
            for user, part in zip(self.users, self.parts, strict=True)
        ]
        return combined(every, self.weights, self.scale)

    def deviations(self, items: Numbers) -> Floats:
        """Predictive standard deviations (items,), in units of the ratings."""
        every = [
            user.deviations(part.of_blend("items", items))
            for user, part in zip(self.users, self.parts, strict=True)
        ]
        return self.weights.deviations(np.stack(every, axis=-1)).astype(np.float32)


def combined(every: Sequence[Floats], weights: Weights, scale: _Scale) -> Floats:
    """The weighted average of expected ratings of the same shape, each clipped to the scale."""
    clipped = np.clip(np.stack(every, axis=-1).astype(np.float64), *scale)
    return weights.combine(clipped).astype(np.float32)
