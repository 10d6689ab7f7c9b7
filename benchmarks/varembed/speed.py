"""Tokens a second in training, with 20,000 types and one or two threads (a quiet machine).

python -m benchmarks.varembed.speed --tokens 1
"""

from __future__ import annotations

from typing import Any

from benchmarks import reporting
from benchmarks.embeddings import common
from benchmarks.varembed import models
from tacit import Corpus
from tacit_embeddings import SumEmbed, VarEmbed

TYPES = 20_000
MODELS: dict[str, Any] = {"VarEmbed": VarEmbed, "SumEmbed": SumEmbed}


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
            model = MODELS[name](epochs=1, start="random", threads=threads).fit(text)
            history = model.fitted_on["training"]
            n_tokens = history["steps"] * model.config.batch * model.config.length
            rows.append(
                {
                    "model": name,
                    "threads": threads,
                    "tokens/s": n_tokens / history["seconds"],
                    "loss, nats per token": history["epoch_losses"][-1],
                }
            )
    protocol = {
        "what": "one epoch of training, start and segmentation not counted; wall clock",
        "text": f"{text.n_tokens} tokens of Wikipedia, {len(text.vocabulary)} types",
        "model": "defaults: 128 columns, LSTM of 128 units, 1,024 sampled words, 64 streams of 32 tokens",
    }
    if options.no_save:
        reporting.print_table(rows)
    else:
        reporting.save("varembed-speed", protocol, rows)


if __name__ == "__main__":
    main()
