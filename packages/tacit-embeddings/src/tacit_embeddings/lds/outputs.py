"""The token vectors made of own, past and future (notation of ``tacit_embeddings.lds.two_sided``).

    own_context        [own / |own| ; (past + future) / |past + future|]          2 states
    weighted_mean      (g own + past + future), unit length                        states
    own_past_future    [g own ; past ; future], unit length                      3 states
    mean               own + past + future = xs, unit length (paper, section 5)    states
    own                own, unit length: a static vector                           states
    filtered           xf = T^{-1} (own + past), unit length: sees the past only   states

g is ``own_weight``. Rows of K' are divided by their norm to ``row_norm_power`` before the recursions, except
for ``mean`` and ``filtered``, which are the model's own posterior means.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tacit_embeddings.lds.inference import Float32, Messages, Smoother
from tacit_embeddings.lds.linear_algebra import Matrix

#: Width in units of the number of states.
WIDTHS = {
    "own_context": 2,
    "weighted_mean": 1,
    "own_past_future": 3,
    "mean": 1,
    "own": 1,
    "filtered": 1,
}

#: Outputs that are posterior means of the model itself, whatever the row norms.
POSTERIOR_MEANS = frozenset({"mean", "filtered"})

_TINY = np.float32(1e-12)


def balanced(table: Float32, power: float) -> Float32:
    """``table`` (vocabulary, states) with row norms raised to ``1 - power``, their mean kept."""
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    mean = norms.mean()
    factor = (mean / np.maximum(norms, 1e-6 * mean + 1e-30)) ** power
    return np.ascontiguousarray(table * factor.astype(np.float32))


def normalize(x: Float32) -> Float32:
    """Rows to unit length, in place; a zero row stays zero."""
    squared = np.einsum("ij,ij->i", x, x)
    x *= (1.0 / np.sqrt(np.maximum(squared, _TINY)))[:, None]
    return x


def _own_context(m: Messages, g: float, T_inv: Float32) -> Float32:
    n, h = m.own.shape
    out = np.empty((n, 2 * h), np.float32)
    out[:, h:] = normalize(np.add(m.past, m.future, out=m.past))
    out[:, :h] = normalize(m.own)
    return out


def _weighted_mean(m: Messages, g: float, T_inv: Float32) -> Float32:
    total = np.add(m.past, m.future, out=m.past)
    total += np.float32(g) * m.own
    return normalize(total)


def _own_past_future(m: Messages, g: float, T_inv: Float32) -> Float32:
    return normalize(np.concatenate([np.float32(g) * m.own, m.past, m.future], axis=1))


def _mean(m: Messages, g: float, T_inv: Float32) -> Float32:
    return _weighted_mean(m, 1.0, T_inv)


def _filtered(m: Messages, g: float, T_inv: Float32) -> Float32:
    return normalize(np.add(m.own, m.past, out=m.past) @ T_inv)


Composer = Callable[[Messages, float, Float32], Float32]

_COMPOSERS: dict[str, Composer] = {
    "own_context": _own_context,
    "weighted_mean": _weighted_mean,
    "own_past_future": _own_past_future,
    "mean": _mean,
    "filtered": _filtered,
}


def compose(
    output: str,
    smoother: Smoother,
    ids: npt.NDArray[np.integer],
    offsets: npt.NDArray[np.int64],
    *,
    own_weight: float,
    exact_ends: bool,
    T_inv: Matrix,
) -> Float32:
    """Token vectors (tokens, width) float32 of packed sequences.

    Args:
        output: a key of ``WIDTHS``.
        smoother: of the model, rows already balanced.
        ids: (tokens,) packed word ids.
        offsets: (sequences + 1,).
        own_weight: g.
        exact_ends: as in ``Smoother.messages``.
        T_inv: (states, states), from own + past to the filtered mean.
    """
    if output == "own":
        return normalize(smoother.table.take(ids, axis=0))
    # The filtered mean must not see the future, which the exact left end would bring in.
    exact_ends = exact_ends and output != "filtered"
    messages = smoother.messages(ids, offsets, exact_ends=exact_ends)
    return _COMPOSERS[output](messages, own_weight, T_inv.T.astype(np.float32))
