"""Training by contrastive divergence and Adam, as the fitting loop sees it (Mnih 2010, section 5.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.fitting import Adam, StepResult
from tacit.kernels import rating_boltzmann
from tacit_surprise.models.base import Floats
from tacit_surprise.models.boltzmann.cases import Cases, Scale
from tacit_surprise.models.boltzmann.config import BoltzmannConfig
from tacit_surprise.models.boltzmann.machine import Machine

Arrays = Mapping[str, npt.NDArray[Any]]


class ContrastiveDivergence:
    """A machine under training.

    Args:
        config: rates, penalties and seed.
        cases: to learn from.
        scale: of the ratings.
        conditional: learn weights for identities.
        criterion: error of a machine on ratings held out; None: there are none.
    """

    def __init__(
        self,
        config: BoltzmannConfig,
        cases: Cases,
        scale: Scale,
        *,
        conditional: bool,
        criterion: Callable[[Machine], float] | None = None,
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
        self._adam = Adam(weight_decay={"weights": config.reg, "side_weights": config.reg})
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
        """Parameters, Adam's averages and the number of steps, on which the sampling depends."""
        adam = {f"adam/{name}": array for name, array in self._adam.state().items()}
        return {**self._parameters, **adam, "steps": np.array(self._steps)}

    def load_state(self, state: Arrays) -> None:
        """Puts back what ``state()`` gave."""
        self.load_parameters(state)
        prefix = "adam/"
        slots = {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}
        self._adam.load_state(slots)
        self._steps = int(state["steps"])
