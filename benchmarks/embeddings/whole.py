"""Tags, trees and entities of whole pipelines, one `tok2vec` for tagger, parser and ner, by number of sentences.

    python -m benchmarks.embeddings.whole [--only ...] [--sizes 250 1000] [--seeds 0 1 2]

Penn tags and labelled trees of EWT, and entities of WNUT-17, as many sentences of each; gold tokens, one Doc
a sentence. A pipeline is configured as `tacenda embed init-config` does it, with the layers of a row of `spacy_rows`,
and trains as `spacy train` does, until the mean of its three scores on the dev parts stops improving; the step that is
best there is tested. One training is one cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import spacy
from spacy.training import Example

from benchmarks.embeddings import labelled, pipelines, spacy_rows
from benchmarks.embeddings.pipeline_speed import entities, treebank, trees
from benchmarks.reporting import Row, Table, main

HEADS = ("tagger", "parser", "ner")
ROWS = (
    pipelines.DEFAULT,
    "hash + word2vec, CNN4",
    "hash + SumEmbed + LDS, no CNN",
    pipelines.RECOMMENDED,
)
SCORES = {"tags": "tag_acc", "LAS": "dep_las", "F": "ents_f"}
PROTOCOL = {
    "measure": "tags: accuracy of Penn tags, LAS: of labelled attachments, both EWT; F: of entities, WNUT-17; percent",
    "pipeline": "tagger, parser and ner listen to one tok2vec, as `tacenda embed init-config` writes it",
    "labelled": "as many sentences of EWT as of WNUT-17, drawn anew with every seed",
    "tokens": spacy_rows.PROTOCOL["tokens"],
    "training": pipelines.PROTOCOL.format("the mean of the three scores on the dev parts"),
    "layers": spacy_rows.PROTOCOL["layers"],
}


def drawn(examples: list[Example], size: int | None, seed: int) -> list[Example]:
    order = np.random.default_rng(seed).permutation(len(examples))
    return [examples[i] for i in (order if size is None else order[:size])]


def measure(_: str, row: pipelines.Row, size: int | None, seed: int) -> Row:
    """Train a pipeline until the dev parts say stop; all scores of its best step."""
    spacy.util.fix_random_seed(seed)
    task = labelled.load("wnut17")
    tasks = [labelled.load("ewt-upos"), task]
    vectors = pipelines.word_vectors(tasks, row)
    nlp = pipelines.configured(HEADS, row, vectors)
    held_out = {
        part: [trees(nlp, treebank(part)), entities(nlp, getattr(task, part))]
        for part in ("dev", "test")
    }
    examples = drawn(trees(nlp, treebank("train")), size, seed)
    examples += drawn(entities(nlp, task.train), size, seed)

    def on_dev() -> tuple[float, dict[str, float]]:
        found = scores(nlp, held_out["dev"])
        return sum(found.values()) / len(found), found

    annotating = ["lds_embeddings"] if row.output else []
    found = pipelines.train(nlp, examples, on_dev, annotating)
    on_best = found.pop("others")
    return {**found, "dev": on_best, "test": scores(nlp, held_out["test"])}


def scores(nlp: spacy.Language, parts: list[list[Example]]) -> dict[str, float]:
    """Tags and trees of the first part, entities of the second; percent."""
    found = [nlp.evaluate(part, batch_size=256) for part in parts]
    by_part = {"tags": found[0], "LAS": found[0], "F": found[1]}
    return {name: 100 * by_part[name][key] for name, key in SCORES.items()}


def rows(options: Any) -> Iterator[Row]:
    options.tasks = ["whole"]
    yield from spacy_rows.rows_of(
        options, "whole", {name: pipelines.ROWS[name] for name in ROWS}, measure
    )


if __name__ == "__main__":
    table = Table("embeddings-whole", PROTOCOL, rows, key="what")
    main(__doc__, table, sizes=["1000"], seeds=spacy_rows.SEEDS)
