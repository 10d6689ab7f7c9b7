"""spaCy's own tagger and ner with the word vectors as `include_static_vectors`.

    python -m benchmarks.varembed.static [--tasks ewt-upos] [--sizes 250 1000]

The pipelines, the training and the subsets are those of `benchmarks.embeddings.spacy_rows`: hash embeddings and word
vectors, four convolution layers. The vectors are those of `models`, all of one length; a word that a model does not
know has zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from spacy.strings import StringStore
from spacy.vectors import Vectors

from benchmarks import kept
from benchmarks.embeddings import labelled, pipelines, spacy_rows
from benchmarks.reporting import Row, Table, main
from benchmarks.varembed import models
from tacenda_embeddings.spacy.vectors import MorphologicalVectors

NONE = "no word vectors"
ROWS = ("word2vec skip-gram", "FastText skip-gram", "SumEmbed", "VarEmbed")
WITHOUT, WITH = pipelines.Row(depth=4), pipelines.Row(static=True, depth=4)
PARTS = ("train", "dev", "test")


def in_spacy(found: models.Vectors, task: labelled.Task) -> Any:
    """What stands in ``nlp.vocab``: our own class, or a table of every word of the task."""
    strings = StringStore()
    if found.model is not None:
        return MorphologicalVectors(strings=strings, model=found.model)
    words = sorted({word for part in PARTS for s in getattr(task, part) for word in s.words})
    rows = found.zeros(words).astype(np.float32)
    squares = np.square(rows).mean(axis=1, keepdims=True)
    rows /= np.sqrt(np.where(squares == 0, 1, squares))
    return Vectors(strings=strings, keys=words, data=rows, name="gensim")


def measure(found: models.Vectors | None, task: labelled.Task, size: int | None, seed: int) -> Row:
    pipeline = WITHOUT if found is None else WITH
    vectors = None if found is None else in_spacy(found, task)
    nlp = pipelines.build(spacy_rows.TASKS[task.name], pipeline, vectors)
    return spacy_rows.measure(task, size, seed, nlp, pipelines.documents(nlp, task, pipeline))


def protocol(options: Any) -> dict[str, Any]:
    return {
        **spacy_rows.PROTOCOL,
        "layers": "width 96; MultiHashEmbed NORM, PREFIX, SUFFIX, SHAPE rows 5000, 1000, 2500, 2500, "
        "include_static_vectors; MaxoutWindowEncoder of depth 4",
        "vectors": f"{models.WIDTH} columns, all of one length, {models.corpus(options.tokens).n_tokens} tokens of "
        "Wikipedia",
        "seeds": "of the vectors, the labelled sentences and the network",
    }


def rows(options: Any) -> Iterator[Row]:
    cells, text = kept.Cells("varembed-static"), models.corpus(options.tokens)
    for name, row in product(options.tasks, options.chosen([NONE, *ROWS])):
        task, found = labelled.load(name), []
        for seed in options.seeds:
            vectors = None if row == NONE else models.trained(row, seed, text)
            facts: Row = {"cpu seconds": None, "settings": {}, "model": None}
            facts = facts if vectors is None else vectors.facts()
            figures = {}
            for size in options.sizes:
                key = kept.cell_key(task=name, row=row, size=size, seed=seed, model=facts["model"])
                n = None if size == "all" else int(size)
                cell = cells.measure(key, lambda: measure(vectors, task, n, seed))  # noqa: B023
                figures |= {f"{part} {size}": cell[part] for part in ("dev", "test")}
            found.append({**figures, **facts})
        yield {"task": name, "row": row, "key": f"{name} {row}", **models.combined(found)}


if __name__ == "__main__":
    main(
        __doc__,
        Table("varembed-static", protocol, rows, key="key", seeds=lambda options: options.seeds),
        tokens=0.0,
        tasks=["ewt-upos"],
        sizes=["250"],
        seeds=[0, 1, 2],
    )
