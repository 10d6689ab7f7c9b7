"""A weighted average of fitted algorithms, itself an algorithm.

    prediction = center + sum_k w_k (prediction_k - center),    w_k >= 0

The weights minimize the squared error of ratings that are held out, under a prior: each weight is 1 / K with a
standard deviation of one, and their sum is one with a standard deviation of a twentieth. With few ratings the prior
decides, and the blend is the plain average. Parts of the ratings are held out in turn, until `_ENOUGH` ratings have
been. The standard deviation of a rating is an average over the algorithms, with weights of sum one, times one factor,
which is fitted to the errors of the ratings held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from surprise import AlgoBase, Dataset, Reader, Trainset
from surprise.utils import get_rng

from tacenda.arrays import Array, Arrays, Float64, at_least, positive, within
from tacenda.errors import ArtifactError, ConfigurationError, DataError, warn
from tacenda.estimator import NO_PARTS, Estimator, Parts, Saved
from tacenda.fitting import Callback, FitRun
from tacenda.ratings import IdIndex, Ratings
from tacenda.settings import Settings, configured_by, option
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.catalogue import Catalogue, Doubles, Floats, Identities, Numbers, deviation
from tacenda_surprise.raw_ids import numbers
from tacenda_surprise.trainsets import FitData, SideInfo
from tacenda_surprise.users import FoldedUser, check_rated
from tacenda_surprise.variance import coverage_factor

_LARGEST = 1e12  # of a saved weight or factor, so that ratings remain finite in float32
_NOBODY = object()  # an id that no trainset has
_ENOUGH = 2_000  # ratings held out: with fewer a blend is up to half a percent worse than its best algorithm
_SUM = 400.0  # prior precision of the sum of the weights, in that of each weight


@dataclass(frozen=True)
class BlendSettings(Settings):
    """Options of `Blend`."""

    algorithms: Any = option((), "algorithms to blend; copies of them are fitted")
    holdout: float = option(
        0.1, "share of the ratings to hold out for fitting the weights", above=0, below=1
    )
    refit: bool = option(
        True,
        """fit the algorithms again to all ratings; False is twice as fast and a little worse""",
    )
    random_state: int | np.random.RandomState | None = option(
        None,
        """seed of the part held out, or a state of numpy's random numbers; None: what the seeds of the algorithms give,
        where all that have seeds have numbers, and numpy's global state otherwise""",
        at_least=0,
    )


class Weights(Arrays):
    """prediction = center + sum_k weights_k (prediction_k - center)."""

    weights: Float64[Array, "models", within(0, _LARGEST)]
    center: Float64[Array, ""]  # mean of the ratings
    factor: Float64[Array, "", positive]  # of the standard deviations
    usual: Float64[Array, "models", at_least(0)]  # errors, where a model knows no deviations
    n_users: Float64[Array, "", at_least(1)]  # that have ratings

    def combine(self, predictions: Doubles) -> Doubles:
        """Blend predictions (pairs, models) into (pairs,)."""
        return np.asarray(self.center + (predictions - self.center) @ self.weights)

    def deviations(self, deviations: Doubles) -> Doubles:
        """Average standard deviations (pairs, models) into (pairs,), by weights of sum one, times the factor."""
        total, n = self.weights.sum(), len(self.weights)
        share = self.weights / total if total > 0 else np.full(n, 1 / n)
        return np.asarray(self.factor * (deviations @ share))


class _Part(NamedTuple):
    """One of the algorithms, and its numbers of the users and items of the blend: -1 is one that it does not know.

    The last number of both is -1 too, as -1 is unknown to the blend.
    """

    algo: AlgoBase
    usual: float  # its error, for deviations of an algorithm that knows none
    users: npt.NDArray[np.int64]  # (users + 1,)
    items: npt.NDArray[np.int64]  # (items + 1,)
    raw: tuple[list[Any], list[Any]]  # raw ids of users and items, likewise
    known: Any = None  # what the algorithm had learned when the weights were fitted

    @classmethod
    def of(cls, algo: AlgoBase, usual: float, users: Iterable[Any], items: Iterable[Any]) -> _Part:
        """Find the users and items of a blend by their raw ids."""
        raw = [*users, _NOBODY], [*items, _NOBODY]
        if isinstance(algo, RatingAlgorithm):
            ids = numbers(raw[0], algo._users), numbers(raw[1], algo._items)
            return cls(algo, usual, *ids, raw, algo._require_fitted().learned)
        unknown = np.empty(0, np.int64)
        return cls(algo, usual, unknown, unknown, raw)

    def score_pairs(self, users: Numbers, items: Numbers) -> Doubles:
        """Estimates (pairs,) as Surprise's ``test`` has them, clipped to the scale."""
        if isinstance(self.algo, RatingAlgorithm):
            return self.algo._estimate_pairs(self.users[users], self.items[items])
        pairs = ((self.raw[0][u], self.raw[1][i]) for u, i in zip(users, items, strict=True))
        return np.array([self.algo.predict(*pair).est for pair in pairs], np.float64)

    def score_users(self, users: Numbers) -> Doubles:
        """Estimates (users, items) of all items."""
        n = len(self.raw[1]) - 1
        algo = self.algo
        if not isinstance(algo, RatingAlgorithm) or not algo.predicts_unknown:
            every = np.repeat(users, n), np.tile(np.arange(n), len(users))
            return self.score_pairs(*every).reshape(len(users), n)
        own = self.users[users]
        found = algo._require_fitted().score_users(own)[:, self.items[:-1]].astype(np.float64)
        strange = self.items[:-1] < 0  # an item that was only in the part held out
        found[:, strange] = algo._require_fitted().score_pairs(own, np.full(len(own), -1))[:, None]
        return np.clip(found, *algo.catalogue.scale)

    def deviations(self, users: Numbers, items: Numbers) -> Doubles:
        """Standard deviations (pairs,)."""
        if not isinstance(self.algo, RatingAlgorithm):
            return np.full(len(users), self.usual)
        found = self.algo._require_fitted().deviations(self.users[users], self.items[items])
        return found.astype(np.float64)

    def fold(self, items: Numbers, values: Floats, identities: Numbers | None) -> FoldedUser | None:
        """Fold a new user in; None where the algorithm is not one of Tacenda's."""
        if not isinstance(self.algo, RatingAlgorithm):
            return None
        model, own, more = self.algo._require_fitted(), self.items[items], None
        if identities is not None and model.folds_identities:
            more = self.items[identities]
            more = more[more >= 0]
        return model.fold(own[own >= 0], values[own >= 0], more)


class FoldedBlend(NamedTuple):
    """A user the algorithms were not fitted to; see `tacenda_surprise.users.FoldedUser`."""

    users: list[FoldedUser | None]  # what every algorithm made of the user
    parts: list[_Part]
    weights: Weights
    scale: tuple[float, float]

    def score(self, items: Numbers | None = None) -> Floats:
        wanted = np.arange(len(self.parts[0].raw[1]) - 1) if items is None else np.asarray(items)
        every = [
            part.score_pairs(np.full(len(wanted), -1), wanted)
            if user is None
            else np.clip(user.score(part.items[wanted]).astype(np.float64), *self.scale)
            for user, part in zip(self.users, self.parts, strict=True)
        ]
        return self.weights.combine(np.stack(every, axis=-1)).astype(np.float32)

    def deviations(self, items: Numbers) -> Floats:
        every = [
            np.full(len(items), part.usual) if user is None else user.deviations(part.items[items])
            for user, part in zip(self.users, self.parts, strict=True)
        ]
        return self.weights.deviations(np.stack(every, axis=-1)).astype(np.float32)


class Blend(RatingAlgorithm):
    """A weighted average of any Surprise algorithms, with weights fitted to held-out ratings.

    Fitting holds out a share of the ratings, fits every algorithm to the rest, fits the weights to the held-out
    ratings, and fits every algorithm again to all ratings. With a single rating, all weights are equal. Unknown users
    and items get the weighted average of the algorithms' predictions.

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

    name = "blend"
    keeps_checkpoints = False
    settings: BlendSettings
    learned_class = Weights
    indexes = MappingProxyType({})  # its algorithms have the catalogue
    _parts: Sequence[_Part] = ()
    learned: Weights | None

    @configured_by(BlendSettings)
    def __init__(self, settings: BlendSettings) -> None:
        super().__init__(settings)

    @property
    def fitted(self) -> list[AlgoBase]:
        """The fitted algorithms."""
        return [part.algo for part in self._parts]

    @property
    def weights(self) -> Doubles:
        """The weights of the algorithms (algorithms,), in their order."""
        return np.asarray(self._learned(self.learned).weights)

    @property
    def folds_identities(self) -> bool:
        return any(
            isinstance(algo, RatingAlgorithm) and algo.folds_identities for algo in self.fitted
        )

    # -- fitting -----------------------------------------------------------------------------------

    def _draw_seed(self, trainset: Any) -> int:
        return 0  # the state of random numbers draws the part held out itself

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        settings = self.settings
        if not settings.algorithms:
            raise ConfigurationError("a blend needs algorithms: Blend([ConditionalPMF(), RBM()])")
        assert self._data is not None
        self._data = self._data.with_trainset()
        trainset: Any = self._data.trainset
        if trainset.n_ratings < 2:  # none can be held out: all algorithms count alike
            k, usual = len(settings.algorithms), deviation(ratings)
            one, center = np.float64(1), np.float64(ratings.mean)
            self.learned = Weights(np.full(k, 1 / k), center, one, np.full(k, usual), one)
            self._take([deepcopy(algo).fit(trainset) for algo in settings.algorithms], self._data)
            return
        held_out = _HeldOut.of(settings, trainset)
        weights, truth = fit_weights(held_out.estimates, held_out.truth), held_out.truth
        usual = np.sqrt(np.mean((held_out.estimates - truth[:, None]) ** 2, axis=0))
        every = np.where(np.isnan(held_out.deviations), usual, held_out.deviations)
        errors = truth - np.clip(weights.combine(held_out.estimates), *trainset.rating_scale)
        z = errors / np.maximum(weights.deviations(every), 1e-9)
        # As large as the errors are.
        factor = np.float64(np.sqrt(coverage_factor(z)))
        self.learned, fitted = replace(weights, factor=factor, usual=usual), held_out.fitted
        if settings.refit:
            fitted = [deepcopy(algo).fit(trainset) for algo in settings.algorithms]
        self._take(fitted, self._data)

    def _take(self, fitted: Sequence[AlgoBase], data: FitData) -> None:
        """Take over fitted algorithms; users of whom only side information is known to one of them are users too."""
        pairs = {
            (uid, list(algo._items)[item]): None
            for algo in fitted
            if isinstance(algo, RatingAlgorithm) and algo._seen is not None
            for uid, number in algo._users.items()
            if uid not in data.users
            for item in algo._seen.of_user(number).tolist()
        }
        self._data = data = SideInfo(pairs).join(data) if pairs else data
        self._catalogue = Catalogue.of(data.ratings)
        self.learned = replace(self._learned(self.learned), n_users=np.float64(data.n_users))
        self._meet(fitted, data.users, data.items)

    def _meet(self, fitted: Sequence[AlgoBase], users: Iterable[Any], items: Iterable[Any]) -> None:
        """Find the raw ids of users and items in every algorithm."""
        usual = self._learned(self.learned).usual.tolist()
        self._parts = [_Part.of(*each, users, items) for each in zip(fitted, usual, strict=True)]

    def partial_fit(
        self, trainset: Any, n_epochs: int | None = None, *, callbacks: Sequence[Callback] = ()
    ) -> Self:
        """Continue the fit of every algorithm with more ratings; the weights stay. See `RatingAlgorithm.partial_fit`.

        Raises ConfigurationError if an algorithm is not one of Tacenda's, or cannot go on.
        """
        before = self._fit_data()
        more = FitData.of(trainset, scale=before.ratings.scale)
        gone_on = [copy(algo) for algo in self.fitted]
        for algo in gone_on:
            if not isinstance(algo, RatingAlgorithm):
                raise ConfigurationError(
                    f"{type(algo).__name__} cannot learn from more ratings; fit the blend again"
                )
            algo.partial_fit(more, n_epochs, callbacks=callbacks)
        fitted, (data, _) = copy(self), before.merge(more)
        fitted._take(gone_on, data)
        self._adopt_further(fitted)
        return self

    # -- predicting --------------------------------------------------------------------------------

    def _combine(self, ask: Callable[[_Part], Doubles]) -> Floats:
        weights = self._learned(self.learned)
        for part in self._parts:
            if part.known is not None and part.algo._require_fitted().learned is not part.known:
                self._warn_of_another(part.algo)
        every = np.stack([ask(part) for part in self._parts], axis=-1)
        found = weights.combine(every.reshape(-1, len(self._parts)))
        return found.reshape(every.shape[:-1]).astype(np.float32)

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """The weighted average; if an algorithm cannot predict, its default counts."""
        users, items = np.asarray(users), np.asarray(items)
        return self._combine(lambda part: part.score_pairs(users, items))

    def score_users(self, users: Numbers) -> Floats:
        """See `RatingAlgorithm.score_users`; fast for Tacenda's algorithms, while others predict one pair at a time."""
        return self._combine(lambda part: part.score_users(np.asarray(users)))

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """Average the deviations of the algorithms, scaled by a factor fitted to the held-out ratings."""
        weights = self._learned(self.learned)
        users, items = np.asarray(users), np.asarray(items)
        every = [part.deviations(users, items) for part in self._parts]
        return weights.deviations(np.stack(every, axis=-1)).astype(np.float32)

    def fold(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedBlend:
        """See `RatingAlgorithm.fold`; an algorithm from elsewhere predicts as for an unknown user."""
        weights, items = self._learned(self.learned), np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        self._known_items(items, identities)
        users = [part.fold(items, rated, identities) for part in self._parts]
        return FoldedBlend(users, list(self._parts), weights, self.catalogue.scale)

    def _warn_of_another(self, algo: AlgoBase) -> None:
        warn(
            f"the {type(algo).__name__} of this blend is another than its weights were fitted with: fit the "
            "blend again",
            once=(self, "exchanged"),
        )

    # -- to disk and back --------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return what other algorithms have, and fingerprints of what the algorithms of the blend have learned."""
        found = [None if part.known is None else part.known.fingerprint() for part in self._parts]
        return {**super().config_dict(), "parts": found}

    def nested(self) -> Mapping[str, Estimator]:
        """The algorithms, ``algorithm-0`` and so on. Raises ConfigurationError for one that is not Tacenda's."""
        if not self.settings.refit:
            raise ConfigurationError("only a blend with refit=True can be saved; fit one")
        for algo in self.fitted:
            if not isinstance(algo, RatingAlgorithm):
                raise ConfigurationError(
                    f"{type(algo).__name__} cannot be saved without pickle; use surprise.dump"
                )
        return {f"algorithm-{k}": algo for k, algo in enumerate(self.fitted)}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: Saved, nested: Parts = NO_PARTS) -> Self:
        parts = [nested[f"algorithm-{k}"] for k in range(len(nested))]
        if not parts or not all(isinstance(part, RatingAlgorithm) for part in parts):
            raise ArtifactError("it is a blend of something else than rating models: it is damaged")
        learned = [part._require_fitted().learned for part in parts]
        prints = [None if each is None else each.fingerprint() for each in learned]
        unfitted = [type(part).from_settings(part.settings) for part in parts]
        model = cls.from_settings({**config["settings"], "algorithms": unfitted})
        model.learned = state = Weights.from_arrays(arrays, models=len(parts))
        first, n_users = parts[0], int(state.n_users)
        low, high = first.catalogue.scale
        if not low <= state.center <= high:
            raise ArtifactError("the blend's weights are invalid: the folder is damaged")
        data, most = first._data, len(first.catalogue.users)
        if n_users > most or (data is not None and n_users != data.n_users):
            raise ArtifactError("the blend is for other users than its algorithms: it is damaged")
        if data is not None:
            model._take(parts, data)
        else:  # saved without ratings
            model._meet(parts, list(first._users)[:n_users], list(first._items))
            if any((part.items[:-1] < 0).any() for part in model._parts):
                raise ArtifactError("the models of a blend know different items: it is damaged")
            raw = IdIndex(first.catalogue.users.raw[:n_users].tolist(), "user")
            model._catalogue = replace(first.catalogue, users=raw)
        for part, now, then in zip(parts, prints, config.get("parts", prints), strict=True):
            if now != then:
                model._warn_of_another(part)
        return model


class _HeldOut(NamedTuple):
    """Predictions of algorithms for ratings that they were not fitted to, and the algorithms of the first split."""

    estimates: Doubles  # (ratings, models)
    deviations: Doubles  # likewise; NaN of an algorithm that knows none
    truth: Doubles  # (ratings,)
    fitted: list[AlgoBase]

    @classmethod
    def of(cls, settings: BlendSettings, trainset: Trainset) -> _HeldOut:
        """Hold parts of the ratings out, one after the other, and fit copies of the algorithms to the others."""
        fitted: list[AlgoBase] = []
        parts: list[tuple[Doubles, Doubles, Doubles]] = []
        raw = trainset.to_raw_uid, trainset.to_raw_iid
        triples = [(raw[0](u), raw[1](i), r) for u, i, r in trainset.all_ratings()]
        n = min(max(1, round(settings.holdout * len(triples))), len(triples) - 1)
        order = _random_state(settings).permutation(len(triples))
        data = Dataset(Reader(rating_scale=trainset.rating_scale))
        # until enough of the ratings were held out, or each of them once
        for start in range(0, min(len(triples), _ENOUGH), n):
            chosen, others = order[start : start + n], np.delete(order, np.s_[start : start + n])
            part = data.construct_trainset([(*triples[k], None) for k in others])
            held_out = [triples[k] for k in chosen]
            found = [deepcopy(algo).fit(part) for algo in settings.algorithms]
            fitted = fitted or found
            estimates = np.array([[p.est for p in algo.test(held_out)] for algo in found]).T
            uids, iids, truth = zip(*held_out, strict=True)
            deviations = [
                algo.predict_std(uids, iids)
                if isinstance(algo, RatingAlgorithm)
                else np.full(len(uids), np.nan)
                for algo in found
            ]
            parts.append((estimates, np.stack(deviations, axis=-1), np.array(truth, np.float64)))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return cls(columns[0], columns[1], columns[2], fitted)


def _random_state(settings: BlendSettings) -> np.random.RandomState:
    """Return what draws the parts held out; a blend without a seed takes the seeds of its algorithms."""
    given, none = settings.random_state, object()
    seeds: list[Any] = [getattr(algo, "random_state", none) for algo in settings.algorithms]
    seeds = [seed for seed in seeds if seed is not none]
    if given is None and all(isinstance(seed, int | np.integer) for seed in seeds):
        return np.random.RandomState([0, *map(int, seeds)])
    found: np.random.RandomState = get_rng(given)
    return found


def fit_weights(predictions: Doubles, truth: Doubles, ridge: float = 1.0) -> Weights:
    """Find the non-negative weights with the least squared error of ``predictions`` (ratings, models).

    ``truth`` (ratings,) are the ratings. ``ridge`` is one over the prior variance of each weight about 1 / models,
    however many ratings there are.

    Raises DataError if there is nothing to fit to.
    """
    n, k = predictions.shape
    if not n or not k:
        raise DataError("a blend needs at least one model and one rating held out")
    center = float(truth.mean())
    X, y = predictions - center, truth - center
    # What is known beforehand, as k + 1 more rows, size e_k^T and size _SUM^(1/2) (1 .. 1), in units of the noise.
    noise = float(np.mean((X - y[:, None]) ** 2, axis=0).min()) or 1.0
    size, of_sum = np.sqrt(ridge * noise), np.sqrt(ridge * noise * _SUM)
    X = np.concatenate([X, size * np.eye(k), np.full((1, k), of_sum)])
    y = np.concatenate([y, np.full(k, size / k), [of_sum]])
    found, one = nnls(X, y)[0], np.float64(1)
    return Weights(found, np.float64(center), one, np.zeros(k), one)
