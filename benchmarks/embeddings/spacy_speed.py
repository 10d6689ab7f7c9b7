"""Words per second of nlp.pipe for every pipeline of spacy_rows, one thread, the LDS included.

    python -m benchmarks.embeddings.spacy_speed [--repeats 7] [--components tagger ner]

For a quiet machine. Every pipeline is trained briefly (250 sentences, one epoch), gets the
component that makes its vectors in front, and reads the 634 documents of EWT dev and test, gold
tokens, each Doc made before the clock starts. Pipelines take turns, so that a slow minute of the
machine hits all of them; the first turn warms up; medians, and the slowest and the fastest turn.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import spacy
from spacy.tokens import Doc
from spacy.training.batchers import minibatch_by_words
from thinc.api import Adam

from benchmarks import reporting
from benchmarks.embeddings import common, labelled, models, pipelines, spacy_rows

DEFAULT, RIVAL = "hash, CNN4 (spaCy's default)", "hash + word2vec, CNN4"
TASK_OF = {"tagger": "ewt-upos", "ner": "wnut17"}
PROTOCOL = {
    "measure": "words per second of nlp.pipe over documents, batch_size 64, one thread",
    "input": "EWT dev and test as 634 documents of 79 words on average, gold tokens",
    "included": "the component that computes the LDS vectors, where the row has them",
    "left out": "tokenization",
    "turns": "pipelines take turns; one to warm up, then so many repeats; medians",
    "linear algebra": "all layers of all rows multiply with numpy's BLAS",
    "times default": "median of the ratios of the same turn",
}


def pipeline(options: argparse.Namespace, component: str, row: pipelines.Row) -> spacy.Language:
    task = labelled.load(TASK_OF[component])
    everything = [task, labelled.load("ewt-upos")]
    vectors = pipelines.word_vectors(options.cache, everything, row)
    nlp = pipelines.build(component, row, vectors)
    few = labelled.Task(task.name, [task.train[i] for i in task.subset(250, 0)], [], [])
    docs = pipelines.documents(nlp, few, "train", row, options.cache)
    examples = spacy_rows.gold(docs, few.train, component)
    spacy.util.fix_random_seed(0)
    nlp.initialize(lambda: examples)
    optimizer = Adam(0.001)
    for batch in minibatch_by_words(examples, size=500):
        nlp.update(batch, sgd=optimizer, drop=0.1)
    if row.output:
        lds = nlp.add_pipe("lds_embeddings", first=True)
        model = models.fitted(options.cache, row.lds).with_output(row.output)
        lds.initialize(nlp=nlp, artifact=model)
    return nlp


def words_per_second(nlp: spacy.Language, documents: list[list[str]]) -> float:
    docs = [Doc(nlp.vocab, words=words) for words in documents]
    start = time.perf_counter()
    for _ in nlp.pipe(docs, batch_size=64):
        pass
    return sum(map(len, documents)) / (time.perf_counter() - start)


def measure(options: argparse.Namespace, component: str) -> list[dict[str, Any]]:
    log = common.logger("spacy_speed", options.cache)
    documents = labelled.ewt_documents("dev") + labelled.ewt_documents("test")
    names = [
        name
        for name in common.chosen(pipelines.ROWS, options.only)
        if not (options.without_lds and pipelines.ROWS[name].output)
    ]
    built = {name: pipeline(options, component, pipelines.ROWS[name]) for name in names}
    speeds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(options.repeats + 1):
        for name, nlp in built.items():
            speed = words_per_second(nlp, documents)
            log.info("%s, %s, turn %d: %.0f words/s", component, name, turn, speed)
            if turn:
                speeds[name].append(speed)
    rows = []
    for name, own in speeds.items():
        found = reporting.summary(own)
        row: dict[str, Any] = {
            "component": component,
            "group": pipelines.group(name),
            "row": name,
            "words/s": round(found["median"]),
            "least": round(found["min"]),
            "most": round(found["max"]),
        }
        for label, peer in (("default", DEFAULT), ("word2vec + CNN4", RIVAL)):
            if peer in speeds:
                ratios = [a / b for a, b in zip(own, speeds[peer], strict=True)]
                row[f"times {label}"] = reporting.summary(ratios)
        rows.append(row)
    return rows


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--components", nargs="*", default=list(TASK_OF), choices=list(TASK_OF))
    parser.add_argument("--without-lds", action="store_true", help="leave the LDS rows out")
    options = parser.parse_args()
    rows = [row for component in options.components for row in measure(options, component)]
    if options.no_save:
        reporting.print_table(rows)
    else:
        protocol = {**PROTOCOL, "repeats": options.repeats}
        reporting.save("embeddings-spacy-speed", protocol, rows, seeds=[0])


if __name__ == "__main__":
    main()
