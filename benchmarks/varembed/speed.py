"""Tokens a second in training, with 20,000 types and one or two threads (a quiet machine).

python -m benchmarks.varembed.speed --tokens 1
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks import reporting
from benchmarks.embeddings import common
from benchmarks.varembed import models
from tacenda import Corpus
from tacenda_embeddings import SumEmbed, VarEmbed

TYPES = 20_000
MODELS: dict[str, Any] = {"VarEmbed": VarEmbed, "SumEmbed": SumEmbed}


def fitted(name: str, epochs: int, threads: int, text: Corpus) -> tuple[Any, float]:
    """A model, and the CPU seconds of its fit."""
    start = time.process_time()
    model = MODELS[name](epochs=epochs, start="random", threads=threads).fit(text)
    return model, time.process_time() - start


def main() -> None:
    parser = models.arguments(__doc__)
    parser.add_argument("--threads", type=common.number_range, default=[1, 2])
    options = parser.parse_args()
    folder = options.cache / f"corpus-varembed-speed-{options.tokens:g}"
    text = (
        Corpus.open(folder)
        if folder.exists()
        else Corpus.from_text(
            models.beginning(options.tokens * 1e6),
            tokenizer="words",
            max_vocabulary=TYPES,
            digits=True,
            lowercase=True,
            cache=folder,
            cache_key=folder.name,
        )
    )
    rows: list[dict[str, Any]] = []
    for name in models.chosen(MODELS, options):
        for threads in options.threads:
            model, cpu = fitted(name, 1, threads, text)
            cpu -= fitted(name, 0, threads, text)[1]  # segmentation and start
            history = model.fitted_on["training"]
            advanced = model.settings.advanced
            n_tokens = history["steps"] * advanced.batch_streams * advanced.unrolled_tokens
            rows.append(
                {
                    "model": name,
                    "threads": threads,
                    "tokens/s": n_tokens / history["seconds"],
                    "tokens per CPU second": n_tokens / cpu,
                    "loss, nats per token": history["epoch_losses"][-1],
                }
            )
    protocol = {
        "what": "one epoch of training, start and segmentation not counted; wall clock and CPU time",
        "text": f"{text.n_tokens} tokens of Wikipedia, {len(text.vocabulary)} types",
        "model": "defaults: 128 columns, LSTM of 128 units, 1,024 sampled words, 64 streams of 32 tokens",
    }
    if options.no_save:
        reporting.print_table(rows)
    else:
        reporting.save("varembed-speed", protocol, rows)


if __name__ == "__main__":
    main()
