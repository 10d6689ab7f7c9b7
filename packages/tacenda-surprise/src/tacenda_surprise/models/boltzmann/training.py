"""Training by contrastive divergence and Adam, as the fitting loop sees it (Mnih 2010, section 5.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.fitting import (
    Adam,
    ArrayBatches,
    FitSettings,
    History,
    StepDecay,
    StepResult,
)
from tacenda.fitting import fit as run
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.kernels.ratings import boltzmann as rating_boltzmann
from tacenda_surprise.models.base import Floats
from tacenda_surprise.models.boltzmann.cases import Cases, Scale
from tacenda_surprise.models.boltzmann.config import BoltzmannConfig
from tacenda_surprise.models.boltzmann.folding import extended
from tacenda_surprise.models.boltzmann.machine import Machine
from tacenda_surprise.models.identities import Identities

Arrays = Mapping[str, npt.NDArray[Any]]


class ContrastiveDivergence:
    """A machine under training.

    Parameters
    ----------
    config
        Rates, penalties and seed.
    cases
        To learn from.
    scale
        Of the ratings.
    conditional
        Learn weights for identities.
    criterion
        Error of a machine on ratings held out; None: there are none.
    start
        a machine whose parameters are taken over; None: start afresh.
    """

    def __init__(
        self,
        config: BoltzmannConfig,
        cases: Cases,
        scale: Scale,
        *,
        conditional: bool,
        criterion: Callable[[Machine], float] | None = None,
        start: Machine | None = None,
    ) -> None:
        self._config, self._cases, self._scale, self._criterion = config, cases, scale, criterion
        rng = np.random.default_rng(config.seed)
        visible, levels = cases.visible_biases.shape
        shape = (visible, config.n_hidden) if config.ordinal else (visible, levels, config.n_hidden)
        self._parameters: dict[str, Floats] = {
            "weights": rng.standard_normal(shape, np.float32) * np.float32(0.01),
            "visible_biases": cases.visible_biases.copy(),
            "hidden_biases": np.zeros(config.n_hidden, np.float32),
            "side_weights": np.zeros((visible if conditional else 0, config.n_hidden), np.float32),
        }
        if start is not None:
            for name, own in self._parameters.items():
                own[...] = getattr(start, name)
        n_chains = cases.ratings.n_users if config.persistent else 0
        self._chains = np.full((n_chains, config.n_hidden), 0.5, np.float32)
        self._adam = Adam(weight_decay={"weights": config.reg, "side_weights": config.reg_side})
        self._steps = 0

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        """One update from the cases of ``batch``."""
        (numbers,) = batch
        ratings, known, own = self._cases.ratings, self._cases.identities, self._parameters
        found = rating_boltzmann.divergence(
            ratings.user_offsets,
            ratings.item_ids,
            self._cases.levels,
            numbers,
            own["weights"],
            own["visible_biases"],
            own["hidden_biases"],
            own["side_weights"],
            self._scale.scores,
            self._cases.slopes,
            self._config.gibbs_steps,
            self._config.seed * 1_000_003 + self._steps,
            None if known is None else known.offsets,
            None if known is None else known.item_ids,
            self._chains if self._config.persistent else None,
        )
        self._steps += 1
        gradients = {name: getattr(found, name) / -len(numbers) for name in self._parameters}
        if not len(self._parameters["side_weights"]):
            del gradients["side_weights"]
        self._adam.update(self._parameters, gradients, learning_rate)
        sizes = ratings.user_offsets[numbers + 1] - ratings.user_offsets[numbers]
        return StepResult(found.error * self._scale.unit**2, float(max(sizes.sum(), 1)))

    def machine(self) -> Machine:
        """The machine as it is now."""
        cases = self._cases
        start = Machine(
            **{name: part.copy() for name, part in self._parameters.items()},
            slopes=cases.slopes,
            base=cases.base,
            inputs=np.empty((0, self._config.n_hidden), np.float32),
        )
        inputs = start.hidden_inputs(cases.ratings, cases.levels, self._scale, cases.identities)
        return start._replace(inputs=inputs)

    def evaluate(self) -> float | None:
        """RMSE on the ratings held out."""
        return None if self._criterion is None else self._criterion(self.machine())

    def parameters(self) -> Arrays:
        """Weights and biases."""
        return self._parameters

    def load_parameters(self, parameters: Arrays) -> None:
        """Puts parameters back, in place."""
        for name, own in self._parameters.items():
            if parameters[name].shape != own.shape:
                raise ValueError(f"{name} is {parameters[name].shape} and must be {own.shape}")
            own[...] = parameters[name]

    def state(self) -> Arrays:
        """Parameters, chains, Adam's averages and the number of steps, on which the sampling depends."""
        adam = {f"adam/{name}": array for name, array in self._adam.state().items()}
        own = {"chains": self._chains, "steps": np.array(self._steps)}
        return {**self._parameters, **adam, **own}

    def load_state(self, state: Arrays) -> None:
        """Puts back what ``state()`` gave."""
        self.load_parameters(state)
        prefix = "adam/"
        slots = {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}
        self._adam.load_state(slots)
        self._chains[...] = state["chains"]
        self._steps = int(state["steps"])


def train(
    config: BoltzmannConfig,
    cases: Cases,
    scale: Scale,
    *,
    conditional: bool,
    criterion: Callable[[Machine], float] | None,
    held_out: str,
    epochs: int,
    passed: int = 0,
    start: Machine | None = None,
    **of_the_loop: Any,
) -> tuple[Machine, History]:
    """A machine trained on minibatches of the cases that have ratings.

    Parameters
    ----------
    config
        Settings.
    cases
        To learn from.
    scale
        Of the ratings.
    conditional
        As in `ContrastiveDivergence`.
    criterion
        Likewise.
    held_out
        Fingerprint of what the criterion is found on; "": there is none.
    epochs
        Passes over the cases.
    passed
        Epochs of the schedule of the learning rate that are over.
    start
        a machine to go on from; visible units it does not have are solved for.
    of_the_loop
        ``callbacks``, ``checkpoints`` and ``description`` of `tacenda.fitting.fit`.
    """
    if start is not None:
        start = extended(start, scale, cases, config.reg)
    chain = ContrastiveDivergence(
        config, cases, scale, conditional=conditional, criterion=criterion, start=start
    )
    filled = np.flatnonzero(np.diff(cases.ratings.user_offsets))
    rate = config.learning_rate * config.lr_decay**passed
    stopping = criterion is not None
    # the batches are numbers of cases: without these a checkpoint of other ratings would pass for ours
    checkpointed = of_the_loop.get("checkpoints") is not None
    data = [held_out, cases.ratings.fingerprint, _digest(cases.identities)] if checkpointed else []
    history = run(
        chain,
        ArrayBatches(filled, batch_size=config.batch_cases, seed=config.seed),
        FitSettings(
            epochs=epochs,
            learning_rate=StepDecay(rate, config.lr_decay, 1),
            evaluate_every=1 if stopping else 0,
            patience=config.patience if stopping else None,
            restore_best=stopping,
        ),
        configuration={
            "conditional": conditional,
            "data": data,
            **config.to_dict(),
        },
        **of_the_loop,
    )
    return chain.machine(), history


def _digest(identities: Identities | None) -> str:
    return (
        "" if identities is None else fingerprint_arrays([identities.offsets, identities.item_ids])
    )
