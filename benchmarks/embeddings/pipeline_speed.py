"""Words per second of whole pipelines and lone taggers, in every shape that text comes in, one thread.

    python -m benchmarks.embeddings.pipeline_speed [--repeats 5] [--pipelines tagger whole] [--only PART ...]

For a quiet machine. Text is that of EWT dev: sentences, and long documents of a thousand words; gold tokens, or raw
text that the pipeline tokenizes; in batches of 64 and of 1,000 documents. "first" is the first pass of a pipeline just
loaded from disk, whose caches are empty (kernels are compiled, weights are read); "warm" is the next pass over the
same text. Every pipeline is trained briefly and saved; in every turn each is loaded anew, and they take turns; medians,
and the slowest and the fastest turn. All layers of all rows multiply with numpy's BLAS, but for spaCy's default as it
is installed, which multiplies with BLIS.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from thinc.api import Adam

from benchmarks import freshness, reporting
from benchmarks.embeddings import common, labelled, models, pipelines
from tacenda import datasets
from tacenda.datasets import conllu

AS_INSTALLED = f"{pipelines.DEFAULT} as installed"
ROWS = (
    pipelines.DEFAULT,
    AS_INSTALLED,
    "hash + word2vec, CNN4",
    "hash + SumEmbed, CNN4",
    "hash + LDS own_context, no CNN",
    "hash + LDS own_past_future, no CNN",
    "hash + SumEmbed + LDS, no CNN",
    "hash + SumEmbed + LDS own_past_future, CNN1",
    pipelines.RECOMMENDED,
)
HEADS = {"tagger": ("tagger",), "whole": ("tagger", "parser", "ner")}
LONG = 1000  # words of a long document
EPOCHS = 10
TEXTS, INPUTS, BATCHES = ("sentences", "long documents"), ("gold tokens", "raw text"), (64, 1000)
PROTOCOL = {
    "measure": "words per second of nlp.pipe, one thread; a component that computes LDS vectors is included",
    "text": f"EWT dev, 25,147 words: its 2,001 sentences, or documents of {LONG:,} words",
    "raw text": "tokenized by the pipeline, with the words counted that the treebank has; gold tokens: each Doc "
    "made before the clock starts",
    "first": "first pass of a pipeline just loaded from disk, its caches empty; kernels compiled before",
    "warm": "the next pass over the same text",
    "pipelines": "tagger: one component with layers of its own; whole: tagger, parser and ner on one tok2vec",
    "training": f"250 sentences of EWT and of WNUT-17, {EPOCHS} epochs: for speed alone, but an untrained parser would "
    "take other steps",
    "linear algebra": "all layers of all rows multiply with numpy's BLAS (tacenda.numpy_blas.v1), but for spaCy's "
    "default as installed, which multiplies with BLIS",
    "turns": "pipelines take turns; medians",
    "times default, times as installed": "median of the ratios of the same turn",
}


# -- pipelines -----------------------------------------------------------------------------------------


def saved(options: argparse.Namespace, kind: str, name: str) -> Path:
    """The folder of a pipeline, trained unless this code has done so before."""
    row = pipelines.ROWS[pipelines.DEFAULT if name == AS_INSTALLED else name]
    made_by = f"{models.code()}-{freshness.code('embeddings/spacy')}-{EPOCHS}"
    layers = hashlib.sha256(repr(row).encode()).hexdigest()[:8]
    tokens = f"-{options.words_tokens:g}" if row.words else ""
    folder = options.cache / "pipelines" / f"{kind}-{layers}{tokens}-{made_by}"
    if not folder.exists():
        scratch = folder.with_name(folder.name + ".tmp")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.parent.mkdir(parents=True, exist_ok=True)
        trained(options, kind, row).to_disk(scratch)
        scratch.rename(folder)
    return folder


def trained(options: argparse.Namespace, kind: str, row: pipelines.Row) -> spacy.Language:
    spacy.util.fix_random_seed(0)
    nlp = pipelines.configured(HEADS[kind], row, options.cache, vectors_of(options, row))
    examples = list(gold(nlp))
    optimizer = nlp.initialize(lambda: examples, sgd=Adam(0.001))
    annotates = ["lds_embeddings"] if row.output else []
    for _ in range(EPOCHS):
        for batch in minibatch_by_words(examples, size=500):
            nlp.update(batch, sgd=optimizer, drop=0.1, annotates=annotates)
    return nlp


def loaded(folder: Path, name: str) -> spacy.Language:
    """A pipeline as a user loads it; its configuration says what it multiplies with."""
    multiplies = {"after_pipeline_creation": None} if name == AS_INSTALLED else {}
    return spacy.load(folder, config={"nlp": multiplies})


def vectors_of(options: argparse.Namespace, row: pipelines.Row) -> Any:
    if row.words:
        return pipelines.words(options.cache, options.words_tokens).model
    tasks = [labelled.load("ewt-upos"), labelled.load("wnut17")]
    return pipelines.word_vectors(options.cache, tasks, row)


def gold(nlp: spacy.Language) -> Iterator[Example]:
    """250 sentences with tags and trees, and 250 with entities."""
    for sentence in islice(treebank("train"), 250):
        heads = [i if head == 0 else head - 1 for i, head in enumerate(sentence.heads)]
        reference = Doc(
            nlp.vocab,
            words=list(sentence.words),
            tags=list(sentence.xpos),
            heads=heads,
            deps=list(sentence.relations),
        )
        yield Example(_bare(nlp, reference), reference)
    for sentence in labelled.load("wnut17").train[:250]:
        reference = Doc(nlp.vocab, words=sentence.words, ents=sentence.tags)
        yield Example(_bare(nlp, reference), reference)


def _bare(nlp: spacy.Language, reference: Doc) -> Doc:
    return Doc(nlp.vocab, words=[token.text for token in reference])


# -- text ----------------------------------------------------------------------------------------------


def treebank(part: str) -> Iterator[conllu.Sentence]:
    yield from conllu.read(datasets.locate("ud-english-ewt")[part])


class Text:
    """Documents as words, and as what stood in the text."""

    def __init__(self, kind: str, n_sentences: int) -> None:
        self.words: list[list[str]] = [[]]
        self.raw: list[str] = [""]
        for sentence in islice(treebank("dev"), n_sentences):
            if self.words[-1] and (kind == "sentences" or len(self.words[-1]) >= LONG):
                self.words.append([])
                self.raw.append("")
            self.words[-1].extend(sentence.words)
            self.raw[-1] += sentence.text + " "
        self.n_words = sum(map(len, self.words))

    def given(self, nlp: spacy.Language, kind: str) -> list[Any]:
        """What goes into ``nlp.pipe``."""
        return self.raw if kind == "raw text" else [Doc(nlp.vocab, words=w) for w in self.words]


# -- measuring -----------------------------------------------------------------------------------------


def words_per_second(nlp: spacy.Language, text: Text, kind: str, batch_size: int) -> float:
    documents = text.given(nlp, kind)
    gc.collect()
    start = time.perf_counter()
    for _ in nlp.pipe(documents, batch_size=batch_size):
        pass
    return text.n_words / (time.perf_counter() - start)


def measure(options: argparse.Namespace, kind: str) -> list[dict[str, Any]]:
    log = common.logger("pipeline_speed", options.cache)
    folders = {name: saved(options, kind, name) for name in common.chosen(ROWS, options.only)}
    texts = {name: Text(name, options.sentences) for name in TEXTS}
    shapes = list(product(TEXTS, INPUTS, BATCHES))
    found: dict[tuple[Any, ...], list[float]] = {}
    for turn in range(options.repeats):
        for shape in shapes:
            for name, folder in folders.items():
                nlp = loaded(folder, name)
                if turn == 0:
                    words_per_second(loaded(folder, name), texts["sentences"], "raw text", 64)
                for state in ("first", "warm"):
                    text, given, batch_size = shape
                    speed = words_per_second(nlp, texts[text], given, batch_size)
                    found.setdefault((name, *shape, state), []).append(speed)
                    said = f"{text}, {given}, {batch_size}, {state}"
                    log.info("%s, %s, %s, turn %d: %.0f words/s", kind, name, said, turn, speed)
    return [
        summarized(kind, name, (*shape, state), found)
        for shape in shapes
        for state in ("first", "warm")
        for name in folders
    ]


def summarized(
    kind: str, name: str, shape: tuple[Any, ...], found: dict[tuple[Any, ...], list[float]]
) -> dict[str, Any]:
    own = found[(name, *shape)]
    text, given, batch_size, state = shape
    spread = reporting.summary(own)
    row = {
        "pipeline": kind,
        "text": text,
        "input": given,
        "batch": batch_size,
        "pass": state,
        "row": name,
        "words/s": round(spread["median"]),
        "least": round(spread["min"]),
        "most": round(spread["max"]),
    }
    for label, peer in (("default", pipelines.DEFAULT), ("as installed", AS_INSTALLED)):
        if theirs := found.get((peer, *shape)):
            ratios = reporting.summary([a / b for a, b in zip(own, theirs, strict=True)])
            row[f"times {label}"] = round(ratios["median"], 3)
    return row


def by_shape(rows: list[dict[str, Any]], label: str, text: str) -> list[dict[str, Any]]:
    """For each pipeline and row its ratio to a peer in every shape, the smallest and the largest."""
    found = []
    for kind, name in dict.fromkeys((row["pipeline"], row["row"]) for row in rows):
        own = [row for row in rows if (row["pipeline"], row["row"]) == (kind, name)]
        ratios = {
            f"{row['text']} {row['input'].split()[0]} {row['batch']} {row['pass']}": row[label]
            for row in own
            if label in row
        }
        if ratios:
            of_all = {"pipeline": kind, "text": text, "row": name, **ratios}
            found.append(
                {**of_all, "least times": min(ratios.values()), "most times": max(ratios.values())}
            )
    return found


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pipelines", nargs="*", default=list(HEADS), choices=list(HEADS))
    parser.add_argument(
        "--words-tokens", type=float, default=0, help="million tokens under SumEmbed; 0: all"
    )
    parser.add_argument("--sentences", type=int, default=10**9, help="of the text, for a trial")
    options = parser.parse_args()
    rows = [row for kind in options.pipelines for row in measure(options, kind)]
    rows += [
        *by_shape(rows, "times default", "all shapes"),
        *by_shape(rows, "times as installed", "all shapes, as installed"),
    ]
    threads = {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS")}
    protocol = {**PROTOCOL, "repeats": options.repeats, "threads": threads}
    reporting.save("embeddings-pipeline-speed", protocol, rows, seeds=[0], dry=options.no_save)


if __name__ == "__main__":
    main()
