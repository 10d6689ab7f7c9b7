"""Tags of words that an LDS has never seen: by their classes alone, and by their morphemes.

    python -m benchmarks.varembed.unseen --tokens 0 --seeds 0-2

The LDS is that of `benchmarks.embeddings` (cased, 40,000 types, OOV classes); the word vectors are VarEmbed's of
`models`. A classifier reads a token's vector alone, as in `benchmarks.embeddings.local`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.embeddings import common, labelled
from benchmarks.embeddings import models as lds_models
from benchmarks.local_classifier import MLPClassifier
from benchmarks.varembed import models
from tacenda_embeddings import MorphologicalLDS

TASK = "ewt-upos"
OUTPUT = "own_past_future"
WORDS = ("VarEmbed", "VarEmbed, n-grams", "SumEmbed")


def measure(model: Any, task: labelled.Task, unseen: np.ndarray, seed: int) -> dict[str, Any]:
    x, y = {}, {}
    for part in ("train", "dev", "test"):
        sentences = getattr(task, part)
        found = model.transform([s.words for s in sentences], output=OUTPUT)
        x[part] = np.concatenate(found)
        y[part] = np.array([tag for s in sentences for tag in s.tags])
    classifier = MLPClassifier(hidden=64, epochs=15, seed=seed, patience=10)
    classifier.fit(x["train"], y["train"], x["dev"], y["dev"])
    wrong = classifier.predict(x["test"]) != y["test"]
    return {
        "test": 100 - 100 * float(wrong.mean()),
        "error unseen": 100 * float(wrong[unseen].mean()),
        "error seen": 100 * float(wrong[~unseen].mean()),
        "unseen tokens": int(unseen.sum()),
    }


def main() -> None:
    options: argparse.Namespace = models.arguments(__doc__, "0-2").parse_args()
    log = common.logger("varembed", options.cache)
    cells = common.Cells(options.cache, f"varembed-unseen-{options.tokens:g}")
    lds = lds_models.fitted(options.cache, "em")
    task = labelled.load(TASK)
    words = [word for sentence in task.test for word in sentence.words]
    unseen = np.array([word not in lds.vocabulary for word in words])
    rows: list[dict[str, Any]] = []
    for row in ("OOV classes alone", *models.chosen(WORDS, options)):
        model: Any = lds
        if row in WORDS:
            if not models.place(row, 0, options).exists():
                continue
            model = MorphologicalLDS.join(lds, models.model(row, 0, options))
        found = []
        for seed in options.seeds:
            key = common.cell_key(row=row, seed=seed)
            cell = cells.measure(key, lambda: measure(model, task, unseen, seed))  # noqa: B023
            log.info("%s: %s", key, cell)
            found.append(cell)
        rows.append({"row": row, **{k: common.spread([c[k] for c in found]) for k in found[0]}})
    protocol = {
        "task": "UPOS of EWT, a token's vector alone, errors in per cent; unseen: not in the LDS's vocabulary",
        "output": OUTPUT,
        "seeds": options.seeds,
    }
    if not options.no_save:
        reporting.save(models.results_name("varembed-unseen", options), protocol, rows, keep="row")


if __name__ == "__main__":
    main()
