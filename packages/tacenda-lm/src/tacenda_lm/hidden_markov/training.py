"""A `Network` under training, as `tacenda.fitting` takes it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from tacenda.fitting import StepResult
from tacenda.fitting.torch_model import (
    load_module_arrays,
    load_optimizer_arrays,
    module_arrays,
    optimizer_arrays,
    set_learning_rate,
)
from tacenda.fitting.trainable import State
from tacenda_lm.hidden_markov.config import VLHMMConfig
from tacenda_lm.hidden_markov.network import Network
from tacenda_lm.hidden_markov.observed import Lexicon, Observed, sentences_at
from tacenda_lm.hidden_markov.tabular import Tabular
from tacenda_lm.sequences import Ids, Offsets

__all__ = ["EVALUATED", "Trainer"]

_BETAS = (0.9, 0.99)
EVALUATED = 8192
"""Words of held-out text at a time."""
_EARLY, _AVERAGED = 100, 10  # after so many steps the running average looks at every tenth


class Trainer:
    """Batches are numbers of sentences.

    Parameters
    ----------
    config
        Settings.
    network
        Trained in place, on the device of the settings.
    lexicon
        The classes.
    ids
        The training text, ``</s>`` after every sentence.
    offsets
        (sentences + 1,).
    valid
        Held-out text in the same form, or None; its perplexity is the criterion.
    """

    def __init__(
        self,
        config: VLHMMConfig,
        network: Network | Tabular,
        lexicon: Lexicon,
        ids: Ids,
        offsets: Offsets,
        valid: tuple[Ids, Offsets] | None,
    ) -> None:
        self.config, self.network, self.lexicon = config, network.to(config.device), lexicon
        self.ids, self.offsets, self.valid = ids, offsets, valid
        rates = {"lr": config.learning_rate, "betas": _BETAS}
        self.optimizer = torch.optim.Adam(network.parameters(), **rates, fused=True)
        self.average = {name: p.detach().clone() for name, p in network.named_parameters()}
        self.steps = 0

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """One step on the mean log-probability of a word."""
        observed = Observed.of(*sentences_at(self.ids, self.offsets, batch), self.lexicon)
        set_learning_rate(self.optimizer, learning_rate)
        self.optimizer.zero_grad(set_to_none=True)
        outputs = self.network(self.kept_states())
        total = self._log_probability(outputs, observed)
        n = len(observed.sequences.words)
        (total * (-1.0 / n)).backward()
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip)
        self.optimizer.step()
        self.steps += 1
        self._follow()
        return StepResult(-total.detach(), n, norm)

    def _log_probability(self, outputs: Any, observed: Observed) -> torch.Tensor:
        how = observed, self.lexicon, self.config.threads
        return self.network.log_likelihood(outputs, *how)

    def kept_states(self) -> torch.Tensor | None:
        """State dropout: as many states of every class, drawn anew for each step; None where all are kept."""
        k = self.config.states_per_class
        kept = max(1, round(k * (1 - self.config.state_dropout)))
        if kept == k:
            return None
        rng = np.random.default_rng([self.config.seed, 3, self.steps])
        drawn = rng.random((self.config.n_classes, k), np.float32)
        states = np.sort(np.argpartition(drawn, kept - 1, axis=1)[:, :kept], axis=1)
        return torch.from_numpy(states).to(self.config.device)

    @torch.no_grad()
    def _follow(self) -> None:
        """The running average: early on of all steps so far, later of the last 1 / (1 - averaging)."""
        every = 1 if self.steps <= _EARLY else _AVERAGED
        if self.steps % every:
            return
        share = min(self.config.averaging**every, self.steps / (self.steps + 10 * every))
        for name, parameter in self.network.named_parameters():
            self.average[name].lerp_(parameter.detach(), 1 - share)

    @torch.no_grad()
    def evaluate(self) -> float | None:
        """Perplexity of the held-out text under the average of the parameters, all states kept."""
        if self.valid is None:
            return None
        ids, offsets = self.valid
        now = {name: p.detach().clone() for name, p in self.network.named_parameters()}
        self._put(self.average)
        try:
            outputs, total = self.network(None), 0.0
            borders = np.searchsorted(offsets, np.arange(0, len(ids) + EVALUATED, EVALUATED))
            borders = np.unique(np.minimum(borders, len(offsets) - 1))
            for first, last in pairwise(borders):
                chosen = sentences_at(ids, offsets, np.arange(first, last))
                observed = Observed.of(*chosen, self.lexicon)
                total += float(self._log_probability(outputs, observed))
        finally:
            self._put(now)
        return float(np.exp(-total / len(ids)))

    @torch.no_grad()
    def _put(self, values: dict[str, torch.Tensor]) -> None:
        for name, parameter in self.network.named_parameters():
            parameter.copy_(values[name])

    def parameters(self) -> State:
        """What the model is made of: the averages."""
        return {name: tensor.cpu().numpy() for name, tensor in self.average.items()}

    def load_parameters(self, parameters: State) -> None:
        """Puts them back."""
        load_module_arrays(self.network, parameters)
        self.average = {name: p.detach().clone() for name, p in self.network.named_parameters()}

    def state(self) -> State:
        """Everything the next steps depend on."""
        parts = {
            "network": module_arrays(self.network),
            "average": self.parameters(),
            "optimizer": optimizer_arrays(self.optimizer),
        }
        arrays = {f"{part}/{name}": a for part, own in parts.items() for name, a in own.items()}
        return {**arrays, "steps": np.array(self.steps)}

    def load_state(self, state: State) -> None:
        """Puts back what ``state`` gave; ValueError where names or shapes do not fit."""
        own: dict[str, dict[str, Any]] = {"network": {}, "average": {}, "optimizer": {}}
        for key, array in state.items():
            part, _, name = key.partition("/")
            if part in own:
                own[part][name] = array
        self.load_parameters(own["average"])
        average = self.average
        load_module_arrays(self.network, own["network"])
        self.average = average
        load_optimizer_arrays(self.optimizer, own["optimizer"])
        self.steps = int(state["steps"])
