"""Training a `VLHMM`: the log-likelihood of a text with its gradient, and steps of Adam. Imports torch.

Torch does not differentiate through time, because for every probability theta of a hidden Markov model

    d log p(x) / d log theta = E[how often theta is used | x],

which the forward and backward passes count. They give the gradient with respect to the logarithms of starts,
transitions and emissions; kernels propagate it to the vectors that these are computed from, and torch to the
embeddings.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from tacenda.array_ops import from_tensor, library, merge_rows
from tacenda.arrays import Array
from tacenda.fitting import StepResult
from tacenda.kernels import hidden_markov as hmm
from tacenda.offsets import runs
from tacenda_lm.hidden_markov.network import Network, Tabular
from tacenda_lm.hidden_markov.parameters import Lexicon
from tacenda_lm.hidden_markov.settings import VLHMMSettings
from tacenda_lm.hidden_markov.tables import Observed
from tacenda_lm.sequences import Ids, Offsets, take_sequences
from tacenda_lm.training import TextTrainer, averaging_weight, compute_perplexity

_BETAS = (0.9, 0.99)
_AVERAGING = 0.99  # share of the running average of the parameters that a step keeps
_CLIP_NORM = 5.0  # bound of the norm of all gradients together
EVALUATION_WORDS = 8192  # of held-out text at a time, in whole sentences
_DROPOUT_STREAM = 3  # of random numbers: others draw batches and initial parameters
_MAX_SCORE_BYTES = 1 << 28  # of the scores that the forward pass stores for the backward pass
_Compute = Callable[[list[Array], bool], tuple[Array, list[Array | None]]]


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
        observed = Observed.of(*take_sequences(ids, offsets, batch), self.lexicon)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.zero_grad(set_to_none=True)
        outputs = self.network(self.draw_states())
        threads = self.settings.threads
        total = log_likelihood(self.network, outputs, observed, self.lexicon, threads)
        n = len(observed.sequences.words)
        (total * (-1.0 / n)).backward()  # the mean, so that the rate does not depend on the batch
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), _CLIP_NORM)
        self.optimizer.step()
        self.steps += 1
        weight = averaging_weight(self.steps, _AVERAGING)
        if weight:
            pairs = zip(self.averaged.parameters(), self.network.parameters(), strict=True)
            for average, parameter in pairs:
                average.lerp_(parameter.detach(), weight)
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
            chosen = take_sequences(ids, offsets, np.arange(first, last))
            observed = Observed.of(*chosen, self.lexicon)
            total += float(log_likelihood(self.averaged, outputs, observed, self.lexicon, threads))
        return compute_perplexity(-total / len(ids))


# -- the log-likelihood of a text, with its gradient -------------------------------------------------


def log_likelihood(
    network: Network | Tabular, outputs: Any, observed: Observed, lexicon: Lexicon, threads: int = 1
) -> torch.Tensor:
    """Return the log p of all sentences together, a float64 scalar, differentiable once.

    ``outputs`` are those of the network for the states that are kept.
    """
    compute: _Compute = partial(_score_by_blocks, observed, lexicon, threads)
    if isinstance(network, Tabular):
        sources, targets, _ = observed
        # log p(z', c' | z) (pairs, k', k') of the pairs of classes of the text
        blocks = network.log_blocks(outputs.kept, sources, targets)
        blocks = blocks + outputs.log_classes[sources, :, targets][:, None]
        outputs = blocks, outputs.log_emissions, outputs.log_starts
        compute = partial(_score_by_logarithms, observed, threads)
    elif network.transitions == "features":
        compute = partial(_score_by_features, observed, lexicon)
    total: torch.Tensor = _LogLikelihood.apply(compute, *outputs)
    return total


class _LogLikelihood(torch.autograd.Function):
    """The sum of the log-probabilities that ``compute(arrays, learning)`` returns for some tensors, a float64 scalar.

    If ``learning`` is true, it also returns the gradient of the sum with respect to each tensor. None stays None.
    """

    @staticmethod
    def forward(ctx: Any, compute: _Compute, *tensors: torch.Tensor | None) -> torch.Tensor:
        arrays = [None if tensor is None else from_tensor(tensor) for tensor in tensors]
        log_probs, ctx.gradients = compute(arrays, any(ctx.needs_input_grad))
        with np.errstate(invalid="ignore"):  # of a training that diverges, which the loop notices
            return torch.as_tensor(log_probs.sum())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        gradients = [None if g is None else torch.as_tensor(g).mul_(grad) for g in ctx.gradients]
        del ctx.gradients
        return (None, *gradients)


def _score_by_blocks(
    observed: Observed, lexicon: Lexicon, threads: int, outputs: list[Array], learning: bool
) -> tuple[Array, list[Array | None]]:
    """Score with the transition blocks of the pairs of classes that occur; ``outputs`` are the arrays of `Outputs`."""
    left, reached, bias, log_classes, emitting, words, word_bias, log_starts = outputs
    xp, (sources, targets, sequences) = library(left), observed
    vectors = hmm.Vectors(left, reached, bias)
    is_flat = log_classes is None  # or else of two levels
    weights = None if is_flat else xp.exp(log_classes[sources, :, targets])
    flat = _FlatSoftmax(vectors, np.unique(sources), learning) if is_flat else None
    norms = None if flat is None else flat.norms
    blocks = hmm.block_softmax(vectors, sources, targets, weights, norms, threads)
    emission_inputs = words, word_bias, emitting, lexicon.offsets
    emissions = hmm.class_softmax(*emission_inputs)
    probabilities = blocks, emissions, xp.exp(log_starts), sequences
    passed = hmm.hmm_block(*probabilities, threads)
    if not learning:
        return passed.log_probs, []

    # expected counts are gradients of logarithms, which the softmaxes carry back to the vectors
    counts = hmm.hmm_block_backward(*probabilities, passed, threads)
    moved = hmm.block_softmax_backward(
        vectors, sources, targets, blocks, counts.blocks, weights, threads
    )
    gradients = hmm.Vectors(moved.left, moved.reached, moved.bias)
    class_gradients = None
    if flat is None:
        class_gradients = xp.zeros_like(log_classes)
        class_gradients[sources, :, targets] = moved.departures
    else:
        flat.add_gradients(sources, moved.departures, gradients)
    emitted = hmm.class_softmax_backward(*emission_inputs, emissions, counts.emissions)
    word_gradients = emitted.states, emitted.words, emitted.bias
    return passed.log_probs, [*gradients, class_gradients, *word_gradients, counts.starts]


class _FlatSoftmax:
    """The normalizers of a softmax over all states, for the states of the classes ``groups``, and their gradients."""

    def __init__(self, vectors: hmm.Vectors, groups: npt.NDArray[np.int64], learning: bool) -> None:
        left, reached, bias = vectors
        xp, self._groups = library(left), groups
        rows, columns = (array.reshape(-1, array.shape[-1]) for array in (left[groups], reached))
        self._arguments = rows, columns, bias.ravel()
        self._scores = None  # room for those that the backward pass would compute again
        # a GPU computes scores again in less time than its memory would bring them
        if learning and xp is np:
            room = _MAX_SCORE_BYTES // (columns.itemsize * len(columns))
            self._scores = np.empty((min(room, len(rows)), len(columns)), columns.dtype)
        sums = hmm.streaming_logsumexp(*self._arguments, self._scores)
        self.norms = xp.zeros_like(bias)
        self.norms[groups] = sums.reshape(len(groups), -1)

    def add_gradients(
        self, sources: npt.NDArray[np.int64], departures: Array, gradients: hmm.Vectors
    ) -> None:
        """Add to the ``gradients`` of the vectors, in place, what they get through the normalizers.

        ``departures`` (pairs, k') are the expected counts of transitions out of the states of the classes ``sources``.
        """
        places = library(departures).asarray(sources, device=departures.device)
        _, (leaving,) = merge_rows(places, departures)  # of the states of the groups
        norms = self.norms[self._groups].ravel()
        rows, columns, bias = hmm.streaming_logsumexp_backward(
            *self._arguments, norms, -leaving.ravel(), self._scores
        )
        left_gradient, reached_gradient, bias_gradient = gradients
        left_gradient[self._groups] += rows.reshape(len(self._groups), *left_gradient.shape[1:])
        reached_gradient += columns.reshape(reached_gradient.shape)
        bias_gradient += bias.reshape(bias_gradient.shape)


@np.errstate(invalid="ignore", over="ignore")  # of a training that diverges
def _score_by_features(
    observed: Observed, lexicon: Lexicon, outputs: list[Array], learning: bool
) -> tuple[Array, list[Array | None]]:
    """Score with the features of the states; ``outputs`` are the arrays of `Outputs`."""
    left, reached, _, _, emitting, words, word_bias, log_starts = outputs
    emission_inputs = words, word_bias, emitting, lexicon.offsets
    emissions = hmm.class_softmax(*emission_inputs)
    model = hmm.FeatureModel(left, reached, emissions, np.exp(log_starts))
    _, places, _, offsets = observed.sequences
    classed = hmm.Classed(lexicon.classes[lexicon.order[places]], places, offsets)
    passed = hmm.hmm_features(model, classed)
    if not learning:
        return passed.log_probs, []
    counts = hmm.hmm_features_backward(model, classed, passed)
    emitted = hmm.class_softmax_backward(*emission_inputs, emissions, counts.emissions)
    word_gradients = emitted.states, emitted.words, emitted.bias
    gradients = [counts.left, counts.reached, None, None, *word_gradients, counts.starts]
    return passed.log_probs, gradients


def _score_by_logarithms(
    observed: Observed, threads: int, logarithms: list[Array], learning: bool
) -> tuple[Array, list[Array | None]]:
    """Score with the logarithms of the blocks, emissions and starts that `hmm_block` takes."""
    blocks, emissions, starts = map(np.exp, logarithms)
    probabilities = blocks, emissions, starts, observed.sequences
    passed = hmm.hmm_block(*probabilities, threads)
    if not learning:
        return passed.log_probs, []
    counts = hmm.hmm_block_backward(*probabilities, passed, threads)
    return passed.log_probs, [counts.blocks, counts.emissions, counts.starts]
