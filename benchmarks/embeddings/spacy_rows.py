"""Stock spaCy tagger and ner on different token-to-vector layers, by number of labelled sentences.

    python -m benchmarks.embeddings.spacy_rows [--tasks ewt-upos] [--only ...] [--seeds 0-2]

Gold tokens, one Doc a sentence. Every pipeline trains for the same epochs with spaCy's default
optimizer and batches; the epoch that is best on the dev part is tested. The words per second of
nlp.pipe are measured apart, on a quiet machine: `python -m benchmarks.embeddings.spacy_speed`.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example, biluo_tags_to_spans, iob_to_biluo
from spacy.training.batchers import minibatch_by_words
from thinc.api import Adam, compounding

from benchmarks import reporting
from benchmarks.embeddings import common, labelled, models, pipelines

TASKS = {"ewt-upos": "tagger", "wnut17": "ner", "conll2003": "ner"}
EPOCHS = {
    "tagger": {250: 40, 1000: 15, None: 4},
    "ner": {250: 40, 1000: 15, None: 5},
}
PROTOCOL = {
    "measure": "tagger: UPOS accuracy in percent; ner: entity F1 in percent; test part",
    "tokens": "gold, one Doc a sentence",
    "training": "spaCy's default Adam and batches (100 to 1000 words), dropout 0.1; "
    "epochs by sentences: tagger 250: 40, 1000: 15, all: 4; ner 250: 40, 1000: 15, all: 5; "
    "the best epoch on the dev part",
    "layers": "width 96; MultiHashEmbed NORM, PREFIX, SUFFIX, SHAPE rows 5000, 1000, 2500, 2500; "
    "word2vec CBOW 100 wide (200 where the row says so), gensim's defaults (window 5, 5 epochs), and LDS "
    "200 states, both fitted on the same text, "
    "40,000 types, the same OOV classes; SumEmbed 128 wide, one epoch, the same text in lower case, 50,000 types",
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


def batches(examples: list[Example], sizes: Iterator[float]) -> Iterator[list[Example]]:
    random.shuffle(examples)
    yield from minibatch_by_words(examples, size=sizes, tolerance=0.2, discard_oversize=False)


def measure(
    task: labelled.Task,
    size: int | None,
    seed: int,
    nlp: spacy.Language,
    docs: dict[str, list[Doc]],
    score: Callable[[spacy.Language, list[Doc], list[Example]], float] = score,
) -> dict[str, Any]:
    """Train on the subset of this seed; dev and test score of the best epoch."""
    component = nlp.pipe_names[-1]
    spacy.util.fix_random_seed(seed)
    chosen = task.subset(size, seed)
    examples = gold([docs["train"][i] for i in chosen], [task.train[i] for i in chosen], component)
    test = {part: gold(docs[part], getattr(task, part), component) for part in ("dev", "test")}
    start = time.perf_counter()
    nlp.initialize(lambda: examples)
    optimizer = Adam(0.001, L2=0.01, grad_clip=1.0, L2_is_weight_decay=True, use_averages=False)
    sizes = compounding(100, 1000, 1.001)
    best, best_weights, curve = -1.0, b"", []
    for _ in range(EPOCHS[component][size]):
        for batch in batches(examples, sizes):
            nlp.update(batch, sgd=optimizer, drop=0.1)
        curve.append(score(nlp, docs["dev"], test["dev"]))
        if curve[-1] > best:
            best, best_weights = curve[-1], nlp.get_pipe(component).model.to_bytes()
    seconds = time.perf_counter() - start
    nlp.get_pipe(component).model.from_bytes(best_weights)
    return {
        "dev": best,
        "test": score(nlp, docs["test"], test["test"]),
        "epoch": curve.index(best) + 1,
        "curve": [round(value, 2) for value in curve],
        "seconds": round(seconds, 1),
    }


def seeds_of(task: str, row: str, seeds: Sequence[int]) -> Sequence[int]:
    """Variants of what the README compares are measured on EWT alone, with one seed."""
    if pipelines.group(row) == "compared":
        return seeds
    return seeds[:1] if task == "ewt-upos" else ()


def version(options: argparse.Namespace, row: pipelines.Row) -> str:
    found = models.version(options.cache, row.lds if row.output else None, row.static > 0)
    return f"{found}+{pipelines.words(options.cache).key}" if row.words else found


def key_of(task: str, name: str, size: int | None, seed: int, model: str) -> str:
    return common.cell_key(task=task, row=name, size=size or "all", seed=seed, model=model)


def run(options: argparse.Namespace) -> None:
    log = common.logger("spacy_rows", options.cache)
    cells = common.Cells(options.cache, "spacy_rows")
    for task_name in options.tasks:
        task = labelled.load(task_name)
        vectors: dict[Any, Any] = {}
        for seed in options.seeds:
            for size in options.sizes:
                for name in common.chosen(pipelines.ROWS, options.only):
                    row = pipelines.ROWS[name]
                    if row.output and options.without_lds:
                        continue
                    if seed not in seeds_of(task_name, name, options.seeds):
                        continue
                    key = key_of(task_name, name, size, seed, version(options, row))
                    if key in cells.values:
                        continue
                    kind = (row.static, row.words)
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


Case = tuple[str, str, str]  # task, row, and version of the vectors


def summary(cells: common.Cells, case: Case, seeds: Sequence[int]) -> dict[str, Any]:
    """Mean and spread over seeds of dev and test score, for every size that has cells."""
    found: dict[str, Any] = {}
    for size in labelled.SIZES:
        keys = [key_of(*case[:2], size, seed, case[2]) for seed in seeds]
        measured = [cells.values[key] for key in keys if key in cells.values]
        for part in ("dev", "test"):
            if measured:
                found[f"{part} {size or 'all'}"] = common.spread([c[part] for c in measured])
    return found


def complete(cells: common.Cells, case: Case, seeds: Sequence[int]) -> bool:
    """Whether every size and seed has a cell."""
    keys = [key_of(*case[:2], size, seed, case[2]) for size in labelled.SIZES for seed in seeds]
    return all(key in cells.values for key in keys)


def report(options: argparse.Namespace) -> None:
    """Write benchmarks/results/embeddings-spacy.json from the cells that are there."""
    cells = common.Cells(options.cache, "spacy_rows")
    rows: list[dict[str, Any]] = []
    unfinished = False
    for task, component in TASKS.items():
        for name, spec in pipelines.ROWS.items():
            if spec.output and not models.folder(options.cache, spec.lds).exists():
                unfinished = True
                continue
            case = (task, name, version(options, spec))
            found = summary(cells, case, seeds_of(task, name, options.seeds))
            unfinished |= not complete(cells, case, seeds_of(task, name, common.SEEDS))
            if found:
                kind = {"task": task, "component": component, "group": pipelines.group(name)}
                rows.append({**kind, "row": name, **found})
    reporting.save(
        common.results_name("embeddings-spacy", options.cache),
        {**PROTOCOL, "text": common.text_of(options.cache)},
        rows,
        seeds=options.seeds,
        unfinished=unfinished,
    )


def size_of(text: str) -> int | None:
    return None if text == "all" else int(text)


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument("--sizes", nargs="*", type=size_of, default=list(labelled.SIZES))
    parser.add_argument("--without-lds", action="store_true", help="leave the LDS rows out")
    options = parser.parse_args()
    run(options)
    if not options.no_save:
        report(options)


if __name__ == "__main__":
    main()
