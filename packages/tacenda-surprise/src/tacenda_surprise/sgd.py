"""Training of a factorization, as the fitting loop sees it.

`SGD` visits one user after the other (Mnih 2010, sections 5.3 and 5.4.2). `ALS` solves for all users, then for
all items: with one side fixed the loss is a ridge regression for every row of the other, bias and factors
together, its penalty counted once for every rating (Zhou et al. 2008, ALS-WR).

On a device, which visits thousands of rows side by side, `Rounds` takes the steps of `SGD` in another order. Each round
visits a subset of the users, each with all of their ratings, while the items stay as they are, then all items that
these have rated while the users stay (`tacenda.kernels.ratings.visits`): each rating once from either side, in an order
in which rows can be visited at once and which no accident of timing changes. With several rounds to an epoch the two
sides grow together, as they do where every rating moves both. Here each side fits the full residual in turn, so factor
learning rates must be lower. The conditioning factors take one step after a round, with the sums g_u of the users'
visits:

    w_j = exp(-gamma lambda_w sum_u 1 / |N(u)|) w_j + gamma sum_u g_u / |N(u)|

over the users of the round with j in N(u), which is what one user after another does to first order. All of them see
the same w, so that what they have in common is corrected as often as there are users who share it, and overshoots where
these are many. With identities a round therefore has few users: see `overlap`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda import devices
from tacenda.arrays import Array, append_column, library, to_device, to_numpy
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
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.kernels.ratings import scores as rating_scores
from tacenda.kernels.ratings import sgd as rating_sgd
from tacenda.kernels.ratings import solves as rating_solves
from tacenda.kernels.ratings import visits
from tacenda.kernels.ratings.sgd import Penalties, Rates, Tables
from tacenda.kernels.ratings.visits import Side
from tacenda.kernels.shared import sparse_product
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Identities, deviation
from tacenda_surprise.factorization import (
    LEAST_PENALTY,
    START,
    FactorizationSettings,
    ResolvedOptions,
    Weight,
    user_weights,
)

Floats = npt.NDArray[np.float32]

OPERATIONS = {
    "sgd": ("rating_visits", "rating_scores", "sparse_product"),
    "als": ("rating_solves", "rating_scores"),
}
_LESS = "fewer factors (n_factors)"
_BATCH_RATINGS = 4_000_000  # a few tenths of a second: how often the bar moves and Ctrl-C is heard
# `benchmarks.ratings.rounds` tries others: more rounds change no error; with eight times as many users who share an
# item a fit diverges.
_RATE = 0.7  # of the factors, against one user after another
_ROUNDS = 8  # of an epoch, at least
_SHARED = 4.0  # users of a round who have rated the same item, on average over the ratings


class Task(NamedTuple):
    """What a factorization is trained on, and with which numbers.

    Attributes
    ----------
    settings, used, seed
        Options, the numbers that follow from them, and the seed of start and order.
    ratings, mean
        Ratings, and what is taken off every one of them.
    known
        N(u), None without conditioning.
    held_out
        The ratings that decide when to stop.
    first_epoch
        Learning rates start as low as they are in this epoch of a fit.
    """

    settings: FactorizationSettings
    used: ResolvedOptions
    seed: int
    ratings: Ratings
    mean: float
    known: Identities | None = None
    held_out: Ratings | None = None
    first_epoch: int = 0


def initial_tables(task: Task, unit: float) -> Tables:
    """Make tables of small random factors, everything else zero; ``unit`` is the deviation of the ratings."""
    settings, n_users, n_items = task.settings, task.ratings.n_users, task.ratings.n_items
    rng = np.random.default_rng(task.seed)
    width, std = settings.n_factors, settings.init_std_dev
    size = np.float32(START * (unit / max(width, 1)) ** 0.5 if std is None else std)
    mean = np.float32(settings.init_mean)
    return Tables(
        mean + rng.standard_normal((n_users, width), np.float32) * size,
        mean + rng.standard_normal((n_items, width), np.float32) * size,
        np.zeros(n_users, np.float32),
        np.zeros(n_items, np.float32),
        np.zeros((0 if task.known is None else n_items, width), np.float32),
    )


def train(task: Task, tables: Tables, run: FitRun, configuration: Mapping[str, Any]) -> History:
    """Train ``tables`` in place; their ``user_factors`` are p = x - s, without what comes from identities.

    ``configuration`` identifies the model in a checkpoint.
    """
    settings, used, ratings, known, held_out = (
        task.settings, task.used, task.ratings, task.known, task.held_out
    )  # fmt: skip
    data = ""
    if run.checkpoints is not None:
        arrays = (known.offsets, known.item_ids) if known is not None else ()
        others = "" if held_out is None else held_out.fingerprint
        data = fingerprint_arrays(arrays, ratings.fingerprint, others)
    device = devices.resolve(settings, OPERATIONS["als" if settings.by_als else "sgd"])
    if device != "cpu":
        devices.check_memory(bytes_needed(task), device, settings, _LESS)
    trained: _Trainer
    source: BatchSource
    if settings.by_als:
        trained, source = ALS(task, tables, device), Sweeps()
    elif device != "cpu":
        with devices.out_of_memory(settings, _LESS):
            trained = Rounds(task, tables, device)
        source = Sweeps(ratings.fingerprint if data else "")
    else:
        trained = SGD(task, tables)
        source = BlockBatches(
            ratings.user_offsets, batch_size=_BATCH_RATINGS, seed=task.seed + task.first_epoch
        )
    identifying = {**configuration, **used.to_dict()}
    del identifying["epochs"], identifying["n_epochs"]  # more may follow
    with devices.out_of_memory(settings, _LESS):
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
            {"data": data, **identifying},
        )
    for table, found in zip(tables, trained.tables, strict=True):
        if found is not table:
            table[...] = to_numpy(found)
    return history


def bytes_needed(task: Task) -> int:
    """Return the bytes that training takes on a device: tables, ratings from both sides, and what a step makes."""
    ratings, known = task.ratings, task.known
    rows, width = ratings.n_users + ratings.n_items, task.settings.n_factors + 1
    if task.settings.by_als:
        of_solves = rating_solves.bytes_needed(rows, len(ratings), width)
        return 8 * rows * width + 20 * len(ratings) + of_solves
    sides = 0 if known is None else len(known.item_ids) + ratings.n_items * width
    return 12 * rows * width + 20 * len(ratings) + 16 * sides


class _Trainer(Trainer):
    """Tables under training, on a device, which are changed in place."""

    def __init__(self, task: Task, tables: Tables, device: str = "cpu") -> None:
        self.tables = Tables(*(to_device(table, device) for table in tables))
        self.learned = self.tables._asdict()
        self._task, self._device = task, device

    def scores(self, ratings: Ratings) -> Floats:
        """Scores of the pairs of ``ratings``, not clipped."""
        p, q, b, c, w = self.tables
        known, mean = self._task.known, self._task.mean
        x = p if known is None else p + known.means(w, self._device)
        found = rating_scores.scores(ratings.user_ids, ratings.item_ids, x, q, b, c, mean)
        return np.asarray(to_numpy(found))

    def evaluate(self) -> float | None:
        """RMSE on the ratings held out."""
        held_out = self._task.held_out
        if held_out is None:
            return None
        scores = np.clip(self.scores(held_out), *held_out.scale)
        return float(np.sqrt(np.mean((scores - held_out.values) ** 2, dtype=np.float64)))


class _Descent(_Trainer):
    """Visits of users, whose ratings weigh the less the larger their errors were.

    Where a fit goes on, the errors of the tables that it starts from are known.
    """

    def __init__(self, task: Task, tables: Tables, device: str = "cpu") -> None:
        super().__init__(task, tables, device)
        ratings = task.ratings
        self._squares: npt.NDArray[Any] = np.diff(ratings.user_offsets) * deviation(ratings) ** 2
        if task.first_epoch and task.settings.noise_power:
            errors = (ratings.values - self.scores(ratings)).astype(np.float64)
            self._squares = np.bincount(ratings.user_ids, errors**2, ratings.n_users)
        self.rest = {"squares": self._squares}

    def _plan(self, learning_rate: float) -> tuple[Rates, Penalties, Floats, int]:
        """Rates, penalties, weights of users and the seed of the next step."""
        ratings, used = self._task.ratings, self._task.used
        counts, power = np.diff(ratings.user_offsets), self._task.settings.noise_power
        weights = user_weights(self._squares, counts, power)
        seed = (self._task.seed * 1_000_003 + self.steps) % (1 << 64)
        self.steps += 1
        # All rates fall together: that of the loop says how far.
        rates = Rates(*(rate * learning_rate for rate in used.rates))
        return rates, used.penalties(ratings, weights), weights, seed


class SGD(_Descent):
    """Stochastic gradient descent, one user at a time."""

    def step(self, batch: npt.NDArray[np.int64], learning_rate: float) -> StepResult:
        """Visit the users of ``batch`` once."""
        ratings, known = self._task.ratings, self._task.known
        rates, penalties, weights, seed = self._plan(learning_rate)
        errors, _ = rating_sgd.epoch(
            ratings.user_offsets,
            ratings.item_ids,
            ratings.values,
            batch,
            self.tables,
            self._task.mean,
            rates,
            penalties,
            seed,
            None if known is None else known.offsets,
            None if known is None else known.item_ids,
            weights,
        )
        self._squares[batch] = errors
        sizes = ratings.user_offsets[batch + 1] - ratings.user_offsets[batch]
        return StepResult(float(errors.sum()), float(sizes.sum()))


class Rounds(_Descent):
    """The same in rounds, on a device. A step is an epoch."""

    def __init__(self, task: Task, tables: Tables, device: str) -> None:
        super().__init__(task, tables, device)
        self._rounds = make_rounds(task.ratings, task.known, task.seed, device)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Visit all users and items once, in rounds whose order depends on the step."""
        rates, penalties, own_weights, seed = self._plan(learning_rate)
        penalties = _spread_out(penalties, self._task.ratings, self._device)
        weights = to_device(own_weights, self._device)
        p, q, b, c, w = self.tables
        mean, alike = self._task.mean, library(c).ones_like(c)
        users, items = (
            Side(p, b, penalties.user_factors, penalties.user_biases, weights),
            Side(q, c, penalties.item_factors, penalties.item_biases, alike),
        )
        of_users = _RATE * rates.user_factors, rates.user_biases
        of_items = _RATE * rates.item_factors, rates.item_biases
        errors, n = library(b).zeros_like(b), 0
        for k in np.random.default_rng(seed).permutation(len(self._rounds)):
            part: Round = self._rounds[k]
            known, prior = part.known, None
            if known is not None:
                prior = sparse_product.multiply(*known.by_user, w, row_scale=known.shares)
            found = visits.visit(
                *part.by_user, part.users, users, q, c, alike, mean, of_users, seed, prior
            )
            x = p[part.users] if prior is None else p[part.users] + prior
            others = x, b[part.users], weights[part.users]
            visits.visit(*part.by_item, part.items, items, *others, mean, of_items, seed)
            if known is not None:
                shares = known.shares * rates.side
                step = sparse_product.multiply(*known.by_item, found.sums, column_scale=shares)
                many = sparse_product.multiply(*known.by_item, shares[:, None])
                w[known.items] = math.e ** (many * -penalties.side) * w[known.items] + step
            errors[part.users] = found.errors
            n += len(part.by_user.ids)
        self._squares[:] = to_numpy(errors)
        return StepResult(float(errors.sum()), float(n))


class ALS(_Trainer):
    """Alternating least squares, without conditioning."""

    def __init__(self, task: Task, tables: Tables, device: str = "cpu") -> None:
        super().__init__(task, tables, device)
        ratings, used, settings = task.ratings, task.used, task.settings
        self._by_user, self._by_item = (
            Pieces(
                side.user_offsets, to_device(side.item_ids, device), to_device(side.values, device)
            )
            for side in (ratings, ratings.by_item)
        )
        self._user_ids = to_device(ratings.user_ids, device)
        # Without biases the weight is so large that they stay at zero.
        none = Weight(1e12)
        self._of_users, self._of_items = (
            np.diag(
                np.append(
                    np.full(settings.n_factors, max(factors.each, LEAST_PENALTY)),
                    max((bias if settings.biased else none).each, LEAST_PENALTY),
                )
            )
            for factors, bias in (
                (used.user_factors, used.user_biases),
                (used.item_factors, used.item_biases),
            )
        )

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Make one sweep; the loss is the squared error after it."""
        p, q, b, c, _ = self.tables
        self._solve(self._by_user, (p, b), (q, c), self._of_users)
        self._solve(self._by_item, (q, c), (p, b), self._of_items)
        ratings = self._by_user
        scores = rating_scores.scores(self._user_ids, ratings.ids, p, q, b, c, self._task.mean)
        errors = to_numpy(ratings.values - scores)
        self.steps += 1
        return StepResult(float(np.einsum("n,n->", errors, errors)), float(len(errors)))

    def _solve(
        self,
        ratings: Pieces,
        own: tuple[Array, Array],
        others: tuple[Array, Array],
        precision: npt.NDArray[np.float64],
    ) -> None:
        """Solve for all rows of one side and their biases, in place."""
        table = append_column(others[0], 1.0)
        targets = ratings.values - float(np.float32(self._task.mean)) - others[1][ratings.ids]
        found = rating_solves.solve(
            ratings.offsets, ratings.ids, targets, table,
            np.zeros(table.shape[1], np.float32), precision, scaled=True,
        )  # fmt: skip
        own[0][...], own[1][...] = found[:, :-1], found[:, -1]


# -- rounds ------------------------------------------------------------------------------------------


class Pieces(NamedTuple):
    """The entries of a sparse table, row after row: ids and values on the device."""

    offsets: npt.NDArray[np.int64]  # (rows + 1,)
    ids: Array
    values: Array

    @classmethod
    def of(cls, table: csr_array, device: str) -> Pieces:
        """Put a table there."""
        parts = table.indices.astype(np.int32), table.data.astype(np.float32)
        return cls(table.indptr.astype(np.int64), *(to_device(part, device) for part in parts))


class Known(NamedTuple):
    """The identities of the users of a round."""

    by_user: Pieces
    items: Array
    by_item: Pieces  # ids are places among the users
    shares: Array  # 1 / |N(u)| of each user


class Round(NamedTuple):
    """Some users and the items that they have rated, on the device, those with many ratings first."""

    users: Array
    by_user: Pieces
    items: Array
    by_item: Pieces  # ids are places among ``users``
    known: Known | None


def make_rounds(
    ratings: Ratings, identities: Identities | None, seed: int, device: str
) -> list[Round]:
    """Share the users who have ratings among rounds, in an order that depends on ``seed``."""
    sizes, table = np.diff(ratings.user_offsets), ratings.to_csr()
    filled = np.flatnonzero(sizes)
    order = np.random.default_rng([seed, len(filled)]).permutation(filled)
    found, n, own = [], _ROUNDS, None
    if identities is not None:
        ones = np.ones(len(identities.item_ids), np.float32)
        shape = identities.n_users, ratings.n_items
        own = csr_array((ones, identities.item_ids, identities.offsets), shape=shape)
        n = max(n, math.ceil(overlap(identities, ratings.n_items) * len(filled) / _SHARED))
    for part in np.array_split(order, max(min(n, len(order)), 1)):
        users = part[np.argsort(-sizes[part], kind="stable")]
        items, by_item = _columns(table[users])
        of_users, of_items = (Pieces.of(side, device) for side in (table[users], by_item))
        known = None if own is None else _find_known(own[users], device)
        found.append(
            Round(to_device(users, device), of_users, to_device(items, device), of_items, known)
        )
    return found


def overlap(identities: Identities, n_items: int) -> float:
    """The part of the users who have rated an item that another user has rated, on average over such items."""
    counts = np.bincount(identities.item_ids, minlength=n_items).astype(np.float64)
    return float((counts**2).sum() / max(counts.sum() * identities.n_users, 1.0))


def _find_known(own: csr_array, device: str) -> Known:
    """The identities of some users, a row each."""
    items, by_item = _columns(own)
    shares = (1.0 / np.maximum(np.diff(own.indptr), 1)).astype(np.float32)
    by_user, of_items = (Pieces.of(side, device) for side in (own, by_item))
    return Known(by_user, to_device(items, device), of_items, to_device(shares, device))


def _spread_out(given: Penalties, ratings: Ratings, device: str) -> Penalties:
    """Penalties of every row, on the device."""
    rows = (ratings.n_users, ratings.n_items) * 2
    found = [
        to_device(np.ascontiguousarray(np.broadcast_to(np.asarray(each, np.float32), (n,))), device)
        for each, n in zip(given[:4], rows, strict=True)
    ]
    return Penalties._make([*found, given.side])


def _columns(table: csr_array) -> tuple[npt.NDArray[np.int64], csr_array]:
    """The columns that are not empty, the longest first, and the table of these columns, by column."""
    turned = table.T.tocsr()
    sizes = np.diff(turned.indptr)
    chosen = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    return chosen, turned[chosen]
