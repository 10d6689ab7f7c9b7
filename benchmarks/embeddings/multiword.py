"""Words that a treebank splits (French du, German im): what a tagger makes of them in text as it is written.

    python -m benchmarks.embeddings.multiword [--tasks french] [--sizes 250] [--seeds 0]

spaCy's tokenizer splits no such token, so a pipeline meets it whole. The tagger learns from the treebank as
`spacy convert` reads it, with a token for each part, or with `--merge-subtokens`, which joins the tags of the parts
(ADP_DET); both are tested on whole tokens. Layers are spaCy's default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.embeddings import labelled, languages, pipelines, spacy_rows
from benchmarks.reporting import Row, Table, main

ROWS = {"split": False, "merged": True}
PROTOCOL = {
    "measure": "UPOS accuracy in percent, test part, whole tokens; tags of parts joined. A tagger of parts has none of "
    "these joined tags, so that it is never right on tokens that were split",
    "tokens": "gold, one Doc a sentence",
    "training": spacy_rows.PROTOCOL["training"],
    "sentences": languages.PROTOCOL["sentences"],
    "multiword tokens": "percent of the whole tokens of the test part",
}


def read(path: Path, merge: bool) -> list[labelled.Sentence]:
    """Return the sentences of a CoNLL-U file as `spacy convert` makes them, with universal tags."""
    docs = languages.converted(path, 4, lambda row: row[3], merge_subtokens=merge)
    return [labelled.Sentence([t.text for t in doc], [t.tag_ for t in doc]) for doc in docs]


def measure(name: str, merge: bool, size: int | None, seed: int) -> Row:
    parts, whole = (languages.load(name, partial(read, merge=each)) for each in (merge, True))
    task, row = replace(parts, test=whole.test), pipelines.ROWS[pipelines.DEFAULT]
    nlp = pipelines.build("tagger", row, None, languages.LANGUAGES[name].code)
    docs = pipelines.documents(nlp, task, row)
    found = spacy_rows.measure(task, size, seed, nlp, docs)
    pairs = spacy_rows.predicted(
        nlp, docs["test"], spacy_rows.gold(docs["test"], task.test, "tagger")
    )
    right: dict[bool, list[bool]] = {False: [], True: []}
    for token, gold in (
        (t, g) for p in pairs for t, g in zip(p.predicted, p.reference, strict=True)
    ):
        right["_" in gold.tag_].append(token.tag_ == gold.tag_)
    shares = {"multiword": right[True], "others": right[False], "all": right[True] + right[False]}
    return {**found, "test": {what: 100 * sum(each) / len(each) for what, each in shares.items()}}


def share(name: str) -> float:
    """Return how many of the whole tokens of the test part are split, in percent."""
    tags = [tag for s in languages.load(name, partial(read, merge=True)).test for tag in s.tags]
    return 100 * sum("_" in tag for tag in tags) / len(tags)


def rows(options: Any) -> Iterator[Row]:
    for row in spacy_rows.rows_of(options, "multiword", ROWS, measure):
        yield {**row, "multiword tokens": share(row["task"])}


if __name__ == "__main__":
    table = Table("embeddings-multiword", PROTOCOL, rows, key="what")
    main(__doc__, table, tasks=("german", "french"), sizes=["250"], seeds=[0])
