"""Operations of restricted Boltzmann machines: contrastive divergence of ratings, and free energies of words.

A CUDA device runs `boltzmann_divergence` and `boltzmann_expectations`; floating arrays are torch tensors there, and
numbers of units and cases, and offsets, may be arrays or tensors. Operations are re-entrant on different tables and
release the GIL; the same arguments give the same bits on one kind of device. NaN and infinity propagate.
"""

from typing import Annotated, Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import Array, Float, Float32, Int32, Int64, Offsets, below
from tacenda.errors import KernelError
from tacenda.kernels.machinery.arguments import cast, host, in_place
from tacenda.kernels.machinery.memory import WIDE, aligned_zeros
from tacenda.kernels.machinery.xorshift import generate_uniforms
from tacenda.kernels.operation import operation

# -- contrastive divergence of ratings ---------------------------------------------------------------


class Cases(NamedTuple):
    """Observations of every case, a user or an item: its ratings, case after case, and its identities."""

    offsets: Offsets[Array, "cases ratings"]
    #: The visible unit of each rating.
    ids: Int32[Array, "ratings", below("visible")]
    #: The number of each rating's level.
    levels: Int32[Array, "ratings", below("K")]
    #: o: how much the ratings of a case are above the average.
    slopes: Float32[Array, "cases", cast]
    #: Identities: visible units that a case is known to have rated, on which the hidden units are conditioned.
    side_offsets: Offsets[Array, "cases identities"] | None = None
    side_ids: Int32[Array, "identities", below("visible")] | None = None


class Machine(NamedTuple):
    """A restricted Boltzmann machine: a or W, b, d, U and s; U has no rows without conditioning."""

    #: a (visible, hidden) for tied weights, or W (visible, K, hidden).
    weights: Float32[Array, "visible *weights", cast]
    visible_biases: Float32[Array, "visible K", cast]
    hidden_biases: Float32[Array, "hidden", cast]
    side_weights: Float32[Array, "sides hidden", cast]
    #: Scores of the levels, ascending, about zero.
    scores: Float32[Array, "K", cast]


class Divergence(NamedTuple):
    """Sums over the cases: an error, and gradients that raise the likelihood, in the shapes of `Machine`."""

    error: SupportsFloat  # the squared error of the mean scores, given the first hidden states
    weights: Any
    visible_biases: Any
    hidden_biases: Any
    side_weights: Any


class Descent(NamedTuple):
    """Learning rates, and the weights of the squared parameters: theta += rate (gradient - penalty theta)."""

    rate: float  # of the weights, including those of identities
    bias_rate: float  # of the biases of visible and hidden units
    penalty: float = 0.0
    bias_penalty: float = 0.0
    side_penalty: float = 0.0  # of the weights of identities

    @property
    def shrinks(self) -> bool:
        """Whether penalties shrink parameters without changing their signs."""
        weights, sides = self.rate * self.penalty, self.rate * self.side_penalty
        products = weights, sides, self.bias_rate * self.bias_penalty
        return min(self.rate, self.bias_rate) >= 0 and all(0 <= each < 1 for each in products)


class Expected(NamedTuple):
    """Probabilities of the levels (pairs, K) and mean scores (pairs,), float32."""

    chances: NDArray[Any]
    means: NDArray[Any]


def _check_weights(weights: Any, biases: Any, hidden: int) -> None:
    visible, K = biases.shape
    if tuple(weights.shape) not in ((visible, hidden), (visible, K, hidden)):
        raise KernelError(
            f"weights must be {(visible, hidden)} or {(visible, K, hidden)}, not {tuple(weights.shape)}"
        )


def _complete_cases(
    cases: Cases, machine: Machine, descent: Descent | None = None
) -> dict[str, Any]:
    """Return the cases, with empty identities if the machine has no conditioning. Raises KernelError."""
    if descent is not None and not descent.shrinks:
        raise KernelError(f"rates must be at least 0, and times their penalties below 1: {descent}")
    _check_weights(machine.weights, machine.visible_biases, len(machine.hidden_biases))
    sides = len(machine.side_weights)
    if sides not in (0, len(machine.visible_biases)):
        raise KernelError(
            f"side_weights must have {len(machine.visible_biases)} rows or none, not {sides}"
        )
    if cases.side_offsets is None or cases.side_ids is None or not sides:
        cases = cases._replace(
            side_offsets=np.zeros(len(cases.offsets), np.int64), side_ids=np.empty(0, np.int32)
        )
    return {"cases": cases}


@operation(prepare=_complete_cases)
def boltzmann_divergence(
    cases: Cases, chosen: Int64[Array, "chosen", below("cases"), host], machine: Machine, seed: int
) -> Divergence:
    """Sum the contrastive-divergence gradients of the cases ``chosen``, in new arrays.

    Only the visible units that a case c has rated, of K levels each, take part. With hidden units h and the scores s of
    the levels

        P(r_m = k | h) ~ exp(b_mk + s_k o_c + W_mk . h),    P(h_j = 1 | r) = sigma(d_j + sum_f U_fj + sum_m W_{m r_m j})

    (Mnih 2010, eqs 5.7, 5.8 and 5.12). Tied weights W_mk = s_k a_m order the levels and need K times fewer weights. The
    gradient is that of one step of Gibbs sampling from the data (eqs 5.4 to 5.6, 5.15), with probabilities in place of
    hidden states wherever no visible units are drawn from these. The cost is ratings x hidden x (K + 3) multiply-adds;
    no array has the size cases x visible units.

    The random numbers of a case are a function of seed and case alone, the same on every device.
    """
    s = machine.scores.astype(np.float64)
    W, b, d, U = _untie(machine.weights, s), *machine[1:4]
    d_W, d_b, d_d, d_U = np.zeros(W.shape), np.zeros(b.shape), np.zeros(d.shape), np.zeros(U.shape)
    error = 0.0
    for c in chosen:
        m, r, f = _find_parts(cases, c)
        bias = d.astype(np.float64) + U[f].sum(axis=0)
        sampled = _sample((c, m, r, cases.slopes[c]), W, b, bias, s, seed)
        error += sampled.error
        _add_gradients(sampled, m, r, f, 1.0, 1.0, (d_W, d_b, d_d, d_U))
    if machine.weights.ndim == 2:
        d_W = np.einsum("mkh,k->mh", d_W, s)
    return Divergence(error, *(part.astype(np.float32) for part in (d_W, d_b, d_d, d_U)))


@operation(prepare=_complete_cases)
def boltzmann_descent(
    cases: Cases,
    chosen: Int64[Array, "chosen", below("cases"), host],
    machine: Annotated[Machine, in_place],
    seed: int,
    descent: Descent,
) -> float:
    """Step along the contrastive-divergence gradients of one case after another, in place (Mnih 2010, section 5.4.2).

    The arguments are those of `boltzmann_divergence`. Parameters are changed after every case, in the order of
    ``chosen``: theta += rate (gradient - penalty theta). A case without ratings and identities only shrinks them.

    The parameters of visible units that a case has not rated are not touched: they are shrunk by
    (1 - rate penalty)^n before the next case with a rating, n steps later, or at the end. So a run of cases costs as
    much as their ratings, and one pass over all tables.

    Returns the squared error of the mean scores, given the first hidden states, of each case before its step; float64.
    """
    s = machine.scores.astype(np.float64)
    a, b, d, U = (part.astype(np.float64) for part in machine[:4])
    rate, bias_rate, penalty, bias_penalty, side_penalty = descent
    error = 0.0
    for c in chosen:
        m, r, f = _find_parts(cases, c)
        W, bias = _untie(a, s), d + U[f].sum(axis=0)
        sampled = _sample((c, m, r, cases.slopes[c]), W, b, bias, s, seed)
        error += sampled.error
        a *= 1 - rate * penalty
        U *= 1 - rate * side_penalty
        b *= 1 - bias_rate * bias_penalty
        d *= 1 - bias_rate * bias_penalty
        d_W = np.zeros(W.shape)
        _add_gradients(sampled, m, r, f, rate, bias_rate, (d_W, b, d, U))
        a += np.einsum("mkh,k->mh", d_W, s) if a.ndim == 2 else d_W
    for part, new in zip(machine[:4], (a, b, d, U), strict=True):
        part[...] = new
    return error


def _check_pairs(visible: Any, weights: Any, visible_biases: Any, activations: Any) -> None:
    _check_weights(weights, visible_biases, activations.shape[1])
    if len(visible) and not (len(visible_biases) and len(activations)):
        raise KernelError("pairs need a row of the visible units and a row of the cases")


@operation(prepare=_check_pairs)
def boltzmann_expectations(
    visible: Int64[Array, "pairs", below("visible", -1)],
    cases: Int64[Array, "pairs", below("cases", -1)],
    weights: Float32[Array, "visible *weights"],
    visible_biases: Float32[Array, "visible K"],
    activations: Float32[Array, "cases hidden"],
    scores: Float32[Array, "K"],
    slopes: Float32[Array, "cases"],
) -> Expected:
    """Compute the distribution over the levels for pairs of a visible unit and a case, by mean field.

        P(r_m = k) ~ exp(b_mk + s_k o_c + W_mk . p_c)

    (Mnih 2010, eq 5.11.) -1 is the last row of the tables, which stands for an unknown unit or case. p,
    ``activations``, are the probabilities of the hidden units of every case; the other arguments are those of `Machine`
    and `Cases`. The result of a pair does not depend on other pairs.
    """
    s = scores.astype(np.float64)
    W = _untie(weights, s)
    chances = np.empty((len(visible), len(s)))
    for n, (m, c) in enumerate(zip(visible, cases, strict=True)):
        chances[n] = _softmax(visible_biases[m] + s * slopes[c] + W[m] @ activations[c])
    return Expected(chances.astype(np.float32), (chances @ s).astype(np.float32))


def _find_parts(cases: Cases, c: int) -> tuple[Any, Any, Any]:
    """Return the visible units and levels of a case, and its identities."""
    own = slice(cases.offsets[c], cases.offsets[c + 1])
    sides = slice(cases.side_offsets[c], cases.side_offsets[c + 1])  # type: ignore[index]
    return cases.ids[own], cases.levels[own], cases.side_ids[sides]  # type: ignore[index]


class _Sampled(NamedTuple):
    """The result of one step of Gibbs sampling for a case."""

    data: Any  # probabilities of the hidden units given the ratings
    p: Any  # probabilities of the hidden units given the sampled levels
    levels: Any  # the sampled levels
    error: float


def _sample(
    case: tuple[int, Any, Any, Any], W: Any, b: Any, bias: Any, s: Any, seed: int
) -> _Sampled:
    """Take a step of Gibbs sampling, h ~ P(h | r) (eq 5.12) and r ~ P(r | h) (eq 5.8)."""
    c, m, r, slope = case
    random = generate_uniforms(seed, c)
    data = _sigmoid(bias + W[m, r].sum(axis=0))
    h = np.array([float(next(random) < chance) for chance in data])
    chances = _softmax(b[m] + s * slope + W[m] @ h)
    error = float(((chances @ s - s[r]) ** 2).sum())
    levels = np.array([_draw_level(next(random), row) for row in chances], int)
    return _Sampled(data, _sigmoid(bias + W[m, levels].sum(axis=0)), levels, error)


def _add_gradients(
    sampled: _Sampled, m: Any, r: Any, f: Any, rate: float, bias_rate: float, into: tuple[Any, ...]
) -> None:
    """Add the gradients, the positive phase minus the negative phase, times the rates."""
    W, b, d, U = into
    np.add.at(W, (m, r), rate * sampled.data)
    np.subtract.at(W, (m, sampled.levels), rate * sampled.p)
    np.add.at(b, (m, r), bias_rate)
    np.subtract.at(b, (m, sampled.levels), bias_rate)
    d += bias_rate * (sampled.data - sampled.p)
    np.add.at(U, f, rate * (sampled.data - sampled.p))


def _untie(weights: Any, s: Any) -> Any:
    """Return W (visible, K, hidden); tied weights are a_m with W_mk = s_k a_m."""
    return weights[:, None, :] * s[:, None] if weights.ndim == 2 else weights.astype(np.float64)


def _sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) without overflow."""
    return np.exp(-np.logaddexp(0, -x))


def _softmax(x: Any) -> Any:
    """Return the softmax over the last axis."""
    p = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return p / p.sum(axis=-1, keepdims=True)


def _draw_level(u: float, chances: Any) -> int:
    """Return the level whose part of [0, 1) contains u; ``chances`` are the lengths of the parts."""
    return min(int(np.searchsorted(np.cumsum(chances), u, "left")), len(chances) - 1)


# -- free energies of words --------------------------------------------------------------------------


class PackedInputs(NamedTuple):
    """The inputs of hidden units from every word, packed by `pack_inputs` for `hidden_sums`. Do not change them."""

    #: a, the inputs given to `pack_inputs`.
    inputs: Float[Array, "types hidden"]
    #: The least and the largest a of every hidden unit, (hidden,).
    lows: NDArray[np.floating]
    highs: NDArray[np.floating]
    #: float32 (panels, hidden, 16): exp(a - (low + high) / 2) of sixteen words at a time, zeros after the last word. No
    #: panels if the inputs of a unit are too far apart for float32, or are float64.
    panels: NDArray[np.float32]


_WIDEST_RANGE = 160.0  # exp of half of it, and its inverse, are far from the limits of float32


def pack_inputs(inputs: Any) -> PackedInputs:
    """Pack the inputs a of hidden units from every word, (types, hidden), float32 or float64, for `hidden_sums`.

    Raises KernelError for other dtypes and without a word.
    """
    inputs = np.ascontiguousarray(inputs)
    if inputs.ndim != 2 or not len(inputs) or inputs.dtype not in (np.float32, np.float64):
        raise KernelError(
            "inputs must be float32 or float64 (types, hidden) with at least one row, a word, "
            f"not {inputs.dtype} {inputs.shape}"
        )
    types, hidden = inputs.shape
    lows, highs = inputs.min(axis=0), inputs.max(axis=0)
    panels = aligned_zeros(0, WIDE).reshape(0, hidden, WIDE)
    if inputs.dtype == np.float32 and (not hidden or (highs - lows).max() <= _WIDEST_RANGE):
        count = -(-types // WIDE)
        panels = aligned_zeros(count * hidden, WIDE).reshape(count, hidden, WIDE)
        scaled = np.exp(inputs - (lows + highs) / 2)
        whole = types // WIDE * WIDE
        panels[: whole // WIDE] = scaled[:whole].reshape(whole // WIDE, WIDE, hidden).swapaxes(1, 2)
        panels[whole // WIDE :, :, : types - whole] = scaled[whole:].T
    return PackedInputs(inputs, lows, highs, panels)


@operation
def hidden_sums(words: PackedInputs, contexts: Float[Array, "contexts hidden"]) -> NDArray[Any]:
    """Sum over the states of binary hidden units, for every word and many contexts.

        s_tw = sum_j log(1 + exp(a_wj + b_tj))

    This is the natural logarithm of the sum, over all states of the hidden units, of exp of their inputs a from word w
    and b from context t: minus the free energy, without the bias of the word (Mnih 2010, eq 3.5). The cost is one fused
    multiply-add and one product for each context, word and hidden unit, as prod_j (1 + exp(a_wj) exp(b_tj)) needs no
    logarithm and no exponential inside.

    Returns s (contexts, types), a new array, possibly not contiguous; in float32 its error is about 1e-7 times
    ``sum_j (1 + max_w |a_wj| + |b_tj|)``. A row depends on its own context only.
    """
    a = words.inputs.astype(np.float64)
    found = np.empty((len(contexts), len(a)))
    for t, b in enumerate(contexts.astype(np.float64)):
        found[t] = np.logaddexp(0, a + b).sum(axis=1)
    return found.astype(contexts.dtype)
