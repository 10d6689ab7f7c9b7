"""A weighted average of fitted algorithms, itself an algorithm."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, Prediction
from surprise.utils import get_rng

from tacenda import artifact
from tacenda.artifact import Artifact
from tacenda.errors import ArtifactError, ConfigurationError, DataError, NotFittedError
from tacenda_surprise.algorithm import UNKNOWN, TacendaAlgorithm
from tacenda_surprise.blend_parts import deviations_of, estimates_of, estimates_of_users, parted
from tacenda_surprise.models.blending import Weights, deviation_factor, fit_weights, usual_errors
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import By, Lists
from tacenda_surprise.storage import load_errors
from tacenda_surprise.trainsets import as_list, as_pairs, as_trainset, join, numbers, ratings_of

__all__ = ["Blend"]

Floats = npt.NDArray[np.float64]

_NAME = "blend"
_NOBODY = object()  # an id that no trainset has
_SCORES = 2_000_000  # of one algorithm in memory at a time


class Blend(AlgoBase):  # type: ignore[misc]
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
        self._choices: Choices | None = None

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
        factor = deviation_factor(errors, weights.deviations(deviations_of(first, usual, held_out)))
        if self.refit:
            first = [deepcopy(algo).fit(trainset) for algo in self.algorithms]
        # All at once: an interrupted fit leaves the blend as it was.
        AlgoBase.fit(self, trainset)
        self._weights, self.fitted = weights, first
        self._usual, self._factor, self._choices = usual, factor, None
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
        AlgoBase.fit(self, everything)
        self.fitted, self._choices = gone_on, None
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save into the folder ``path`` what `load` needs: the fitted algorithms, each complete, and their weights.

        Raises ConfigurationError if an algorithm is not one of Tacenda's, or the blend was made with
        ``refit=False``, whose algorithms do not have all ratings.
        """
        weights = self._fitted()
        if not self.refit:
            raise ConfigurationError("only a blend with refit=True can be saved; fit one")
        nested: dict[str, Artifact] = {}
        for number, algo in enumerate(self.fitted):
            if not isinstance(algo, TacendaAlgorithm):
                raise ConfigurationError(
                    f"{type(algo).__name__} cannot be saved without pickle; use surprise.dump"
                )
            nested[f"algorithm-{number}"] = algo.to_artifact()
        seed = self.random_state if isinstance(self.random_state, int) else None
        config = {
            "weights": weights.weights.tolist(),
            "center": weights.center,
            "usual": self._usual.tolist(),
            "factor": self._factor,
            "holdout": self.holdout,
            "random_state": seed,
        }
        first = next(iter(nested.values()))
        found = Artifact("recommenders", _NAME, first.distribution, first.version, config, {})
        artifact.write(path, replace(found, nested=nested))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a blend that was saved. Raises ArtifactError for a folder that is missing, damaged or none."""
        with load_errors(path):
            found = artifact.read(path)
            if found.name != _NAME:
                raise ArtifactError(f"it is a {found.name} and no blend")
            n, config = len(found.nested), found.config
            parts: list[TacendaAlgorithm[Any]] = [
                TacendaAlgorithm.from_artifact(found.nested[f"algorithm-{number}"])
                for number in range(n)
            ]
            weights, usual = (np.array(config[key], np.float64) for key in ("weights", "usual"))
            center, factor = float(config["center"]), float(config["factor"])
            whole = np.isfinite([*weights, *usual, center, factor]).all() and (weights >= 0).all()
            if not (n and weights.shape == usual.shape == (n,) and whole and factor > 0):
                raise ArtifactError("the blend's weights are invalid: the folder is damaged")
            unfitted = [type(part).from_settings(part.settings) for part in parts]
            blend = cls(unfitted, float(config["holdout"]), True, config["random_state"])
            AlgoBase.fit(blend, parts[0].trainset)
            blend._weights, blend.fitted = Weights(weights, center), list(parts)
            blend._usual, blend._factor = usual, factor
        return blend

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
        found = weights.deviations(deviations_of(self.fitted, self._usual, pairs))
        return np.asarray(self._factor * found)

    def top_n(
        self,
        n: int = 10,
        uids: Iterable[Any] | None = None,
        *,
        exclude_seen: bool = True,
        by: By = "both",
    ) -> dict[Any, list[tuple[Any, float]]]:
        """Find the ``n`` best items of every user, or of ``uids``: (raw item id, estimate), best first.

        ``by`` says what is best, as in `TacendaAlgorithm.top_n`. Raises DataError for an unknown user.
        """
        self._fitted()
        trainset = self.trainset
        users = trainset._raw2inner_id_users
        wanted = list(users) if uids is None else as_list(uids, "uids")
        self._require_known(wanted)
        raw = [trainset.to_raw_iid(i) for i in trainset.all_items()]
        lists = Lists.of(None if by == "rating" else self.choices, by, len(raw))
        found: dict[Any, list[tuple[Any, float]]] = {}
        block = max(1, _SCORES // max(len(raw), 1))
        for start in range(0, len(wanted), block):
            part = wanted[start : start + block]
            for uid, scores in zip(part, self.predict_users(part), strict=True):
                x, seen = None, self._seen_by(uid)
                if lists.choices is not None:
                    own = users.get(uid)
                    known = lists.choices.users
                    x = lists.choices.of_new_user(seen)[0] if own is None else known[own]
                hidden = seen if exclude_seen else None
                items, values = lists.best(scores.astype(np.float32), x, n, hidden)
                found[uid] = [
                    (raw[item], value)
                    for item, value in zip(items, values.astype(float).tolist(), strict=True)
                ]
        return found

    @property
    def choices(self) -> Choices:
        """The model of what gets chosen, fitted when it is asked for first."""
        if self._choices is None:
            ratings = ratings_of(self.trainset)
            self._choices = Choices.of(ratings, Identities.of(ratings))
        return self._choices

    def fold_in(
        self,
        ratings: Mapping[Any, float] | Iterable[tuple[Any, float]] = (),
        rated: Iterable[Any] = (),
        *,
        uid: Hashable | None = None,
    ) -> BlendedUser:
        """Predict for a user the blend was not fitted to, see `TacendaAlgorithm.fold_in`.

        An algorithm that is not one of Tacenda's counts with what it says of an unknown user. Raises
        ConfigurationError if ``uid`` is a user of the trainset, DataError for a rating off the scale.
        """
        weights, given, rated = self._fitted(), dict(ratings), as_list(rated, "rated")
        # Before any algorithm is told, so that all know the user or none.
        ours = [algo for algo in self.fitted if isinstance(algo, TacendaAlgorithm)]
        known = [self.trainset._raw2inner_id_users, *(algo._users for algo in ours)]
        if uid is not None and any(uid in users for users in known):
            raise ConfigurationError(
                f"user {uid!r} is in the trainset already; fold_in is for users who are not"
            )
        users = [
            algo.fold_in(given, rated, uid=uid) if isinstance(algo, TacendaAlgorithm) else algo
            for algo in self.fitted
        ]
        return BlendedUser(self, users, weights, given, rated)

    def _require_known(self, uids: Iterable[Any]) -> None:
        ours = [algo for algo in self.fitted if isinstance(algo, TacendaAlgorithm)]
        for uid in uids:
            if uid in self.trainset._raw2inner_id_users or any(algo._knows(uid) for algo in ours):
                continue
            raise DataError(
                f"user {uid!r} is not in the trainset; fold_in(uid={uid!r}, ratings=...) makes it known"
            )

    def _seen_by(self, uid: Any) -> npt.NDArray[np.int64]:
        """Inner ids of what a user has rated, or is known to where the trainset has no ratings of theirs; ascending."""
        inner = self.trainset._raw2inner_id_users.get(uid)
        if inner is not None:
            return np.array(sorted({i for i, _ in self.trainset.ur[inner]}), np.int64)
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


class BlendedUser(NamedTuple):
    """Predictions of a blend for a user it was not fitted to."""

    blend: Blend
    users: list[Any]  # what every algorithm made of the user, or the algorithm
    weights: Weights
    ratings: dict[Any, float]
    rated: list[Any]

    def predict(self, iid: Hashable) -> float:
        """The expected rating of an item, clipped to the scale."""
        return float(self._estimates([iid])[0])

    def _estimates(self, iids: Sequence[Any]) -> Floats:
        every = [
            [user.predict(_NOBODY, iid).est for iid in iids]
            if isinstance(user, AlgoBase)
            else [user.predict(iid) for iid in iids]
            for user in self.users
        ]
        combined = self.weights.combine(np.array(every, float).T)
        return np.asarray(np.clip(combined, *self.blend.trainset.rating_scale))

    def top_n(
        self, n: int = 10, *, exclude_seen: bool = True, by: By = "both"
    ) -> list[tuple[Any, float]]:
        """The ``n`` best items: (raw item id, estimate), best first."""
        trainset = self.blend.trainset
        raw = [trainset.to_raw_iid(i) for i in trainset.all_items()]
        found = numbers([*self.ratings, *self.rated], trainset._raw2inner_id_items)
        seen = np.unique(found[found >= 0])
        choices = None if by == "rating" else self.blend.choices
        x = None if choices is None else choices.of_new_user(seen)[0]
        lists = Lists.of(choices, by, len(raw))
        scores = self._estimates(raw).astype(np.float32)
        items, values = lists.best(scores, x, n, seen if exclude_seen else None)
        return [
            (raw[item], value)
            for item, value in zip(items, values.astype(float).tolist(), strict=True)
        ]
