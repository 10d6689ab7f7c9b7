"""Operations of log-bilinear models: predicted vectors from contexts, and words as paths through binary trees.

float32 is what fast backends serve; float64 is served by the reference alone. On a CUDA device all that is
floating-point is a torch tensor there, and so are the results; the text is on the host. Operations are re-entrant and
release the GIL, and no result depends on a number of threads.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacenda.arrays import Array, Float, Int32, Int64, Offsets, below
from tacenda.errors import KernelError
from tacenda.forks import cached_property
from tacenda.kernels.operation import cast, check_range, host, in_place, operation
from tacenda.kernels.shared import adagrad
from tacenda.offsets import check_offsets

# -- predicted vectors from the words before ---------------------------------------------------------


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
    """Parameters of the predictions: c of the n last positions, b, and lambda and a of every tail."""

    weights: Float[Array, "n width", cast]
    bias: Float[Array, "width", cast]
    rates: Float[Array, "tails", cast]
    tail_weights: Float[Array, "tails width", cast]


class Predicted(NamedTuple):
    """Predicted vectors r (rows, width), the spans one after another, and tails u (spans, tails, width).

    The tails are those at the first position of every span, ``before``, and at the one behind its last, ``after``.
    """

    vectors: Any
    before: Any
    after: Any


class ContextGradients(NamedTuple):
    """Gradients of the words from n positions before a span to its last but one; all others have none."""

    words: NDArray[np.int32]  # (touched,), their numbers, each once, ascending
    rows: Any  # (touched, width)
    weights: Any  # of c, b and a, in their shapes
    bias: Any
    tail_weights: Any


def _check_spans(table: Any, text: Spans, *_: Any) -> None:
    starts, ends = text.starts, text.ends
    last = len(text.ids)  # the position behind the last word
    if len(starts) and (
        starts.min() < 0 or (starts > ends).any() or starts.max() > last or ends.max() > last + 1
    ):
        raise KernelError(
            f"spans must lie in the positions 0 to {last} and not end before they start"
        )


def _check_grad(table: Any, text: Spans, context: Any, before: Any, grad: Any, *_: Any) -> None:
    _check_spans(table, text)
    if len(grad) != text.places[-1]:
        raise KernelError(f"grad must have {text.places[-1]} rows, not {len(grad)}")


@operation(prepare=_check_spans)
def context_sum(
    table: Float[Array, "words width"],
    text: Spans,
    context: Context,
    tails: Float[Array, "spans tails width", cast] | None = None,
    threads: int = 1,
) -> Predicted:
    """Predict vectors at spans of positions: weights by position, and tails of exponentially fading weight.

        r_t = b + sum_{i=1..n} c_i o R[w_{t-i}] + sum_k a_k o u_k(t),    u_k(t) = lambda_k u_k(t-1) + R[w_{t-n-1}]

    c_i are the weight vectors of the n last positions (Mnih 2010, eq 4.7, with a bias), o the elementwise product;
    a_k weighs the k-th tail, which holds everything older, fading by lambda_k a word. Nothing comes from before the
    beginning of a sequence. A tail costs as much as one more position, however far it reaches.

    Parameters
    ----------
    table
        R.
    tails
        u at the first position of each span, such as ``after`` of the span before it. Where left out, they are summed
        up from the beginning of the sequence.
    """
    R, places, offsets, ids = table, text.places, text.offsets, text.ids
    c, b, rates, a = (part.astype(np.float64) for part in context)
    n, spans = len(c), len(text.starts)
    vectors = np.empty((places[-1], len(b)))
    before, after = np.zeros((spans, *a.shape)), np.zeros((spans, *a.shape))
    if tails is not None:
        before[:] = tails
    for s in range(spans):
        start = int(text.starts[s])
        begin = _beginning(offsets, start)
        if tails is None:
            for p in range(begin, start - n):
                before[s] = rates[:, None] * before[s] + R[ids[p]]
        u = before[s].copy()
        for t in range(start, int(text.ends[s])):
            if _beginning(offsets, t) != begin:
                begin, u = _beginning(offsets, t), np.zeros_like(u)
            row = b + (a * u).sum(axis=0)
            for i in range(1, min(n, t - begin) + 1):
                row += c[i - 1] * R[ids[t - i]]  # eq 4.7
            vectors[places[s] + t - start] = row
            if t - n >= begin and t < len(ids):
                u = rates[:, None] * u + R[ids[t - n]]
        after[s] = u
    return Predicted(*(part.astype(R.dtype) for part in (vectors, before, after)))


@operation(prepare=_check_grad)
def context_sum_backward(
    table: Float[Array, "words width"],
    text: Spans,
    context: Context,
    before: Float[Array, "spans tails width", cast],
    grad: Float[Array, "rows width", cast],
    threads: int = 1,
) -> ContextGradients:
    """Find gradients of a loss, of which ``grad`` is the gradient by the predicted vectors.

    ``before`` is that of `Predicted`; as part of the input it is taken for constant (the gradient of the words it was
    summed from is cut off there). Sums are in a fixed order, whatever the number of threads.
    """
    R, places, offsets, ids = table, text.places, text.offsets, text.ids
    c, _, rates, a = (part.astype(np.float64) for part in context)
    grad, n = grad.astype(np.float64), len(c)
    d_R, d_c, d_a = np.zeros(R.shape), np.zeros_like(c), np.zeros_like(a)
    touched: set[int] = set()
    for s in range(len(text.starts)):
        start, end = int(text.starts[s]), int(text.ends[s])
        first = begin = _beginning(offsets, start)
        touched.update(ids[max(start - n, 0) : max(end - 1, 0)].tolist())
        age: dict[int, int] = {}  # position -> steps since it came into the tails
        for t in range(start, end):
            if _beginning(offsets, t) != begin:
                begin, age = _beginning(offsets, t), {}
            g = grad[places[s] + t - start]
            if begin == first:
                d_a += g * rates[:, None] ** (t - start) * before[s]
            for p, steps in age.items():
                d_a += g * rates[:, None] ** steps * R[ids[p]]
                d_R[ids[p]] += (a * rates[:, None] ** steps).sum(axis=0) * g
            for i in range(1, min(n, t - begin) + 1):
                d_c[i - 1] += g * R[ids[t - i]]
                d_R[ids[t - i]] += g * c[i - 1]
            age = {p: steps + 1 for p, steps in age.items()}
            if t - n >= begin and t < len(ids):
                age[t - n] = 0
    words = np.array(sorted(touched), np.int32)
    parts = (d_R[words], d_c, grad.sum(axis=0), d_a)
    return ContextGradients(words, *(part.astype(R.dtype) for part in parts))


def _beginning(offsets: Any, t: int) -> int:
    """Return where the sequence of position t begins; position ``tokens`` goes on from the last word."""
    if t == offsets[-1]:
        filled = offsets[:-1][np.diff(offsets) > 0]
        return int(filled[-1]) if len(filled) else 0
    return int(offsets[np.searchsorted(offsets, t, side="right") - 1])


# -- probabilities of words as paths through binary trees --------------------------------------------


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

    n_words: int
    n_codes: int
    #: One more than the largest node named; 0 if none is.
    n_nodes: int
    #: The most codes, and the most steps, that a word has.
    most: tuple[int, int]
    #: Copies of the arrays on devices, by device: backends put them here.
    copies: dict[Any, Any]

    def __new__(
        cls, word_codes: ArrayLike, code_steps: ArrayLike, nodes: ArrayLike, signs: ArrayLike
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
        self.n_words, self.n_codes = len(self.word_codes) - 1, len(self.code_steps) - 1
        self.copies = {}
        check_offsets(
            self.word_codes,
            len(self.code_steps) - 1,
            what="word_codes",
            strictly=True,
            error=KernelError,
        )
        check_offsets(self.code_steps, len(self.nodes), what="code_steps", error=KernelError)
        if self.signs.shape != self.nodes.shape:
            raise KernelError(
                f"there are {len(self.nodes)} nodes in the codes and {len(self.signs)} signs"
            )
        if len(self.nodes) and self.nodes.min() < 0:
            raise KernelError(f"the codes name node {self.nodes.min()}; nodes count from 0")
        if not (np.abs(self.signs) == 1).all():
            raise KernelError("a sign is 1 for the left child or -1 for the right one")
        self.n_nodes = int(self.nodes.max()) + 1 if len(self.nodes) else 0
        codes, steps = np.diff(self.word_codes), np.diff(self.code_steps[self.word_codes])
        self.most = int(codes.max(initial=0)), int(steps.max(initial=0))
        return self

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

    def check(self) -> None:
        """Raise KernelError unless the codes are all leaves of one tree."""
        _ = self.children

    @property
    def root(self) -> int:
        """The node where codes begin."""
        return int(self.nodes[0]) if len(self.nodes) else 0


class Step(NamedTuple):
    """Natural log-probabilities, float64 (tokens,), and the gradient with respect to the vectors (tokens, width)."""

    log_probs: Any
    vectors: Any


def _check_words(vectors: Any, words: Any, codes: Codes, nodes: Nodes, *_: Any) -> None:
    if codes.n_nodes > len(nodes.vectors):
        raise KernelError(
            f"the codes name node {codes.n_nodes - 1}, and there are {len(nodes.vectors)}"
        )
    check_range(words, codes.n_words, "words")


@operation(prepare=_check_words)
def tree_softmax(
    vectors: Float[Array, "tokens width"], words: Int32[Array, "tokens"], codes: Codes, nodes: Nodes
) -> NDArray[Any]:
    """Find log P(word | vector), natural, for pairs of both: float64 (tokens,).

        P(w | r) = sum_{d in D(w)} prod_i P(d_i | q_i, r),    P(d_i = 1 | q_i, r) = sigma(r . q_i + b_i)

    (Mnih 2010, eqs 4.3 to 4.6.) r is a predicted vector, D(w) the codes of word w; each is a path from the root to a
    leaf, d_i = 1 where it turns left at the node with vector q_i and bias b_i. With every leaf of a tree being a word
    the probabilities sum to one. A word costs the nodes of its codes rather than the whole vocabulary. A code's factors
    are multiplied and logarithms taken in float64; NaN and infinity in the vectors propagate.
    """
    r, q, b = (each.astype(np.float64) for each in (vectors, *nodes))
    log_probs = np.empty(len(words))
    for t, word in enumerate(words.tolist()):
        of_codes = []
        for steps in _codes_of(word, codes):
            x = q[codes.nodes[steps]] @ r[t] + b[codes.nodes[steps]]
            of_codes.append(_log_sigma(codes.signs[steps] * x).sum())  # eqs 4.4, 4.5
        log_probs[t] = np.logaddexp.reduce(of_codes)  # eq 4.6
    return log_probs


def _gradients(
    vectors: Any, words: Any, codes: Codes, nodes: Nodes, grad: Any
) -> tuple[Step, NDArray[np.int32], Any, Any]:
    """Return what a step returns, the visited nodes, ascending, and the gradients of their vectors and biases."""
    log_probs = tree_softmax.specification(vectors, words, codes, nodes)  # type: ignore[attr-defined]
    r, q, b = (each.astype(np.float64) for each in (vectors, *nodes))
    d_r, d_q, d_b = np.zeros_like(r), np.zeros_like(q), np.zeros(len(q))
    visited: set[int] = set()
    for t, word in enumerate(words.tolist()):
        for steps in _codes_of(word, codes):
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
    return Step(log_probs, d_r), rows, d_q, d_b


@operation(prepare=_check_words)
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
    """Find log-probabilities and their gradients, and take a step on all nodes that were visited, in one.

    The step is that of `tacenda.kernels.shared.adagrad`, on ``nodes`` and their accumulators ``sums`` in place. A
    node's gradient is a sum over its tokens in their order; ``grad`` is the loss's by the log-probabilities.
    """
    found, visited, d_q, d_b = _gradients(vectors, words, codes, nodes, grad)
    step: Any = adagrad.specification  # type: ignore[attr-defined]
    step(nodes.vectors, sums.vectors, visited, d_q, rate)
    step(nodes.biases[:, None], sums.biases, visited, d_b[:, None], rate)
    return found


def _check_tree(vectors: Any, codes: Codes, nodes: Nodes) -> None:
    _check_words(vectors, (), codes, nodes)
    codes.check()


@operation(prepare=_check_tree)
def tree_softmax_distribution(
    vectors: Float[Array, "tokens width"], codes: Codes, nodes: Nodes
) -> NDArray[Any]:
    """Find log P(w | vector) of every word, natural: (tokens, words) in the dtype of the vectors.

    One product with all node vectors, then every node's probability from its parent's: the cost of a flat softmax over
    as many words as there are leaves. Raises KernelError if the codes do not make up trees with one root, since
    probabilities would not sum to one.
    """
    q, b = nodes
    x = vectors.astype(np.float64) @ q.astype(np.float64).T + b
    found = np.empty((len(vectors), codes.n_words))
    for word in range(codes.n_words):
        of_codes = [
            _log_sigma(codes.signs[steps] * x[:, codes.nodes[steps]]).sum(axis=1)
            for steps in _codes_of(word, codes)
        ]
        found[:, word] = np.logaddexp.reduce(of_codes, axis=0)
    return found.astype(vectors.dtype)


def _log_sigma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log 1 / (1 + exp(-x)), eq 4.3."""
    return -np.logaddexp(0, -x)


def _codes_of(word: int, codes: Codes) -> list[slice]:
    """Return the steps of each code of a word."""
    found = range(codes.word_codes[word], codes.word_codes[word + 1])
    return [slice(codes.code_steps[c], codes.code_steps[c + 1]) for c in found]
