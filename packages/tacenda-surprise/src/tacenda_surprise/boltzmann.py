"""Restricted Boltzmann machine (RBM) for ratings (Mnih 2010, section 5.2): data and training.

`tacenda_surprise.levels.Scale` and `CaseData` bring ratings into the form of visible units and cases
(`tacenda_surprise.machine`). Training is by contrastive divergence (section 5.2.1): `ContrastiveDivergence` follows the
gradients of minibatches with Adam, `OnlineDivergence` takes a plain step after every case, as the thesis does
(section 5.4.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.array_ops import to_device, to_numpy
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
from tacenda.kernels import boltzmann as kernels
from tacenda.kernels.boltzmann import Descent, boltzmann_descent, boltzmann_divergence
from tacenda.ratings import Ratings
from tacenda_surprise.bias import Alternation, alternate
from tacenda_surprise.catalogue import Doubles, Floats
from tacenda_surprise.identities import Identities
from tacenda_surprise.levels import MIN_VARIANCE, Scale, find_sharpness, narrow, raise_means
from tacenda_surprise.machine import FittedRBM, Learned, RBMSettings, Usual, solve_units

OPERATIONS = {
    "adam": ("boltzmann_divergence", "sparse_product", "adam"),
    "sgd": ("boltzmann_descent", "sparse_product"),
}
Side = TypeVar("Side")
_MIN_BATCH_CASES, _MAX_BATCHES = 32, 40  # of an epoch
_PLAIN_BIAS_RATE, _PLAIN_BIAS_PENALTY = 0.0001, 0.001  # of plain steps, as in the thesis
_SHAPE_PRIOR_COUNT = 300.0  # ratings of the usual shape that are added to those of a visible unit
_SHARPNESS_SAMPLE = 5000  # ratings
_INITIAL_STD = 0.01  # of the weights
_EPOCHS_TO_GROW = 10  # before faded weights end a fit
_FADED_SHARE = 0.5  # of the initial size: smaller weights have faded
_RATINGS_PER_BATCH = 1_000_000  # a second or two: how often the bar moves and Ctrl-C is heard
_MEMORY_ADVICE = "fewer hidden units (n_hidden)"


def sides(settings: RBMSettings, users: Side, items: Side) -> tuple[Side, Side]:
    """Return visible units and cases: users and items, or the other way around, of any type."""
    return (users, items) if settings.items_are_cases else (items, users)


@dataclass(frozen=True)
class CaseData:
    """The training data by case, and what is estimated from them before training.

    Scores have biases of cases and visible units, found as `BiasOnly` does. The visible biases are logarithms of
    frequencies and a slope with which their mean is the bias. Frequencies say much less of the shape of a
    distribution than of its mean, so that many ratings of the usual shape are added. The slope of a case is the one
    with which the mean of its visible units is higher than usual by its bias. An RBM without weights therefore
    predicts nearly as `BiasOnly` does, but never beyond the ends of the scale. For plain steps, where the visible
    biases are learned like the weights, they are logarithms of plain frequencies instead.
    """

    ratings: Ratings  # their users are the cases, their items the visible units
    levels: npt.NDArray[np.int32]  # (ratings,)
    slopes: Floats  # o (cases,); zeros without an offset
    visible_biases: Floats  # (visible, levels), logarithms of frequencies: those of the start
    usual: Usual | None  # None for plain steps, which hold the biases nowhere
    penalty: float  # of the weights, for each case
    base: Floats  # (levels,), the same of all ratings together
    identities: Identities | None  # what each case is known to have ratings with

    @classmethod
    def of(
        cls, settings: RBMSettings, scale: Scale, ratings: Ratings, known: Identities | None
    ) -> CaseData:
        """Orient ratings and identities, given by user, as the settings say, and estimate biases and slopes."""
        if settings.items_are_cases:
            known = None if known is None else known.by_item(ratings.n_items)
            ratings = ratings.by_item
        levels, s = scale.level_of(ratings.values), scale.scores.astype(np.float64)
        counts = np.zeros((ratings.n_items, len(s)))
        np.add.at(counts, (ratings.item_ids, levels), 1.0)
        usual_shape = (counts.sum(axis=0) + 0.1) / (counts.sum() + 0.1 * len(s))
        base = np.log(usual_shape)
        scored = Ratings.from_csr(
            ratings.user_offsets, ratings.item_ids, scale.scores[levels], ratings.users, ratings.items,
            scale=(float(scale.scores[0]), float(scale.scores[-1])),
        )  # fmt: skip
        biases = alternate(scored, 0.0)
        usual: Usual | None = None
        if settings.optimizer == "sgd":
            # Add one rating of the usual shape, as zero has no logarithm.
            logarithms = np.log((counts + usual_shape) / (counts.sum(axis=1, keepdims=True) + 1))
        else:
            usual, logarithms = _estimate_usual(scored, biases, s, counts, base)
        slopes = np.zeros(ratings.n_users)
        if settings.offset:
            slopes = raise_means(logarithms, s, ratings.user_offsets, ratings.item_ids, biases.b)
        return cls(
            ratings, levels, slopes.astype(np.float32), logarithms.astype(np.float32), usual,
            settings.penalty_for(ratings), base.astype(np.float32), known,
        )  # fmt: skip


def _estimate_usual(
    scored: Ratings, biases: Alternation, s: Doubles, counts: Doubles, base: Doubles
) -> tuple[Usual, Doubles]:
    """Estimate the prior of biases, and with it the visible biases (visible, levels), from the scores of all ratings.

    ``counts`` (visible, levels) are numbers of ratings. Scores are expected to be b_case + b_visible, with the variance
    of the residuals.
    """
    expected = biases.b[scored.user_ids] + biases.c[scored.item_ids]
    of_cases, of_visible = map(np.float64, biases.penalties)
    usual = Usual(
        case_biases=biases.b.astype(np.float32), of_cases=of_cases, of_visible=of_visible,
        damping=of_visible + _SHAPE_PRIOR_COUNT,
        variance=np.maximum(np.var(scored.values - expected), MIN_VARIANCE),
        sharpness=np.float64(0.0),  # found below, from the smooth frequencies
    )  # fmt: skip
    # Frequencies, with so many ratings of the usual shape, tilted to the mean of the visible unit.
    smooth = usual.smooth(base, s, counts, biases.c)
    # Many cases together have a wider distribution than one case: k s^2 narrows it to the variance of one.
    sample = np.random.default_rng(0).permutation(len(expected))[:_SHARPNESS_SAMPLE]
    rows = smooth[scored.item_ids[sample]]
    sharpness = find_sharpness(rows, s, expected[sample], biases.expected_error)
    usual = replace(usual, sharpness=np.float64(sharpness))
    return usual, narrow(smooth, s, biases.c, sharpness)


class Task(NamedTuple):
    """The data and options that an RBM is trained with."""

    settings: RBMSettings
    seed: int  # of start, order and sampling
    scale: Scale
    ratings: Ratings  # by user
    known: Identities | None  # of all users, with conditioning
    held_out: Ratings | None = None  # the ratings that decide when to stop
    start: FittedRBM | None = None  # from which training goes on
    passed: int = 0  # epochs of the schedule of the learning rate that are over


class _Trainer(Trainer):
    """Training of an RBM; if the cases have identities, it learns weights for them.

    Parameters and data are on ``device``. ``start`` has rows for all visible units of the cases.
    """

    learned: Learned

    def __init__(
        self, task: Task, cases: CaseData, start: FittedRBM | None = None, device: str = "cpu"
    ) -> None:
        settings = self._settings = task.settings
        self._task, self._cases, self._scale, self._device = task, cases, task.scale, device
        rng = np.random.default_rng(task.seed)
        visible, levels = cases.visible_biases.shape
        hidden, known = settings.n_hidden, cases.identities
        shape = (visible, hidden) if settings.ordinal else (visible, levels, hidden)
        learned = Learned(
            rng.standard_normal(shape, np.float32) * np.float32(_INITIAL_STD),
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
        self._side_penalty = settings.side_penalty_for(cases.ratings)
        self.rest: dict[str, Any] = {}

    def _kernel_arguments(self, numbers: npt.NDArray[np.int64], *more: Any) -> tuple[Any, ...]:
        """Return the arguments of the kernels for these cases (numbers), and ``more``."""
        ratings, known = self._cases.ratings, self._cases.identities
        known_offsets = None if known is None else known.offsets
        rows = ratings.user_offsets, self._ids, self._levels, self._slopes
        return (
            kernels.Cases(*rows, known_offsets, self._known_ids),
            numbers,
            kernels.Machine(**dict(self.learned.items()), scores=self._scores),
            self._task.seed * 1_000_003 + self.steps,
            *more,
        )

    def _make_result(self, numbers: npt.NDArray[np.int64], error: Any) -> StepResult:
        """Return the squared error in units of the ratings, and the number of ratings."""
        offsets = self._cases.ratings.user_offsets
        sizes = offsets[numbers + 1] - offsets[numbers]
        return StepResult(error * self._scale.unit**2, float(max(sizes.sum(), 1)))

    def machine(self) -> FittedRBM:
        """Return the RBM with the parameters of this moment."""
        cases, learned = self._cases, self.learned.to("cpu").copy()
        start = FittedRBM(
            **dict(learned.items()),
            slopes=cases.slopes,
            base=cases.base,
            inputs=np.empty((0, self._settings.n_hidden), np.float32),
            rating_values=self._scale.levels,
            penalty=np.float64(cases.penalty),
            usual=cases.usual,
        )
        inputs = start.hidden_inputs(
            Identities.of(cases.ratings), cases.levels, self._scale, cases.identities, self._device
        )
        return replace(start, inputs=inputs)

    @property
    def faded(self) -> bool:
        """Whether the weights, averaged over ratings, have become much smaller than they were at first.

        If users and items have few ratings, the penalty makes weights vanish unless they find a pattern that many
        ratings share; such weights grow within a few epochs.
        """
        weights = to_numpy(self.learned.weights)
        squares = np.square(weights).reshape(len(weights), -1).mean(axis=1)
        counts = self._cases.ratings.item_counts
        mean = float(squares @ counts) / max(int(counts.sum()), 1)
        return bool(mean**0.5 < _FADED_SHARE * _INITIAL_STD)

    def forget(self) -> None:
        """Set the weights to zero: the RBM then predicts by its biases and slopes."""
        self.learned.weights[...] = 0.0
        self.learned.side_weights[...] = 0.0

    def evaluate(self) -> float | None:
        held_out = self._task.held_out
        if held_out is None:
            return None
        pairs = sides(self._settings, held_out.user_ids, held_out.item_ids)
        found = self.machine().expect(*pairs, self._scale.scores)
        errors = self._scale.ratings(found.means) - held_out.values
        return float(np.sqrt(np.mean(errors**2, dtype=np.float64)))


class ContrastiveDivergence(_Trainer):
    """Minibatches of cases, and Adam."""

    def __init__(
        self, task: Task, cases: CaseData, start: FittedRBM | None = None, device: str = "cpu"
    ) -> None:
        super().__init__(task, cases, start, device)
        self._usual = to_device(cases.visible_biases, device)
        penalties = {"weights": cases.penalty}
        if cases.identities is not None:
            penalties["side_weights"] = self._side_penalty
        parameters = {name: array for name, array in self.learned.items() if len(array)}
        self._adam = self.rest["adam"] = Adam(parameters, weight_decay=penalties)
        # The prior holds the visible biases near where they began.
        n_filled = max(int(np.count_nonzero(np.diff(cases.ratings.user_offsets))), 1)
        damping = 0.0 if cases.usual is None else float(cases.usual.damping)
        self._held = float(np.float32(damping / n_filled))

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        (numbers,) = batch
        own = self._adam.parameters
        found = boltzmann_divergence(*self._kernel_arguments(numbers))
        self.steps += 1
        gradients = {name: getattr(found, name) for name in own}
        for gradient in gradients.values():
            gradient /= -len(numbers)
        gradients["visible_biases"] += self._held * (own["visible_biases"] - self._usual)
        self._adam.update(gradients, learning_rate)
        return self._make_result(numbers, found.error)


class OnlineDivergence(_Trainer):
    """A plain step after every case, with penalties on all parameters."""

    def step(self, batch: npt.NDArray[np.int64], learning_rate: float) -> StepResult:
        """Update the parameters after each case of ``batch``; all learning rates fall together."""
        settings = self._settings
        falling = learning_rate / settings.lr_all if settings.lr_all else 1.0
        descent = Descent(
            learning_rate,
            _PLAIN_BIAS_RATE * falling,
            self._cases.penalty,
            _PLAIN_BIAS_PENALTY,
            self._side_penalty,
        )
        given = self._kernel_arguments(batch, descent)
        self.steps += 1
        if not descent.shrinks:  # the penalty alone makes parameters larger with every step
            return self._make_result(batch, np.inf)
        return self._make_result(batch, boltzmann_descent(*given))


class _StopIfFaded(Callback):
    """Callback that ends a fit whose weights have faded, so that it does not learn noise."""

    def __init__(self, trained: _Trainer) -> None:
        self._trained = trained

    def on_epoch_end(self, run: FitLoop) -> bool | None:
        """End the fit with weights of zero if they have faded after the epochs that they need to grow."""
        if run.epoch < _EPOCHS_TO_GROW or not self._trained.faded:
            return None
        self._trained.forget()
        return True


def train(
    task: Task, run: FitRun, epochs: int, identify: Callable[..., dict[str, Any]]
) -> tuple[FittedRBM, History]:
    """Train an RBM on the cases that have ratings; ``identify`` returns what identifies it in a checkpoint.

    If training continues from a fitted RBM, visible units that it lacks are solved for.
    """
    settings, scale, held_out = task.settings, task.scale, task.held_out
    cases = CaseData.of(settings, scale, task.ratings, task.known)
    start = None if task.start is None else _extend(task.start, scale, cases)
    device = devices.resolve(settings, OPERATIONS[settings.optimizer])
    if device != "cpu":
        devices.check_memory(bytes_needed(settings, cases), device, settings, _MEMORY_ADVICE)
    trainer: type[_Trainer] = ContrastiveDivergence
    source: BatchSource
    if settings.optimizer == "sgd":
        trainer, offsets = OnlineDivergence, cases.ratings.user_offsets
        source = BlockBatches(offsets, batch_size=_RATINGS_PER_BATCH, seed=task.seed)
    else:
        filled = np.flatnonzero(np.diff(cases.ratings.user_offsets))
        source = ArrayBatches(filled, batch_size=choose_batch_size(len(filled)), seed=task.seed)
    decay, stopping = settings.lr_decay, held_out is not None
    with devices.out_of_memory(settings, _MEMORY_ADVICE):
        trained = trainer(task, cases, start, device)
        # with held-out ratings, these say which epoch is best
        if settings.reg_all is None and not stopping:
            run = replace(run, callbacks=(*run.callbacks, _StopIfFaded(trained)))
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
            lambda: identify(task.ratings, task.known, held_out),
        )
        return trained.machine(), history


def choose_batch_size(n_cases: int) -> int:
    """Choose the number of cases of a minibatch, which visits the parameters of all visible units."""
    return max(_MIN_BATCH_CASES, -(-n_cases // _MAX_BATCHES))


def bytes_needed(settings: RBMSettings, cases: CaseData) -> int:
    """Count the bytes that training takes on a device: parameters with Adam's averages, data, and a minibatch."""
    (visible, levels), hidden = cases.visible_biases.shape, settings.n_hidden
    sizes = np.diff(cases.ratings.user_offsets)
    batch = choose_batch_size(int(np.count_nonzero(sizes)))
    largest = int(np.sort(sizes)[-batch:].sum())
    rows = visible * (1 if settings.ordinal else levels)
    known = 0
    if cases.identities is not None:
        rows, known = rows + visible, len(cases.identities.item_ids)
    step = largest * (100 + 8 * levels) + 24 * batch * hidden
    parameters = rows * hidden + visible * levels
    return int(24 * parameters + 8 * len(cases.levels) + 4 * known + step)


def _extend(machine: FittedRBM, scale: Scale, cases: CaseData) -> FittedRBM:
    """Add rows for visible units of ``cases`` that the RBM does not have, solved for one by one.

    At the learning rate at which a fit ends, training alone would take long to bring new units to where the old ones
    are.
    """
    ratings, n_old = cases.ratings, len(machine.weights)
    wider = machine.grow(ratings.n_items, ratings.n_users)
    wider = replace(wider, slopes=cases.slopes, base=cases.base, usual=cases.usual)
    rated = Identities.of(ratings)
    wider.inputs[:] = wider.hidden_inputs(rated, cases.levels, scale, cases.identities)
    solve_units(wider, scale, ratings.by_item, range(n_old, ratings.n_items), cases.penalty)
    return wider
