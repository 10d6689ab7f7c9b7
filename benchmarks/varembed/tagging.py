"""A tagger that sees the vectors of five words (the paper's Table 3), errors by frequency (its Fig. 2).

    python -m benchmarks.varembed.tagging [--tokens 6] [--tasks ewt-xpos] [--seeds 0 1 2]

Features are the vectors of the word and its two neighbours on either side, zeros outside the sentence and for
words a model does not have; the network is `benchmarks.local_classifier` with 256 hidden units, early-stopped
on dev (the paper's: two layers of 625). A seed is that of the word vectors and of the classifier.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from benchmarks import kept
from benchmarks.embeddings import labelled
from benchmarks.local_classifier import MLPClassifier
from benchmarks.pictures import Curve, Panel, draw
from benchmarks.reporting import Row, Table, main
from benchmarks.varembed import models
from tacenda import Corpus

TASKS = {"ewt-xpos": "EWT", "treebank-xpos": "NLTK's treebank sample"}
REACH = 2
HIDDEN = 256
EPOCHS = 12
#: Upper ends of the bins of a word's frequency in the unlabelled text.
BINS = {"unseen": 0, "1-100": 100, "101-1000": 1000, "1001-10000": 10_000, "more": np.inf}

ROWS = (
    *("word2vec CBOW", "word2vec skip-gram", "FastText skip-gram"),
    *("VarEmbed", "VarEmbed, n-grams"),
)
#: Rows in the picture.
DRAWN = ("word2vec CBOW", "word2vec skip-gram", "FastText skip-gram", "VarEmbed")


def windows(found: models.Vectors, sentences: list[labelled.Sentence]) -> np.ndarray:
    """(tokens, 5 * width) float32; every word's vector is scaled to the same length."""
    words = list(dict.fromkeys(word for sentence in sentences for word in sentence.words))
    table = np.concatenate([found.zeros(words), np.zeros((1, models.WIDTH), np.float32)])
    table *= np.sqrt(models.WIDTH) / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    ids = {word: i for i, word in enumerate(words)}
    parts = []
    for sentence in sentences:
        own = np.array([ids[word] for word in sentence.words])
        padded = np.pad(own, REACH, constant_values=len(words))
        around = np.stack([padded[k : k + len(own)] for k in range(2 * REACH + 1)], axis=1)
        parts.append(table[around].reshape(len(own), -1))
    return np.concatenate(parts)


def frequencies(text: Corpus, sentences: list[labelled.Sentence]) -> np.ndarray:
    """How often each token's word is in the unlabelled text; 0 for one outside the vocabulary."""
    vocabulary, counts = text.vocabulary, text.type_counts
    words = [word for sentence in sentences for word in sentence.words]
    return np.array([counts[vocabulary.id_of(w)] if w in vocabulary else 0 for w in words])


def measure(found: models.Vectors, task: labelled.Task, seed: int, text: Corpus) -> Row:
    tags = {
        part: np.array([tag for s in getattr(task, part) for tag in s.tags])
        for part in ("train", "dev", "test")
    }
    features = {part: windows(found, getattr(task, part)) for part in tags}
    model = MLPClassifier(hidden=HIDDEN, epochs=EPOCHS, seed=seed, scale="none")
    model.fit(features["train"], tags["train"], features["dev"], tags["dev"])
    wrong = model.predict(features["test"]) != tags["test"]
    counts = frequencies(text, task.test)
    cell: dict[str, Any] = {"dev": 100 * model.score(features["dev"], tags["dev"])}
    cell["test"] = 100 - 100 * float(wrong.mean())
    low = -1.0
    for name, high in BINS.items():
        chosen = (counts > low) & (counts <= high)
        cell[f"error {name}"] = 100 * float(wrong[chosen].mean()) if chosen.any() else None
        cell[f"tokens {name}"] = int(chosen.sum())
        low = high
    return {**cell, **found.facts()}


def picture(rows: list[Row]) -> None:
    """Draw errors by frequency, as in the paper's Fig. 2."""
    panels = []
    for task in dict.fromkeys(row["task"] for row in rows):
        shown = {row["row"]: row for row in rows if row["task"] == task and row["row"] in DRAWN}
        curves = [
            Curve(label, [shown[label][f"error {part}"]["mean"] for part in BINS], color=f"C{i}")
            for i, label in enumerate(DRAWN)
            if label in shown
        ]
        panels.append(Panel(TASKS[task], "occurrences in the raw text", curves, ticks=list(BINS)))
    draw("varembed-tagging", panels, y_label="error rate, %")


def protocol(options: Any) -> dict[str, Any]:
    return {
        "features": "vectors of a window of five words, 640 columns, each of the same length",
        "classifier": f"{HIDDEN} hidden units, at most {EPOCHS} epochs, best on dev",
        "bins": "frequency of the word in the unlabelled text, errors in per cent",
        "text": f"{models.corpus(options.tokens).n_tokens} tokens of Wikipedia",
        "seeds": "of the vectors and of the classifier",
    }


def rows(options: Any) -> Iterator[Row]:
    cells, text = kept.Cells("varembed-tagging"), models.corpus(options.tokens)
    for name, row in product(options.tasks, options.chosen(ROWS)):
        task, found = labelled.load(name), []
        for seed in options.seeds:
            vectors = models.trained(row, seed, text)
            assert vectors is not None
            key = kept.cell_key(task=name, row=row, seed=seed, model=vectors.key)
            found.append(cells.measure(key, lambda: measure(vectors, task, seed, text)))  # noqa: B023
        yield {"task": name, "row": row, "key": f"{name} {row}", **models.combined(found)}


if __name__ == "__main__":
    table = Table("varembed-tagging", protocol, rows, "key", after=picture)
    main(__doc__, table, tokens=0.0, tasks=tuple(TASKS), seeds=[0, 1, 2])
