"""The two parameterisations of a `VLHMM`: networks that all states share, or numbers of their own.

`Network` makes every distribution of a state from its embedding. With E_z the
embedding of state z, f_* residual networks of two layers that all states share (Chiu and Rush 2020, section 3.3), and
W_w, C_c vectors of words and classes:

    p(w | z)       = softmax over the words of z's class of     W_w . f_emit(E_z) + a_w
    p(c' | z)      = softmax over the classes of                C_c' . f_class(E_z) + b_c'
    p(z' | z, c')  = softmax over the states of c' of           E_z' . f_move(E_z) / sqrt(h) + d_z'       two_level
    p(z' | z)      = softmax over all states of                 E_z' . f_move(E_z) + d_z'                 flat
                   = phi(f_move(E_z)) . phi(E_z') / sum of the same over all states z'                    features
    phi(x)         = exp(W x - |x|^2 / 2),  x = E / h^(1/4)

`Tabular` is the ablation, with B, C and E numbers of their own:

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

from tacenda_lm.hidden_markov.classed_text import Lexicon, Observed
from tacenda_lm.hidden_markov.likelihood import Outputs, by_logarithms, log_likelihood
from tacenda_lm.hidden_markov.settings import VLHMMSettings

__all__ = ["Network", "Tabular"]

_SPREAD = 0.5  # of the first numbers of `Tabular`; states that begin alike stay alike


class Residual(nn.Module):
    """A layer LayerNorm(x + relu(B relu(A x)))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (..., width) to the same."""
        inner = torch.relu(self.second(torch.relu(self.first(x))))
        return torch.as_tensor(self.norm(x + inner))


class Network(nn.Module):
    """Embeddings and networks; the generator draws the first values.

    ``order`` (words,) are ids sorted by class; ``unigrams`` (words,) are log p(w | class) of the text, by id;
    ``class_unigrams`` (classes,) are log p(class).
    """

    def __init__(
        self,
        settings: VLHMMSettings,
        order: npt.NDArray[np.int64],
        unigrams: npt.NDArray[np.float32],
        class_unigrams: npt.NDArray[np.float32],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        M, k, h = settings.n_classes, settings.states_per_class, settings.width

        def normal(*shape: int, scale: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator) * scale)

        self.transitions, self.classes, self.k, self.h = settings.transitions, M, k, h
        self.states = normal(M, k, h, scale=1.0)
        self.state_bias = nn.Parameter(torch.zeros(M, k))
        self.words = normal(len(order), h, scale=0.05)
        self.word_bias = nn.Parameter(torch.from_numpy(unigrams.copy()))
        self.start_class = nn.Parameter(torch.from_numpy(class_unigrams.copy()))
        self.start_state = nn.Parameter(torch.zeros(M, k))
        self.emit, self.move = Residual(h), Residual(h)
        if self.transitions == "two_level":
            self.to_class = Residual(h)
            self.class_vectors = normal(M, h, scale=0.05)
            self.class_bias = nn.Parameter(torch.from_numpy(class_unigrams.copy()))
        else:
            with torch.no_grad():  # a flat softmax begins with the classes' frequencies in it
                self.state_bias += torch.from_numpy(class_unigrams)[:, None]
        if self.transitions == "features":
            self.feature_map = normal(settings.advanced.n_features, h, scale=1.0)
        self.register_buffer("order", torch.from_numpy(order), persistent=False)
        for module in (self.emit, self.move, getattr(self, "to_class", None)):
            for part in () if module is None else (module.first, module.second):
                bound = h**-0.5
                for parameter in (part.weight, part.bias):
                    drawn = torch.rand(parameter.shape, generator=generator) * 2 * bound - bound
                    parameter.data.copy_(drawn)

    def forward(self, kept: torch.Tensor | None = None) -> Outputs:
        """Return the outputs for the states ``kept`` (classes, k'), numbers within their class, or for all states."""
        E, bias, start = self.states, self.state_bias, self.start_state
        if kept is not None:
            E = E.gather(1, kept[:, :, None].expand(-1, -1, self.h))
            bias, start = bias.gather(1, kept), start.gather(1, kept)
        log_starts = torch.log_softmax(self.start_class, 0)[:, None] + torch.log_softmax(start, 1)
        log_classes = None
        left, reached = self.move(E), E
        if self.transitions == "two_level":
            scores = self.to_class(E).reshape(-1, self.h) @ self.class_vectors.T + self.class_bias
            log_classes = torch.log_softmax(scores, 1).view(*E.shape[:2], -1)
        if self.transitions == "features":
            left, reached = self._features(left), self._features(reached, bias)
            left = left / (left @ reached.sum((0, 1)))[:, :, None]
        else:
            left = left * self.h**-0.5
        return Outputs(
            left.contiguous(),
            reached.contiguous(),
            bias.contiguous(),
            log_classes,
            self.emit(E).contiguous(),
            self.words[self.order],
            self.word_bias[self.order],
            log_starts.contiguous(),
        )

    def log_likelihood(
        self, outputs: Outputs, observed: Observed, lexicon: Lexicon, threads: int
    ) -> torch.Tensor:
        """Return the log p of all sentences together, a scalar."""
        return log_likelihood(outputs, observed, lexicon, self.transitions, threads)

    def _features(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return the features phi (classes, k', f), times exp(bias) where one is given, up to a factor for all rows.

        A row's own factor cancels where rows are normalised, which is where ``bias`` is None.
        """
        x = x * self.h**-0.25
        scores = x @ self.feature_map.T
        if bias is None:
            return torch.exp(scores - scores.amax(2, keepdim=True).detach())
        scores = scores - 0.5 * (x * x).sum(2, keepdim=True) + bias[:, :, None]
        return torch.exp(scores - scores.max().detach())


class Chosen(NamedTuple):
    """Logarithms of probabilities of k' states of every class, and which states they are."""

    kept: torch.Tensor
    log_classes: torch.Tensor
    log_emissions: torch.Tensor
    log_starts: torch.Tensor


class Tabular(nn.Module):
    """Tables of numbers. ``keys`` (pairs,) are the sorted ``source * classes + target`` of the pairs in the text; other
    arguments are those of `Network`.
    """

    def __init__(
        self,
        settings: VLHMMSettings,
        lexicon: Lexicon,
        unigrams: npt.NDArray[np.float32],
        class_unigrams: npt.NDArray[np.float32],
        keys: npt.NDArray[np.int64],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        M, k = settings.n_classes, settings.states_per_class

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
        """Return them for the states ``kept`` (classes, k') int64, numbers within their class; for all if None."""
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
        """Return the logarithms of p(z' | z, c') (pairs, k', k')."""
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
        """Return the log p of all sentences together, a scalar."""
        sources, targets = observed.sources, observed.targets
        blocks = self.log_blocks(chosen.kept, sources, targets)
        blocks = blocks + chosen.log_classes[sources, :, targets][:, None]
        return by_logarithms(blocks, chosen.log_emissions, chosen.log_starts, observed, threads)
