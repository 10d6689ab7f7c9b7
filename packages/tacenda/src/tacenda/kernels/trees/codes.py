"""What the operations of log-bilinear models take: spans of a text, contexts, nodes, and the codes of words."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacenda.arrays import Array, Float, Int32, Int64, Offsets, below
from tacenda.errors import KernelError
from tacenda.kernels.operation import cast, host
from tacenda.offsets import checked_offsets


class Spans(NamedTuple):
    """A text, and the spans of it at which something is computed: the positions ``starts[i]`` to ``ends[i]``.

    The end of a span is left out. It may run over the ends of sequences, and position ``tokens``, behind the last word,
    may be asked for. The text is on the host.
    """

    ids: Int32[Array, "tokens", below("words"), host]
    offsets: Offsets[Array, "sequences tokens"]
    starts: Int64[Array, "spans", host]
    ends: Int64[Array, "spans", host]

    @property
    def places(self) -> NDArray[np.int64]:
        """Where the rows of each span begin among those of all spans, (spans + 1,)."""
        return np.concatenate([[0], np.cumsum(self.ends - self.starts)]).astype(np.int64)


class Context(NamedTuple):
    """What turns words into predictions: c of the n last positions, b, and lambda and a of every tail."""

    weights: Float[Array, "n width", cast]
    bias: Float[Array, "width", cast]
    rates: Float[Array, "tails", cast]
    tail_weights: Float[Array, "tails width", cast]


class Nodes(NamedTuple):
    """The nodes of a tree: vectors q and biases b."""

    vectors: Float[Array, "nodes width", cast]
    biases: Float[Array, "nodes", cast]


class NodeSums(NamedTuple):
    """The accumulators of `Nodes`, one number for each vector and for each bias."""

    vectors: Float[Array, "nodes"]
    biases: Float[Array, "nodes"]


_NOTHING = np.iinfo(np.int64).min


class _Fields(NamedTuple):
    word_codes: NDArray[np.int64]
    code_steps: NDArray[np.int64]
    nodes: NDArray[np.int32]
    signs: NDArray[np.int8]


class Codes(_Fields):
    """Which way to turn at which nodes, for every code of every word; checked when it is made.

    Attributes
    ----------
    word_codes
        int64 (words + 1,), from 0: word w has the codes ``word_codes[w]`` to ``word_codes[w + 1]``, at least one.
    code_steps
        int64 (codes + 1,), from 0: code c has the steps ``code_steps[c]`` to ``code_steps[c + 1]``. The one
        word of a vocabulary of one has a code without steps.
    nodes
        int32 (steps,): the node of every step, from the root down.
    signs
        int8 (steps,): 1 for d = 1, the left child; -1 for d = 0.

    Raises
    ------
    KernelError
        Where the arrays do not fit together.
    """

    def __new__(
        cls,
        word_codes: ArrayLike,
        code_steps: ArrayLike,
        nodes: ArrayLike,
        signs: ArrayLike,
    ) -> "Codes":
        """Checked copies where dtypes differ, read-only."""
        fields = (word_codes, code_steps, nodes, signs)
        kinds = (np.int64, np.int64, np.int32, np.int8)
        arrays: list[Any] = []
        for name, given, kind in zip(_Fields._fields, fields, kinds, strict=True):
            array = np.asarray(given)
            if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
                raise KernelError(
                    f"{name} must be integers in one dimension, not {array.dtype} {array.shape}"
                )
            arrays.append(np.ascontiguousarray(array, kind).view())
            arrays[-1].flags.writeable = False
        self = super().__new__(cls, *arrays)
        checked_offsets(
            self.word_codes,
            len(self.code_steps) - 1,
            what="word_codes",
            strictly=True,
            error=KernelError,
        )
        checked_offsets(self.code_steps, len(self.nodes), what="code_steps", error=KernelError)
        if self.signs.shape != self.nodes.shape:
            raise KernelError(
                f"there are {len(self.nodes)} nodes in the codes and {len(self.signs)} signs"
            )
        if len(self.nodes) and self.nodes.min() < 0:
            raise KernelError(f"the codes name node {self.nodes.min()}; nodes count from 0")
        if not (np.abs(self.signs) == 1).all():
            raise KernelError("a sign is 1 for the left child or -1 for the right one")
        return self

    @property
    def n_words(self) -> int:
        """Words that have codes."""
        return len(self.word_codes) - 1

    @property
    def n_codes(self) -> int:
        """Leaves."""
        return len(self.code_steps) - 1

    @cached_property
    def copies(self) -> dict[Any, Any]:
        """Copies of the arrays on devices, by device: backends put them here."""
        return {}

    @cached_property
    def n_nodes(self) -> int:
        """One more than the largest node named; 0 if none is."""
        return int(self.nodes.max()) + 1 if len(self.nodes) else 0

    @cached_property
    def most(self) -> tuple[int, int]:
        """The most codes, and the most steps, that a word has."""
        steps = np.diff(self.code_steps[self.word_codes])
        return int(np.diff(self.word_codes).max(initial=0)), int(steps.max(initial=0))

    @cached_property
    def children(self) -> NDArray[np.int64]:
        """int64 (nodes, 2): what lies left and right of a node, another node or ``-1 - code``.

        Raises KernelError unless the codes are all leaves of one tree whose root is node `root`.
        """
        found = np.full((max(self.n_nodes, 1), 2), _NOTHING, np.int64)
        sides = (self.signs < 0).astype(np.int64)
        leads_to = np.empty(len(self.nodes), np.int64)
        leads_to[:-1] = self.nodes[1:]
        ends = self.code_steps[1:] - 1
        occupied = np.diff(self.code_steps) > 0
        leads_to[ends[occupied]] = -1 - np.flatnonzero(occupied)
        found[self.nodes, sides] = leads_to
        heads = self.nodes[self.code_steps[:-1][occupied]]
        named = np.zeros(len(found), bool)
        named[self.nodes] = True
        inner = found[found >= 0]
        if len(self.nodes) and not (
            (found[self.nodes, sides] == leads_to).all()
            and (heads == heads[0]).all()
            and occupied.all()
            and (found[named] != _NOTHING).all()
            and len(np.unique(inner)) == len(inner)
            and not (inner == heads[0]).any()
        ):
            raise KernelError(
                "the codes are not the leaves of one binary tree: a node leads to two places, has one side, "
                "or is no node of the tree"
            )
        if not len(self.nodes) and self.n_codes > 1:
            raise KernelError(f"{self.n_codes} codes without steps are not the leaves of one tree")
        return found

    @property
    def root(self) -> int:
        """The node where codes begin."""
        return int(self.nodes[0]) if len(self.nodes) else 0


def check_nodes(codes: Codes, nodes: Nodes) -> None:
    """Raise KernelError if the codes name a node that is not there."""
    if codes.n_nodes > len(nodes.vectors):
        raise KernelError(
            f"the codes name node {codes.n_nodes - 1}, and there are {len(nodes.vectors)}"
        )
