"""The learning of a factored restricted Boltzmann machine: the observed words against words of the model.

Learning follows the gradient of the log-likelihood, or contrastive divergence (Mnih 2010, section 3.1):

    d log P(w_n | context) / d theta = E_D[d(-E)/d theta] - E_M[d(-E)/d theta]                            (eq 3.7)

E_D is over the hidden units given the observed word; E_M over words and hidden units under the model. E_M is estimated
with a `Negative`, words drawn from the prediction or reached by a Markov chain, or by mean field with the probabilities
of all words. Given the words, hidden units are always summed over, never drawn.

For one context, with N_w words, N_f features and N_h hidden units, an exact draw costs 2 N_w N_h multiplications and
additions, a step of Gibbs sampling 2 N_w N_f (4 N_w N_f by mean field, and 6 N_w N_f in its last step), and both
need N_w exponentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.array_ops import sum_rows
from tacenda.kernels.boltzmann import PackedInputs
from tacenda_lm.boltzmann.machine import (
    ROWS_PER_TILE,
    BoltzmannParameters,
    score_targets,
    score_unnormalized,
    sigmoid,
)
from tacenda_lm.sequences import Floats, Integers
from tacenda_lm.streams import Contexts

_CONTEXTS_PER_PRODUCT = 512  # each product of matrices reads the vectors of all words once
_WORDS_PER_SUM = 64  # words whose probabilities are added before any single one is compared


class Negative(NamedTuple):
    """Words with weights for every context, and the loss of the observed word."""

    words: Integers  # (tokens, drawn)
    weights: Floats  # (tokens, drawn), which sum to one for each context
    loss: float


class Contrast(NamedTuple):
    """E_D - E_M of the statistics of the next word and the hidden units: the direction that raises the likelihood."""

    inputs: Floats  # of b_t (tokens, hidden)
    words: Floats  # of R as the next word (types, features)
    outputs: Floats  # of W_n (features, hidden)
    biases: Floats  # of b_v (types, 1)


def draw(weights: Floats, points: Floats) -> npt.NDArray[np.int64]:
    """Draw from unnormalized probabilities (rows, types), some positive in each row, by inversion.

    ``points`` (rows, drawn) are uniform on 0 .. 1; the ids drawn (rows, drawn) are from 0 to types - 1.
    """
    rows, types = weights.shape
    # the sums of blocks of words tell the block of a point; only the words of that block are compared
    whole = types // _WORDS_PER_SUM * _WORDS_PER_SUM
    blocks = [weights[:, :whole].reshape(rows, -1, _WORDS_PER_SUM).sum(axis=2)]
    if whole < types:
        blocks.append(weights[:, whole:].sum(axis=1, keepdims=True))
    sums = np.cumsum(np.concatenate(blocks, axis=1), axis=1, dtype=np.float64)
    wanted = points * sums[:, -1:]
    # all rows in one ascending array: the sums of row r are between r and r + 1
    row = np.arange(rows)[:, None]
    ascending = sums / sums[:, -1:] + row
    # here and below, rounding could put a point next to a word or block of weight 0
    at = np.minimum(points + row, np.nextafter(row + 1.0, 0))
    block = np.searchsorted(ascending.ravel(), at.ravel(), "right").reshape(wanted.shape)
    block -= row * sums.shape[1]
    wanted -= np.where(block, sums[row, block - 1], 0)
    places = block[:, :, None] * _WORDS_PER_SUM + np.arange(_WORDS_PER_SUM)
    inside = places < types
    chosen = weights[row[:, :, None], np.minimum(places, types - 1)] * inside
    within = np.cumsum(chosen, axis=2, dtype=np.float64)
    wanted = np.clip(wanted, 0, np.nextafter(within[:, :, -1], 0))
    place = (within <= wanted[:, :, None]).sum(axis=2)
    return np.asarray(block * _WORDS_PER_SUM + place, np.int64)


def draw_by_prediction(
    p: BoltzmannParameters,
    words: PackedInputs,
    inputs: Floats,
    targets: Integers,
    drawn: int,
    rng: np.random.Generator,
) -> Negative:
    """Draw words from the exact prediction, ``drawn`` for every context, at evenly spaced points after a random first.

    The expectation of any statistic over them is its expectation under the model, so learning follows the gradient of
    the log-likelihood. ``inputs`` are b_t (tokens, hidden).
    """
    # strata: each point is uniform, and together they vary less than as many independent ones
    points = (rng.random((len(inputs), 1)) + np.arange(drawn)) / drawn
    ids, loss = np.empty((len(inputs), drawn), np.int64), 0.0
    for i in range(0, len(inputs), ROWS_PER_TILE):
        tile = slice(i, i + ROWS_PER_TILE)
        scores = score_unnormalized(words, p.biases, inputs[tile])
        loss -= float(score_targets(scores, targets[tile]).sum())
        ids[tile] = draw(scores, points[tile])
    return Negative(ids, np.full(ids.shape, 1 / drawn, inputs.dtype), loss)


def draw_by_divergence(
    p: BoltzmannParameters, inputs: Floats, targets: Integers, steps: int, rng: np.random.Generator
) -> Negative:
    """Draw one word for each context by ``steps`` of Gibbs sampling that begin at the observed word.

    The loss is that of this word given the first states of the hidden units.
    """
    words, loss = targets, 0.0
    for step in range(steps):
        hidden = sigmoid(p.words[words] @ p.outputs + inputs)
        features = _draw_states(hidden, rng) @ p.outputs.T
        points, words = rng.random((len(inputs), 1)), np.empty(len(inputs), np.int64)
        for block, chances, loss_of_block in _predict_given_hidden(p, features, targets):
            words[block] = draw(chances, points[block])[:, 0]
            loss += 0.0 if step else loss_of_block
    return Negative(words[:, None], np.ones((len(words), 1), inputs.dtype), loss)


def contrast_by_mean_field(
    p: BoltzmannParameters, inputs: Floats, targets: Integers, steps: int, rng: np.random.Generator
) -> tuple[Contrast, float]:
    """Return the contrast after ``steps`` with the probabilities of all words instead of a drawn one (section 3.1.2).

    Return also the loss of `draw_by_divergence`. The hidden units are drawn in every step, and at the end summed over.
    """
    visible, loss = p.words[targets], 0.0
    present = sigmoid(visible @ p.outputs + inputs)
    words = sum_rows(targets, present @ p.outputs.T, len(p.words))
    biases = np.bincount(targets, minlength=len(p.words)).astype(np.float64)
    reached, hidden = np.empty_like(visible), present.copy()
    for step in range(steps):
        features = _draw_states(hidden, rng) @ p.outputs.T
        for block, chances, loss_of_block in _predict_given_hidden(p, features, targets):
            chances /= chances.sum(axis=1, keepdims=True)
            reached[block] = chances @ p.words
            hidden[block] = sigmoid(reached[block] @ p.outputs + inputs[block])
            loss += 0.0 if step else loss_of_block
            if step == steps - 1:
                words -= chances.T @ (hidden[block] @ p.outputs.T)
                biases -= chances.sum(axis=0)
    outputs = visible.T @ present - reached.T @ hidden
    return Contrast(present - hidden, words, outputs, biases.astype(p.words.dtype)[:, None]), loss


def _predict_given_hidden(
    p: BoltzmannParameters, features: Floats, targets: Integers
) -> Iterator[tuple[slice, Floats, float]]:
    """Yield blocks of contexts, P(w | h, context) (eq 3.12) up to a factor, and the summed loss of their targets.

    ``features`` are W_n h (tokens, features). The next block overwrites the probabilities.
    """
    n, transposed = len(features), p.words.T
    buffer = np.empty((min(n, _CONTEXTS_PER_PRODUCT), len(p.words)), features.dtype)
    for i in range(0, n, _CONTEXTS_PER_PRODUCT):
        block = slice(i, min(i + _CONTEXTS_PER_PRODUCT, n))
        # a product of many contexts reads R once; a tile of few is normalized while it is in the cache
        scores = np.dot(features[block], transposed, out=buffer[: block.stop - i])
        loss = 0.0
        for j in range(0, len(scores), ROWS_PER_TILE):
            tile = scores[j : j + ROWS_PER_TILE]
            tile += p.biases[:, 0]
            loss -= float(score_targets(tile, targets[i + j : i + j + len(tile)]).sum())
        yield block, scores, loss


def _draw_states(on: Floats, rng: np.random.Generator) -> Floats:
    """Draw states of hidden units that are on with these probabilities (eq 3.13)."""
    return np.asarray(rng.random(on.shape, np.float32) < on, on.dtype)


def contrast(
    p: BoltzmannParameters, inputs: Floats, targets: Integers, negative: Negative
) -> Contrast:
    """Return the contrast of the observed words, ``targets`` (tokens,), with negative words.

    ``inputs`` are b_t (tokens, hidden).
    """
    n, drawn = negative.words.shape
    weights = negative.weights.reshape(-1, 1)
    present = sigmoid(inputs + p.words[targets] @ p.outputs)
    absent = p.words[negative.words.ravel()] @ p.outputs
    absent += np.repeat(inputs, drawn, axis=0)
    absent = sigmoid(absent) * -weights
    difference = present + absent.reshape(n, drawn, p.hidden).sum(axis=1)
    rows = np.concatenate([present, absent])
    # sums by word first, so that the products have a row for each distinct word, not for each draw
    types, place = np.unique(np.concatenate([targets, negative.words.ravel()]), return_inverse=True)
    slopes = sum_rows(place, rows, len(types))  # of a_w
    counts = np.concatenate([np.ones(n, weights.dtype), -weights[:, 0]])
    words, biases = np.zeros_like(p.words), np.zeros_like(p.biases)
    words[types] = slopes @ p.outputs.T
    biases[types, 0] = np.bincount(place, counts, len(types))
    return Contrast(difference, words, p.words[types].T @ slopes, biases)


def compute_gradients(
    p: BoltzmannParameters,
    batch: Contexts,
    features: Floats,
    earlier: Floats | None,
    difference: Contrast,
    inputs: Floats,
) -> dict[str, Floats]:
    """Return the gradients of the log-likelihood by all parameters, by name.

    ``features`` are the `look_up_features` of the batch, and ``earlier`` is p_{t-1} (tokens, hidden), a constant here,
    or None in the plain model. ``inputs`` are the gradients by b_t (tokens, hidden): ``difference.inputs``, with those
    that went back through time.
    """
    n, depth, width = features.shape
    flat = p.contexts.reshape(depth * width, -1)
    back = (inputs @ flat.T).reshape(n, depth, width)[batch.present]
    words = difference.words + sum_rows(batch.words[batch.present], back, len(p.words))
    gradients = {
        "words": words,
        "contexts": (features.reshape(n, -1).T @ inputs).reshape(p.contexts.shape),
        "outputs": difference.outputs,
        "hidden_biases": inputs.sum(axis=0)[:, None],
        "biases": difference.biases,
    }
    if earlier is not None:
        gradients["transitions"] = inputs.T @ earlier  # eq 3.15
    return gradients
