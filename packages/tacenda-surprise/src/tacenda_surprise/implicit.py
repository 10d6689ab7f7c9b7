"""`ImplicitMF`: recommendations from implicit feedback, without ratings.

This is the factorization of `tacenda_surprise.choices` (Hu, Koren and Volinsky 2008) without a model of ratings. The
score of a user and an item is x_u . y_i, near 1 for what the user has chosen or may choose and near 0 for the rest,
plus a part of the item's popularity, so that unknown users get what everybody chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from tacenda.fitting import FitRun
from tacenda.kernels.ratings import Tables
from tacenda.ratings import Ratings
from tacenda.settings import configured_by, option
from tacenda_surprise import choices
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.catalogue import Catalogue, Floats, Numbers
from tacenda_surprise.choices import Choosing, ImplicitFactors
from tacenda_surprise.identities import Identities
from tacenda_surprise.options import SeededSettings
from tacenda_surprise.rows import Touched
from tacenda_surprise.users import FoldedFactors, refuse_deviations

_RESUME_SWEEPS = 3  # reconcile new choices with the rest


@dataclass(frozen=True, kw_only=True)
class ImplicitMFSettings(SeededSettings):
    """Options of `ImplicitMF`."""

    n_factors: int = option(choices.WIDTH, "number of factors, D", at_least=1)
    n_epochs: int = option(choices.SWEEPS, "sweeps of alternating least squares", at_least=0)
    confidence: float = option(
        choices.CONFIDENCE,
        "a: how much more a chosen pair counts than a pair that was not chosen",
        above=0,
    )
    reg_all: float | None = option(
        None,
        """lambda, the weight of the squared factors in the loss; None: the best of seven values, judged by top
        lists for a held-out tenth of the pairs""",
        above=0,
    )


class ImplicitMF(RatingAlgorithm):
    """Matrix factorization of implicit feedback, by alternating least squares.

    ``fit`` takes pairs (user, item) without ratings, a data frame of two columns, a sparse matrix, or ratings, whose
    values it ignores. Estimates rank items; they are neither ratings nor probabilities.

    Examples
    --------
    >>> pairs = [("ann", "Alien"), ("bob", "Brazil"), ("ann", "Brazil")]
    >>> [item for item, _ in ImplicitMF(random_state=0).fit(pairs).top_n(1)["bob"]]
    ['Alien']
    """

    name = "implicit_mf"
    takes_ratings = False
    settings: ImplicitMFSettings
    learned_class = ImplicitFactors
    learned: ImplicitFactors | None

    __init__ = configured_by(ImplicitMFSettings)(RatingAlgorithm.__init__)

    @property
    def implicit_factors(self) -> ImplicitFactors:
        """The model of what users choose: this model itself."""
        return self._learned(self.learned)

    @property
    def folds_identities(self) -> bool:
        return True

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        trained = self._start(ratings, self.settings.reg_all)
        self._train(run, trained, ratings, self.settings.n_epochs)

    def _resume_fit(
        self, run: FitRun, ratings: Ratings, known: Identities | None, epochs: int | None
    ) -> None:
        """Sweep again, starting from the factors of the known items."""
        old = self._learned(self.learned)
        trained = self._start(ratings, old.penalty)
        trained.y[: len(old.y), : old.y.shape[1]] = old.y
        trained.improve_users()
        self._train(run, trained, ratings, _RESUME_SWEEPS if epochs is None else epochs)

    def _update_rows(
        self, run: FitRun, ratings: Ratings, known: Identities | None, touched: Touched
    ) -> None:
        """Solve for the users and then the items of the new choices alone; all others stay."""
        self._catalogue = self.catalogue.grow(ratings, (touched.values, touched.before))
        self.learned = self._learned(self.learned).solve_touched(
            Identities.of(ratings), ratings.n_items, touched
        )

    def _start(self, ratings: Ratings, penalty: float | None) -> Choosing:
        s, pairs = self.settings, Identities.of(ratings)
        return Choosing.of(pairs, ratings.n_items, s.n_factors, s.confidence, penalty, self._seed)

    def _train(self, run: FitRun, trained: Choosing, ratings: Ratings, n: int) -> None:
        """Run ``n`` sweeps, and set what they learned."""
        self._sweep(run, trained, n, ratings)
        self._catalogue = replace(Catalogue.of(ratings), mean=0.0)
        self.learned = ImplicitFactors.from_trained(trained, ratings)

    @property
    def tables(self) -> Tables:
        """The factors; popularity is the bias of an item."""
        learned = self._learned(self.learned)
        user_biases = np.zeros(len(learned.x), np.float32)
        no_side = np.zeros((0, 0), np.float32)
        return Tables(learned.x, learned.y, user_biases, learned.biases, no_side)

    def deviations(self, users: Numbers, items: Numbers) -> NoReturn:
        """Raise ConfigurationError, because there are no ratings to predict."""
        refuse_deviations()

    def _fold(self, items: Numbers, values: Floats, known: Numbers) -> FoldedFactors:
        x = self._learned(self.learned).of_new_user(known)[0]
        scale = self.catalogue.scale
        return FoldedFactors(0.0, x, self._table_scores, len(items), None, scale)
