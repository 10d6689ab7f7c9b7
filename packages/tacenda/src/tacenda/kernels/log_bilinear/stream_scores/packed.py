"""What the scores of a text are computed from: node vectors in 8 bits, and the nodes of each word once.

A node vector is s k with whole numbers k from -127 to 127 and a scale s of its own. Vectors that have been rounded
before are not changed by it: s has so few binary digits that every s k is exact.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.log_bilinear.context_sum import Context, check_text
from tacenda.kernels.log_bilinear.tree_softmax import Codes, check_tree
from tacenda.kernels.machinery.memory import LINE, WIDE, aligned, aligned_zeros

_Array = NDArray[Any]
_MOST = 127  # of 8 bits, so that with every number there is its negative
_DIGITS = 16  # of a scale; 7 of k are added, and float32 has 24
_LEAST = 1e-30  # the largest element of a row that counts for more than zero
_NEAR = 1 << 20  # bytes of rows, from the root down, that are taken to be in the cache
CHUNK = 32  # whole numbers that are multiplied at a time, of 8 and of 16 bits
GROUP = 4  # turns of a code are filled up to a multiple of this
HEAD = 3  # numbers at the head of a record


class Packed(NamedTuple):
    """A model as `scores` takes it. Made by `pack`; its arrays are not to be changed.

    Attributes
    ----------
    words, far
        R and F, float32 (words, padded), the same where F is R.
    weights, bias, rates, tail_weights
        c (n, padded), b (1, padded), lambda (tails,) and a (tails, padded) of the context.
    rows
        int8 (nodes, stride): k, padded, and behind it s and the node's bias as two float32.
    starts, paths, turns
        Where the record of a word begins, int64 (words + 1,), and the records, int32: the numbers of nodes it
        visits, of those that are `_NEAR`, and of its codes; the visited nodes, ascending, each once; the groups of
        turns of each code; and these turns, in the smallest unsigned type that will do: ``turns`` is ``paths`` as
        that type. A turn is twice the number of its visit, from 1 on, and 1 more where it leads right; 0 fills up.
    codes
        Of the tree.
    width
        D, without padding.
    most
        Nodes visited by the word that visits the most.
    """

    words: _Array
    far: _Array
    weights: _Array
    bias: _Array
    rates: _Array
    tail_weights: _Array
    rows: _Array
    starts: _Array
    paths: _Array
    turns: _Array
    codes: Codes
    width: int
    most: int

    @property
    def stride(self) -> int:
        """Whole numbers of a row with padding: where its scale and its bias are."""
        return -(-self.width // CHUNK) * CHUNK

    @property
    def limit(self) -> int:
        """The largest element of a predicted vector as a whole number: 15 bits, or what keeps sums within 31."""
        return min(32767, (2**31 - 1) // (_MOST * max(self.width, 1)))

    def nodes(self) -> tuple[_Array, _Array]:
        """Node vectors (nodes, width) as rounded and biases (nodes,), float32."""
        end = self.stride
        numbers = np.ascontiguousarray(self.rows[:, end : end + 8]).view(np.float32)
        return self.rows[:, : self.width] * numbers[:, :1], numbers[:, 1].copy()


def rounded(node_vectors: _Array) -> _Array:
    """Node vectors (nodes, width) as 8 bits and a scale hold them, float32; doing it twice changes nothing."""
    whole, scales = _rounded(np.asarray(node_vectors, np.float32))
    return np.asarray(whole * scales[:, None], np.float32)


def _rounded(node_vectors: _Array) -> tuple[_Array, _Array]:
    """K int8 (nodes, width) and s float32 (nodes,), NaN where a vector is not finite."""
    most = np.abs(node_vectors).max(axis=1, initial=0).astype(np.float64)
    digits, exponents = np.frexp(most / _MOST)
    scales = np.ldexp(np.ceil(np.ldexp(digits, _DIGITS)), exponents - _DIGITS)
    usable = (most >= _LEAST) & np.isfinite(most)
    inverse = np.divide(1, scales, where=usable, out=np.zeros_like(most)).astype(np.float32)
    finite = np.where(np.isfinite(most)[:, None], node_vectors, 0)
    whole = np.rint(finite * inverse[:, None]).astype(np.int8)
    scales = np.where(usable, scales, np.where(np.isfinite(most), 1, np.nan))
    return whole, scales.astype(np.float32)


def pack(
    table: _Array,
    context: Context,
    codes: Codes,
    node_vectors: _Array,
    node_biases: _Array,
    far: _Array | None = None,
) -> Packed:
    """The model in float32, its node vectors rounded.

    Word vectors that are aligned and whose width is a multiple of 16 are shared and not copied; see
    `tacenda.kernels.machinery.memory.aligned`.

    Parameters
    ----------
    table, context, far
        As in `tacenda.kernels.log_bilinear.context_sum.forward`.
    codes, node_vectors, node_biases
        As in `tacenda.kernels.log_bilinear.tree_softmax.forward`.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit.
    """
    nothing = np.empty(0, np.int64)
    table = np.ascontiguousarray(table, np.float32)
    text = check_text(table, nothing, np.zeros(1, np.int64), nothing, nothing, context, far)
    context = text.context
    _, q, b = check_tree(table[:0], codes, node_vectors, node_biases)
    width = table.shape[1]
    whole, scales = _rounded(q)
    end = -(-width // CHUNK) * CHUNK
    rows = aligned_zeros(len(q), -(-(end + 8) // LINE) * LINE, np.int8)
    rows[:, :width] = whole
    rows[:, end : end + 8] = np.stack([scales, b], axis=1).view(np.int8)
    words = aligned(table, WIDE)
    padded = [aligned(part, WIDE) for part in (context.weights, context.bias[None], context.tail_weights)]  # fmt: skip
    records = _records(codes, _NEAR // rows.shape[1])
    return Packed(
        words,
        words if text.far is None else aligned(text.far, WIDE),
        padded[0],
        padded[1],
        context.rates,
        padded[2],
        rows,
        *records,
        codes,
        width,
        int(records[1][records[0][:-1]].max(initial=0)),
    )


def _records(codes: Codes, n_near: int) -> tuple[_Array, _Array, _Array]:
    """``starts``, ``paths`` and ``turns`` of `Packed`; the first nodes are near, as nodes are numbered by depth."""
    begins, visits, turns = _visits(codes)
    n_visits, n_codes = np.diff(begins), np.diff(codes.word_codes)
    of_visits = np.repeat(np.arange(codes.n_words), n_visits)
    near = np.bincount(of_visits, visits < n_near, codes.n_words)
    lengths = np.diff(codes.code_steps)
    groups = -(-lengths // GROUP)
    kind = np.min_scalar_type(int(turns.max(initial=0)))
    per_group = GROUP * kind.itemsize // 4
    before = np.concatenate([[0], np.cumsum(groups)])
    n_groups = np.diff(before[codes.word_codes])
    starts = np.concatenate([[0], np.cumsum(HEAD + n_visits + n_codes + per_group * n_groups)])
    paths = np.zeros(starts[-1], np.int32)
    for i, numbers in enumerate((n_visits, near, n_codes)):
        paths[starts[:-1] + i] = numbers
    paths[_within(starts[:-1] + HEAD, n_visits)] = visits
    paths[_within(starts[:-1] + HEAD + n_visits, n_codes)] = groups
    first = np.repeat(starts[:-1] + HEAD + n_visits + n_codes, n_codes)
    first += per_group * (before[:-1] - np.repeat(before[codes.word_codes[:-1]], n_codes))
    as_turns = paths.view(kind)
    as_turns[_within(first * (4 // kind.itemsize), lengths)] = turns
    return starts, paths, as_turns


def _within(firsts: _Array, lengths: _Array) -> _Array:
    """The places first, first + 1 ... of ranges, one after another."""
    ends = np.cumsum(lengths)
    return np.repeat(firsts - ends + lengths, lengths) + np.arange(lengths.sum())


def _visits(codes: Codes) -> tuple[_Array, _Array, _Array]:
    """Where each word's visits begin, the nodes visited, and the turn of every step."""
    steps = np.diff(codes.code_steps[codes.word_codes])
    words = np.repeat(np.arange(codes.n_words), steps)
    n_nodes = max(codes.n_nodes, 1)
    keys, places = np.unique(words * n_nodes + codes.nodes, return_inverse=True)
    begins = np.searchsorted(keys, n_nodes * np.arange(codes.n_words + 1))
    return begins, keys % n_nodes, 2 * (places - begins[words] + 1) + (codes.signs < 0)
