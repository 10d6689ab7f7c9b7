"""Local classifier study: tags from one token's vector alone, by number of labelled sentences.

A two-layer network (64 hidden units) reads the features of a token and nothing else; it stops on
the dev set. The subsets of sentences are drawn by seed and are the same for every row.

    python -m benchmarks.embeddings.local [--tasks ewt-upos] [--only own word2vec] [--seeds 0-2]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.embeddings import common, features, labelled, models
from benchmarks.local_classifier import MLPClassifier

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

    def __init__(self, row: features.Row, task: labelled.Task, cache: Path) -> None:
        self.offsets = np.cumsum([0] + [len(s.words) for s in task.train])
        self.x, self.y = {}, {}
        for part in ("train", "dev", "test"):
            sentences = getattr(task, part)
            self.x[part] = row.encode(cache, [s.words for s in sentences]).astype(np.float32)
            self.y[part] = np.array([tag for s in sentences for tag in s.tags])
        self.width = self.x["train"].shape[1]

    def tokens(self, sentences: np.ndarray) -> np.ndarray:
        return np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in sentences])


def measure(data: Encoded, task: labelled.Task, size: int | None, seed: int) -> dict[str, Any]:
    chosen = data.tokens(task.subset(size, seed))
    start = time.perf_counter()
    model = MLPClassifier(
        hidden=64, epochs=EPOCHS[size], seed=seed, dropout=DROPOUT[size], patience=10
    )
    model.fit(data.x["train"][chosen], data.y["train"][chosen], data.x["dev"], data.y["dev"])
    seconds = time.perf_counter() - start
    scores = {part: 100 * model.score(data.x[part], data.y[part]) for part in ("dev", "test")}
    return {**scores, "width": data.width, "seconds": round(seconds, 1)}


def run(options: argparse.Namespace) -> None:
    log = common.logger("local", options.cache)
    cells = common.Cells(options.cache, "local")
    for name in options.tasks:
        task = labelled.load(name)
        for row in common.chosen(features.ROWS, options.only):
            spec = features.ROWS[row]
            try:
                version = models.version(options.cache, spec.lds, not spec.lds)
            except Exception as error:
                log.warning("row %s left out: %s", row, error)
                continue
            data: Encoded | None = None
            for size in labelled.SIZES:
                for seed in options.seeds:
                    key = common.cell_key(
                        task=name, row=row, size=size or "all", seed=seed, model=version
                    )
                    if key in cells.values:
                        continue
                    data = data or Encoded(spec, task, options.cache)
                    cell = cells.measure(key, lambda: measure(data, task, size, seed))  # noqa: B023
                    log.info("%s: %.2f (%.0f s)", key, cell["test"], cell["seconds"])


def report(options: argparse.Namespace) -> None:
    """Write benchmarks/results/embeddings-local.json from the cells that are there."""
    cells = common.Cells(options.cache, "local")
    rows: list[dict[str, Any]] = []
    unfinished = False
    for task in TASKS:
        for name, spec in features.ROWS.items():
            if spec.lds and not models.folder(options.cache, spec.lds).exists():
                unfinished = True
                continue
            version = models.version(options.cache, spec.lds, not spec.lds)
            row: dict[str, Any] = {"task": task, "row": name}
            for size in labelled.SIZES:
                label = size or "all"
                keys = [
                    common.cell_key(task=task, row=name, size=label, seed=seed, model=version)
                    for seed in options.seeds
                ]
                found = [cells.values[key] for key in keys if key in cells.values]
                unfinished |= len(found) < len(common.SEEDS)
                if found:
                    row["width"] = found[0]["width"]
                    for part in ("dev", "test"):
                        row[f"{part} {label}"] = common.spread([c[part] for c in found])
            if len(row) > 2:
                rows.append(row)
    reporting.save(
        common.results_name("embeddings-local", options.cache),
        {**PROTOCOL, "text": common.text_of(options.cache)},
        rows,
        seeds=options.seeds,
        unfinished=unfinished,
    )


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    options = parser.parse_args()
    run(options)
    if not options.no_save:
        report(options)


if __name__ == "__main__":
    main()
