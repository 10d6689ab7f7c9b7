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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example, biluo_tags_to_spans, iob_to_biluo

from benchmarks import reporting
from benchmarks.embeddings import common, labelled, models, pipelines, subwords

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


Score = Callable[[spacy.Language, list[Doc], list[Example]], float]
Measure = Callable[[str, pipelines.Row, int | None, int], dict[str, Any]]


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
    score: Score = score,
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


@dataclass(frozen=True)
class Study:
    """A table of rows by tasks.

    Attributes
    ----------
    name, results
        Of its cells and its log, and of its results.
    tasks
        The components that they train, and their scores.
    sizes
        Of the labelled text: a row with a cell for each and for every seed is complete.
    about
        What the rows of a task say beside their figures.
    """

    name: str
    tasks: Mapping[str, tuple[str, Score]]
    rows: Mapping[str, pipelines.Row]
    protocol: Mapping[str, str]
    results: str
    sizes: Sequence[int | None] = labelled.SIZES
    about: Callable[[argparse.Namespace, str], dict[str, Any]] = lambda options, task: {}

    def recorded(self, cache: Path) -> dict[str, dict[str, Any]]:
        """The rows of the results, by task and row."""
        path = reporting.RESULTS / f"{common.results_name(self.results, cache)}.json"
        rows = json.loads(path.read_text(encoding="utf8"))["rows"] if path.exists() else []
        return {row["what"]: row for row in rows}

    def cells(self, cache: Path) -> common.Cells:
        """What was measured, of the cache and of the results."""
        cells = common.Cells(cache, self.name)
        for row in self.recorded(cache).values():
            for each in row.get("cells", ()) if row.get("training") == pipelines.KIND else ():
                key = key_of(row["task"], row["row"], each["size"], each["seed"], row["vectors"])
                cells.values.setdefault(key, each)
        return cells

    def run(self, options: argparse.Namespace, measure: Measure | None = None) -> None:
        """Measure the cells that are missing; save after each of them, and in the end."""
        log, cells = common.logger(self.name, options.cache), self.cells(options.cache)
        measure = measure or self._trainer(options)
        cases = product(
            self.tasks, options.seeds, options.sizes, common.chosen(self.rows, options.only)
        )
        for task, seed, size, name in cases:
            if task not in getattr(options, "tasks", self.tasks):
                continue
            row = self.rows[name]
            key = key_of(task, name, size, seed, version(options, row))
            if key in cells.values:
                continue
            cell = cells.measure(key, lambda: measure(task, row, size, seed))  # noqa: B023
            log.info("%s: %s (%.0f s)", key, cell["test"], cell["seconds"])
            self.report(options)
        self.report(options)

    def _trainer(self, options: argparse.Namespace) -> Measure:
        """What trains one component on gold tokens."""
        load, vectors = cache(labelled.load), dict[Any, Any]()

        def train(name: str, row: pipelines.Row, size: int | None, seed: int) -> dict[str, Any]:
            task, (component, score) = load(name), self.tasks[name]
            kind = (name, row.static, row.words, row.subwords)
            if kind not in vectors:
                vectors[kind] = pipelines.word_vectors(options.cache, [task], row)
            nlp = pipelines.build(component, row, vectors[kind])
            return measure(task, size, seed, nlp, documents(nlp, task, row, options.cache), score)

        return train

    def report(self, options: argparse.Namespace) -> None:
        """Write the rows that have new cells."""
        if options.no_save:
            return
        known, cells = self.recorded(options.cache), self.cells(options.cache)
        rows: dict[str, dict[str, Any]] = {}
        for task, name in product(self.tasks, self.rows):
            case = (task, name, version(options, self.rows[name]))
            found = row_of(cells, case, self.sizes)
            if found and found["cells"] != known.get(found["what"], {}).get("cells"):
                rows[found["what"]] = {**found, **self.about(options, task)}
        unfinished = any(
            not complete({**known, **rows}.get(f"{task}, {name}", {}), self.sizes)
            for task, name in product(self.tasks, self.rows)
        )
        if rows:
            reporting.save(
                common.results_name(self.results, options.cache),
                {**self.protocol, "text": common.text_of(options.cache)},
                list(rows.values()),
                seeds=common.SEEDS,
                keep="what",
                unfinished=unfinished,
            )


def documents(
    nlp: spacy.Language, task: labelled.Task, row: pipelines.Row, cache: Path, *lds: Any
) -> dict[str, list[Doc]]:
    """The documents of every part of a task."""
    parts = ("train", "dev", "test")
    return {part: pipelines.documents(nlp, task, part, row, cache, *lds) for part in parts}


Case = tuple[str, str, str]  # task, row, and version of the vectors


def row_of(
    cells: common.Cells, case: Case, sizes: Sequence[int | None] = labelled.SIZES
) -> dict[str, Any]:
    """A row of the results: its cells, and mean and spread over seeds of every size; empty if there are none."""
    task, name, vectors = case
    found: dict[str, Any] = {}
    kept = []
    for size in sizes:
        keys = {seed: key_of(task, name, size, seed, vectors) for seed in common.SEEDS}
        measured = {seed: cells.values[key] for seed, key in keys.items() if key in cells.values}
        for part in ("dev", "test") if measured else ():
            of_part = [cell[part] for cell in measured.values()]
            named = isinstance(of_part[0], dict)  # several scores
            for score in of_part[0] if named else [""]:
                values = [each[score] if named else each for each in of_part]
                label = " ".join(filter(None, (part, score, str(size or "all"))))
                found[label] = common.spread(values)
        for seed, cell in measured.items():
            what = {each: cell[each] for each in ("dev", "test", "step", "steps", "seconds")}
            kept.append({"size": size, "seed": seed, **what})
    made = {"vectors": vectors, "training": pipelines.KIND, "cells": kept}
    what = {"what": f"{task}, {name}", "task": task, "row": name}
    return {**what, **found, **made} if kept else {}


def complete(row: dict[str, Any], sizes: Sequence[int | None] = labelled.SIZES) -> bool:
    """Whether a row has a cell for every size and seed."""
    return len(row.get("cells", ())) == len(sizes) * len(common.SEEDS)


def size_of(text: str) -> int | None:
    return None if text == "all" else int(text)


STUDY = Study(
    "spacy_rows",
    {task: (component, score) for task, component in TASKS.items()},
    pipelines.ROWS,
    PROTOCOL,
    "embeddings-spacy",
    about=lambda options, task: {"component": TASKS[task]},
)


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument("--sizes", nargs="*", type=size_of, default=list(labelled.SIZES))
    STUDY.run(parser.parse_args())


if __name__ == "__main__":
    main()
