"""The whole fit: morphemes, initial vectors, training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.errors import PluginUnavailableError
from tacenda.fitting import Cosine, FitSettings, History, fit
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.fitting.checkpoint import Resume
from tacenda_embeddings.varembed.config import WordVectorConfig
from tacenda_embeddings.varembed.morphemes import Inventory
from tacenda_embeddings.varembed.start import Float32, morpheme_start, word_start
from tacenda_embeddings.varembed.stream import Ids, StreamBatches, joined

__all__ = ["Fit", "fit_word_vectors"]

_LEAST = 0.1  # of the learning rate, at the end
_RIDGE, _NGRAM_RIDGE = 10.0, 100.0  # where none is set
_REFIT = 0.1  # of the ridge, after training
_RATIO = 0.3  # pieces for every word type (section 3.1: 14,000 for 48,986)
_NOT_OF_TRAINING = ("threads", "refit")  # settings a checkpoint may differ in
_CHECK = 50  # steps between looks at the loss, so that a GPU is not waited for


class Fit(NamedTuple):
    """What a fit found.

    Attributes
    ----------
    inventory
        Vocabulary and morphemes.
    words
        (types, width): logits of the posterior (VarEmbed), or sums of word and morphemes (SumEmbed).
    morphemes
        (morphemes, width).
    trained
        bool (types,): the words that occur in the text.
    history
        The course of training.
    figures
        For the artefact.
    """

    inventory: Inventory
    words: Float32
    morphemes: Float32
    trained: npt.NDArray[np.bool_]
    history: History
    figures: list[dict[str, Any]]


def fit_word_vectors(
    config: WordVectorConfig,
    text: Corpus,
    valid: Corpus | None,
    vectors: Float32 | None,
    checkpoints: Path | None,
    resume: Resume,
) -> Fit:
    """Fits a model; with ``checkpoints`` training is saved there and gone on from."""
    _need_torch()
    if valid is not None:
        text.vocabulary.require_same(valid.vocabulary, "the held-out text")
    stream = joined(text)
    held_out = None if valid is None else joined(valid)
    counts = np.bincount(stream, minlength=len(text.vocabulary)).astype(np.int64)
    n_morphemes = config.n_morphemes or max(1, round(_RATIO * len(text.vocabulary)))
    inventory = Inventory.learn(
        text.vocabulary, config.segmenter, n_morphemes, config.max_pieces, config.base
    )
    words = word_start(config, text, vectors)
    ridge = config.start_ridge
    if ridge is None:
        ridge = _NGRAM_RIDGE if config.segmenter == "ngrams" else _RIDGE
    # the many rare words, which tell morphemes apart, are heard beside the few frequent ones, known best
    morphemes = morpheme_start(inventory, words, np.sqrt(counts + 1.0), ridge)
    sums = inventory.summed(morphemes)
    share = (counts / (counts + max(config.start_shrinkage, 1e-12))).astype(np.float32)[:, None]
    words = share * words + (1 - share) * sums
    variational = hasattr(config, "kl")
    own = words if variational else words - sums
    trained = counts > 0
    learned, history, figures = _trained(
        config, inventory, counts, own, morphemes, ridge, stream, held_out, checkpoints, resume
    )
    words, morphemes = learned["table/words"], learned["table/morphemes"]
    if not variational:
        words = words + inventory.summed(morphemes)
    return Fit(inventory, words, morphemes, trained, history, figures)


def _trained(
    config: WordVectorConfig,
    inventory: Inventory,
    counts: npt.NDArray[np.int64],
    words: Float32,
    morphemes: Float32,
    ridge: float,
    stream: Ids,
    held_out: Ids | None,
    checkpoints: Path | None,
    resume: Resume,
) -> tuple[dict[str, npt.NDArray[Any]], History, list[dict[str, Any]]]:
    """Parameters after training, its course, and its figures."""
    import torch

    from tacenda.fitting.torch_model import to_array
    from tacenda_embeddings.varembed.training import Trainer

    source = StreamBatches(stream, batch=config.batch, length=config.length)
    settings = FitSettings(
        epochs=config.epochs,
        learning_rate=Cosine(
            config.learning_rate, epochs=max(config.epochs, 1), floor=_LEAST * config.learning_rate
        ),
        patience=None if held_out is None else config.patience,
        check_losses_every=_CHECK,
        on_divergence="return",
    )
    made_from = {
        "settings": {k: v for k, v in config.to_dict().items() if k not in _NOT_OF_TRAINING},
        "start": fingerprint_arrays((words, morphemes)),
        "valid": None if held_out is None else fingerprint_arrays((held_out,)),
    }
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[] if config.device == "cpu" else None):
        torch.manual_seed(config.seed)
        try:
            torch.set_num_threads(config.threads or threads)
            trainer = Trainer(config, inventory, counts, words, morphemes, held_out)
            history = fit(
                trainer,
                source,
                settings,
                configuration=made_from,
                checkpoints=checkpoints,
                resume=resume if checkpoints is not None else "auto",
                description="word vectors",
            )
            refitted = getattr(config, "refit", False) and config.epochs > 0
            if refitted:
                found = to_array(trainer.tables["words"].values)
                alike = np.ones(len(counts))  # the bound counts every word once
                again = morpheme_start(inventory, found, alike, _REFIT * ridge)
                trainer.set_morphemes(again)
            figures = [_figure(trainer, history, refitted)]
            return dict(trainer.parameters()), history, figures
        finally:
            torch.set_num_threads(threads)


def _figure(trainer: Any, history: History, refitted: bool) -> dict[str, Any]:
    """The bound as it was measured: on held-out text where there is some, else as training saw it."""
    held_out = trainer.valid is not None
    loss = history.epoch_losses[-1] if history.epoch_losses else None
    best = None if history.best is None else history.best.value
    if held_out and refitted:
        best = trainer.evaluate()
    return {
        "measure": "negative lower bound, nats per token",
        "value": best if held_out else loss,
        "protocol": "held-out text, exact softmax"
        if held_out
        else f"training text, mean of the last epoch, {trainer.config.softmax} softmax",
        "divergence per token": trainer.divergence() / trainer.n_tokens,
    }


def _need_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise PluginUnavailableError(
            "fitting VarEmbed or SumEmbed needs torch, applying them does not: install it with "
            "pip install 'tacenda-embeddings[varembed]'"
        ) from error
