"""Training a `VLHMM`: steps of Adam, and a running average of the parameters. Imports torch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from tacenda.fitting import StepResult
from tacenda.offsets import runs
from tacenda_lm.hidden_markov.network import Network, Tabular
from tacenda_lm.hidden_markov.parameters import Lexicon
from tacenda_lm.hidden_markov.settings import VLHMMSettings
from tacenda_lm.hidden_markov.tables import Observed, sentences_at
from tacenda_lm.sequences import Ids, Offsets
from tacenda_lm.training import TextTrainer, averaging_weight, compute_perplexity

_BETAS = (0.9, 0.99)
_AVERAGING = 0.99  # share of the running average of the parameters that a step keeps
_CLIP_NORM = 5.0  # bound of the norm of all gradients together
EVALUATION_WORDS = 8192  # of held-out text at a time, in whole sentences
_DROPOUT_STREAM = 3  # of random numbers: others draw batches and initial parameters


class Trainer(TextTrainer):
    """A model under training, as `tacenda.fitting` takes it; batches are numbers of sentences.

    The network is trained in place, on the device of the settings. What is learned is the running average of its
    parameters, `averaged`, whose perplexity of ``valid`` is the criterion.
    """

    warm_up, rate_floor = 100, 0.02

    def __init__(
        self,
        settings: VLHMMSettings,
        network: Network | Tabular,
        lexicon: Lexicon,
        ids: Ids,
        offsets: Offsets,
        valid: tuple[Ids, Offsets] | None,
    ) -> None:
        self.settings, self.lexicon = settings, lexicon
        self.device, self.evaluate_every = settings.find_device(), settings.advanced.evaluate_every
        self.network = network.to(self.device)
        self.averaged = copy.deepcopy(self.network).requires_grad_(False)
        self.text = ids, offsets
        self.valid = valid
        rates = {"lr": settings.learning_rate, "betas": _BETAS}
        self.optimizer = torch.optim.Adam(network.parameters(), **rates, fused=True)
        self.learned = {"average": self.averaged}
        self.rest = {"network": self.network, "optimizer": self.optimizer}

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Take one step on the mean log-probability of a word."""
        ids, offsets = self.text
        observed = Observed.of(*sentences_at(ids, offsets, batch), self.lexicon)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.zero_grad(set_to_none=True)
        outputs = self.network(self.draw_states())
        threads = self.settings.threads
        total = self.network.log_likelihood(outputs, observed, self.lexicon, threads)
        n = len(observed.sequences.words)
        (total * (-1.0 / n)).backward()  # the mean, so that the rate does not depend on the batch
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), _CLIP_NORM)
        self.optimizer.step()
        self.steps += 1
        weight = averaging_weight(self.steps, _AVERAGING)
        if weight:
            pairs = zip(self.averaged.parameters(), self.network.parameters(), strict=True)
            for average, now in pairs:
                average.lerp_(now.detach(), weight)
        return StepResult(-total.detach(), n, norm)

    def draw_states(self) -> torch.Tensor | None:
        """Draw the states that a step keeps, (classes, k') on the device, or None for all (state dropout)."""
        k, kept = self.settings.states_per_class, self.settings.n_kept
        if kept == k:
            return None
        rng = np.random.default_rng([self.settings.seed, _DROPOUT_STREAM, self.steps])
        # the places of the smallest of k random numbers are a random subset; sorted, for reads in order
        drawn = rng.random((self.settings.n_classes, k), np.float32)
        states = np.sort(np.argpartition(drawn, kept - 1, axis=1)[:, :kept], axis=1)
        return torch.from_numpy(states).to(self.device)

    @torch.no_grad()
    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text under the average of the parameters, all states kept."""
        if self.valid is None:
            return None
        (ids, offsets), threads = self.valid, self.settings.threads
        outputs, total = self.averaged(None), 0.0
        for first, last in runs(offsets, EVALUATION_WORDS):
            chosen = sentences_at(ids, offsets, np.arange(first, last))
            observed = Observed.of(*chosen, self.lexicon)
            total += float(self.averaged.log_likelihood(outputs, observed, self.lexicon, threads))
        return compute_perplexity(-total / len(ids))
