"""`HLBL`: the hierarchical log-bilinear model: words as paths through learned trees (Mnih 2010, chapter 4)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.arrays import Array
from tacenda.corpus import Corpus
from tacenda.fitting import ArrayBatches, FitRun, History, StepResult, fingerprint_arrays
from tacenda.fitting.processes import join, processes
from tacenda.fitting.processes import total as sum_of
from tacenda.kernels.log_bilinear import context_sum, tree_softmax
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.log_bilinear.hlbl_predictor import HLBLPredictor, Parameters
from tacenda_lm.log_bilinear.settings import HLBLSettings
from tacenda_lm.log_bilinear.trees import Tree
from tacenda_lm.stream_model import StreamModel
from tacenda_lm.streams import Stream, streams_of
from tacenda_lm.training import AdaGradTrainer, dropout_mask, falling_rate, train

__all__ = ["HLBL", "HLBLTrainer", "average_predicted", "train_hlbl"]

_BOOTSTRAP_CONTEXT = 5  # words, as in the thesis
_DEEP = 64  # steps of a code of the random tree, at most: more than it ever has
_SUMS = {"words": 1e-6, "far_words": 1e-6}  # accumulators to begin with; those of other tables:
_OTHER_SUMS = 1e-8
_DOUBT = 5.0  # contexts of the average word, counted with those of each word
_FAINT = 0.02  # weight below which a tail is cut off in training
_FARTHEST = 500  # words, at most
_LESS = "a smaller width, or fewer batch_pieces"
OPERATIONS = "context_sum", "context_sum_backward", "tree_softmax_step", "row_steps"
_ROWS = 4096  # predicted vectors at a time, where they are averaged


class HLBL(StreamModel):
    """A hierarchical log-bilinear language model.

        r = b + sum_i c_i o r_{w_i} + tails,    P(w | context) = sum_{d in D(w)} prod_i sigma(+-(r . q_i + b_i))

    (Mnih 2010, equations 4.5 to 4.7.) Fitting trains a model on a random tree, clusters words by the average vector
    predicted for them into a better tree, and trains on that one. The models of the thesis have ``width=100,
    context=5, dropout=0.0, across_sentences=False, advanced={"tail_rates": (), "frequency_power": 0.0}``; its best
    tree has ``copies=4`` and an ``overlap`` of 0.4.

    Examples
    --------
    >>> lm = HLBL(copies=2).fit(Path("train.txt"), valid=Path("valid.txt"))
    >>> lm.perplexity(Path("test.txt"), context="stream")
    """

    name: ClassVar[str] = "hlbl"
    settings_class = HLBLSettings
    settings: HLBLSettings
    _predictor: HLBLPredictor | None = None

    @configured_by(HLBLSettings)
    def __init__(self, settings: HLBLSettings) -> None:
        super().__init__(settings)

    @property
    def parameters(self) -> Parameters:
        """What was learned. Raises NotFittedError."""
        return self._learned(self._predictor).parameters

    @property
    def tree(self) -> Tree:
        """The tree over words. Raises NotFittedError."""
        return self._learned(self._predictor).tree

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        """Fit in three stages (section 4.4): a bootstrap, a tree, the model on it."""
        from tacenda_lm.log_bilinear.tree_building import build_tree  # imports numba

        join(devices.resolve(self.settings, OPERATIONS))
        counts = corpus.type_counts
        settings = self.settings.planned(corpus.n_tokens, len(counts))
        text, held_out = streams_of(corpus, valid, across=settings.across_sentences)
        vectors = None
        if settings.tree != "random":
            vectors = _clustered_vectors(settings, counts, text, fitting.stage("bootstrap"))
            fitting = fitting.after_first()
        advanced = settings.advanced
        tree = build_tree(
            settings.tree,
            len(counts),
            vectors=vectors,
            weights=(np.maximum(counts, 1) ** advanced.frequency_power).astype(np.float32),
            overlap=advanced.overlap,
            copies=settings.copies,
            seed=settings.seed,
            max_codes=advanced.max_codes,
            max_depth=advanced.max_depth,
        )
        found, history = train_hlbl(settings, tree, counts, text, held_out, fitting.stage("model"))
        self._vocabulary = corpus.vocabulary
        self._predictor = self._predictor_of(found.parameters, tree)
        self.fitted_on = {
            "tree": tree.statistics(counts)._asdict(),
            "training": history.as_dict(),
        }

    def _predictor_of(self, parameters: Parameters, tree: Tree) -> HLBLPredictor:
        """Return what predicts with these parameters, in the precision of the settings."""
        advanced, boundary = self.settings.advanced, self.vocabulary.boundary_id
        return HLBLPredictor(parameters, tree, advanced.tail_rates, boundary, advanced.eight_bits)

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        settings, vocabulary = model.settings, Vocabulary.from_arrays(config["vocabulary"], arrays)
        tree = Tree.from_arrays(arrays, len(vocabulary))
        found = Parameters.from_arrays(settings, arrays, len(vocabulary), tree.n_nodes)
        model._vocabulary = vocabulary
        model._predictor = model._predictor_of(found, tree)
        return model


class HLBLTrainer(AdaGradTrainer):
    """An HLBL under training, changed in place; batches are arrays of the positions at which pieces begin.

    Of several processes each has a part of a batch; what is drawn is drawn for the whole.
    """

    def __init__(
        self,
        settings: HLBLSettings,
        parameters: Parameters,
        tree: Tree,
        text: Stream,
        valid: Stream | None,
    ) -> None:
        self.settings, self.tree = settings, tree
        device = devices.resolve(settings, OPERATIONS)
        self.current = parameters.on(device)
        tables = self.current.arrays()
        sums = {name: _SUMS.get(name, _OTHER_SUMS) for name in tables}
        super().__init__(tables, sums, text, valid, settings.seed, device=device)
        self.rates = settings.advanced.tail_rates
        self._fading = self.put(np.array(self.rates, np.float32))
        longest = max(self.rates, default=0.0)
        faint = math.ceil(math.log(_FAINT) / math.log(longest)) if longest > 0 else 0
        # a tail of words that do not depend on each other is so much longer than one of them
        self._of_tails = [math.sqrt(1 - rate) for rate in self.rates]
        self._reach = settings.context + min(faint, _FARTHEST)

    @property
    def begins(self) -> npt.NDArray[np.int64]:
        """The positions at which the pieces of the training text begin, (pieces,)."""
        return np.arange(1, len(self.text.ids), self.settings.advanced.piece_words, dtype=np.int64)

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        """Take one step on the summed loss of some pieces."""
        now, threads = self.current, self.settings.threads
        (begins,) = batch
        ends = np.minimum(begins + self.settings.advanced.piece_words, len(self.text.ids))
        kept = self._kept(ends - begins)
        part = processes().part
        windows = self.text.windows(part(begins), part(ends), self._reach)
        ids, offsets, starts, stops, targets, counted = windows
        spans = (now.words, ids, offsets, starts, stops, now.context(self._fading))
        found = context_sum.forward(*spans, far=now.far, threads=threads)
        vectors = found.vectors
        if kept is not None:
            vectors *= kept
        weights = self.put(-counted.astype(np.float32))
        log_probs, grad = self._move_nodes(vectors, targets, weights, learning_rate)
        if kept is not None:
            grad *= kept
        down = context_sum.backward(*spans, found.before, grad, now.far, threads=threads)
        for name, rows, gradient in (
            ("words", down.words, down.rows),
            ("far_words", down.words[: len(down.far_rows)], down.far_rows),
            ("positions", None, down.weights),
            ("bias", None, down.bias[None]),
        ):
            self.move(name, rows, gradient, learning_rate, threads)
        for k, slowness in enumerate(self._of_tails):
            row = np.array([k], np.int32)
            self.move("tails", row, down.tail_weights[k : k + 1], slowness * learning_rate)
        loss = -log_probs[self.put(np.flatnonzero(counted))].sum()
        return StepResult(sum_of(loss), sum_of(float(counted.sum())))

    def _kept(self, lengths: npt.NDArray[np.int64]) -> Array | None:
        """Draw which elements of the predicted vectors are kept, for pieces of these lengths; None without dropout."""
        rng, share, group = self.draw(), self.settings.dropout, processes()
        if not share:
            return None
        mask = dropout_mask((int(lengths.sum()), self.settings.width), share, rng)
        if group.size > 1:
            mask = mask[np.repeat(np.arange(len(lengths)) % group.size == group.rank, lengths)]
        return self.put(mask)

    def _move_nodes(
        self,
        vectors: Array,
        words: npt.NDArray[np.integer],
        weights: Array,
        learning_rate: float,
    ) -> tuple[Array, Array]:
        """Take a step on the nodes of some words; return their log-probabilities and the gradients of the vectors."""
        nodes, biases = self.current.nodes, self.current.node_biases[:, 0]
        given = vectors, words, self.tree.codes, nodes, biases, weights
        threads = self.settings.threads
        if processes().size == 1:  # nodes move within the kernel
            sums = self.sums["nodes"], self.sums["node_biases"]
            return tree_softmax.step(*given, *sums, learning_rate, threads=threads)
        found = tree_softmax.backward(*given, threads=threads)
        self.move("nodes", found.nodes, found.node_vectors, learning_rate, threads)
        self.move("node_biases", found.nodes, found.node_biases, learning_rate)
        return found.log_probs, found.vectors

    def predictor(self) -> HLBLPredictor:
        """Return what the present parameters predict."""
        return HLBLPredictor(self.current.on_host(), self.tree, self.rates, self.boundary)


def bytes_needed(settings: HLBLSettings, parameters: Parameters, tree: Tree) -> int:
    """Estimate the bytes of the parameters, and of a step: rows of its words and their contexts, visits of nodes."""
    kept = sum(array.nbytes for array in parameters.arrays().values())
    pieces, words = settings.advanced.batch_pieces, settings.advanced.piece_words
    rows = pieces * (6 * words + 2 * settings.context) + tree.n_nodes
    visits = pieces * words * tree.codes.most[1]
    return kept + 4 * settings.width * rows + 48 * visits


def train_hlbl(
    settings: HLBLSettings,
    tree: Tree,
    counts: npt.NDArray[np.integer],
    text: Stream,
    valid: Stream | None,
    fitting: FitRun,
    description: str = "fitting",
) -> tuple[HLBLPredictor, History]:
    """Train a model on a given tree, whatever the settings say of trees.

    ``counts`` (types,) say how often each word occurs in the text: they give the first biases of the nodes.
    """
    rng = np.random.default_rng([settings.seed, 1])
    parameters = Parameters.drawn(settings, len(counts), tree.biases(counts), rng)
    device = devices.resolve(settings, OPERATIONS)
    devices.check_memory(bytes_needed(settings, parameters, tree), device, settings, _LESS)
    trainer = HLBLTrainer(settings, parameters, tree, text, valid)
    size = settings.advanced.batch_pieces * processes().size
    source = ArrayBatches(trainer.begins, batch_size=size, seed=settings.seed)
    identity = {"tree": fingerprint_arrays(tuple(tree.codes))}
    rate = falling_rate(settings.learning_rate, settings.epochs, source)
    with devices.out_of_memory(settings, _LESS):
        history = train(
            trainer,
            source,
            settings,
            text,
            valid,
            fitting,
            rate,
            identity=identity,
            description=description,
        )
    return trainer.predictor(), history


def _clustered_vectors(
    settings: HLBLSettings, counts: npt.NDArray[np.integer], text: Stream, fitting: FitRun
) -> npt.NDArray[np.float64]:
    """Train the thesis's model (five words, no tails, no dropout) on a random tree, for its predictions."""
    from tacenda_lm.log_bilinear.tree_building import build_tree

    advanced = settings.advanced
    small = replace(
        settings,
        width=advanced.bootstrap_width,
        context=_BOOTSTRAP_CONTEXT,
        dropout=0.0,
        epochs=advanced.bootstrap_epochs,
        advanced=replace(advanced, tail_rates=(), far_words=False),
    )
    tree = build_tree("random", len(counts), seed=settings.seed, max_depth=_DEEP)
    predictor, _ = train_hlbl(small, tree, counts, text, None, fitting, "bootstrap")
    return average_predicted(predictor, text)


def average_predicted(predictor: HLBLPredictor, stream: Stream) -> npt.NDArray[np.float64]:
    """Return the mean predicted vector of the contexts each word follows, less that of all words: (types, width).

    These are the word vectors of section 4.4, which trees are built from. Those of rare words, which are mostly noise,
    are drawn towards that of all words, as if they had followed a few contexts more.
    """
    from tacenda_lm.log_bilinear.tree_building import add_rows  # imports numba

    sums = np.zeros(predictor.parameters.words.shape)
    counts = np.zeros(len(sums))
    for vectors, targets, counted in predictor.predicted(stream, _ROWS):
        words = targets[counted]
        add_rows(sums, words, vectors[counted])
        counts += np.bincount(words, minlength=len(counts))
    mean = sums.sum(axis=0) / max(counts.sum(), 1)
    return np.asarray((sums - counts[:, None] * mean) / (counts + _DOUBT)[:, None])
