"""The whole fit: morphemes, initial vectors, training on parallel streams of tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from tacenda import devices
from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.fitting import Cosine, FitRun, FitSettings, History, fit
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.fitting.checkpoint import Resume
from tacenda.fitting.processes import join, processes
from tacenda.fitting.torch_model import to_array
from tacenda_embeddings.varembed.fitted import FittedWords
from tacenda_embeddings.varembed.initial_vectors import Float32, fitted_morphemes, initial_words
from tacenda_embeddings.varembed.morphemes import Inventory
from tacenda_embeddings.varembed.settings import VarEmbedAdvanced, WordVectorSettings
from tacenda_embeddings.varembed.training import EVALUATED, Ids, StreamBatches, Trainer, joined

__all__ = ["Fit", "fit_word_vectors"]

_LEAST = 0.1  # of the learning rate, at the end
_RIDGE, _NGRAM_RIDGE = 10.0, 100.0  # where none is set
_REFIT = 0.1  # of the ridge, after training
_RATIO = 0.3  # pieces for every word type (section 3.1: 14,000 for 48,986)
_CHECK = 50  # steps between looks at the loss, so that a GPU is not waited for
_LESS = "fewer batch_streams or unrolled_tokens, a smaller vocabulary, or a smaller width"


class Fit(NamedTuple):
    """What a fit found."""

    state: FittedWords
    history: History  # the course of training
    figure: dict[str, Any]  # for the artefact


def fit_word_vectors(
    settings: WordVectorSettings,
    text: Corpus,
    valid: Corpus | None,
    vectors: Float32 | None,
    *,
    checkpoints: str | os.PathLike[str] | None,
    resume: Resume,
) -> Fit:
    """Fit a model; `MorphologicalEmbedder.fit` describes the arguments and what is raised."""
    advanced = settings.advanced
    types = len(text.vocabulary)
    device = devices.resolve(settings, ())  # refuses one that is not there, before any work
    join(device)
    stream = joined(text)
    counts = text.type_counts.copy()
    counts[text.vocabulary.boundary_id] += 1  # the one before them all
    inventory = Inventory.learn(
        text.vocabulary,
        settings.segmenter,
        advanced.n_morphemes or max(1, round(_RATIO * types)),
        advanced.max_pieces,
        advanced.base,
    )
    words = initial_words(settings, text, vectors)
    ridge = advanced.start_ridge
    if ridge is None:
        ridge = _NGRAM_RIDGE if settings.segmenter == "ngrams" else _RIDGE
    # the square root gives the many rare words, which tell morphemes apart, a voice beside the few frequent
    # ones, which are known best
    morphemes = fitted_morphemes(inventory, words, np.sqrt(counts + 1.0), ridge)
    sums = inventory.summed(morphemes)
    share = (counts / (counts + max(advanced.start_shrinkage, 1e-12))).astype(np.float32)[:, None]
    words = share * words + (1 - share) * sums
    variational = isinstance(advanced, VarEmbedAdvanced)
    needed = bytes_needed(settings, types, len(inventory))
    devices.check_memory(needed, device, settings, _LESS)
    learned, history, figure = _trained(
        settings,
        device,
        inventory,
        counts,
        words if variational else words - sums,
        morphemes,
        ridge,
        stream,
        None if valid is None else joined(valid),
        checkpoints,
        resume,
    )
    words, morphemes = learned["table/words"], learned["table/morphemes"]
    if not variational:
        words = words + inventory.summed(morphemes)
    state = FittedWords(inventory, words, morphemes, counts > 0)
    return Fit(state, history, figure)


def bytes_needed(settings: WordVectorSettings, n_types: int, n_morphemes: int) -> int:
    """Estimate the bytes of the tables, and of what a step or an evaluation holds beside them."""
    advanced = settings.advanced
    tokens, wide = advanced.batch_streams * advanced.unrolled_tokens, advanced.hidden + 1
    tables = (n_types + n_morphemes) * (settings.width + 1) + n_types * (wide + 1)
    network = 16 * advanced.hidden * (settings.width + wide + 1)  # gradients and moments included
    exact = advanced.softmax == "exact"
    scored = n_types if exact else advanced.negatives
    outputs = (n_types if exact else tokens + scored) * wide
    step = tokens * (6 * settings.width + 16 * advanced.hidden + 3 * scored) + 3 * outputs
    return 4 * (tables + network + max(step, 2 * EVALUATED * n_types))


@contextmanager
def _full_precision(device: str) -> Iterator[None]:
    """Let an LSTM on CUDA round the factors of its products only where torch's own switch allows it.

    Products of matrices keep float32 unless ``torch.set_float32_matmul_precision`` says otherwise; those within cuDNN
    do not.
    """
    if not device.startswith("cuda"):
        yield
        return
    rounded = torch.get_float32_matmul_precision() != "highest"
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=rounded):
        yield


def _trained(
    settings: WordVectorSettings,
    device: str,
    inventory: Inventory,
    counts: npt.NDArray[np.int64],
    words: Float32,
    morphemes: Float32,
    ridge: float,
    stream: Ids,
    held_out: Ids | None,
    checkpoints: str | os.PathLike[str] | None,
    resume: Resume,
) -> tuple[dict[str, npt.NDArray[Any]], History, dict[str, Any]]:
    """Train from initial vectors; return the parameters, the course of training and its figure.

    Torch's own generators are seeded, and put back afterwards.
    """
    advanced = settings.advanced
    loop = FitSettings(
        epochs=settings.epochs,
        learning_rate=Cosine(
            settings.learning_rate,
            epochs=max(settings.epochs, 1),
            floor=_LEAST * settings.learning_rate,
        ),
        patience=None if held_out is None else settings.patience,
        check_losses_every=_CHECK,
        on_divergence="return",
    )
    made_from = {
        "settings": _settings_of_training(settings),
        "start": fingerprint_arrays((words, morphemes)),
        "valid": None if held_out is None else fingerprint_arrays((held_out,)),
    }
    streams = advanced.batch_streams * processes().size
    source = StreamBatches(stream, streams=streams, length=advanced.unrolled_tokens)
    if source.n_streams < processes().size:
        raise ConfigurationError(
            f"{settings.model()}: the text has {len(stream) - 1} tokens, too few for {processes().size} processes: "
            "start fewer"
        )
    threads = torch.get_num_threads()
    own = torch.random.fork_rng(devices=[device] if device.startswith("cuda") else [])
    with own, devices.out_of_memory(settings, _LESS), _full_precision(device):
        torch.manual_seed(settings.seed)
        try:
            torch.set_num_threads(settings.threads or threads)
            trainer = Trainer(settings, inventory, counts, words, morphemes, held_out, device)
            history = fit(
                trainer,
                source,
                loop,
                FitRun(checkpoints, resume, description="word vectors"),
                made_from,
            )
            refitted = getattr(advanced, "refit_morphemes", False) and settings.epochs > 0
            if refitted:
                found = to_array(trainer.tables["words"].values)
                alike = np.ones(len(counts))  # the bound counts every word once
                again = fitted_morphemes(inventory, found, alike, _REFIT * ridge)
                trainer.set_morphemes(again)
            return dict(trainer.parameters()), history, _figure(trainer, history, refitted)
        finally:
            torch.set_num_threads(threads)


def _settings_of_training(settings: WordVectorSettings) -> dict[str, Any]:
    """Return the settings that a run must share with the checkpoint it continues from."""
    values = devices.without_device(settings)
    del values["threads"]
    values["advanced"].pop("refit_morphemes", None)
    return values


def _figure(trainer: Trainer, history: History, refitted: bool) -> dict[str, Any]:
    """Return the bound as it was measured: on held-out text where there is some, else as training saw it."""
    held_out = trainer.valid is not None
    loss = history.epoch_losses[-1] if history.epoch_losses else None
    best = None if history.best is None else history.best.value
    if held_out and refitted:
        best = trainer.evaluate()
    softmax = trainer.settings.advanced.softmax
    return {
        "measure": "negative lower bound, nats per token",
        "value": best if held_out else loss,
        "protocol": "held-out text, exact softmax"
        if held_out
        else f"training text, mean of the last epoch, {softmax} softmax",
        "divergence per token": trainer.divergence() / trainer.n_tokens,
    }
