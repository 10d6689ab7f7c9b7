"""The weights of a mixture: checked where they are given, fitted to a text by EM where they are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Real

import numpy as np

from tacenda.errors import ConfigurationError, CorpusError
from tacenda_lm.sequences import Float64

__all__ = ["checked_weights", "fit_weights"]

_MAX_ITERATIONS = 1000


def fit_weights(
    scores: Float64, start: Float64 | None = None, *, tolerance: float = 1e-10
) -> Float64:
    """Find the weights that give a text the highest probability, by EM: float64 (components,).

    ``scores`` (components, tokens) are natural log-probabilities. EM begins with ``start``, or equal weights (a
    weight of zero stays zero), and ends when no weight changes by more than ``tolerance``.

    Raises
    ------
    CorpusError
        No component with a weight above zero can predict a token: its log-probabilities there are -inf, or NaN.
    """
    n, n_tokens = scores.shape
    found = np.full(n, 1 / n) if start is None else np.array(start, np.float64)
    used = found > 0
    weights, scores = found[used], scores if used.all() else scores[used]
    best = scores.max(axis=0, initial=-np.inf)
    unpredicted = ~np.isfinite(best)
    if unpredicted.any():
        raise CorpusError(
            f"no component with a weight above zero can predict token {unpredicted.argmax() + 1} of the {n_tokens} to "
            "fit weights on: add a component that can, or leave its sentence out"
        )
    # The best of a token weighs 1 here, and a weight that vanishes does so beside another that predicts
    # the same tokens: the sum below is above zero.
    scaled = np.exp(scores - best)
    for _ in range(_MAX_ITERATIONS):
        joint = weights[:, None] * scaled
        updated = (joint / joint.sum(axis=0)).sum(axis=1) / n_tokens
        updated /= updated.sum()
        change = np.abs(updated - weights).max()
        weights = updated
        if change <= tolerance:
            break
    found[used] = weights
    return found


def checked_weights(
    weights: Sequence[float] | Mapping[str, float] | None, names: list[str]
) -> Float64:
    """Return the given weights, divided by their sum: float64 (components,); equal ones for None.

    Raises ConfigurationError for what are no weights, and for weights that do not fit the names, are negative, or
    are all zero.
    """
    if weights is None:
        return np.full(len(names), 1 / len(names))
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            raise ConfigurationError(
                f"the weights are for {', '.join(map(str, weights))} and the models are {', '.join(names)}"
            )
        weights = [weights[name] for name in names]
    found = _numbers(weights)
    if found is None or len(found) != len(names) or not (np.isfinite(found) & (found >= 0)).all():
        raise ConfigurationError(
            f"a mixture of {len(names)} models needs as many weights that are not negative, "
            f"not {weights!r:.200}"
        )
    if not found.any():
        raise ConfigurationError("the weights of a mixture are all zero: one must be above zero")
    _, exponent = np.frexp(found.max())  # divided by a power of two, which rounds nothing
    found = np.ldexp(found, -exponent)
    return np.asarray(found / found.sum(), np.float64)


def _numbers(weights: Iterable[float]) -> Float64 | None:
    """Return a list of numbers as float64; None for what is none."""
    if isinstance(weights, str | bytes | Set) or not isinstance(weights, Iterable):
        return None
    try:
        found = list(weights)
        if not all(isinstance(weight, Real) for weight in found):
            return None
        return np.array(found, np.float64)
    except (TypeError, OverflowError):  # an array of no dimension; a whole number above all floats
        return None
