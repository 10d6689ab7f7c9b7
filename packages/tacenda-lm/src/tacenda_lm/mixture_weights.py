"""The weights of a mixture: checked where they are given, fitted to a text by EM where they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tacenda.errors import ConfigurationError
from tacenda_lm.sequences import Float64

__all__ = ["checked_weights", "fit_weights"]

_MAX_ITERATIONS = 1000


def fit_weights(
    scores: Float64, start: Float64 | None = None, *, tolerance: float = 1e-10
) -> Float64:
    """Find the weights that give a text the highest probability, by EM: float64 (components,).

    ``scores`` (components, tokens) are natural log-probabilities. EM begins with ``start``, or equal weights (a
    weight of zero stays zero), and ends when no weight changes by more than ``tolerance``.
    """
    n, n_tokens = scores.shape
    weights = np.full(n, 1 / n) if start is None else np.array(start, np.float64)
    scaled = np.exp(scores - scores.max(axis=0, initial=-np.inf))
    for _ in range(_MAX_ITERATIONS):
        joint = weights[:, None] * scaled
        updated = (joint / joint.sum(axis=0)).sum(axis=1) / n_tokens
        updated /= updated.sum()
        change = np.abs(updated - weights).max()
        weights = updated
        if change <= tolerance:
            break
    return weights


def checked_weights(
    weights: Sequence[float] | Mapping[str, float] | None, names: list[str]
) -> Float64:
    """Return the given weights, divided by their sum: float64 (components,); equal ones for None.

    Raises ConfigurationError for weights that do not fit the names, are negative, or are all zero.
    """
    if weights is None:
        return np.full(len(names), 1 / len(names))
    if isinstance(weights, Mapping):
        if sorted(weights) != sorted(names):
            raise ConfigurationError(
                f"the weights are for {', '.join(weights)} and the models are {', '.join(names)}"
            )
        weights = [weights[name] for name in names]
    found = np.array(list(weights), np.float64)
    if found.shape != (len(names),) or not np.isfinite(found).all() or (found < 0).any():
        raise ConfigurationError(
            f"a mixture of {len(names)} models needs as many weights that are not negative, "
            f"not {list(weights)!r}"
        )
    if not found.sum() > 0:
        raise ConfigurationError("the weights of a mixture are all zero: one must be above zero")
    return np.asarray(found / found.sum(), np.float64)
