"""The log-likelihood of a text under a `VLHMM`, with its gradient, for torch.

Torch does not differentiate through time, because for every probability theta of a hidden Markov model

    d log p(x) / d log theta = E[how often theta is used | x],

which the forward and backward passes count. They give the gradient with respect to the logarithms of starts,
transitions and emissions; kernels propagate it to the vectors that these are computed from, and torch to the
embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd.function import once_differentiable

from tacenda.array_ops import from_tensor, library
from tacenda.arrays import Array
from tacenda.kernels import hidden_markov as hmm
from tacenda_lm.hidden_markov.tables import Lexicon, Observed

_Ints = npt.NDArray[np.int64]
_Compute = Callable[[list[Array], bool], tuple[Array, list[Array | None]]]
_MAX_SCORE_BYTES = 1 << 28  # of the scores that the forward pass stores for the backward pass


class LogLikelihood(torch.autograd.Function):
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
        found = [None if g is None else torch.as_tensor(g).mul_(grad) for g in ctx.gradients]
        del ctx.gradients
        return (None, *found)


def score_by_blocks(
    observed: Observed, lexicon: Lexicon, threads: int, outputs: list[Array], learning: bool
) -> tuple[Array, list[Array | None]]:
    """Score with the transition blocks of the pairs of classes that occur; ``outputs`` are the arrays of `Outputs`."""
    left, reached, bias, log_classes, emitting, words, word_bias, log_starts = outputs
    xp, (sources, targets, sequences) = library(left), observed
    vectors = hmm.Vectors(left, reached, bias)
    weights: Array = None
    norms: Array = None
    flat = None
    if log_classes is not None:  # two-level
        weights = xp.exp(log_classes[sources, :, targets])
    else:
        flat = _FlatSoftmax(vectors, np.unique(sources), learning)
        norms = flat.norms
    blocks = hmm.block_softmax(vectors, sources, targets, weights, norms, threads)
    emissions = hmm.class_softmax(words, word_bias, emitting, lexicon.offsets)
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
    emitted = hmm.class_softmax_backward(
        words, word_bias, emitting, lexicon.offsets, emissions, counts.emissions
    )
    word_gradients = emitted.states, emitted.words, emitted.bias
    return passed.log_probs, [*gradients, class_gradients, *word_gradients, counts.starts]


class _FlatSoftmax:
    """The normalizers of a softmax over all states, for the states of the classes ``groups``, and their gradients."""

    def __init__(self, vectors: Any, groups: _Ints, learning: bool) -> None:
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

    def add_gradients(self, sources: _Ints, departures: Array, gradients: Any) -> None:
        """Add to the ``gradients`` of the vectors, in place, what they get through the normalizers.

        ``departures`` (pairs, k') are the expected counts of transitions out of the states of the classes ``sources``.
        """
        leaving = _sum_at(self.norms, sources, departures)
        norms, grad = self.norms[self._groups].ravel(), -leaving[self._groups].ravel()
        rows, columns, bias = hmm.streaming_logsumexp_backward(
            *self._arguments, norms, grad, self._scores
        )
        left_gradient, reached_gradient, bias_gradient = gradients
        left_gradient[self._groups] += rows.reshape(len(self._groups), *left_gradient.shape[1:])
        reached_gradient += columns.reshape(reached_gradient.shape)
        bias_gradient += bias.reshape(bias_gradient.shape)


@np.errstate(invalid="ignore", over="ignore")  # of a training that diverges
def score_by_features(
    observed: Observed, lexicon: Lexicon, threads: int, outputs: list[Array], learning: bool
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


def score_by_logarithms(
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


def _sum_at(like: Array, rows: _Ints, values: Array) -> Array:
    """Add ``values`` to the ``rows`` of zeros in the shape of ``like``, always in the same order."""
    table = library(like).zeros_like(like)
    if isinstance(table, np.ndarray):
        np.add.at(table, rows, values)
        return table
    # unlike index_add, which uses atomics on CUDA, an accumulating index_put_ sorts its indices first
    at = torch.from_numpy(rows).to(table.device)
    return table.index_put_((at,), values, accumulate=True)
