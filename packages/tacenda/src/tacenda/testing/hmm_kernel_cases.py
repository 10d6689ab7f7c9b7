"""Small awkward inputs for the operations of hidden Markov models; see `tacenda.testing.kernel_cases`."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tacenda.kernels.hidden_markov.block import Sequences
from tacenda.kernels.hidden_markov.block import naive as naive_passes
from tacenda.kernels.hidden_markov.block_softmax import Vectors
from tacenda.kernels.hidden_markov.block_softmax import naive as naive_blocks
from tacenda.kernels.hidden_markov.class_softmax import naive as naive_classes
from tacenda.kernels.hidden_markov.features import Classed, Model
from tacenda.kernels.hidden_markov.features import naive as naive_features
from tacenda.kernels.hidden_markov.streaming_logsumexp import naive as naive_sums

Case = tuple[str, tuple[Any, ...]]

_LENGTHS = ((), (0,), (1,), (0, 5, 1, 0, 63), (1, 1, 1))


def hmm_block() -> Iterator[Case]:
    """No sequences, empty ones, one token, one state."""
    for label, arguments in _passes():
        yield label, (*arguments, 1)


def hmm_block_backward() -> Iterator[Case]:
    """The expected counts of the same."""
    for label, arguments in _passes():
        yield label, (*arguments, naive_passes.forward(*arguments), 1)


def hmm_features() -> Iterator[Case]:
    """As of blocks, one feature and more than states."""
    yield from _features()


def hmm_features_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for label, (model, observed) in _features():
        yield label, (model, observed, naive_features.forward(model, observed))


def block_softmax() -> Iterator[Case]:
    """No pairs, one state, sources without pairs; two levels and one."""
    for label, (vectors, sources, targets, weights, norms) in _blocks():
        yield label, (vectors, sources, targets, weights, norms, 1)


def block_softmax_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for label, (vectors, sources, targets, weights, norms) in _blocks():
        blocks = naive_blocks.forward(vectors, sources, targets, weights, norms)
        counts = np.abs(np.cos(blocks * 9)).astype(np.float32)
        yield label, (vectors, sources, targets, blocks, counts, weights, 1)


def class_softmax() -> Iterator[Case]:
    """An empty class, a class of one word, one state."""
    yield from _classes()


def class_softmax_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for label, arguments in _classes():
        found = naive_classes.forward(*arguments)
        yield label, (*arguments, found, np.abs(np.cos(found * 9)))


def streaming_logsumexp() -> Iterator[Case]:
    """No rows, one column, more than a tile of both, columns left out, large scores."""
    yield from _sums()


def streaming_logsumexp_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for label, arguments in _sums():
        found = naive_sums.forward(*arguments)
        yield label, (*arguments, found, np.cos(found))


def _normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape, np.float32)


def _stochastic(rng: np.random.Generator, *shape: int) -> Any:
    """Positive, summing to one over the second axis from the end."""
    found = rng.random(shape, np.float32) + np.float32(0.01)
    return found / found.sum(axis=-2, keepdims=True)


def _passes() -> Iterator[Case]:
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


def _features() -> Iterator[Case]:
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


def _blocks() -> Iterator[Case]:
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


def _classes() -> Iterator[Case]:
    for k, width in ((1, 1), (3, 4), (17, 9)):
        rng = np.random.default_rng(k)
        for cuts in ((0, 0, 1, 9, 9), (0, 5), (0, 0)):
            n = cuts[-1]
            states = _normal(rng, len(cuts) - 1, k, width)
            arguments = (_normal(rng, n, width), _normal(rng, n), states, np.array(cuts))
            yield f"{cuts} words, {k} states", arguments


def _sums() -> Iterator[Case]:
    for rows, columns, width in ((0, 1, 1), (1, 1, 1), (5, 63, 7), (515, 1030, 3)):
        rng = np.random.default_rng(columns)
        arguments = [_normal(rng, n, width) for n in (rows, columns)]
        bias = _normal(rng, columns)
        yield f"{rows} x {columns}", (*arguments, bias)
        yield f"{rows} x {columns}, large", (arguments[0], arguments[1], bias * np.float32(30))
        some = bias.copy()
        some[1:] = -np.inf
        yield f"{rows} x {columns}, one left", (*arguments, some)
