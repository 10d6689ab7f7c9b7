"""A lexicalized entity tagger (CRF) with token features from unlabelled text: the paper's Table 3.

    python -m benchmarks.embeddings.lexicalized [--only Lex] [--c2 0.1 1.0]

Features of a first-order CRF (crfsuite, L-BFGS) on CoNLL-2003: word, its lower case and shape in a
window of two, affixes of up to four letters, digits and hyphens; BILOU tags. Added to them: Brown
cluster prefixes of 4, 6, 10 and 20 bits in the same window (as Ratinov and Roth 2009), or the
token's vector (word2vec 200, LDS). The weight of the penalty is chosen on the dev part.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite
from spacy.training import biluo_to_iob, iob_to_biluo

from benchmarks import kept
from benchmarks.embeddings import features, labelled, models, text
from benchmarks.reporting import Row, Table, main

PREFIXES = (4, 6, 10, 20)
VECTORS = {
    "Lex": None,
    "Lex + Brown": None,
    "Lex + word2vec 200": features.static(200),
    "Lex + LDS mean": features.lds("em", "mean"),
    "Lex + LDS weighted_mean": features.lds("em", "weighted_mean"),
    "Lex + LDS own_context": features.lds("em", "own_context"),
}
SCALE, ITERATIONS = 0.3, 100
PROTOCOL = {
    "measure": "CoNLL-2003 English entity F1 in percent, exact match, gold tokens",
    "tagger": f"first-order CRF (crfsuite, L-BFGS, {ITERATIONS} iterations); deterministic, so no seeds",
    "penalty": "c2 chosen on the dev part (eng.testa)",
    "vectors": f"columns divided by their common standard deviation, times {SCALE}",
}


def shape(word: str) -> str:
    """Xx for Word, d-d for 1-2: runs of one kind as one letter."""
    kinds = re.sub(r"[^\W\d_]", lambda m: "X" if m[0].isupper() else "x", re.sub(r"\d", "d", word))
    return re.sub(r"(.)\1+", r"\1", kinds)


def lexical(words: list[str], i: int) -> list[str]:
    word = words[i]
    found = ["bias", f"d={any(c.isdigit() for c in word)}", f"h={'-' in word}"]
    for n in range(1, 5):
        if len(word) >= n:
            found += [f"p{n}={word[:n]}", f"s{n}={word[-n:]}"]
    for k in range(-2, 3):
        near = words[i + k] if 0 <= i + k < len(words) else "<edge>"
        found += [f"w{k}={near}", f"l{k}={near.lower()}", f"x{k}={shape(near)}"]
    pairs = [shape(words[j]) if 0 <= j < len(words) else "<edge>" for j in (i - 1, i, i + 1)]
    return [*found, "x01=" + "|".join(pairs[:2]), "x12=" + "|".join(pairs[1:])]


def items(
    sentences: list[labelled.Sentence], paths: Any, vectors: np.ndarray | None
) -> Iterable[pycrfsuite.ItemSequence]:
    """One sequence of feature weights per sentence; `paths(word)` gives its cluster's bits."""
    at = 0
    for sentence in sentences:
        sequence = []
        for i in range(len(sentence.words)):
            weights: dict[str, float] = dict.fromkeys(lexical(sentence.words, i), 1.0)
            for k in range(-2, 3) if paths else ():
                if 0 <= i + k < len(sentence.words):
                    bits = paths(sentence.words[i + k])
                    weights |= dict.fromkeys((f"b{k}={bits[:n]}" for n in PREFIXES), 1.0)
            if vectors is not None:
                values = vectors[at].tolist()
                weights |= {f"v{j}": value for j, value in enumerate(values)}
            sequence.append(weights)
            at += 1
        yield pycrfsuite.ItemSequence(sequence)


def measure(task: labelled.Task, name: str, c2: float) -> Row:
    paths, vectors = None, {"train": None, "dev": None, "test": None}
    if "Brown" in name:
        bits, vocabulary = text.clusters(), text.corpus().vocabulary
        paths = lambda word: bits.get(vocabulary.decode([vocabulary.id_of(word)])[0], "")  # noqa: E731
    if row := VECTORS[name]:
        vectors = {part: row.encode([s.words for s in getattr(task, part)]) for part in vectors}
        factor = SCALE / vectors["train"].std()
        vectors = {part: x * factor for part, x in vectors.items()}
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": ITERATIONS})
    encoded = items(task.train, paths, vectors["train"])
    for sentence, sequence in zip(task.train, encoded, strict=True):
        trainer.append(sequence, iob_to_biluo(sentence.tags))
    tagger = pycrfsuite.Tagger()
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder, "model")))
        tagger.open(str(Path(folder, "model")))
        scores = {
            part: labelled.span_f1(
                (biluo_to_iob(tagger.tag(each)) for each in items(getattr(task, part), paths, x)),
                (sentence.tags for sentence in getattr(task, part)),
            )
            for part, x in vectors.items()
            if part != "train"
        }
        tagger.close()
    return {**scores, "c2": c2}


def rows(options: Any) -> Iterator[Row]:
    cells, task = kept.Cells("lexicalized"), labelled.load("conll2003")
    for name in options.chosen(VECTORS):
        row, found = VECTORS[name], []
        for c2 in options.c2:
            made = models.settings(row.lds) if row and row.lds else None
            key = kept.cell_key(row=name, c2=c2, made=made)
            found.append(cells.measure(key, lambda: measure(task, name, c2)))  # noqa: B023
        yield {"row": name, **max(found, key=lambda cell: cell["dev"])}


if __name__ == "__main__":
    table = Table("embeddings-lexicalized", PROTOCOL, rows, key="row", seeds=None)
    main(__doc__, table, c2=[0.1, 0.3, 1.0])
