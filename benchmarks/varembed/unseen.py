"""Tags of words that an LDS has never seen: by their classes alone, and by their morphemes.

    python -m benchmarks.varembed.unseen [--seeds 0 1 2]

The LDS is that of `benchmarks.embeddings` (cased, 40,000 types, OOV classes); the word vectors are those of
`models`. A classifier reads a token's vector alone, as in `benchmarks.embeddings.local`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import kept
from benchmarks.embeddings import labelled
from benchmarks.embeddings import models as lds_models
from benchmarks.local_classifier import MLPClassifier
from benchmarks.reporting import Row, Table, main
from benchmarks.varembed import models
from tacenda_embeddings import MorphologicalLDS

TASK = "ewt-upos"
OUTPUT = "own_past_future"
CLASSES = "OOV classes alone"
WORDS = ("VarEmbed", "VarEmbed, n-grams", "SumEmbed")


def measure(model: Any, task: labelled.Task, unseen: np.ndarray, seed: int) -> Row:
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


PROTOCOL = {
    "task": "UPOS of EWT, a token's vector alone, errors in per cent; unseen: not in the LDS's vocabulary",
    "output": OUTPUT,
    "LDS": lds_models.settings("em"),
    "seeds": "of the word vectors and of the classifier; the LDS is fitted once",
}


def rows(options: Any) -> Iterator[Row]:
    cells, lds = kept.Cells("varembed-unseen"), lds_models.fitted()
    text, task = models.corpus(options.tokens), labelled.load(TASK)
    words = [word for sentence in task.test for word in sentence.words]
    unseen = np.array([word not in lds.vocabulary for word in words])
    for row in options.chosen((CLASSES, *WORDS)):
        found = []
        for seed in options.seeds:
            model: Any = lds
            facts: Row = {"cpu seconds": None, "settings": PROTOCOL["LDS"], "model": "lds"}
            if row != CLASSES:
                vectors = models.trained(row, seed, text)
                assert vectors is not None
                model, facts = MorphologicalLDS.join(lds, vectors.model), vectors.facts()
            key = kept.cell_key(row=row, seed=seed, model=facts["model"])
            cell = cells.measure(key, lambda: measure(model, task, unseen, seed))  # noqa: B023
            found.append({**cell, **facts})
        yield {"row": row, **models.combined(found)}


if __name__ == "__main__":
    table = Table("varembed-unseen", PROTOCOL, rows, key="row", seeds=lambda options: options.seeds)
    main(__doc__, table, tokens=0.0, seeds=[0, 1, 2])
