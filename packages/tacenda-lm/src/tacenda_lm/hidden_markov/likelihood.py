"""The log-likelihood of sentences, with its gradient from expected counts: nothing is recorded through time.

    d log p(x) / d log theta = E[how often theta is used | x]

for every probability theta of a hidden Markov model, so the forward and backward passes give the gradient with respect
to the logarithms of starts, transitions and emissions. `tacenda.kernels` carries it to the vectors that these are made
from, and torch from there to the embeddings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from tacenda.kernels.hidden_markov import block as hmm_block
from tacenda.kernels.hidden_markov import block_softmax, class_softmax, streaming_logsumexp
from tacenda.kernels.hidden_markov import features as hmm_features
from tacenda.kernels.hidden_markov.block_softmax import Vectors
from tacenda.kernels.machinery.tensors import to_array, to_device, to_tensor
from tacenda_lm.hidden_markov.classed_text import Lexicon, Observed

__all__ = ["Outputs", "by_logarithms", "log_likelihood"]

_Array = Any  # numpy's on the CPU, else a tensor on the device of the network
_Places = np.ndarray[Any, np.dtype[np.int64]]
_KEPT = 1 << 28  # bytes of transition probabilities kept from the forward to the backward pass


class Outputs(NamedTuple):
    """What a network says of some states of every class, k' of each."""

    left: torch.Tensor  # (classes, k', h or f), x of `block_softmax` or `features`
    reached: torch.Tensor  # (classes, k', h or f), y of it
    bias: torch.Tensor  # (classes, k'), d; with features, part of them
    log_classes: torch.Tensor | None  # (classes, k', classes), log p(c' | z); None unless two-level
    emitting: torch.Tensor  # (classes, k', h)
    words: torch.Tensor  # (words, h), sorted by class
    word_bias: torch.Tensor  # (words,), sorted by class
    log_starts: torch.Tensor  # (classes, k'), of the first state of a sentence


class _Made(NamedTuple):
    """Probabilities made of the vectors, which both passes need; ``norms`` are zero of classes that nothing leaves."""

    blocks: _Array
    emissions: _Array
    starts: _Array
    weights: _Array | None
    norms: _Array | None
    kept: _Array | None


def log_likelihood(
    outputs: Outputs,
    observed: Observed,
    lexicon: Lexicon,
    transitions: str,
    threads: int = 1,
) -> torch.Tensor:
    """Return the log p of all sentences together, a float64 scalar, differentiable once in every output."""
    if outputs.log_classes is None:
        outputs = outputs._replace(log_classes=outputs.left.new_empty(0))
    how = _ByFeatures if transitions == "features" else _ByBlocks
    found: torch.Tensor = how.apply(observed, lexicon, threads, *outputs)
    return found


def make(
    outputs: list[_Array], observed: Observed, lexicon: Lexicon, threads: int, learning: bool
) -> _Made:
    """Return the probabilities of the pairs of classes that occur, and of all words and starts."""
    left, reached, bias, log_classes, emitting, words, word_bias, log_starts = outputs
    weights = norms = kept = None
    if len(log_classes):
        weights = _exp(_take_at(log_classes, observed.sources, observed.targets))
    else:
        groups = np.unique(observed.sources)
        rows, columns = (array.reshape(-1, array.shape[-1]) for array in (left[groups], reached))
        kept = streaming_logsumexp.place(rows, columns, _KEPT) if learning else None
        sums = streaming_logsumexp.forward(rows, columns, bias.ravel(), kept)
        norms = _sum_at(bias, groups, sums.reshape(len(groups), -1))
    blocks = block_softmax.forward(
        Vectors(left, reached, bias), observed.sources, observed.targets, weights, norms, threads
    )
    emissions = class_softmax.forward(words, word_bias, emitting, lexicon.offsets)
    return _Made(blocks, emissions, _exp(log_starts), weights, norms, kept)


def by_logarithms(
    blocks: torch.Tensor,
    emissions: torch.Tensor,
    starts: torch.Tensor,
    observed: Observed,
    threads: int = 1,
) -> torch.Tensor:
    """Return the same from logarithms of probabilities, arranged as in `tacenda.kernels.hidden_markov.block`."""
    found: torch.Tensor = _ByLogarithms.apply(observed, None, threads, blocks, emissions, starts)
    return found


class _Likelihood(torch.autograd.Function):
    """Gradients are computed in the forward pass, beside what they need, and scaled in the backward pass."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        found = [None if g is None else to_tensor(g).mul_(grad) for g in ctx.gradients]
        del ctx.gradients
        return (None, None, None, *found)


class _ByBlocks(_Likelihood):
    @staticmethod
    def forward(
        ctx: Any, observed: Observed, lexicon: Lexicon, threads: int, *outputs: torch.Tensor
    ) -> torch.Tensor:
        arrays = [to_array(tensor) for tensor in outputs]
        learning = any(ctx.needs_input_grad)
        made = make(arrays, observed, lexicon, threads, learning)
        probabilities = (made.blocks, made.emissions, made.starts, observed.sequences)
        passed = hmm_block.forward(*probabilities, threads)
        if learning:
            counts = hmm_block.backward(*probabilities, passed, threads)
            ctx.gradients = _gradients(arrays, observed, lexicon, made, counts, threads)
        return _total(passed.log_probs)


class _ByFeatures(_Likelihood):
    @staticmethod
    @np.errstate(invalid="ignore", over="ignore")  # the loss says that training diverges
    def forward(
        ctx: Any, observed: Observed, lexicon: Lexicon, threads: int, *outputs: torch.Tensor
    ) -> torch.Tensor:
        left, reached, _, _, emitting, words, word_bias, log_starts = (
            tensor.detach().numpy() for tensor in outputs
        )
        spoken = words, word_bias, emitting, lexicon.offsets
        emissions = class_softmax.forward(*spoken)
        model = hmm_features.Model(left, reached, emissions, np.exp(log_starts))
        _, places, _, offsets = observed.sequences
        classed = hmm_features.Classed(lexicon.classes[lexicon.order[places]], places, offsets)
        passed = hmm_features.forward(model, classed)
        if any(ctx.needs_input_grad):
            found = hmm_features.backward(model, classed, passed)
            emitted = class_softmax.backward(*spoken, emissions, found.emissions)
            by_words = emitted.states, emitted.words, emitted.bias
            ctx.gradients = [found.left, found.reached, None, None, *by_words, found.starts]
        return _total(passed.log_probs)


class _ByLogarithms(_Likelihood):
    @staticmethod
    def forward(
        ctx: Any, observed: Observed, lexicon: None, threads: int, *logarithms: torch.Tensor
    ) -> torch.Tensor:
        A, o, s = (np.exp(tensor.detach().numpy()) for tensor in logarithms)
        passed = hmm_block.forward(A, o, s, observed.sequences, threads)
        if any(ctx.needs_input_grad):
            counts = hmm_block.backward(A, o, s, observed.sequences, passed, threads)
            ctx.gradients = [counts.blocks, counts.emissions, counts.starts]
        return _total(passed.log_probs)


def _total(log_probs: _Array) -> torch.Tensor:
    """Return their sum; it is not finite where training diverges, which the fit says in a sentence of its own."""
    with np.errstate(invalid="ignore"):
        return torch.as_tensor(log_probs.sum())


def _gradients(
    outputs: list[_Array],
    observed: Observed,
    lexicon: Lexicon,
    made: _Made,
    counts: hmm_block.Backward,
    threads: int,
) -> list[_Array | None]:
    """Return the gradients of the log-likelihood with respect to each output."""
    left, reached, bias, log_classes, emitting, words, word_bias, _ = outputs
    sources, targets = observed.sources, observed.targets
    moved = block_softmax.backward(
        Vectors(left, reached, bias), sources, targets, made.blocks, counts.blocks, made.weights, threads
    )  # fmt: skip
    slopes = [moved.left, moved.reached, moved.bias]
    to_classes = None
    if made.norms is None:
        to_classes = _put_at(log_classes, sources, targets, moved.departures)
    else:
        leaving = _sum_at(made.norms, sources, moved.departures)
        groups = np.unique(sources)
        rows, columns = (array.reshape(-1, array.shape[-1]) for array in (left[groups], reached))
        norms, taken = (array[groups].ravel() for array in (made.norms, -leaving))
        by_rows, *others = streaming_logsumexp.backward(
            rows, columns, bias.ravel(), norms, taken, made.kept
        )
        slopes[0][groups] += by_rows.reshape(left[groups].shape)
        for slope, added in zip(slopes[1:], others, strict=True):
            slope += added.reshape(slope.shape)
    emitted = class_softmax.backward(
        words, word_bias, emitting, lexicon.offsets, made.emissions, counts.emissions
    )
    return [*slopes, to_classes, emitted.states, emitted.words, emitted.bias, counts.starts]


# The functions below take arrays of numpy and tensors on other devices alike.


def _exp(array: Any) -> Any:
    """Return the exponential of every element."""
    return array.exp() if isinstance(array, torch.Tensor) else np.exp(array)


def _take_at(table: Any, rows: _Places, columns: _Places) -> Any:
    """Return ``table[rows, :, columns]`` (n, middle) of a table (rows, middle, columns), in C order."""
    if isinstance(table, torch.Tensor):
        first, last = to_device((rows, columns), table.device)
        return table[first, :, last].contiguous()
    return table[rows, :, columns]


def _put_at(like: Any, rows: _Places, columns: _Places, values: Any) -> Any:
    """Return zeros in the shape of ``like``, but ``values`` at ``[rows, :, columns]``; no place may occur twice."""
    if isinstance(like, torch.Tensor):
        first, last = to_device((rows, columns), like.device)
        found = torch.zeros_like(like)
        found[first, :, last] = values
        return found
    table = np.zeros_like(like)
    table[rows, :, columns] = values
    return table


def _sum_at(like: Any, rows: _Places, values: Any) -> Any:
    """Return the sums, in the shape of ``like``, of the ``values`` of each row, always added in the same order."""
    if isinstance(like, torch.Tensor):
        # Unlike index_add, which uses atomics on CUDA, an accumulating index_put_ sorts its indices first.
        at = tuple(to_device((rows,), like.device))
        return torch.zeros_like(like).index_put_(at, values, accumulate=True)
    table = np.zeros_like(like)
    np.add.at(table, rows, values)
    return table
