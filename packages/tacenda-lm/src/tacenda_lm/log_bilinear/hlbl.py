"""`HLBL`: the hierarchical log-bilinear model: words as paths through learned trees (Mnih 2010, chapter 4).

    r = b + sum_i c_i o R_{w_i} + sum_k a_k o u_k,    P(w | context) = sum_{d in D(w)} prod_i sigma(+-(r . q_i + b_i))

(equations 4.5 to 4.7). A tail u_k is the sum of the vectors of all words older than the n weighted positions, each
multiplied by rate_k for every word since. Fitting trains a small model on a random tree, clusters words by the average
vector that it predicts for them into a better tree (section 4.4), and trains on that one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.array_ops import to_device
from tacenda.arrays import Array, Arrays, Float32
from tacenda.corpus import Corpus
from tacenda.corpus.storage import forget_pages
from tacenda.errors import ArtifactError
from tacenda.fitting import ArrayBatches, FitRun, History, StepResult
from tacenda.kernels.machinery.memory import WIDE, aligned
from tacenda.kernels.trees import (
    Context,
    Nodes,
    NodeSums,
    Spans,
    context_sum,
    context_sum_backward,
    tree_softmax,
    tree_softmax_distribution,
    tree_softmax_step,
)
from tacenda.settings import Group, Settings, configured_by, group, option
from tacenda_lm import options
from tacenda_lm.log_bilinear.trees import Rule, Tree
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.states import State, vector_of, window_of
from tacenda_lm.streams import Predictor, Stream, StreamModel
from tacenda_lm.training import Trainer, dropout_mask, falling_rate, train

_Floats = npt.NDArray[np.float32]
_PLAN = options.Plan(tokens=7, most=13)  # by held-out text of three sizes and Penn Treebank
_BOOTSTRAP_WIDTH = 96  # of the model on a random tree, whose predictions are clustered
_BOOTSTRAP_CONTEXT, _BOOTSTRAP_EPOCHS = 5, 2  # words, as in the thesis; passes over the text
_DOUBT = 5.0  # contexts of the average word, counted with those of each word
_FAINT = 0.02  # weight below which a tail is cut off in training
_FARTHEST = 500  # words, at most
_LESS = "a smaller width"
BATCH_PIECES, PIECE_WORDS = 4, 128  # contiguous pieces of text in a step, and words of each
_ROWS = 512  # tokens that are predicted side by side, at most, then scored
OPERATIONS = "context_sum", "context_sum_backward", "tree_softmax_step", "adagrad"


@dataclass(frozen=True, kw_only=True)
class HLBLAdvanced(Settings):
    """Options of `HLBL` that few need to change."""

    # they mattered only while fitting; a model of 8 bits is read as any other
    retired: ClassVar = MappingProxyType(
        {"max_codes": ..., "max_depth": ..., "eight_bits": ..., "bootstrap_epochs": ...}
        | {"batch_pieces": ..., "piece_words": ..., "bootstrap_width": ..., "far_words": ...}
    )

    tail_rates: tuple[float, ...] = option(
        (0.9, 0.95, 0.98, 0.995),
        "decay per word of each tail, a sum over all words older than ``context``; the thesis has no tails",
        above=0,
        below=1,
    )
    overlap: float = option(
        0.0,
        "epsilon of ADAPTIVE(epsilon) and NOISY-ADAPTIVE(epsilon): a word goes to both sides of a split if its "
        "probability is this close to 1/2; 0.4 in the thesis's best tree",
        at_least=0,
        below=0.5,
    )
    frequency_power: float = option(
        0.5,
        "weight of a word in the clustering is its count to this power; 0 in the thesis: all words weigh the same",
        at_least=0,
        below=10,
    )


@dataclass(frozen=True, kw_only=True)
class HLBLSettings(options.SeededSettings):
    """Settings of `HLBL`."""

    width: int = options.width(208, "elements of a feature vector, D; 100 in the thesis")
    context: int = option(
        10,
        "preceding words that have separate weights, n - 1; 5, 10 and 20 in the thesis",
        at_least=0,
        at_most=1000,
    )
    tree: Rule = option(
        "adaptive", "how words are split into a tree (section 4.4 of the thesis); see `build_tree`"
    )
    copies: int = option(
        4,
        "number of trees that are joined; 4 in the thesis's best tree",
        at_least=1,
        at_most=64,
    )
    dropout: float = options.dropout(
        0.6,
        "share of the predicted vector that training leaves out; the thesis has no dropout",
    )
    epochs: int | None = _PLAN.option()
    learning_rate: float = options.learning_rate(0.1, "AdaGrad", "a tenth")
    patience: int = options.patience(3)
    across_sentences: bool = options.across_sentences()
    threads: int = options.threads()
    device: str = devices.option()
    advanced: Group[HLBLAdvanced] = group(HLBLAdvanced)

    def plan(self, n_tokens: int, n_types: int) -> HLBLSettings:
        """Return the settings with as many epochs as a text of this size lasts, unless they are given."""
        if self.epochs is not None:
            return self
        return replace(self, epochs=min(_PLAN.most, 1 + n_tokens // (_PLAN.tokens * n_types)))

    def idle(self) -> Mapping[str, str]:
        found = {}
        if self.tree == "random":
            found["advanced.frequency_power"] = 'with tree="random", which clusters no words'
        if self.tree in ("random", "balanced"):
            found["advanced.overlap"] = f'with tree="{self.tree}", which halves the words'
        return found


class Parameters(Arrays):
    """Learned parameters, on the device of the fit until it is done."""

    words: Float32[Array, "types width", options.weights]  # R
    # of the words in the tails, where an earlier version gave them vectors of their own; else without rows
    far_words: Float32[Array, "distant width", options.weights]
    positions: Float32[Array, "context width", options.weights]  # c, the last word's weights first
    bias: Float32[Array, "1 width", options.weights]  # b, of the predicted vector
    tails: Float32[Array, "tails width", options.weights]  # a
    nodes: Float32[Array, "nodes width", options.weights]  # q
    node_biases: Float32[Array, "nodes 1", options.weights]

    @classmethod
    def draw(
        cls, settings: HLBLSettings, n_words: int, node_biases: _Floats, rng: np.random.Generator
    ) -> Parameters:
        """Draw small vectors; weights of positions are 1 / (2 sqrt(i)), weights of a tail sum to about 1/2."""
        width, advanced = settings.width, settings.advanced
        words, nodes = (
            rng.standard_normal((rows, width), np.float32) * np.float32(scale)
            for rows, scale in ((n_words, 0.05), (len(node_biases), 0.01))
        )
        weights = 0.5 / np.sqrt(np.arange(1, settings.context + 1))
        of_tails = 0.5 * (1 - np.array(advanced.tail_rates, np.float64))
        return cls(
            words=words,
            far_words=np.zeros((0, width), np.float32),
            nodes=nodes,
            positions=np.repeat(weights[:, None], width, 1).astype(np.float32),
            bias=np.zeros((1, width), np.float32),
            tails=np.repeat(of_tails[:, None], width, 1).astype(np.float32),
            node_biases=node_biases.reshape(-1, 1).astype(np.float32),
        ).map(_align)


def _align(array: _Floats) -> _Floats:
    """Put rows at the beginnings of lines of the cache, where they are read fastest, if their width allows."""
    return array if array.shape[1] % WIDE else aligned(array, WIDE)


class HLBLPredictor(Predictor):
    """A fitted HLBL; a state is ``(the last n words, oldest first; the bytes of the tails)``."""

    def __init__(
        self, parameters: Parameters, tree: Tree, rates: tuple[float, ...], boundary: int
    ) -> None:
        self.parameters, self.tree, self.boundary = parameters, tree, boundary
        self.n_types = tree.n_words
        p = parameters
        self.context = Context(p.positions, p.bias[0], np.array(rates, np.float32), p.tails)
        self.nodes = Nodes(p.nodes, p.node_biases[:, 0])
        self.far, self.far_context = p.words, self.context
        if len(p.far_words):  # vectors of their own for the words in the tails
            c, b, decay, a = self.context
            self.far, self.near_context = p.far_words, Context(c, b, decay[:0], a[:0])
            self.far_context = Context(np.zeros_like(c), np.zeros_like(b), decay, a)

    def start(self) -> State:
        return self._extend(
            (), np.zeros(self.context.tail_weights.shape, np.float32), self.boundary
        )

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word: the one that leaves the window goes into the tails."""
        return self._extend(*self._unpack(state), word)

    def _extend(self, window: tuple[int, ...], tails: _Floats, word: int) -> State:
        window = (*window, word)
        if len(window) > len(self.context.weights):
            tails = self.context.rates[:, None] * tails + self.far[window[0]]
            window = window[1:]
        return State((window, tails.tobytes()))

    def _unpack(self, state: State) -> tuple[tuple[int, ...], _Floats]:
        words, packed = state.parts(2)
        window = window_of(words, len(self.context.weights), self.n_types)
        weights = self.context.tail_weights
        return window, vector_of(packed, np.float32, weights.size).reshape(weights.shape)

    def vectors(self, states: Sequence[State]) -> _Floats:
        c, b, _, a = self.context
        found: _Floats = np.repeat(b[None], len(states), 0)
        for row, state in zip(found, states, strict=True):
            window, tails = self._unpack(state)
            if window:
                row += (c[: len(window)] * self.parameters.words[list(reversed(window))]).sum(0)
            row += (a * tails).sum(axis=0)
        return found

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[_Floats, Ids, State | None]]:
        n, (ids, first) = len(self.context.weights), (stream.ids, 0)
        tails: _Floats | None = None  # sums of what no window holds any more
        if state is not None:  # its window is read again before the ids, in one sequence with them
            window, before = self._unpack(state)
            ids, first, tails = (
                np.concatenate([np.array(window, np.int32), ids]),
                len(window),
                before[None],
            )
        for start in range(first, len(ids), _ROWS):
            end, low = min(start + _ROWS, len(ids)), max(0, start - n)
            firsts = (
                np.zeros(end - low, bool) if state is not None else stream.firsts_within(low, end)
            )
            if firsts[start - low]:
                tails = None  # those of the sequence that has just ended
            offsets = np.unique(np.concatenate([[0], np.flatnonzero(firsts), [end - low]]))
            read = np.array(ids[low:end])
            forget_pages(ids)
            span = Spans(read, offsets, np.array([start - low]), np.array([end - low]))
            found = context_sum(self.far, span, self.far_context, tails)
            if self.far is not self.parameters.words:
                near = context_sum(self.parameters.words, span, self.near_context)
                found = found._replace(vectors=near.vectors + found.vectors)
            tails, after = found.after, None
            if state is not None:
                window = tuple(ids[max(0, end - n) : end].tolist())
                after = State((window, np.asarray(tails[0], np.float32).tobytes()))
            vectors, words, opening = found.vectors, read[start - low :], firsts[start - low :]
            if opening.any():
                vectors, words = vectors[~opening], words[~opening]
            yield vectors, words, after

    def rows(self, vectors: _Floats) -> _Floats:
        rows = tree_softmax_distribution(vectors, self.tree.codes, self.nodes)
        return np.asarray(rows, np.float32)

    def pick(self, vectors: _Floats, words: Ids) -> Float64:
        return tree_softmax(vectors, words, self.tree.codes, self.nodes)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {**self.parameters.to_arrays(), **self.tree.arrays()}


class HLBL(StreamModel):
    """A hierarchical log-bilinear language model.

        r = b + sum_i c_i o r_{w_i} + tails,    P(w | context) = sum_{d in D(w)} prod_i sigma(+-(r . q_i + b_i))

    (Mnih 2010, equations 4.5 to 4.7.) Fitting trains a model on a random tree, builds a better tree by clustering the
    average vectors predicted for the words, and trains on that tree. The models of the thesis have ``width=100,
    context=5, dropout=0.0, across_sentences=False, advanced={"tail_rates": (), "frequency_power": 0.0}``; its best
    tree has ``copies=4`` and an ``overlap`` of 0.4.

    Examples
    --------
    >>> lm = HLBL(copies=2).fit(Path("train.txt"), valid=Path("valid.txt"))
    >>> lm.perplexity(Path("test.txt"), context="stream")
    """

    name: ClassVar[str] = "hlbl"
    settings: HLBLSettings
    _predictor: HLBLPredictor | None = None

    @configured_by(HLBLSettings)
    def __init__(self, settings: HLBLSettings) -> None:
        super().__init__(settings)

    @property
    def tree(self) -> Tree:
        """The tree over words. Raises NotFittedError."""
        return self._learned(self._predictor).tree

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        """Fit in three stages (section 4.4): a bootstrap, a tree, the model on it."""
        from tacenda_lm.log_bilinear.tree_building import build_tree  # imports numba

        counts = corpus.type_counts
        settings = self.settings.plan(corpus.n_tokens, len(counts))
        advanced = settings.advanced
        text = Stream.of_corpus(corpus, settings.across_sentences)
        held_out = None if valid is None else Stream.of_corpus(valid, settings.across_sentences)
        vectors = None
        if settings.tree != "random":
            # the thesis's model (five words, no tails, no dropout) on a random tree, for its predictions
            small = replace(
                settings,
                width=_BOOTSTRAP_WIDTH,
                context=_BOOTSTRAP_CONTEXT,
                dropout=0.0,
                epochs=_BOOTSTRAP_EPOCHS,
                advanced=replace(advanced, tail_rates=()),
            )
            tree = build_tree("random", len(counts), seed=settings.seed)
            stage = replace(fitting.stage("bootstrap"), description="bootstrap")
            predictor, _ = train_hlbl(small, tree, counts, text, None, stage)
            vectors = average_predictions(predictor, text)
        tree = build_tree(
            settings.tree,
            len(counts),
            vectors=vectors,
            weights=(np.maximum(counts, 1) ** advanced.frequency_power).astype(np.float32),
            overlap=advanced.overlap,
            copies=settings.copies,
            seed=settings.seed,
        )
        stage = fitting.stage("model", first=vectors is None)
        self._predictor, history = train_hlbl(settings, tree, counts, text, held_out, stage)
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {
            "tree": tree.statistics(counts)._asdict(),
            "training": history.as_dict(),
        }

    def _rebuild(self, arrays: dict[str, npt.NDArray[Any]]) -> HLBLPredictor:
        settings, advanced, types = self.settings, self.settings.advanced, len(self.vocabulary)
        tree = Tree.from_arrays(arrays, types)
        found = Parameters.from_arrays(
            arrays,
            types=types,
            width=settings.width,
            context=settings.context,
            tails=len(advanced.tail_rates),
            nodes=tree.n_nodes,
        )
        if len(found.far_words) not in (0, types):
            raise ArtifactError("the array 'far_words' is not of these words: the model is damaged")
        boundary = self.vocabulary.boundary_id
        return HLBLPredictor(found.map(_align), tree, advanced.tail_rates, boundary)


class HLBLTrainer(Trainer):
    """An HLBL under training, changed in place; batches are arrays of the positions at which pieces begin."""

    def __init__(
        self,
        settings: HLBLSettings,
        parameters: Parameters,
        tree: Tree,
        text: Stream,
        valid: Stream | None,
    ) -> None:
        self.tree = tree
        device = devices.resolve(settings, OPERATIONS)
        self.current = parameters.to(device)
        tables = dict(self.current.items())
        sums = {name: 1e-6 if name == "words" else 1e-8 for name in tables}  # of AdaGrad
        super().__init__(settings, tables, text, valid, sums=sums, device=device)
        self.begins = np.arange(1, len(text.ids), PIECE_WORDS, dtype=np.int64)
        self.rates = settings.advanced.tail_rates
        now, rates = self.current, to_device(np.array(self.rates, np.float32), device)
        self._context = Context(now.positions, now.bias[0], rates, now.tails)
        self._nodes = Nodes(now.nodes, now.node_biases[:, 0])
        self._node_sums = NodeSums(self.sums["nodes"], self.sums["node_biases"])
        # a tail would reach to the beginning of the text: it is cut where the slowest has almost faded
        longest = max(self.rates, default=0.0)
        faint = math.ceil(math.log(_FAINT) / math.log(longest)) if longest > 0 else 0
        self._reach = settings.context + min(faint, _FARTHEST)

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        threads, device, rng = self.settings.threads, self.device, self.draw()
        (begins,) = batch
        ends = np.minimum(begins + PIECE_WORDS, len(self.text.ids))
        *span, targets, counted = self.text.windows(begins, ends, self._reach)
        spans = self.current.words, Spans(*span), self._context
        found = context_sum(*spans, threads=threads)
        vectors, kept = found.vectors, None
        if self.settings.dropout:
            kept = to_device(dropout_mask(tuple(vectors.shape), self.settings.dropout, rng), device)
            vectors *= kept  # in place, and the gradient likewise: dropout costs no copies
        # the kernel moves the nodes itself, each while its gradient is in the cache
        weights = to_device(-counted.astype(np.float32), device)
        moved = self._nodes, weights, self._node_sums, learning_rate
        log_probs, grad = tree_softmax_step(
            vectors, targets, self.tree.codes, *moved, threads=threads
        )
        if kept is not None:
            grad *= kept
        down = context_sum_backward(*spans, found.before, grad, threads)
        for name, rows, gradient in (
            ("words", down.words, down.rows),
            ("positions", None, down.weights),
            ("bias", None, down.bias[None]),
        ):
            self.move(name, rows, gradient, learning_rate, threads)
        for k, rate in enumerate(self.rates):
            # a tail is so much longer than one word, where words do not depend on each other
            slower, row = learning_rate * math.sqrt(1 - rate), np.array([k], np.int32)
            self.move("tails", row, down.tail_weights[k : k + 1], slower)
        loss = -log_probs[to_device(np.flatnonzero(counted), device)].sum()
        return StepResult(loss, float(counted.sum()))

    def predictor(self) -> HLBLPredictor:
        return HLBLPredictor(self.current.to("cpu"), self.tree, self.rates, self.boundary)


def train_hlbl(
    settings: HLBLSettings,
    tree: Tree,
    counts: npt.NDArray[np.integer],
    text: Stream,
    valid: Stream | None,
    fitting: FitRun,
) -> tuple[HLBLPredictor, History]:
    """Train a model on a given tree and ignore the settings of trees.

    ``counts`` (types,) say how often each word occurs in the text: they give the first biases of the nodes.
    """
    rng = np.random.default_rng([settings.seed, 1])
    parameters = Parameters.draw(settings, len(counts), tree.biases(counts), rng)
    device = devices.resolve(settings, OPERATIONS)
    # beside the parameters, a step has rows of its words and their contexts, and visits of nodes
    words = BATCH_PIECES * PIECE_WORDS
    rows = 6 * words + 2 * BATCH_PIECES * settings.context + tree.n_nodes
    needed = parameters.nbytes + 4 * settings.width * rows + 48 * words * tree.codes.most[1]
    devices.check_memory(needed, device, settings, _LESS)
    trainer = HLBLTrainer(settings, parameters, tree, text, valid)
    source = ArrayBatches(trainer.begins, batch_size=BATCH_PIECES, seed=settings.seed)
    rate = falling_rate(settings.learning_rate, settings.epochs, source)
    with devices.out_of_memory(settings, _LESS):
        history = train(trainer, source, fitting, rate, {"tree": tuple(tree.codes)})
    return trainer.predictor(), history


def average_predictions(predictor: HLBLPredictor, stream: Stream) -> npt.NDArray[np.float64]:
    """Return the mean predicted vector of the contexts each word follows, less that of all words: (types, width).

    These are the word vectors of section 4.4, which trees are built from. Vectors of rare words are mostly
    noise, so they are moved towards the mean, as if these words had followed a few more contexts.
    """
    from tacenda_lm.log_bilinear.tree_building import add_rows  # imports numba

    sums = np.zeros(predictor.parameters.words.shape)
    counts = np.zeros(len(sums))
    for vectors, words, _ in predictor.passes(stream):
        add_rows(sums, words, vectors)
        counts += np.bincount(words, minlength=len(counts))
    # what all contexts have in common says nothing of a word, and would lead every split
    mean = sums.sum(axis=0) / max(counts.sum(), 1)
    return np.asarray((sums - counts[:, None] * mean) / (counts + _DOUBT)[:, None])
