"""What the scores of a text are computed from: node vectors in 8 bits, and the nodes of each word once.

A node vector is s k with whole numbers k from -127 to 127 and a scale s of its own. Vectors that have been rounded
before are not changed by it: s has so few binary digits that every s k is exact.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels.context_sum.arguments import check as check_context
from tacit.kernels.context_sum.arguments import check_far
from tacit.kernels.memory import CHUNK, LINE, WIDE, aligned
from tacit.kernels.tree_softmax.arguments import check as check_tree
from tacit.kernels.tree_softmax.codes import Codes

if TYPE_CHECKING:
    from tacit.kernels.context_sum import Context

__all__ = ["Packed", "pack", "rounded"]

_Array = NDArray[Any]
_MOST = 127  # of 8 bits, so that with every number there is its negative
_DIGITS = 16  # of a scale; 7 of k are added, and float32 has 24
_LEAST = 1e-30  # the largest element of a row that counts for more than zero
_NEAR = 1 << 19  # bytes of rows, from the root down, that are taken to be in the cache
GROUP = 4  # turns of a code are filled up to a multiple of this


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
    begins, visits
        Word w visits the nodes ``visits[begins[w]]`` to ``visits[begins[w + 1]]``, ascending, each once: int64
        (words + 1,) and int32.
    distant
        int64 (words,): from which of its visits on a word's nodes are worth asking for beforehand.
    heads, code_turns, turns
        Word w has the codes ``heads[w]`` to ``heads[w + 1]``, code c the turns ``code_turns[c]`` to
        ``code_turns[c + 1]``: twice the number of the visit, from 1 on, and 1 more where the code turns right. 0
        fills up. int64, int64 and the smallest unsigned type that will do.
    codes
        Of the tree.
    width
        D, without padding.
    """

    words: _Array
    far: _Array
    weights: _Array
    bias: _Array
    rates: _Array
    tail_weights: _Array
    rows: _Array
    begins: _Array
    visits: _Array
    distant: _Array
    heads: _Array
    code_turns: _Array
    turns: _Array
    codes: Codes
    width: int

    @property
    def chunks(self) -> int:
        """Of a row."""
        return -(-self.width // CHUNK)

    @property
    def limit(self) -> int:
        """The largest element of a predicted vector as a whole number: 15 bits, or what keeps sums within 31."""
        return min(32767, (2**31 - 1) // (_MOST * max(self.width, 1)))

    def nodes(self) -> tuple[_Array, _Array]:
        """q (nodes, width) as rounded and the biases (nodes,), float32."""
        end = self.chunks * CHUNK
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
    context: "Context",
    codes: Codes,
    node_vectors: _Array,
    node_biases: _Array,
    far: _Array | None = None,
) -> Packed:
    """The model in float32, its node vectors rounded.

    Word vectors that are aligned and whose width is a multiple of 16 are shared and not copied; see
    `tacit.kernels.memory.aligned`.

    Parameters
    ----------
    table, context, far
        As in `tacit.kernels.context_sum.forward`.
    codes, node_vectors, node_biases
        As in `tacit.kernels.tree_softmax.forward`.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit.
    """
    nothing = np.empty(0, np.int64)
    table = np.ascontiguousarray(table, np.float32)
    *_, context = check_context(table, nothing, [0], nothing, nothing, context)
    _, _, q, b = check_tree(table[:0], None, codes, node_vectors, node_biases)
    width = table.shape[1]
    whole, scales = _rounded(q)
    end = -(-width // CHUNK) * CHUNK
    rows = aligned(np.zeros((len(q), end + 8), np.int8), LINE)
    rows[:, :width] = whole
    rows[:, end : end + 8] = np.stack([scales, b], axis=1).view(np.int8)
    words = aligned(table, WIDE)
    padded = [aligned(part, WIDE) for part in (context.weights, context.bias[None], context.tail_weights)]  # fmt: skip
    begins, visits, turns = _visits(codes)
    of_word = np.repeat(np.arange(codes.n_words), np.diff(begins))
    near = visits < _NEAR // rows.shape[1]  # nodes are numbered by depth
    distant = begins[:-1] + np.bincount(of_word, near, codes.n_words).astype(np.int64)
    return Packed(
        words,
        words if far is None else aligned(check_far(far, table), WIDE),
        padded[0],
        padded[1],
        context.rates,
        padded[2],
        rows,
        begins,
        visits,
        distant,
        np.array(codes.word_codes),
        *_filled(codes, turns),
        codes,
        width,
    )


def _visits(codes: Codes) -> tuple[_Array, _Array, _Array]:
    """``begins`` and ``visits`` of `Packed`, and the turn of every step."""
    steps = np.diff(codes.code_steps[codes.word_codes])
    words = np.repeat(np.arange(codes.n_words), steps)
    keys, places = np.unique(words * codes.n_nodes + codes.nodes, return_inverse=True)
    n_nodes = max(codes.n_nodes, 1)
    begins = np.searchsorted(keys // n_nodes, np.arange(codes.n_words + 1))
    turns = 2 * (places - begins[words] + 1) + (codes.signs < 0)
    return begins, (keys % n_nodes).astype(np.int32), turns


def _filled(codes: Codes, turns: _Array) -> tuple[_Array, _Array]:
    """``code_turns`` and ``turns`` of `Packed`."""
    lengths = np.diff(codes.code_steps)
    code_turns = np.concatenate([[0], np.cumsum(-(-lengths // GROUP) * GROUP)])
    kind = np.min_scalar_type(int(turns.max(initial=0)))
    found = np.zeros(code_turns[-1], kind)
    shift = np.repeat(code_turns[:-1] - codes.code_steps[:-1], lengths)
    found[np.arange(len(turns)) + shift] = turns
    return code_turns, found
