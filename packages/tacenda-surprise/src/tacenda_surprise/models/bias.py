"""Biases of users and items, and nothing else: what a rating is expected to be without any interaction.

    r_ui ~ mean + b_u + c_i          (Mnih 2010, section 5.4.3 and Table 5.2, "bias-only models")

The biases are damped means of what the others leave, found in turn (Koren 2010, section 2.1):

    c_i = sum_u (r_ui - mean - b_u) / (lambda_i + n_i),   b_u = sum_i (r_ui - mean - c_i) / (lambda_u + n_u)

With normal priors on the biases these are their most probable values, and lambda_u = sigma^2 / tau_u^2 is the
variance of the noise over that of the biases. Where the settings give no lambda the variances are estimated from the
ratings, by a step of expectation maximization after each turn: with v_u = sigma^2 / (lambda_u + n_u), the variance of
b_u,

    tau_u^2 = mean of (b_u^2 + v_u),   sigma^2 = mean over ratings of ((r_ui - mean - b_u - c_i)^2 + v_u + v_i).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.errors import ArtifactError
from tacenda.fitting import FitSettings, StepResult, Sweeps, Trainer
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings, split
from tacenda.settings import Settings, configured_by, option
from tacenda_surprise.models.base import (
    Floats,
    FoldedFactors,
    Loop,
    Numbers,
    RatingModel,
    check_rated,
)
from tacenda_surprise.models.catalogue import Catalogue, deviation, require_floats
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.spread import Sizes, Spread, Variances
from tacenda_surprise.models.spread import fit as fit_spread

Doubles = npt.NDArray[np.float64]

_START = (
    0.7,
    0.15,
    0.15,
)  # variances of noise, users and items, of unit ratings, before they are estimated
_WEIGHT = 4.0
_ERRORS = 20_000  # that the spread is fitted to, a tenth of the ratings at most


@dataclass(frozen=True, kw_only=True)
class BiasSettings(Settings):
    """Settings of `BiasModel`; the thesis learns the same biases by SGD without regularization."""

    biases: Literal["both", "items", "users", "none"] = option(
        "both", "whose biases are learned; ``none`` predicts the mean of all ratings"
    )
    epochs: int = option(
        10, "times that items and users are gone through; few are needed", at_least=1
    )
    penalty_users: float | None = option(
        None,
        """lambda_u, the ratings at the expected value that are added to those of every user; None: estimated
        from the ratings""",
        at_least=0,
    )
    penalty_items: float | None = option(
        None,
        """lambda_i, the ratings at the expected value that are added to those of every item; None: estimated
        from the ratings""",
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
    """b (users,), c (items,) float32, the lambda of both, and the variances of ratings about them."""

    users: Floats
    items: Floats
    penalties: tuple[float, float]
    spread: Spread


class BiasModel(RatingModel):
    """Biases of users and items; every other model should be better than this one."""

    name: ClassVar[str] = "bias"
    settings: BiasSettings
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
        b, c, penalties, _ = self._fitted()
        catalogue = self.catalogue.extended(ratings)
        start = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
        start[0][: len(b)], start[1][: len(c)] = b, c
        n = self.settings.epochs if epochs is None else epochs
        self._train(loop, ratings, catalogue, n, *start, penalties)

    def _train(
        self,
        loop: Loop,
        ratings: Ratings,
        catalogue: Catalogue,
        epochs: int,
        b: Doubles,
        c: Doubles,
        penalties: tuple[float, float] | None = None,
    ) -> None:
        alternation = Alternation(self.settings, ratings, catalogue.mean, b, c)
        if penalties is not None:  # those of the fit that goes on
            noise, *_ = alternation.variances
            alternation.variances[1:] = noise / np.maximum(penalties, 1e-9)
        self.history = loop.run(
            alternation,
            Sweeps(ratings.fingerprint if loop.checkpoints is not None else ""),
            FitSettings(epochs=epochs, learning_rate=1.0, evaluate_every=0, restore_best=False),
            {"model": self.name, **self.settings.to_dict()},
        )
        variances = variances_of(self.settings, ratings, catalogue)
        self._catalogue, self._biases = catalogue, alternation.found(variances)
        self._note(ratings, self.history, "none held out")

    def _fitted(self) -> Biases:
        return self._learned(self._biases)

    @property
    def tables(self) -> Tables:
        """The biases, with factors of no width."""
        b, c, *_ = self._fitted()
        x, q = (np.zeros((len(side), 0), np.float32) for side in (b, c))
        return Tables(x, q, b, c, np.zeros((0, 0), np.float32))

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """See `tacenda_surprise.models.spread`, (pairs,)."""
        scores, scale = self.score_pairs(users, items), self.catalogue.scale
        return self._fitted().spread.deviations(users, items, scores, scale)

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedFactors:
        """See `RatingModel.fold_in`: the damped mean of what the items leave."""
        _, c, (penalty, _), spread = self._fitted()
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        self._known_items(items, identities)
        mean, bias = self.catalogue.mean, 0.0
        left = (rated - np.float32(mean) - c[items]).astype(np.float64)
        if self.settings.biases in ("both", "users") and len(left):
            bias = float(left.sum()) / (penalty + len(left))
        nothing = np.zeros((len(c), 0), np.float32)
        variance = spread.of_new_user(len(left))
        scale = self.catalogue.scale
        return FoldedFactors(mean + bias, nothing[0], variance, spread, scale, 0.0, nothing, c)

    def config_dict(self) -> dict[str, Any]:
        """Settings, penalties and scale, as JSON values."""
        return {
            "settings": self.settings.to_dict(),
            "catalogue": self.catalogue.config(),
            "penalties": list(self._fitted().penalties),
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fitted state. Raises NotFittedError."""
        b, c, _, spread = self._fitted()
        return {
            "user_biases": b,
            "item_biases": c,
            **spread.arrays(),
            **self.catalogue.arrays(),
        }

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild the model of an artefact, checking every array. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        dims = {"users": len(catalogue.users), "items": len(catalogue.items)}
        shapes = {"user_biases": ("users",), "item_biases": ("items",)}
        b, c = require_floats(arrays, shapes, dims).values()
        users, items = (float(penalty) for penalty in config["penalties"])
        if not (0 <= users < np.inf and 0 <= items < np.inf):
            raise ArtifactError(f"its penalties are {users} and {items}: the file is damaged")
        spread = Spread.from_arrays(arrays, len(b), len(c))
        model._catalogue, model._biases = catalogue, Biases(b, c, (users, items), spread)
        return model


class Alternation(Trainer):
    """Biases (users,) and (items,) under training, as the fitting loop sees them: damped means in turn.

    ``variances`` are sigma^2, tau_u^2 and tau_i^2; they only count where the settings give no penalty.
    """

    def __init__(
        self, settings: BiasSettings, ratings: Ratings, mean: float, b: Doubles, c: Doubles
    ) -> None:
        self.b, self.c, self._mean = b, c, mean
        self._learn_users = settings.biases in ("both", "users")
        self._learn_items = settings.biases in ("both", "items")
        self._given = settings.penalty_users, settings.penalty_items
        self._users, self._items = ratings.user_ids, ratings.item_ids
        self._values = ratings.values.astype(np.float64) - mean
        self._n_users = np.diff(ratings.user_offsets).astype(np.float64)
        self._n_items = ratings.item_counts.astype(np.float64)
        self._unit = deviation(ratings)
        self.variances = np.array(_START) * self._unit**2

    @property
    def penalties(self) -> tuple[float, float]:
        """Lambda of users and of items."""
        noise, *spreads = self.variances
        users, items = (
            float(noise / spread) if given is None else given
            for given, spread in zip(self._given, spreads, strict=True)
        )
        return users, items

    @property
    def expected_error(self) -> float:
        """The mean square of errors of ratings that are left out: noise and what is not known of the biases."""
        noise = float(self.variances[0])
        (of_users, of_items), n = self.penalties, max(len(self._values), 1)
        shares = ((self._n_users, of_users), (self._n_items, of_items))
        return noise * (1 + sum(float((k / (k + p + 1e-9)).sum()) for k, p in shares) / n)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Solve for the items, then for the users; the loss is the squared error afterwards."""
        of_users, of_items = self.penalties
        if self._learn_items:
            left = np.bincount(self._items, self._values - self.b[self._users], len(self.c))
            self.c = left / np.maximum(self._n_items + of_items, 1e-9)
        if self._learn_users:
            left = np.bincount(self._users, self._values - self.c[self._items], len(self.b))
            self.b = left / np.maximum(self._n_users + of_users, 1e-9)
        error = float(np.sum(self._errors() ** 2))
        self._estimate(error)
        return StepResult(error, float(len(self._values)))

    def _estimate(self, error: float) -> None:
        """Estimate the variances anew; what they begin with counts as ``_WEIGHT`` more ratings, users and items."""
        noise, total, found = self.variances[0], error, []
        sides = (self.b, self._n_users), (self.c, self._n_items)
        for (bias, counts), penalty, first in zip(sides, self.penalties, _START[1:], strict=True):
            own = noise / (counts + penalty + 1e-9)
            total += counts @ own
            rated = counts > 0
            squares = bias[rated] @ bias[rated] + own[rated].sum()
            found.append(
                (squares + _WEIGHT * first * self._unit**2) / (np.count_nonzero(rated) + _WEIGHT)
            )
        start = _WEIGHT * _START[0] * self._unit**2
        self.variances = np.array([(total + start) / (len(self._values) + _WEIGHT), *found])

    def _errors(self) -> Doubles:
        return np.asarray(self._values - self.b[self._users] - self.c[self._items])

    @property
    def sizes(self) -> tuple[Sizes, Sizes]:
        """What is known of users and of items."""
        errors = self._errors()
        return Sizes.of(self._users, errors, len(self.b)), Sizes.of(
            self._items, errors, len(self.c)
        )

    def found(self, variances: Variances) -> Biases:
        """The biases, and the spread of ratings about them with these parameters."""
        b, c = self.b.astype(np.float32), self.c.astype(np.float32)
        return Biases(b, c, self.penalties, variances.spread(*self.sizes))

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Both biases and the variances."""
        return {"user_biases": self.b, "item_biases": self.c, "variances": self.variances}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Put back what `state` gave."""
        b, c = state["user_biases"], state["item_biases"]
        if b.shape != self.b.shape or c.shape != self.c.shape:
            raise ValueError("the biases are of other ratings")
        self.b, self.c, self.variances = b.copy(), c.copy(), state["variances"].copy()

    parameters, load_parameters = state, load_state


def alternated(
    ratings: Ratings, mean: float, settings: BiasSettings | None = None, sweeps: int | None = None
) -> Alternation:
    """The biases of ``ratings`` about ``mean``, after as many sweeps as the settings say or ``sweeps``."""
    settings = BiasSettings() if settings is None else settings
    found = Alternation(
        settings, ratings, mean, np.zeros(ratings.n_users), np.zeros(ratings.n_items)
    )
    for _ in range(settings.epochs if sweeps is None else sweeps):
        found.step(None, 1.0)
    return found


def variances_of(settings: BiasSettings, ratings: Ratings, catalogue: Catalogue) -> Variances:
    """The parameters of the spread, from the errors of a part of the ratings that biases are fitted without."""
    nobody = np.zeros(0, np.int64)
    if len(ratings) < 2:
        none = Sizes.of(nobody, np.zeros(0), 0)
        nothing = np.zeros(0)
        return fit_spread(nothing, nothing, nobody, nobody, none, none, deviation(ratings))
    part, held_out = split(ratings, min(0.1, _ERRORS / len(ratings)), seed=0)
    first = alternated(part, catalogue.mean, settings)
    u, i = held_out.user_ids, held_out.item_ids
    predictions = catalogue.clip((catalogue.mean + first.b[u] + first.c[i]).astype(np.float32))
    errors = held_out.values - predictions
    return fit_spread(errors, predictions, u, i, *first.sizes, deviation(ratings))
