"""`VLHMM` at 2^14 and 2^15 states on a GPU: python -m benchmarks.language_models.hidden_markov.card --device cuda.

The first fit has the settings of the CPU's. In the flat ones one softmax goes over all states; their settings, but for
the epochs, had the lowest perplexity of the validation text of the three that README.md of this folder lists.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks import reporting
from benchmarks.language_models.contexts import Texts
from benchmarks.language_models.hidden_markov.fits import PROTOCOL, mixed, ngrams, perplexities
from benchmarks.reporting import Row, Table, main
from tacenda_lm import VLHMM

FLAT: dict[str, Any] = {
    "n_classes": 256, "width": 128, "transitions": "flat", "state_dropout": 0.5, "batch_words": 8192,
    "learning_rate": 0.04, "epochs": 45, "advanced": {"evaluate_every": 9},
}  # fmt: skip
FITS: dict[str, dict[str, Any]] = {
    "2^14 states, settings of the CPU": {
        "n_classes": 256, "states_per_class": 64, "batch_words": 16384, "learning_rate": 0.08, "epochs": 17,
    },
    "2^14 states, flat": {**FLAT, "states_per_class": 64},
    "2^15 states, flat": {**FLAT, "states_per_class": 128},
}  # fmt: skip


def rows(options: Any) -> Iterator[Row]:
    texts = Texts()
    torch.set_float32_matmul_precision("high")
    for name in options.chosen(FITS):
        model = VLHMM(**FITS[name], device=options.device)
        begin = time.perf_counter()
        model.fit(texts.train, valid=texts.valid)
        seconds = time.perf_counter() - begin
        losses = model.fitted_on["training"]["epoch_losses"]
        yield {
            "what": name,
            "states": model.settings.n_classes * model.settings.states_per_class,
            "epochs": len(losses),
            "seconds": seconds,
            "training": math.exp(losses[-1]),
            **perplexities(model, texts, ("valid", "test"))[0],
            "settings": {**model.settings.to_dict(), "device": options.device},
        }
        others, _ = ngrams(texts)
        yield from mixed(texts, f"{name} + KneserNey(5)", {"vlhmm": model, "kneser_ney": others})


def protocol(options: Any) -> dict[str, Any]:
    own = {
        "seconds": "of the whole fit by the clock: classes on the CPU, training, evaluations",
        "products": "of three digits: TF32",
    }
    kept = {key: PROTOCOL[key] for key in ("text", "context", "train, training", "mixture")}
    return {**kept, **own, **reporting.device_facts(options.device)}


if __name__ == "__main__":
    main(__doc__, Table("lm-hidden-markov-card", protocol, rows, key="what"), device="cuda")
