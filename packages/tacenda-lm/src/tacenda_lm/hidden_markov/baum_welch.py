"""The EM algorithm for a hidden Markov model of some hundred states (Baum and Welch; Rabiner 1989, section III.C)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.fitting import StepResult
from tacenda.fitting.trainable import State
from tacenda.kernels.hidden_markov import features as hmm_features
from tacenda.kernels.hidden_markov.features import Classed, Model
from tacenda.progress import track
from tacenda_lm.hidden_markov.config import HMMConfig
from tacenda_lm.hidden_markov.observed import sentences_at
from tacenda_lm.sequences import Ids, Offsets

__all__ = ["BaumWelch"]

_Floats = npt.NDArray[np.float32]
_SPREAD = 0.5  # of the logarithms of the first values; states that begin alike stay alike


class BaumWelch:
    """An `HMM` under training, as `tacenda.fitting` takes it; a step is one pass over the text.

    Parameters
    ----------
    config
        Settings.
    n_types
        Words.
    ids
        The training text, ``</s>`` after every sentence.
    offsets
        (sentences + 1,).
    valid
        Held-out text in the same form, or None; its perplexity is the criterion.
    """

    def __init__(
        self,
        config: HMMConfig,
        n_types: int,
        ids: Ids,
        offsets: Offsets,
        valid: tuple[Ids, Offsets] | None,
    ) -> None:
        self.config, self.ids, self.offsets, self.valid = config, ids, offsets, valid
        rng, Z = np.random.default_rng(config.seed), config.n_states

        def near(shape: tuple[int, ...], frequencies: Any) -> _Floats:
            return _normalised(frequencies * np.exp(_SPREAD * rng.standard_normal(shape)))

        counts = np.bincount(ids, minlength=n_types) + 0.1
        self.tables = {
            "transitions": near((Z, Z), 1.0),
            "emissions": np.ascontiguousarray(near((Z, n_types), counts).T),
            "starts": near((1, Z), 1.0),
        }

    def _model(self) -> Model:
        """The transitions are features themselves: x_i = p(. | i), y_j is the jth unit vector."""
        Z = self.config.n_states
        transitions, emissions, starts = self.tables.values()
        return Model(transitions[None], np.eye(Z, dtype=np.float32)[None], emissions, starts)

    def _batches(self, ids: Ids, offsets: Offsets) -> Any:
        """Sentences of similar lengths together."""
        order = np.argsort(np.diff(offsets), kind="stable")
        size = self.config.batch
        for begin in track(range(0, len(order), size), "expectations", unit="batch"):
            words, cuts = sentences_at(ids, offsets, order[begin : begin + size])
            yield Classed(np.zeros(len(words), np.int32), words, cuts)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Expected counts of the whole text, and the probabilities they make."""
        model = self._model()
        total = 0.0
        sums = [np.zeros(table.shape) for table in self.tables.values()]
        for observed in self._batches(self.ids, self.offsets):
            found = hmm_features.forward(model, observed)
            total += float(found.log_probs.sum())
            counts = hmm_features.backward(model, observed, found)
            sums[0] += counts.left[0] * model.left[0]
            sums[1] += counts.emissions
            sums[2] += counts.starts
        Z, V, more = self.config.n_states, len(sums[1]), self.config.smoothing
        self.tables["transitions"][...] = _normalised(sums[0] + more / Z)
        self.tables["emissions"][...] = _normalised(sums[1].T + more / V).T
        self.tables["starts"][...] = _normalised(sums[2] + more / Z)
        return StepResult(-total, len(self.ids))

    def evaluate(self) -> float | None:
        """Perplexity of the held-out text."""
        if self.valid is None:
            return None
        model, total = self._model(), 0.0
        for observed in self._batches(*self.valid):
            total += float(hmm_features.forward(model, observed).log_probs.sum())
        return float(np.exp(-total / len(self.valid[0])))

    def state(self) -> State:
        """The probabilities."""
        return self.tables

    def load_state(self, state: State) -> None:
        """Puts back what ``state`` gave; ValueError where names or shapes do not fit."""
        if set(state) != set(self.tables):
            raise ValueError(f"names differ: {', '.join(sorted(set(state) ^ set(self.tables)))}")
        for name, table in self.tables.items():
            if state[name].shape != table.shape:
                raise ValueError(f"{name} is {state[name].shape}, not {table.shape}")
            table[...] = state[name]


def _normalised(rows: npt.NDArray[np.float64]) -> _Floats:
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True), np.float32)
