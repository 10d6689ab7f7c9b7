"""Tags of words that an LDS has never seen: by their classes alone, and by their morphemes.

    python -m benchmarks.varembed.unseen --tokens 0 --seeds 0-2

The LDS is that of `benchmarks.embeddings` (cased, 40,000 types, OOV classes); the word vectors are those of
`models`. A classifier reads a token's vector alone, as in `benchmarks.embeddings.local`.
"""

from __future__ import annotations

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
CLASSES = "OOV classes alone"
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
    options = models.arguments(__doc__).parse_args()
    log = common.logger("varembed", options.cache)
    cells = common.Cells(options.cache, f"varembed-unseen-{options.tokens:g}")
    lds = lds_models.fitted(options.cache, "em")
    read = lds_models.version(options.cache, "em")
    text = models.corpus(options)
    task = labelled.load(TASK)
    words = [word for sentence in task.test for word in sentence.words]
    unseen = np.array([word not in lds.vocabulary for word in words])
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in options.seeds:
        for row in (CLASSES, *models.chosen(WORDS, options)):
            model: Any = lds
            facts: dict[str, Any] = {"cpu seconds": None, "settings": lds.settings.to_dict()}
            facts["model"] = f"lds-{read}"
            if row != CLASSES:
                vectors = models.trained(row, seed, options, text)
                if vectors is None:
                    continue
                model, facts = MorphologicalLDS.join(lds, vectors.model), vectors.facts()
            key = common.cell_key(row=row, seed=seed, model=facts["model"], lds=read)
            cell = cells.measure(key, lambda: measure(model, task, unseen, seed))  # noqa: B023
            log.info("%s: %s", key, cell)
            found.setdefault(row, []).append({**cell, **facts})
    rows = [{"row": row, **models.combined(each)} for row, each in found.items()]
    protocol = {
        "task": "UPOS of EWT, a token's vector alone, errors in per cent; unseen: not in the LDS's vocabulary",
        "output": OUTPUT,
        "LDS": lds.settings.to_dict(),
        "seeds": "of the word vectors and of the classifier; the LDS is fitted once",
    }
    name = models.results_name("varembed-unseen", options)
    reporting.save(name, protocol, rows, seeds=options.seeds, keep="row", dry=options.no_save)


if __name__ == "__main__":
    main()
