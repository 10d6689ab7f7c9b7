"""Training of `PMF` and `ConditionalPMF`.

`SGD` visits one user after the other (Mnih 2010, sections 5.3 and 5.4.2). `ALS` solves for all users, then
for all items: with one side fixed the loss is a ridge regression for every row of the other, bias and factors
together, its penalty counted once for every rating (Zhou et al. 2008, ALS-WR).

On a device, which visits thousands of rows side by side, `Rounds` takes the steps of `SGD` in another order. Each round
visits a subset of the users, each with all of their ratings, while the items stay as they are, then all items that
these have rated while the users stay (`tacenda.kernels.ratings`): each rating once from either side, in an order
in which rows can be visited at once and which no accident of timing changes. With several rounds to an epoch the two
sides grow together, as they do where every rating moves both. Here each side fits the full residual in turn, so factor
learning rates must be lower. The conditioning factors take one step after a round, with the sums g_u of the users'
visits:

    w_j = exp(-gamma lambda_w sum_u 1 / |N(u)|) w_j + gamma sum_u g_u / |N(u)|

over the users of the round with j in N(u), which is what one user after another does to first order. All of them see
the same w, so that what they have in common is corrected as often as there are users who share it, and overshoots where
these are many. With identities a round therefore has few users: see `compute_overlap`.

Users differ in how steadily they rate. With v_u the mean square of a user's errors in the epoch before, as if 20
ratings of average noise were among them, the user's ratings weigh v_u^{-3/4} against those of others, and so do the
penalties of the user: the factors of items, which users share, learn less from an inconsistent user. (Noise alone would
have v_u^{-1}; but part of v_u is what factors will explain.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda import devices
from tacenda.array_ops import DeviceCSR, append_column, library, to_device, to_numpy
from tacenda.arrays import Array
from tacenda.fitting import (
    BatchSource,
    BlockBatches,
    FitRun,
    FitSettings,
    History,
    StepDecay,
    StepResult,
    Sweeps,
    Trainer,
    fit,
)
from tacenda.kernels import ratings as kernels
from tacenda.kernels.ratings import (
    Others,
    Penalties,
    Rates,
    Side,
    Tables,
    Targets,
    VisitRates,
    Visits,
    rating_scores,
    rating_sgd,
    rating_solves,
    rating_visits,
)
from tacenda.kernels.shared import sparse_product
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Doubles, Floats
from tacenda_surprise.identities import Identities
from tacenda_surprise.pmf_options import FactorizationSettings, ResolvedOptions, Weight

OPERATIONS = {
    "sgd": ("rating_visits", "rating_scores", "sparse_product"),
    "als": ("rating_solves", "rating_scores"),
}
_MEMORY_ADVICE = "fewer factors (n_factors)"
# A few tenths of a second, so that the progress bar moves and Ctrl-C works.
_RATINGS_PER_BATCH = 4_000_000
_ROUND_RATE_SHARE = 0.7  # of the learning rate of factors with one user after another
_MIN_ROUNDS = 8  # of an epoch; more do not change the error
# Users of a round who have rated the same item, on average over the ratings; with eight times as many a fit diverges.
_MAX_SHARED_USERS = 4.0
_INITIAL_LENGTH = 0.1  # of a row of factors, for ratings with a standard deviation of one
# With less, rows of few ratings have systems that are singular in float32; in deviations of the ratings for factors.
_LEAST_ALS_PENALTY = 3e-4
_USER_PRIOR_COUNT = 20.0  # ratings of average noise that are added to those of every user
# of the weight of a user's ratings to that of a user with the usual errors, and the other way around
_MAX_WEIGHT_RATIO = 3.0


class Task(NamedTuple):
    """The data, options and numbers that a factorization is trained with."""

    settings: FactorizationSettings
    used: ResolvedOptions
    seed: int  # of start and order
    ratings: Ratings
    mean: float  # what is taken off every rating
    known: Identities | None = None  # N(u), with conditioning
    held_out: Ratings | None = None  # the ratings that decide when to stop
    first_epoch: int = 0  # learning rates start as low as they are in this epoch of a fit


def initial_tables(task: Task, unit: float) -> Tables:
    """Make tables of small random factors, everything else zero; ``unit`` is the deviation of the ratings."""
    settings, n_users, n_items = task.settings, task.ratings.n_users, task.ratings.n_items
    rng, width = np.random.default_rng(task.seed), settings.n_factors
    size = np.float32(_INITIAL_LENGTH * (unit / max(width, 1)) ** 0.5)
    return Tables(
        rng.standard_normal((n_users, width), np.float32) * size,
        rng.standard_normal((n_items, width), np.float32) * size,
        np.zeros(n_users, np.float32),
        np.zeros(n_items, np.float32),
        np.zeros((0 if task.known is None else n_items, width), np.float32),
    )


def train(
    task: Task, tables: Tables, run: FitRun, identify: Callable[..., dict[str, Any]]
) -> History:
    """Train ``tables`` in place; their ``user_factors`` are p = x - s, without the part s that comes from identities.

    ``identify`` returns what identifies a fit to ratings, identities and held-out ratings in a checkpoint.
    """
    settings, used, ratings, held_out = task.settings, task.used, task.ratings, task.held_out

    def identify_task() -> dict[str, Any]:
        identity = {**identify(ratings, task.known, held_out), **used._asdict()}
        # A fit may be resumed with more epochs.
        for name in ("epochs", "n_epochs"):
            identity.pop(name, None)
        return identity

    device = devices.resolve(settings, OPERATIONS[settings.solver])
    if device != "cpu":
        devices.check_memory(bytes_needed(task), device, settings, _MEMORY_ADVICE)
    trained: _Trainer
    source: BatchSource = Sweeps()
    with devices.out_of_memory(settings, _MEMORY_ADVICE):
        if settings.solver == "als":
            trained = ALS(task, tables, device)
        elif device != "cpu":
            trained = Rounds(task, tables, device)
        else:
            trained, seed = SGD(task, tables), task.seed + task.first_epoch
            source = BlockBatches(ratings.user_offsets, batch_size=_RATINGS_PER_BATCH, seed=seed)
        history = fit(
            trained,
            source,
            FitSettings(
                epochs=used.epochs,
                learning_rate=StepDecay(used.decay**task.first_epoch, used.decay, 1),
                evaluate_every=1 if held_out else 0,
                patience=(settings.patience or max(used.epochs // 3, 1)) if held_out else None,
                restore_best=held_out is not None,
            ),
            run,
            identify_task,
        )
    for table, found in zip(tables, trained.tables, strict=True):
        if found is not table:
            table[...] = to_numpy(found)
    return history


def bytes_needed(task: Task) -> int:
    """Return the bytes that training takes on a device: tables, ratings from both sides, and what a step makes."""
    ratings, known = task.ratings, task.known
    rows, width = ratings.n_users + ratings.n_items, task.settings.n_factors + 1
    if task.settings.solver == "als":
        of_solves = kernels.bytes_of_solves(rows, len(ratings), width)
        return 8 * rows * width + 20 * len(ratings) + of_solves
    sides = 0 if known is None else len(known.item_ids) + ratings.n_items * width
    return 12 * rows * width + 20 * len(ratings) + 16 * sides


class _Trainer(Trainer):
    """Training of tables on a device, in place."""

    def __init__(self, task: Task, tables: Tables, device: str = "cpu") -> None:
        self.tables = Tables(*(to_device(table, device) for table in tables))
        self.learned = self.tables._asdict()
        self._task, self._device = task, device

    def scores(self, ratings: Ratings) -> Floats:
        """Score the pairs of ``ratings`` (ratings,), not clipped."""
        p, q, b, c, w = self.tables
        known, mean = self._task.known, self._task.mean
        x = p if known is None else p + known.means(w, self._device)
        found = rating_scores(ratings.user_ids, ratings.item_ids, x, q, b, c, mean)
        return np.asarray(to_numpy(found))

    def evaluate(self) -> float | None:
        held_out = self._task.held_out
        if held_out is None:
            return None
        scores = np.clip(self.scores(held_out), *held_out.scale)
        return float(np.sqrt(np.mean((scores - held_out.values) ** 2, dtype=np.float64)))


def weigh_users(squares: Doubles, counts: npt.NDArray[Any], power: float) -> Floats:
    """Return the weights of the ratings of each user (users,), whose average over the ratings is 1.

    ``squares`` (users,) are the sums of squared errors of each user, and ``counts`` (users,) the numbers of ratings.
    """
    usual = squares.sum() / max(counts.sum(), 1)
    noisier, ordinary = squares + _USER_PRIOR_COUNT * usual, (counts + _USER_PRIOR_COUNT) * usual
    if not 0 < usual < math.inf:  # without errors, or diverged
        return np.ones(len(counts), np.float32)
    weights = ((ordinary / noisier) ** power).clip(1 / _MAX_WEIGHT_RATIO, _MAX_WEIGHT_RATIO)
    return np.asarray(weights * (counts.sum() / (weights @ counts)), np.float32)


class _Descent(_Trainer):
    """Training by visits of users, whose ratings have less weight the larger their errors were in the epoch before.

    A fit that continues another begins with the errors of its tables.
    """

    def __init__(self, task: Task, tables: Tables, device: str = "cpu") -> None:
        super().__init__(task, tables, device)
        ratings = task.ratings
        self.unit = ratings.std
        self._squares: npt.NDArray[Any] = np.diff(ratings.user_offsets) * self.unit**2
        if task.first_epoch and task.settings.noise_power:
            errors = (ratings.values - self.scores(ratings)).astype(np.float64)
            self._squares = np.bincount(ratings.user_ids, errors**2, ratings.n_users)
        self.rest = {"squares": self._squares}

    def _plan(self, learning_rate: float) -> tuple[Rates, Penalties, Floats, int]:
        """Compute rates, penalties, weights of users and the seed of the next step."""
        ratings, used = self._task.ratings, self._task.used
        counts, n_items = np.diff(ratings.user_offsets), ratings.item_counts
        weights = weigh_users(self._squares, counts, self._task.settings.noise_power)
        sides = (
            (used.user_factors, counts), (used.item_factors, n_items),
            (used.user_biases, counts), (used.item_biases, n_items),
        )  # fmt: skip
        # A visit counts the penalty of a row once for each of its ratings.
        p, q, b, c = (
            np.asarray(weight.each + weight.once / np.maximum(n, 1), np.float32)
            for weight, n in sides
        )
        seed = (self._task.seed * 1_000_003 + self.steps) % (1 << 64)
        # All learning rates fall together, by the factor of the fitting loop.
        rates = Rates(*(rate * learning_rate for rate in used.rates))
        return rates, Penalties(weights * p, q, weights * b, c, used.side), weights, seed


class SGD(_Descent):
    """Stochastic gradient descent, one user at a time."""

    def step(self, batch: npt.NDArray[np.int64], learning_rate: float) -> StepResult:
        ratings, known = self._task.ratings, self._task.known
        rates, penalties, weights, seed = self._plan(learning_rate)
        rows = kernels.ByUser(ratings.user_offsets, ratings.item_ids, ratings.values, weights)
        sides = None if known is None else kernels.Identities(known.offsets, known.item_ids)
        errors, _ = rating_sgd(
            rows, batch, self.tables, self._task.mean, rates, penalties, seed, sides
        )
        self._squares[batch] = errors
        self.steps += 1
        sizes = ratings.user_offsets[batch + 1] - ratings.user_offsets[batch]
        return StepResult(float(errors.sum()), float(sizes.sum()))


class Rounds(_Descent):
    """Stochastic gradient descent in rounds, on a device. A step is an epoch."""

    def __init__(self, task: Task, tables: Tables, device: str) -> None:
        super().__init__(task, tables, device)
        self._rounds = share_among_rounds(task.ratings, task.known, task.seed, device)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Visit the users of one round after another, in an order that depends on the step, and their items."""
        rates, penalties, own_weights, seed = self._plan(learning_rate)
        n_rows = (self._task.ratings.n_users, self._task.ratings.n_items) * 2
        of_rows = [
            to_device(np.full(n, each, np.float32), self._device)
            for each, n in zip(penalties[:4], n_rows, strict=True)
        ]
        weights = to_device(own_weights, self._device)
        p, q, b, c, w = self.tables
        mean, alike = self._task.mean, library(c).ones_like(c)
        users, items = (
            Side(p, b, of_rows[0], of_rows[2], weights),
            Side(q, c, of_rows[1], of_rows[3], alike),
        )
        of_users = VisitRates(_ROUND_RATE_SHARE * rates.user_factors, rates.user_biases)
        of_items = VisitRates(_ROUND_RATE_SHARE * rates.item_factors, rates.item_biases)
        # Items stay as they are while users are visited, and users while items are; then W takes its one step.
        errors, n = library(b).zeros_like(b), 0
        for k in np.random.default_rng(seed).permutation(len(self._rounds)):
            part: Round = self._rounds[k]
            known, prior = part.known, None
            if known is not None:
                prior = sparse_product(*known.by_user, w, row_scale=known.shares)
            rows = Visits(*part.by_user, part.users)
            found = rating_visits(rows, users, Others(q, c, alike), mean, of_users, seed, prior)
            x = p[part.users] if prior is None else p[part.users] + prior
            others = Others(x, b[part.users], weights[part.users])
            rating_visits(Visits(*part.by_item, part.items), items, others, mean, of_items, seed)
            if known is not None:
                shares = known.shares * rates.side
                step = sparse_product(*known.by_item, found.sums, column_scale=shares)
                many = sparse_product(*known.by_item, shares[:, None])
                # an exponential of NumPy's and torch's arrays alike
                w[known.items] = math.e ** (many * -penalties.side) * w[known.items] + step
            errors[part.users] = found.errors
            n += len(part.by_user.ids)
        self._squares[:] = to_numpy(errors)
        self.steps += 1
        return StepResult(float(errors.sum()), float(n))


class ALS(_Trainer):
    """Alternating least squares, without conditioning."""

    def __init__(self, task: Task, tables: Tables, device: str = "cpu") -> None:
        super().__init__(task, tables, device)
        ratings, used = task.ratings, task.used
        self._by_user, self._by_item = (
            DeviceCSR.of(side.to_csr(), device) for side in (ratings, ratings.by_item)
        )
        self._user_ids = to_device(ratings.user_ids, device)
        self._of_users = self._make_precision(used.user_factors, used.user_biases)
        self._of_items = self._make_precision(used.item_factors, used.item_biases)

    def _make_precision(self, factors: Weight, biases: Weight) -> Doubles:
        """Make diag(lambda, lambda_b), or diag(lambda) without biases."""
        settings, least = self._task.settings, _LEAST_ALS_PENALTY
        of_factor = max(factors.each, least * self._task.ratings.std)
        of_biases = [max(biases.each, least)] * settings.biased
        return np.diag([*[of_factor] * settings.n_factors, *of_biases])

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Make one sweep; the loss is the squared error after it."""
        p, q, b, c, _ = self.tables
        self._solve(self._by_user, (p, b), (q, c), self._of_users)
        self._solve(self._by_item, (q, c), (p, b), self._of_items)
        ratings = self._by_user
        scores = rating_scores(self._user_ids, ratings.ids, p, q, b, c, self._task.mean)
        errors = to_numpy(ratings.values - scores)
        self.steps += 1
        return StepResult(float(np.einsum("n,n->", errors, errors)), float(len(errors)))

    def _solve(
        self,
        ratings: DeviceCSR,
        own: tuple[Array, Array],
        others: tuple[Array, Array],
        precision: Doubles,
    ) -> None:
        """Solve for all rows of one side and their biases, if there are any, in place."""
        # (Q, 1)^T (Q, 1) + n diag(lambda, lambda_b) in each row, whose last unknown is the bias (Zhou et al. 2008).
        biased, width = self._task.settings.biased, own[0].shape[1]
        table = append_column(others[0], 1.0) if biased else others[0]
        targets = ratings.values - float(np.float32(self._task.mean)) - others[1][ratings.ids]
        rows = Targets(ratings.offsets, ratings.ids, targets)
        nothing = np.zeros(table.shape[1], np.float32)
        found = rating_solves(rows, table, nothing, precision, scaled=True).means
        own[0][...] = found[:, :width]
        if biased:
            own[1][...] = found[:, width]


# -- rounds ------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """The identities of the users of a round."""

    by_user: DeviceCSR
    items: Array
    by_item: DeviceCSR  # ids are places among the users
    shares: Array  # 1 / |N(u)| of each user


class Round(NamedTuple):
    """Some users and the items that they have rated, on the device, those with many ratings first."""

    users: Array
    by_user: DeviceCSR
    items: Array
    by_item: DeviceCSR  # ids are places among ``users``
    known: Known | None


def share_among_rounds(
    ratings: Ratings, identities: Identities | None, seed: int, device: str
) -> list[Round]:
    """Share the users who have ratings among rounds, randomly by ``seed``."""
    sizes, table = np.diff(ratings.user_offsets), ratings.to_csr()
    filled = np.flatnonzero(sizes)
    order = np.random.default_rng([seed, len(filled)]).permutation(filled)
    found, n, identity_table = [], _MIN_ROUNDS, None
    if identities is not None:
        ones = np.ones(len(identities.item_ids), np.float32)
        shape = identities.n_users, ratings.n_items
        identity_table = csr_array((ones, identities.item_ids, identities.offsets), shape=shape)
        shared = compute_overlap(identities, ratings.n_items) * len(filled)
        n = max(n, math.ceil(shared / _MAX_SHARED_USERS))
    for part in np.array_split(order, max(min(n, len(order)), 1)):
        users = part[np.argsort(-sizes[part], kind="stable")]
        rows = table[users]
        items, by_item = _take_filled_columns(rows)
        of_users, of_items = DeviceCSR.of(rows, device), DeviceCSR.of(by_item, device)
        numbers = to_device(users, device), to_device(items, device)
        known = None if identity_table is None else _make_known(identity_table[users], device)
        found.append(Round(numbers[0], of_users, numbers[1], of_items, known))
    return found


def _make_known(rows: csr_array, device: str) -> Known:
    """Put the identities (users, items) of the users of a round on the device."""
    items, by_item = _take_filled_columns(rows)
    shares = (1.0 / np.maximum(np.diff(rows.indptr), 1)).astype(np.float32)
    of_items = to_device(items, device), DeviceCSR.of(by_item, device)
    return Known(DeviceCSR.of(rows, device), *of_items, to_device(shares, device))


def compute_overlap(identities: Identities, n_items: int) -> float:
    """Compute the share of the users who have rated an item, on average over all rated pairs."""
    counts = np.bincount(identities.item_ids, minlength=n_items).astype(np.float64)
    return float((counts**2).sum() / max(counts.sum() * identities.n_users, 1.0))


def _take_filled_columns(table: csr_array) -> tuple[npt.NDArray[np.int64], csr_array]:
    """Return the columns that are not empty, the longest first, and the table of these columns, by column."""
    turned = table.T.tocsr()
    sizes = np.diff(turned.indptr)
    chosen = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    return chosen, turned[chosen]
