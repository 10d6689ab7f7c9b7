"""Gradients of the log-likelihood of a factored restricted Boltzmann machine of words, and of contrastive divergence.

    d log P(w_n | context) / d theta = E_D[d(-E)/d theta] - E_M[d(-E)/d theta]                            (eq 3.7)

E_D is over the hidden units given the word that is there; E_M over words and hidden units under the model. What stands
for the words of the model is a `Negative`: drawn from the prediction, reached by a Markov chain, or, with every word
and its probability, the whole expectation. Given the words, hidden units are always summed over, never drawn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda_lm.boltzmann.parameters import BoltzmannParameters, Floats, sigmoid
from tacenda_lm.boltzmann.sampling import MeanField, Negative
from tacenda_lm.streams import Contexts

__all__ = ["Contrast", "by_word", "contrast", "contrast_of_mean_field", "gradients"]

_Ints = npt.NDArray[np.integer[Any]]


class Contrast(NamedTuple):
    """E_D - E_M of what the next word and the hidden units have a part in; it raises the likelihood."""

    inputs: Floats  # of b_t (tokens, hidden)
    words: Floats  # of R as the next word (types, features)
    outputs: Floats  # of W_n (features, hidden)
    biases: Floats  # of b_v (types, 1)


def contrast(
    p: BoltzmannParameters, inputs: Floats, targets: _Ints, negative: Negative
) -> Contrast:
    """Return the contrast of words with weights.

    Parameters
    ----------
    inputs
        b_t (tokens, hidden).
    targets
        The words that are there (tokens,).
    """
    n, drawn = negative.words.shape
    weights = negative.weights.reshape(-1, 1)
    present = sigmoid(inputs + p.words[targets] @ p.outputs)
    absent = p.words[negative.words.ravel()] @ p.outputs
    absent += np.repeat(inputs, drawn, axis=0)
    absent = sigmoid(absent) * -weights
    difference = present + absent.reshape(n, drawn, p.hidden).sum(axis=1)
    rows = np.concatenate([present, absent])
    types, place = np.unique(np.concatenate([targets, negative.words.ravel()]), return_inverse=True)
    slopes = by_word(place, len(types)) @ rows  # of a_w
    counts = np.concatenate([np.ones(n, weights.dtype), -weights[:, 0]])
    words, biases = np.zeros_like(p.words), np.zeros_like(p.biases)
    words[types] = slopes @ p.outputs.T
    biases[types, 0] = np.bincount(place, counts, len(types))
    return Contrast(difference, words, p.words[types].T @ slopes, biases)


def contrast_of_mean_field(
    p: BoltzmannParameters, inputs: Floats, targets: _Ints, negative: MeanField
) -> Contrast:
    """Return the contrast of words that all are there in part."""
    visible = p.words[targets]
    present = sigmoid(inputs + visible @ p.outputs)
    words = by_word(targets, len(p.words)) @ (present @ p.outputs.T)
    counts = np.bincount(targets, minlength=len(p.words))
    return Contrast(
        present - negative.hidden,
        words - negative.words,
        visible.T @ present - negative.outputs,
        (counts - negative.biases).astype(p.words.dtype)[:, None],
    )


def gradients(
    p: BoltzmannParameters,
    batch: Contexts,
    features: Floats,
    earlier: Floats | None,
    found: Contrast,
    inputs: Floats,
) -> dict[str, Floats]:
    """Return the gradients of all parameters by name.

    Parameters
    ----------
    features
        The `context_features` of the batch.
    earlier
        p_{t-1} (tokens, hidden), a constant here; None in the plain model.
    inputs
        That of b_t (tokens, hidden): ``found.inputs``, or more where gradients went back through time.
    """
    n, depth, width = features.shape
    flat = p.contexts.reshape(depth * width, -1)
    back = (inputs @ flat.T).reshape(n, depth, width)[batch.present]
    words = found.words + by_word(batch.words[batch.present], len(p.words)) @ back
    made = {
        "words": words,
        "contexts": (features.reshape(n, -1).T @ inputs).reshape(p.contexts.shape),
        "outputs": found.outputs,
        "hidden_biases": inputs.sum(axis=0)[:, None],
        "biases": found.biases,
    }
    if earlier is not None:
        made["transitions"] = inputs.T @ earlier  # eq 3.15
    return made


def by_word(ids: _Ints, types: int) -> Any:
    """Return the sparse matrix (types, rows) of ones that adds up rows by their words."""
    n = len(ids)
    return csr_array((np.ones(n, np.float32), (ids, np.arange(n))), shape=(types, n))
