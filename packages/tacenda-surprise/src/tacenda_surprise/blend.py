"""A weighted average of fitted algorithms, itself an algorithm."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, Prediction
from surprise.utils import get_rng

from tacenda import artifact
from tacenda.artifact import Artifact
from tacenda.errors import ArtifactError, ConfigurationError, NotFittedError
from tacenda_surprise.algorithm import UNKNOWN, TacendaAlgorithm
from tacenda_surprise.blend_parts import deviations_of, estimates_of, estimates_of_users, parted
from tacenda_surprise.blended_user import BlendedUser
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.models.blended import BlendModel
from tacenda_surprise.models.blending import Weights, deviation_factor, fit_weights, usual_errors
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.levels import density, nearest
from tacenda_surprise.models.ranking import Lists
from tacenda_surprise.new_users import Given, ratings_by_item
from tacenda_surprise.storage import load_errors
from tacenda_surprise.top_n import Found, TopN
from tacenda_surprise.trainsets import (
    as_list,
    as_pairs,
    as_trainset,
    check_ratings,
    join,
    numbers,
    ratings_of,
)

__all__ = ["Blend"]

Floats = npt.NDArray[np.float64]

_OWN = "surprise blend"  # what only Surprise needs, in the configuration of the saved model
_SCORES = 2_000_000  # of one algorithm in memory at a time


class Blend(TopN):
    """Averages algorithms with weights fitted to ratings held out; any Surprise algorithms will do.

    Fitting holds out a part of the ratings, fits every algorithm to the rest, finds the weights, and fits
    every algorithm anew to all ratings.

    Parameters
    ----------
    algorithms
        What to blend; copies are fitted, these are left alone.
    holdout
        Part of the ratings that the weights are fitted to.
    refit
        Fit the algorithms anew to all ratings; False is twice as fast and a little worse.
    random_state
        Seed of the part held out.

    Attributes
    ----------
    weights
        (algorithms,), set by ``fit``.
    fitted
        The fitted algorithms.

    Examples
    --------
    >>> Blend([ConditionalPMF(random_state=0), ConditionalRBM(random_state=0)]).fit(trainset)
    """

    #: Unknown users and items have the weighted average of what the algorithms say of them.
    predicts_unknown = True

    def __init__(
        self,
        algorithms: Sequence[AlgoBase] = (),
        holdout: float = 0.1,
        refit: bool = True,
        random_state: Any = None,
    ) -> None:
        AlgoBase.__init__(self)
        if not 0 < holdout < 1:
            raise ConfigurationError(f"Blend: holdout must lie between 0 and 1, not {holdout!r}")
        self.algorithms = algorithms
        self.holdout = holdout
        self.refit = refit
        self.random_state = random_state
        self.fitted: list[AlgoBase] = []
        self._weights: Weights | None = None
        self._choices = None
        self._rated: Identities | None = None
        self._shelf: Catalogue | None = None

    def __repr__(self) -> str:
        fitted = "not fitted" if self._weights is None else "fitted"
        return (
            f"<Blend({self.algorithms!r}, holdout={self.holdout!r}, refit={self.refit!r}, "
            f"random_state={self.random_state!r}), {fitted}>"
        )

    def fit(self, trainset: Any) -> Self:
        """Fit everything to ``trainset`` and return self. Raises `DataError` for fewer than two ratings."""
        if not self.algorithms:
            raise ConfigurationError("a blend needs algorithms: Blend([ConditionalPMF(), RBM()])")
        trainset = as_trainset(trainset)
        part, held_out = parted(trainset, self.holdout, get_rng(self.random_state))
        first = [deepcopy(algo).fit(part) for algo in self.algorithms]
        truth = np.array([rating for _, _, rating in held_out])
        estimates = estimates_of(first, held_out)
        weights = fit_weights(estimates, truth)
        usual = usual_errors(estimates, truth)
        errors = truth - np.clip(weights.combine(estimates), *trainset.rating_scale)
        deviations = weights.deviations(deviations_of(first, usual, held_out))
        weights = weights._replace(factor=deviation_factor(errors, deviations))
        if self.refit:
            first = [deepcopy(algo).fit(trainset) for algo in self.algorithms]
        # All at once: an interrupted fit leaves the blend as it was.
        self._take(trainset)
        self._weights, self.fitted = weights, first
        self._usual = usual
        return self

    def partial_fit(self, trainset: Any, n_epochs: int | None = None) -> Self:
        """Go on with every algorithm, with more ratings; the weights stay. See `TacendaAlgorithm.partial_fit`.

        Raises ConfigurationError if an algorithm is not one of Tacenda's, or cannot go on.
        """
        self._fitted()
        trainset = as_trainset(trainset, self.trainset.rating_scale)
        gone_on = [copy(algo) for algo in self.fitted]
        for algo in gone_on:
            if not isinstance(algo, TacendaAlgorithm):
                raise ConfigurationError(
                    f"{type(algo).__name__} cannot go on with more ratings; fit the blend anew"
                )
            algo.partial_fit(trainset, n_epochs)
        everything = gone_on[0].trainset
        if not self.refit:  # the algorithms were not fitted to all ratings
            everything = join(self.trainset, trainset)
        self._take(everything)
        self.fitted = gone_on
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save into the folder ``path`` what `load` needs: the fitted algorithms, each complete, and their weights.

        `tacenda.load` reads the folder as a `tacenda_surprise.models.BlendModel`. Raises ConfigurationError if an
        algorithm is not one of Tacenda's, or the blend was made with ``refit=False``, whose algorithms do not have
        all ratings.
        """
        artifact.write(path, self.to_artifact())

    def to_artifact(self) -> Artifact:
        """Return what `save` writes. Raises NotFittedError."""
        weights = self._fitted()
        if not self.refit:
            raise ConfigurationError("only a blend with refit=True can be saved; fit one")
        models: list[RatingModel] = []
        nested: dict[str, Artifact] = {}
        for number, algo in enumerate(self.fitted):
            if not isinstance(algo, TacendaAlgorithm):
                raise ConfigurationError(
                    f"{type(algo).__name__} cannot be saved without pickle; use surprise.dump"
                )
            models.append(algo._fitted())
            nested[f"algorithm-{number}"] = algo.to_artifact()
        found = BlendModel(models, weights, self.trainset.n_users).to_artifact()
        state = self.random_state
        seed = int(state) if isinstance(state, int | np.integer) else None
        own = {"usual": self._usual.tolist(), "holdout": self.holdout, "random_state": seed}
        arrays = {**self.choices.arrays(), **self._identities().arrays()}
        return replace(found, config={**found.config, _OWN: own}, arrays=arrays, nested=nested)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a blend that was saved. Raises ArtifactError for a folder that is missing, damaged or none."""
        with load_errors(path):
            return cls.from_artifact(artifact.read(path))

    @classmethod
    def from_artifact(cls, found: Artifact) -> Self:
        """Rebuild what `to_artifact` gave; to be called within ``storage.load_errors``."""
        if found.name != BlendModel.name:
            raise ArtifactError(f"it is a {found.name} and no blend")
        own, n = found.config.get(_OWN), len(found.nested)
        if own is None:
            raise ArtifactError(
                "it is a blend without its Surprise algorithms: tacenda.load loads it"
            )
        usual = np.array(own["usual"], np.float64)
        if not n or usual.shape != (n,) or not ((usual >= 0) & (usual < np.inf)).all():
            raise ArtifactError("the blend's usual errors are invalid: the folder is damaged")
        parts: list[TacendaAlgorithm[Any]] = [
            TacendaAlgorithm.from_artifact(found.nested[f"algorithm-{k}"]) for k in range(n)
        ]
        unfitted = [type(part).from_settings(part.settings) for part in parts]
        blend = cls(unfitted, float(own["holdout"]), True, own["random_state"])
        trainset = parts[0].trainset
        weights = Weights.from_config(found.config, n, trainset.rating_scale)
        if int(found.config["n_users"]) != trainset.n_users:
            raise ArtifactError("the blend is for other users than its algorithms: it is damaged")
        blend._take(trainset)
        blend._weights, blend._usual, blend.fitted = weights, usual, list(parts)
        blend._choices = Choices.found(found.arrays, trainset.n_users, trainset.n_items)
        return blend

    def _take(self, trainset: Any) -> None:
        """Make a trainset the blend's own, and forget what was derived from the one before."""
        AlgoBase.fit(self, trainset)
        self._choices = self._rated = self._shelf = None

    @property
    def weights(self) -> Floats:
        """The weights of the algorithms (algorithms,), in their order."""
        return self._fitted().weights

    def _fitted(self) -> Weights:
        if self._weights is None:
            raise NotFittedError("this Blend is not fitted: call fit(trainset)")
        return self._weights

    def estimate(self, u: int | str, i: int | str) -> float:
        """Return the weighted average; an algorithm that cannot predict counts with its default."""
        weights = self._fitted()
        # By raw ids, as without refitting the inner ids are others. A mark of an unknown id is none, but of a user
        # who was folded in.
        uid = u.removeprefix(UNKNOWN) if isinstance(u, str) else self.trainset.to_raw_uid(u)
        iid = i if isinstance(i, str) else self.trainset.to_raw_iid(i)
        estimates = [algo.predict(uid, iid).est for algo in self.fitted]
        return float(weights.combine(np.array([estimates], float))[0])

    def predict_many(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Estimate the ratings (pairs,) of raw ids.

        Raises ConfigurationError if there is not one item for every user.
        """
        uids, iids = as_pairs(uids, iids)
        pairs = [(uid, iid, None) for uid, iid in zip(uids, iids, strict=True)]
        return np.array([prediction.est for prediction in self.test(pairs)])

    def predict_users(self, uids: Sequence[Any]) -> Floats:
        """Estimate the ratings (users, items) of all items, in the order of their inner ids.

        Quick for Tacenda's algorithms; others are asked for one pair after the other. Raises DataError for an
        unknown user.
        """
        weights, uids = self._fitted(), as_list(uids, "uids")
        self._require_known(uids)
        low, high = self.trainset.rating_scale
        items = [self.trainset.to_raw_iid(i) for i in self.trainset.all_items()]
        every = np.stack([estimates_of_users(algo, uids, items) for algo in self.fitted], axis=-1)
        combined = weights.combine(every.reshape(-1, every.shape[-1]))
        return np.asarray(np.clip(combined, low, high).reshape(len(uids), len(items)))

    def predict_std(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Return standard deviations (pairs,) of the ratings of raw ids, their noise included.

        The weighted average of those of the algorithms, with a factor fitted to the ratings held out. Raises
        ConfigurationError if there is not one item for every user.
        """
        weights = self._fitted()
        uids, iids = as_pairs(uids, iids)
        pairs = [(uid, iid, None) for uid, iid in zip(uids, iids, strict=True)]
        return weights.deviations(deviations_of(self.fitted, self._usual, pairs))

    def predict_proba(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Return probabilities (pairs, levels) of the ratings `levels`, which have the estimates as their means.

        Raises ConfigurationError on a continuous scale, or if there is not one item for every user.
        """
        catalogue = self._catalogue()
        levels = catalogue.require_levels("Blend.predict_proba")
        means = self.predict_many(uids, iids).astype(np.float32)
        deviations = self.predict_std(uids, iids).astype(np.float32)
        return nearest(means, deviations, levels, catalogue.counts).astype(np.float64)

    def predict_density(
        self, uids: Sequence[Any], iids: Sequence[Any], ratings: Sequence[float]
    ) -> Floats:
        """Return the density (pairs,) of ``ratings`` (pairs,) of raw ids: normal about the estimate.

        Raises ConfigurationError if there is not one item and one rating for every user.
        """
        check_ratings(uids, ratings)
        return density(ratings, self.predict_many(uids, iids), self.predict_std(uids, iids))

    @property
    def levels(self) -> Floats:
        """The ratings (levels,) that `predict_proba` is about, ascending."""
        return self._catalogue().levels.astype(np.float64)

    def _catalogue(self) -> Catalogue:
        self._fitted()
        if self._shelf is None:
            self._shelf = Catalogue.of(ratings_of(self.trainset))
        return self._shelf

    # -- lists -------------------------------------------------------------------------------------

    def _everybody(self) -> list[Any]:
        return list(self.trainset._raw2inner_id_users)

    def _knows(self, uid: Any) -> bool:
        return uid in self.trainset._raw2inner_id_users or any(
            algo._knows(uid) for algo in self.fitted if isinstance(algo, TacendaAlgorithm)
        )

    def _identities(self) -> Identities:
        if self._rated is None:
            self._rated = Identities.of(ratings_of(self.trainset))
        return self._rated

    def _ranked(
        self, uids: list[Any], n: int, lists: Lists, *, exclude_seen: bool
    ) -> Iterator[Found]:
        users = self.trainset._raw2inner_id_users
        block = max(1, _SCORES // max(self.trainset.n_items, 1))
        for start in range(0, len(uids), block):
            part = uids[start : start + block]
            for uid, scores in zip(part, self.predict_users(part), strict=True):
                x, seen = None, self._seen_by(uid)
                if lists.choices is not None:
                    own = users.get(uid)
                    known = lists.choices.users
                    x = lists.choices.of_new_user(seen)[0] if own is None else known[own]
                yield lists.best(scores.astype(np.float32), x, n, seen if exclude_seen else None)

    def fold_in(
        self,
        ratings: Mapping[Any, float] | Iterable[tuple[Any, float]] = (),
        rated: Iterable[Any] = (),
        *,
        uid: Hashable | None = None,
    ) -> BlendedUser:
        """Predict for a user the blend was not fitted to, see `TacendaAlgorithm.fold_in`.

        An algorithm that is not one of Tacenda's counts with what it says of an unknown user. Raises
        ConfigurationError if ``uid`` is a user of the trainset or ``ratings`` are no pairs of items and ratings,
        DataError for a rating that is no number or off the scale.
        """
        weights, by_item = self._fitted(), ratings_by_item(ratings)
        index, scale = self.trainset._raw2inner_id_items, self.trainset.rating_scale
        rated = as_list(rated, "rated")
        given = Given.of(uid, by_item, rated, index, scale)
        # Before any algorithm is told, so that all know the user or none.
        ours = [algo for algo in self.fitted if isinstance(algo, TacendaAlgorithm)]
        known = [self.trainset._raw2inner_id_users, *(algo._users for algo in ours)]
        if uid is not None and any(uid in users for users in known):
            raise ConfigurationError(
                f"user {uid!r} is in the trainset already; fold_in is for users who are not"
            )
        for algo in ours:
            algo._check_new(uid)
        users = [
            algo.fold_in(by_item, rated, uid=uid) if isinstance(algo, TacendaAlgorithm) else algo
            for algo in self.fitted
        ]
        seen = np.union1d(given.items, given.rated).astype(np.int64)
        lists = partial(self._lists, of=self.trainset)
        return BlendedUser(
            users, weights, self._usual, index, scale, seen, self._catalogue(), lists
        )

    def _seen_by(self, uid: Any) -> npt.NDArray[np.int64]:
        """Inner ids of what a user has rated, or is known to where the trainset has no ratings of theirs; ascending."""
        inner = self.trainset._raw2inner_id_users.get(uid)
        if inner is not None:
            return self._identities().of_user(inner).astype(np.int64)
        raw = (
            iid
            for algo in self.fitted
            if isinstance(algo, TacendaAlgorithm)
            for iid in algo._seen_by(uid)
        )
        found = numbers(raw, self.trainset._raw2inner_id_items)
        return np.unique(found[found >= 0])

    def test(
        self, testset: Iterable[tuple[Any, Any, float | None]], verbose: bool = False
    ) -> list[Prediction]:
        """Return what AlgoBase.test returns, each algorithm predicting all pairs at once."""
        pairs = list(testset)
        if not pairs:
            return []
        combined = self._fitted().combine(estimates_of(self.fitted, pairs))
        estimates = np.clip(combined, *self.trainset.rating_scale).tolist()
        predictions = [
            Prediction(uid, iid, truth, estimate, {"was_impossible": False})
            for (uid, iid, truth), estimate in zip(pairs, estimates, strict=True)
        ]
        if verbose:
            for prediction in predictions:
                print(prediction)
        return predictions
