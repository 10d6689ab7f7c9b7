"""Bayesian matrix factorization: predictions averaged over samples of the parameters.

    E[r_ui] = mean + (unit/S) sum_s (b_u^s + c_i^s + x_u^s . q_i^s)

`samples.average_tables` turns the sum into one scalar product. The unit is the standard deviation of the ratings, which
are standardized for the chain. The spread over samples is the uncertainty of the parameters; together with the noise it
is the predictive deviation (Salakhutdinov and Mnih 2008).

Where the noise is far from normal, for example when nearly all ratings are the highest, factors explain some of the
noise and predict worse than biases alone. So a part of the ratings is held out while the chain burns in, to find the
weight f with which f times the samples plus 1 - f times `BiasOnly` predicts best. If f is less than one, the samples
are shrunk towards the biases (`Samples.shrink`). Ratings near the end of a scale have less noise than others: the
residuals of single samples, which are distributed as the noise is, say how much less. The errors of the held-out
ratings then say how large the noise is altogether.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from tacenda import devices
from tacenda.arrays import Array, Arrays, Float32, Float64, at_least, positive, within
from tacenda.errors import ConfigurationError
from tacenda.fitting import FitRun
from tacenda.forks import cached_property
from tacenda.kernels.ratings import Tables, bytes_of_solves, rating_scores
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by, option
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.catalogue import Catalogue, Floats, Numbers
from tacenda_surprise.gibbs import Gibbs, Start, random_start
from tacenda_surprise.identities import Identities
from tacenda_surprise.options import DeviceSettings, RatedSettings, SeededSettings
from tacenda_surprise.rows import Touched, lengthen, mean_row
from tacenda_surprise.samples import (
    FoldedSamples,
    LeftOut,
    RatingNoise,
    RatingScale,
    Samples,
    average_scores,
    average_tables,
    draw_row,
    find_nearest_row,
    fold,
)
from tacenda_surprise.variance import Curve, fit_curve, is_curve, repeat_last

_MAX_RESIDUALS = 20_000  # of each sample that the noise is estimated from
_RESIDUAL_SAMPLES = 4
_KEPT_SAMPLES = 40  # evenly spaced, for deviations and for users folded in
_RANK = 128  # of the average over all samples, which is then a hundredth of a star from exact
_HELD_OUT_SHARE = 0.05  # of the ratings, while the chain burns in
_MIN_BURN_IN, _MIN_RATINGS = 16, 400  # with fewer the weight is not estimated
_MEMORY_ADVICE = "fewer factors (n_factors)"
OPERATIONS = "rating_scores", "rating_solves", "sparse_product"
_FACTORS_BY_SPARSITY, _FACTORS_BOUNDS = 5.0, (8, 32)
_SAMPLES_BOUNDS, _RATINGS_VISITED = (80, 600), 1.5e7  # by all samples together
_MAX_NUMBERS = 5e7  # in all samples together
_MAX_BURN_IN = 150  # sweeps


@dataclass(frozen=True, kw_only=True)
class BayesianPMFSettings(SeededSettings, DeviceSettings):
    """Options of `BayesianPMF`."""

    n_factors: int | None = option(
        None,
        """number of factors, D; averaging keeps many factors from overfitting, but they mix slowly and take longer;
        None: 8 to 32, more where users and items have more ratings (26 for MovieLens-100K, 32 for MovieLens-1M)""",
        at_least=0,
    )
    burn_in: int | None = option(
        None, "sweeps before the first sample; None: half of n_samples, at most 150", at_least=0
    )
    n_samples: int | None = option(
        None,
        """sweeps after the burn-in; predictions are averages over all of them; None: 80 to 600, fewer for more ratings,
        to limit the time, and for more users, items or factors, to limit the memory (150 for MovieLens-100K, 80 for
        MovieLens-1M)""",
        at_least=1,
    )
    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({"n_kept": ..., "rank": ...})


@dataclass(frozen=True, kw_only=True)
class ConditionalBayesianPMFSettings(BayesianPMFSettings, RatedSettings):
    """Options of `ConditionalBayesianPMF`."""


class Average(Arrays):
    """Tables whose products are the average scores over the samples."""

    user_factors: Float32[Array, "users rank"]
    item_factors: Float32[Array, "items rank"]
    user_biases: Float32[Array, "users"]
    item_biases: Float32[Array, "items"]

    @cached_property
    def tables(self) -> Tables:
        """The tables with those of conditioning, which have no rows."""
        none = np.zeros((0, self.user_factors.shape[1]), np.float32)
        return Tables(**dict(self.items()), side_factors=none)


class Chain(Arrays):
    """The kept samples of a fit, the average over all, and the noise of the ratings."""

    samples: Samples
    average: Average
    # of users, standardized; the last is an unknown one
    noises: Float32[Array, "users+1", positive]
    curve: Float64[Array, "4", is_curve]
    unit: Float64[Array, "", positive]  # the deviation of the ratings
    weight: Float64[Array, "", within(0, 1)]  # of the samples next to the biases
    wider: Float64[Array, "", positive]  # the last factor on the noise
    # the number of the last chain, which no later one may have
    chains: Float64[Array, "", at_least(1)]


class BayesianPMF(RatingAlgorithm):
    """Matrix factorization averaged over samples of its parameters (Salakhutdinov and Mnih 2008).

    Gibbs sampling predicts better than `PMF`, estimates its own uncertainty and needs no tuning, but takes several
    times as long.
    """

    name = "bayesian_pmf"
    settings: BayesianPMFSettings
    learned_class = Chain
    learned: Chain | None

    __init__ = configured_by(BayesianPMFSettings)(RatingAlgorithm.__init__)

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        settings, catalogue, seed = self.settings, Catalogue.of(ratings), self._seed
        scale = RatingScale(catalogue.mean, ratings.std, catalogue.scale)
        standard = ratings.standardize(scale.mean, scale.std)
        known = self._join_identities(ratings, identities)
        n_factors = choose_n_factors(settings, ratings)
        burn_in, n = choose_sweeps(settings, ratings, n_factors)
        device = find_device(settings, n_factors, ratings, known)
        start = random_start(seed, n_factors + 1, ratings, linked=known is not None)
        weight, number = 1.0, 0
        wider: LeftOut | float = 1.0
        with devices.out_of_memory(settings, _MEMORY_ADVICE):
            if burn_in >= _MIN_BURN_IN and len(ratings) >= _MIN_RATINGS:
                part, held_out = split(standard, _HELD_OUT_SHARE, seed=seed)
                known_of_part = self._join_identities(part, identities)
                lasting = burn_in // 2, burn_in - burn_in // 2
                first = Gibbs(part, known_of_part, start, lasting, seed=seed, device=device)
                self._sweep(run.stage("validation"), first, first.n_sweeps, part, known_of_part)
                weight = first.samples.choose_weight(part, held_out)
                wider = LeftOut.of(first.samples.shrink(weight, part), held_out, scale)
                start, number = first.position, 1
                burn_in, run = burn_in // 4, run.stage(first=False)
            chain = Gibbs(
                standard, known, start, (burn_in, n), seed=seed, chain=number, device=device
            )
            self._sweep(run, chain, chain.n_sweeps, standard, known)
        self._finish(chain, scale, weight, wider)
        self._catalogue = catalogue

    def _resume_fit(
        self, run: FitRun, ratings: Ratings, known: Identities | None, epochs: int | None
    ) -> None:
        """Continue the chain where it ended: ``epochs`` samples after a quarter of ``burn_in``.

        The default is ``n_samples``. Raises ConfigurationError if ``epochs`` is 0.
        """
        before, settings = self._learned(self.learned), self.settings
        if epochs == 0:
            raise ConfigurationError(
                f"{type(self).__name__} goes on by drawing samples, and n_epochs is 0: give at least 1"
            )
        catalogue, scale = self.catalogue.grow(ratings), self._noise.scale
        standard = ratings.standardize(scale.mean, scale.std)
        start = Start.of_last(before.samples, ratings.n_users, ratings.n_items)
        n_factors = start.users.shape[1] - 1
        burn_in, n = choose_sweeps(settings, ratings, n_factors)
        lasting = burn_in // 4, n if epochs is None else epochs
        device, number = find_device(settings, n_factors, ratings, known), int(before.chains) + 1
        with devices.out_of_memory(settings, _MEMORY_ADVICE):
            chain = Gibbs(
                standard, known, start, lasting, seed=self._seed, chain=number, device=device
            )
            self._sweep(run, chain, chain.n_sweeps, standard, known)
        self._finish(chain, scale, float(before.weight), float(before.wider))
        self._catalogue = catalogue

    def _update_rows(
        self, run: FitRun, ratings: Ratings, known: Identities | None, touched: Touched
    ) -> None:
        """Draw the users and then the items of the new ratings again, in every sample; all others stay.

        Their rows of the average are those whose scores are nearest to the expected scores of the samples.
        """
        old, scale = self._learned(self.learned), self._noise.scale
        catalogue = self.catalogue.grow(ratings, (touched.values, touched.before))
        rng = np.random.default_rng([self._seed, len(ratings), *touched.users, *touched.items])
        samples = old.samples.grow(ratings.n_users, ratings.n_items)
        x, q, before, mean = samples.x, samples.q, old.average, scale.mean
        p, b = (lengthen(part, len(x[0])) for part in (before.user_factors, before.user_biases))
        z, c = (lengthen(part, len(q[0])) for part in (before.item_factors, before.item_biases))
        for user, items, values in touched.by_user(ratings):
            more = items if known is None else known.of_user(user)
            own = replace(samples, alpha=samples.alpha * samples.gamma[:, user])
            expected, x[:, user] = draw_row(own, scale, items, values, more, rng)
            scores = scale.ratings(average_scores(expected, q)) - mean - c
            p[user], b[user] = find_nearest_row(z, scores)
        turned = samples.exchange()
        for item, users, values in touched.by_item(ratings):
            expected, q[:, item] = draw_row(turned, scale, users, values, users, rng)
            scores = scale.ratings(average_scores(expected, x)) - mean - b
            z[item], c[item] = find_nearest_row(p, scores)
        noises = repeat_last(old.noises, len(x[0]) + 1)
        self.learned = replace(old, samples=samples, average=Average(p, z, b, c), noises=noises)
        self._catalogue = catalogue

    def _finish(
        self, chain: Gibbs, scale: RatingScale, weight: float, wider: LeftOut | float
    ) -> None:
        """Set what a chain has learned, see `Chain`; ``wider`` may be the ratings left out that decide it."""
        taken, mean = (s.shrink(weight, chain.ratings) for s in (chain.samples, chain.expected))
        x, q = average_tables(mean.x[:, :, :-1], mean.q[:, :, :-1], _RANK, self._seed)
        b, c = (part[:, :, -1].mean(axis=0) for part in (mean.x, mean.q))
        size, root = np.float32(scale.std), np.float32(scale.std**0.5)
        average = Average(x * root, q * root, b * size, c * size)
        curve, factor = self._fit_noise(taken, average, chain.ratings, scale)
        if isinstance(wider, LeftOut):
            wider = wider.find_noise_factor(curve, factor)
        noises = (taken.noises * factor * wider).astype(np.float32)
        has_ratings = np.minimum(np.diff(chain.ratings.user_offsets), 1)
        mean_user = mean_row(average.user_factors, has_ratings)
        usual = mean_user @ average.item_factors.T + average.item_biases
        usual += mean_row(average.user_biases, has_ratings)
        samples = taken.thin(_KEPT_SAMPLES).center(usual / size, has_ratings)
        # A fit takes up the numbers 0 and 1, even if it draws one chain.
        last = max(chain.number, 1)
        numbers = curve, scale.std, weight, wider, last
        self.learned = Chain(
            samples, average, noises, *(np.array(each, np.float64) for each in numbers)
        )
        self.figures = [self.history.figure("squared error of a draw")]

    def _fit_noise(
        self, taken: Samples, average: Average, ratings: Ratings, scale: RatingScale
    ) -> tuple[Curve, float]:
        """Estimate how the noise of standardized ratings depends on the prediction, and a factor on all of it."""
        chosen = np.random.default_rng(self._seed).permutation(len(ratings))[:_MAX_RESIDUALS]
        users, items = ratings.user_ids[chosen], ratings.item_ids[chosen]
        values = ratings.values[chosen].astype(np.float64)
        predictions = rating_scores(users, items, *average.tables[:4], scale.mean)
        predictions = predictions.clip(*scale.ends)
        deviations, z = np.sqrt(taken.noises[users]), []
        for s in range(len(taken.alpha))[-_RESIDUAL_SAMPLES:]:
            own, others = taken.x[s][users], taken.q[s][items]
            scores = np.einsum("nd,nd->n", own[:, :-1], others[:, :-1]) + own[:, -1] + others[:, -1]
            # In units of the user's average noise, which `RatingNoise.deviations` multiplies by the curve.
            z.append((values - scores) / deviations)
        return fit_curve(np.concatenate(z), np.tile(predictions, len(z)), scale.std)

    # -- predicting --------------------------------------------------------------------------------

    @property
    def tables(self) -> Tables:
        """Biases, and factors whose scalar product is the average over samples, (users or items, rank)."""
        return self._learned(self.learned).average.tables

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """Standard deviation of the ratings (pairs,), from the spread of the samples and the noise."""
        users, items = np.asarray(users), np.asarray(items)
        samples = self._learned(self.learned).samples
        variances = samples.variances(users, items, self._average_samples)
        return self._noise.deviations(variances, users, self.score_pairs(users, items))

    def _fold(self, items: Numbers, values: Floats, known: Numbers) -> FoldedSamples:
        """See `RatingAlgorithm.fold`: the expected factors of the user under every sample."""
        samples = self._learned(self.learned).samples
        average_user, average_item = self._average_samples
        prior = average_user[:, 0].astype(np.float64)
        if len(known):
            prior = self._temper(samples.prior_means(known), prior, len(known))
        return fold(samples, self._noise, items, values, prior, average_item)

    @cached_property
    def _average_samples(self) -> tuple[Floats, Floats]:
        """Rows (samples, 1, width) that stand for an unknown user and an unknown item."""
        return self._learned(self.learned).samples.mean_rows(self._have_ratings)

    @property
    def _noise(self) -> RatingNoise:
        """The scale of the ratings, and their noise."""
        found, catalogue = self._learned(self.learned), self.catalogue
        scale = RatingScale(catalogue.mean, float(found.unit), catalogue.scale)
        return RatingNoise(scale, found.noises, Curve(*found.curve.tolist()))

    def _sizes(self) -> dict[str, Any]:
        sizes = super()._sizes()
        return {**sizes, "links": sizes["items"] if self.conditional else 0}


class ConditionalBayesianPMF(BayesianPMF):
    """`BayesianPMF` that also learns from which items a user has rated, as `ConditionalPMF` does."""

    name = "conditional_bayesian_pmf"
    conditional = True

    __init__ = configured_by(ConditionalBayesianPMFSettings)(RatingAlgorithm.__init__)


# -- device, factors and sweeps of a chain -----------------------------------------------------------


def find_device(
    settings: BayesianPMFSettings, n_factors: int, ratings: Ratings, known: Identities | None
) -> str:
    """Return the device of a chain. Raises ConfigurationError if it is missing or has too little memory."""
    device = devices.resolve(settings, OPERATIONS)
    rows, width = ratings.n_users + ratings.n_items, n_factors + 1
    # bytes of a number of x and q, their means and draws; and of a rating: id and value by user and by item, its user,
    # its target, and the bias that was subtracted for it
    needed = 12 * rows * width + 28 * len(ratings)
    needed += bytes_of_solves(rows, len(ratings), width)
    if known is not None:
        # ids and values of F twice, though its transpose is on the host, and W five times: the rest is room for S
        needed += 16 * len(known.item_ids) + 20 * ratings.n_items * width
    if device != "cpu":
        devices.check_memory(needed, device, settings, _MEMORY_ADVICE)
    return device


def choose_n_factors(settings: BayesianPMFSettings, ratings: Ratings) -> int:
    """Choose the number of factors of a chain: larger if users and items have more ratings."""
    if settings.n_factors is not None:
        return settings.n_factors
    return int(np.clip(round(_FACTORS_BY_SPARSITY / ratings.sparsity), *_FACTORS_BOUNDS))


def choose_sweeps(
    settings: BayesianPMFSettings, ratings: Ratings, n_factors: int
) -> tuple[int, int]:
    """Choose the number of sweeps before the first sample, and of samples."""
    n = settings.n_samples
    if n is None:
        rows = (ratings.n_users + ratings.n_items) * (n_factors + 1)
        wanted = min(_RATINGS_VISITED / len(ratings), _MAX_NUMBERS / rows)
        n = int(np.clip(wanted, *_SAMPLES_BOUNDS))
    burn_in = min(n // 2, _MAX_BURN_IN) if settings.burn_in is None else settings.burn_in
    return burn_in, n
