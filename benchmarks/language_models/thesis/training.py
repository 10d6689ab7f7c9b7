"""An HLBL on a tree of one's own: the pieces of `HLBL.fit`, apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.language_models.thesis.recipes import Shape
from tacenda import Corpus
from tacenda.fitting import ArrayBatches, History
from tacenda.fitting.batches import fingerprint_arrays
from tacenda_lm import HLBL, HLBLConfig, Tree, build_tree
from tacenda_lm.log_bilinear.fitting import run_fit, text_stream
from tacenda_lm.log_bilinear.parameters import Parameters
from tacenda_lm.log_bilinear.training import Trainer, average_predicted, pieces
from tacenda_lm.log_bilinear.tree_joining import joined


def clustered_vectors(model: HLBL, text: Corpus) -> npt.NDArray[np.float64]:
    """What trees are built from: the average vector that a model predicts for each word (section 4.4)."""
    return average_predicted(model.parameters, (), text_stream(text, False))


def tree_of(shape: Shape, n_words: int, vectors: npt.NDArray[np.float64] | None) -> Tree:
    """One tree for each seed, under a balanced top."""
    made = {
        seed: build_tree(shape.rule, n_words, vectors=vectors, overlap=shape.overlap, seed=seed)
        for seed in set(shape.seeds)
    }
    return joined([made[seed] for seed in shape.seeds])


def trainer_on(config: HLBLConfig, tree: Tree, text: Corpus, valid: Corpus | None) -> Trainer:
    """An HLBL about to be trained."""
    counts = text.type_counts
    rng = np.random.default_rng([config.seed, 1])
    learned = Parameters.drawn(
        len(counts), config.width, config.context, config.tail_rates, tree.biases(counts), rng
    )
    return Trainer(
        learned, tree.codes, config.tail_rates, text_stream(text, config.across_sentences),
        None if valid is None else text_stream(valid, config.across_sentences),
        length=config.piece, dropout=config.dropout, seed=config.seed,
    )  # fmt: skip


def hlbl_on(
    config: HLBLConfig, tree: Tree, text: Corpus, valid: Corpus, checkpoints: Path
) -> tuple[HLBL, History]:
    """The model trained on a tree that is given, and how it went."""
    trainer = trainer_on(config, tree, text, valid)
    source = ArrayBatches(
        pieces(trainer.stream, config.piece), batch_size=config.batch, seed=config.seed
    )
    told = {"tree": fingerprint_arrays(tuple(tree.codes))}
    history = run_fit(
        trainer, source, config, trainer.stream, trainer.valid, checkpoints, "auto", told
    )
    vocabulary = text.vocabulary
    arrays = {**trainer.current.arrays(), **tree.arrays(), **vocabulary.arrays()}
    settings = {"settings": config.to_dict(), "vocabulary": vocabulary.config_dict()}
    return HLBL.from_arrays(settings, arrays), history
