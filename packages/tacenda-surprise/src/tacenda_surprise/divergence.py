"""Training of a machine by contrastive divergence, as the fitting loop sees it (Mnih 2010, section 5.2.1).

`ContrastiveDivergence` follows the gradients of minibatches with Adam. `OnlineDivergence` takes a plain step after
every case, as the thesis does (section 5.4.2). Visible units that come later are solved for one by one: a small
penalized regression on the hidden units of the cases that they have ratings with, with the penalties that training
has. It is convex and takes a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tacenda import devices
from tacenda.arrays import Array, Arrays, Float32, to_device, to_numpy
from tacenda.fitting import (
    Adam,
    ArrayBatches,
    BatchSource,
    BlockBatches,
    Callback,
    FitLoop,
    FitRun,
    FitSettings,
    History,
    StepDecay,
    StepResult,
    Trainer,
    fit,
)
from tacenda.kernels.ratings import boltzmann as rating_boltzmann
from tacenda.ratings import Ratings
from tacenda_surprise.boltzmann import Cases, Machine, RBMSettings, Scale, sides, softmax, squash
from tacenda_surprise.catalogue import Identities

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.integer[Any]]

OPERATIONS = {
    "adam": ("boltzmann_divergence", "sparse_product", "adam_steps"),
    "sgd": ("boltzmann_descent", "sparse_product"),
}
_START = 0.01  # standard deviation of the first weights
_LEAST_EPOCHS = 10  # after which weights are given up
_FADED = 0.5  # that are so much smaller than at first
_RUN_RATINGS = 1_000_000  # a second or two: how often the bar moves and Ctrl-C is heard
_LESS = "fewer hidden units (n_hidden) or smaller minibatches (batch_cases)"


_BIAS_PENALTY = 1.0  # of a visible unit that is solved for


class Learned(Arrays):
    """Parameters under training, which are changed in place; `Machine` has more."""

    weights: Float32[Array, "visible *weights"]
    visible_biases: Float32[Array, "visible levels"]
    hidden_biases: Float32[Array, "hidden"]
    side_weights: Float32[Array, "sides hidden"]


class Task(NamedTuple):
    """What a machine is trained on.

    Attributes
    ----------
    settings, seed
        Options, and the seed of start, order and sampling.
    scale, ratings
        Ratings by user, and the scores of their levels.
    known
        The identities of all users, None without conditioning.
    held_out
        The ratings that decide when to stop.
    start, passed
        The machine from which training goes on, and how many epochs of the schedule of the learning rate are over.
    """

    settings: RBMSettings
    seed: int
    scale: Scale
    ratings: Ratings
    known: Identities | None
    held_out: Ratings | None = None
    start: Machine | None = None
    passed: int = 0


class _Trainer(Trainer):
    """A machine under training; with identities in the cases it learns weights for them.

    Parameters and the numbers of the data are on ``device``. ``start`` has rows for all visible units of the cases.
    """

    learned: Learned

    def __init__(
        self, task: Task, cases: Cases, start: Machine | None = None, device: str = "cpu"
    ) -> None:
        settings = self._settings = task.settings
        self._task, self._cases, self._scale, self._device = task, cases, task.scale, device
        rng = np.random.default_rng(task.seed)
        visible, levels = cases.visible_biases.shape
        hidden, known = settings.n_hidden, cases.identities
        shape = (visible, hidden) if settings.ordinal else (visible, levels, hidden)
        learned = Learned(
            rng.standard_normal(shape, np.float32) * np.float32(_START),
            cases.visible_biases.copy(),
            np.zeros(hidden, np.float32),
            np.zeros((0 if known is None else visible, hidden), np.float32),
        )
        if start is not None:
            for name, own in learned.items():
                own[...] = getattr(start, name)
        self.learned = learned.to(device)
        self._ids, self._levels, self._scores, self._slopes = (
            to_device(part, device)
            for part in (cases.ratings.item_ids, cases.levels, self._scale.scores, cases.slopes)
        )
        self._known_ids = None if known is None else to_device(known.item_ids, device)
        self._side_penalty = 0.0 if known is None else settings.side_penalty_for(cases.ratings)
        n_chains = cases.ratings.n_users if settings.persistent else 0
        self._chains = to_device(np.full((n_chains, hidden), 0.5, np.float32), device)
        self.rest: dict[str, Any] = {"chains": self._chains}

    def _given(self, numbers: npt.NDArray[np.int64], *more: Any) -> tuple[Any, ...]:
        """The arguments of the kernels for the cases of these numbers, ``more`` being those of one of them."""
        ratings, known = self._cases.ratings, self._cases.identities
        return (
            ratings.user_offsets,
            self._ids,
            self._levels,
            numbers,
            *(part for _, part in self.learned.items()),
            self._scores,
            self._slopes,
            self._settings.gibbs_steps,
            self._task.seed * 1_000_003 + self.steps,
            *more,
            None if known is None else known.offsets,
            self._known_ids,
            self._chains if self._settings.persistent else None,
        )

    def _result(self, numbers: npt.NDArray[np.int64], error: float) -> StepResult:
        """Errors in units of the ratings, and how many ratings they are of."""
        offsets = self._cases.ratings.user_offsets
        sizes = offsets[numbers + 1] - offsets[numbers]
        return StepResult(error * self._scale.unit**2, float(max(sizes.sum(), 1)))

    def machine(self) -> Machine:
        """Return the machine as it is now."""
        cases, learned = self._cases, self.learned.to_numpy().copy()
        start = Machine(
            **dict(learned.items()),
            slopes=cases.slopes,
            base=cases.base,
            inputs=np.empty((0, self._settings.n_hidden), np.float32),
        )
        inputs = start.hidden_inputs(
            cases.ratings, cases.levels, self._scale, cases.identities, self._device
        )
        return replace(start, inputs=inputs)

    @property
    def faded(self) -> bool:
        """Whether the weights have become smaller than they were at first, weighted by ratings.

        A penalty of few ratings for each user and item leaves nothing of them, unless something common to many
        stands out, and that grows within a few epochs.
        """
        weights = to_numpy(self.learned.weights)
        squares = np.square(weights).reshape(len(weights), -1).mean(axis=1)
        counts = self._cases.ratings.item_counts
        mean = float(squares @ counts) / max(int(counts.sum()), 1)
        return bool(mean**0.5 < _FADED * _START)

    def forget(self) -> None:
        """Set the weights to zero: the machine predicts by its biases and slopes."""
        self.learned.weights[...] = 0.0
        self.learned.side_weights[...] = 0.0

    def evaluate(self) -> float | None:
        """RMSE on the ratings held out."""
        held_out = self._task.held_out
        if held_out is None:
            return None
        pairs = sides(self._settings, held_out.user_ids, held_out.item_ids)
        return self.machine().rmse(*pairs, self._scale, held_out.values)


class ContrastiveDivergence(_Trainer):
    """Minibatches of cases, and Adam."""

    def __init__(
        self, task: Task, cases: Cases, start: Machine | None = None, device: str = "cpu"
    ) -> None:
        super().__init__(task, cases, start, device)
        self._usual = to_device(cases.visible_biases, device)
        penalties = {"weights": cases.penalty}
        if cases.identities is not None:
            penalties["side_weights"] = self._side_penalty
        self._adam = self.rest["adam"] = Adam(weight_decay=penalties, device=device)
        self._n_filled = max(int(np.count_nonzero(np.diff(cases.ratings.user_offsets))), 1)

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        """Update the parameters once, from the cases of ``batch``."""
        (numbers,) = batch
        own = dict(self.learned.items())
        found = rating_boltzmann.divergence(*self._given(numbers))
        self.steps += 1
        gradients = {name: getattr(found, name) for name in own}
        for gradient in gradients.values():
            gradient /= -len(numbers)
        # Ratings at the expected value hold the visible biases where they began.
        held = float(np.float32(self._cases.damping / self._n_filled))
        gradients["visible_biases"] += held * (own["visible_biases"] - self._usual)
        if not len(own["side_weights"]):
            del gradients["side_weights"]
        self._adam.update(own, gradients, learning_rate)
        return self._result(numbers, found.error)


class OnlineDivergence(_Trainer):
    """A plain step after every case, with penalties on all parameters; the arguments are those of `_Trainer`."""

    def step(self, batch: npt.NDArray[np.int64], learning_rate: float) -> StepResult:
        """Update the parameters after each case of ``batch``; rates of biases fall as that of the weights does."""
        settings = self._settings
        falling = learning_rate / settings.lr_all if settings.lr_all else 1.0
        descent = rating_boltzmann.Descent(
            learning_rate,
            settings.lr_bias * falling,
            self._cases.penalty,
            settings.reg_bias,
            self._side_penalty,
        )
        given = self._given(batch, descent)
        self.steps += 1
        if not descent.shrinks:  # the penalty alone makes parameters larger with every step
            return self._result(batch, np.inf)
        error, _ = rating_boltzmann.descend(*given)
        return self._result(batch, error)


class _GiveUp(Callback):
    """Ends a fit in which nothing but biases and slopes is learned, rather than to go on with noise."""

    def on_epoch_end(self, run: FitLoop) -> bool | None:
        """End the fit, with weights of zero, once they have had time to grow and have faded."""
        trained = run.model
        assert isinstance(trained, _Trainer)
        if run.epoch < _LEAST_EPOCHS or not trained.faded:
            return None
        trained.forget()
        return True


def train(
    task: Task, run: FitRun, epochs: int, configuration: Mapping[str, Any]
) -> tuple[Machine, History]:
    """Train a machine on the cases that have ratings; ``configuration`` identifies it in a checkpoint.

    Where training goes on from a machine, visible units that it lacks are solved for.
    """
    settings, scale, held_out = task.settings, task.scale, task.held_out
    cases = Cases.of(settings, scale, task.ratings, task.known)
    start = None if task.start is None else _extend(task.start, scale, cases)
    device = devices.resolve(settings, OPERATIONS[settings.optimizer])
    if device != "cpu":
        devices.check_memory(bytes_needed(settings, cases), device, settings, _LESS)
    source = _make_source(task, cases)
    trainer = OnlineDivergence if settings.optimizer == "sgd" else ContrastiveDivergence
    with devices.out_of_memory(settings, _LESS):
        trained = trainer(task, cases, start, device)
    decay, stopping = settings.lr_decay, held_out is not None
    if settings.reg_all is None:
        run = replace(run, callbacks=(*run.callbacks, _GiveUp()))
    data: list[str] = []
    if run.checkpoints is not None:
        # The batches are numbers of cases: without these a checkpoint of other ratings would pass for ours.
        side = cases.identities
        digest = "" if side is None else side.fingerprint()
        data = ["" if held_out is None else held_out.fingerprint, cases.ratings.fingerprint, digest]
    with devices.out_of_memory(settings, _LESS):
        history = fit(
            trained,
            source,
            FitSettings(
                epochs=epochs,
                learning_rate=StepDecay(settings.lr_all * decay**task.passed, decay, 1),
                evaluate_every=1 if stopping else 0,
                patience=settings.patience if stopping else None,
                restore_best=stopping,
            ),
            run,
            {"conditional": cases.identities is not None, "data": data, **configuration},
        )
        return trained.machine(), history


def _make_source(task: Task, cases: Cases) -> BatchSource:
    """The cases that have ratings, in minibatches for Adam, in long runs for plain steps."""
    settings, offsets = task.settings, cases.ratings.user_offsets
    if settings.optimizer == "sgd":
        return BlockBatches(offsets, batch_size=_RUN_RATINGS, seed=task.seed)
    filled = np.flatnonzero(np.diff(offsets))
    return ArrayBatches(filled, batch_size=settings.batch_size(len(filled)), seed=task.seed)


def bytes_needed(settings: RBMSettings, cases: Cases) -> int:
    """Return the bytes that training takes on a device: parameters with Adam's averages, data, and a minibatch."""
    (visible, levels), hidden = cases.visible_biases.shape, settings.n_hidden
    sizes = np.diff(cases.ratings.user_offsets)
    batch = settings.batch_size(int(np.count_nonzero(sizes)))
    largest = int(np.sort(sizes)[-batch:].sum())
    rows = visible * (1 if settings.ordinal else levels)
    known = 0
    if cases.identities is not None:
        rows, known = rows + visible, len(cases.identities.item_ids)
    step = largest * (100 + 8 * levels) + 24 * batch * hidden
    parameters = rows * hidden + visible * levels
    return int(24 * parameters + 8 * len(cases.levels) + 4 * known + step)


# -- visible units that come later --------------------------------------------------------------------


def solve_visible(
    machine: Machine,
    scale: Scale,
    activations: Floats,
    cases: Numbers,
    levels: npt.NDArray[np.int32],
    penalty: float,
) -> tuple[Floats, Floats]:
    """Solve for biases (levels,) and weights, (hidden,) or (levels, hidden), of a visible unit.

    They maximize the probability of its ratings given ``activations`` (cases, hidden), eq 5.11, less half of
    ``penalty`` times the squared weights.
    """
    s, base = scale.scores.astype(np.float64), machine.base.astype(np.float64)
    X, o = activations[cases].astype(np.float64), machine.slopes[cases].astype(np.float64)
    shape, n_biases, n = machine.weights.shape[1:], len(base), len(cases)
    tied = len(shape) == 1
    fixed = base + s * o[:, None]

    def loss(theta: Doubles) -> tuple[float, Doubles]:
        b, w = theta[:n_biases], theta[n_biases:]
        along = (X @ w)[:, None] * s if tied else X @ w.reshape(shape).T
        chances = softmax(fixed + b + along).astype(np.float64)
        value = -np.log(np.maximum(chances[np.arange(n), levels], 1e-30)).sum()
        wrong = chances.copy()
        wrong[np.arange(n), levels] -= 1.0
        d_w = X.T @ (wrong @ s) if tied else (wrong.T @ X).ravel()
        value += 0.5 * (_BIAS_PENALTY * b @ b + penalty * w @ w)
        return value, np.concatenate([wrong.sum(axis=0) + _BIAS_PENALTY * b, d_w + penalty * w])

    theta = np.zeros(n_biases + int(np.prod(shape)))
    if n:
        theta = minimize(loss, theta, jac=True, method="L-BFGS-B").x
    b, w = base + theta[:n_biases], theta[n_biases:].reshape(shape)
    return b.astype(np.float32), w.astype(np.float32)


def penalty_of(penalty: float, n_cases: int) -> float:
    """The penalty of one visible unit beside the likelihood of all its ratings; fits count it a case."""
    return max(penalty * n_cases, 1e-3)


def _extend(machine: Machine, scale: Scale, cases: Cases) -> Machine:
    """Add rows for visible units of ``cases`` that the machine does not have, solved for one by one.

    Steps of the size at which a fit ends would take long to bring new units to where the old ones are.
    """
    n_old, n_new = len(machine.weights), cases.ratings.n_items - len(machine.weights)
    nothing = np.zeros((n_new, *machine.weights.shape[1:]), np.float32)
    n_side = n_new if len(machine.side_weights) else 0
    wider = replace(
        machine,
        weights=np.concatenate([machine.weights, nothing]),
        visible_biases=np.concatenate([machine.visible_biases, cases.visible_biases[n_old:]]),
        side_weights=np.pad(machine.side_weights, ((0, n_side), (0, 0))),
        slopes=cases.slopes,
    )
    inputs = wider.hidden_inputs(cases.ratings, cases.levels, scale, cases.identities)
    by_visible = cases.ratings.by_item
    activations, penalty = squash(inputs), penalty_of(cases.penalty, len(inputs))
    for m in range(n_old, n_old + n_new):
        numbers, values = by_visible.of_user(m)
        solved = solve_visible(wider, scale, activations, numbers, scale.level_of(values), penalty)
        wider.visible_biases[m], wider.weights[m] = solved
    return replace(wider, inputs=inputs)
