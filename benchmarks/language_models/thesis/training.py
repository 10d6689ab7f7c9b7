"""An HLBL on a tree of one's own: the stages of `HLBL.fit`, apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.language_models.thesis.recipes import Shape
from tacenda import Corpus
from tacenda.fitting import FitRun, History
from tacenda_lm import HLBL, Tree, build_tree
from tacenda_lm.log_bilinear.hlbl import (
    HLBLPredictor,
    HLBLSettings,
    HLBLTrainer,
    Parameters,
    average_predicted,
    train_hlbl,
)
from tacenda_lm.log_bilinear.tree_building import join
from tacenda_lm.streams import Stream, streams_of


def clustered_vectors(model: HLBL, text: Corpus) -> npt.NDArray[np.float64]:
    """Return what trees are built from: the average vector that a model predicts for each word (section 4.4)."""
    predictor = HLBLPredictor(model.parameters, model.tree, (), model.vocabulary.boundary_id)
    return average_predicted(predictor, Stream.of_corpus(text, False))


def tree_of(shape: Shape, n_words: int, vectors: npt.NDArray[np.float64] | None) -> Tree:
    """Join one tree for each seed under a balanced top."""
    made = {
        seed: build_tree(shape.rule, n_words, vectors=vectors, overlap=shape.overlap, seed=seed)
        for seed in set(shape.seeds)
    }
    return join([made[seed] for seed in shape.seeds])


def trainer_on(settings: HLBLSettings, tree: Tree, text: Corpus) -> HLBLTrainer:
    """Return an HLBL about to be trained."""
    counts = text.type_counts
    rng = np.random.default_rng([settings.seed, 1])
    learned = Parameters.draw(settings, len(counts), tree.biases(counts), rng)
    stream = Stream.of_corpus(text, settings.across_sentences)
    return HLBLTrainer(settings, learned, tree, stream, None)


def hlbl_on(
    settings: HLBLSettings, tree: Tree, text: Corpus, valid: Corpus, checkpoints: Path
) -> tuple[HLBL, History]:
    """Return the model trained on a tree that is given, and how the training went."""
    streams = streams_of(text, valid, across=settings.across_sentences)
    context = FitRun(checkpoints)
    predictor, history = train_hlbl(settings, tree, text.type_counts, *streams, context)
    vocabulary = text.vocabulary
    arrays = {**predictor.arrays(), **vocabulary.arrays()}
    config = {"settings": settings.to_dict(), "vocabulary": vocabulary.config_dict()}
    return HLBL.from_arrays(config, arrays), history
