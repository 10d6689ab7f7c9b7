"""`HLBL`: the hierarchical log-bilinear model: words as paths through learned trees (Mnih 2010, chapter 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.array_ops import to_device
from tacenda.arrays import Array, Arrays, Float32, named
from tacenda.corpus import Corpus
from tacenda.corpus.storage import forget_pages
from tacenda.fitting import ArrayBatches, FitRun, History, StepResult
from tacenda.forks import cached_property
from tacenda.kernels.contexts import Context, Spans, context_sum, context_sum_backward
from tacenda.kernels.machinery.memory import aligned
from tacenda.kernels.trees import (
    Nodes,
    NodeSums,
    tree_softmax,
    tree_softmax_distribution,
    tree_softmax_step,
)
from tacenda.settings import Group, Settings, configured_by, group, option
from tacenda_lm import options
from tacenda_lm.log_bilinear.trees import Rule, Tree
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.states import State, vector_of, window_of
from tacenda_lm.stream_model import Predictor, StreamModel
from tacenda_lm.streams import Stream, streams_of
from tacenda_lm.training import StreamTrainer, draw_dropout_mask, train

_Floats = npt.NDArray[np.float32]
# chosen by the perplexity of held-out text of three sizes, and of Penn Treebank
PLAN = options.Plan(tokens_per_type_per_epoch=7, max_epochs=13)
# the model on a random tree, whose predictions are clustered; five words of context as in the thesis
_BOOTSTRAP_WIDTH, _BOOTSTRAP_CONTEXT, _BOOTSTRAP_EPOCHS = 96, 5, 2
# training cuts a tail off where its weight has fallen to _FAINT, and after _MAX_TAIL_WORDS at the latest
_FAINT, _MAX_TAIL_WORDS = 0.02, 500
_MEMORY_ADVICE = "a smaller width"
BATCH_PIECES, PIECE_WORDS = 4, 128  # contiguous pieces of text in a step, and words of each
_TOKENS_PER_BLOCK = 512  # predicted at once, then scored
# AdaGrad's accumulators at the beginning; a larger one shortens the first steps of rows with small gradients
_INITIAL_ACCUMULATOR, _INITIAL_WORD_ACCUMULATOR = 1e-8, 1e-6
# options that mattered only while fitting, or can be seen from the saved arrays
_RETIRED = "max_codes max_depth eight_bits bootstrap_epochs batch_pieces piece_words bootstrap_width far_words"
OPERATIONS = "context_sum", "context_sum_backward", "tree_softmax_step", "adagrad"


@dataclass(frozen=True, kw_only=True)
class HLBLAdvanced(Settings):
    """Options of `HLBL` that few need to change."""

    retired: ClassVar = MappingProxyType(dict.fromkeys(_RETIRED.split(), ...))

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
    copies: int = options.count(
        4, "number of trees that are joined; 4 in the thesis's best tree", 64
    )
    dropout: float = options.dropout(
        0.6, "share of the predicted vector that training leaves out; the thesis has no dropout"
    )
    epochs: int | None = PLAN.option()
    learning_rate: float = options.learning_rate(0.1, "AdaGrad", "a tenth")
    patience: int = options.patience(3)
    across_sentences: bool = options.across_sentences()
    threads: int = options.threads()
    device: str = devices.option()
    advanced: Group[HLBLAdvanced] = group(HLBLAdvanced)

    def idle(self) -> Mapping[str, str]:
        reasons = {}
        if self.tree == "random":
            reasons["advanced.frequency_power"] = 'with tree="random", which clusters no words'
        if self.tree in ("random", "balanced"):
            reasons["advanced.overlap"] = f'with tree="{self.tree}", which halves the words'
        return reasons


class Parameters(Arrays):
    """Learned parameters, on the device of the fit until it is done."""

    words: Float32[Array, "types width", options.BOUNDED_WEIGHTS]  # R
    positions: Float32[Array, "context width", options.BOUNDED_WEIGHTS]  # c, the last word's first
    bias: Float32[Array, "1 width", options.BOUNDED_WEIGHTS]  # b
    tails: Float32[Array, "tails width", options.BOUNDED_WEIGHTS]  # a
    nodes: Float32[Array, "nodes width", options.BOUNDED_WEIGHTS]  # q
    node_biases: Float32[Array, "nodes 1", options.BOUNDED_WEIGHTS]
    #: vectors that tails sum instead of R, in models of an earlier version
    far_words: Float32[Array, "types width", options.BOUNDED_WEIGHTS] | None = None

    @classmethod
    def draw(
        cls, settings: HLBLSettings, n_words: int, node_biases: _Floats, rng: np.random.Generator
    ) -> Parameters:
        """Draw small vectors; position i weighs 1 / (2 sqrt(i)), and all positions of a tail together about 1/2."""
        width = settings.width
        words = rng.standard_normal((n_words, width), np.float32) * np.float32(0.05)
        nodes = rng.standard_normal((len(node_biases), width), np.float32) * np.float32(0.01)
        positions = 0.5 / np.sqrt(np.arange(1, settings.context + 1))
        tails = 0.5 * (1 - np.array(settings.advanced.tail_rates, np.float64))
        return cls(
            words=words,
            nodes=nodes,
            positions=np.repeat(positions[:, None], width, 1).astype(np.float32),
            bias=np.zeros((1, width), np.float32),
            tails=np.repeat(tails[:, None], width, 1).astype(np.float32),
            node_biases=node_biases.reshape(-1, 1).astype(np.float32),
        ).map(aligned)


class HLBLPredictor(Predictor):
    """A fitted HLBL.

    The value of a state is a pair: the last n words, oldest first, and the bytes of the tails, float32 (tails, width).
    """

    parameters: Annotated[Parameters, named("")]
    tree: Tree
    rates: tuple[float, ...]

    @property
    def n_types(self) -> int:
        return self.tree.n_words

    @cached_property
    def context(self) -> Context:
        """The weights of the words before a prediction."""
        p = self.parameters
        return Context(p.positions, p.bias[0], np.array(self.rates, np.float32), p.tails)

    @cached_property
    def nodes(self) -> Nodes:
        """The vectors and biases of the inner nodes."""
        return Nodes(self.parameters.nodes, self.parameters.node_biases[:, 0])

    def start(self) -> State:
        tails = np.zeros(self.context.tail_weights.shape, np.float32)
        return self._extend((), tails, self.boundary)

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word: the word that leaves the window is added to the tails."""
        return self._extend(*self._unpack(state), word)

    def _extend(self, window: tuple[int, ...], tails: _Floats, word: int) -> State:
        window = (*window, word)
        if len(window) > len(self.context.weights):
            p = self.parameters
            far = p.words if p.far_words is None else p.far_words
            tails = self.context.rates[:, None] * tails + far[window[0]]
            window = window[1:]
        return State((window, tails.tobytes()))

    def _unpack(self, state: State) -> tuple[tuple[int, ...], _Floats]:
        words, packed = state.parts(2)
        window = window_of(words, len(self.context.weights), self.n_types)
        weights = self.context.tail_weights
        return window, vector_of(packed, np.float32, weights.size).reshape(weights.shape)

    def vectors(self, states: Sequence[State]) -> _Floats:
        c, b, _, a = self.context
        vectors: _Floats = np.repeat(b[None], len(states), 0)
        for vector, state in zip(vectors, states, strict=True):
            window, tails = self._unpack(state)
            if window:
                vector += (c[: len(window)] * self.parameters.words[list(reversed(window))]).sum(0)
            vector += (a * tails).sum(axis=0)
        return vectors

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[_Floats, Ids, State | None]]:
        p, n, begin = self.parameters, len(self.context.weights), 0
        of_window, of_tails, far = None, self.context, p.words
        if p.far_words is not None:  # the window and the tails sum vectors of two tables
            c, b, decay, a = self.context
            of_window = Context(c, b, decay[:0], a[:0])
            of_tails, far = Context(np.zeros_like(c), np.zeros_like(b), decay, a), p.far_words
        tails: _Floats | None = None  # those before the next span; None where a sequence begins
        if state is not None:
            # the window of the state is read again before the ids, in one sequence with them
            window, packed = self._unpack(state)
            stream, begin, tails = Stream.following(stream.ids, window), len(window), packed[None]
        for start in range(begin, len(stream.ids), _TOKENS_PER_BLOCK):
            # the ids of a span come after up to n ids before it
            low, end = max(0, start - n), min(start + _TOKENS_PER_BLOCK, len(stream.ids))
            firsts = stream.firsts_within(low, end)
            if state is not None:
                firsts[:] = False
            offsets = np.unique(np.concatenate([[0], np.flatnonzero(firsts), [end - low]]))
            ids, firsts = np.array(stream.ids[low:end]), firsts[start - low :]
            forget_pages(stream.ids)
            span = Spans(ids, offsets, np.array([start - low]), np.array([end - low]))
            before = None if firsts[0] else tails
            predicted = context_sum(far, span, of_tails, before)
            vectors, words, tails = predicted.vectors, ids[start - low :], predicted.after
            if of_window is not None:
                vectors = vectors + context_sum(p.words, span, of_window).vectors
            after = None
            if state is not None:
                window = tuple(ids[max(0, len(ids) - n) :].tolist())
                after = State((window, np.asarray(tails[0], np.float32).tobytes()))
            if firsts.any():
                vectors, words = vectors[~firsts], words[~firsts]
            yield vectors, words, after

    def rows(self, vectors: _Floats) -> _Floats:
        rows = tree_softmax_distribution(vectors, self.tree.codes, self.nodes)
        return np.asarray(rows, np.float32)

    def pick(self, vectors: _Floats, words: Ids) -> Float64:
        return tree_softmax(vectors, words, self.tree.codes, self.nodes)


class HLBL(StreamModel):
    """A hierarchical log-bilinear language model.

        r = b + sum_i c_i o R_{w_i} + sum_k a_k o u_k
        P(w | context) = sum_{d in D(w)} prod_i sigma(+-(r . q_i + b_i))

    (Mnih 2010, equations 4.5 to 4.7.) A tail u_k is the sum of the vectors of all words before the last n, each
    multiplied by rate_k for every word since. Fitting trains a small model on a random tree, builds a better tree by
    clustering words by the average vector that this model predicts for them (section 4.4), and trains on it. The models
    of the thesis have ``width=100, context=5, dropout=0.0, across_sentences=False, advanced={"tail_rates": (),
    "frequency_power": 0.0}``; its best tree has ``copies=4`` and an ``overlap`` of 0.4.

    Examples
    --------
    >>> lm = HLBL(copies=2).fit(Path("train.txt"), valid=Path("valid.txt"))
    >>> lm.perplexity(Path("test.txt"), context="stream")
    """

    name: ClassVar[str] = "hlbl"
    settings: HLBLSettings
    learned_class = HLBLPredictor
    learned: HLBLPredictor | None

    @configured_by(HLBLSettings)
    def __init__(self, settings: HLBLSettings) -> None:
        super().__init__(settings)

    @property
    def tree(self) -> Tree:
        """The tree over words. Raises NotFittedError."""
        return self._learned(self.learned).tree

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        from tacenda_lm.log_bilinear.tree_building import (  # imports numba
            average_predictions,
            build_tree,
        )

        counts = corpus.type_counts
        settings, advanced = self.settings, self.settings.advanced
        if settings.epochs is None:
            settings = replace(settings, epochs=PLAN.epochs(corpus.n_tokens, len(counts)))
        text, held_out = streams_of(corpus, valid, across=settings.across_sentences)
        vectors = None
        if settings.tree != "random":
            # the thesis's model (five words, no tails, no dropout) on a random tree, for its predictions
            bootstrap = replace(
                settings,
                width=_BOOTSTRAP_WIDTH,
                context=_BOOTSTRAP_CONTEXT,
                dropout=0.0,
                epochs=_BOOTSTRAP_EPOCHS,
                advanced=replace(advanced, tail_rates=()),
            )
            tree = build_tree("random", len(counts), seed=settings.seed)
            stage = replace(fitting.stage("bootstrap"), description="bootstrap")
            predictor, _ = train_hlbl(bootstrap, tree, counts, text, None, stage)
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
        self.learned, history = train_hlbl(settings, tree, counts, text, held_out, stage)
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"tree": tree.statistics(counts)._asdict(), "training": history.as_dict()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return super().arrays() | self.tree.arrays()

    def _read_arrays(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        tree = Tree.from_arrays(arrays, len(self.vocabulary))
        rates = self.settings.advanced.tail_rates
        sizes = {**self._sizes(), "tails": len(rates), "nodes": tree.n_nodes}
        if not np.size(arrays.get("far_words", ())):
            arrays = {name: array for name, array in arrays.items() if name != "far_words"}
        predictor = HLBLPredictor.from_arrays(arrays, tree=tree, rates=rates, **sizes)
        self.learned = predictor.map(aligned)


class HLBLTrainer(StreamTrainer):
    """An HLBL under training, changed in place; batches are arrays of the positions at which pieces begin."""

    def __init__(
        self,
        settings: HLBLSettings,
        parameters: Parameters,
        tree: Tree,
        text: Stream,
        valid: Stream | None,
        device: str = "cpu",
    ) -> None:
        self.tree = tree
        self.current = parameters.to(device)
        tables = dict(self.current.items())
        accumulators = dict.fromkeys(tables, _INITIAL_ACCUMULATOR)
        accumulators["words"] = _INITIAL_WORD_ACCUMULATOR
        super().__init__(settings, tables, text, valid, accumulators=accumulators, device=device)
        self.begins = np.arange(1, len(text.ids), PIECE_WORDS, dtype=np.int64)
        self.rates = settings.advanced.tail_rates
        p, rates = self.current, to_device(np.array(self.rates, np.float32), device)
        self._context = Context(p.positions, p.bias[0], rates, p.tails)
        self._nodes = Nodes(p.nodes, p.node_biases[:, 0])
        self._node_sums = NodeSums(self.accumulators["nodes"], self.accumulators["node_biases"])
        # a tail reaches to the beginning of the text; training reads it until the slowest has almost faded
        slowest = max(self.rates, default=0.0)
        tail_words = math.ceil(math.log(_FAINT) / math.log(slowest)) if slowest > 0 else 0
        self._reach = settings.context + min(tail_words, _MAX_TAIL_WORDS)

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        threads, device, rng = self.settings.threads, self.device, self.draw()
        (begins,) = batch
        ends = np.minimum(begins + PIECE_WORDS, len(self.text.ids))
        *span, targets, counted = self.text.windows(begins, ends, self._reach)
        spans = self.current.words, Spans(*span), self._context
        predicted = context_sum(*spans, threads=threads)
        vectors, mask = predicted.vectors, None
        if self.settings.dropout:
            mask = to_device(
                draw_dropout_mask(tuple(vectors.shape), self.settings.dropout, rng), device
            )
            vectors *= mask  # in place, as the gradient below: dropout makes no copies
        # the kernel updates the nodes itself, each while its gradient is in the cache
        log_probs, grad = tree_softmax_step(
            vectors,
            targets,
            self.tree.codes,
            self._nodes,
            to_device(-counted.astype(np.float32), device),
            self._node_sums,
            learning_rate,
            threads=threads,
        )
        if mask is not None:
            grad *= mask
        gradients = context_sum_backward(*spans, predicted.before, grad, threads)
        self.move("words", gradients.words, gradients.rows, learning_rate, threads)
        self.move("positions", None, gradients.weights, learning_rate, threads)
        self.move("bias", None, gradients.bias[None], learning_rate, threads)
        for k, rate in enumerate(self.rates):
            # a tail sums about 1 / (1 - rate) words, so its gradient is larger by the square root of that
            tail_rate, row = learning_rate * math.sqrt(1 - rate), np.array([k], np.int32)
            self.move("tails", row, gradients.tail_weights[k : k + 1], tail_rate)
        loss = -log_probs[to_device(np.flatnonzero(counted), device)].sum()
        return StepResult(loss, float(counted.sum()))

    def predictor(self) -> HLBLPredictor:
        return HLBLPredictor(self.current.to("cpu"), self.boundary, self.tree, self.rates)


def train_hlbl(
    settings: HLBLSettings,
    tree: Tree,
    counts: npt.NDArray[np.integer],
    text: Stream,
    valid: Stream | None,
    fitting: FitRun,
) -> tuple[HLBLPredictor, History]:
    """Train a model on a given tree; settings of trees are ignored.

    ``counts`` (types,), how often each word occurs in the text, give the first biases of the nodes.
    """
    rng = np.random.default_rng([settings.seed, 1])
    parameters = Parameters.draw(settings, len(counts), tree.biases(counts), rng)
    device = devices.resolve(settings, OPERATIONS)
    # a step needs rows for its words, their contexts and all nodes, and memory for its visits of nodes
    words = BATCH_PIECES * PIECE_WORDS
    rows = 6 * words + 2 * BATCH_PIECES * settings.context + tree.n_nodes
    needed = parameters.nbytes + 4 * settings.width * rows + 48 * words * tree.codes.most[1]
    devices.check_memory(needed, device, settings, _MEMORY_ADVICE)
    trainer = HLBLTrainer(settings, parameters, tree, text, valid, device)
    source = ArrayBatches(trainer.begins, batch_size=BATCH_PIECES, seed=settings.seed)
    with devices.out_of_memory(settings, _MEMORY_ADVICE):
        history = train(trainer, source, fitting, identity={"tree": tree.codes.arrays})
    return trainer.predictor(), history
