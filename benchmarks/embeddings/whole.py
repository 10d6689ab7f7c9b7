"""Tags, trees and entities of whole pipelines, one `tok2vec` for tagger, parser and ner, by number of sentences.

    python -m benchmarks.embeddings.whole [--only ...] [--sizes 250 1000] [--seeds 0-2]

Penn tags and labelled trees of EWT, and entities of WNUT-17, as many sentences of each; gold tokens, one Doc
a sentence. A pipeline is configured as `tacenda embed init-config` does it, with the layers of a row of `spacy_rows`,
and trains as `spacy train` does, until the mean of its three scores on the dev parts stops improving; the step that is
best there is tested. One training is one cell, and the results have every cell.
"""

from __future__ import annotations

import argparse
import random
import time
from itertools import count
from typing import Any

import numpy as np
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from spacy.training.loop import train_while_improving
from thinc.api import Adam, compounding

from benchmarks import reporting
from benchmarks.embeddings import common, labelled, pipelines, spacy_rows
from tacenda import datasets
from tacenda.datasets import conllu

NAME = "embeddings-whole"
HEADS = ("tagger", "parser", "ner")
ROWS = (
    pipelines.DEFAULT,
    "hash + word2vec, CNN4",
    "hash + SumEmbed + LDS, no CNN",
    pipelines.RECOMMENDED,
)
SIZES: tuple[int | None, ...] = (1000,)
SCORES = {"tags": "tag_acc", "LAS": "dep_las", "F": "ents_f"}
PROTOCOL = {
    "measure": "tags: accuracy of Penn tags, LAS: of labelled attachments, both EWT; F: of entities, WNUT-17; percent",
    "pipeline": "tagger, parser and ner listen to one tok2vec, as `tacenda embed init-config` writes it",
    "labelled": "as many sentences of EWT as of WNUT-17, drawn anew with every seed",
    "tokens": spacy_rows.PROTOCOL["tokens"],
    "training": "spaCy's own loop with its default Adam, batches (100 to 1000 words) and dropout 0.1; the mean of the "
    f"three scores on the dev parts every {spacy_rows.EVERY} steps, until {spacy_rows.PATIENCE} have brought no better "
    "one; the best step on the dev parts",
    "layers": spacy_rows.PROTOCOL["layers"],
}


def trees(nlp: spacy.Language, part: str) -> list[Example]:
    """The sentences of EWT, with tags and trees."""
    found = []
    for sentence in conllu.read(datasets.locate("ud-english-ewt")[part]):
        heads = [i if head == 0 else head - 1 for i, head in enumerate(sentence.heads)]
        reference = Doc(
            nlp.vocab,
            words=list(sentence.words),
            tags=list(sentence.xpos),
            heads=heads,
            deps=list(sentence.relations),
        )
        found.append(Example(Doc(nlp.vocab, words=list(sentence.words)), reference))
    return found


def entities(nlp: spacy.Language, sentences: list[labelled.Sentence]) -> list[Example]:
    """Sentences with entities."""
    return [
        Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words, ents=tags))
        for words, tags in sentences
    ]


def drawn(examples: list[Example], size: int | None, seed: int) -> list[Example]:
    order = np.random.default_rng(seed).permutation(len(examples))
    return [examples[i] for i in (order if size is None else order[:size])]


def measure(
    options: argparse.Namespace, row: pipelines.Row, size: int | None, seed: int
) -> dict[str, Any]:
    """Train a pipeline until the dev parts say stop; all scores of its best step."""
    spacy.util.fix_random_seed(seed)
    task = labelled.load("wnut17")
    tasks = [labelled.load("ewt-upos"), task]
    vectors = pipelines.word_vectors(options.cache, tasks, row)
    nlp = pipelines.configured(HEADS, row, options.cache, vectors)
    held_out = {
        part: [trees(nlp, part), entities(nlp, getattr(task, part))] for part in ("dev", "test")
    }
    examples = drawn(trees(nlp, "train"), size, seed)
    examples += drawn(entities(nlp, task.train), size, seed)
    start = time.process_time()
    optimizer = nlp.initialize(
        lambda: examples,
        sgd=Adam(0.001, L2=0.01, grad_clip=1.0, L2_is_weight_decay=True, use_averages=False),
    )

    def batches() -> Any:
        sizes = compounding(100, 1000, 1.001)
        for epoch in count():
            random.shuffle(examples)
            for batch in minibatch_by_words(
                examples, size=sizes, tolerance=0.2, discard_oversize=False
            ):
                yield epoch, batch

    def on_dev() -> tuple[float, dict[str, float]]:
        found = scores(nlp, held_out["dev"])
        return sum(found.values()) / len(found), found

    steps = train_while_improving(
        nlp,
        optimizer,
        batches(),
        on_dev,
        dropout=0.1,
        eval_frequency=spacy_rows.EVERY,
        accumulate_gradient=1,
        patience=spacy_rows.PATIENCE,
        max_steps=spacy_rows.MOST_STEPS,
        exclude=[],
        annotating_components=["lds_embeddings"] if row.output else [],
        before_update=None,
    )
    best, weights = {"score": -1.0, "step": 0}, b""
    for _, info, is_best in steps:
        if is_best and info["score"] > best["score"]:
            best, weights = info, nlp.to_bytes(exclude=["vocab"])
    seconds = time.process_time() - start
    nlp.from_bytes(weights, exclude=["vocab"])
    return {
        "dev": best["other_scores"],
        "test": scores(nlp, held_out["test"]),
        "step": best["step"],
        "steps": info["step"],
        "seconds": round(seconds, 1),
    }


def scores(nlp: spacy.Language, parts: list[list[Example]]) -> dict[str, float]:
    """Tags and trees of the first part, entities of the second; percent."""
    found = [nlp.evaluate(part, batch_size=256) for part in parts]
    by_part = {"tags": found[0], "LAS": found[0], "F": found[1]}
    return {name: 100 * by_part[name][key] for name, key in SCORES.items()}


def run(options: argparse.Namespace) -> None:
    log = common.logger("whole", options.cache)
    cells = spacy_rows.kept_cells(options.cache, "whole", NAME)
    for seed in options.seeds:
        for size in options.sizes:
            for name in common.chosen(ROWS, options.only):
                row = pipelines.ROWS[name]
                key = spacy_rows.key_of("whole", name, size, seed, spacy_rows.version(options, row))
                if key in cells.values:
                    continue
                cell = cells.measure(key, lambda: measure(options, row, size, seed))  # noqa: B023
                log.info("%s: %s (%.0f s)", key, cell["test"], cell["seconds"])
                if not options.no_save:
                    report(options)


def report(options: argparse.Namespace) -> None:
    """Write what was measured to benchmarks/results/embeddings-whole.json."""
    cells = spacy_rows.kept_cells(options.cache, "whole", NAME)
    rows = []
    for name in ROWS:
        vectors = spacy_rows.version(options, pipelines.ROWS[name])
        found: dict[str, Any] = {}
        kept = []
        for size in labelled.SIZES:
            keys = [spacy_rows.key_of("whole", name, size, seed, vectors) for seed in common.SEEDS]
            measured = {
                seed: cells.values[key]
                for seed, key in zip(common.SEEDS, keys, strict=True)
                if key in cells.values
            }
            for part in ("dev", "test") if measured else ():
                for score in SCORES:
                    values = [cell[part][score] for cell in measured.values()]
                    found[f"{part} {score} {size or 'all'}"] = common.spread(values)
            kept += [{"size": size, "seed": seed, **cell} for seed, cell in measured.items()]
        if kept:
            made = {"vectors": vectors, "training": spacy_rows.TRAINING, "cells": kept}
            what = {"what": f"whole, {name}", "task": "whole", "row": name}
            rows.append({**what, **found, **made})
    reporting.save(
        NAME,
        {**PROTOCOL, "text": common.text_of(options.cache)},
        rows,
        seeds=common.SEEDS,
        keep="what",
        unfinished=len(rows) < len(ROWS)
        or any(len(row["cells"]) < len(common.SEEDS) for row in rows),
    )


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--sizes", nargs="*", type=spacy_rows.size_of, default=list(SIZES))
    options = parser.parse_args()
    run(options)
    if not options.no_save:
        report(options)


if __name__ == "__main__":
    main()
