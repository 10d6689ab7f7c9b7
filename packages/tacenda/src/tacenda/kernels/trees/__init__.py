"""Operations of log-bilinear models on trees: probabilities of words as paths through binary trees, and their steps.

Fast backends serve float32; float64 runs on the reference alone. A CUDA device runs all operations but
`tree_softmax_distribution`; floating arrays and results are torch tensors there, and the text is on the host.
Operations are re-entrant and release the GIL, and no result depends on a number of threads.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacenda.arrays import Array, Float, Int32
from tacenda.errors import KernelError
from tacenda.forks import cached_property
from tacenda.kernels.machinery.arguments import cast, check_range, in_place
from tacenda.kernels.operation import operation
from tacenda.kernels.shared import adagrad
from tacenda.offsets import check_offsets


class Nodes(NamedTuple):
    """The nodes of a tree: vectors q and biases b."""

    vectors: Float[Array, "nodes width", cast]
    biases: Float[Array, "nodes", cast]


class NodeSums(NamedTuple):
    """The accumulators of `Nodes`, one number for each vector and for each bias."""

    vectors: Float[Array, "nodes"]
    biases: Float[Array, "nodes"]


_NOTHING = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False, init=False)
class Codes:
    """The codes of every word: paths from the root, as nodes and turns. Immutable, checked when made.

    Attributes
    ----------
    word_codes
        int64 (words + 1,), from 0: word w has the codes ``word_codes[w]`` to ``word_codes[w + 1] - 1``, at least one.
    code_steps
        int64 (codes + 1,), from 0: code c has the steps ``code_steps[c]`` to ``code_steps[c + 1] - 1``. In a
        vocabulary of one word, its code has no steps.
    nodes
        int32 (steps,): the node of every step, from the root down.
    signs
        int8 (steps,): 1 for d = 1, the left child; -1 for d = 0.

    Raises
    ------
    KernelError
        The arrays do not fit together.
    """

    word_codes: NDArray[np.int64]
    code_steps: NDArray[np.int64]
    nodes: NDArray[np.int32]
    signs: NDArray[np.int8]
    #: The four arrays above.
    arrays: tuple[NDArray[Any], ...] = field(init=False, repr=False)
    n_words: int = field(init=False)
    n_codes: int = field(init=False)
    #: One more than the largest node in the codes; 0 without nodes.
    n_nodes: int = field(init=False)
    #: The node of the first step of all codes; 0 without nodes.
    root: int = field(init=False)
    #: The largest number of codes of a word, of steps of all codes of a word, and of steps of a code.
    most: tuple[int, int, int] = field(init=False)

    def __init__(
        self, word_codes: ArrayLike, code_steps: ArrayLike, nodes: ArrayLike, signs: ArrayLike
    ) -> None:
        """Check the arrays, and copy them, so that nobody can change them afterwards."""
        given = {"word_codes": word_codes, "code_steps": code_steps, "nodes": nodes, "signs": signs}
        arrays: dict[str, Any] = {}
        for name, kind in zip(given, (np.int64, np.int64, np.int32, np.int8), strict=True):
            try:
                array = np.asarray(given[name])
            except (TypeError, ValueError) as error:  # lists of different lengths
                raise KernelError(f"{name} must be integers in one dimension ({error})") from error
            if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
                raise KernelError(
                    f"{name} must be integers in one dimension, not {array.dtype} {array.shape}"
                )
            arrays[name] = array.astype(kind, order="C")
            if not (arrays[name] == array).all():
                raise KernelError(f"{name} holds a number that {kind.__name__} cannot hold")
            arrays[name].flags.writeable = False
        # a frozen class has no other way to set its fields
        vars(self).update(arrays, arrays=tuple(arrays.values()))
        n_codes = len(self.code_steps) - 1
        check = partial(check_offsets, error=KernelError)
        check(self.word_codes, n_codes, what="word_codes", strictly=True)
        check(self.code_steps, len(self.nodes), what="code_steps")
        if self.signs.shape != self.nodes.shape:
            raise KernelError(
                f"there are {len(self.nodes)} nodes in the codes and {len(self.signs)} signs"
            )
        if len(self.nodes) and self.nodes.min() < 0:
            raise KernelError(f"the codes name node {self.nodes.min()}; nodes count from 0")
        if not (np.abs(self.signs) == 1).all():
            raise KernelError("a sign is 1 for the left child or -1 for the right one")
        borders = self.word_codes, self.code_steps[self.word_codes], self.code_steps
        vars(self).update(
            n_words=len(self.word_codes) - 1,
            n_codes=n_codes,
            n_nodes=int(self.nodes.max(initial=-1)) + 1,
            root=int(self.nodes[0]) if len(self.nodes) else 0,
            most=tuple(int(np.diff(each).max(initial=0)) for each in borders),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the arrays alone, which are checked again."""
        return Codes, self.arrays

    @cached_property
    def children(self) -> NDArray[np.int64]:
        """The left and right child of every node, int64 (nodes, 2): another node, or ``-1 - code`` for a leaf.

        Raises KernelError unless the codes are all leaves of one tree whose root is node `root`.
        """
        found = np.full((max(self.n_nodes, 1), 2), _NOTHING, np.int64)
        if not len(self.nodes):
            if self.n_codes > 1:
                raise KernelError(
                    f"{self.n_codes} codes without steps are not the leaves of one tree"
                )
            return found
        sides = (self.signs < 0).astype(np.int64)
        leads_to = np.empty(len(self.nodes), np.int64)
        leads_to[:-1] = self.nodes[1:]
        ends = self.code_steps[1:] - 1
        occupied = np.diff(self.code_steps) > 0
        leads_to[ends[occupied]] = -1 - np.flatnonzero(occupied)
        found[self.nodes, sides] = leads_to
        heads, inner = self.nodes[self.code_steps[:-1][occupied]], found[found >= 0]
        if not (
            (found[self.nodes, sides] == leads_to).all()  # a side leads to one place
            and (found[self.nodes] != _NOTHING).all()  # a node has two sides
            and occupied.all()
            and (heads == self.root).all()
            and len(np.unique(inner)) == len(inner)  # no node has two parents
            and not (inner == self.root).any()
        ):
            raise KernelError(
                "the codes are not the leaves of one binary tree: a node leads to two places, has one side, "
                "or is no node of the tree"
            )
        return found


class Step(NamedTuple):
    """Log-probabilities, and gradients with respect to the predicted vectors."""

    log_probs: Any  # natural, float64 (tokens,)
    vectors: Any  # (tokens, width), in the dtype of the vectors


def _check_nodes(codes: Codes, nodes: Nodes, words: Any = ()) -> None:
    if codes.n_nodes > len(nodes.vectors):
        raise KernelError(
            f"the codes name node {codes.n_nodes - 1}, and there are {len(nodes.vectors)}"
        )
    check_range(words, codes.n_words, "words")


@operation(prepare=_check_nodes)
def tree_softmax(
    vectors: Float[Array, "tokens width"], words: Int32[Array, "tokens"], codes: Codes, nodes: Nodes
) -> NDArray[Any]:
    """Compute the natural logarithm of P(word | vector) for pairs of both: float64 (tokens,).

        P(w | r) = sum_{d in D(w)} prod_i P(d_i | q_i, r),    P(d_i = 1 | q_i, r) = sigma(r . q_i + b_i)

    (Mnih 2010, eqs 4.3 to 4.6.) r is a predicted vector, D(w) the codes of word w. A code is a path from the root to a
    leaf: d_i = 1 if it turns left at the node with vector q_i and bias b_i. The probabilities sum to one if every leaf
    of the tree is the code of a word. A word costs the nodes of its codes, not the whole vocabulary. The factors of a
    code are multiplied in float64, and so are logarithms taken; NaN and infinity in the vectors propagate.
    """
    r, q, b = (each.astype(np.float64) for each in (vectors, *nodes))
    log_probs = np.empty(len(words))
    for t, word in enumerate(words.tolist()):
        logs = []
        for steps in _list_codes(word, codes):
            x = q[codes.nodes[steps]] @ r[t] + b[codes.nodes[steps]]
            logs.append(_log_sigma(codes.signs[steps] * x).sum())  # eqs 4.4, 4.5
        log_probs[t] = np.logaddexp.reduce(logs)  # eq 4.6
    return log_probs


class _Gradients(NamedTuple):
    """The results of a step, and the gradients of the nodes that it moves."""

    step: Step
    visited: NDArray[np.int32]  # (visited,), nodes, ascending
    vectors: Any  # (visited, width)
    biases: Any  # (visited,)


def _find_gradients(vectors: Any, words: Any, codes: Codes, nodes: Nodes, grad: Any) -> _Gradients:
    """Compute log-probabilities and all gradients; ``grad`` is the loss's by the log-probabilities."""
    log_probs = tree_softmax.specification(vectors, words, codes, nodes)  # type: ignore[attr-defined]
    r, q, b = (each.astype(np.float64) for each in (vectors, *nodes))
    d_r, d_q, d_b = np.zeros_like(r), np.zeros_like(q), np.zeros(len(q))
    visited: set[int] = set()
    for t, word in enumerate(words.tolist()):
        for steps in _list_codes(word, codes):
            at, s = codes.nodes[steps], codes.signs[steps].astype(np.float64)
            x = q[at] @ r[t] + b[at]
            share = np.exp(_log_sigma(s * x).sum() - log_probs[t])  # of this code in P(w)
            d_x = grad[t] * share * s * np.exp(_log_sigma(-s * x))
            d_r[t] += d_x @ q[at]
            for node, g in zip(at.tolist(), d_x, strict=True):
                visited.add(node)
                d_q[node] += g * r[t]
                d_b[node] += g
    rows = np.array(sorted(visited), np.int32)
    d_r, d_q, d_b = (each.astype(vectors.dtype) for each in (d_r, d_q[rows], d_b[rows]))
    return _Gradients(Step(log_probs, d_r), rows, d_q, d_b)


@operation(prepare=_check_nodes)
def tree_softmax_step(
    vectors: Float[Array, "tokens width"],
    words: Int32[Array, "tokens"],
    codes: Codes,
    nodes: Annotated[Nodes, in_place],
    grad: Float[Array, "tokens", cast],
    sums: Annotated[NodeSums, in_place],
    rate: float,
    threads: int = 1,
) -> Step:
    """Compute log-probabilities and gradients, and take a step of AdaGrad on all visited nodes.

    The step is that of `tacenda.kernels.shared.adagrad`, on ``nodes`` and their accumulators ``sums``, in place. The
    gradient of a node is summed over its tokens in their order. ``grad`` is the gradient of the loss with respect to
    the log-probabilities, and ``threads`` share the tokens and the nodes.
    """
    found = _find_gradients(vectors, words, codes, nodes, grad)
    step: Any = adagrad.specification  # type: ignore[attr-defined]
    step(nodes.vectors, sums.vectors, found.visited, found.vectors, rate)
    step(nodes.biases[:, None], sums.biases, found.visited, found.biases[:, None], rate)
    return found.step


def _check_tree(codes: Codes, nodes: Nodes) -> None:
    _check_nodes(codes, nodes)
    _ = codes.children  # raises KernelError unless they are one tree


@operation(prepare=_check_tree)
def tree_softmax_distribution(
    vectors: Float[Array, "tokens width"], codes: Codes, nodes: Nodes
) -> NDArray[Any]:
    """Compute the natural logarithm of P(w | vector) for every word: (tokens, words) in the dtype of the vectors.

    This is one product with all node vectors, and then the probability of every node from that of its parent: the cost
    of a flat softmax over as many words as there are leaves. Raises KernelError if the codes are not one tree, as
    their probabilities would not sum to one.
    """
    q, b = nodes
    x = vectors.astype(np.float64) @ q.astype(np.float64).T + b
    found = np.empty((len(vectors), codes.n_words))
    for word in range(codes.n_words):
        logs = [
            _log_sigma(codes.signs[steps] * x[:, codes.nodes[steps]]).sum(axis=1)
            for steps in _list_codes(word, codes)
        ]
        found[:, word] = np.logaddexp.reduce(logs, axis=0)
    return found.astype(vectors.dtype)


def _log_sigma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(1 / (1 + exp(-x))), the logarithm of eq 4.3, without overflow."""
    return -np.logaddexp(0, -x)


def _list_codes(word: int, codes: Codes) -> list[slice]:
    """Return the steps of each code of a word."""
    found = range(codes.word_codes[word], codes.word_codes[word + 1])
    return [slice(codes.code_steps[c], codes.code_steps[c + 1]) for c in found]
