"""What every rating model offers to a host, whatever it computes with."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from tacenda.artifact import Saveable
from tacenda.errors import ConfigurationError, NotFittedError
from tacenda.fitting import Callback
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.identities import Identities

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.integer[Any]]


class FoldedUser(Protocol):
    """A user the model was not fitted on, as far as it can be told; predicts like a fitted one.

    A model with a distribution of its own adds ``probabilities(items)`` (items, levels).
    """

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        ...

    def deviations(self, items: Numbers) -> Floats:
        """Predictive standard deviations (items,)."""
        ...


class RatingModel(Saveable):
    """A model of explicit ratings.

    Users and items are numbers, as in the `Ratings` it was fitted on; -1 is a user or item that is unknown.

    Attributes
    ----------
    catalogue
        Users, items and scale; set by ``fit``.
    tables
        Biases and factors whose sum and product are the scores, for hosts that show them; None where
        there are none.
    figures
        What the fit reached.
    fitted_on
        How much data.
    """

    kind: ClassVar[str] = "recommenders"
    distribution: ClassVar[str] = "tacenda-surprise"
    api_version: ClassVar[int] = 1

    _catalogue: Catalogue | None = None

    @property
    def tables(self) -> Tables | None:
        """None, unless a model has such."""
        return None

    @abstractmethod
    def fit(
        self,
        ratings: Ratings,
        *,
        identities: Identities | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoints: str | os.PathLike[str] | None = None,
        progress: str = "",
    ) -> Self:
        """Fits the model.

        Parameters
        ----------
        ratings
            At least one.
        identities
            Items known to be rated, beside those of ``ratings``; only conditional models use them.
        callbacks
            Called by the fitting loop.
        checkpoints
            Folder to resume from after an interruption.
        progress
            What the progress bar says; "" for the model's name.
        """

    def partial_fit(
        self,
        ratings: Ratings,
        *,
        identities: Identities | None = None,
        n_epochs: int | None = None,
        callbacks: Sequence[Callback] = (),
        progress: str = "",
    ) -> Self:
        """Goes on from the present parameters. A copy of the model from before stays as it was.

        Parameters
        ----------
        ratings
            All ratings, old and new. Users and items have the numbers that the model knows them by;
            new ones follow.
        identities
            As for ``fit``.
        n_epochs
            Passes over ``ratings``; None: what the model finds enough.
        callbacks
            As for ``fit``.
        progress
            As for ``fit``.

        Raises
        ------
        ConfigurationError
            The model cannot; this one is what it is unless overridden.
        NotFittedError
            The model was neither fitted nor loaded.
        """
        raise ConfigurationError(
            f"{type(self).__name__} cannot go on from where it is: fit it anew on all ratings"
        )

    @abstractmethod
    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """Expected ratings (pairs,) float32, not clipped.

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

    @abstractmethod
    def score_users(self, users: Numbers) -> Floats:
        """Expected ratings of all items (users, items) float32, not clipped; for a block of users."""

    @abstractmethod
    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """Standard deviation of the rating of each pair (pairs,), its noise included."""

    @abstractmethod
    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedUser:
        """A user who is not among those fitted, without fitting again.

        Parameters
        ----------
        items
            (n,) numbers of rated items.
        values
            (n,) the ratings.
        identities
            Further items known to be rated.
        """

    def probabilities(self, users: Numbers, items: Numbers) -> Floats:
        """Probability of every level of ``catalogue.levels`` (pairs, levels).

        A normal distribution about the score, cut half-way between levels; models with a distribution of
        their own override it. Raises ConfigurationError for a continuous scale.
        """
        levels = self.catalogue.require_levels(f"{type(self).__name__}.probabilities")
        scores, deviations = self.score_pairs(users, items), self.deviations(users, items)
        return cut_normal(scores, deviations, levels)

    @property
    def catalogue(self) -> Catalogue:
        """Users, items and scale. Raises NotFittedError."""
        if self._catalogue is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call fit(ratings), or load one with tacenda.load"
            )
        return self._catalogue


def cut_normal(means: Floats, deviations: Floats, levels: Floats) -> Floats:
    """Normal probability of the cells about ``levels`` (pairs, levels), the outer ones open."""
    middle = (levels[1:] + levels[:-1]) / 2
    below = ndtr((middle[None, :] - means[:, None]) / np.maximum(deviations, 1e-6)[:, None])
    return np.asarray(np.diff(below, axis=1, prepend=0.0, append=1.0), np.float32)


def folded_probabilities(user: FoldedUser, items: Numbers, levels: Floats) -> Floats:
    """Probability of every one of ``levels`` (items, levels) for a user who was folded in."""
    own = getattr(user, "probabilities", None)
    if own is not None:
        return np.asarray(own(items), np.float32)
    return cut_normal(user.score(items), user.deviations(items), levels)


def check_rated(items: Numbers, values: npt.ArrayLike, n_items: int) -> Floats:
    """Values (n,) float32 of the rated ``items`` of a user. Raises ConfigurationError."""
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
