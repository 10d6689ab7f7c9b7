"""Training of a factorization: two trainers, as the fitting loop sees them, and one fit with either.

`SGD` visits one user after the other (Mnih 2010, sections 5.3 and 5.4.2). `ALS` solves for all users, then for
all items: with one side fixed the loss is a ridge regression for every row of the other, bias and factors
together, its penalty counted once for every rating (Zhou et al. 2008, ALS-WR). On a device `Rounds` takes the steps of
`SGD` in another order, by which thousands of users are visited at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.arrays import Array, append_column, assign, to_device, to_numpy
from tacenda.fitting import (
    BatchSource,
    BlockBatches,
    FitSettings,
    History,
    StepDecay,
    StepResult,
    Sweeps,
    Trainer,
)
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.kernels.ratings import scores as rating_scores
from tacenda.kernels.ratings import sgd as rating_sgd
from tacenda.kernels.ratings import solves as rating_solves
from tacenda.kernels.ratings.sgd import Penalties, Rates, Tables
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats, Loop
from tacenda_surprise.models.catalogue import deviation
from tacenda_surprise.models.factorization import rounds
from tacenda_surprise.models.factorization.defaults import (
    LEAST_PENALTY,
    START,
    Used,
    Weight,
    user_weights,
)
from tacenda_surprise.models.factorization.settings import FactorizationSettings
from tacenda_surprise.models.identities import Identities

Arrays = Mapping[str, npt.NDArray[Any]]

OPERATIONS = {
    "sgd": ("rating_visits", "rating_scores", "sparse_product"),
    "als": ("rating_solves", "rating_scores"),
}
_LESS = "fewer factors (n_factors)"
_BATCH_RATINGS = 4_000_000  # a few tenths of a second: how often the bar moves and Ctrl-C is heard


def initial_tables(
    settings: FactorizationSettings, n_users: int, n_items: int, unit: float, *, conditional: bool
) -> Tables:
    """Make tables of small random factors, everything else zero; ``unit`` is the deviation of the ratings."""
    rng = np.random.default_rng(settings.seed)
    width, std = settings.n_factors, settings.advanced.init_std
    size = np.float32(START * (unit / max(width, 1)) ** 0.5 if std is None else std)
    mean = np.float32(settings.advanced.init_mean)
    return Tables(
        mean + rng.standard_normal((n_users, width), np.float32) * size,
        mean + rng.standard_normal((n_items, width), np.float32) * size,
        np.zeros(n_users, np.float32),
        np.zeros(n_items, np.float32),
        np.zeros((n_items if conditional else 0, width), np.float32),
    )


def train(
    name: str,
    settings: FactorizationSettings,
    used: Used,
    loop: Loop,
    ratings: Ratings,
    tables: Tables,
    mean: float,
    known: Identities | None,
    held_out: Ratings | None = None,
    first_epoch: int = 0,
) -> History:
    """Train ``tables`` in place; their ``user_factors`` are p = x - s, without what comes from identities.

    A checkpoint records ``name``; ``mean`` is taken off every rating; ``known`` is N(u), None without
    conditioning; the ratings ``held_out`` decide when to stop; learning rates start as low as they are in
    ``first_epoch`` of a fit.
    """
    data = ""
    if loop.checkpoints is not None:
        arrays = (known.offsets, known.item_ids) if known is not None else ()
        others = "" if held_out is None else held_out.fingerprint
        data = fingerprint_arrays(arrays, ratings.fingerprint, others)
    device = devices.resolve(settings, OPERATIONS[settings.solver])
    if device != "cpu":
        devices.check_memory(bytes_needed(settings, ratings, known), device, settings, _LESS)
    trained: _Trainer
    source: BatchSource
    arguments = settings, used, ratings, tables, mean
    if settings.solver == "als":
        trained, source = ALS(*arguments, held_out, device), Sweeps()
    elif device != "cpu":
        with devices.out_of_memory(settings, _LESS):
            trained = Rounds(*arguments, known, held_out, first_epoch > 0, device)
        source = Sweeps(ratings.fingerprint if data else "")
    else:
        trained = SGD(*arguments, known, held_out, first_epoch > 0)
        source = BlockBatches(
            ratings.user_offsets, batch_size=_BATCH_RATINGS, seed=settings.seed + first_epoch
        )
    identifying = {**devices.without_device(settings), **used.to_dict()}
    del identifying["epochs"]
    with devices.out_of_memory(settings, _LESS):
        history = loop.run(
            trained,
            source,
            FitSettings(
                epochs=used.epochs,
                learning_rate=StepDecay(used.decay**first_epoch, used.decay, 1),
                evaluate_every=1 if held_out else 0,
                patience=(settings.patience or max(used.epochs // 3, 1)) if held_out else None,
                restore_best=held_out is not None,
            ),
            {"model": name, "data": data, **identifying},
        )
    for table, found in zip(tables, trained.tables, strict=True):
        if found is not table:
            table[...] = to_numpy(found)
    return history


def bytes_needed(
    settings: FactorizationSettings, ratings: Ratings, known: Identities | None
) -> int:
    """Return the bytes that training takes on a device: tables, ratings from both sides, and what a step makes."""
    rows, width = ratings.n_users + ratings.n_items, settings.n_factors + 1
    if settings.solver == "als":
        of_solves = rating_solves.bytes_needed(rows, len(ratings), width)
        return 8 * rows * width + 20 * len(ratings) + of_solves
    sides = 0 if known is None else len(known.item_ids) + ratings.n_items * width
    return 12 * rows * width + 20 * len(ratings) + 16 * sides


class _Trainer(Trainer):
    """What the fitting loop asks of tables under training, which are changed in place."""

    def __init__(
        self,
        tables: Tables,
        mean: float,
        held_out: Ratings | None,
        identities: Identities | None = None,
        device: str = "cpu",
    ) -> None:
        self.tables = Tables(*(to_device(table, device) for table in tables))
        self._mean, self._held_out, self._identities = mean, held_out, identities
        self._steps, self._device = 0, device

    def scores(self, ratings: Ratings) -> Floats:
        """Scores of the pairs of ``ratings``, not clipped."""
        p, q, b, c, w = self.tables
        x = p if self._identities is None else p + self._identities.means(w, self._device)
        found = rating_scores.scores(ratings.user_ids, ratings.item_ids, x, q, b, c, self._mean)
        return np.asarray(to_numpy(found))

    def evaluate(self) -> float | None:
        """RMSE on the ratings held out."""
        held_out = self._held_out
        if held_out is None:
            return None
        scores = np.clip(self.scores(held_out), *held_out.scale)
        return float(np.sqrt(np.mean((scores - held_out.values) ** 2, dtype=np.float64)))

    def parameters(self) -> Mapping[str, npt.NDArray[Any]]:
        """The tables."""
        return {name: to_numpy(table) for name, table in self.tables._asdict().items()}

    def load_parameters(self, parameters: Arrays) -> None:
        """Put tables back, in place."""
        for name, table in self.tables._asdict().items():
            if parameters[name].shape != tuple(table.shape):
                shape = tuple(table.shape)
                raise ValueError(f"{name} is {parameters[name].shape} and must be {shape}")
            assign(table, parameters[name])

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Tables and the number of steps, on which the order of the ratings depends."""
        return {**self.parameters(), "steps": np.array(self._steps)}

    def load_state(self, state: Arrays) -> None:
        """Put back what `state` gave."""
        self.load_parameters(state)
        self._steps = int(state["steps"])


class _Descent(_Trainer):
    """What `SGD` and `Rounds` share: they visit users, whose ratings weigh the less the larger their errors were.

    See `train` for the arguments. Where a fit goes on, the errors of the tables that it starts from are known.
    """

    def __init__(
        self,
        settings: FactorizationSettings,
        used: Used,
        ratings: Ratings,
        tables: Tables,
        mean: float,
        identities: Identities | None,
        held_out: Ratings | None,
        goes_on: bool,
        device: str = "cpu",
    ) -> None:
        super().__init__(tables, mean, held_out, identities, device)
        self._settings, self._used, self._ratings = settings, used, ratings
        self._squares: npt.NDArray[Any] = np.diff(ratings.user_offsets) * deviation(ratings) ** 2
        if goes_on and settings.advanced.noise_power:
            errors = (ratings.values - self.scores(ratings)).astype(np.float64)
            self._squares = np.bincount(ratings.user_ids, errors**2, ratings.n_users)

    def _plan(self, learning_rate: float) -> tuple[Rates, Penalties, Floats, int]:
        """Rates, penalties, weights of users and the seed of the next step."""
        counts, power = np.diff(self._ratings.user_offsets), self._settings.advanced.noise_power
        weights = user_weights(self._squares, counts, power)
        seed = (self._settings.seed * 1_000_003 + self._steps) % (1 << 64)
        self._steps += 1
        # All rates fall together: that of the loop says how far.
        rates = Rates(*(rate * learning_rate for rate in self._used.rates))
        return rates, self._used.penalties(self._ratings, weights), weights, seed

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Tables, the number of steps, on which the order of the ratings depends, and the users' errors."""
        return {**super().state(), "squares": self._squares}

    def load_state(self, state: Arrays) -> None:
        """Put back what `state` gave."""
        super().load_state(state)
        self._squares = state["squares"].copy()


class SGD(_Descent):
    """Stochastic gradient descent, one user at a time."""

    def step(self, batch: npt.NDArray[np.int64], learning_rate: float) -> StepResult:
        """Visit the users of ``batch`` once."""
        ratings, known = self._ratings, self._identities
        rates, penalties, weights, seed = self._plan(learning_rate)
        errors, _ = rating_sgd.epoch(
            ratings.user_offsets,
            ratings.item_ids,
            ratings.values,
            batch,
            self.tables,
            self._mean,
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
    """The same by `rounds`, on a device. A step is an epoch."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        seed = self._settings.seed
        self._rounds = rounds.rounds(self._ratings, self._identities, seed, self._device)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Visit all users and items once."""
        rates, penalties, weights, seed = self._plan(learning_rate)
        errors, found = rounds.epoch(
            self._rounds,
            self.tables,
            self._mean,
            rates,
            rounds.penalties(penalties, self._ratings, self._device),
            to_device(weights, self._device),
            seed,
        )
        self._squares = to_numpy(errors).astype(np.float64)
        return found


class ALS(_Trainer):
    """Alternating least squares, without conditioning; see `train` for the arguments."""

    def __init__(
        self,
        settings: FactorizationSettings,
        used: Used,
        ratings: Ratings,
        tables: Tables,
        mean: float,
        held_out: Ratings | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(tables, mean, held_out, device=device)
        self._by_user, self._by_item = (
            rounds.Pieces(
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
        self._solve(self._by_user, p, b, q, c, self._of_users)
        self._solve(self._by_item, q, c, p, b, self._of_items)
        ratings = self._by_user
        scores = rating_scores.scores(self._user_ids, ratings.ids, p, q, b, c, self._mean)
        errors = to_numpy(ratings.values - scores)
        self._steps += 1
        return StepResult(float(np.einsum("n,n->", errors, errors)), float(len(errors)))

    def _solve(
        self,
        ratings: rounds.Pieces,
        x: Array,
        bias: Array,
        others: Array,
        other_bias: Array,
        precision: npt.NDArray[np.float64],
    ) -> None:
        """Solve for all rows of ``x`` and their biases, in place."""
        table = append_column(others, 1.0)
        targets = ratings.values - float(np.float32(self._mean)) - other_bias[ratings.ids]
        found = rating_solves.solve(
            ratings.offsets, ratings.ids, targets, table,
            np.zeros(table.shape[1], np.float32), precision, scaled=True,
        )  # fmt: skip
        x[...], bias[...] = found[:, :-1], found[:, -1]
