"""Token vectors of packed sequences from a fitted LDS: two scans over gathered rows, and one product.

The sums a_t = F' (a_{t-1} + K' w_{t-1}) and b_t = J (b_{t+1} + K' w_{t+1}), which come into a token from the
left and from the right (``tacenda_embeddings.lds.steady_state.two_sided``), are run in the basis of the eigenvectors
of F' and J, where a step is elementwise. Both are written next to each other, so that past + future is one product
of (tokens, 2 states) by (2 states, states), at the full rate of the matrix unit and whatever the batch: a single
document is as fast per token as a thousand.

    own_context        [own / |own| ; (past + future) / |past + future|]          2 states
    weighted_mean      (g own + past + future), unit length                        states
    own_past_future    [g own ; past ; future], unit length                      3 states
    mean               own + past + future = xs, unit length (paper, section 5)    states
    own                own, unit length: a static vector                           states
    filtered           xf = T^{-1} (own + past), unit length: sees the past only   states

All arrays with a row for each token or sequence are on the smoother's device, as NumPy arrays on the CPU and as
tensors elsewhere, and so is what they are multiplied by; offsets and lengths are on the host.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, empty, multiply_into, to_device, to_numpy, zeros
from tacenda.errors import KernelError
from tacenda.kernels.sequences import decompose, linear_recurrence, modal_scan
from tacenda.kernels.shared import unit_rows
from tacenda_embeddings.lds.steady_state import Matrix, TwoSided

Float32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.integer]
Integers = npt.NDArray[np.int64]
Destination = Any
"""A sequence of arrays or tensors, one for each sequence of tokens; or a single one for all."""

#: The operations of `tacenda.kernels` that smoothing consists of.
OPERATIONS = "modal_scan", "linear_recurrence", "unit_rows"

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

#: Outputs that no word outside the sequence enters; the filtered mean must not see the future.
_WITHOUT_ENDS = frozenset({"own", "filtered"})

#: Eigenvectors of a larger condition are not used: it magnifies the rounding of float32.
MAXIMUM_CONDITION = 1e5

_GROUP_TOKENS = 1 << 18  # bounds the working memory of the scans that find ends
_POWERS_KEPT = 256  # powers that are found once; sequences are rarely longer
_LONGEST_KEPT = 256  # longer sequences have thin matrices, which are quickly solved again
_NEGLIGIBLE = 1e-9  # well below float32's rounding, whatever the sums


class _Size(NamedTuple):
    """How much is processed at a time."""

    sequences: int  # whose ends are found together: enough for a product
    tokens: int  # of a block


_SIZES = {"cpu": _Size(1024, 1024)}  # scans, products and results stay in the second-level cache
_ON_DEVICES = _Size(1 << 16, 1 << 18)  # enough of them to fill one


class Recipe(NamedTuple):
    """Which vectors to make."""

    output: str
    own_weight: float = 1.0  # g
    exact_ends: bool = True  # whether the unobserved words outside a sequence are integrated out


class Ends(NamedTuple):
    """What comes into every sequence from outside, (sequences, states), in the scans' own bases."""

    past: Float32
    future: Float32


class Smoother:
    """Inference with the matrices of a fitted model, its table float32 and balanced by a ``power`` of row norms.

    Re-entrant: a call only fills a cache.
    """

    def __init__(self, matrices: TwoSided, device: str = "cpu", power: float = 0.0) -> None:
        table, forward, backward, left_end, right_end, T_inv = matrices
        self._power, self._mean_norm = power, np.linalg.norm(table, axis=1).mean()
        table = balance(table, power)
        self.device, self.states = device, table.shape[1]
        self.table = to_device(table, device)
        self._forward = recurrence(forward, table, device, reverse=False)
        self._backward = recurrence(backward, table, device, reverse=True)
        bases = self._forward.basis.T, self._backward.basis.T
        self._from_own = self._put(np.concatenate(bases))  # (2 states, states)
        self._T_inv_T = self._put(T_inv.T)
        self._L = self._forward.basis_inverse @ left_end @ self._backward.basis
        self._R = self._backward.basis_inverse @ right_end @ self._forward.basis
        self._L_T, self._R_T = self._put(self._L.T), self._put(self._R.T)
        self._echoes: dict[int, tuple[Array, Array]] = {}

    def _put(self, matrix: Matrix) -> Array:
        return to_device(matrix.astype(np.float32), self.device)

    def over(self, ids: Ids, more: Float32) -> Smoother:
        """On the CPU, return the same over another table: rows ``ids`` of this one's, then ``more`` (n, states)."""
        other, more = copy.copy(self), balance(more, self._power, self._mean_norm)
        other.table = np.concatenate([self.table.take(ids, axis=0), more])
        for name in ("_forward", "_backward"):
            twin = copy.copy(getattr(self, name))
            projected = more @ twin.basis_inverse.T.astype(np.float32)
            twin.inputs = np.concatenate([twin.inputs.take(ids, axis=0), projected])
            setattr(other, name, twin)
        return other

    def write(self, recipe: Recipe, ids: Ids, offsets: Integers, arrays: Destination) -> None:
        """Write the vectors of packed sequences, ids (tokens,) and offsets (sequences + 1,), in blocks.

        The ``arrays`` are NumPy's, or tensors on the smoother's device, which the vectors then never leave.
        """
        output, h = recipe.output, self.states
        with_ends = recipe.exact_ends and output not in _WITHOUT_ENDS
        size = _SIZES.get(self.device, _ON_DEVICES)
        longest = min(max(int(np.diff(offsets).max(initial=0)), size.tokens), len(ids))
        contexts = empty((longest if output != "own" else 0, 2 * h), self.table)
        rows = empty((longest, h * WIDTHS[output]), self.table)
        one = hasattr(arrays, "shape")
        to_host = isinstance(arrays if one or not len(arrays) else arrays[0], np.ndarray)
        for first, last in _cuts(offsets, _GROUP_TOKENS, size.sequences):
            # the messages from outside, for many sequences at a time, then blocks of these sequences
            group = offsets[first : last + 1] - offsets[first]
            words = to_device(ids[offsets[first] : offsets[last]], self.device)
            ends = self.ends(words, group) if with_ends else None
            for i, j in _cuts(group, size.tokens, last - first):
                cuts = group[i : j + 1] - group[i]
                vectors = rows[: cuts[-1]]
                inside = None if ends is None else Ends(ends.past[i:j], ends.future[i:j])
                self._compose(recipe, words[group[i] : group[j]], cuts, inside, contexts, vectors)
                found = to_numpy(vectors) if to_host and self.device != "cpu" else vectors
                if one:
                    arrays[offsets[first + i] : offsets[first + j]] = found
                    continue
                targets = arrays[first + i : first + j]
                for array, (start, stop) in zip(targets, pairwise(cuts.tolist()), strict=True):
                    array[...] = found[start:stop]

    def _compose(
        self,
        recipe: Recipe,
        ids: Array,
        offsets: Integers,
        ends: Ends | None,
        contexts: Array,
        out: Array,
    ) -> None:
        """Fill ``out`` (tokens, width) with the vectors of some sequences; ``contexts`` is scratch space."""
        output, h = recipe.output, self.states
        own = self.table[ids]  # a new array
        if output != "own":
            past, future = ends or (None, None)
            self._forward.scan(ids, offsets, past, contexts)
            self._backward.scan(ids, offsets, future, contexts, h)
            contexts = contexts[
                : len(ids)
            ]  # past and future next to each other, in their own bases
        if output == "own":
            out[:] = own
        elif output == "own_past_future":
            out[:, :h] = own
            out[:, :h] *= recipe.own_weight
            multiply_into(contexts[:, :h], self._from_own[:h], out[:, h : 2 * h])
            multiply_into(contexts[:, h:], self._from_own[h:], out[:, 2 * h :])
        elif output == "own_context":
            out[:, :h] = own
            multiply_into(contexts, self._from_own, out[:, h:])
            unit_rows(out[:, :h])
            out = out[:, h:]
        elif output == "filtered":
            multiply_into(contexts[:, :h], self._from_own[:h], out)
            own += out
            multiply_into(own, self._T_inv_T, out)
        else:
            multiply_into(contexts, self._from_own, out)
            if output == "weighted_mean":
                own *= recipe.own_weight
            out += own
        unit_rows(out)

    def ends(self, ids: Array, offsets: Integers) -> Ends:
        """Return the messages from the unobserved words outside every packed sequence, exactly.

        With a_n and b_1 the sums at the ends of a sequence of n tokens, both started from zero, the two messages
        depend on each other through the sequence:

            future = R (a_n + F'^{n-1} past)       R, L: ``right_end`` and ``left_end``
            past   = L (b_1 + J^{n-1} future)

            =>  future = R (I - Y_n)^{-1} y,   y = a_n + F'^{n-1} L b_1,   Y_n = F'^{n-1} L J^{n-1} R
        """
        a, b = self._forward.scan(ids, offsets), self._backward.scan(ids, offsets)
        lengths = np.diff(offsets)
        order = np.argsort(lengths, kind="stable")  # sequences of one length share a matrix
        ascending = lengths[order]
        distinct, starts = np.unique(ascending, return_index=True)
        by_length = to_device(order, self.device)
        a, b = a[by_length], b[by_length]
        between = np.maximum(ascending - 1, 0)
        past: Float32 = b @ self._L_T
        y: Float32 = a + self._forward.power(past, between)
        borders = pairwise([*starts.tolist(), len(y)])
        for n, (i, j) in zip(distinct.tolist(), borders, strict=True):
            n = max(n, 1)
            rows, matrix = self._echoes.get(n) or self._echo(n)
            if len(rows):
                y[i:j, rows] += y[i:j] @ matrix
        future: Float32 = y @ self._R_T
        past += self._backward.power(future, between) @ self._L_T
        as_given = to_device(np.argsort(order), self.device)
        return Ends(past[as_given], future[as_given])

    def _echo(self, n: int) -> tuple[Array, Array]:
        """Return rows and a matrix such that (I - Y_n)^{-1} y is y with ``y[rows] += y @ matrix``.

        In the basis of the eigenvectors few rows of Y_n matter, and the fewer the longer the sequence. With E the
        columns of the identity at those rows, (I - Y_n)^{-1} y = y + E (I - E^T Y_n E)^{-1} E^T Y_n y, so that a
        length costs one thin matrix.
        """
        there = self._forward.exact_power(self._L.T, n - 1).T
        back = self._backward.exact_power(self._R.T, n - 1).T
        rows, columns = _rows_that_matter(there, back), _rows_that_matter(back, there)
        Y = there[np.ix_(rows, columns)] @ back[columns]
        matrix: Matrix = np.asarray(np.linalg.solve(np.eye(len(rows)) - Y[:, rows], Y).T)
        echo = to_device(rows, self.device), self._put(matrix)
        if n <= _LONGEST_KEPT:
            self._echoes[n] = echo
        return echo


def balance(table: Float32, power: float, mean: float | None = None) -> Float32:
    """Return ``table`` (vocabulary, states) with row norms to the power ``1 - power``, scaled to ``mean``.

    That is the mean of the norms unless another is given.
    """
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    kept = norms.mean() if mean is None else np.float32(mean)
    factor = (kept / np.maximum(norms, 1e-6 * kept + 1e-30)) ** power
    return np.ascontiguousarray(table * factor.astype(np.float32))


def _rows_that_matter(X: Matrix, other: Matrix) -> npt.NDArray[np.intp]:
    """Return the indices of the rows of X whose product with anything of ``other`` is not negligible."""
    size = np.linalg.norm(X, axis=1) * np.linalg.norm(other)
    return np.flatnonzero(size > _NEGLIGIBLE)


def _cuts(offsets: Integers, most_tokens: int, most_sequences: int) -> Iterator[tuple[int, int]]:
    """Yield runs of sequences, first and one past the last, within the limits; a longer one goes alone."""
    first, n = 0, len(offsets) - 1
    while first < n:
        reached = int(np.searchsorted(offsets, offsets[first] + most_tokens, "right")) - 1
        last = min(max(reached, first + 1), first + most_sequences, n)
        yield first, last
        first = last


# -- the recurrence of either direction ---------------------------------------------------------------


def recurrence(
    M: Matrix, table: Float32, device: str, *, reverse: bool
) -> ModalRecurrence | DenseRecurrence:
    """Return x_t = M (x_{t-1} + table[w_{t-1}]), in the basis of M's eigenvectors unless they are ill-conditioned."""
    try:
        modes = decompose(M)
    except KernelError:
        modes = None
    if modes is None or modes.condition > MAXIMUM_CONDITION:
        return DenseRecurrence(M, table, device, reverse)
    return ModalRecurrence(modes, table, device, reverse)


class ModalRecurrence:
    """The recurrence in the basis of eigenvectors: a step is elementwise and reads every number once.

    ``basis`` (states, states) takes this basis, in the layout of ``tacenda.kernels.sequences.modal_scan``, to
    the coordinates of the table. With ``reverse`` it runs from the last token to the first.
    """

    def __init__(self, modes: Any, table: Float32, device: str, reverse: bool) -> None:
        self.basis, self.basis_inverse = modes.P, modes.P_inv
        self._device, self._reverse = device, reverse
        self.inputs = to_device(table @ modes.P_inv.T.astype(np.float32), device)
        self._eigenvalues = [
            to_device(values.astype(np.float32), device) for values in (modes.real, modes.complex)
        ]
        self._real, pairs = modes.real, modes.complex
        self._size = np.hypot(pairs[:, 0], pairs[:, 1])
        self._angle = np.arctan2(pairs[:, 1], pairs[:, 0])
        self._kept = self._factors(np.arange(_POWERS_KEPT))

    def scan(
        self,
        ids: Array,
        offsets: Integers,
        initial: Array | None = None,
        out: Array | None = None,
        column: int = 0,
    ) -> Array:
        """Run over packed sequences, with everything in the basis of this recurrence.

        ``initial`` (sequences, states) comes into the first tokens; zeros if None. The x_t are written into the
        columns of ``out`` (tokens or more, width) that begin at ``column``. Returns x + table[w] of the last token
        (sequences, states), which is ``initial`` for an empty sequence.
        """
        real, pairs = self._eigenvalues
        return modal_scan(
            real, pairs, self.inputs, ids, offsets, initial, self._reverse, out, column
        ).last

    def power(self, rows: Array, exponents: Integers) -> Array:
        """Multiply row i of ``rows`` (n, states) by power ``exponents[i]`` >= 0 of M."""
        factors, which = self._kept, exponents
        if exponents.max(initial=0) >= _POWERS_KEPT:
            distinct, which = np.unique(exponents, return_inverse=True)
            factors = self._factors(distinct)
        at = to_device(which, self._device)
        return _rotate(rows, factors[0][at], factors[1][at], len(self._real))

    def exact_power(self, rows: Matrix, exponent: int) -> Matrix:
        """Multiply every row of ``rows`` (n, states), on the host, by one power in float64."""
        product: Matrix = _rotate(rows, *self._exact_factors(np.array([exponent])), len(self._real))
        return product

    def _factors(self, exponents: Integers) -> tuple[Array, ...]:
        return tuple(
            to_device(f.astype(np.float32), self._device) for f in self._exact_factors(exponents)
        )

    def _exact_factors(self, exponents: Integers) -> tuple[Matrix, Matrix]:
        """Return what multiplies each state (n, states), and its partner in a pair (n, n_pairs)."""
        n = exponents.astype(np.float64)[:, None]
        size, angle = self._size**n, n * self._angle
        cosine = size * np.cos(angle)
        return np.concatenate([self._real**n, cosine, cosine], axis=1), size * np.sin(angle)


def _rotate(rows: Array, same: Array, cross: Array, n_real: int) -> Array:
    """Return rows times powers of the eigenvalues; each pair is a rotation with scaling."""
    middle = n_real + cross.shape[1]
    product = same * rows
    product[:, n_real:middle] += rows[:, middle:] * cross
    product[:, middle:] -= rows[:, n_real:middle] * cross
    return product


class DenseRecurrence:
    """The recurrence in the coordinates of the table, where the eigenvectors are too close to each other."""

    def __init__(self, M: Matrix, table: Float32, device: str, reverse: bool) -> None:
        self.basis = self.basis_inverse = np.eye(len(M))
        self.inputs = to_device(table, device)
        self._M, self._device, self._reverse = M, device, reverse

    def scan(
        self,
        ids: Array,
        offsets: Integers,
        initial: Array | None = None,
        out: Array | None = None,
        column: int = 0,
    ) -> Array:
        """Run over packed sequences, as `ModalRecurrence.scan`."""
        filled = np.flatnonzero(np.diff(offsets))
        first, last = offsets[filled], offsets[filled + 1] - 1
        if self._reverse:
            first, last = last, first
        M, first, last, filled = (
            to_device(a, self._device) for a in (self._M.astype(np.float32), first, last, filled)
        )
        if initial is None:
            initial = zeros((len(offsets) - 1, len(M)), self.inputs)
        own = self.inputs[ids]
        u = own * 1
        u[first] += initial[filled]
        y = linear_recurrence(M, u, offsets, reverse=self._reverse)
        if out is not None:
            x = out[: len(ids), column : column + len(M)]
            x[:] = y - own
            x[first] = initial[filled]
        ends = initial * 1
        ends[filled] = y[last]
        return ends

    def power(self, rows: Array, exponents: Integers) -> Array:
        """Multiply row i of ``rows`` (n, states) by power ``exponents[i]`` >= 0 of M."""
        product = zeros(tuple(rows.shape), rows)
        for n in np.unique(exponents).tolist():
            chosen = to_device(np.flatnonzero(exponents == n), self._device)
            power = np.linalg.matrix_power(self._M, n).T.astype(np.float32)
            product[chosen] = rows[chosen] @ to_device(power, self._device)
        return product

    def exact_power(self, rows: Matrix, exponent: int) -> Matrix:
        """Multiply every row of ``rows`` (n, states), on the host, by one power in float64."""
        product: Matrix = rows @ np.linalg.matrix_power(self._M, exponent).T
        return product
