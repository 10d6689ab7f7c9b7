"""Fitting an HLBL: bootstrap on a random tree, a tree by clustering, closed-form biases, training (section 4.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.errors import CorpusError
from tacenda.fitting import ArrayBatches, Cosine, FitSettings, History, WarmUp, fit
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.fitting.recorder import Resume
from tacenda.fitting.trainable import Trainable
from tacenda_lm.log_bilinear.config import HLBLConfig, LBLConfig
from tacenda_lm.log_bilinear.parameters import Parameters
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.log_bilinear.training import Trainer, average_predicted, pieces
from tacenda_lm.log_bilinear.tree_building import build_tree
from tacenda_lm.log_bilinear.trees import Tree
from tacenda_lm.sequences import with_ends

__all__ = ["Fitted", "fit_hlbl", "run_fit", "text_stream"]

_LEAST = 0.1  # of the learning rate, at the end
_WARM = 200  # steps at most before the learning rate is what it says, and half an epoch


class Fitted(NamedTuple):
    """What a fitted model is made of, and how it came about."""

    parameters: Parameters
    tree: Tree
    history: History | None


def text_stream(corpus: Corpus, across: bool) -> Stream:
    """A corpus as a training text: one sequence, or one for every sentence."""
    boundary = corpus.vocabulary.boundary_id
    ids, offsets = with_ends(corpus.ids, corpus.offsets, boundary)
    if across:
        offsets = np.array([0, len(ids)])
    return Stream.of(ids, offsets, boundary, across)


def fit_hlbl(
    config: HLBLConfig,
    corpus: Corpus,
    valid: Corpus | None,
    checkpoints: Path | None,
    resume: Resume,
) -> Fitted:
    """The whole fit; with ``checkpoints`` both stages are saved there and gone on from."""
    counts = corpus.type_counts
    if not corpus.n_tokens:
        raise CorpusError("the text has no tokens; there is nothing to fit on")
    n_words = len(counts)
    text = text_stream(corpus, config.across_sentences)
    held_out = None if valid is None else text_stream(valid, config.across_sentences)
    vectors = None
    if config.tree != "random":
        small = _bootstrap_settings(config)
        tree = build_tree("random", n_words, seed=config.seed, max_depth=64)
        where = None if checkpoints is None else checkpoints / "bootstrap"
        first, _ = _train(small, tree, counts, text, None, where, resume, "bootstrap")
        vectors = average_predicted(first, (), text)
        resume = "auto" if resume is True else resume  # what was required has been found
    weights = np.maximum(counts, 1).astype(np.float64) ** config.frequency_power
    tree = build_tree(
        config.tree,
        n_words,
        vectors=vectors,
        weights=weights.astype(np.float32),
        overlap=config.overlap,
        copies=config.copies,
        seed=config.seed,
        max_codes=config.max_codes,
        max_depth=config.max_depth,
    )
    where = None if checkpoints is None else checkpoints / "model"
    parameters, history = _train(config, tree, counts, text, held_out, where, resume, "fitting")
    parameters.round_nodes()
    return Fitted(parameters, tree, history)


def _bootstrap_settings(config: HLBLConfig) -> HLBLConfig:
    """The thesis's model: five words, no tails, no dropout."""
    values: dict[str, Any] = {
        **config.to_dict(),
        "width": config.bootstrap_width,
        "context": 5,
        "tail_rates": (),
        "dropout": 0.0,
        "far_words": False,
        "epochs": config.bootstrap_epochs,
    }
    return HLBLConfig.from_dict(values)


def _train(
    config: HLBLConfig,
    tree: Tree,
    counts: npt.NDArray[np.int64],
    text: Stream,
    valid: Stream | None,
    checkpoints: Path | None,
    resume: Resume,
    description: str,
) -> tuple[Parameters, History]:
    rng = np.random.default_rng([config.seed, 1])
    parameters = Parameters.drawn(
        len(counts),
        config.width,
        config.context,
        config.tail_rates,
        tree.biases(counts),
        rng,
        far=config.far_words,
    )
    trainer = Trainer(
        parameters,
        tree.codes,
        config.tail_rates,
        text,
        valid,
        length=config.piece,
        dropout=config.dropout,
        seed=config.seed,
        threads=config.threads,
    )
    source = ArrayBatches(pieces(text, config.piece), batch_size=config.batch, seed=config.seed)
    more = {"tree": fingerprint_arrays(tuple(tree.codes))}
    history = run_fit(trainer, source, config, text, valid, checkpoints, resume, more, description)
    return parameters, history


def run_fit(
    trainer: Trainable,
    source: ArrayBatches,
    config: HLBLConfig | LBLConfig,
    text: Stream,
    valid: Stream | None,
    checkpoints: Path | None,
    resume: Resume,
    identity: dict[str, Any] | None = None,
    description: str = "fitting",
) -> History:
    """Trains by the settings that both models have; a divergence after the first epoch leaves the best model.

    ``identity`` tells this fit from others, beside settings and texts.
    """
    rate = config.learning_rate
    falling = Cosine(rate, epochs=max(config.epochs, 1), floor=_LEAST * rate)
    settings = FitSettings(
        epochs=config.epochs,
        learning_rate=WarmUp(falling, max(1, min(_WARM, source.n_batches(0) // 2))),
        patience=None if valid is None else config.patience,
        on_divergence="return",
    )
    made_from = {
        "settings": {k: v for k, v in config.to_dict().items() if k != "threads"},
        "text": fingerprint_arrays((text.ids, text.offsets)),
        "valid": None if valid is None else fingerprint_arrays((valid.ids, valid.offsets)),
        **(identity or {}),
    }
    return fit(
        trainer,
        source,
        settings,
        configuration=made_from,
        checkpoints=checkpoints,
        resume=resume if checkpoints is not None else "auto",
        description=description,
    )
