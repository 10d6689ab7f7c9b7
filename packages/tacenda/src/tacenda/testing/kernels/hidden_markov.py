"""Awkward inputs for the operations of hidden Markov models."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tacenda import kernels
from tacenda.kernels.hidden_markov import block, features
from tacenda.kernels.hidden_markov import block_softmax as blocks_of
from tacenda.kernels.hidden_markov import class_softmax as words_of
from tacenda.kernels.hidden_markov import streaming_logsumexp as sums
from tacenda.kernels.hidden_markov.block import Sequences
from tacenda.kernels.hidden_markov.block_softmax import Vectors
from tacenda.kernels.hidden_markov.features import Classed, Model
from tacenda.testing.kernels.shared import SPECIFICATION, Case

_LENGTHS = ((), (0,), (1,), (0, 5, 1, 0, 63), (1, 1, 1))


def hmm_block() -> Iterator[Case]:
    """No sequences, empty ones, one token, one state."""
    for k in (1, 3, 16, 33):
        for lengths in _LENGTHS:
            rng = np.random.default_rng([k, len(lengths)])
            offsets = np.cumsum([0, *lengths])
            n = int(offsets[-1])
            emissions = _stochastic(rng, 7, k)
            words = rng.integers(0, 7, n)
            observed = Sequences(
                rng.integers(0, 5, n), words, rng.integers(0, 4, len(lengths)), offsets
            )
            arguments = (_stochastic(rng, 5, k, k), emissions, _stochastic(rng, k, 4).T.copy())
            yield f"{k} states, lengths {lengths}", (*arguments, observed)


def hmm_block_backward() -> Iterator[Case]:
    """The expected counts of the same."""
    for label, arguments in hmm_block():
        yield label, (*arguments, _reference(block.forward, *arguments))


def hmm_features() -> Iterator[Case]:
    """The same, with one feature and with more features than states."""
    for classes, k, width in ((1, 1, 1), (1, 7, 3), (4, 3, 5)):
        for lengths in _LENGTHS:
            rng = np.random.default_rng([k, len(lengths)])
            offsets = np.cumsum([0, *lengths])
            n = int(offsets[-1])
            x, y = (rng.random((classes, k, width), np.float32) for _ in range(2))
            x /= (x @ y.sum((0, 1)))[:, :, None]
            starts = rng.random((classes, k), np.float32)
            model = Model(x, y, _stochastic(rng, 7, k), starts)
            observed = Classed(rng.integers(0, classes, n), rng.integers(0, 7, n), offsets)
            yield f"{classes} x {k} states, {width} features, {lengths}", (model, observed)


def hmm_features_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for label, arguments in hmm_features():
        yield label, (*arguments, _reference(features.forward, *arguments))


def block_softmax() -> Iterator[Case]:
    """No pairs, one state, sources without pairs; two levels and one."""
    for k, width in ((1, 1), (3, 5), (16, 15), (33, 8)):
        rng = np.random.default_rng(k)
        vectors = Vectors(_normal(rng, 4, k, width), _normal(rng, 4, k, width), _normal(rng, 4, k))
        for pairs in (0, 1, 9):
            sources = np.sort(rng.choice([0, 2, 3], pairs))
            targets = rng.integers(0, 4, pairs)
            weights = rng.random((pairs, k), np.float32) + np.float32(0.1)
            norms = np.abs(_normal(rng, 4, k)) + np.float32(3)
            for two in (True, False):
                label = f"{pairs} pairs of {k} states, {'two levels' if two else 'one level'}"
                chosen = (weights, None) if two else (None, norms)
                yield label, (vectors, sources, targets, *chosen)


def block_softmax_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for label, arguments in block_softmax():
        blocks = _reference(blocks_of.forward, *arguments)
        counts = np.abs(np.cos(blocks * 9)).astype(np.float32)
        yield label, (*arguments[:3], blocks, counts, arguments[3])


def class_softmax() -> Iterator[Case]:
    """An empty class, a class of one word, one state."""
    for k, width in ((1, 1), (3, 4), (17, 9)):
        rng = np.random.default_rng(k)
        for cuts in ((0, 0, 1, 9, 9), (0, 5), (0, 0)):
            n = cuts[-1]
            states = _normal(rng, len(cuts) - 1, k, width)
            arguments = (_normal(rng, n, width), _normal(rng, n), states, np.array(cuts))
            yield f"{cuts} words, {k} states", arguments


def class_softmax_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for label, arguments in class_softmax():
        found = _reference(words_of.forward, *arguments)
        yield label, (*arguments, found, np.abs(np.cos(found * 9)))


def streaming_logsumexp() -> Iterator[Case]:
    """No rows, one column, more than a tile of both, columns left out, large scores."""
    for rows, columns, width in ((0, 1, 1), (1, 1, 1), (5, 63, 7), (515, 1030, 3)):
        rng = np.random.default_rng(columns)
        arguments = [_normal(rng, n, width) for n in (rows, columns)]
        bias = _normal(rng, columns)
        yield f"{rows} x {columns}", (*arguments, bias)
        yield f"{rows} x {columns}, large", (arguments[0], arguments[1], bias * np.float32(30))
        some = bias.copy()
        some[1:] = -np.inf
        yield f"{rows} x {columns}, one left", (*arguments, some)


def streaming_logsumexp_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for label, arguments in streaming_logsumexp():
        found = _reference(sums.forward, *arguments)
        yield label, (*arguments, found, np.cos(found))


def _reference(function: Any, *arguments: Any) -> Any:
    """What the specification returns."""
    with kernels.use(SPECIFICATION):
        return function(*arguments)


def _normal(rng: np.random.Generator, *shape: int) -> Any:
    """Normal random numbers, float32."""
    return rng.standard_normal(shape, np.float32)


def _stochastic(rng: np.random.Generator, *shape: int) -> Any:
    """Positive random numbers, float32, that sum to one over the second axis from the end."""
    found = rng.random(shape, np.float32) + np.float32(0.01)
    return found / found.sum(axis=-2, keepdims=True)


CASES = (
    hmm_block,
    hmm_block_backward,
    hmm_features,
    hmm_features_backward,
    block_softmax,
    block_softmax_backward,
    class_softmax,
    class_softmax_backward,
    streaming_logsumexp,
    streaming_logsumexp_backward,
)
