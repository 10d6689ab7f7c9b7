"""VarEmbed: whole steps at 50,000 words, in the default settings but for how much is read at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from benchmarks.gpu.case import FLOAT, Case, Work, words

TYPES, PIECES, OF_WORD, LENGTH = 50_000, 15_000, 3, 32
WIDTH, HIDDEN, NEGATIVES = 128, 128, 1024


def steps() -> Iterator[Case]:
    """The LSTM, the sampled softmax, the divergence, and steps on the rows of words, morphemes and outputs."""
    for streams in (64, 512):
        text, pieces = _text(streams), _pieces()
        seen = np.unique(text[:-1])
        tokens, rows = streams * LENGTH, len(seen)
        morphemes = len(np.unique(pieces[seen]))
        outputs = len(np.unique(text[1:])) + NEGATIVES
        weights = 4 * HIDDEN * (WIDTH + HIDDEN + 2)
        work = Work()
        # forward, and gradients with respect to both factors; the rows of targets are as many as tokens
        work.flops += 6.0 * tokens * (weights + NEGATIVES * HIDDEN + HIDDEN)
        # a step reads and writes a row, an LSTM beside each weight two moments
        touched = (rows + morphemes) * (WIDTH + 1) + outputs * (HIDDEN + 2)
        work.moved += 2 * FLOAT * (touched + 3 * weights) + 16 * tokens
        held = FLOAT * tokens * (6 * WIDTH + 16 * HIDDEN + 3 * NEGATIVES)
        yield Case(
            "VarEmbed step", f"{tokens:,} tokens, {TYPES:,} types, width {WIDTH}", work, held,
            lambda device, text=text: _step(device, text), tokens, "token",
        )  # fmt: skip


def _text(streams: int) -> np.ndarray:
    """Words by Zipf's law, int64 (length + 1, streams)."""
    ids = words((LENGTH + 1) * streams, TYPES, np.random.default_rng(0))
    return ids.reshape(LENGTH + 1, streams)


def _pieces() -> np.ndarray:
    """The morphemes of each word, int64 (types, of a word)."""
    return np.random.default_rng(1).integers(PIECES, size=(TYPES, OF_WORD))


def _step(device: str, text: np.ndarray) -> Callable[[], Any]:
    from tacenda_embeddings.settings import VarEmbedSettings
    from tacenda_embeddings.varembed.initial_vectors import WordVectors
    from tacenda_embeddings.varembed.training import Trainer

    advanced = {"hidden": HIDDEN, "negatives": NEGATIVES, "batch_streams": text.shape[1]}
    settings = VarEmbedSettings(width=WIDTH, advanced=advanced)
    inventory = SimpleNamespace(offsets=np.arange(TYPES + 1) * OF_WORD, ids=_pieces().ravel())
    counts = np.maximum(26_000_000 / np.arange(1, TYPES + 1) / 11.4, 1).astype(np.int64)
    rng = np.random.default_rng(2)
    words, morphemes = (rng.standard_normal((n, WIDTH), np.float32) for n in (TYPES, PIECES))
    start = WordVectors(cast("Any", inventory), words, morphemes, 1.0)
    trainer = Trainer(settings, start, counts, text.shape[1], device=device)
    batch = np.ascontiguousarray(text[:-1]), np.ascontiguousarray(text[1:])
    return lambda: trainer.step(batch, 0.1)
