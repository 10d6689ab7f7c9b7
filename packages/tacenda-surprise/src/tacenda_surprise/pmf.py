"""Probabilistic matrix factorization by maximum a posteriori.

r_ui ~ N(mean + b_u + c_i + x_u . q_i, sigma^2)      (Mnih 2010, eq 5.20; the mean is taken off first)
PMF:             x_u ~ N(0, sigma_U^2 I)             (eq 5.16)
conditional PMF: x_u ~ N(s_u, sigma_U^2 I),   s_u = mean of w_j over the items j the user has rated (eq 5.22)

Users and items who come later are ridge regressions on the factors of the other side. With Q the factors of the rated
items and s the mean of the conditioning factors over everything known to be rated, the bias b and factors x of a new
user minimize

    |r - mean - c - b - Q x|^2 + lambda(n) |x - s|^2 + lambda_b(n) b^2,

which is what SGD minimizes for a fitted user with n ratings, whose weight multiplies all three terms. New items
likewise, without s.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.arrays import LARGEST, Array, Arrays, Float32, Float64, at_least, up_to
from tacenda.errors import DataError
from tacenda.fitting import FitRun, History
from tacenda.forks import cached_property
from tacenda.kernels.ratings import Tables, rating_scores
from tacenda.offsets import runs
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.catalogue import (
    Catalogue,
    Doubles,
    Floats,
    Numbers,
    lengthen,
    mean_row,
    rating_std,
)
from tacenda_surprise.factorization import (
    LEAST_PENALTY,
    ConditionalPMFSettings,
    FactorizationSettings,
    PMFSettings,
    ResolvedOptions,
    Task,
    initial_tables,
    thesis_options,
    train,
)
from tacenda_surprise.identities import Identities
from tacenda_surprise.top_n import check_length
from tacenda_surprise.trainsets import Touched, places_of_items, places_of_users, users_at
from tacenda_surprise.users import Explanation, FoldedFactors, Reason, check_rated
from tacenda_surprise.variance import (
    PredictiveVariance,
    Sizes,
    Variances,
    fit_no_variances,
    touch_spread,
)
from tacenda_surprise.variance import fit as fit_variances

_MATTERS = 0.005  # a smaller difference of errors may be chance
_MANY = 200_000  # ratings: with so many the second fit goes on from the first
_ERRORS = 5_000  # of ratings left out of the first fit
_AT_ONCE = 4_000_000  # ratings scored


class Factors(Arrays):
    """Biases and factors, of users x with the part s of it that comes from identities."""

    user_factors: Float32[Array, "users width"]
    item_factors: Float32[Array, "items width"]
    user_biases: Float32[Array, "users"]
    item_biases: Float32[Array, "items"]
    side_factors: Float32[Array, "sides width"]  # w, no rows without conditioning
    user_prior: Float32[Array, "priors width"]  # s, likewise
    used: Float64[
        Array, "16", at_least(0), up_to(LARGEST**2)
    ]  # see `resolved`; rates are one over a unit
    spread: PredictiveVariance
    variances: Variances

    @cached_property
    def resolved(self) -> ResolvedOptions:
        """The numbers of the fit."""
        return ResolvedOptions.of_numbers(self.used)

    @cached_property
    def tables(self) -> Tables:
        """Everything but s."""
        return Tables(*(getattr(self, name) for name in Tables._fields))


class PMF(RatingAlgorithm):
    """Probabilistic matrix factorization (Mnih 2010, section 5.3): the most probable parameters.

    `BayesianPMF` averages over the parameters instead, which predicts better and takes longer.
    """

    name = "pmf"
    settings: FactorizationSettings
    settings_class: ClassVar[type[FactorizationSettings]] = PMFSettings
    learned_class = Factors
    learned: Factors | None

    @configured_by(PMFSettings)
    def __init__(self, settings: PMFSettings) -> None:
        super().__init__(settings)

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
        """Make one of the two baselines of the thesis, with early stopping and without penalties."""
        options = {"biased": False, **options}
        return cls.from_settings(
            thesis_options(options, conditional=cls.conditional, penalties=False)
        )

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        """Fit twice: without some ratings, whose errors say when to stop and how far predictions are off; then to all.

        Where there are many ratings the second fit goes on from the first, for the last fifth of the epochs.
        """
        settings, catalogue = self.settings, Catalogue.of(ratings)
        used = ResolvedOptions.of(settings, ratings)
        share = settings.validation or min(0.1, _ERRORS / len(ratings))
        stopped, start, last = None, None, used
        known = self._join_identities(ratings, identities)
        whole = Task(settings, used, self._seed, ratings, catalogue.mean, known)
        if len(ratings) > 1:
            part, held_out = split(ratings, share, seed=self._seed)
            first, planned = run.stage("validation"), used
            if not settings.validation:
                first = replace(first, callbacks=())
                if len(ratings) >= _MANY and not settings.by_als and used.epochs > 1:
                    last = used._replace(epochs=max(used.epochs // 5, 1))
                    planned = used._replace(epochs=used.epochs - last.epochs)
            task = whole._replace(
                used=planned,
                ratings=part,
                known=self._join_identities(part, identities),
                held_out=held_out if settings.validation else None,
            )
            tables, prior, history = self._train(first, task)
            x, q, b, c, _ = tables
            u, i, mean = held_out.user_ids, held_out.item_ids, catalogue.mean
            predictions = rating_scores(u, i, x, q, b, c, mean).clip(*catalogue.scale)
            errors, sizes = held_out.values - predictions, sizes_of(part, tables, mean)
            variances = fit_variances(errors, predictions, u, i, *sizes, rating_std(part))
            run = run.stage(first=False)
            if settings.validation:
                stopped = history
                best = history.best  # unless its errors are hardly less than the last, all epochs
                if best and history.evaluations[-1].value > (1 + _MATTERS) * best.value:
                    used = used._replace(epochs=best.epoch)
                last = used
            elif last is not used:
                own = tables.user_factors - prior if len(prior) else tables.user_factors
                start = tables._replace(user_factors=own)
                whole = whole._replace(first_epoch=planned.epochs)
        else:
            variances = fit_no_variances(rating_std(ratings))
        if not settings.validation or settings.refit or len(ratings) == 1:
            tables, prior, history = self._train(run, whole._replace(used=last), start)
        self._finish(tables, prior, used, variances, catalogue, ratings)
        self.history = history
        if stopped is None:
            self.figures = [history.figure("none held out")]
        else:
            self.figures = [stopped.figure("RMSE of the ratings held out")]

    def _train(
        self, run: FitRun, task: Task, tables: Tables | None = None
    ) -> tuple[Tables, Floats, History]:
        """Train ``tables``, whose users are without s, or random ones; return them with s, and s."""
        if tables is None:
            tables = initial_tables(task, rating_std(task.ratings))
        history = train(task, tables, run, self._identity)
        prior = np.zeros((0, self.settings.n_factors), np.float32)
        if task.known is not None:
            prior = task.known.means(tables.side_factors)
            tables = tables._replace(user_factors=tables.user_factors + prior)
        return tables, prior, history

    def _finish(
        self,
        tables: Tables,
        prior: Floats,
        used: ResolvedOptions,
        variances: Variances,
        catalogue: Catalogue,
        ratings: Ratings,
    ) -> None:
        # without ratings: the mean of the other rows, and users with identities their prior
        n_users, n_items = np.diff(ratings.user_offsets), ratings.item_counts
        for table, n in zip(tables[:4], (n_users, n_items) * 2, strict=True):
            if not n.all():
                table[n == 0] = mean_row(table, n > 0)
        if len(prior):
            told = (n_users == 0) & prior.any(axis=1)
            tables.user_factors[told] = prior[told]
        spread = variances.spread(*sizes_of(ratings, tables, catalogue.mean))
        self._catalogue = catalogue
        self.learned = Factors(*tables, prior, used.numbers(), spread, variances)

    def _resume_fit(
        self, run: FitRun, ratings: Ratings, identities: Identities | None, epochs: int | None
    ) -> None:
        """Train on, with the learning rates of the last epochs of the fit; the mean stays.

        The default is a quarter of the epochs of the fit.
        """
        old = self._learned(self.learned)
        before, own = old.resolved, old.user_factors
        n = max(before.epochs // 4, 1) if epochs is None else epochs
        used, catalogue = before._replace(epochs=n), self.catalogue.grow(ratings)
        known = self._join_identities(ratings, identities)
        prior = lengthen(old.user_prior, ratings.n_users if self.conditional else 0)
        if known is not None:
            own = own - old.user_prior
            news = known.means(lengthen(old.side_factors, ratings.n_items))
            prior[len(own) :] = news[len(own) :]
        # New users, then new items, begin where their own ratings put them while everything else stays; a few epochs of
        # training then reconcile them with the rest. Users are p = x - s.
        mean, n_users, n_items = catalogue.mean, ratings.n_users, ratings.n_items
        p, b = (lengthen(table, n_users) for table in (own, old.user_biases))
        q, c = (lengthen(table, n_items) for table in (old.item_factors, old.item_biases))
        w = lengthen(old.side_factors, n_items) if len(prior) else old.side_factors
        s, tables = prior if len(prior) else np.zeros_like(p), Tables(p, q, b, c, w)
        for u in range(len(own), n_users):
            b[u], x = solve_user(used, tables, mean, ratings.of_user(u), s[u])
            p[u] = x - s[u]
        for i in range(len(old.item_factors), n_items):
            ids, values = ratings.of_item(i)
            of_bias = used.item_biases.total(len(ids)) if used.rates.item_biases > 0 else None
            targets, penalty = values - mean - b[ids], used.item_factors.total(len(ids))
            c[i], q[i] = _solve_row(p[ids] + s[ids], targets, np.zeros_like(q[i]), penalty, of_bias)
        first = max(before.epochs - n, 0)
        task = Task(self.settings, used, self._seed, ratings, mean, known, first_epoch=first)
        tables, prior, self.history = self._train(run, task, tables)
        self._finish(tables, prior, before, old.variances, catalogue, ratings)
        self.figures = [self.history.figure("none held out")]

    def _update_rows(
        self, run: FitRun, ratings: Ratings, identities: Identities | None, touched: Touched
    ) -> None:
        """Move the users and items of the new ratings alone, as `touch_tables`; all others stay."""
        old, n_users, n_items = self._learned(self.learned), ratings.n_users, ratings.n_items
        w, prior = old.side_factors, old.user_prior
        users = np.unique(touched.users)
        if self.conditional:
            w, prior = lengthen(w, n_items), lengthen(prior, n_users)
            for u in users.tolist():
                more = None if identities is None else identities.of_user(u)
                prior[u] = w[self._known_items(ratings.of_user(u)[0], more)].mean(axis=0)
        rows, mean = zip(old.tables[:4], (n_users, n_items) * 2, strict=True), self.catalogue.mean
        tables = Tables._make([*(lengthen(part, n) for part, n in rows), w])
        if self.conditional:  # what identities say has changed
            tables.user_factors[users] += prior[users] - lengthen(old.user_prior, n_users)[users]
        touch_tables(old.resolved, tables, prior, mean, ratings, touched)
        self._catalogue = self.catalogue.grow(ratings, touched.values)
        spread = touch_spread(old.variances, old.spread, ratings, tables, mean, touched)
        self.learned = Factors(*tables, prior, old.used, spread, old.variances)

    # -- predicting --------------------------------------------------------------------------------

    @property
    def tables(self) -> Tables:
        return self._learned(self.learned).tables

    @property
    def average(self) -> Tables:
        """See `RatingAlgorithm.average`; with conditioning the mean of s is there as ``side_factors`` (1, factors)."""
        if self._average is None:
            found, prior = super().average, self._learned(self.learned).user_prior
            if len(prior):
                usual = mean_row(prior, self._rated[0])[None]
                self._average = found._replace(side_factors=usual)
        return super().average

    def fold(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedFactors:
        found, items = self._learned(self.learned), np.asarray(items, np.int64)
        mean, scale, spread = self.catalogue.mean, self.catalogue.scale, found.spread
        rated = check_rated(items, values, len(found.item_factors))
        known = self._known_items(items, identities)
        prior = np.zeros(self.settings.n_factors, np.float32)
        if self.conditional and len(known):
            told, usual = found.side_factors[known].mean(axis=0), self.average.side_factors[0]
            prior = self._temper(told, usual, len(known)).astype(np.float32)
        bias, x = solve_user(found.resolved, found.tables, mean, (items, rated), prior)
        q, c, usual = found.item_factors, found.item_biases, self.average
        if not len(items):  # the average user, but for what the identities say
            bias = float(usual.user_biases[0])
            x = x if len(known) and self.conditional else usual.user_factors[0]
        variance, unknown = spread.of_new_user(len(items)), (usual.item_factors, usual.item_biases)
        return FoldedFactors(bias, x, variance, spread, scale, mean, q, c, unknown)

    def explain(self, uid: Hashable, iid: Hashable, n: int = 5) -> Explanation:
        """Explain a recommendation: by how much each of the user's ratings raises or lowers the estimate of an item.

        Bias and factors of a user are a ridge regression on the factors q of the items rated, and so are linear in the
        ratings: with A its penalized products, the rating r_j counts (q_i, 1)^T A^{-1} (q_j, 1) (r_j - what is expected
        of it without this user's ratings). With conditioning, the identity of an item counts, too. The difference
        between a fitted user and the regression is part of ``others``.

        Parameters
        ----------
        uid, iid
            Raw ids; the user is in the trainset or was folded in.
        n
            Maximum number of reasons.

        Raises DataError for an unknown user or item.
        """
        self._require_known([uid])
        if (item := self._items.get(iid)) is None:
            raise DataError(
                f"item {iid!r} is not in the trainset: ask for one that somebody has rated"
            )
        check_length(n)
        ids: Numbers
        known: Numbers
        if (user := self._users.get(uid)) is not None:
            ids, values = self._fit_data().ratings.of_user(user)
            known = self._learned(self._seen).of_user(user)
            estimate = self.score_pairs(np.array([user]), np.array([item]))[0]
        else:
            new = self._new_users[str(uid)]
            ids, values, known = new.given.items, new.given.values, new.seen
            estimate = new.model_user.score(np.array([item]))[0]
        base, effects = self._effects(item, ids, values, known, is_new=user is None)
        raw, ratings = list(self._items), dict(zip(ids.tolist(), values.tolist(), strict=True))
        order = sorted(effects, key=lambda one: -abs(effects[one]))[:n]
        reasons = [Reason(raw[one], ratings.get(one), effects[one]) for one in order]
        rest = float(estimate) - base - sum(one.effect for one in reasons)
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
            share = len(known) / (len(known) + self._usual_items * is_new)
            usual = (1 - share) * self.average.side_factors[0]
            prior = share * found.side_factors[known].mean(axis=0) + usual
            base += float(q[item] @ usual)
            own = found.side_factors[known] @ q[item] * (share / len(known))
            effects |= dict(zip(known.tolist(), own.tolist(), strict=True))
        if len(ids):
            of_bias = used.user_biases.total(len(ids)) if used.rates.user_biases > 0 else None
            weights = used.user_factors.total(len(ids)), of_bias
            design, A = _normal_equations(q[ids], *weights)
            asked, _ = _normal_equations(q[[item]], *weights)
            left = values - mean - c[ids] - design[:, :-1] @ prior
            for one, effect in zip(
                ids.tolist(), design @ np.linalg.solve(A, asked[0]) * left, strict=True
            ):
                effects[one] += float(effect)
        return base, effects

    def _sizes(self) -> dict[str, Any]:
        sizes, width, told = super()._sizes(), self.settings.n_factors, self.conditional
        sides, priors = (sizes[side] if told else 0 for side in ("items", "users"))
        return {**sizes, "width": width, "sides": sides, "priors": priors}


class ConditionalPMF(PMF):
    """Matrix factorization that also learns from which items a user has rated (Mnih 2010, eq 5.22).

    Try this model first: it is better than `PMF`, especially for users with few ratings. Unlike `PMF`, it can also
    predict for a user for whom only the identities of rated items are known.
    """

    name = "conditional_pmf"
    conditional = True

    @configured_by(ConditionalPMFSettings)
    def __init__(self, settings: ConditionalPMFSettings) -> None:
        RatingAlgorithm.__init__(self, settings)


def sizes_of(ratings: Ratings, tables: Tables, mean: float) -> tuple[Sizes, Sizes]:
    """Count the ratings and sum the errors of users and items, for a part of the users at a time."""
    x, q, b, c, _ = tables
    squares = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
    offsets = ratings.user_offsets
    for start, stop in runs(offsets, _AT_ONCE):
        span = slice(offsets[start], offsets[stop])
        users = np.repeat(np.arange(start, stop), np.diff(offsets[start : stop + 1]))
        items = ratings.item_ids[span]
        scores = rating_scores(users, items, x, q, b, c, mean).clip(*ratings.scale)
        errors = (ratings.values[span] - scores).astype(np.float64) ** 2
        squares[0][start:stop] = np.bincount(users - start, errors, stop - start)
        squares[1][:] += np.bincount(items, errors, ratings.n_items)
    counts = np.diff(offsets).astype(float), ratings.item_counts.astype(float)
    users_too, items_too = map(Sizes, counts, squares)
    return users_too, items_too


def solve_user(
    used: ResolvedOptions, tables: Tables, mean: float, rated: tuple[Numbers, Floats], prior: Floats
) -> tuple[float, Floats]:
    """Solve for bias and factors of a user who has rated items (n,) so (n,); ``prior`` is s (factors,)."""
    items, values = rated
    n, biased = len(items), used.rates.user_biases > 0
    weights = used.user_factors.total(n), used.user_biases.total(n) if biased else None
    return _solve_row(
        tables.item_factors[items], values - mean - tables.item_biases[items], prior, *weights
    )


def _solve_row(
    rows: Floats, targets: Floats, prior: Floats, penalty: float, of_bias: float | None
) -> tuple[float, Floats]:
    """Bias and factors of a row, a ridge regression of ``targets`` (n,) on ``rows`` (n, factors) and a constant."""
    if not len(rows):
        return 0.0, prior
    # In deviations z = x - s from the prior: |targets - Q s - b - Q z|^2 + lambda |z|^2 + lambda_b b^2.
    design, A = _normal_equations(rows, penalty, of_bias)
    solved = np.linalg.solve(A, design.T @ (targets - design[:, :-1] @ prior))
    return float(solved[-1]), (prior + solved[:-1]).astype(np.float32)


def _normal_equations(
    rows: Floats, penalty: float, of_bias: float | None
) -> tuple[Doubles, Doubles]:
    """The rows (n, factors + 1) with a constant, zero without a bias, and their penalized products."""
    constant = np.full((len(rows), 1), float(of_bias is not None))
    design = np.append(rows.astype(np.float64), constant, axis=1)
    weights = np.full(design.shape[1], max(penalty, LEAST_PENALTY))
    weights[-1] = max(of_bias or 0.0, LEAST_PENALTY)
    return design, design.T @ design + np.diag(weights)


def touch_tables(
    used: ResolvedOptions,
    tables: Tables,
    prior: Floats,
    mean: float,
    ratings: Ratings,
    touched: Touched,
) -> None:
    """Move the users, then the items, of new ratings in place; ``ratings`` are all.

    If the factors of a user minimize the penalized error of the ratings before, then with the others as they are

        x += (lambda I + Q^T Q)^{-1} (sum_i q_i e_i - d (x - s)),    e_i = r_i - prediction, or r_i - the rating before

    over the new ratings minimizes that of all, bias and factors together; d is by how much the penalty lambda has grown
    with the number of ratings. New users and items are solved for.
    """
    p, q, b, c, _ = tables
    users, items, values, before = touched
    scores = rating_scores(users, items, p, q, b, c, mean)
    errors = values - np.where(np.isnan(before), scores, before)
    biases = used.rates.user_biases > 0, used.rates.item_biases > 0
    sides = (
        (users, items, (p, b), (q, c), (used.user_factors, used.user_biases), biases[0], prior),
        (items, users, (q, c), (p, b), (used.item_factors, used.item_biases), biases[1], prior[:0]),
    )
    for number, (own, others, (x, d), (z, f), weights, biased, means) in enumerate(sides):
        for row in np.unique(own).tolist():
            new = own == row
            places = (places_of_users, places_of_items)[number](ratings, np.array([row]))
            ids = ratings.item_ids[places] if number == 0 else users_at(ratings, places)
            rated = ratings.values[places]
            factors, bias = (weight.total(len(ids)) for weight in weights)
            of_bias = bias if biased else None
            start = means[row] if len(means) else np.zeros(x.shape[1], np.float32)
            more = int(np.isnan(before[new]).sum())
            if more == len(ids):
                d[row], x[row] = _solve_row(z[ids], rated - mean - f[ids], start, factors, of_bias)
                continue
            _, A = _normal_equations(z[ids], factors, of_bias)
            design, _ = _normal_equations(z[others[new]], factors, of_bias)
            grown = np.append(weights[0].each * (x[row] - start), weights[1].each * d[row])
            step = np.linalg.solve(A, design.T @ errors[new] - more * grown)
            x[row] += step[:-1].astype(np.float32)
            d[row] += np.float32(step[-1])
        moved = rating_scores(users, items, p, q, b, c, mean)
        errors, scores = errors - (moved - scores), moved
