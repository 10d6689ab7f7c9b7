"""The parameterizations of a `VLHMM` in torch: its distributions from embeddings, or from free parameters."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.utils import skip_init

from tacenda.kernels import hidden_markov as hmm
from tacenda_lm.hidden_markov.parameters import Features, Flat, Free, Learned, Lexicon, TwoLevel
from tacenda_lm.hidden_markov.settings import VLHMMSettings

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float32]
_INITIAL_SPREAD = 0.5  # of the logits of `Tabular`; states that begin equal would stay equal


class Outputs(NamedTuple):
    """Outputs of a network for k' states of every class."""

    left: torch.Tensor  # (classes, k', h or f), x of `block_softmax` or `features`
    reached: torch.Tensor  # (classes, k', h or f), y of the same
    bias: torch.Tensor  # (classes, k'), d; with features, it is already part of ``reached``
    log_classes: torch.Tensor | None  # (classes, k', classes), log p(c' | z); None unless two-level
    emitting: torch.Tensor  # (classes, k', h)
    words: torch.Tensor  # (words, h), sorted by class
    word_bias: torch.Tensor  # (words,), sorted by class
    log_starts: torch.Tensor  # (classes, k'), of the first state of a sentence


class Residual(nn.Module):
    """A layer LayerNorm(x + relu(B relu(A x)))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # without initial values, which torch would draw from the generator of the whole process
        self.first, self.second = (skip_init(nn.Linear, width, width) for _ in range(2))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.second(torch.relu(self.first(x))))
        return torch.as_tensor(self.norm(x + inner))


class Network(nn.Module):
    """Every distribution of a state, computed from its embedding by networks that all states share.

    With E_z the embedding of state z, f_* residual networks of two layers (Chiu and Rush 2020, section 3.3), and W_w,
    C_c vectors of words and classes:

        p(w | z)       = softmax over the words of z's class of     W_w . f_emit(E_z) + a_w
        p(c' | z)      = softmax over the classes of                C_c' . f_class(E_z) + b_c'
        p(z' | z, c')  = softmax over the states of c' of           E_z' . f_move(E_z) / sqrt(h) + d_z'       two_level
        p(z' | z)      = softmax over all states of                 E_z' . f_move(E_z) / sqrt(h) + d_z'       flat
                       = phi(f_move(E_z)) . phi(E_z') exp(d_z') / sum of the same over all states z'          features
        phi(x)         = exp(W x - |x|^2 / 2),  x = E / h^(1/4)
    """

    def __init__(
        self, settings: VLHMMSettings, lexicon: Lexicon, unigrams: _Floats, class_unigrams: _Floats
    ) -> None:
        super().__init__()
        M, k, h = settings.n_classes, settings.states_per_class, settings.width
        generator = torch.Generator().manual_seed(settings.seed)
        normal = partial(torch.randn, generator=generator)
        self.transitions, self.classes, self.k, self.h = settings.transitions, M, k, h
        self.states = nn.Parameter(normal(M, k, h))
        self.state_bias = nn.Parameter(torch.zeros(M, k))
        self.words = nn.Parameter(normal(len(unigrams), h) * 0.05)
        self.word_bias = nn.Parameter(torch.from_numpy(unigrams.copy()))
        self.start_class = nn.Parameter(torch.from_numpy(class_unigrams.copy()))
        self.start_state = nn.Parameter(torch.zeros(M, k))
        self.emit, self.move = Residual(h), Residual(h)
        residuals = [self.emit, self.move]
        if self.transitions == "two_level":
            self.to_class = Residual(h)
            residuals.append(self.to_class)
            self.class_vectors = nn.Parameter(normal(M, h) * 0.05)
            self.class_bias = nn.Parameter(torch.from_numpy(class_unigrams.copy()))
        else:
            # so that a flat softmax over all states begins with the frequencies of the classes
            with torch.no_grad():
                self.state_bias += torch.from_numpy(class_unigrams)[:, None]
        if self.transitions == "features":
            self.feature_map = nn.Parameter(normal(settings.advanced.n_features, h))
        self.register_buffer("order", torch.from_numpy(lexicon.order), persistent=False)
        bound = h**-0.5
        for residual in residuals:
            for part in residual.first, residual.second:
                for parameter in part.weight, part.bias:
                    values = torch.rand(parameter.shape, generator=generator) * 2 * bound - bound
                    parameter.data.copy_(values)

    def forward(self, kept: torch.Tensor | None = None) -> Outputs:
        """Return the outputs for the states ``kept`` (classes, k'), by their numbers in the class, or for all."""
        E, bias, start = self.states, self.state_bias, self.start_state
        if kept is not None:
            E = E.gather(1, kept[:, :, None].expand(-1, -1, self.h))
            bias, start = bias.gather(1, kept), start.gather(1, kept)
        # p(z) = p(c) p(z | c), normalized over the states that are kept
        log_starts = torch.log_softmax(self.start_class, 0)[:, None] + torch.log_softmax(start, 1)
        log_classes = None
        left, reached = self.move(E), E
        if self.transitions == "two_level":
            scores = self.to_class(E).reshape(-1, self.h) @ self.class_vectors.T + self.class_bias
            log_classes = torch.log_softmax(scores, 1).view(*E.shape[:2], -1)
        if self.transitions == "features":
            left, reached = self._features(left), self._features(reached, bias)
            # the normalizer of a row is x . sum over z' of y_z', which takes time linear in the states
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

    def _features(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return the features phi (classes, k', f), times exp(bias) if it is given, up to one factor for all rows.

        Without ``bias``, each row has a factor of its own: it cancels when the row is normalized.
        """
        x = x * self.h**-0.25
        scores = x @ self.feature_map.T
        if bias is None:
            return torch.exp(scores - scores.amax(2, keepdim=True).detach())
        scores = scores - 0.5 * (x * x).sum(2, keepdim=True) + bias[:, :, None]
        return torch.exp(scores - scores.max().detach())

    @torch.no_grad()
    def tables(self, lexicon: Lexicon) -> Learned:
        """Return the learned parameters of all states, as probabilities and vectors."""
        outputs = self()
        given = outputs.words, outputs.word_bias, outputs.emitting
        words, word_bias, emitting = (part.numpy() for part in given)
        emissions = hmm.class_softmax(words, word_bias, emitting, lexicon.offsets)
        shared = emissions, outputs.log_starts.exp().numpy(), lexicon.classes
        left, reached, bias = outputs.left.numpy(), outputs.reached.numpy(), outputs.bias.numpy()
        if self.transitions == "features":
            return Features(*shared, left, reached)
        if self.transitions == "flat":
            return Flat(*shared, left, reached, bias)
        return TwoLevel(*shared, left, reached, bias, outputs.log_classes.exp().numpy())


class TabularOutputs(NamedTuple):
    """Natural logarithms of the probabilities of k' states of every class, and which states they are."""

    kept: torch.Tensor  # (classes, k'), numbers of the states in their class
    log_classes: torch.Tensor  # (classes, k', classes), log p(c' | z)
    log_emissions: torch.Tensor  # (words, k'), sorted by class: log p(w | z)
    log_starts: torch.Tensor  # (classes, k'), of the first state of a sentence


class Tabular(nn.Module):
    """The ablation of `Network`, with free parameters B, C and E instead of networks:

        p(z' | z, c') = softmax over the states of c' of B_{c c'}[z', z],    p(c' | z) = softmax of C_z,
        p(w | z)      = softmax over the words of z's class of E_{w z}

    for the pairs of classes that occur next to each other in the text: ``keys`` (pairs,), sorted, are
    ``source * classes + target``. Between others p(z' | z, c') = 1 / k.
    """  # fmt: skip

    def __init__(
        self,
        settings: VLHMMSettings,
        lexicon: Lexicon,
        unigrams: _Floats,
        class_unigrams: _Floats,
        keys: _Ints,
    ) -> None:
        super().__init__()
        M, k = settings.n_classes, settings.states_per_class
        normal = partial(torch.randn, generator=torch.Generator().manual_seed(settings.seed))
        self.classes, self.k = M, k
        self.blocks = nn.Parameter(normal(len(keys), k, k) * _INITIAL_SPREAD)
        groups = torch.from_numpy(class_unigrams)
        self.to_classes = nn.Parameter(normal(M, k, M) * _INITIAL_SPREAD + groups)
        words = torch.from_numpy(unigrams[lexicon.order])
        self.emissions = nn.Parameter(normal(len(unigrams), k) * _INITIAL_SPREAD + words[:, None])
        self.start_class = nn.Parameter(groups.clone())
        self.start_state = nn.Parameter(normal(M, k) * _INITIAL_SPREAD)
        self.keys = keys
        self.places = torch.from_numpy(lexicon.classes[lexicon.order].astype(np.int64))

    def forward(self, kept: torch.Tensor | None = None) -> TabularOutputs:
        """Return the outputs for the states ``kept`` (classes, k') int64, by their numbers in the class, or for all."""
        if kept is None:
            kept = torch.arange(self.k).expand(self.classes, -1)
        wide = kept[:, :, None].expand(-1, -1, self.classes)
        emissions = self.emissions.gather(1, kept[self.places])
        at = self.places[:, None].expand_as(emissions)
        lowest = torch.full(kept.shape, -torch.inf)
        # a softmax over the words of each class: subtract the largest score, then divide by the sum
        largest = lowest.scatter_reduce(0, at, emissions.detach(), "amax")
        emissions = emissions - largest[self.places]
        sums = torch.zeros(kept.shape).index_add(0, self.places, emissions.exp())
        starts = torch.log_softmax(self.start_state.gather(1, kept), 1)
        return TabularOutputs(
            kept,
            torch.log_softmax(self.to_classes.gather(1, wide), 2),
            emissions - sums[self.places].log(),
            torch.log_softmax(self.start_class, 0)[:, None] + starts,
        )

    def log_blocks(self, kept: torch.Tensor, sources: _Ints, targets: _Ints) -> torch.Tensor:
        """Return the logarithms of p(z' | z, c') (pairs, k', k')."""
        keys = sources * self.classes + targets
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        known = torch.from_numpy(self.keys[at] == keys)
        k = kept.shape[1]
        rows = kept[targets][:, :, None].expand(-1, -1, self.k)
        columns = kept[sources][:, None, :].expand(-1, k, -1)
        logits = self.blocks[at].gather(1, rows).gather(2, columns)
        return torch.log_softmax(logits * known[:, None, None], 1)

    @torch.no_grad()
    def tables(self, lexicon: Lexicon) -> Learned:
        """Return the learned probabilities of all states."""
        outputs = self()
        log_blocks = self.log_blocks(outputs.kept, *np.divmod(self.keys, self.classes))
        return Free(
            outputs.log_emissions.exp().numpy(),
            outputs.log_starts.exp().numpy(),
            lexicon.classes,
            self.keys,
            log_blocks.exp().numpy(),
            outputs.log_classes.exp().numpy(),
        )


def draw_network(
    settings: VLHMMSettings, lexicon: Lexicon, counts: _Ints, keys: _Ints | None = None
) -> Network | Tabular:
    """Draw parameters that predict words about as often as they occur, ``counts`` (words,), whatever came before.

    With ``keys``, the pairs of classes of the text, they are free: see `Tabular`.
    """
    smoothed = counts + 0.1  # no word is impossible
    mass = np.bincount(lexicon.classes, smoothed, minlength=lexicon.n_classes)
    unigrams = np.log(smoothed / mass[lexicon.classes]).astype(np.float32)  # log p(word | class)
    class_unigrams = np.log(np.maximum(mass, 1e-3) / mass.sum()).astype(np.float32)
    given = settings, lexicon, unigrams, class_unigrams
    return Network(*given) if keys is None else Tabular(*given, keys)
