"""Training by contrastive divergence, as the fitting loop sees it (Mnih 2010, section 5.2.1).

`ContrastiveDivergence` follows the gradients of minibatches with Adam. `OnlineDivergence` takes a plain step after
every case, as the thesis does (section 5.4.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.arrays import Array, assign, to_device, to_numpy
from tacenda.errors import ConfigurationError
from tacenda.fitting import (
    Adam,
    ArrayBatches,
    BatchSource,
    BlockBatches,
    FitSettings,
    History,
    StepDecay,
    StepResult,
    Trainer,
)
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.fitting.loop import Callback, FitLoop
from tacenda.fitting.processes import add_rows, join, processes, total
from tacenda.kernels.ratings import boltzmann as rating_boltzmann
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats, Loop
from tacenda_surprise.models.boltzmann.machine import Cases, Machine, Scale, sides
from tacenda_surprise.models.boltzmann.new_units import extended
from tacenda_surprise.models.boltzmann.settings import BoltzmannSettings
from tacenda_surprise.models.identities import Identities

OPERATIONS = {
    "adam": ("boltzmann_divergence", "sparse_product", "adam_steps"),
    "sgd": ("boltzmann_descent", "sparse_product"),
}
_START = 0.01  # standard deviation of the first weights
_LEAST_EPOCHS = 10  # after which weights are given up
_FADED = 0.5  # that are so much smaller than at first
_RUN_RATINGS = 1_000_000  # a second or two: how often the bar moves and Ctrl-C is heard
_LESS = "fewer hidden units (n_hidden) or smaller minibatches (advanced.batch_cases)"

Arrays = Mapping[str, npt.NDArray[Any]]


class _Trainer(Trainer):
    """A machine under training; `evaluate` measures the error on the ratings ``held_out``.

    It takes the parameters of the machine ``start`` over, or else starts afresh. With identities in the cases
    it learns weights for them. Parameters and the numbers of the data lie on ``device``.
    """

    def __init__(
        self,
        settings: BoltzmannSettings,
        cases: Cases,
        scale: Scale,
        held_out: Ratings | None = None,
        start: Machine | None = None,
        device: str = "cpu",
    ) -> None:
        self._settings, self._cases, self._scale = settings, cases, scale
        self._held_out, self._device = held_out, device
        rng = np.random.default_rng(settings.seed)
        visible, levels = cases.visible_biases.shape
        hidden = settings.n_hidden
        shape = (visible, hidden) if settings.ordinal else (visible, levels, hidden)
        n_sides = 0 if cases.identities is None else visible
        parameters: dict[str, Floats] = {
            "weights": rng.standard_normal(shape, np.float32) * np.float32(_START),
            "visible_biases": cases.visible_biases.copy(),
            "hidden_biases": np.zeros(hidden, np.float32),
            "side_weights": np.zeros((n_sides, hidden), np.float32),
        }
        if start is not None:
            for name, own in parameters.items():
                own[...] = getattr(start, name)
        self._parameters: dict[str, Array] = {
            name: to_device(part, device) for name, part in parameters.items()
        }
        known = cases.identities
        self._ids, self._levels, self._scores, self._slopes = (
            to_device(part, device)
            for part in (cases.ratings.item_ids, cases.levels, scale.scores, cases.slopes)
        )
        self._known_ids = None if known is None else to_device(known.item_ids, device)
        self._side_penalty = (
            settings.side_penalty_for(cases.ratings) if n_sides else 0.0  # type: ignore[attr-defined]
        )
        n_chains = cases.ratings.n_users if settings.advanced.persistent else 0
        self._chains = to_device(np.full((n_chains, hidden), 0.5, np.float32), device)
        self._steps = 0

    def _given(self, numbers: npt.NDArray[np.int64], *more: Any) -> tuple[Any, ...]:
        """The arguments of the kernels for the cases of these numbers, ``more`` being those of one of them."""
        ratings, known = self._cases.ratings, self._cases.identities
        return (
            ratings.user_offsets,
            self._ids,
            self._levels,
            numbers,
            *self._parameters.values(),
            self._scores,
            self._slopes,
            self._settings.advanced.gibbs_steps,
            self._settings.seed * 1_000_003 + self._steps,
            *more,
            None if known is None else known.offsets,
            self._known_ids,
            self._chains if self._settings.advanced.persistent else None,
        )

    def _result(self, numbers: npt.NDArray[np.int64], error: float) -> StepResult:
        """Errors in units of the ratings, and how many ratings they are of."""
        offsets = self._cases.ratings.user_offsets
        sizes = offsets[numbers + 1] - offsets[numbers]
        return StepResult(error * self._scale.unit**2, float(max(sizes.sum(), 1)))

    def machine(self) -> Machine:
        """Return the machine as it is now."""
        cases = self._cases
        start = Machine(
            **{name: to_numpy(part).copy() for name, part in self._parameters.items()},
            slopes=cases.slopes,
            base=cases.base,
            inputs=np.empty((0, self._settings.n_hidden), np.float32),
        )
        inputs = start.hidden_inputs(
            cases.ratings, cases.levels, self._scale, cases.identities, self._device
        )
        return start._replace(inputs=inputs)

    @property
    def faded(self) -> bool:
        """Whether the weights have become smaller than they were at first, weighted by ratings.

        A penalty of few ratings for each user and item leaves nothing of them, unless something common to many
        stands out, and that grows within a few epochs.
        """
        weights = to_numpy(self._parameters["weights"])
        squares = np.square(weights).reshape(len(weights), -1).mean(axis=1)
        counts = self._cases.ratings.item_counts
        mean = float(squares @ counts) / max(int(counts.sum()), 1)
        return bool(mean**0.5 < _FADED * _START)

    def forget(self) -> None:
        """Set the weights to zero: the machine predicts by its biases and slopes."""
        for name in ("weights", "side_weights"):
            self._parameters[name][...] = 0.0

    def evaluate(self) -> float | None:
        """RMSE on the ratings held out."""
        held_out = self._held_out
        if held_out is None:
            return None
        pairs = sides(self._settings, held_out.user_ids, held_out.item_ids)
        return self.machine().rmse(*pairs, self._scale, held_out.values)

    def parameters(self) -> Mapping[str, npt.NDArray[Any]]:
        """Weights and biases."""
        return {name: to_numpy(part) for name, part in self._parameters.items()}

    def load_parameters(self, parameters: Arrays) -> None:
        """Put parameters back, in place."""
        for name, own in self._parameters.items():
            shape = tuple(own.shape)
            if parameters[name].shape != shape:
                raise ValueError(f"{name} is {parameters[name].shape} and must be {shape}")
            assign(own, parameters[name])

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Parameters, chains, and the number of steps, on which the sampling depends."""
        own = {"chains": to_numpy(self._chains), "steps": np.array(self._steps)}
        return {**self.parameters(), **own}

    def load_state(self, state: Arrays) -> None:
        """Put back what `state` gave."""
        self.load_parameters(state)
        assign(self._chains, state["chains"])
        self._steps = int(state["steps"])


class ContrastiveDivergence(_Trainer):
    """Minibatches of cases, and Adam; the arguments are those of `_Trainer`."""

    def __init__(
        self,
        settings: BoltzmannSettings,
        cases: Cases,
        scale: Scale,
        held_out: Ratings | None = None,
        start: Machine | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(settings, cases, scale, held_out, start, device)
        self._usual = to_device(cases.visible_biases, device)
        penalties = {"weights": cases.penalty}
        if len(self._parameters["side_weights"]):
            penalties["side_weights"] = self._side_penalty
        self._adam = Adam(weight_decay=penalties, device=device)
        self._n_filled = max(int(np.count_nonzero(np.diff(cases.ratings.user_offsets))), 1)

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        """Update the parameters once, from the cases of ``batch``; of several processes each has a part of them."""
        (numbers,) = batch
        part, own = processes().part(numbers), self._parameters
        found = rating_boltzmann.divergence(*self._given(part))
        self._steps += 1
        gradients = {name: add_rows(None, getattr(found, name))[1] for name in own}
        for gradient in gradients.values():
            gradient /= -len(numbers)
        if processes().size > 1 and self._settings.advanced.persistent:
            self._share_chains(numbers, part)
        # Ratings at the expected value hold the visible biases where they began.
        held = float(np.float32(self._cases.damping / self._n_filled))
        gradients["visible_biases"] += held * (own["visible_biases"] - self._usual)
        if not len(own["side_weights"]):
            del gradients["side_weights"]
        self._adam.update(own, gradients, learning_rate)
        return self._result(numbers, total(found.error))

    def _share_chains(self, numbers: npt.NDArray[np.int64], part: npt.NDArray[np.int64]) -> None:
        """Tell all processes where the chains of a batch are: the next epoch deals its cases out anew."""
        chains, group = to_numpy(self._chains), processes()
        shared = np.zeros((len(numbers), chains.shape[1]), chains.dtype)
        shared[group.rank :: group.size] = chains[part]
        chains[numbers] = to_numpy(add_rows(None, to_device(shared, self._device))[1])
        assign(self._chains, chains)

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """What `_Trainer.state` has, and Adam's averages."""
        adam = {f"adam/{name}": array for name, array in self._adam.state().items()}
        return {**super().state(), **adam}

    def load_state(self, state: Arrays) -> None:
        """Put back what `state` gave."""
        super().load_state(state)
        prefix = "adam/"
        slots = {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}
        self._adam.load_state(slots)


class OnlineDivergence(_Trainer):
    """A plain step after every case, with penalties on all parameters; the arguments are those of `_Trainer`."""

    def step(self, batch: npt.NDArray[np.int64], learning_rate: float) -> StepResult:
        """Update the parameters after each case of ``batch``; rates of biases fall as that of the weights does."""
        settings, more = self._settings, self._settings.advanced
        falling = learning_rate / settings.learning_rate if settings.learning_rate else 1.0
        descent = rating_boltzmann.Descent(
            learning_rate,
            more.bias_learning_rate * falling,
            self._cases.penalty,
            more.bias_penalty,
            self._side_penalty,
        )
        given = self._given(batch, descent)
        self._steps += 1
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
    settings: BoltzmannSettings,
    scale: Scale,
    loop: Loop,
    ratings: Ratings,
    known: Identities | None,
    epochs: int,
    *,
    held_out: Ratings | None = None,
    start: Machine | None = None,
    passed: int = 0,
) -> tuple[Machine, History]:
    """Train a machine on the cases that have ratings.

    ``known`` are the identities of all users, None without conditioning; the ratings ``held_out`` decide when
    to stop. Training goes on from the machine ``start``, whose missing visible units are solved for, when
    ``passed`` epochs of the schedule of the learning rate are over.
    """
    cases = Cases.of(settings, scale, ratings, known)
    if start is not None:
        start = extended(start, scale, cases)
    device = devices.resolve(settings, OPERATIONS[settings.advanced.optimizer])
    if device != "cpu":
        devices.check_memory(bytes_needed(settings, cases), device, settings, _LESS)
    source = _source(settings, cases, join(device).size)
    online = settings.advanced.optimizer == "sgd"
    trainer = OnlineDivergence if online else ContrastiveDivergence
    with devices.out_of_memory(settings, _LESS):
        trained = trainer(settings, cases, scale, held_out, start, device)
    decay, stopping = settings.advanced.rate_decay, held_out is not None
    if settings.penalty is None:
        loop = loop._replace(callbacks=(*loop.callbacks, _GiveUp()))
    data: list[str] = []
    if loop.checkpoints is not None:
        # The batches are numbers of cases: without these a checkpoint of other ratings would pass for ours.
        side = cases.identities
        digest = "" if side is None else fingerprint_arrays([side.offsets, side.item_ids])
        data = ["" if held_out is None else held_out.fingerprint, cases.ratings.fingerprint, digest]
    with devices.out_of_memory(settings, _LESS):
        history = loop.run(
            trained,
            source,
            FitSettings(
                epochs=epochs,
                learning_rate=StepDecay(settings.learning_rate * decay**passed, decay, 1),
                evaluate_every=1 if stopping else 0,
                patience=settings.patience if stopping else None,
                restore_best=stopping,
            ),
            {
                "conditional": cases.identities is not None,
                "data": data,
                **devices.without_device(settings),
            },
        )
        return trained.machine(), history


def _source(settings: BoltzmannSettings, cases: Cases, n_processes: int) -> BatchSource:
    """The cases that have ratings, in minibatches for Adam, in long runs for plain steps. Raises ConfigurationError."""
    offsets = cases.ratings.user_offsets
    if settings.advanced.optimizer == "sgd":
        if n_processes > 1:
            raise ConfigurationError(
                f"{settings.model()}: optimizer is 'sgd', whose steps wait for one another, and {n_processes} "
                "processes share this fit: start one process, or use 'adam'"
            )
        return BlockBatches(offsets, batch_size=_RUN_RATINGS, seed=settings.seed)
    filled = np.flatnonzero(np.diff(offsets))
    size = settings.batch_size(len(filled)) * n_processes
    return ArrayBatches(filled, batch_size=size, seed=settings.seed)


def bytes_needed(settings: BoltzmannSettings, cases: Cases) -> int:
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
