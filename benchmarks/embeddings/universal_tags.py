"""Universal tags by spaCy's morphologizer, which predicts a tag and its features as one label, or a tag alone.

    python -m benchmarks.embeddings.universal_tags [--tasks german] [--sizes 250] [--seeds 0]

Layers are spaCy's default, without vectors. Only the treebank differs: with or without its column of features.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.embeddings import labelled, languages, pipelines, spacy_rows
from benchmarks.reporting import Row, Table, main

ROWS = {"with features": True, "without features": False}
PROTOCOL = {
    "measure": "UPOS accuracy in percent, test part",
    "tokens": languages.PROTOCOL["tokens"],
    "training": spacy_rows.PROTOCOL["training"],
    "sentences": languages.PROTOCOL["sentences"],
    "labels": "different labels of the drawn sentences",
}


def read(path: Path, features: bool) -> list[labelled.Sentence]:
    """Return the sentences of a CoNLL-U file; the tags are labels of spaCy's morphologizer."""
    found = []
    for doc in languages.converted(path, 5, lambda row: row[5] if features else "_"):
        tags = [f"{token.morph}|POS={token.pos_}".lstrip("|") for token in doc]
        found.append(labelled.Sentence([token.text for token in doc], tags))
    return found


def measure(name: str, features: bool, size: int | None, seed: int) -> Row:
    task = languages.load(name, partial(read, features=features))
    row = pipelines.ROWS[pipelines.DEFAULT]
    nlp = pipelines.build("morphologizer", row, None, languages.LANGUAGES[name].code)
    found = spacy_rows.measure(task, size, seed, nlp, pipelines.documents(nlp, task, row))
    drawn = {tag for i in task.subset(size, seed) for tag in task.train[i].tags}
    return {**found, "test": {"labels": len(drawn), "accuracy": found["test"]}}


def rows(options: Any) -> Iterator[Row]:
    yield from spacy_rows.rows_of(options, "universal_tags", ROWS, measure)


if __name__ == "__main__":
    table = Table("embeddings-universal-tags", PROTOCOL, rows, key="what")
    main(__doc__, table, tasks=tuple(languages.LANGUAGES), sizes=["250"], seeds=[0])
