"""Words per second of whole pipelines and lone taggers, in every shape that text comes in, one thread.

    python -m benchmarks.embeddings.pipeline_speed [--repeats 3] [--pipelines tagger whole] [--only PART ...]

For a quiet machine. Text is from EWT dev: sentences, and long documents of a thousand words; gold tokens, or raw
text that the pipeline tokenizes; in batches of 64 and of 1,000 documents. "first" is the first pass of a pipeline just
loaded from disk, whose caches are empty (kernels are compiled, weights are read); "warm" is the next pass over the
same text. Every pipeline is trained briefly and saved; in every turn each is loaded again, and they take turns;
medians, and the slowest and the fastest turn. All layers of all rows multiply with numpy's BLAS, but for
spaCy's default as it is installed, which multiplies with BLIS.
``--sentences`` takes fewer of the text, for a trial.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from thinc.api import Adam

from benchmarks import kept, reporting
from benchmarks.embeddings import labelled, pipelines
from benchmarks.reporting import Row, Table, main
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


def row_of(name: str) -> pipelines.Row:
    """Return the layers of a row; as installed they are the default ones."""
    return pipelines.ROWS[pipelines.DEFAULT if name == AS_INSTALLED else name]


def saved(kind: str, row: pipelines.Row) -> Path:
    """Return the folder of a trained pipeline."""
    facts = [HEADS[kind], repr(row), EPOCHS]
    make = lambda folder: trained(kind, row).to_disk(folder / "pipeline")  # noqa: E731
    return kept.folder(f"pipeline-{kind}", facts, make)[0] / "pipeline"


def trained(kind: str, row: pipelines.Row) -> spacy.Language:
    """Return a pipeline that has learned from 250 sentences with tags and trees, and 250 with entities."""
    spacy.util.fix_random_seed(0)
    tasks = [labelled.load("ewt-upos"), labelled.load("wnut17")]
    nlp = pipelines.configured(HEADS[kind], row, pipelines.word_vectors(tasks, row))
    examples = trees(nlp, islice(treebank("train"), 250)) + entities(nlp, tasks[1].train[:250])
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


def trees(nlp: spacy.Language, sentences: Iterable[conllu.Sentence]) -> list[Example]:
    """Return sentences with tags and trees."""
    found = []
    for sentence in sentences:
        words, tags = list(sentence.words), list(sentence.xpos)
        heads = [i if head == 0 else head - 1 for i, head in enumerate(sentence.heads)]
        own = {"words": words, "tags": tags, "heads": heads, "deps": list(sentence.relations)}
        found.append(Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, **own)))
    return found


def entities(nlp: spacy.Language, sentences: list[labelled.Sentence]) -> list[Example]:
    """Return sentences with entities."""
    return [
        Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words, ents=tags))
        for words, tags in sentences
    ]


# -- text ----------------------------------------------------------------------------------------------


def treebank(part: str) -> Iterator[conllu.Sentence]:
    yield from conllu.read(datasets.locate("ud-english-ewt")[part])


class Text:
    """Documents as words, and as what stood in the text."""

    def __init__(self, kind: str, sentences: Iterable[conllu.Sentence]) -> None:
        self.words: list[list[str]] = [[]]
        self.raw: list[str] = [""]
        for sentence in sentences:
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


def measure(options: Any, kind: str) -> list[Row]:
    folders = {name: saved(kind, row_of(name)) for name in options.chosen(ROWS)}
    texts = {name: Text(name, islice(treebank("dev"), options.sentences)) for name in TEXTS}
    shapes = list(product(TEXTS, INPUTS, BATCHES))
    found: dict[tuple[Any, ...], list[float]] = {}
    for turn, shape, (name, folder) in product(range(options.repeats), shapes, folders.items()):
        nlp = loaded(folder, name)
        if turn == 0:
            words_per_second(loaded(folder, name), texts["sentences"], "raw text", 64)
        for state in ("first", "warm"):
            text, given, batch_size = shape
            speed = words_per_second(nlp, texts[text], given, batch_size)
            found.setdefault((name, *shape, state), []).append(speed)
            print(f"{kind}, {name}, {shape}, {state}, turn {turn}: {speed:.0f} words/s", flush=True)
    cases = product(shapes, ("first", "warm"), folders)
    return [summarized(kind, name, (*shape, state), found) for shape, state, name in cases]


def summarized(
    kind: str, name: str, shape: tuple[Any, ...], found: dict[tuple[Any, ...], list[float]]
) -> Row:
    own, (text, given, batch_size, state) = found[(name, *shape)], shape
    about = {"text": text, "input": given, "batch": batch_size, "pass": state}
    peers = {
        f"times {label}": found.get((peer, *shape))
        for label, peer in (("default", pipelines.DEFAULT), ("as installed", AS_INSTALLED))
    }
    return {"pipeline": kind, **about, "row": name, **compare(own, peers)}


def compare(own: list[float], peers: dict[str, list[float] | None]) -> Row:
    """Return columns of words per second, and of the ratios to each peer in the same turn."""
    row = {key: round(value) for key, value in reporting.timing(own, "words/s").items()}
    del row["runs"]
    ratios = {label: reporting.ratio(own, each) for label, each in peers.items() if each}
    return row | {label: round(each["median"], 3) for label, each in ratios.items()}


def by_shape(rows: list[Row], label: str, text: str) -> list[Row]:
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


def rows(options: Any) -> Iterator[Row]:
    found = [row for kind in options.pipelines for row in measure(options, kind)]
    yield from found
    yield from by_shape(found, "times default", "all shapes")
    yield from by_shape(found, "times as installed", "all shapes, as installed")


if __name__ == "__main__":
    table = Table("embeddings-pipeline-speed", PROTOCOL, rows, options=("repeats",))
    main(__doc__, table, repeats=3, pipelines=tuple(HEADS), sentences=10**9)
