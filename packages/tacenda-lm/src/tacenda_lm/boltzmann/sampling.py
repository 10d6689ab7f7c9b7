"""The words that a machine is taught to find less likely: drawn from its prediction, or by contrastive divergence.

Both gradients of eq 3.7 differ only in the words whose statistics are taken away. Counted for one context, with N_w
words, N_f features and N_h hidden units, an exact draw costs 2 N_w N_h multiplications and additions, a step of Gibbs
sampling 2 N_w N_f (and 6 N_w N_f by mean field), and both N_w exponentials. The products are made for some contexts at
a time, so that the probabilities of all words stay in cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.boltzmann.hidden_sums import Packed
from tacenda_lm.boltzmann.parameters import BoltzmannParameters, Floats, sigmoid, unnormalised

__all__ = ["MeanField", "Negative", "by_divergence", "by_mean_field", "by_prediction", "draw"]

_Ints = npt.NDArray[np.integer[Any]]
_ROWS = 64  # contexts whose probabilities of all words stay in cache
_PRODUCT = 512  # contexts of a product of matrices, which reads the vectors of all words anew
_BLOCK = 64  # words whose probabilities are added up before any one of them is looked at


class Negative(NamedTuple):
    """Words with weights for every context, and the loss of the word that is there."""

    words: _Ints  # (tokens, drawn)
    weights: Floats  # (tokens, drawn), which sum to one for each context
    loss: float


class MeanField(NamedTuple):
    """Statistics of words that all are there in part, summed over contexts but for ``hidden``."""

    hidden: Floats  # probabilities of the hidden units (tokens, hidden)
    words: Floats  # of R (types, features)
    outputs: Floats  # of W_n (features, hidden)
    biases: Floats  # of b_v (types,)
    loss: float


def draw(weights: Floats, points: Floats) -> npt.NDArray[np.int64]:
    """Draw from unnormalised probabilities by inversion.

    Parameters
    ----------
    weights
        (rows, types), not negative, some positive in each row.
    points
        (rows, drawn), uniform on 0 .. 1.

    Returns
    -------
    (rows, drawn), from 0 to types - 1.
    """
    rows, types = weights.shape
    whole = types // _BLOCK * _BLOCK
    blocks = [weights[:, :whole].reshape(rows, -1, _BLOCK).sum(axis=2)]
    if whole < types:
        blocks.append(weights[:, whole:].sum(axis=1, keepdims=True))
    sums = np.cumsum(np.concatenate(blocks, axis=1), axis=1, dtype=np.float64)
    wanted = points * sums[:, -1:]
    # all rows in one ascending array: row r lies between r and r + 1
    row = np.arange(rows)[:, None]
    ascending = sums / sums[:, -1:] + row
    block = np.searchsorted(ascending.ravel(), (points + row).ravel(), "right").reshape(
        wanted.shape
    )
    block = np.clip(block - row * sums.shape[1], 0, sums.shape[1] - 1)
    wanted -= np.where(block, sums[row, block - 1], 0)
    places = block[:, :, None] * _BLOCK + np.arange(_BLOCK)
    inside = places < types
    chosen = weights[row[:, :, None], np.minimum(places, types - 1)] * inside
    place = (np.cumsum(chosen, axis=2, dtype=np.float64) <= wanted[:, :, None]).sum(axis=2)
    # rounding may put a point behind the last word of its block
    found: npt.NDArray[np.int64] = block * _BLOCK + np.minimum(place, inside.sum(axis=2) - 1)
    return found


def by_prediction(
    p: BoltzmannParameters,
    words: Packed,
    inputs: Floats,
    targets: _Ints,
    drawn: int,
    rng: np.random.Generator,
) -> Negative:
    """Draw words from the exact prediction, as many for every context, at points evenly apart from a random first.

    The expectation of any statistic over them is its expectation under the model: what is learned by them follows the
    gradient of the log-likelihood. ``inputs`` are b_t (tokens, hidden).
    """
    points = (rng.random((len(inputs), 1)) + np.arange(drawn)) / drawn
    found, loss = np.empty((len(inputs), drawn), np.int64), 0.0
    for i in range(0, len(inputs), _ROWS):
        own = slice(i, i + _ROWS)
        scores = unnormalised(words, p.biases, inputs[own])
        loss += _normalise(scores, targets[own])
        found[own] = draw(scores, points[own])
    return Negative(found, np.full(found.shape, 1 / drawn, inputs.dtype), loss)


def by_divergence(
    p: BoltzmannParameters, inputs: Floats, targets: _Ints, steps: int, rng: np.random.Generator
) -> Negative:
    """Draw one word for each context by ``steps`` of Gibbs sampling that begin at the word that is there.

    The loss is that of this word given the first states of the hidden units.
    """
    now, losses = targets, []
    for _ in range(steps):
        features = _states(p, inputs, p.words[now], rng) @ p.outputs.T
        points, now = rng.random((len(inputs), 1)), np.empty(len(inputs), np.int64)
        for own, chances, loss in _given_hidden(p, features, targets):
            now[own] = draw(chances, points[own])[:, 0]
            losses.append(loss)
    first = losses[: len(losses) // steps]
    return Negative(now[:, None], np.ones((len(now), 1), inputs.dtype), sum(first))


def by_mean_field(
    p: BoltzmannParameters, inputs: Floats, targets: _Ints, steps: int, rng: np.random.Generator
) -> MeanField:
    """Go as many steps with the probabilities of all words in the place of a word that is drawn (section 3.1.2).

    The hidden units stay stochastic, but for the last time, when their probabilities are taken.
    """
    visible, losses = p.words[targets], []
    words, biases = np.zeros_like(p.words), np.zeros(len(p.words), p.words.dtype)
    hidden = np.empty_like(inputs)
    for step in range(steps):
        features = _states(p, inputs, visible, rng) @ p.outputs.T
        for own, chances, loss in _given_hidden(p, features, targets):
            chances /= chances.sum(axis=1, keepdims=True)
            visible[own] = chances @ p.words
            losses.append(loss)
            if step == steps - 1:
                hidden[own] = sigmoid(visible[own] @ p.outputs + inputs[own])
                words += chances.T @ (hidden[own] @ p.outputs.T)
                biases += chances.sum(axis=0)
    first = losses[: len(losses) // steps]
    return MeanField(hidden, words, visible.T @ hidden, biases, sum(first))


def _given_hidden(
    p: BoltzmannParameters, features: Floats, targets: _Ints
) -> Iterator[tuple[slice, Floats, float]]:
    """Yield P(w | h, context) (eq 3.12) up to a factor, some hundred contexts at a time, and the loss of the targets.

    ``features`` are W_n h (tokens, features). What is yielded is overwritten by what is yielded next.
    """
    n, transposed = len(features), p.words.T
    room = np.empty((min(n, _PRODUCT), len(p.words)), features.dtype)
    for i in range(0, n, _PRODUCT):
        own = slice(i, min(i + _PRODUCT, n))
        scores = np.dot(features[own], transposed, out=room[: own.stop - i])
        loss = 0.0
        for j in range(0, len(scores), _ROWS):
            tile = scores[j : j + _ROWS]
            tile += p.biases[:, 0]
            loss += _normalise(tile, targets[i + j : i + j + len(tile)])
        yield own, scores, loss


def _states(
    p: BoltzmannParameters, inputs: Floats, visible: Floats, rng: np.random.Generator
) -> Floats:
    """Draw states of the hidden units (eq 3.13) given what stands in the place of the next word (tokens, features)."""
    on = sigmoid(visible @ p.outputs + inputs)
    found: Floats = (rng.random(on.shape, np.float32) < on).astype(on.dtype)
    return found


def _normalise(scores: Floats, targets: _Ints) -> float:
    """Turn scores into probabilities up to a factor, in place; return the loss of the targets."""
    own = scores[np.arange(len(scores)), targets]
    top = scores.max(axis=1, keepdims=True)
    scores -= top
    total = np.exp(scores, out=scores).sum(axis=1)
    return float((np.log(total) + top[:, 0] - own).sum(dtype=np.float64))
