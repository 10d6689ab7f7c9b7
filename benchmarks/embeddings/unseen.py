"""Stock spaCy taggers on data that no setting of the LDS was chosen on.

    python -m benchmarks.embeddings.unseen [--tasks treebank-drawn] [--sizes 250 1000 all] [--seeds 0 1 2]

The settings of the LDS were chosen with the dev and test parts of EWT in view. Here the configuration of the
README is taken as it stands, for two tasks that took no part in that:

- Penn tags of the treebank sample, its 199 files drawn into train, dev and test (seed 0);
- chunks of CoNLL-2000 as IOB2 tags, scored by the F1 of whole chunks.

Rows, pipelines and training are those of `spacy_rows`; word2vec has as many columns as the LDS has states.
The test part is looked at once, with the step that is best on the dev part.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from benchmarks import pictures
from benchmarks.embeddings import labelled, pipelines, spacy_rows, text
from benchmarks.embeddings.spacy_rows import SEEDS, SIZES
from benchmarks.reporting import Row, Table, main

PICTURED = "treebank-drawn"
TASKS = {"treebank-drawn": "tag accuracy", "conll2000": "chunk F1"}
STATES = 200  # of the LDS, and columns of word2vec
WITH_WORD2VEC = f"hash + word2vec {STATES}, CNN4"
ROWS = {
    pipelines.DEFAULT: pipelines.ROWS[pipelines.DEFAULT],
    WITH_WORD2VEC: pipelines.Row(static=STATES, depth=4),
    "hash + SumEmbed, CNN4": pipelines.ROWS["hash + SumEmbed, CNN4"],
    pipelines.RECOMMENDED: pipelines.ROWS[pipelines.RECOMMENDED],
}


class Curve(NamedTuple):
    """How a row is drawn: its label is ``offset`` points away from the point number ``at``."""

    label: str
    color: str
    at: int
    offset: tuple[int, int]


CURVES = {
    pipelines.RECOMMENDED: Curve("Tacenda", "#c2410c", 0, (4, 14)),
    WITH_WORD2VEC: Curve("word2vec", "#475569", 0, (6, -24)),
    pipelines.DEFAULT: Curve("spaCy's default", "#0369a1", 0, (22, -4)),
}
N_GRAM = 8
BLOCK = 1_000_000
PROTOCOL = {
    "measure": "treebank-drawn: accuracy of Penn tags in percent; conll2000: F1 of chunks in percent",
    "splits": "treebank sample: 120 files train, 29 dev, 50 test, drawn with seed 0; CoNLL-2000: the last 936 "
    "training sentences are the dev part, official test part; quotes as in plain text",
    "runs of 8 words": "different ones of the labelled text, and how many of them the unlabelled text shares; "
    "numbers of one shape and unknown words of one class are equal, so an upper bound",
    "settings": "the README's, chosen on other data; nothing was changed after these figures were seen",
    "tokens": spacy_rows.PROTOCOL["tokens"],
    "training": spacy_rows.PROTOCOL["training"],
    "layers": "width 96; MultiHashEmbed NORM, PREFIX, SUFFIX, SHAPE rows 5000, 1000, 2500, 2500; "
    f"word2vec CBOW {STATES} wide, gensim's defaults (window 5, 5 epochs), and LDS {STATES} states, "
    "both fitted on the same text, 40,000 types, the same OOV classes; SumEmbed 128 wide, the same text in "
    "lower case, 50,000 types; LDS and SumEmbed with 8 bits a number",
}


def chunk_f1(nlp: spacy.Language, docs: list[Doc], gold: list[Example]) -> float:
    """F1 of whole chunks in percent, from the tags of the last component."""
    pairs = spacy_rows.predicted(nlp, docs, gold)
    return labelled.span_f1(
        ([token.tag_ for token in pair.predicted] for pair in pairs),
        ([token.tag_ for token in pair.reference] for pair in pairs),
    )


@cache
def overlap(name: str) -> dict[str, int]:
    """How many runs of 8 words of the labelled text occur in the unlabelled one, both as ids of its vocabulary.

    Unknown words and numbers of one shape count as equal, so that this is an upper bound.
    """
    corpus, task = text.corpus(), labelled.load(name)
    found = [
        _n_gram_codes(np.asarray(corpus.vocabulary.encode(sentence.words)))
        for part in (task.train, task.dev, task.test)
        for sentence in part
    ]
    codes = np.unique(np.concatenate(found))
    shared = np.zeros(len(codes), bool)
    for start in range(0, len(corpus.ids), BLOCK):
        block = _n_gram_codes(np.asarray(corpus.ids[start : start + BLOCK + N_GRAM - 1]))
        at = np.searchsorted(codes, block).clip(max=len(codes) - 1)
        shared[at[codes[at] == block]] = True
    return {"runs of 8 words": len(codes), "shared": int(shared.sum())}


def _n_gram_codes(ids: np.ndarray) -> np.ndarray:
    """A 64-bit code of every N_GRAM ids in a row, (tokens - N_GRAM + 1,); empty for a shorter text."""
    n = len(ids) - N_GRAM + 1
    codes = np.zeros(max(n, 0), np.uint64)
    for k in range(N_GRAM):
        codes = codes * np.uint64(0x9E3779B97F4A7C15) + ids[k : k + len(codes)].astype(np.uint64)
        codes ^= codes >> np.uint64(29)
    return codes


def rows(options: Any) -> Iterator[Row]:
    scores = {"treebank-drawn": spacy_rows.score, "conll2000": chunk_f1}

    def measured(task: str, row: pipelines.Row, size: int | None, seed: int) -> Row:
        return spacy_rows.train(task, "tagger", row, size, seed, scores[task])

    for row in spacy_rows.rows_of(options, "unseen", ROWS, measured):
        yield {**row, "measure": TASKS[row["task"]], **overlap(row["task"])}


def picture(rows: list[Row]) -> None:
    """Draw the README's picture: tag accuracy by labeled sentences, with standard deviations over seeds."""
    with pictures.picture("embeddings-unseen", (6.4, 3.6)) as [[axes]]:
        for row in (row for row in rows if row["task"] == PICTURED and row["row"] in CURVES):
            curve = CURVES[row["row"]]
            found = {size: row[f"test {size}"] for size in SIZES if f"test {size}" in row}
            means = [each["mean"] for each in found.values()]
            spreads = [each.get("sd", 0.0) for each in found.values()]
            names = [f"{int(size):,}" if size.isdigit() else size for size in found]
            axes.errorbar(
                names, means, spreads, marker="o", ms=7, lw=2.5, capsize=4, color=curve.color
            )
            axes.annotate(
                curve.label, (curve.at, means[curve.at]), curve.offset, textcoords="offset points",
                color=curve.color, fontsize=14, fontweight="bold",
            )  # fmt: skip
        axes.set_ylim(88, 98)
        axes.set_xlabel("labeled sentences", fontsize=14)
        axes.set_ylabel("tag accuracy, %", fontsize=14)
        axes.tick_params(labelsize=13)
        axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    table = Table("embeddings-unseen", PROTOCOL, rows, "what", after=picture)
    main(__doc__, table, tasks=tuple(TASKS), sizes=SIZES, seeds=SEEDS)
