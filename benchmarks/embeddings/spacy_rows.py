"""Stock spaCy tagger and ner on different token-to-vector layers, by number of labelled sentences.

    python -m benchmarks.embeddings.spacy_rows [--tasks ewt-upos] [--only ...] [--seeds 0 1 2]

Gold tokens, one Doc a sentence. Every pipeline trains as `spacy train` does with the configuration of
`spacy init config`, until its score on the dev part stops improving; the step that is best there is tested. One
training is one cell: it takes minutes, and a killed command goes on with the next one. Words per second are measured
separately, on a quiet machine: `python -m benchmarks.embeddings.pipeline_speed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from benchmarks import kept
from benchmarks.embeddings import labelled, pipelines, subwords
from benchmarks.reporting import Row, Table, main, spread

SEEDS, SIZES = [0, 1, 2], ["250", "1000", "all"]  # of the labelled sentences
TASKS = {"ewt-upos": "tagger", "wnut17": "ner", "conll2003": "ner"}
PROTOCOL = {
    "measure": "tagger: UPOS accuracy in percent; ner: entity F1 in percent; test part",
    "tokens": "gold, one Doc a sentence",
    "training": pipelines.PROTOCOL.format("the dev part"),
    "layers": "width 96; MultiHashEmbed NORM, PREFIX, SUFFIX, SHAPE rows 5000, 1000, 2500, 2500; "
    "word2vec CBOW 100 wide, gensim's defaults (window 5, 5 epochs), and LDS "
    "200 states, both fitted on the same text, "
    f"40,000 types, the same OOV classes; {subwords.PROTOCOL}; "
    "SumEmbed 128 wide, the same text in lower case, 50,000 types; LDS and SumEmbed with 8 bits a number",
}


OF_TOKENS = {"tagger": "tag", "morphologizer": "pos"}
Score = Callable[[spacy.Language, list[Doc], list[Example]], float]
Measured = Callable[[str, Any, int | None, int], Row]


def gold(docs: list[Doc], sentences: list[labelled.Sentence], component: str) -> list[Example]:
    """Return the documents with what a component is to learn, of the tags of their sentences."""
    references = (reference(d.vocab, *s, component) for d, s in zip(docs, sentences, strict=True))
    return [Example(*pair) for pair in zip(docs, references, strict=True)]


def reference(vocab: Vocab, words: list[str], tags: list[str], component: str) -> Doc:
    if component == "morphologizer":  # "Case=Nom|POS=NOUN"
        features, _, pos = zip(*(tag.rpartition("POS=") for tag in tags), strict=True)
        return Doc(vocab, words=words, pos=pos, morphs=[each.rstrip("|") for each in features])
    if component == "parser":  # "3 nsubj"
        heads, relations = zip(*(tag.split(" ", 1) for tag in tags), strict=True)
        return Doc(vocab, words=words, heads=list(map(int, heads)), deps=relations)
    return Doc(vocab, words=words, **{"tags" if component == "tagger" else "ents": tags})


def score(nlp: spacy.Language, docs: list[Doc], gold_examples: list[Example]) -> float:
    """Percent; the documents are copied, so that nothing predicted stays in them."""
    component = nlp.pipe_names[-1]
    pairs = predicted(nlp, docs, gold_examples)
    if component in OF_TOKENS:
        attribute = OF_TOKENS[component]
        return 100 * Scorer.score_token_attr(pairs, attribute)[f"{attribute}_acc"]
    name = "dep_las" if component == "parser" else "ents_f"
    return 100 * nlp.get_pipe(component).score(pairs)[name]


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


def train(
    name: str, component: str, row: pipelines.Row, size: int | None, seed: int, score: Score = score
) -> Row:
    """Train one component on gold tokens of a task."""
    task = labelled.load(name)
    nlp = pipelines.build(component, row, pipelines.word_vectors([task], row))
    return measure(task, size, seed, nlp, pipelines.documents(nlp, task, row), score)


def rows_of(
    options: Any,
    name: str,
    rows: Mapping[str, Any],
    measured: Measured,
    inputs: Callable[[str, Any], str | None] = lambda task, row: None,
) -> Iterator[Row]:
    """Yield a row of means and spreads over seeds for each task and each of ``rows``, from cells that are kept.

    ``options`` have tasks, sizes and seeds; ``measured(task, row, size, seed)`` trains and returns scores of dev and
    test: numbers, or several by name. Where ``inputs(task, row)`` digests all that our code gives the training, a cell
    is kept as long as the digest is the same, whatever code of ours has changed.
    """
    cells = kept.Cells(name)
    for task, label in product(options.tasks, options.chosen(rows)):
        found: Row = {"what": f"{task}, {label}", "task": task, "row": label}
        read = inputs(task, rows[label])
        made = rows[label] if read is None else read
        for size in options.sizes:
            of_size = []
            for seed in options.seeds:
                key = kept.cell_key(task=task, row=label, made=made, size=size, seed=seed)
                n = None if size == "all" else int(size)
                of_size.append(
                    cells.measure(key, lambda: measured(task, rows[label], n, seed), read is None)  # noqa: B023
                )
                print(f"{key}: {of_size[-1]}", flush=True)
            found |= {key: of_size[0][key] for key in ("width",) if key in of_size[0]}
            for part in ("dev", "test"):
                of_part = [cell[part] for cell in of_size if part in cell]
                named = [each if isinstance(each, dict) else {"": each} for each in of_part]
                for score in named[0] if named else ():
                    column = " ".join(filter(None, (part, score, size)))
                    found[column] = spread([each[score] for each in named])
        yield found


def rows(options: Any) -> Iterator[Row]:
    def measured(task: str, row: pipelines.Row, size: int | None, seed: int) -> Row:
        return train(task, TASKS[task], row, size, seed)

    for row in rows_of(options, "spacy_rows", pipelines.ROWS, measured):
        yield {**row, "component": TASKS[row["task"]]}


if __name__ == "__main__":
    table = Table("embeddings-spacy", PROTOCOL, rows, key="what")
    main(__doc__, table, tasks=tuple(TASKS), sizes=SIZES, seeds=SEEDS)
