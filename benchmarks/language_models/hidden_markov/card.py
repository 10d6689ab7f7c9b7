"""`VLHMM` at 2^14 and 2^15 states on a GPU: python -m benchmarks.language_models.hidden_markov.card --device cuda.

Every setting that was tried is a row with the perplexity of the validation text; the best of each size is measured on
the test text too, alone and mixed with n-grams (``--only best``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import reporting
from benchmarks.language_models.contexts import Texts
from benchmarks.language_models.hidden_markov.fits import PROTOCOL, mixed, ngrams, perplexities
from benchmarks.reporting import Row, Table, main
from tacenda_lm import VLHMM

SHARED: dict[str, Any] = {"n_classes": 256, "batch_words": 16384, "learning_rate": 0.08}
TRIED: dict[str, dict[str, Any]] = {
    "2^14 states, as on the CPU": {**SHARED, "states_per_class": 64, "epochs": 17},
    "2^15 states, as on the CPU": {
        **SHARED, "states_per_class": 128, "state_dropout": 0.75, "epochs": 45, "advanced": {"evaluate_every": 5},
    },
}  # fmt: skip
BEST: dict[str, str] = {}


def rows(options: Any) -> Iterator[Row]:
    texts = Texts()
    for name in options.chosen(TRIED):
        model = VLHMM(**TRIED[name], device=options.device)
        begin = time.perf_counter()
        model.fit(texts.train, valid=texts.valid)
        seconds = time.perf_counter() - begin
        losses = model.fitted_on["training"]["epoch_losses"]
        row = {
            "what": name,
            "states": model.settings.n_classes * model.settings.states_per_class,
            "epochs": len(losses),
            "seconds": seconds,
            "training": math.exp(losses[-1]),
            "settings": {**model.settings.to_dict(), "device": options.device},
        }
        if name not in BEST:
            yield {**row, **perplexities(model, texts, ("valid",))[0]}
            continue
        yield {**row, **perplexities(model, texts)[0]}
        others, _ = ngrams(texts)
        yield from mixed(texts, f"{name} + KneserNey(5)", {"vlhmm": model, "kneser_ney": others})


def protocol(options: Any) -> dict[str, Any]:
    own = {"seconds": "of the whole fit by the clock: classes on the CPU, training, evaluations"}
    kept = {key: PROTOCOL[key] for key in ("text", "context", "train, training", "mixture")}
    return {**kept, **own, **reporting.device_facts(options.device)}


if __name__ == "__main__":
    main(__doc__, Table("lm-hidden-markov-card", protocol, rows, key="what"), device="cuda")
