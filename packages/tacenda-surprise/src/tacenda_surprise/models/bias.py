"""Biases of users and items, and nothing else: what a rating is expected to be without any interaction.

    r_ui ~ mean + b_u + c_i          (Mnih 2010, section 5.4.3 and Table 5.2, "bias-only models")

The biases are damped means of what the others leave, found in turn (Koren 2010, section 2.1):

    c_i = sum_u (r_ui - mean - b_u) / (lambda_i + n_i),   b_u = sum_i (r_ui - mean - c_i) / (lambda_u + n_u)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import Configured
from tacenda.errors import ArtifactError
from tacenda.fitting import FitSettings, StepResult, Sweeps
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings
from tacenda.settings import Settings, configured_by, option
from tacenda_surprise.models.base import Floats, Loop, Numbers, RatingModel, check_rated
from tacenda_surprise.models.catalogue import Catalogue, require_floats
from tacenda_surprise.models.factorization.new_rows import FoldedFactors
from tacenda_surprise.models.identities import Identities

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class BiasSettings(Settings):
    """Settings of `BiasModel`; the thesis learns the same biases by SGD without regularization."""

    biases: Literal["both", "items", "users", "none"] = option(
        "both", "whose biases are learned; ``none`` predicts the mean of all ratings"
    )
    epochs: int = option(
        10, "times that items and users are gone through; few are needed", at_least=1
    )
    penalty_users: float = option(
        5.0,
        "lambda_u, the ratings at the expected value that are added to those of every user",
        at_least=0,
    )
    penalty_items: float = option(
        2.0,
        "lambda_i, the ratings at the expected value that are added to those of every item",
        at_least=0,
    )

    def idle(self) -> Mapping[str, str]:
        """Penalties of biases that are not learned."""
        return idle_options(self.biases)


def idle_options(biases: str) -> dict[str, str]:
    """The options that have no effect with these ``biases``, and why."""
    why = f"with biases={biases!r}"
    found = {} if biases in ("both", "users") else {"penalty_users": why}
    found |= {} if biases in ("both", "items") else {"penalty_items": why}
    return found | ({"epochs": why} if biases == "none" else {})


class Biases(NamedTuple):
    """b (users,), c (items,) float32 and the standard deviation of a rating about them."""

    users: Floats
    items: Floats
    noise: float


class BiasModel(RatingModel, Configured[BiasSettings]):
    """Biases of users and items; every other model should be better than this one."""

    name: ClassVar[str] = "bias"
    settings_class = BiasSettings
    _biases: Biases | None = None

    @configured_by(BiasSettings)
    def __init__(self, settings: BiasSettings) -> None:
        super().__init__(settings)

    def _fit(self, loop: Loop, ratings: Ratings, identities: Identities | None) -> None:
        catalogue = Catalogue.of(ratings)
        start = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
        self._train(loop, ratings, catalogue, self.settings.epochs, *start)

    def _go_on(
        self, loop: Loop, ratings: Ratings, identities: Identities | None, epochs: int | None
    ) -> None:
        """Alternate on; it ends where a new fit would, except for the mean."""
        b, c, _ = self._fitted()
        catalogue = self.catalogue.extended(ratings)
        start = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
        start[0][: len(b)], start[1][: len(c)] = b, c
        n = self.settings.epochs if epochs is None else epochs
        self._train(loop, ratings, catalogue, n, *start)

    def _train(
        self,
        loop: Loop,
        ratings: Ratings,
        catalogue: Catalogue,
        epochs: int,
        b: Doubles,
        c: Doubles,
    ) -> None:
        alternation = _Alternation(self.settings, ratings, catalogue.mean, b, c)
        self.history = loop.run(
            alternation,
            Sweeps(ratings.fingerprint if loop.checkpoints is not None else ""),
            FitSettings(epochs=epochs, learning_rate=1.0, evaluate_every=0, restore_best=False),
            {"model": self.name, **self.settings.to_dict()},
        )
        self._catalogue, self._biases = catalogue, alternation.found()
        self._note(ratings, self.history, "none held out")

    def _fitted(self) -> Biases:
        return self._learned(self._biases)

    @property
    def tables(self) -> Tables:
        """The biases, with factors of no width."""
        b, c, _ = self._fitted()
        x, q = (np.zeros((len(side), 0), np.float32) for side in (b, c))
        return Tables(x, q, b, c, np.zeros((0, 0), np.float32))

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """The noise of the ratings (pairs,)."""
        return np.full(len(users), self._fitted().noise, np.float32)

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedFactors:
        """See `RatingModel.fold_in`: the damped mean of what the items leave."""
        _, c, noise = self._fitted()
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        self._known_items(items, identities)
        mean, bias = self.catalogue.mean, 0.0
        left = (rated - np.float32(mean) - c[items]).astype(np.float64)
        if self.settings.biases in ("both", "users") and len(left):
            bias = float(left.sum()) / (self.settings.penalty_users + len(left))
        nothing = np.zeros((len(c), 0), np.float32)
        return FoldedFactors(mean + bias, nothing[0], noise, 0.0, nothing, c)

    def config_dict(self) -> dict[str, Any]:
        """Settings, scale and noise, as JSON values."""
        return {
            "settings": self.settings.to_dict(),
            "catalogue": self.catalogue.config(),
            "noise": self._fitted().noise,
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fitted state. Raises NotFittedError."""
        b, c, _ = self._fitted()
        return {"user_biases": b, "item_biases": c, **self.catalogue.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild the model of an artefact, checking every array. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        dims = {"users": len(catalogue.users), "items": len(catalogue.items)}
        shapes = {"user_biases": ("users",), "item_biases": ("items",)}
        b, c = require_floats(arrays, shapes, dims).values()
        noise = float(config["noise"])
        if not 0 <= noise < np.inf:
            raise ArtifactError(f"the noise of the ratings is {noise}: the file is damaged")
        model._catalogue, model._biases = catalogue, Biases(b, c, noise)
        return model


class _Alternation:
    """Biases (users,) and (items,) under training, as the fitting loop sees them: damped means in turn."""

    def __init__(
        self, settings: BiasSettings, ratings: Ratings, mean: float, b: Doubles, c: Doubles
    ) -> None:
        self._b, self._c = b, c
        self._learn_users = settings.biases in ("both", "users")
        self._learn_items = settings.biases in ("both", "items")
        self._users, self._items = ratings.user_ids, ratings.item_ids
        self._values = ratings.values.astype(np.float64) - mean
        self._of_user = np.bincount(self._users, minlength=len(b)) + settings.penalty_users
        self._of_item = np.bincount(self._items, minlength=len(c)) + settings.penalty_items

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Solve for the items, then for the users; the loss is the squared error afterwards."""
        if self._learn_items:
            left = np.bincount(self._items, self._values - self._b[self._users], len(self._c))
            self._c = left / np.maximum(self._of_item, 1e-9)
        if self._learn_users:
            left = np.bincount(self._users, self._values - self._c[self._items], len(self._b))
            self._b = left / np.maximum(self._of_user, 1e-9)
        return StepResult(float(np.sum(self._errors() ** 2)), float(len(self._values)))

    def _errors(self) -> Doubles:
        return np.asarray(self._values - self._b[self._users] - self._c[self._items])

    def found(self) -> Biases:
        """The biases, and the spread of the errors, each as if its rating had been left out."""
        weight = np.zeros(len(self._values))
        if self._learn_items:
            weight += 1 / self._of_item[self._items]
        if self._learn_users:
            weight += 1 / self._of_user[self._users]
        errors = self._errors() / np.maximum(1 - weight, 0.25)
        # Two more ratings, each a whole unit off, so that a handful of ratings does not look certain.
        noise = np.sqrt((np.sum(errors**2) + 2.0) / (len(errors) + 2.0))
        return Biases(self._b.astype(np.float32), self._c.astype(np.float32), float(noise))

    def evaluate(self) -> float | None:
        """None, as nothing is held out."""
        return None

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Both biases."""
        return {"user_biases": self._b, "item_biases": self._c}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Put back what `state` gave."""
        b, c = state["user_biases"], state["item_biases"]
        if b.shape != self._b.shape or c.shape != self._c.shape:
            raise ValueError("the biases are of other ratings")
        self._b, self._c = b.copy(), c.copy()
