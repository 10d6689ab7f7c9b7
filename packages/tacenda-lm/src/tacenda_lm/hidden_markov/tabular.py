"""Distributions that are numbers of their own: the ablation of the neural parameterisation.

    p(z' | z, c') = softmax over the states of c' of B_{c c'}[z', z],    p(c' | z) = softmax of C_z,
    p(w | z)      = softmax over the words of z's class of E_{w z}

for the pairs of classes that occur next to each other in the text; between others p(z' | z, c') = 1 / k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from tacenda_lm.hidden_markov.config import VLHMMConfig
from tacenda_lm.hidden_markov.likelihood import by_logarithms
from tacenda_lm.hidden_markov.observed import Lexicon, Observed

__all__ = ["Tabular"]

_SPREAD = 0.5  # of the first values; states that begin alike stay alike


class Chosen(NamedTuple):
    """Logarithms for k' states of every class, and which states they are."""

    kept: torch.Tensor
    log_classes: torch.Tensor
    log_emissions: torch.Tensor
    log_starts: torch.Tensor


class Tabular(nn.Module):
    """Tables of a `VLHMM`; arguments as of `Network`, and ``keys`` int64 (pairs,), ``source * classes + target``
    of the pairs in the text, sorted.
    """

    def __init__(
        self,
        config: VLHMMConfig,
        lexicon: Lexicon,
        unigrams: npt.NDArray[np.float32],
        class_unigrams: npt.NDArray[np.float32],
        keys: npt.NDArray[np.int64],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        M, k = config.n_classes, config.states_per_class

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=generator) * _SPREAD

        self.classes, self.k = M, k
        # the last block is that of all pairs that do not occur; it gets no gradient
        self.blocks = nn.Parameter(normal(len(keys), k, k))
        groups = torch.from_numpy(class_unigrams)
        self.to_classes = nn.Parameter(normal(M, k, M) + groups)
        words = torch.from_numpy(unigrams[lexicon.order])
        self.emissions = nn.Parameter(normal(len(unigrams), k) + words[:, None])
        self.start_class = nn.Parameter(groups.clone())
        self.start_state = nn.Parameter(normal(M, k))
        self.keys = keys
        self.places = torch.from_numpy(lexicon.classes[lexicon.order].astype(np.int64))

    def forward(self, kept: torch.Tensor | None = None) -> Chosen:
        """For the states ``kept`` (classes, k') int64, numbers within their class; for all if None."""
        if kept is None:
            kept = torch.arange(self.k).expand(self.classes, -1)
        wide = kept[:, :, None].expand(-1, -1, self.classes)
        emissions = self.emissions.gather(1, kept[self.places])
        at = self.places[:, None].expand_as(emissions)
        lowest = torch.full(kept.shape, -torch.inf)
        largest = lowest.scatter_reduce(0, at, emissions.detach(), "amax")
        emissions = emissions - largest[self.places]
        sums = torch.zeros(kept.shape).index_add(0, self.places, emissions.exp())
        starts = torch.log_softmax(self.start_state.gather(1, kept), 1)
        return Chosen(
            kept,
            torch.log_softmax(self.to_classes.gather(1, wide), 2),
            emissions - sums[self.places].log(),
            torch.log_softmax(self.start_class, 0)[:, None] + starts,
        )

    def log_blocks(
        self, kept: torch.Tensor, sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """The logarithms of p(z' | z, c') (pairs, k', k')."""
        keys = sources * self.classes + targets
        at = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        known = torch.from_numpy(self.keys[at] == keys)
        k = kept.shape[1]
        rows = kept[targets][:, :, None].expand(-1, -1, self.k)
        columns = kept[sources][:, None, :].expand(-1, k, -1)
        found = self.blocks[at].gather(1, rows).gather(2, columns)
        return torch.log_softmax(found * known[:, None, None], 1)

    def log_likelihood(
        self, chosen: Chosen, observed: Observed, lexicon: Lexicon, threads: int
    ) -> torch.Tensor:
        """The log p of all sentences together, a scalar."""
        sources, targets = observed.sources, observed.targets
        blocks = self.log_blocks(chosen.kept, sources, targets)
        blocks = blocks + chosen.log_classes[sources, :, targets][:, None]
        return by_logarithms(blocks, chosen.log_emissions, chosen.log_starts, observed, threads)
