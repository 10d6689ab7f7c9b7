"""The weights of mixtures: how they mix log-probabilities, and their fit to held-out text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from numbers import Real

import numpy as np

from tacenda.errors import ConfigurationError, CorpusError, FittingError
from tacenda_lm.sequences import Float64

_MAX_STEPS = 200  # of Newton's method, which takes about 20
_MOST_LEFT = 1e-15  # to gain by other weights, in nats per token
_MOST_ERROR = 1e-12  # of the derivatives; rounding leaves less in a billion tokens


def mix(scores: Float64, weights: Float64) -> Float64:
    """Return log sum_k weights[k] exp(scores[k]); every dimension of the weights is that of ``scores``, or 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp.reduce(scores + np.log(weights), axis=0), np.float64)


def fit_weights(scores: Float64, before: Float64 | None = None) -> Float64:
    """Find the weights that give a text the highest probability: float64 (components,), which sum to one.

    ``scores`` (components, tokens) are natural log-probabilities; a component does not predict a token where they are
    -inf or NaN. Components whose weight is zero ``before`` keep it; the other weights before do not matter. With the
    weights found, the mean log-probability is within 1e-12 nats of the highest.

    Raises CorpusError if no component with a weight above zero can predict a token.
    """
    used = np.ones(len(scores), bool) if before is None else before > 0
    given = scores[used]
    best = np.fmax.reduce(given, axis=0, initial=-np.inf)
    unpredicted = ~np.isfinite(best)
    if unpredicted.any():
        raise CorpusError(
            f"no component with a weight above zero can predict token {unpredicted.argmax() + 1} of the {len(best)} to "
            "fit weights on: add a component that can, or leave its sentence out"
        )
    weights = np.zeros(len(scores))
    weights[used] = _maximize_likelihood(np.nan_to_num(np.exp(given - best)))
    return weights


def _maximize_likelihood(likely: Float64) -> Float64:
    """Return the weights w of components that maximize mean_t log sum_k w_k p_k(t); ``likely`` (components, tokens).

    The method is a primal-dual interior-point method (Boyd and Vandenberghe 2004, section 11.7) for

        minimize sum_k w_k - mean_t log sum_k w_k p_k(t)    where w >= 0,

    whose minimum sums to one. There z_k = 1 - mean_t p_k(t) / sum_j w_j p_j(t) >= 0 and w_k z_k = 0. Newton's method
    solves these equations with w_k z_k = target, which shrinks to zero, and keeps w and z above zero.
    """
    n_components, n_tokens = likely.shape
    w, z = np.full(n_components, 1 / n_components), np.ones(n_components)
    for _ in range(_MAX_STEPS):
        ratios = likely / (w @ likely)
        error, gap = 1 - ratios.mean(axis=1) - z, w @ z
        if gap <= _MOST_LEFT and np.abs(error).max() <= _MOST_ERROR:
            return np.asarray(w / w.sum(), np.float64)
        target = 0.1 * gap / n_components
        slope = error + z - target / w
        # in units of sqrt(w); least squares, because components that predict the same make the matrix singular
        unit = np.sqrt(w)
        curvature = unit[:, None] * (ratios @ ratios.T / n_tokens) * unit + np.diag(z)
        change = -unit * np.linalg.lstsq(curvature, unit * slope, rcond=1e-13)[0]
        change_of_z = target / w - z - z * change / w
        step, expected = _find_largest_step(w, change), slope @ change
        loss = _compute_loss(w, likely, target)
        # the last term is for rounding: the last steps are too small to lower the loss
        while (
            _compute_loss(w + step * change, likely, target) > loss + 1e-4 * step * expected + 1e-14
        ):
            step /= 2
        w, z = w + step * change, z + _find_largest_step(z, change_of_z) * change_of_z
    raise FittingError(
        "the weights of the mixture do not converge: check the scores of its components"
    )


def _compute_loss(w: Float64, likely: Float64, target: float) -> float:
    """Return what a step lowers: the function to minimize, with a barrier where a weight would be zero."""
    return float(w.sum() - np.log(w @ likely).mean() - target * np.log(w).sum())


def _find_largest_step(x: Float64, change: Float64) -> float:
    """Return the share of a change, at most 1, that leaves at least a hundredth of every number."""
    falls = change < 0
    return float(min(1.0, 0.99 * (x[falls] / -change[falls]).min(initial=np.inf)))


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
