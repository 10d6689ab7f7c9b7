"""Stock spaCy tagger and ner on different token-to-vector layers, by number of labelled sentences.

    python -m benchmarks.embeddings.spacy_rows [--tasks ewt-upos] [--only ...] [--seeds 0-2]

Gold tokens, one Doc a sentence. Every pipeline trains as `spacy train` does with the configuration of
`spacy init config`, until its score on the dev part stops improving; the step that is best there is tested. One
training is one cell: it takes minutes, and a killed command goes on with the next one. The results have every cell,
so that a run can also be continued elsewhere. Words per second are measured apart, on a quiet machine:
`python -m benchmarks.embeddings.pipeline_speed`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example, biluo_tags_to_spans, iob_to_biluo

from benchmarks import reporting
from benchmarks.embeddings import common, labelled, models, pipelines, subwords

NAME = "embeddings-spacy"
TASKS = {"ewt-upos": "tagger", "wnut17": "ner", "conll2003": "ner"}
PROTOCOL = {
    "measure": "tagger: UPOS accuracy in percent; ner: entity F1 in percent; test part",
    "tokens": "gold, one Doc a sentence",
    "training": pipelines.PROTOCOL.format("the dev part"),
    "layers": "width 96; MultiHashEmbed NORM, PREFIX, SUFFIX, SHAPE rows 5000, 1000, 2500, 2500; "
    "word2vec CBOW 100 wide, gensim's defaults (window 5, 5 epochs), and LDS "
    "200 states, both fitted on the same text, "
    f"40,000 types, the same OOV classes; {subwords.PROTOCOL}; "
    "SumEmbed 128 wide, one epoch, the same text in lower case, 50,000 types",
}


def gold(docs: list[Doc], sentences: list[labelled.Sentence], component: str) -> list[Example]:
    examples = []
    for doc, sentence in zip(docs, sentences, strict=True):
        reference = Doc(doc.vocab, words=sentence.words)
        if component == "tagger":
            for token, tag in zip(reference, sentence.tags, strict=True):
                token.tag_ = tag
        else:
            reference.ents = biluo_tags_to_spans(reference, iob_to_biluo(sentence.tags))
        examples.append(Example(doc, reference))
    return examples


def score(nlp: spacy.Language, docs: list[Doc], gold_examples: list[Example]) -> float:
    """Percent; the documents are copied, so that nothing predicted stays in them."""
    component = nlp.pipe_names[-1]
    pairs = predicted(nlp, docs, gold_examples)
    if component == "tagger":
        return 100 * Scorer.score_token_attr(pairs, "tag")["tag_acc"]
    return 100 * nlp.get_pipe(component).score(pairs)["ents_f"]


def predicted(nlp: spacy.Language, docs: list[Doc], gold_examples: list[Example]) -> list[Example]:
    """Copies of the documents as the last component marks them, beside their references."""
    marked = nlp.get_pipe(nlp.pipe_names[-1]).pipe((doc.copy() for doc in docs), batch_size=256)
    return [Example(p, g.reference) for p, g in zip(marked, gold_examples, strict=True)]


def measure(
    task: labelled.Task,
    size: int | None,
    seed: int,
    nlp: spacy.Language,
    docs: dict[str, list[Doc]],
    score: Callable[[spacy.Language, list[Doc], list[Example]], float] = score,
) -> dict[str, Any]:
    """Train on the subset of this seed until the dev part says stop; dev and test score of the best step."""
    component = nlp.pipe_names[-1]
    spacy.util.fix_random_seed(seed)
    chosen = task.subset(size, seed)
    examples = gold([docs["train"][i] for i in chosen], [task.train[i] for i in chosen], component)
    test = {part: gold(docs[part], getattr(task, part), component) for part in ("dev", "test")}
    found = pipelines.train(nlp, examples, lambda: (score(nlp, docs["dev"], test["dev"]), {}))
    del found["others"]
    return {**found, "test": score(nlp, docs["test"], test["test"])}


def version(options: argparse.Namespace, row: pipelines.Row) -> str:
    found = models.version(
        options.cache, "em" if row.output else None, bool(row.static or row.subwords)
    )
    return f"{found}+{pipelines.words(options.cache).key}" if row.words else found


def key_of(task: str, name: str, size: int | None, seed: int, model: str) -> str:
    parts = {"task": task, "row": name, "size": size or "all", "seed": seed, "model": model}
    return common.cell_key(**parts, training=pipelines.KIND)


def recorded(results: str, cache: Path) -> dict[str, dict[str, Any]]:
    """The rows of a results file, by task and row."""
    path = reporting.RESULTS / f"{common.results_name(results, cache)}.json"
    rows = json.loads(path.read_text(encoding="utf8"))["rows"] if path.exists() else []
    return {row["what"]: row for row in rows}


def kept_cells(cache: Path, name: str, results: str) -> common.Cells:
    """The cells of a benchmark, of the cache and of its results."""
    cells = common.Cells(cache, name)
    for row in recorded(results, cache).values():
        for each in row.get("cells", ()) if row.get("training") == pipelines.KIND else ():
            key = key_of(row["task"], row["row"], each["size"], each["seed"], row["vectors"])
            cells.values.setdefault(key, each)
    return cells


def run(options: argparse.Namespace) -> None:
    log = common.logger("spacy_rows", options.cache)
    cells = kept_cells(options.cache, "spacy_rows", NAME)
    for task_name in options.tasks:
        task = labelled.load(task_name)
        vectors: dict[Any, Any] = {}
        for seed in options.seeds:
            for size in options.sizes:
                for name in common.chosen(pipelines.ROWS, options.only):
                    row = pipelines.ROWS[name]
                    key = key_of(task_name, name, size, seed, version(options, row))
                    if key in cells.values:
                        continue
                    kind = (row.static, row.words, row.subwords)
                    if kind not in vectors:
                        vectors[kind] = pipelines.word_vectors(options.cache, [task], row)
                    nlp = pipelines.build(TASKS[task_name], row, vectors[kind])
                    docs = {
                        part: pipelines.documents(nlp, task, part, row, options.cache)
                        for part in ("train", "dev", "test")
                    }
                    cell = cells.measure(
                        key,
                        lambda: measure(task, size, seed, nlp, docs),  # noqa: B023
                    )
                    log.info("%s: %.2f (%.0f s)", key, cell["test"], cell["seconds"])
                    if not options.no_save:
                        report(options)


Case = tuple[str, str, str]  # task, row, and version of the vectors


def row_of(cells: common.Cells, case: Case) -> dict[str, Any]:
    """A row of the results: its cells, and mean and spread over seeds of every size; empty if there are none."""
    task, name, vectors = case
    found: dict[str, Any] = {}
    kept = []
    for size in labelled.SIZES:
        keys = {seed: key_of(task, name, size, seed, vectors) for seed in common.SEEDS}
        measured = {seed: cells.values[key] for seed, key in keys.items() if key in cells.values}
        for part in ("dev", "test"):
            if measured:
                found[f"{part} {size or 'all'}"] = common.spread(
                    [c[part] for c in measured.values()]
                )
        for seed, cell in measured.items():
            what = {each: cell[each] for each in ("dev", "test", "step", "steps", "seconds")}
            kept.append({"size": size, "seed": seed, **what})
    made = {"vectors": vectors, "training": pipelines.KIND, "cells": kept}
    what = {"what": f"{task}, {name}", "task": task, "row": name}
    return {**what, **found, **made} if kept else {}


def complete(row: dict[str, Any]) -> bool:
    """Whether a row has a cell for every size and seed."""
    return len(row.get("cells", ())) == len(labelled.SIZES) * len(common.SEEDS)


def report(options: argparse.Namespace) -> None:
    """Write the rows that have new cells to benchmarks/results/embeddings-spacy.json."""
    known = recorded(NAME, options.cache)
    cells = kept_cells(options.cache, "spacy_rows", NAME)
    rows: dict[str, dict[str, Any]] = {}
    for task in options.tasks:
        for name in common.chosen(pipelines.ROWS, options.only):
            case = (task, name, version(options, pipelines.ROWS[name]))
            found = row_of(cells, case)
            if found and found["cells"] != known.get(found["what"], {}).get("cells"):
                rows[found["what"]] = {**found, "component": TASKS[task]}
    unfinished = any(
        not complete({**known, **rows}.get(f"{task}, {name}", {}))
        for task in TASKS
        for name in pipelines.ROWS
    )
    if not rows:
        return
    reporting.save(
        common.results_name(NAME, options.cache),
        {**PROTOCOL, "text": common.text_of(options.cache)},
        list(rows.values()),
        seeds=common.SEEDS,
        keep="what",
        unfinished=unfinished,
    )


def size_of(text: str) -> int | None:
    return None if text == "all" else int(text)


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument("--sizes", nargs="*", type=size_of, default=list(labelled.SIZES))
    options = parser.parse_args()
    run(options)
    if not options.no_save:
        report(options)


if __name__ == "__main__":
    main()
