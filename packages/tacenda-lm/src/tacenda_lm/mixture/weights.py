"""The weights of mixtures: how they mix log-probabilities, and their fit to held-out text by EM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from numbers import Real

import numpy as np

from tacenda.errors import ConfigurationError, CorpusError
from tacenda_lm.sequences import Float64

_MAX_ITERATIONS = 1000  # of EM


def mix(scores: Float64, weights: Float64) -> Float64:
    """Return log sum_k weights[k] exp(scores[k]); every dimension of the weights is that of ``scores``, or 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp.reduce(scores + np.log(weights), axis=0), np.float64)


def fit_weights(
    scores: Float64, start: Float64 | None = None, *, tolerance: float = 1e-10
) -> Float64:
    """Find the weights that give a text the highest probability, by EM: float64 (components,).

    ``scores`` (components, tokens) are natural log-probabilities. EM begins with ``start``, or equal weights (a
    weight of zero stays zero), and ends when no weight changes by more than ``tolerance``.

    Raises CorpusError if no component with a weight above zero can predict a token: its log-probabilities there are
    -inf, or NaN.
    """
    n, n_tokens = scores.shape
    fitted = np.full(n, 1 / n) if start is None else np.array(start, np.float64)
    used = fitted > 0
    weights, scores = fitted[used], scores if used.all() else scores[used]
    best = scores.max(axis=0, initial=-np.inf)
    unpredicted = ~np.isfinite(best)
    if unpredicted.any():
        raise CorpusError(
            f"no component with a weight above zero can predict token {unpredicted.argmax() + 1} of the {n_tokens} to "
            "fit weights on: add a component that can, or leave its sentence out"
        )
    # The best component of a token has exp(0) = 1 here, and its weight vanishes only if another component predicts the
    # same tokens: the sum below is above zero.
    scaled = np.exp(scores - best)
    for _ in range(_MAX_ITERATIONS):
        joint = weights[:, None] * scaled
        updated = (joint / joint.sum(axis=0)).sum(axis=1) / n_tokens
        updated /= updated.sum()
        change = np.abs(updated - weights).max()
        weights = updated
        if change <= tolerance:
            break
    fitted[used] = weights
    return fitted


def check_weights(
    weights: Sequence[float] | Mapping[str, float] | None, names: list[str]
) -> Float64:
    """Return the given weights divided by their sum, float64 (components,); equal ones for None.

    Raises ConfigurationError for values that are not numbers, and for weights that do not fit the names, are negative,
    or are all zero.
    """
    if weights is None:
        return np.full(len(names), 1 / len(names))
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            raise ConfigurationError(
                f"the weights are for {', '.join(map(str, weights))} and the models are {', '.join(map(str, names))}"
            )
        weights = [weights[name] for name in names]
    try:
        listed = [] if isinstance(weights, str | bytes | Set) else list(weights)
        checked = np.array(listed if all(map(is_number, listed)) else [], np.float64)
    except (TypeError, OverflowError):  # not iterable; a whole number above all floats
        checked = np.empty(0)
    if len(checked) != len(names) or not (np.isfinite(checked) & (checked >= 0)).all():
        raise ConfigurationError(
            f"a mixture of {len(names)} models needs as many weights that are not negative, not {weights!r:.200}"
        )
    if not checked.any():
        raise ConfigurationError("the weights of a mixture are all zero: one must be above zero")
    # a division by a power of two, which is exact, so that the sum of huge weights does not overflow
    _, exponent = np.frexp(checked.max())
    checked = np.ldexp(checked, -exponent)
    return np.asarray(checked / checked.sum(), np.float64)


def is_number(value: object) -> bool:
    """Return whether a value is a real number, and neither true nor false."""
    return isinstance(value, Real) and not isinstance(value, bool)
