"""Probabilistic matrix factorization by maximum a posteriori.

r_ui ~ N(mean + b_u + c_i + x_u . q_i, sigma^2)      (Mnih 2010, eq 5.20; the mean is subtracted first)
PMF:             x_u ~ N(0, sigma_U^2 I)             (eq 5.16)
conditional PMF: x_u ~ N(s_u, sigma_U^2 I),   s_u = mean of w_j over the items j the user has rated (eq 5.22)

Later users and items are ridge regressions on the factors of the other side. With Q the factors of the rated items and
s the mean of the conditioning factors over all items known to be rated, the bias b and factors x of a new user minimize

    |r - mean - c - b - Q x|^2 + lambda(n) |x - s|^2 + lambda_b(n) b^2,

which is what SGD minimizes for a fitted user with n ratings, whose weight multiplies all three terms. New items are
solved for in the same way, without s.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tacenda.arrays import LARGEST, Array, Arrays, Float32, Float64, at_least, up_to
from tacenda.errors import DataError, check_whole
from tacenda.fitting import FitRun, History
from tacenda.forks import cached_property
from tacenda.kernels.ratings import Tables, rating_scores
from tacenda.offsets import runs
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.catalogue import Catalogue, Doubles, Floats, Numbers
from tacenda_surprise.factorization import Task, initial_tables, train
from tacenda_surprise.identities import Identities
from tacenda_surprise.pmf_options import (
    ConditionalPMFSettings,
    FactorizationSettings,
    PMFSettings,
    ResolvedOptions,
    thesis_options,
)
from tacenda_surprise.raw_ids import find_type_mismatch, find_unknown
from tacenda_surprise.rows import Touched, lengthen, mean_row
from tacenda_surprise.users import FoldedFactors
from tacenda_surprise.variance import (
    PredictiveVariance,
    Sizes,
    Variances,
    fit_no_variances,
    fit_variances,
    update_spread,
)

_MIN_PENALTY = 1e-6  # of factors and bias of a row that is solved for
_CHANCE = 0.005  # a smaller relative difference of errors may be chance
_MANY_RATINGS = 200_000  # with so many, the second fit continues the first
_MAX_HELD_OUT_SHARE, _MAX_VARIANCE_ERRORS = 0.1, 5_000  # of ratings held out to fit the variances
_RATINGS_PER_BLOCK = 4_000_000  # scored at a time


class Factors(Arrays):
    """Biases and factors; the factors x of users include the prior mean s, which comes from identities."""

    user_factors: Float32[Array, "users width"]
    item_factors: Float32[Array, "items width"]
    user_biases: Float32[Array, "users"]
    item_biases: Float32[Array, "items"]
    side_factors: Float32[Array, "sides width"]  # w; no rows without conditioning
    user_prior: Float32[Array, "priors width"]  # s; no rows without conditioning
    #: The numbers of `resolved`. Learning rates of factors and conditioning are in 1 / (unit of the ratings).
    used: Float64[Array, "16", at_least(0), up_to(LARGEST**2)]
    spread: PredictiveVariance
    variances: Variances

    @cached_property
    def resolved(self) -> ResolvedOptions:
        """The options of the fit, including those that were chosen by the ratings."""
        return ResolvedOptions.of_numbers(self.used)

    @cached_property
    def tables(self) -> Tables:
        """Biases and factors, without s."""
        return Tables(*(getattr(self, name) for name in Tables._fields))

    def grow(self, n_users: int, n_items: int) -> Factors:
        """Copy the parameters, with rows of zeros for further users and items."""
        n_priors, n_sides = (n_users, n_items) if len(self.user_prior) else (0, 0)
        return replace(
            self,
            user_factors=lengthen(self.user_factors, n_users),
            item_factors=lengthen(self.item_factors, n_items),
            user_biases=lengthen(self.user_biases, n_users),
            item_biases=lengthen(self.item_biases, n_items),
            side_factors=lengthen(self.side_factors, n_sides),
            user_prior=lengthen(self.user_prior, n_priors),
        )


class Trained(NamedTuple):
    """Tables after training, whose users include the prior mean s, and s, which has no rows without conditioning."""

    tables: Tables
    prior: Floats
    history: History

    def without_prior(self) -> Tables:
        """Return the tables as training takes them."""
        tables, s = self.tables, self.prior
        return tables._replace(user_factors=tables.user_factors - s) if len(s) else tables


class Reason(NamedTuple):
    """A rated item, and by how much its rating raises or lowers an estimate."""

    item: Any  # raw id
    rating: float | None  # None if only the identity is known
    effect: float


class Explanation(NamedTuple):
    """An estimate in parts: ``base`` + the effects of the reasons + ``others`` is the ``estimate``, not clipped."""

    estimate: float
    base: float  # the estimate without the ratings and identities of the user
    reasons: list[Reason]  # the largest effects first
    others: float  # all other effects together


class PMF(RatingAlgorithm):
    """Probabilistic matrix factorization (Mnih 2010, section 5.3): the most probable parameters.

    `BayesianPMF` averages over the parameters instead, which predicts better and takes longer.
    """

    name = "pmf"
    settings: FactorizationSettings
    settings_class: ClassVar[type[FactorizationSettings]] = PMFSettings
    learned_class = Factors
    learned: Factors | None

    __init__ = configured_by(PMFSettings)(RatingAlgorithm.__init__)

    @property
    def predicts_unknown(self) -> bool:
        """Whether there are biases, which predict ratings of unknown users and items."""
        return self.settings.biased

    @classmethod
    def thesis(cls, **options: Any) -> Self:
        """Make a model with the settings of the thesis (section 5.4.2); ``options`` override individual settings."""
        return cls.from_settings(thesis_options(options, conditional=cls.conditional))

    @classmethod
    def online_svd(cls, **options: Any) -> Self:
        """Make the online SVD of the thesis (section 5.4.3): a factorization without penalties, with early stopping."""
        options = {"biased": False, **options}
        return cls.from_settings(
            thesis_options(options, conditional=cls.conditional, penalties=False)
        )

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        """Fit to a part of the ratings, whose rest says when to stop and how large errors are; then fit to all.

        If there are many ratings, the second fit continues the first for the last fifth of the epochs.
        """
        settings, catalogue = self.settings, Catalogue.of(ratings)
        used, mean = ResolvedOptions.of(settings, ratings), catalogue.mean
        known = self._join_identities(ratings, identities)
        task = Task(settings, used, self._seed, ratings, mean, known)
        if len(ratings) == 1:
            variances = fit_no_variances(ratings.std)
            self._finish(self._train(run, task), used, variances, catalogue, ratings)
            return
        share = settings.validation or min(_MAX_HELD_OUT_SHARE, _MAX_VARIANCE_ERRORS / len(ratings))
        part, held_out = split(ratings, share, seed=self._seed)
        first = task._replace(ratings=part, known=self._join_identities(part, identities))
        first_run, stopped, n_done = run.stage("validation"), None, 0
        if settings.validation:
            first = first._replace(held_out=held_out)
        else:
            first_run = replace(first_run, callbacks=())
            if len(ratings) >= _MANY_RATINGS and settings.solver != "als" and used.epochs > 1:
                n_done = used.epochs - max(used.epochs // 5, 1)
                first = first._replace(used=used._replace(epochs=n_done))
        trained = self._train(first_run, first)
        x, q, b, c, _ = trained.tables
        pairs = held_out.user_ids, held_out.item_ids
        predictions = rating_scores(*pairs, x, q, b, c, mean).clip(*held_out.scale)
        errors, sizes = held_out.values - predictions, sizes_of(part, trained.tables, mean)
        variances = fit_variances(errors, predictions, pairs, sizes, part.std)
        if settings.validation:
            stopped = trained.history
            # If the best epoch is hardly better than the last one, all epochs are used.
            if stopped.best and stopped.evaluations[-1].value > (1 + _CHANCE) * stopped.best.value:
                used = used._replace(epochs=stopped.best.epoch)
        if stopped is None or settings.refit:
            left = used._replace(epochs=used.epochs - n_done)
            start = trained.without_prior() if n_done else None
            whole = task._replace(used=left, first_epoch=n_done)
            trained = self._train(run.stage(first=False), whole, start)
        self._finish(trained, used, variances, catalogue, ratings, stopped)

    def _train(self, run: FitRun, task: Task, tables: Tables | None = None) -> Trained:
        """Train ``tables``, whose users lack s, or random ones."""
        if tables is None:
            tables = initial_tables(task, task.ratings.std)
        history = train(task, tables, run, self._identity)
        prior = np.zeros((0, self.settings.n_factors), np.float32)
        if task.known is not None:
            prior = task.known.means(tables.side_factors)
            tables = tables._replace(user_factors=tables.user_factors + prior)
        return Trained(tables, prior, history)

    def _finish(
        self,
        trained: Trained,
        used: ResolvedOptions,
        variances: Variances,
        catalogue: Catalogue,
        ratings: Ratings,
        stopped: History | None = None,
    ) -> None:
        """Set what the fit learned; ``stopped`` is the history of a fit that held ratings out.

        Rows without ratings get the mean of the other rows; users who have only identities get their prior.
        """
        tables, prior, self.history = trained
        n_users, n_items = np.diff(ratings.user_offsets), ratings.item_counts
        for table, n in zip(tables[:4], (n_users, n_items) * 2, strict=True):
            if not n.all():
                table[n == 0] = mean_row(table, n > 0)
        if len(prior):
            only_identities = (n_users == 0) & prior.any(axis=1)
            tables.user_factors[only_identities] = prior[only_identities]
        spread = variances.spread(*sizes_of(ratings, tables, catalogue.mean))
        self._catalogue = catalogue
        self.learned = Factors(*tables, prior, np.hstack(used), spread, variances)
        self._report(stopped)

    def _resume_fit(
        self, run: FitRun, ratings: Ratings, known: Identities | None, epochs: int | None
    ) -> None:
        """Continue training with the learning rates of the last epochs of the fit; the mean stays.

        The default is a quarter of the epochs of the fit.
        """
        old, catalogue = self._learned(self.learned), self.catalogue.grow(ratings)
        before, mean = old.resolved, catalogue.mean
        n = max(before.epochs // 4, 1) if epochs is None else epochs
        used, n_old = before._replace(epochs=n), len(old.user_factors)
        grown = old.grow(ratings.n_users, ratings.n_items)
        tables, s = grown.tables, grown.user_prior
        p, q, b, c, w = tables
        if known is None:
            s = np.zeros_like(p)
        else:  # the trained factors of users are p = x - s
            p[:n_old] -= s[:n_old]
            s[n_old:] = known.means(w)[n_old:]
        # New users, then new items, are solved for with everything else fixed; a few epochs of training then reconcile
        # them with the rest.
        for u in range(n_old, ratings.n_users):
            b[u], x = solve_user(used, tables, mean, ratings.of_user(u), s[u])
            p[u] = x - s[u]
        for i in range(len(old.item_factors), ratings.n_items):
            ids, values = ratings.of_item(i)
            penalties, targets = used.of_item(len(ids)), values - mean - b[ids]
            c[i], q[i] = _solve_row(p[ids] + s[ids], targets, np.zeros_like(q[i]), *penalties)
        first = max(before.epochs - n, 0)
        task = Task(self.settings, used, self._seed, ratings, mean, known, first_epoch=first)
        trained = self._train(run, task, tables)
        self._finish(trained, before, old.variances, catalogue, ratings)

    def _update_rows(
        self, run: FitRun, ratings: Ratings, known: Identities | None, touched: Touched
    ) -> None:
        """Update the users and items of the new ratings, see `touch_tables`; all others stay."""
        old, mean = self._learned(self.learned), self.catalogue.mean
        grown = old.grow(ratings.n_users, ratings.n_items)
        tables, prior = grown.tables, grown.user_prior
        if known is not None:  # the prior means have changed
            for user in np.unique(touched.users).tolist():
                now = tables.side_factors[known.of_user(user)].mean(axis=0)
                tables.user_factors[user] += now - prior[user]
                prior[user] = now
        touch_tables(old.resolved, tables, prior, mean, ratings, touched)
        self._catalogue = self.catalogue.grow(ratings, (touched.values, touched.before))
        spread = update_spread(old.variances, old.spread, ratings, tables, mean, touched)
        self.learned = replace(grown, spread=spread)

    # -- predicting --------------------------------------------------------------------------------

    @property
    def tables(self) -> Tables:
        return self._learned(self.learned).tables

    @cached_property
    def average(self) -> Tables:
        """See `RatingAlgorithm.average`; with conditioning, ``side_factors`` (1, factors) is the mean of s."""
        average, prior = super().average, self._learned(self.learned).user_prior
        if len(prior):
            average = average._replace(side_factors=mean_row(prior, self._have_ratings[0])[None])
        return average

    def _fold(self, items: Numbers, values: Floats, known: Numbers) -> FoldedFactors:
        """See `RatingAlgorithm.fold`: the user is the solution of a ridge regression."""
        learned, average = self._learned(self.learned), self.average
        conditions = self.conditional and len(known) > 0
        prior = np.zeros(self.settings.n_factors, np.float32)
        if conditions:
            of_user, of_average = learned.side_factors[known].mean(axis=0), average.side_factors[0]
            prior = self._temper(of_user, of_average, len(known)).astype(np.float32)
        bias, x = solve_user(
            learned.resolved, learned.tables, self.catalogue.mean, (items, values), prior
        )
        if not len(items):
            # The average user, except for what the identities say.
            bias = float(average.user_biases[0])
            x = x if conditions else average.user_factors[0]
        scores, scale = self._table_scores, self.catalogue.scale
        return FoldedFactors(bias, x, scores, len(items), learned.spread, scale)

    def explain(self, uid: Hashable, iid: Hashable, n: int = 5) -> Explanation:
        """Explain a recommendation: by how much each of the user's ratings raises or lowers the estimate of an item.

        Bias and factors of a user are a ridge regression on the factors q of the rated items, and so are linear in the
        ratings. With A the penalized products of the regression, the rating r_j has the effect
        (q_i, 1)^T A^{-1} (q_j, 1) (r_j - e_j), where e_j is the rating expected without the user's ratings. With
        conditioning, the identity of an item has an effect, too. ``base`` is the estimate of the regression without
        any ratings and identities: the mean plus the bias of the item and, for a new user of whom identities are known,
        the share of the average user. The difference between a fitted user and the regression is part of ``others``.

        Parameters
        ----------
        uid, iid
            Raw ids; the user is in the trainset or was folded in.
        n
            Maximum number of reasons.

        Raises DataError for an unknown user or item, and ConfigurationError after a fit that diverged.
        """
        self._require_converged()
        self._require_known([uid])
        check_whole("n", n)
        if find_unknown([iid], self._items):
            mismatch = find_type_mismatch([iid], self._items)
            raise DataError(
                f"item {iid!r} is not in the trainset: {mismatch or 'ask for one that somebody has rated'}"
            )
        item = self._items[iid]
        ids: Numbers
        known: Numbers
        if (user := self._users.get(uid)) is not None:
            ids, values = self._fit_data().ratings.of_user(user)
            known = self._learned(self.seen).of_user(user)
            estimate = self.score_pairs(np.array([user]), np.array([item]))[0]
        else:
            new = self._new_users[uid]
            ids, values, known = new.given.items, new.given.values, new.seen
            estimate = new.model_user.score(np.array([item]))[0]
        base, effects = self._effects(item, ids, values, known, is_new=user is None)
        raw, ratings = self.raw_items, dict(zip(ids.tolist(), values.tolist(), strict=True))
        largest = sorted(effects, key=lambda j: -abs(effects[j]))[:n]
        reasons = [Reason(raw[j], ratings.get(j), effects[j]) for j in largest]
        rest = float(estimate) - base - sum(reason.effect for reason in reasons)
        return Explanation(float(estimate), base, reasons, rest)

    def _effects(
        self, item: int, ids: Numbers, values: Floats, known: Numbers, *, is_new: bool
    ) -> tuple[float, dict[int, float]]:
        """Return the expected rating of an item without a user's items, and the effect of each of these."""
        found, mean = self._learned(self.learned), self.catalogue.mean
        q, c, used = found.item_factors, found.item_biases, found.resolved
        prior, base = np.zeros(q.shape[1]), mean + float(c[item])
        effects = dict.fromkeys(np.union1d(ids, known if self.conditional else ids).tolist(), 0.0)
        if self.conditional and len(known):
            n, zeros = len(known), prior
            own, of_average = found.side_factors[known] / n, zeros
            if is_new:
                of_average = self._temper(zeros, self.average.side_factors[0], n)
                own = self._temper(own, zeros, n)
            prior = own.sum(axis=0) + of_average
            base += float(q[item] @ of_average)
            effects |= dict(zip(known.tolist(), (own @ q[item]).tolist(), strict=True))
        if len(ids):
            penalties = used.of_user(len(ids))
            design, A = _normal_equations(q[ids], *penalties)
            row, _ = _normal_equations(q[[item]], *penalties)
            residuals = values - mean - c[ids] - design[:, :-1] @ prior
            of_ratings = design @ np.linalg.solve(A, row[0]) * residuals
            for j, effect in zip(ids.tolist(), of_ratings.tolist(), strict=True):
                effects[j] += effect
        return base, effects

    def _sizes(self) -> dict[str, Any]:
        sizes, width = super()._sizes(), self.settings.n_factors
        sides, priors = (sizes["items"], sizes["users"]) if self.conditional else (0, 0)
        return {**sizes, "width": width, "sides": sides, "priors": priors}


class ConditionalPMF(PMF):
    """Matrix factorization that also learns from which items a user has rated (Mnih 2010, eq 5.22).

    Try this model first: it is better than `PMF`, especially for users with few ratings. Unlike `PMF`, it can also
    predict for a user for whom only the identities of rated items are known.
    """

    name = "conditional_pmf"
    conditional = True

    __init__ = configured_by(ConditionalPMFSettings)(RatingAlgorithm.__init__)


def sizes_of(ratings: Ratings, tables: Tables, mean: float) -> tuple[Sizes, Sizes]:
    """Count the ratings and sum the errors of users and items, for a part of the users at a time."""
    x, q, b, c, _ = tables
    squares = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
    offsets = ratings.user_offsets
    for start, stop in runs(offsets, _RATINGS_PER_BLOCK):
        span = slice(offsets[start], offsets[stop])
        users = np.repeat(np.arange(start, stop), np.diff(offsets[start : stop + 1]))
        items = ratings.item_ids[span]
        scores = rating_scores(users, items, x, q, b, c, mean).clip(*ratings.scale)
        errors = (ratings.values[span] - scores).astype(np.float64) ** 2
        squares[0][start:stop] = np.bincount(users - start, errors, stop - start)
        squares[1][:] += np.bincount(items, errors, ratings.n_items)
    n_users, n_items = np.diff(offsets).astype(float), ratings.item_counts.astype(float)
    return Sizes(n_users, squares[0]), Sizes(n_items, squares[1])


def solve_user(
    used: ResolvedOptions, tables: Tables, mean: float, rated: tuple[Numbers, Floats], prior: Floats
) -> tuple[float, Floats]:
    """Solve for bias and factors of a user with the ``rated`` items (n,) and values (n,); ``prior`` is s (factors,)."""
    items, values = rated
    targets, penalties = values - mean - tables.item_biases[items], used.of_user(len(items))
    return _solve_row(tables.item_factors[items], targets, prior, *penalties)


def _solve_row(
    rows: Floats, targets: Floats, prior: Floats, penalty: float, of_bias: float | None
) -> tuple[float, Floats]:
    """Solve for bias and factors by ridge regression of ``targets`` (n,) on ``rows`` (n, factors) and a constant."""
    if not len(rows):
        return 0.0, prior
    # In deviations z = x - s from the prior: |targets - Q s - b - Q z|^2 + lambda |z|^2 + lambda_b b^2.
    design, A = _normal_equations(rows, penalty, of_bias)
    solved = np.linalg.solve(A, design.T @ (targets - design[:, :-1] @ prior))
    return float(solved[-1]), (prior + solved[:-1]).astype(np.float32)


def _normal_equations(
    rows: Floats, penalty: float, of_bias: float | None
) -> tuple[Doubles, Doubles]:
    """Append a constant to the rows (n, factors + 1), zero without a bias, and compute their penalized products."""
    constant = np.full((len(rows), 1), float(of_bias is not None))
    design = np.append(rows.astype(np.float64), constant, axis=1)
    weights = np.full(design.shape[1], max(penalty, _MIN_PENALTY))
    weights[-1] = max(of_bias or 0.0, _MIN_PENALTY)
    return design, design.T @ design + np.diag(weights)


class Side(NamedTuple):
    """The users, or the items, of a factorization."""

    factors: Floats
    biases: Floats
    prior: Floats  # s, of which the factors are drawn; zeros for items, and without conditioning
    #: By how much the penalties of factors and bias grow with each rating.
    growth: tuple[float, float]
    #: The penalties of a row with n ratings; see `ResolvedOptions.of_user`.
    penalize: Callable[[int], tuple[float, float | None]]


def touch_tables(
    used: ResolvedOptions,
    tables: Tables,
    prior: Floats,
    mean: float,
    ratings: Ratings,
    touched: Touched,
) -> None:
    """Update the users, then the items, of new ratings in place; ``ratings`` are all.

    If the factors of a user minimize the penalized error of the ratings before, then with the others as they are

        x += (lambda I + Q^T Q)^{-1} (sum_i q_i e_i - d (x - s)),    e_i = r_i - prediction, or r_i - the rating before

    over the new ratings minimizes that of all, bias and factors together; d is by how much the penalty lambda has grown
    with the number of ratings. New users and items are solved for.
    """
    p, q, b, c, _ = tables
    nothing = np.float32(0)
    s = prior if len(prior) else np.broadcast_to(nothing, p.shape)
    users = Side(p, b, s, (used.user_factors.each, used.user_biases.each), used.of_user)
    growth = used.item_factors.each, used.item_biases.each
    items = Side(q, c, np.broadcast_to(nothing, q.shape), growth, used.of_item)
    pairs, before = (touched.users, touched.items), touched.before
    scores = rating_scores(*pairs, p, q, b, c, mean)
    errors = touched.values - np.where(np.isnan(before), scores, before)
    _touch_side(users, items, touched.by_user(ratings), pairs, errors, before, mean)
    errors -= rating_scores(*pairs, p, q, b, c, mean) - scores
    _touch_side(items, users, touched.by_item(ratings), pairs[::-1], errors, before, mean)


def _touch_side(
    side: Side,
    other: Side,
    rated: Iterable[tuple[int, Numbers, Floats]],
    pairs: tuple[Numbers, Numbers],
    errors: Floats,
    before: Floats,
    mean: float,
) -> None:
    """Update the rows of one ``side`` in place.

    ``rated`` are the rows to update, each with the rows of the other side that it has ratings with, and these ratings.
    ``pairs`` are the rows of both sides, (new,) each, with the ``errors`` and the ratings ``before`` of `touch_tables`.
    """
    for row, ids, values in rated:
        new, penalties, s = pairs[0] == row, side.penalize(len(ids)), side.prior[row]
        n_more = int(np.isnan(before[new]).sum())
        if n_more == len(ids):
            targets = values - mean - other.biases[ids]
            side.biases[row], side.factors[row] = _solve_row(
                other.factors[ids], targets, s, *penalties
            )
            continue
        _, A = _normal_equations(other.factors[ids], *penalties)
        design, _ = _normal_equations(other.factors[pairs[1][new]], *penalties)
        of_factors, of_bias = side.growth
        growth = np.append(of_factors * (side.factors[row] - s), of_bias * side.biases[row])
        step = np.linalg.solve(A, design.T @ errors[new] - n_more * growth)
        side.factors[row] += step[:-1].astype(np.float32)
        side.biases[row] += np.float32(step[-1])
