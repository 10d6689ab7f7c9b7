"""A weighted average of fitted algorithms, itself an algorithm.

    prediction = center + sum_k w_k (prediction_k - center),    w_k >= 0

The weights minimize the squared error of ratings that are held out, under a prior: each weight is 1 / K with a
standard deviation of one, and their sum is one with a standard deviation of a twentieth. With few ratings the prior
decides, and the blend is the plain average. Parts of the ratings are held out in turn, until `_ENOUGH_HELD_OUT`
ratings have been. The standard deviation of a rating is an average over the algorithms, with weights of sum one, times
one factor, which is fitted to the errors of the ratings held out.
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

from tacenda.arrays import Array, Arrays, Float64, at_least, positive, within
from tacenda.errors import ArtifactError, ConfigurationError, DataError, warn
from tacenda.estimator import NO_PARTS, Estimator, Parts, Saved
from tacenda.fitting import Callback, FitRun
from tacenda.ratings import IdIndex, Ratings
from tacenda.settings import Settings, configured_by, option
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.catalogue import Catalogue, Doubles, Floats, Numbers
from tacenda_surprise.frames import SideInfo
from tacenda_surprise.identities import Identities
from tacenda_surprise.options import make_rng
from tacenda_surprise.raw_ids import numbers
from tacenda_surprise.trainsets import FitData
from tacenda_surprise.users import Asked, FoldedUser
from tacenda_surprise.variance import coverage_factor

_LARGEST = 1e12  # of a saved weight or factor, so that ratings remain finite in float32
_NOBODY = object()  # an id that no trainset has
_ENOUGH_HELD_OUT = 2_000  # ratings to fit the weights to, where there are so many
_SUM_PRECISION = 400.0  # prior precision of the sum of the weights, in that of each weight


@dataclass(frozen=True)
class BlendSettings(Settings):
    """Options of `Blend`."""

    algorithms: Any = option((), "algorithms to blend; copies of them are fitted")
    holdout: float = option(
        0.1, "share of the ratings to hold out for fitting the weights", above=0, below=1
    )
    refit: bool = option(
        True,
        """fit the algorithms again to all ratings; False saves one fit of each algorithm, and the algorithms then lack
        the ratings that were held out first""",
    )
    random_state: int | np.random.RandomState | None = option(
        None,
        """seed of the part held out, or NumPy `RandomState`; None: a seed made of those of the algorithms, or NumPy's
        global state if an algorithm draws random numbers and its seed is not a number""",
        at_least=0,
    )

    def __post_init__(self) -> None:
        """Read the algorithms once, as an iterator would be empty at the second fit."""
        given = list(self.algorithms) if isinstance(self.algorithms, Iterable) else [None]
        rate = (isinstance(a, AlgoBase) and getattr(a, "takes_ratings", True) for a in given)
        if not all(rate):
            self.refuse(
                "algorithms", "a list of algorithms of ratings, as [ConditionalPMF(), RBM()]"
            )
        object.__setattr__(self, "algorithms", given)
        super().__post_init__()


class Weights(Arrays):
    """prediction = center + sum_k weights_k (prediction_k - center)."""

    weights: Float64[Array, "models", within(0, _LARGEST)]
    center: Float64[Array, ""]  # mean of the ratings
    factor: Float64[Array, "", positive]  # on the standard deviations
    usual: Float64[Array, "models", at_least(0)]  # RMSE, the deviation of models that estimate none
    n_users: Float64[Array, "", at_least(1)]  # that have ratings

    def combine(self, predictions: Doubles) -> Doubles:
        """Blend predictions (..., models) into (...)."""
        return np.asarray(self.center + (predictions - self.center) @ self.weights)

    def deviations(self, deviations: Doubles) -> Doubles:
        """Average standard deviations (pairs, models) into (pairs,), by weights of sum one, times the factor."""
        total, n = self.weights.sum(), len(self.weights)
        share = self.weights / total if total > 0 else np.full(n, 1 / n)
        return np.asarray(self.factor * (deviations @ share))


class _SurprisePart(NamedTuple):
    """A fitted algorithm from outside Tacenda, asked by the blend's numbers of users and items."""

    algo: AlgoBase
    rmse: float  # of its predictions for ratings held out
    # raw ids (users + 1,) and (items + 1,): number -1, which the blend does not know, finds `_NOBODY`
    users: list[Any]
    items: list[Any]
    learned: None = None

    def score_pairs(self, users: Numbers, items: Numbers) -> Doubles:
        """Estimate ratings (pairs,) as Surprise's ``test`` does, clipped to the scale."""
        pairs = ((self.users[u], self.items[i]) for u, i in zip(users, items, strict=True))
        return np.array([self.algo.predict(*pair).est for pair in pairs], np.float64)

    def score_users(self, users: Numbers) -> Doubles:
        """Estimate the ratings (users, items) of all items, one pair at a time."""
        return _score_all_items(self, users, len(self.items) - 1)

    def deviations(self, users: Numbers, items: Numbers) -> Doubles:
        """Return the RMSE for every pair (pairs,), because the algorithm estimates no deviations."""
        return np.full(len(users), self.rmse)

    def fold(self, items: Numbers, values: Floats, known: Numbers) -> _UnknownUser:
        """Return an unknown user: the algorithm cannot learn from the ratings of a new one."""
        return _UnknownUser(self)


class _TacendaPart(NamedTuple):
    """A fitted `RatingAlgorithm`, asked by the blend's numbers of users and items."""

    algo: RatingAlgorithm
    # the algorithm's numbers (users + 1,) and (items + 1,), -1 for what it does not know and at the end, for -1
    users: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    learned: Any  # what the algorithm had learned when the weights were fitted

    def score_pairs(self, users: Numbers, items: Numbers) -> Doubles:
        """Estimate ratings (pairs,) as Surprise's ``test`` does, clipped to the scale."""
        return self.algo._estimate(Asked(self.users[users], self.items[items]))[0]

    def score_users(self, users: Numbers) -> Doubles:
        """Estimate the ratings (users, items) of all items."""
        items, model = self.items[:-1], self.algo._require_fitted()
        if not self.algo.predicts_unknown:
            return _score_all_items(self, users, len(items))
        numbers_of_users = self.users[users]
        scores = model.score_users(numbers_of_users)[:, items].astype(np.float64)
        # Items that were only in the part held out: -1 found the last column.
        unknown = model.score_pairs(numbers_of_users, np.full(len(users), -1))
        scores[:, items < 0] = unknown[:, None]
        return np.clip(scores, *self.algo.catalogue.scale)

    def deviations(self, users: Numbers, items: Numbers) -> Doubles:
        """Estimate the standard deviations of ratings (pairs,)."""
        model = self.algo._require_fitted()
        return model.deviations(self.users[users], self.items[items]).astype(np.float64)

    def fold(self, items: Numbers, values: Floats, known: Numbers) -> _FoldedPart:
        """Fold in a new user, by the items that the algorithm knows."""
        model, own, more = self.algo._require_fitted(), self.items[items], None
        if model.folds_identities:
            more = self.items[known]
            more = more[more >= 0]
        user = model.fold(own[own >= 0], values[own >= 0], more)
        return _FoldedPart(user, self.items, model.catalogue.scale)


def _score_all_items(part: _SurprisePart | _TacendaPart, users: Numbers, n_items: int) -> Doubles:
    """Estimate the ratings (users, items) of all items by `score_pairs`."""
    pairs = np.repeat(users, n_items), np.tile(np.arange(n_items), len(users))
    return part.score_pairs(*pairs).reshape(len(users), n_items)


class _UnknownUser(NamedTuple):
    """A new user for an algorithm that cannot fold users in."""

    part: _SurprisePart

    def score(self, items: Numbers) -> Doubles:
        return self.part.score_pairs(np.full(len(items), -1), items)

    def deviations(self, items: Numbers) -> Doubles:
        return np.full(len(items), self.part.rmse)


class _FoldedPart(NamedTuple):
    """A new user that was folded into one algorithm, asked by the blend's numbers of items."""

    user: FoldedUser
    items: npt.NDArray[np.int64]  # see `_TacendaPart`
    scale: tuple[float, float]

    def score(self, items: Numbers) -> Doubles:
        return np.clip(self.user.score(self.items[items]).astype(np.float64), *self.scale)

    def deviations(self, items: Numbers) -> Doubles:
        return self.user.deviations(self.items[items]).astype(np.float64)


class FoldedBlend(NamedTuple):
    """A new user that was folded into every algorithm; see `tacenda_surprise.users.FoldedUser`."""

    users: list[_UnknownUser | _FoldedPart]  # one for each algorithm
    n_items: int
    weights: Weights

    def score(self, items: Numbers | None = None) -> Floats:
        wanted = np.arange(self.n_items) if items is None else np.asarray(items)
        scores = np.stack([user.score(wanted) for user in self.users], axis=-1)
        return self.weights.combine(scores).astype(np.float32)

    def deviations(self, items: Numbers) -> Floats:
        deviations = np.stack([user.deviations(items) for user in self.users], axis=-1)
        return self.weights.deviations(deviations).astype(np.float32)


class Blend(RatingAlgorithm):
    """A weighted average of any Surprise algorithms, with weights fitted to held-out ratings.

    Fitting holds out a share of the ratings and fits every algorithm to the rest. If the share has fewer than 2,000
    ratings, it repeats this with other parts of the ratings, until 2,000 ratings or all of them have been held out:
    this takes about 1 / ``holdout`` fits of each algorithm at most, by default ten. Then it fits the weights to the
    held-out ratings, and every algorithm once more to all ratings. With a single rating, all weights are equal. Unknown
    users and items get the weighted average of the algorithms' predictions.

    Examples
    --------
    >>> Blend([ConditionalPMF(random_state=0), ConditionalRBM(random_state=0)]).fit(trainset)
    """

    name = "blend"
    keeps_checkpoints = False
    settings: BlendSettings
    learned_class = Weights
    indexes = MappingProxyType({})  # its algorithms have the catalogue
    _parts: Sequence[_SurprisePart | _TacendaPart] = ()
    learned: Weights | None

    __init__ = configured_by(BlendSettings)(RatingAlgorithm.__init__)

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

    def _require_ours(self, otherwise: str) -> list[RatingAlgorithm]:
        """Return the fitted algorithms. Raises ConfigurationError for one from outside Tacenda."""
        for algo in self.fitted:
            if not isinstance(algo, RatingAlgorithm):
                raise ConfigurationError(f"{type(algo).__name__} {otherwise}")
        return self.fitted

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
        fitted: list[AlgoBase] = []
        if trainset.n_ratings < 2:  # too few to hold any out
            k, one = len(settings.algorithms), np.float64(1)
            rmse = np.full(k, ratings.std)
            self.learned = Weights(np.full(k, 1 / k), np.float64(ratings.mean), one, rmse, one)
        else:
            held_out = _predict_held_out(settings, trainset, run.callbacks)
            self.learned = _fit_to_held_out(held_out, trainset.rating_scale)
            fitted = [] if settings.refit else held_out.fitted
        fitted = fitted or _fit_copies(settings, trainset, run.callbacks)
        self._adopt_fitted(fitted, self._data)

    def _adopt_fitted(self, fitted: Sequence[AlgoBase], data: FitData) -> None:
        """Take over fitted algorithms; the blend knows what any of them knows to be rated."""
        pairs = {
            pair: None
            for algo in fitted
            if isinstance(algo, RatingAlgorithm)
            and algo.seen is not None
            and algo._data is not None
            for pair in algo._data.find_unrated(algo.seen)
        }
        self._data = data = data.join(SideInfo(pairs)) if pairs else data
        self._catalogue = Catalogue.of(data.ratings)
        self.learned = replace(self._learned(self.learned), n_users=np.float64(data.n_users))
        self._match_ids(fitted, data.users, data.items)

    def _match_ids(
        self, fitted: Sequence[AlgoBase], users: Iterable[Any], items: Iterable[Any]
    ) -> None:
        """Match the users and items of the blend with those of every algorithm, by their raw ids."""
        raw_users, raw_items = [*users, _NOBODY], [*items, _NOBODY]
        self._parts = [
            _TacendaPart(
                algo,
                numbers(raw_users, algo._users),
                numbers(raw_items, algo._items),
                algo._require_fitted().learned,
            )
            if isinstance(algo, RatingAlgorithm)
            else _SurprisePart(algo, rmse, raw_users, raw_items)
            for algo, rmse in zip(fitted, self._learned(self.learned).usual.tolist(), strict=True)
        ]

    def partial_fit(
        self, trainset: Any, n_epochs: int | None = None, *, callbacks: Sequence[Callback] = ()
    ) -> Self:
        """Continue the fit of every algorithm with more ratings; the weights stay. See `RatingAlgorithm.partial_fit`.

        Raises ConfigurationError if an algorithm is not one of Tacenda's, or cannot learn from more ratings.
        """
        before = self._fit_data()
        more = FitData.of(trainset, scale=before.ratings.scale)
        ours = self._require_ours("cannot learn from more ratings; fit the blend again")
        algorithms = [copy(algo) for algo in ours]
        for algo in algorithms:
            algo.partial_fit(more, n_epochs, callbacks=callbacks)
        # A saved blend has the numbers of its first algorithm, which knows the ratings held out only after a refit.
        refit, first = self.settings.refit, algorithms[0]
        fitted, data = copy(self), first._fit_data() if refit else before.merge(more)[0]
        fitted._adopt_fitted(algorithms, data)
        self._adopt_further(fitted)
        return self

    # -- predicting --------------------------------------------------------------------------------

    def _combine(self, score: Callable[[_SurprisePart | _TacendaPart], Doubles]) -> Floats:
        """Blend the scores that ``score`` finds for each algorithm, of any shape."""
        weights = self._learned(self.learned)
        self._warn_of_changed_parts()
        scores = np.stack([score(part) for part in self._parts], axis=-1)
        return weights.combine(scores).astype(np.float32)

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """Average the estimates (pairs,) of the algorithms; one that cannot predict counts with its default."""
        users, items = np.asarray(users), np.asarray(items)
        return self._combine(lambda part: part.score_pairs(users, items))

    def score_users(self, users: Numbers) -> Floats:
        """See `RatingAlgorithm.score_users`; fast for Tacenda's algorithms, while others predict one pair at a time."""
        return self._combine(lambda part: part.score_users(np.asarray(users)))

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """Average the deviations of the algorithms, scaled by a factor fitted to the held-out ratings."""
        weights = self._learned(self.learned)
        self._warn_of_changed_parts()
        users, items = np.asarray(users), np.asarray(items)
        every = np.stack([part.deviations(users, items) for part in self._parts], axis=-1)
        return weights.deviations(every).astype(np.float32)

    def _fold(self, items: Numbers, values: Floats, known: Numbers) -> FoldedBlend:
        """See `RatingAlgorithm.fold`; an algorithm from outside Tacenda predicts as for an unknown user."""
        weights, n_items = self._learned(self.learned), len(self.catalogue.items)
        self._warn_of_changed_parts()
        users = [part.fold(items, values, known) for part in self._parts]
        return FoldedBlend(users, n_items, weights)

    def _warn_of_changed_parts(self) -> None:
        """Warn, once, if an algorithm has been fitted again since the weights were fitted."""
        for part in self._parts:
            if part.learned is not None and part.algo._require_fitted().learned is not part.learned:
                self._warn_of_changed(part.algo)

    def _warn_of_changed(self, algo: AlgoBase) -> None:
        warn(
            f"the {type(algo).__name__} of this blend has changed since the weights were fitted: fit the blend again",
            once=(self, "changed"),
        )

    # -- to disk and back --------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return what other algorithms have, and fingerprints of what the algorithms of the blend have learned."""
        return {**super().config_dict(), "parts": [_fingerprint(p.learned) for p in self._parts]}

    def nested(self) -> Mapping[str, Estimator]:
        """The algorithms, ``algorithm-0`` and so on. Raises ConfigurationError for one that is not Tacenda's."""
        if not self.settings.refit:
            raise ConfigurationError("only a blend with refit=True can be saved; fit one")
        ours = self._require_ours("cannot be saved without pickle; use surprise.dump")
        return {f"algorithm-{k}": algo for k, algo in enumerate(ours)}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: Saved, nested: Parts = NO_PARTS) -> Self:
        parts = [nested[f"algorithm-{k}"] for k in range(len(nested))]
        if not parts or not all(isinstance(part, RatingAlgorithm) for part in parts):
            raise ArtifactError("it is a blend of something else than rating models: it is damaged")
        unfitted = [type(part).from_settings(part.settings) for part in parts]
        model = cls.from_settings({**config["settings"], "algorithms": unfitted})
        model.learned = Weights.from_arrays(arrays, models=len(parts))
        model._adopt_saved(parts, is_old=config.get("surprise") is None)
        now = [_fingerprint(part.learned) for part in model._parts]
        then = config.get("parts", now)  # older blends have none
        if not isinstance(then, list) or len(then) != len(parts):
            raise ArtifactError(
                "its 'parts' are not a fingerprint for each algorithm: it is damaged"
            )
        for part, own, of_fit in zip(parts, now, then, strict=True):
            if own != of_fit:
                model._warn_of_changed(part)
        return model

    def _adopt_saved(self, parts: Sequence[Any], *, is_old: bool) -> None:
        """Take over saved algorithms, the first of which has the users and items of the blend. Raises ArtifactError."""
        learned, first = self._learned(self.learned), parts[0]
        n_users, (low, high), data = int(learned.n_users), first.catalogue.scale, first._data
        if not low <= learned.center <= high:
            raise ArtifactError("the blend's weights are invalid: the folder is damaged")
        if n_users > len(first.catalogue.users) or (data is not None and n_users != data.n_users):
            raise ArtifactError("the blend is for other users than its algorithms: it is damaged")
        if data is None:  # saved without ratings
            raw_items = first.raw_items
            self._match_ids(parts, list(first._users)[:n_users], raw_items)
            if any((numbers(raw_items, part._items) < 0).any() for part in parts):
                raise ArtifactError("the models of a blend know different items: it is damaged")
            raw = IdIndex(first.catalogue.users.raw[:n_users].tolist(), "user")
            self._catalogue = replace(first.catalogue, users=raw)
            return
        self._adopt_fitted(parts, data)
        if is_old:  # an older blend knows what its algorithms do
            data = self._fit_data()
            self._know(data, Identities.of(data.ratings, data.identities))
            for user in first._new_users.values():
                self._add(user.given)


def _fingerprint(learned: Arrays | None) -> str | None:
    return None if learned is None else learned.fingerprint()


class _HeldOut(NamedTuple):
    """Predictions of algorithms for ratings that they were not fitted to, and the algorithms of the first split."""

    estimates: Doubles  # (ratings, models)
    deviations: Doubles  # (ratings, models); NaN for an algorithm that estimates none
    truth: Doubles  # (ratings,)
    fitted: list[AlgoBase]


def _fit_copies(
    settings: BlendSettings, trainset: Trainset, callbacks: Sequence[Callback]
) -> list[AlgoBase]:
    """Fit copies of the algorithms; those from outside Tacenda take no callbacks."""
    fitted = []
    for algo in settings.algorithms:
        takes_them = callbacks and isinstance(algo, RatingAlgorithm)
        options = {"callbacks": callbacks} if takes_them else {}
        fitted.append(deepcopy(algo).fit(trainset, **options))
    return fitted


def _predict_held_out(
    settings: BlendSettings, trainset: Trainset, callbacks: Sequence[Callback] = ()
) -> _HeldOut:
    """Hold out one part of the ratings after another, and predict it with copies of the algorithms fitted to the rest.

    Ends when `_ENOUGH_HELD_OUT` ratings, or all of them, have been held out.
    """
    fitted: list[AlgoBase] = []
    parts: list[tuple[Doubles, Doubles, Doubles]] = []
    triples = [
        (trainset.to_raw_uid(u), trainset.to_raw_iid(i), rating)
        for u, i, rating in trainset.all_ratings()
    ]
    n = min(max(1, round(settings.holdout * len(triples))), len(triples) - 1)
    order = _random_state(settings).permutation(len(triples))
    data = Dataset(Reader(rating_scale=trainset.rating_scale))
    for start in range(0, min(len(triples), _ENOUGH_HELD_OUT), n):
        others = np.delete(order, np.s_[start : start + n])
        part = data.construct_trainset([(*triples[k], None) for k in others])
        held_out = [triples[k] for k in order[start : start + n]]
        algorithms = _fit_copies(settings, part, callbacks)
        fitted = fitted or algorithms
        estimates = [[p.est for p in algo.test(held_out)] for algo in algorithms]
        uids, iids, truth = zip(*held_out, strict=True)
        deviations = [
            algo.predict_std(uids, iids)
            if isinstance(algo, RatingAlgorithm)
            else np.full(len(uids), np.nan)
            for algo in algorithms
        ]
        parts.append(
            (np.array(estimates).T, np.stack(deviations, axis=-1), np.array(truth, np.float64))
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return _HeldOut(columns[0], columns[1], columns[2], fitted)


def _random_state(settings: BlendSettings) -> np.random.RandomState:
    """Make the state that draws the parts held out; a blend without a seed uses the seeds of its algorithms."""
    seeds = [algo.random_state for algo in settings.algorithms if hasattr(algo, "random_state")]
    if settings.random_state is None and all(isinstance(seed, int | np.integer) for seed in seeds):
        return make_rng([0, *map(int, seeds)])
    return make_rng(settings.random_state)


def _fit_to_held_out(held_out: _HeldOut, scale: tuple[float, float]) -> Weights:
    """Fit the weights, and scale the deviations to the errors of the blend."""
    weights, truth = fit_weights(held_out.estimates, held_out.truth), held_out.truth
    rmse = np.sqrt(np.mean((held_out.estimates - truth[:, None]) ** 2, axis=0))
    deviations = np.where(np.isnan(held_out.deviations), rmse, held_out.deviations)
    errors = truth - np.clip(weights.combine(held_out.estimates), *scale)
    z = errors / np.maximum(weights.deviations(deviations), 1e-9)
    return replace(weights, factor=np.float64(np.sqrt(coverage_factor(z))), usual=rmse)


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
    # The Gaussian prior as k + 1 pseudo-observations: one of each weight, 1 / k, and one of their sum, 1.
    noise = float(np.mean((X - y[:, None]) ** 2, axis=0).min()) or 1.0
    root_of_each, root_of_sum = np.sqrt(ridge * noise), np.sqrt(ridge * noise * _SUM_PRECISION)
    X = np.concatenate([X, root_of_each * np.eye(k), np.full((1, k), root_of_sum)])
    y = np.concatenate([y, np.full(k, root_of_each / k), [root_of_sum]])
    weights, one = nnls(X, y)[0], np.float64(1)
    return Weights(weights, np.float64(center), one, np.zeros(k), one)
