"""Stock spaCy tagger and ner on different token-to-vector layers, by number of labelled sentences.

    python -m benchmarks.embeddings.spacy_rows [--tasks ewt-upos] [--only ...] [--seeds 0-2]

Gold tokens, one Doc a sentence. Every pipeline trains as `spacy train` does with the configuration of
`spacy init config`, until its score on the dev part stops improving; the step that is best there is tested. One
training is one cell: it takes minutes, and a killed command goes on with the next one. The words per second of
nlp.pipe are measured apart, on a quiet machine: `python -m benchmarks.embeddings.spacy_speed`.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example, biluo_tags_to_spans, iob_to_biluo
from spacy.training.batchers import minibatch_by_words
from spacy.training.loop import train_while_improving
from thinc.api import Adam, compounding

from benchmarks import reporting
from benchmarks.embeddings import common, labelled, models, pipelines, subwords

TASKS = {"ewt-upos": "tagger", "wnut17": "ner", "conll2003": "ner"}
EVERY, PATIENCE, MOST_STEPS = 200, 1600, 20_000  # steps, as `spacy init config` sets them
TRAINING = f"patience {PATIENCE}"  # in the key of a cell: what was trained otherwise does not count
PROTOCOL = {
    "measure": "tagger: UPOS accuracy in percent; ner: entity F1 in percent; test part",
    "tokens": "gold, one Doc a sentence",
    "training": "spaCy's own loop with its default Adam, batches (100 to 1000 words) and dropout 0.1; the dev part "
    f"scored every {EVERY} steps, until {PATIENCE} have brought no better score; the best step on the dev part",
    "layers": "width 96; MultiHashEmbed NORM, PREFIX, SUFFIX, SHAPE rows 5000, 1000, 2500, 2500; "
    "word2vec CBOW 100 wide (200 where the row says so), gensim's defaults (window 5, 5 epochs), and LDS "
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


def batches(examples: list[Example]) -> Iterator[tuple[int, list[Example]]]:
    """Batches with the number of their epoch, without end."""
    sizes = compounding(100, 1000, 1.001)
    for epoch in count():
        random.shuffle(examples)
        for batch in minibatch_by_words(
            examples, size=sizes, tolerance=0.2, discard_oversize=False
        ):
            yield epoch, batch


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
    start = time.process_time()
    nlp.initialize(lambda: examples)
    steps = train_while_improving(
        nlp,
        Adam(0.001, L2=0.01, grad_clip=1.0, L2_is_weight_decay=True, use_averages=False),
        batches(examples),
        lambda: (score(nlp, docs["dev"], test["dev"]), {}),
        dropout=0.1,
        eval_frequency=EVERY,
        accumulate_gradient=1,
        patience=PATIENCE,
        max_steps=MOST_STEPS,
        exclude=[],
        annotating_components=[],
        before_update=None,
    )
    best, best_weights = {"score": -1.0, "step": 0}, b""
    for _, info, is_best in steps:
        if is_best and info["score"] > best["score"]:
            best, best_weights = info, nlp.get_pipe(component).model.to_bytes()
    seconds = time.process_time() - start
    nlp.get_pipe(component).model.from_bytes(best_weights)
    return {
        "dev": best["score"],
        "test": score(nlp, docs["test"], test["test"]),
        "step": best["step"],
        "steps": info["step"],
        "curve": [round(value, 2) for value, _ in info["checkpoints"]],
        "seconds": round(seconds, 1),
    }


def seeds_of(task: str, row: str, seeds: Sequence[int]) -> Sequence[int]:
    """Variants of what the README compares are measured on EWT alone, with one seed."""
    if pipelines.group(row) == "compared":
        return seeds
    return seeds[:1] if task == "ewt-upos" else ()


def version(options: argparse.Namespace, row: pipelines.Row) -> str:
    found = models.version(
        options.cache, row.lds if row.output else None, bool(row.static or row.subwords)
    )
    return f"{found}+{pipelines.words(options.cache).key}" if row.words else found


def key_of(task: str, name: str, size: int | None, seed: int, model: str) -> str:
    parts = {"task": task, "row": name, "size": size or "all", "seed": seed, "model": model}
    return common.cell_key(**parts, training=TRAINING)


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
