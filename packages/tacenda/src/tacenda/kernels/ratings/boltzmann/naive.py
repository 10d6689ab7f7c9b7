"""Contrastive divergence as a plain loop in float64, and the checks of its arguments."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.ratings.sgd.arguments import Packed, check_packed, check_users

if TYPE_CHECKING:
    from tacenda.kernels.ratings.boltzmann import Divergence, Expected

_Array = NDArray[Any]
_WORD = (1 << 64) - 1


class Checked(NamedTuple):
    """The arguments as the loops need them; tied weights have one level."""

    packed: Packed
    levels: NDArray[np.int32]
    cases: NDArray[np.int64]
    weights: NDArray[np.float32]
    visible_biases: NDArray[np.float32]
    hidden_biases: NDArray[np.float32]
    side_weights: NDArray[np.float32]
    scores: NDArray[np.float32]
    slopes: NDArray[np.float32]
    side: Packed
    chains: NDArray[np.float32] | None


def check(
    offsets: _Array,
    ids: _Array,
    levels: _Array,
    cases: _Array,
    weights: _Array,
    visible_biases: _Array,
    hidden_biases: _Array,
    side_weights: _Array,
    scores: _Array,
    slopes: _Array,
    steps: int,
    side_offsets: _Array | None,
    side_ids: _Array | None,
    chains: _Array | None,
) -> Checked:
    """Raises KernelError where shapes, dtypes or numbers do not fit."""
    n_cases = len(offsets) - 1
    visible, K = np.shape(visible_biases)
    hidden = len(hidden_biases)
    packed = check_packed(offsets, ids, n_cases, visible, "visible")
    shapes = {
        "levels": (levels, (len(packed.ids),)),
        "scores": (scores, (K,)),
        "slopes": (slopes, (n_cases,)),
        "side_weights": (side_weights, (visible if len(side_weights) else 0, hidden)),
    }
    for name, (array, shape) in shapes.items():
        if np.shape(array) != shape:
            raise KernelError(f"{name} must be {shape}, not {np.shape(array)}")
    if np.shape(weights) not in ((visible, hidden), (visible, K, hidden)):
        raise KernelError(
            f"weights must be {(visible, hidden)} or {(visible, K, hidden)}, not {np.shape(weights)}"
        )
    if len(levels) and (np.min(levels) < 0 or np.max(levels) >= K):
        raise KernelError(f"levels run from {np.min(levels)} to {np.max(levels)}, of {K}")
    if steps < 1:
        raise KernelError(f"steps must be at least 1, not {steps}")
    if chains is not None and (
        chains.shape != (n_cases, hidden)
        or chains.dtype != np.float32
        or not chains.flags.c_contiguous
    ):
        raise KernelError(
            f"chains must be float32 {(n_cases, hidden)} in C order, not {chains.dtype} {chains.shape}"
        )
    side = Packed(np.zeros(n_cases + 1, np.int64), np.empty(0, np.int32))
    if side_offsets is not None and side_ids is not None and len(side_weights):
        side = check_packed(side_offsets, side_ids, n_cases, visible, "side")
    floats = [
        np.ascontiguousarray(array, np.float32)
        for array in (weights, visible_biases, hidden_biases, side_weights, scores, slopes)
    ]
    w, b, d, u, s, o = floats
    return Checked(
        packed,
        np.ascontiguousarray(levels, np.int32),
        check_users(cases, n_cases),
        w.reshape(visible, -1, hidden),
        b, d, u, s, o, side, chains,
    )  # fmt: skip


def uniforms(seed: int, case: int) -> Iterator[float]:
    """Numbers in [0, 1): xorshift64, seeded by a hash of both numbers."""
    state = (seed * 0x9E3779B97F4A7C15 + (case + 1) * 0xBF58476D1CE4E5B9) & _WORD
    state = ((state ^ (state >> 30)) * 0x94D049BB133111EB) & _WORD
    state |= 1
    while True:
        state ^= (state << 13) & _WORD
        state ^= state >> 7
        state ^= (state << 17) & _WORD
        yield (state >> 40) / (1 << 24)


def divergence(
    offsets: _Array,
    ids: _Array,
    levels: _Array,
    cases: _Array,
    weights: _Array,
    visible_biases: _Array,
    hidden_biases: _Array,
    side_weights: _Array,
    scores: _Array,
    slopes: _Array,
    steps: int,
    seed: int,
    side_offsets: _Array | None = None,
    side_ids: _Array | None = None,
    chains: _Array | None = None,
) -> "Divergence":
    """See `tacenda.kernels.ratings.boltzmann.divergence`."""
    from tacenda.kernels.ratings.boltzmann import Divergence

    given = check(
        offsets, ids, levels, cases, weights, visible_biases, hidden_biases, side_weights, scores,
        slopes, steps, side_offsets, side_ids, chains,
    )  # fmt: skip
    s = given.scores.astype(np.float64)
    tied = np.ndim(weights) == 2
    # W (visible, K, hidden), whichever way it is stored
    W = given.weights * s[None, :, None] if tied else given.weights.astype(np.float64)
    b, d, U = given.visible_biases, given.hidden_biases.astype(np.float64), given.side_weights
    d_W, d_b, d_d, d_U = np.zeros_like(W), np.zeros(b.shape), np.zeros_like(d), np.zeros(U.shape)
    error = 0.0
    for c in given.cases:
        span = slice(given.packed.offsets[c], given.packed.offsets[c + 1])
        m, r = given.packed.ids[span], given.levels[span]
        f = given.side.ids[given.side.offsets[c] : given.side.offsets[c + 1]]
        bias = d + U[f].sum(axis=0)
        random = uniforms(seed, int(c))
        data = p = _sigmoid(bias + W[m, r].sum(axis=0))
        if given.chains is not None:
            p = given.chains[c].astype(np.float64)
        recalled = r
        for t in range(steps):
            h = np.array([float(next(random) < chance) for chance in p])
            logits = b[m] + s * given.slopes[c] + W[m] @ h
            chances = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
            chances /= chances.sum(axis=1, keepdims=True)
            if t == 0:
                error += float(((chances @ s - s[r]) ** 2).sum())
            recalled = np.array([_draw(next(random), row) for row in chances], int)
            p = _sigmoid(bias + W[m, recalled].sum(axis=0))
        if given.chains is not None:
            given.chains[c] = p
        np.add.at(d_W, (m, r), data)
        np.subtract.at(d_W, (m, recalled), p)
        np.add.at(d_b, (m, r), 1.0)
        np.subtract.at(d_b, (m, recalled), 1.0)
        d_d += data - p
        d_U[f] += data - p
    if tied:
        d_W = np.einsum("mkh,k->mh", d_W, s)
    parts = (part.astype(np.float32) for part in (d_W, d_b, d_d, d_U))
    return Divergence(error, *parts)


def check_pairs(
    visible: _Array,
    cases: _Array,
    weights: _Array,
    visible_biases: _Array,
    activations: _Array,
    scores: _Array,
    slopes: _Array,
) -> None:
    """Raises KernelError where shapes, dtypes or numbers do not fit."""
    if np.shape(visible) != np.shape(cases) or np.ndim(visible) != 1:
        raise KernelError(
            f"visible and cases must be (pairs,), not {np.shape(visible)} and {np.shape(cases)}"
        )
    units, K = visible_biases.shape
    hidden = activations.shape[1]
    if weights.shape not in ((units, hidden), (units, K, hidden)):
        raise KernelError(
            f"weights must be {(units, hidden)} or {(units, K, hidden)}, not {weights.shape}"
        )
    if scores.shape != (K,) or slopes.shape != activations.shape[:1]:
        raise KernelError(
            f"scores and slopes must be {(K,)} and {activations.shape[:1]}, not {scores.shape} and "
            f"{slopes.shape}"
        )
    tables = (weights, visible_biases, activations, scores, slopes)
    if any(table.dtype != np.float32 for table in tables):
        raise KernelError("weights, biases, activations, scores and slopes must be float32")
    for name, ids, n in (("visible", visible, units), ("case", cases, len(activations))):
        if len(ids) and (ids.min() < -1 or ids.max() >= n):
            raise KernelError(f"{name} numbers run from {ids.min()} to {ids.max()}, of {n}")


def expect(
    visible: _Array,
    cases: _Array,
    weights: _Array,
    visible_biases: _Array,
    activations: _Array,
    scores: _Array,
    slopes: _Array,
) -> "Expected":
    """See `tacenda.kernels.ratings.boltzmann.expect`."""
    from tacenda.kernels.ratings.boltzmann import Expected

    check_pairs(visible, cases, weights, visible_biases, activations, scores, slopes)
    s, W = scores.astype(np.float64), weights.astype(np.float64)
    found = np.empty((len(visible), len(s)))
    for n, (m, c) in enumerate(zip(visible, cases, strict=True)):
        from_hidden = s * (W[m] @ activations[c]) if W.ndim == 2 else W[m] @ activations[c]
        logits = visible_biases[m] + s * slopes[c] + from_hidden
        found[n] = np.exp(logits - logits.max())
        found[n] /= found[n].sum()
    return Expected(found.astype(np.float32), (found @ s).astype(np.float32))


def _sigmoid(x: _Array) -> NDArray[np.float64]:
    return 1.0 / (1.0 + np.exp(-x))


def _draw(u: float, chances: _Array) -> int:
    return min(int(np.searchsorted(np.cumsum(chances), u, "left")), len(chances) - 1)
