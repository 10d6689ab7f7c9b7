"""Words per second of training, as `spacy train` trains: whole pipelines and lone taggers, one thread.

    python -m benchmarks.embeddings.training_speed [--repeats 5] [--pipelines tagger whole]

For a quiet machine. The pipelines, and the sentences they train on, are those of `pipeline_speed`: batches of 500
words, the vectors of the LDS computed for each batch. In every turn each is made again, and they take turns; the first
epoch of a pipeline is not counted.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

from spacy.training.batchers import minibatch_by_words

from benchmarks.embeddings import pipelines
from benchmarks.embeddings.pipeline_speed import (
    AS_INSTALLED,
    HEADS,
    compare,
    epoch,
    prepare,
    row_of,
)
from benchmarks.reporting import Row, Table, main

ROWS = (
    pipelines.DEFAULT,
    AS_INSTALLED,
    "hash + LDS own_context, no CNN",
    pipelines.RECOMMENDED,
)
EPOCHS = 3  # after the first
PROTOCOL = {
    "measure": "words per second of nlp.update, one thread; a component that computes LDS vectors is included",
    "pipelines": "tagger: one component with layers of its own; whole: tagger, parser and ner on one tok2vec",
    "text": f"250 sentences of EWT and of WNUT-17, batches of 500 words, {EPOCHS} epochs after a first one",
    "linear algebra": "all layers of all rows multiply with numpy's BLAS (tacenda.numpy_blas.v1), but for spaCy's "
    "default as installed, which multiplies with BLIS",
    "turns": "pipelines take turns; medians",
    "times as installed": "median of the ratios of the same turn",
}


def words_per_second(kind: str, name: str) -> float:
    """Make and train one pipeline, and return its speed."""
    row = row_of(name)
    nlp, examples, optimizer = prepare(kind, row, name == AS_INSTALLED)
    batches = list(minibatch_by_words(examples, size=500))
    gc.collect()
    epoch(nlp, batches, optimizer, row)
    start = time.perf_counter()
    for _ in range(EPOCHS):
        epoch(nlp, batches, optimizer, row)
    n_words = sum(len(example.reference) for example in examples)
    return EPOCHS * n_words / (time.perf_counter() - start)


def rows(options: Any) -> Iterator[Row]:
    found: dict[tuple[str, str], list[float]] = {}
    cases = list(product(options.pipelines, options.chosen(ROWS)))
    for turn, case in product(range(options.repeats), cases):
        found.setdefault(case, []).append(words_per_second(*case))
        print(f"{', '.join(case)}, turn {turn}: {found[case][-1]:.0f} words/s", flush=True)
    for (kind, name), own in found.items():
        theirs = {"times as installed": found.get((kind, AS_INSTALLED))}
        yield {"pipeline": kind, "row": name, **compare(own, theirs)}


if __name__ == "__main__":
    main(
        __doc__,
        Table("embeddings-training-speed", PROTOCOL, rows, options=("repeats",)),
        repeats=5,
        pipelines=tuple(HEADS),
    )
