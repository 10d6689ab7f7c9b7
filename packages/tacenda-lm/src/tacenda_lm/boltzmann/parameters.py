"""What a restricted Boltzmann machine of words is made of, and what its hidden units get (Mnih 2010, 3.1 and 3.2).

    E(w_n, h, w_1:n-1) = - sum_i v_i^T R W_i h - b_h^T h - b_v^T v_n                                      (eq 3.2)

Given everything else, hidden unit j is on with the probability sigma(a_wj + b_tj), where

    a_w = R_w W_n (what it gets from the next word),    b_t = sum_i<n R_{w_i} W_i + b_h + A p_{t-1}    (eqs 3.13, 3.14)

is what it gets from the context; A p_{t-1}, from the hidden units of the word before, is there in the temporal model
only. With the hidden units summed out (eq 3.5),

    log P(w | context) = b_v_w + sum_j log(1 + exp(a_wj + b_tj)) - log Z_t.

Everything is in the dtype of the parameters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.boltzmann import hidden_sums
from tacenda.kernels.boltzmann.hidden_sums import Packed
from tacenda_lm.streams import Contexts

__all__ = [
    "BoltzmannParameters",
    "Floats",
    "context_features",
    "inputs_of_contexts",
    "packed_words",
    "sigmoid",
    "unnormalised",
]

Floats = npt.NDArray[np.floating[Any]]


class BoltzmannParameters(NamedTuple):
    """What is learned, all of one dtype."""

    words: Floats  # R (types, features)
    contexts: Floats  # W_i (context, features, hidden), that of the last word first
    outputs: Floats  # W_n (features, hidden)
    transitions: Floats  # A (hidden, hidden); no rows in the plain model
    hidden_biases: Floats  # b_h (hidden, 1)
    biases: Floats  # b_v (types, 1)

    @property
    def hidden(self) -> int:
        """How many hidden units there are."""
        return len(self.hidden_biases)


def sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), by a function that overflows nowhere."""
    found: Floats = 0.5 * np.tanh(0.5 * x) + 0.5
    return found


def context_features(p: BoltzmannParameters, batch: Contexts) -> Floats:
    """Return R of the context words (tokens, context, features), zero where there are none."""
    found: Floats = p.words[batch.words]
    if not batch.present.all():
        found *= batch.present[:, :, None]
    return found


def inputs_of_contexts(p: BoltzmannParameters, features: Floats, earlier: Floats | None) -> Floats:
    """Return b_t (tokens, hidden) of contexts with these `context_features`.

    ``earlier`` is p_{t-1} (tokens, hidden), and None in the plain model.
    """
    flat = features.reshape(len(features), -1)
    found: Floats = flat @ p.contexts.reshape(flat.shape[1], -1)
    found += p.hidden_biases[:, 0]
    if earlier is not None:
        found += earlier @ p.transitions.T
    return found


def packed_words(p: BoltzmannParameters) -> Packed:
    """Return a (types, hidden) as `unnormalised` takes it: 2 N_w N_f N_h operations."""
    return hidden_sums.pack(p.words @ p.outputs)


def unnormalised(words: Packed, biases: Floats, inputs: Floats) -> Floats:
    """Return log P(w | context) + log Z_t (tokens, types), new; ``biases`` are b_v (types, 1)."""
    found: Floats = hidden_sums.log_sums(words, inputs)
    found += biases[:, 0]
    return found
