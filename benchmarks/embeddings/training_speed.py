"""Words per second of training, as `spacy train` trains: whole pipelines and lone taggers, one thread.

    python -m benchmarks.embeddings.training_speed [--repeats 5] [--pipelines tagger whole]

For a quiet machine. The pipelines, and the sentences they train on, are those of `pipeline_speed`: batches of 500
words, the vectors of the LDS computed for each batch. In every turn each is made anew, and they take turns; the first
epoch of a pipeline is not counted.
"""

from __future__ import annotations

import gc
import os
import time
from typing import Any

import spacy
from spacy.training.batchers import minibatch_by_words
from thinc.api import Adam

from benchmarks import reporting
from benchmarks.embeddings import common, pipelines
from benchmarks.embeddings.pipeline_speed import AS_INSTALLED, HEADS, gold, vectors_of

ROWS = (
    pipelines.DEFAULT,
    AS_INSTALLED,
    "hash + LDS own_context, no CNN",
    pipelines.RECOMMENDED,
)
EPOCHS = 3  # beside the first
PROTOCOL = {
    "measure": "words per second of nlp.update, one thread; a component that computes LDS vectors is included",
    "pipelines": "tagger: one component with layers of its own; whole: tagger, parser and ner on one tok2vec",
    "text": f"250 sentences of EWT and of WNUT-17, batches of 500 words, {EPOCHS} epochs after a first one",
    "linear algebra": "all layers of all rows multiply with numpy's BLAS (tacenda.numpy_blas.v1), but for spaCy's "
    "default as installed, which multiplies with BLIS",
    "turns": "pipelines take turns; medians",
    "times as installed": "median of the ratios of the same turn",
}


def words_per_second(options: Any, kind: str, name: str) -> float:
    """Of one pipeline, made anew."""
    spacy.util.fix_random_seed(0)
    row = pipelines.ROWS[pipelines.DEFAULT if name == AS_INSTALLED else name]
    nlp = pipelines.configured(HEADS[kind], row, options.cache, vectors_of(options, row))
    if name == AS_INSTALLED:
        config = nlp.config.copy()
        config["nlp"]["after_pipeline_creation"] = None
        nlp = spacy.util.load_model_from_config(config)
    examples = list(gold(nlp))
    optimizer = nlp.initialize(lambda: examples, sgd=Adam(0.001))
    batches = list(minibatch_by_words(examples, size=500))
    annotates = ["lds_embeddings"] if row.output else []
    gc.collect()
    for epoch in range(EPOCHS + 1):
        if epoch == 1:
            start = time.perf_counter()
        for batch in batches:
            nlp.update(batch, sgd=optimizer, drop=0.1, annotates=annotates)
    n_words = sum(len(example.reference) for example in examples)
    return EPOCHS * n_words / (time.perf_counter() - start)


def measure(options: Any, kind: str) -> list[dict[str, Any]]:
    log = common.logger("training_speed", options.cache)
    names = common.chosen(ROWS, options.only)
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(options.repeats):
        for name in names:
            found[name].append(words_per_second(options, kind, name))
            log.info("%s, %s, turn %d: %.0f words/s", kind, name, turn, found[name][-1])
    rows = []
    for name, own in found.items():
        spread = reporting.summary(own)
        row = {"pipeline": kind, "row": name}
        row |= {
            label: round(spread[key])
            for label, key in (("words/s", "median"), ("least", "min"), ("most", "max"))
        }
        if theirs := found.get(AS_INSTALLED):
            ratios = reporting.summary([a / b for a, b in zip(own, theirs, strict=True)])
            row["times as installed"] = round(ratios["median"], 3)
        rows.append(row)
    return rows


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pipelines", nargs="*", default=list(HEADS), choices=list(HEADS))
    options = parser.parse_args()
    options.words_tokens = 0
    rows = [row for kind in options.pipelines for row in measure(options, kind)]
    threads = {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS")}
    protocol = {**PROTOCOL, "repeats": options.repeats, "threads": threads}
    reporting.save("embeddings-training-speed", protocol, rows, seeds=[0], dry=options.no_save)


if __name__ == "__main__":
    main()
