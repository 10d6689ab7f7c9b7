"""spaCy's own tagger and ner with the word vectors as `include_static_vectors`.

    python -m benchmarks.varembed.static --tokens 0 [--tasks ewt-upos] [--sizes 250 1000] --seeds 0-2

The pipelines, the training and the subsets are those of `benchmarks.embeddings.spacy_rows`: hash embeddings and word
vectors, four convolution layers. The vectors are those of `models`, all of one length; a word that a model does not
know has zeros.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from spacy.strings import StringStore
from spacy.vectors import Vectors

from benchmarks import reporting
from benchmarks.embeddings import common, labelled, pipelines, spacy_rows
from benchmarks.varembed import models
from tacenda_embeddings.spacy.vectors import MorphologicalVectors

NONE = "no word vectors"
WITHOUT, WITH = pipelines.Row(depth=4), pipelines.Row(static=True, depth=4)
PARTS = ("train", "dev", "test")


def vectors_of(row: str, task: labelled.Task, options: argparse.Namespace) -> Any:
    """What stands in ``nlp.vocab``: our own class, or a table of every word of the task."""
    strings = StringStore()
    if models.ROWS[row]["kind"] in ("VarEmbed", "SumEmbed"):
        return MorphologicalVectors(strings=strings, model=models.model(row, 0, options))
    words = sorted({word for part in PARTS for s in getattr(task, part) for word in s.words})
    rows = models.trained(row, 0, options).zeros(words).astype(np.float32)
    squares = np.square(rows).mean(axis=1, keepdims=True)
    rows /= np.sqrt(np.where(squares == 0, 1, squares))
    return Vectors(strings=strings, keys=words, data=rows, name="gensim")


def measure(
    row: str, task: labelled.Task, size: int | None, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    vectors = None if row == NONE else vectors_of(row, task, options)
    pipeline = WITHOUT if row == NONE else WITH
    nlp = pipelines.build(spacy_rows.TASKS[task.name], pipeline, vectors)
    docs = {p: pipelines.documents(nlp, task, p, pipeline, options.cache) for p in PARTS}
    return spacy_rows.measure(task, size, seed, nlp, docs)


def main() -> None:
    parser = models.arguments(__doc__, "0-2")
    parser.add_argument("--tasks", nargs="*", default=["ewt-upos"], choices=spacy_rows.TASKS)
    parser.add_argument("--sizes", nargs="*", type=spacy_rows.size_of, default=[250])
    options = parser.parse_args()
    log = common.logger("varembed", options.cache)
    cells = common.Cells(options.cache, f"varembed-static-{options.tokens:g}")
    trained = (r for r in models.ROWS if models.place(r, 0, options).exists())
    wanted = [NONE, *(r for r in trained if r in models.chosen(models.ROWS, options))]
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for name in options.tasks:
        task = labelled.load(name)
        for seed in options.seeds:
            for size in options.sizes:
                for row in wanted:
                    key = common.cell_key(task=name, row=row, size=size or "all", seed=seed)
                    cell = cells.measure(key, lambda: measure(row, task, size, seed, options))  # noqa: B023
                    log.info("%s: %.2f", key, cell["test"])
                    of_row = found.setdefault((name, row), {})
                    for part in ("dev", "test"):
                        of_row.setdefault(f"{part} {size or 'all'}", []).append(cell[part])
    rows = [
        {"task": task, "row": row, "key": f"{task} {row}"}
        | {part: common.spread(values) for part, values in scores.items()}
        for (task, row), scores in found.items()
    ]
    protocol = {
        **spacy_rows.PROTOCOL,
        "layers": "width 96; MultiHashEmbed NORM, PREFIX, SUFFIX, SHAPE rows 5000, 1000, 2500, 2500, "
        "include_static_vectors; MaxoutWindowEncoder of depth 4",
        "vectors": "128 columns, all of one length, of seed 0, trained on the same text as in varembed-intrinsic",
        "seeds": options.seeds,
    }
    if not options.no_save:
        reporting.save("varembed-static", protocol, rows, keep="key")


if __name__ == "__main__":
    main()
