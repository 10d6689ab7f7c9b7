"""Words per second of taggers on what a spaCy user could pick, first pass over raw text, one thread.

    python -m benchmarks.embeddings.peers_speed [--repeats 5] [--only ROW ...]

For a quiet machine. Text is EWT dev, a sentence a document, tokenized by spaCy on the clock. All take turns. Layers
that were pretrained or copied have the form of spaCy's default, and its speed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import numpy as np
import spacy

from benchmarks import pictures, reporting
from benchmarks.embeddings import peers, pipeline_speed, pipelines, transformer
from benchmarks.reporting import Row, Table, main

BATCH = 64
FROZEN = "MiniLM-L6, frozen"
#: Labels of the rows that the picture shows. Layers that were pretrained or copied are as fast as spaCy's default.
LABELS = {
    pipelines.DEFAULT: "spaCy's default",
    "spacy pretrain, as long as ours": "spacy pretrain",
    "hash + word2vec 200, CNN4": "word2vec",
    "hash + floret, CNN4": "floret",
    "hash + SumEmbed, CNN4": "SumEmbed",
    "hash + LDS own_context, CNN1": "LDS",
    pipelines.RECOMMENDED: "recommended",
    "en_core_web_sm": "en_core_web_sm (labeled text)",
    FROZEN: "MiniLM, frozen",
}
ROWS = {
    name: row
    for name, row in peers.ROWS.items()
    if name in LABELS and (isinstance(row, pipelines.Row) or name == FROZEN)
}
PROTOCOL = {
    "measure": "words per second of one tagger, raw text, a pipeline just loaded: caches empty, kernels compiled",
    "text": "EWT dev, 2,001 sentences, 25,147 words, in batches of 64",
    "MiniLM-L6": "spaCy's tokenizer, then pieces, seven layers and a linear classifier of 17 tags, sentences of like "
    "length together; torch on one thread",
    "linear algebra": pipeline_speed.PROTOCOL["linear algebra"],
    "turns": "rows take turns; medians",
}


def tag_by_transformer(sentences: list[str], weights: np.ndarray) -> None:
    """Do what a tagger on the frozen model does: tokenize, encode, take the best tag of each word."""
    tokenizer = spacy.blank("en").tokenizer
    words = [[token.text for token in tokenizer(sentence)] for sentence in sentences]
    for each in transformer.features(words):
        (each @ weights).argmax(1)


def rows(options: Any) -> Iterator[Row]:
    sentences = islice(pipeline_speed.treebank("dev"), options.sentences)
    text = pipeline_speed.Text("sentences", sentences)
    chosen = options.chosen(ROWS)
    weights = np.zeros((7 * 384, 17), np.float32)
    found: dict[str, list[float]] = {}
    for turn, name in product(range(options.repeats), chosen):
        if name == FROZEN:
            transformer.features([["warm", "up"]])
            gc.collect()
            start = time.perf_counter()
            tag_by_transformer(text.raw, weights)
            speed = text.n_words / (time.perf_counter() - start)
        else:
            load = lambda: pipeline_speed.loaded(folder, name)  # noqa: B023, E731
            folder = pipeline_speed.saved("tagger", ROWS[name])
            if turn == 0:
                pipeline_speed.words_per_second(load(), text, "raw text", BATCH)
            speed = pipeline_speed.words_per_second(load(), text, "raw text", BATCH)
        found.setdefault(name, []).append(speed)
        print(f"{name}, turn {turn}: {speed:.0f} words/s", flush=True)
    for name, own in found.items():
        yield {
            "row": name,
            **pipeline_speed.compare(own, {"times default": found.get(pipelines.DEFAULT)}),
        }


def picture(rows: list[Row]) -> None:
    """Draw accuracy with 250 labeled sentences over speed."""
    speeds = {row["row"]: row["words/s"] for row in rows}
    tagged = [
        row for row in reporting.stored("embeddings-peers")["rows"] if row["task"] == "ewt-upos"
    ]
    accuracies = {row["row"]: row["test 250"]["mean"] for row in tagged}
    with pictures.picture("embeddings-peers", (6.4, 3.6)) as [[axes]]:
        for name, label in LABELS.items():
            place = speeds.get(name, speeds[pipelines.DEFAULT]), accuracies[name]
            ours = "SumEmbed" in name or "LDS" in name
            axes.plot(*place, "o", ms=8, color="#c2410c" if ours else "#475569")
            # or labels would overlap
            left = name != FROZEN and place[0] < speeds[pipelines.DEFAULT]
            side, align = (-8, "right") if left else (8, "left")
            axes.annotate(
                label, place, xytext=(side, -4), textcoords="offset points", ha=align, fontsize=10
            )
        axes.set_xscale("log")
        axes.set_xlim(right=axes.get_xlim()[1] * 4)  # room for the labels
        axes.set_xlabel("words per second, one CPU thread, first pass over raw text", fontsize=11)
        axes.set_ylabel("tag accuracy, %", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    table = Table("embeddings-peers-speed", PROTOCOL, rows, options=("repeats",), after=picture)
    main(__doc__, table, repeats=5, sentences=10**9)
