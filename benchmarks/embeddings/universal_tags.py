"""Universal tags by spaCy's morphologizer, which predicts a tag and its features as one label, or a tag alone.

    python -m benchmarks.embeddings.universal_tags [--tasks german] [--sizes 250] [--seeds 0]

Layers are spaCy's default, without vectors. Only the treebank differs: with or without its column of features.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from spacy.training.converters import conllu_to_docs

from benchmarks.embeddings import labelled, languages, pipelines, spacy_rows
from benchmarks.reporting import Row, Table, main
from tacenda.corpus.lines import numbered_lines

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
    rows = (line.split("\t") for _, line in numbered_lines(path))
    text = "\n".join(
        "\t".join([*r[:5], r[5] if features else "_", *r[6:]] if len(r) > 5 else r) for r in rows
    )
    docs = conllu_to_docs(text, n_sents=1, no_print=True)
    return [
        labelled.Sentence(
            [t.text for t in doc], [f"{t.morph}|POS={t.pos_}".lstrip("|") for t in doc]
        )
        for doc in docs
    ]


def measure(name: str, features: bool, size: int | None, seed: int) -> Row:
    task, row = (
        languages.load(name, partial(read, features=features)),
        pipelines.ROWS[pipelines.DEFAULT],
    )
    nlp = pipelines.build("morphologizer", row, None, languages.LANGUAGES[name].code)
    found = spacy_rows.measure(task, size, seed, nlp, pipelines.documents(nlp, task, row))
    drawn = {tag for i in task.subset(size, seed) for tag in task.train[i].tags}
    return {**found, "test": {"labels": len(drawn), "accuracy": found["test"]}}


def rows(options: Any) -> Iterator[Row]:
    yield from spacy_rows.rows_of(options, "universal_tags", ROWS, measure)


if __name__ == "__main__":
    table = Table("embeddings-universal-tags", PROTOCOL, rows, key="what")
    main(__doc__, table, tasks=tuple(languages.LANGUAGES), sizes=["250"], seeds=[0])
