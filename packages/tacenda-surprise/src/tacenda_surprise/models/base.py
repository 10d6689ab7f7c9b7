"""What every rating model offers to a host, whatever it computes with."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from tacenda import plugins
from tacenda.errors import ConfigurationError, FittingError, NotFittedError
from tacenda.estimator import Estimator
from tacenda.fitting import BatchSource, Callback, FitRun, FitSettings, History, Trainer
from tacenda.fitting import fit as run
from tacenda.fitting.checkpoint import Resume
from tacenda.kernels.ratings import scores as rating_scores
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings
from tacenda.store import path_of
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.levels import nearest
from tacenda_surprise.models.spread import Spread

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.integer[Any]]


class FoldedUser(Protocol):
    """A user the model was not fitted to, who is predicted like one it was fitted to.

    A model with a distribution of its own adds ``probabilities(items)`` (items, levels).
    """

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        ...

    def deviations(self, items: Numbers) -> Floats:
        """Predictive standard deviations (items,), in units of the ratings."""
        ...


class FoldedFactors(NamedTuple):
    """Bias b and factors x of one user beside the items; see `FoldedUser`."""

    bias: float
    factors: Floats
    variance: float  # of a rating, without what the items add
    spread: Spread
    scale: tuple[float, float]  # lowest and highest rating
    mean: float
    item_factors: Floats
    item_biases: Floats

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        if items is None:
            scores = self.item_factors @ self.factors + self.item_biases
        else:
            known = (np.asarray(items) >= 0).astype(np.float32)
            # not by BLAS, whose sums depend on how many items there are
            products = np.einsum("nd,d->n", self.item_factors[items], self.factors)
            scores = (products + self.item_biases[items]) * known
        return np.asarray(scores + np.float32(self.mean + self.bias), np.float32)

    def deviations(self, items: Numbers) -> Floats:
        """See `tacenda_surprise.models.spread`, (items,)."""
        own = self.spread._replace(users=np.array([self.variance], np.float32))
        return own.deviations(np.zeros(len(items), np.int64), items, self.score(items), self.scale)


class Loop(NamedTuple):
    """What the fitting loop is told beside the model, the data and the settings."""

    callbacks: Sequence[Callback] = ()
    checkpoints: str | os.PathLike[str] | None = None
    resume: Resume = "auto"
    progress: str = ""

    def inside(self, folder: str) -> Loop:
        """Put checkpoints into a folder of their own, for the first of two fits."""
        if self.checkpoints is None:
            return self
        return self._replace(checkpoints=path_of(self.checkpoints, FittingError) / folder)

    def after_the_first(self) -> Loop:
        """Prepare for the second of two fits, which need not have begun before the interruption."""
        return self._replace(resume="auto" if self.resume is True else self.resume)

    def run(
        self,
        trained: Trainer,
        source: BatchSource,
        settings: FitSettings,
        configuration: Mapping[str, Any],
    ) -> History:
        """Train; ``configuration`` identifies a checkpoint, as in `tacenda.fitting.fit`."""
        return run(
            trained,
            source,
            settings,
            FitRun(self.checkpoints, self.resume, self.callbacks, self.progress),
            configuration,
        )


class RatingModel(Estimator):
    """A model of explicit ratings.

    Users and items are numbers, as in the `Ratings` it was fitted to; -1 is an unknown user or item.

    Attributes
    ----------
    conditional
        Whether the model conditions on the identities of rated items.
    keeps_checkpoints
        Whether ``fit`` can save its progress; a model that is fitted in one go refuses ``checkpoints``.
    history
        The course of the last fit.
    figures
        What the fit reached.
    fitted_on
        How much data there was.
    """

    kind: ClassVar[str] = "recommenders"
    distribution: ClassVar[str] = "tacenda-surprise"
    api_version: ClassVar[int] = 1
    conditional: ClassVar[bool] = False
    keeps_checkpoints: ClassVar[bool] = True

    history = History()
    _catalogue: Catalogue | None = None
    _fitted_to: ClassVar[str] = "ratings"

    def fit(
        self,
        ratings: Ratings,
        *,
        identities: Identities | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoints: str | os.PathLike[str] | None = None,
        resume: Resume = "auto",
        progress: str = "",
    ) -> Self:
        """Fit the model and return it.

        Parameters
        ----------
        ratings
            At least one rating.
        identities
            Items known to be rated, beside those of ``ratings``; only for conditional models.
        callbacks
            The fitting loop calls them.
        checkpoints
            Folder for checkpoints, from which an interrupted fit goes on.
        resume
            ``"auto"`` goes on from a checkpoint if there is one, True requires one, False starts afresh.
        progress
            What the progress bar says; "" stands for the model's name.

        Raises
        ------
        ConfigurationError
            The model cannot use the identities, keeps no checkpoints, or cannot learn from ratings of this kind.
        """
        self._refuse_identities(identities)
        if checkpoints is not None and not self.keeps_checkpoints:
            raise ConfigurationError(
                f"{type(self).__name__} cannot save the progress of its fit: leave out checkpoints"
            )
        loop = Loop(callbacks, checkpoints, resume, progress or self.name)
        self._fit(loop, ratings, identities)
        return self

    def _fit(self, loop: Loop, ratings: Ratings, identities: Identities | None) -> None:
        """Fit the model, training with ``loop.run``; identities are None but in conditional models."""
        raise NotImplementedError(f"{type(self).__name__} does not implement _fit")

    def partial_fit(
        self,
        ratings: Ratings,
        *,
        identities: Identities | None = None,
        epochs: int | None = None,
        callbacks: Sequence[Callback] = (),
        progress: str = "",
    ) -> Self:
        """Go on from the present parameters and return the model. A copy made before stays as it was.

        Parameters
        ----------
        ratings
            All ratings, old and new. Users and items have the numbers that the model knows them by;
            new ones follow.
        identities, callbacks, progress
            As for ``fit``.
        epochs
            Passes over ``ratings``; None leaves the number to the model.

        Raises
        ------
        ConfigurationError
            The model cannot go on, or ``epochs`` is negative.
        DataError
            The ratings do not go on from those fitted.
        NotFittedError
            The model was neither fitted nor loaded.
        """
        self._refuse_identities(identities)
        if epochs is not None and epochs < 0:
            raise ConfigurationError(f"epochs must be at least 0, not {epochs}")
        self._go_on(Loop(callbacks, progress=progress or self.name), ratings, identities, epochs)
        return self

    def _go_on(
        self, loop: Loop, ratings: Ratings, identities: Identities | None, epochs: int | None
    ) -> None:
        """Train on; a model that can do so overrides this method."""
        raise ConfigurationError(
            f"{type(self).__name__} cannot go on from where it is: fit it anew to all ratings"
        )

    @property
    def tables(self) -> Tables | None:
        """Biases and factors whose sum and product are the scores; None for models without such."""
        return None

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """Expected ratings (pairs,) float32, not clipped; those of `tables` unless overridden.

        Parameters
        ----------
        users
            (pairs,); a user without ratings is predicted from what else is known.
        items
            (pairs,).

        Raises
        ------
        NotFittedError
            The model was neither fitted nor loaded.
        """
        x, q, b, c, _ = self._required_tables()
        return rating_scores.scores(users, items, x, q, b, c, self.catalogue.mean)

    def score_users(self, users: Numbers) -> Floats:
        """Expected ratings of all items (users, items) float32, not clipped, for a block of users."""
        x, q, b, c, _ = self._required_tables()
        users = np.asarray(users)
        known = (users >= 0).astype(np.float32)[:, None]
        scores = (x[users] * known) @ q.T
        scores += b[users][:, None] * known
        scores += c + np.float32(self.catalogue.mean)
        return np.asarray(scores)

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """Standard deviation of the rating of each pair (pairs,), its noise included."""
        raise NotImplementedError(f"{type(self).__name__} does not implement deviations")

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedUser:
        """Predict for a user who is not among those fitted, without fitting again.

        Parameters
        ----------
        items
            (n,) numbers of rated items.
        values
            (n,) the ratings.
        identities
            Further items known to be rated; only where `folds_identities`.

        Raises
        ------
        ConfigurationError
            ``identities`` are given to a model that does not use them, ratings and items do not match,
            or a rating is not finite.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement fold_in")

    def probabilities(self, users: Numbers, items: Numbers) -> Floats:
        """Probability of every level of ``catalogue.levels`` (pairs, levels).

        With the score as its mean and the deviation, see `tacenda_surprise.models.levels`; models with a
        distribution of their own override it. Raises ConfigurationError for a continuous scale.
        """
        levels = self.catalogue.require_levels(f"{type(self).__name__}.probabilities")
        scores = self.catalogue.clip(self.score_pairs(users, items))
        return nearest(scores, self.deviations(users, items), levels, self.catalogue.counts)

    @property
    def catalogue(self) -> Catalogue:
        """Users, items and scale of the data it was fitted to. Raises NotFittedError."""
        if self._catalogue is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call fit(ratings), or load one with tacenda.load"
            )
        return self._catalogue

    @property
    def folds_identities(self) -> bool:
        """Whether ``fold_in`` conditions on identities."""
        return self.conditional

    def _required_tables(self) -> Tables:
        found = self.tables
        if found is None:
            raise NotImplementedError(
                f"{type(self).__name__} has neither tables nor scores of its own"
            )
        return found

    def _note(self, ratings: Ratings, history: History, criterion: str) -> None:
        """Record what the model was fitted to and what the fit reached."""
        n_users, n_items = ratings.n_users, ratings.n_items
        self.fitted_on = {"n_ratings": len(ratings), "n_users": n_users, "n_items": n_items}
        self.figures = [history.figure(criterion)]

    def _refuse_identities(self, identities: Identities | None) -> None:
        if identities is not None and not self.conditional:
            raise ConfigurationError(
                f"{type(self).__name__} does not condition on what is rated; leave out the identities"
            )

    def _known(self, ratings: Ratings, identities: Identities | None) -> Identities | None:
        """Join the identities with those of the ratings; None without conditioning."""
        return Identities.of(ratings, identities) if self.conditional else None

    def _known_items(self, items: Numbers, identities: Numbers | None) -> Numbers:
        """All items a user is known to have rated, ascending. Raises ConfigurationError."""
        more = np.asarray([] if identities is None else identities, np.int64)
        if len(more) and not self.folds_identities:
            raise ConfigurationError(
                f"{type(self).__name__} does not condition new users on what they have rated; leave out "
                "the identities"
            )
        return np.union1d(items, more)


def new_model(
    name: str, options: Mapping[str, Any], *, seed: int, distribution: str | None = None
) -> RatingModel:
    """Make an unfitted model of a registered class, with ``seed`` if the class takes one and none is given.

    Raises what `tacenda.plugins.make` raises.
    """
    callee = plugins.get("recommenders", name, distribution=distribution)
    seeded = {"seed": seed} if "seed" in inspect.signature(callee).parameters else {}
    model: RatingModel = plugins.make(
        "recommenders", name, {**seeded, **options}, distribution=distribution
    )
    return model


def folded_probabilities(user: FoldedUser, items: Numbers, catalogue: Catalogue) -> Floats:
    """Probability of each level (items, levels) for a user who was folded in."""
    own = getattr(user, "probabilities", None)
    if own is not None:
        return np.asarray(own(items), np.float32)
    means = catalogue.clip(user.score(items))
    return nearest(means, user.deviations(items), catalogue.levels, catalogue.counts)


def check_rated(items: Numbers, values: npt.ArrayLike, n_items: int) -> Floats:
    """Ratings (n,) float32 of the rated ``items`` of a user. Raises ConfigurationError."""
    found = np.asarray(values, np.float32)
    if np.shape(items) != found.shape or found.ndim != 1:
        raise ConfigurationError(
            f"a user's items and ratings have shapes {np.shape(items)} and {found.shape}; give one rating "
            "for every item"
        )
    if not np.isfinite(found).all():
        raise ConfigurationError("a rating is not finite; correct or leave it out")
    if len(items) and (np.min(items) < 0 or np.max(items) >= n_items):
        raise ConfigurationError(f"an item number is not in 0 to {n_items - 1}")
    return found
