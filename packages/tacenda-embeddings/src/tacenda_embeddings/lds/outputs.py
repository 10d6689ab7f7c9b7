"""The token vectors made of own, past and future (notation of ``tacenda_embeddings.lds.fitted``).

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

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, multiply_into, to_numpy
from tacenda.kernels.machinery.arrays import empty
from tacenda.kernels.shared.tall_matrices import normalize
from tacenda_embeddings.lds.smoother import Ends, Float32, Offsets, Smoother
from tacenda_embeddings.lds.steady_state import Matrix

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

_GROUP_TOKENS = 1 << 18  # bounds the working memory of the scans that find ends


Arrays = Any
"""A sequence of arrays or tensors, one for each sequence of tokens; or a single one for all."""


class _Size(NamedTuple):
    """How much is worked on at a time."""

    sequences: int  # whose ends are found together: enough for a product
    tokens: int  # of a block


_SIZES = {"cpu": _Size(1024, 1024)}  # scans, products and results stay in the second-level cache
_ON_DEVICES = _Size(1 << 16, 1 << 18)  # enough of them to fill one


class Source(NamedTuple):
    """The parts that the vectors of a block are made from."""

    smoother: Smoother
    ids: npt.NDArray[np.integer]
    contexts: Float32
    own_weight: float
    T_inv: Matrix

    @property
    def own(self) -> Array:
        """(tokens, states), a new array."""
        return self.smoother.table[self.ids]


def balanced(table: Float32, power: float, mean: float | None = None) -> Float32:
    """Return ``table`` (vocabulary, states) with row norms to the power ``1 - power``, scaled to their mean.

    ``mean`` is another length to scale to.
    """
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    kept = norms.mean() if mean is None else np.float32(mean)
    factor = (kept / np.maximum(norms, 1e-6 * kept + 1e-30)) ** power
    return np.ascontiguousarray(table * factor.astype(np.float32))


def _own_context(source: Source, out: Float32) -> None:
    h = source.smoother.states
    out[:, :h] = source.own
    source.smoother.both(source.contexts, out[:, h:])
    normalize(out[:, :h])
    normalize(out[:, h:])


def _weighted_mean(source: Source, out: Float32) -> None:
    source.smoother.both(source.contexts, out)
    own = source.own
    own *= source.own_weight
    out += own
    normalize(out)


def _own_past_future(source: Source, out: Float32) -> None:
    h = source.smoother.states
    out[:, :h] = source.own
    out[:, :h] *= source.own_weight
    source.smoother.past(source.contexts, out[:, h : 2 * h])
    source.smoother.future(source.contexts, out[:, 2 * h :])
    normalize(out)


def _mean(source: Source, out: Float32) -> None:
    source.smoother.both(source.contexts, out)
    out += source.own
    normalize(out)


def _filtered(source: Source, out: Float32) -> None:
    past = source.own
    source.smoother.past(source.contexts, out)
    past += out
    multiply_into(past, source.smoother.put(source.T_inv.T.astype(np.float32)), out)
    normalize(out)


def _own(source: Source, out: Float32) -> None:
    out[:] = source.own
    normalize(out)


_COMPOSERS: dict[str, Callable[[Source, Float32], None]] = {
    "own_context": _own_context,
    "weighted_mean": _weighted_mean,
    "own_past_future": _own_past_future,
    "mean": _mean,
    "filtered": _filtered,
    "own": _own,
}

#: Outputs that no word outside the sequence enters; the filtered mean must not see the future.
_WITHOUT_ENDS = frozenset({"own", "filtered"})


def write(
    output: str,
    smoother: Smoother,
    ids: npt.NDArray[np.integer],
    offsets: Offsets,
    arrays: Arrays,
    *,
    own_weight: float,
    exact_ends: bool,
    T_inv: Matrix,
) -> None:
    """Write the token vectors of packed sequences into one array for each, or into one for all, in blocks.

    The arrays are numpy's, or tensors on the device of the smoother, which the vectors then never leave. ``ids``
    (tokens,) and ``offsets`` (sequences + 1,) are the sequences, ``smoother`` has rows that are balanced
    already, ``own_weight`` is g, and ``T_inv`` (states, states) leads from own + past to the filtered mean. With
    ``exact_ends`` the unobserved words outside every sequence are integrated out.
    """
    h = smoother.states
    exact_ends = exact_ends and output not in _WITHOUT_ENDS
    size = _SIZES.get(smoother.device, _ON_DEVICES)
    longest = min(max(int(np.diff(offsets).max(initial=0)), size.tokens), len(ids))
    scratch = empty((longest if output != "own" else 0, 2 * h), smoother.table)
    rows = empty((longest, h * WIDTHS[output]), smoother.table)
    for first, last in _cuts(offsets, _GROUP_TOKENS, size.sequences):
        # the messages from outside, for many sequences at a time, then blocks of these sequences
        group = offsets[first : last + 1] - offsets[first]
        words = smoother.put(ids[offsets[first] : offsets[last]])
        ends = smoother.ends(words, group) if exact_ends else None
        for i, j in _cuts(group, size.tokens, last - first):
            part, local = words[group[i] : group[j]], group[i : j + 1] - group[i]
            contexts = scratch[:0]
            if output != "own":
                incoming = Ends(*(end[i:j] for end in ends)) if ends else None
                contexts = smoother.contexts(part, local, incoming, scratch)
            vectors = rows[: len(part)]
            _COMPOSERS[output](Source(smoother, part, contexts, own_weight, T_inv), vectors)
            if hasattr(arrays, "shape"):
                arrays[offsets[first + i] : offsets[first + j]] = _for(arrays, vectors)
            else:
                _hand_out(vectors, local.tolist(), arrays[first + i : first + j])


def _hand_out(vectors: Array, cuts: list[int], arrays: Sequence[Array]) -> None:
    """Copy the rows of each sequence into its array; those for the host are fetched in one go."""
    vectors = _for(arrays[0], vectors) if arrays else vectors
    for array, (start, stop) in zip(arrays, pairwise(cuts), strict=True):
        array[...] = vectors[start:stop]


def _for(array: Array, vectors: Array) -> Array:
    """Return the vectors where the array lies."""
    return to_numpy(vectors) if isinstance(array, np.ndarray) else vectors


def _cuts(offsets: Offsets, most_tokens: int, most_sequences: int) -> Iterator[tuple[int, int]]:
    """Yield runs of sequences, first and one past the last, within the limits; a longer one goes alone."""
    first, n = 0, len(offsets) - 1
    while first < n:
        reached = int(np.searchsorted(offsets, offsets[first] + most_tokens, "right")) - 1
        last = min(max(reached, first + 1), first + most_sequences, n)
        yield first, last
        first = last
