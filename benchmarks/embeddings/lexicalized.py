"""A lexicalized entity tagger (CRF) with token features from unlabelled text: the paper's Table 3.

    python -m benchmarks.embeddings.lexicalized [--only Lex] [--c2 0.1 1.0]

Features of a first-order CRF (crfsuite, L-BFGS) on CoNLL-2003: word, its lower case and shape in a
window of two, affixes of up to four letters, digits and hyphens; BILOU tags. Added to them: Brown
cluster prefixes of 4, 6, 10 and 20 bits in the same window (as Ratinov and Roth 2009), or the
token's vector (word2vec 200, LDS). The weight of the penalty is chosen on the dev part.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pycrfsuite
from spacy.training import biluo_to_iob, iob_to_biluo

from benchmarks import reporting
from benchmarks.embeddings import brown, common, features, labelled, models, text

PREFIXES = (4, 6, 10, 20)
VECTORS = {
    "Lex": None,
    "Lex + Brown": None,
    "Lex + word2vec 200": features.static(200),
    "Lex + LDS mean": features.lds("em", "mean"),
    "Lex + LDS weighted_mean": features.lds("em", "weighted_mean"),
    "Lex + LDS own_context": features.lds("em", "own_context"),
}
SCALE = 0.3
PROTOCOL = {
    "measure": "CoNLL-2003 English entity F1 in percent, exact match, gold tokens",
    "tagger": "first-order CRF (crfsuite, L-BFGS, 100 iterations); deterministic, so no seeds",
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


def measure(
    options: argparse.Namespace, task: labelled.Task, name: str, c2: float
) -> dict[str, Any]:
    paths, vectors = None, {"train": None, "dev": None, "test": None}
    if "Brown" in name:
        bits, vocabulary = brown.clusters(options.cache), text.corpus(options.cache).vocabulary
        paths = lambda word: bits.get(vocabulary.decode([vocabulary.id_of(word)])[0], "")  # noqa: E731
    if row := VECTORS[name]:
        vectors = {
            part: row.encode(options.cache, [s.words for s in getattr(task, part)])
            for part in vectors
        }
        factor = SCALE / vectors["train"].std()
        vectors = {part: x * factor for part, x in vectors.items()}
    model = options.cache / f"crf-{abs(hash((name, c2)))}.model"
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": options.iterations})
    start = time.perf_counter()
    encoded = items(task.train, paths, vectors["train"])
    for sentence, sequence in zip(task.train, encoded, strict=True):
        trainer.append(sequence, iob_to_biluo(sentence.tags))
    trainer.train(str(model))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model))
    scores = {
        part: labelled.span_f1(
            (biluo_to_iob(tagger.tag(each)) for each in items(getattr(task, part), paths, x)),
            (sentence.tags for sentence in getattr(task, part)),
        )
        for part, x in vectors.items()
        if part != "train"
    }
    tagger.close()
    model.unlink()
    return {**scores, "c2": c2, "seconds": round(time.perf_counter() - start, 1)}


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--c2", type=float, nargs="*", default=[0.1, 0.3, 1.0])
    parser.add_argument("--iterations", type=int, default=100)
    options = parser.parse_args()
    log = common.logger("lexicalized", options.cache)
    cells = common.Cells(options.cache, "lexicalized")
    task = labelled.load("conll2003")
    rows = []
    for name in common.chosen(VECTORS, options.only):
        row = VECTORS[name]
        version = models.version(options.cache, row.lds if row else None, name != "Lex")
        found = []
        for c2 in options.c2:
            key = common.cell_key(
                row=name, c2=c2, iterations=options.iterations, scale=SCALE, model=version
            )
            found.append(
                cells.measure(key, lambda: measure(options, task, name, c2))  # noqa: B023
            )
            log.info("%s: %s", key, found[-1])
        rows.append({"row": name, **max(found, key=lambda cell: cell["dev"])})
    if not options.no_save:
        reporting.save(
            common.results_name("embeddings-lexicalized", options.cache),
            {**PROTOCOL, "text": common.text_of(options.cache)},
            rows,
        )


if __name__ == "__main__":
    main()
