"""Local classifier study: tags from one token's vector alone, by number of labelled sentences.

A two-layer network (64 hidden units) reads the features of a token and nothing else; it stops on
the dev set. The subsets of sentences are drawn by seed and are the same for every row.

    python -m benchmarks.embeddings.local [--tasks ewt-upos] [--only own word2vec] [--seeds 0 1 2]
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.embeddings import features, labelled, models, spacy_rows
from benchmarks.local_classifier import MLPClassifier
from benchmarks.reporting import Row, Table, main

TASKS = ("ewt-upos", "ewt-xpos", "treebank-xpos")
EPOCHS = {250: 60, 1000: 40, None: 12}
DROPOUT = {250: 0.3, 1000: 0.3, None: 0.1}  # chosen on the dev part with word2vec
PROTOCOL = {
    "measure": "accuracy in percent on the test part, gold tokens, every token counts",
    "classifier": "one hidden layer of 64 units on one token's vector; dropout 0.3 / 0.3 / 0.1, epochs 60 / 40 / 12 "
    "for 250 / 1000 / all sentences at most, the best on the dev part",
    "vectors": "40,000 types, OOV shape classes, the same for all",
    "subsets": "random sentences by seed, the same for every row; dev part whole",
    "splits": "EWT official; treebank sample by file: 0001-0110, 0111-0125, 0126-0199, "
    "its quotes as in plain text",
}


class Encoded:
    """Features and tags of one task under one row."""

    def __init__(self, row: features.Row, task: labelled.Task) -> None:
        self.offsets = np.cumsum([0] + [len(s.words) for s in task.train])
        self.x, self.y = {}, {}
        for part in ("train", "dev", "test"):
            sentences = getattr(task, part)
            self.x[part] = row.encode([s.words for s in sentences]).astype(np.float32)
            self.y[part] = np.array([tag for s in sentences for tag in s.tags])
        self.width = self.x["train"].shape[1]

    def tokens(self, sentences: np.ndarray) -> np.ndarray:
        return np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in sentences])


@lru_cache(maxsize=1)
def encoded(task: str, row: str) -> Encoded:
    return Encoded(features.ROWS[row], labelled.load(task))


def measure(name: str, made: list[Any], size: int | None, seed: int) -> Row:
    task, data = labelled.load(name), encoded(name, made[0])
    chosen = data.tokens(task.subset(size, seed))
    model = MLPClassifier(
        hidden=64, epochs=EPOCHS[size], seed=seed, dropout=DROPOUT[size], patience=10
    )
    model.fit(data.x["train"][chosen], data.y["train"][chosen], data.x["dev"], data.y["dev"])
    scores = {part: 100 * model.score(data.x[part], data.y[part]) for part in ("dev", "test")}
    return {**scores, "width": data.width}


def rows(options: Any) -> Iterator[Row]:
    made = {
        name: [name, models.settings(row.lds) if row.lds else None]
        for name, row in features.ROWS.items()
    }
    yield from spacy_rows.rows_of(options, "local", made, measure)


if __name__ == "__main__":
    table = Table("embeddings-local", PROTOCOL, rows, key="what")
    main(__doc__, table, tasks=TASKS, sizes=spacy_rows.SIZES, seeds=spacy_rows.SEEDS)
