"""Tokens a second in training, with 20,000 types and one or two threads (a quiet machine).

python -m benchmarks.varembed.speed [--tokens 1]
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks import reporting
from benchmarks.reporting import Row, Table, main
from benchmarks.varembed import models
from tacenda import Corpus
from tacenda_embeddings import VarEmbed

TYPES = 20_000


def fitted(epochs: int, threads: int, text: Corpus) -> tuple[Any, float]:
    """A model, and the CPU seconds of its fit."""
    start = time.process_time()
    model = VarEmbed(epochs=epochs, start="random", threads=threads).fit(text)
    return model, time.process_time() - start


def measure(threads: int, text: Corpus, repeats: int) -> Row:
    fitted(0, threads, text)  # compiles
    before = fitted(0, threads, text)[1]  # segmentation and start
    wall, cpu = [], []
    for _ in range(repeats):
        model, seconds = fitted(1, threads, text)
        history, advanced = model.fitted_on["training"], model.settings.advanced
        n_tokens = history["steps"] * advanced.batch_streams * advanced.unrolled_tokens
        wall.append(n_tokens / history["seconds"])
        cpu.append(n_tokens / (seconds - before))
    return {
        "model": "VarEmbed",
        "threads": threads,
        "tokens/s": reporting.summary(wall),
        "tokens per CPU second": reporting.summary(cpu),
        "loss in nats": history["epoch_losses"][-1],
        "settings": model.settings.to_dict(),
    }


def protocol(options: Any) -> dict[str, Any]:
    text = models.corpus(options.tokens, TYPES)
    return {
        "what": "one epoch of training, start and segmentation not counted; wall clock and CPU time; "
        "median of the repeats",
        "text": f"{text.n_tokens} tokens of Wikipedia, {len(text.vocabulary)} types",
        "model": "defaults, but for one epoch and a random start",
    }


def rows(options: Any) -> Iterator[Row]:
    text = models.corpus(options.tokens, TYPES)
    for threads in options.threads:
        yield measure(threads, text, options.repeats)


if __name__ == "__main__":
    main(__doc__, Table("varembed-speed", protocol, rows), tokens=1.0, threads=[1, 2], repeats=3)
