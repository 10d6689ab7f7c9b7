"""Bernoulli vectors by their logits: divergence and entropy, in numpy.

With gamma = sigma(g) of the variational distribution and p = sigma(s) of the prior,

    KL(q || p) = gamma log(gamma / p) + (1 - gamma) log((1 - gamma) / (1 - p))
               = softplus(s) - softplus(g) + gamma (g - s)  >= 0

Eq 23 of Bhatia, Guthrie and Eisenstein (EMNLP 2016) is the negative of this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["divergence", "entropy", "sigmoid"]

Floats = npt.NDArray[np.floating[Any]]


def sigmoid(logits: Floats) -> Floats:
    """Return sigma(x) without overflow, in the dtype of its argument."""
    small = np.exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, 1, small) / (1 + small), logits.dtype)


def softplus(x: Floats) -> Floats:
    """Return log(1 + exp(x)), in the dtype of its argument."""
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), x.dtype)


def divergence(logits: Floats, prior: Floats) -> Floats:
    """Return KL(q || p) in nats, elementwise, from logits of q and of the prior p."""
    found = softplus(prior) - softplus(logits) + sigmoid(logits) * (logits - prior)
    return np.asarray(np.maximum(found, 0), logits.dtype)


def entropy(logits: Floats) -> Floats:
    """Return the entropy in bits, elementwise, from 0 (certain) to 1 (nothing known)."""
    nats = softplus(logits) - sigmoid(logits) * logits
    return np.asarray(np.clip(nats / np.log(2), 0, 1), logits.dtype)
