"""The compact neural parameterisation: every distribution of a state from its embedding.

With E_z the embedding of state z, f_* residual networks of two layers that all states share (Chiu and Rush 2020,
section 3.3), W_w, C_c vectors of words and classes:

    p(w | z)       = softmax over the words of z's class of     W_w . f_emit(E_z) + a_w
    p(c' | z)      = softmax over the classes of                C_c' . f_class(E_z) + b_c'
    p(z' | z, c')  = softmax over the states of c' of           E_z' . f_move(E_z) / sqrt(h) + d_z'       two_level
    p(z' | z)      = softmax over all states of                 E_z' . f_move(E_z) + d_z'                 flat
                   = phi(f_move(E_z)) . phi(E_z') / sum of the same over all states z'                    features
    phi(x)         = exp(W x - |x|^2 / 2),  x = E / h^(1/4)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from tacenda_lm.hidden_markov.config import VLHMMConfig
from tacenda_lm.hidden_markov.likelihood import Outputs, log_likelihood
from tacenda_lm.hidden_markov.observed import Lexicon, Observed

__all__ = ["Network"]


class Residual(nn.Module):
    """LayerNorm(x + relu(B relu(A x)))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to the same."""
        inner = torch.relu(self.second(torch.relu(self.first(x))))
        return torch.as_tensor(self.norm(x + inner))


class Network(nn.Module):
    """Embeddings and networks of a `VLHMM`.

    Parameters
    ----------
    config
        Settings.
    order
        int64 (words,), ids sorted by class.
    unigrams
        log p(w | class) of the text, (words,), by id.
    class_unigrams
        log p(class) of the text, (classes,).
    generator
        Of the first values.
    """

    def __init__(
        self,
        config: VLHMMConfig,
        order: npt.NDArray[np.int64],
        unigrams: npt.NDArray[np.float32],
        class_unigrams: npt.NDArray[np.float32],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        M, k, h = config.n_classes, config.states_per_class, config.width

        def normal(*shape: int, scale: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator) * scale)

        self.transitions, self.classes, self.k, self.h = config.transitions, M, k, h
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
            self.feature_map = normal(config.features, h, scale=1.0)
        self.register_buffer("order", torch.from_numpy(order), persistent=False)
        for module in (self.emit, self.move, getattr(self, "to_class", None)):
            for part in () if module is None else (module.first, module.second):
                bound = h**-0.5
                for parameter in (part.weight, part.bias):
                    drawn = torch.rand(parameter.shape, generator=generator) * 2 * bound - bound
                    parameter.data.copy_(drawn)

    def forward(self, kept: torch.Tensor | None = None) -> Outputs:
        """What it says of the states ``kept`` (classes, k') int64, numbers within their class; of all if None."""
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
        """The log p of all sentences together, a scalar."""
        return log_likelihood(outputs, observed, lexicon, self.transitions, threads)

    def _features(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """The features phi (classes, k', f), up to a factor that all rows share; with ``bias``, times its exponential.

        A row's own factor cancels where rows are normalised, which is where ``bias`` is None.
        """
        x = x * self.h**-0.25
        scores = x @ self.feature_map.T
        if bias is None:
            return torch.exp(scores - scores.amax(2, keepdim=True).detach())
        scores = scores - 0.5 * (x * x).sum(2, keepdim=True) + bias[:, :, None]
        return torch.exp(scores - scores.max().detach())
