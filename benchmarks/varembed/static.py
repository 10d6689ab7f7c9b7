"""spaCy's own tagger and ner with the word vectors as `include_static_vectors`.

    python -m benchmarks.varembed.static [--tasks ewt-upos] [--sizes 250 1000]

The pipelines, the training and the subsets are those of `benchmarks.embeddings.spacy_rows`: hash embeddings and word
vectors, four convolution layers. The vectors are those of `models`, all of one length; a word that a model does not
know has zeros.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from spacy.strings import StringStore
from spacy.vectors import Vectors

from benchmarks import reporting
from benchmarks.embeddings import common, labelled, pipelines, spacy_rows
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


def measure(
    found: models.Vectors | None, task: labelled.Task, size: int | None, seed: int, cache: Path
) -> dict[str, Any]:
    pipeline = WITHOUT if found is None else WITH
    vectors = None if found is None else in_spacy(found, task)
    nlp = pipelines.build(spacy_rows.TASKS[task.name], pipeline, vectors)
    docs = {p: pipelines.documents(nlp, task, p, pipeline, cache) for p in PARTS}
    return spacy_rows.measure(task, size, seed, nlp, docs)


def main() -> None:
    parser = models.arguments(__doc__)
    parser.add_argument("--tasks", nargs="*", default=["ewt-upos"], choices=spacy_rows.TASKS)
    parser.add_argument("--sizes", nargs="*", type=spacy_rows.size_of, default=[250])
    options = parser.parse_args()
    log = common.logger("varembed", options.cache)
    cells = common.Cells(options.cache, f"varembed-static-{options.tokens:g}")
    text = models.corpus(options)
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name in options.tasks:
        task = labelled.load(name)
        for seed in options.seeds:
            for row in (NONE, *models.chosen(ROWS, options)):
                vectors = None if row == NONE else models.trained(row, seed, options, text)
                if vectors is None and row != NONE:
                    continue
                facts: dict[str, Any] = {"cpu seconds": None, "settings": {}, "model": None}
                facts = facts if vectors is None else vectors.facts()
                figures = {}
                for size in options.sizes:
                    key = spacy_rows.key_of(name, row, size, seed, facts["model"])
                    cell = cells.measure(
                        key,
                        lambda: measure(vectors, task, size, seed, options.cache),  # noqa: B023
                    )
                    log.info("%s: %.2f", key, cell["test"])
                    figures |= {f"{part} {size or 'all'}": cell[part] for part in ("dev", "test")}
                found.setdefault((name, row), []).append({**figures, **facts})
    rows = [
        {"task": task, "row": row, "key": f"{task} {row}", **models.combined(each)}
        for (task, row), each in found.items()
    ]
    protocol = {
        **spacy_rows.PROTOCOL,
        "layers": "width 96; MultiHashEmbed NORM, PREFIX, SUFFIX, SHAPE rows 5000, 1000, 2500, 2500, "
        "include_static_vectors; MaxoutWindowEncoder of depth 4",
        "vectors": f"{models.WIDTH} columns, all of one length, {text.n_tokens} tokens of Wikipedia",
        "seeds": "of the vectors, the labelled sentences and the network",
    }
    name = models.results_name("varembed-static", options)
    reporting.save(name, protocol, rows, seeds=options.seeds, keep="key", dry=options.no_save)


if __name__ == "__main__":
    main()
