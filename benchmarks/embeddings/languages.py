"""Stock spaCy taggers of other languages than English, on little labelled text.

    python -m benchmarks.embeddings.languages [--tasks german] [--seeds 0 1 2]
    python -m benchmarks.embeddings.languages --tables embeddings-languages-1000       with 1,000 sentences, slower
    python -m benchmarks.embeddings.languages --tables embeddings-languages-speed      on a quiet machine

Universal tags of six languages. Vectors are fitted to raw text as `tacenda embed fit --model vectors --language xx`
fits them, and tokenized as spaCy tokenizes the language. Pipelines and training are those of `spacy_rows`. No setting
was chosen on a test part, which is looked at once, with the step that is best on the dev part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language as Pipeline
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.converters import conllu_to_docs

import tacenda
from benchmarks import kept, pictures
from benchmarks.embeddings import labelled, pipeline_speed, pipelines, spacy_rows, subwords
from benchmarks.reporting import Row, Table, main
from tacenda import Corpus
from tacenda.corpus.lines import numbered_lines
from tacenda.datasets import conllu
from tacenda.datasets.catalogue import data_root
from tacenda.errors import DataError
from tacenda_embeddings import LDS, SumEmbed

DEV = 250  # sentences, where a treebank has no dev part besides what is trained on


class Language(NamedTuple):
    """A language: its code for spaCy, and names of files of the data, without the folder and without the ending.

    Where no dev part is named, `DEV` sentences drawn from the first training part are it. Where no raw text is named,
    it is the one in the folder of the language.
    """

    code: str
    train: tuple[str, ...]
    test: str
    dev: str = ""
    raw: tuple[str, ...] = ()


FINNISH_TEXT = ("alastalon_salissa", "fi_ftb-ud-dev", "fi_ood-ud-test", "fi_pud-ud-test")
TURKISH_TEXT = ("tr_imst-ud-train", "tr_boun-ud-train")
LANGUAGES = {
    "german": Language("de", ("de_gsd-ud-dev", "de_pud-ud-test"), "de_gsd-ud-test"),
    "french": Language("fr", ("fr_sequoia-ud-train",), "fr_sequoia-ud-test", "fr_sequoia-ud-dev"),
    "slovenian": Language("sl", ("sl_ssj-ud-dev",), "sl_ssj-ud-test"),
    "polish": Language("pl", ("pl_lfg-ud-dev",), "pl_lfg-ud-test"),
    "finnish": Language("fi", ("fi_tdt-ud-dev",), "fi_tdt-ud-test", raw=FINNISH_TEXT),
    "turkish": Language(
        "tr", ("tr_imst-ud-train",), "tr_imst-ud-test", "tr_imst-ud-dev", TURKISH_TEXT
    ),
}
ROWS = {
    pipelines.DEFAULT: pipelines.ROWS[pipelines.DEFAULT],
    "hash + floret, CNN4": pipelines.ROWS["hash + floret, CNN4"],
    "hash + skip-gram, CNN4": pipelines.Row(subwords="skip-gram", depth=4),
    "hash + SumEmbed, CNN4": pipelines.ROWS["hash + SumEmbed, CNN4"],
    pipelines.RECOMMENDED: pipelines.ROWS[pipelines.RECOMMENDED],
}
PROTOCOL = {
    "measure": "UPOS accuracy in percent, test part",
    "tokens": f"{spacy_rows.PROTOCOL['tokens']}; words as the treebank splits them",
    "training": spacy_rows.PROTOCOL["training"],
    "settings": "those of the commands; SumEmbed's constants were chosen on German and French dev parts",
    "layers": "width 96; MultiHashEmbed NORM, PREFIX, SUFFIX, SHAPE rows 5000, 1000, 2500, 2500; LDS 200 states and "
    "SumEmbed 128 wide as `tacenda embed fit --model vectors --language` fits and rounds them; "
    f"{subwords.PROTOCOL}; skip-gram likewise, without vectors for words that occur less often",
    "sentences": "drawn by seed from the training part. Without one, from the dev part (German: and PUD) "
    f"less {DEV} drawn sentences, the dev part then",
    "raw text": "German, French, Slovenian, Polish: a hundred novels each; Finnish: a novel and the text of FTB dev, "
    "OOD, PUD; Turkish: the text of the training parts of IMST and BOUN",
}


def data_folder() -> Path:
    """Return the folder of the evaluation data. Raises DataError where TACENDA_DATA names none."""
    if (root := data_root()) is None:
        raise DataError("these treebanks are evaluation data: set TACENDA_DATA to their folder")
    return root


def find(file: str) -> Path:
    """Return the only file of the data that has this name before its ending."""
    [path] = data_folder().rglob(f"{file}.*")
    return path


def lines(name: str) -> Iterator[str]:
    """Yield the raw text of a language, a paragraph or sentence a line."""
    for path in map(find, LANGUAGES[name].raw):
        if ".conllu" in path.name:
            yield from (sentence.text for sentence in conllu.read(path))
        else:
            paragraphs = path.read_text(encoding="utf8").split("\n\n")
            yield from (" ".join(each.split()) for each in paragraphs)
    if not LANGUAGES[name].raw:
        path = data_folder() / "languages" / name / "raw.txt.xz"
        yield from (line for _, line in numbered_lines(path))


SPEED_ROWS = (pipelines.DEFAULT, pipelines.RECOMMENDED)
SPEED_PROTOCOL = {
    "measure": "words per second of a tagger over raw text, one thread, a pipeline just loaded: caches empty, kernels "
    "compiled; warm: the next pass over the same text",
    "text": "test part of the treebank, a sentence a document, in batches of 64",
    **{key: pipeline_speed.PROTOCOL[key] for key in ("linear algebra", "turns")},
    "raw text": PROTOCOL["raw text"],
}

Reader = Callable[[Path], list[labelled.Sentence]]


def converted(path: Path, column: int, change: Callable[[list[str]], str], **how: Any) -> list[Doc]:
    """Return the sentences of a CoNLL-U file as `spacy convert` makes them, with another value in one column."""
    rows = (line.split("\t") for _, line in numbered_lines(path))
    changed = ([*r[:column], change(r), *r[column + 1 :]] if len(r) > column else r for r in rows)
    return list(conllu_to_docs("\n".join(map("\t".join, changed)), n_sents=1, no_print=True, **how))


@cache
def load(name: str, read: Reader = labelled.universal) -> labelled.Task:
    """Return the labelled sentences of a language."""
    given = LANGUAGES[name]
    first, *others = (read(find(file)) for file in given.train)
    if given.dev:
        dev = read(find(given.dev))
    else:
        order = np.random.default_rng(labelled.SPLIT_SEED).permutation(len(first))
        first, dev = [first[i] for i in order[DEV:]], [first[i] for i in order[:DEV]]
    train = list(chain(first, *others))
    return labelled.Task(name, train, dev, read(find(given.test)))


@cache
def kept_models(name: str) -> tuple[Path, Row]:
    """Return a folder with LDS and SumEmbed of a language, as the command saves them, and what they were fitted to."""

    def make(folder: Path) -> Row:
        corpus = Corpus.from_text(
            lines(name),
            tokenizer=f"spacy:{LANGUAGES[name].code}",
            max_vocabulary=40_000,
            digits=True,
            oov="learned",
        )
        LDS().fit(corpus).rounded("int8").save(folder / "lds")
        SumEmbed().fit(corpus).rounded("int8").save(folder / "vectors")
        return {"tokens": corpus.n_tokens}

    facts = {
        "language": LANGUAGES[name],
        "vectors": [m().settings.to_dict() for m in (LDS, SumEmbed)],
    }
    folder, figures = kept.folder(f"vectors-{name}", facts, make)
    return folder, {"tokens": figures["tokens"]}


@cache
def fitted(name: str) -> tuple[LDS, SumEmbed]:
    """Return LDS and SumEmbed of a language."""
    folder = kept_models(name)[0]
    return tacenda.load(folder / "lds"), tacenda.load(folder / "vectors")


def made(name: str, row: pipelines.Row) -> tuple[Pipeline, dict[str, list[Doc]]]:
    """Return the untrained pipeline of a row, and the documents of each part with all that it reads."""
    task = load(name)
    vectors: Any = None
    if row.words:
        vectors = fitted(name)[1]
    elif row.subwords:
        text = subwords.RawText(name, lambda: lines(name), f"spacy:{LANGUAGES[name].code}")
        vectors = subwords.vectors(row.subwords, pipelines.words_of([task]), text)
    nlp = pipelines.build("tagger", row, vectors, LANGUAGES[name].code)
    return nlp, pipelines.documents(nlp, task, row, fitted(name)[0] if row.output else None)


@cache
def inputs(name: str, row: pipelines.Row) -> str | None:
    """Return a digest of the vectors that a row reads; None for layers of ours, whose code is what counts."""
    if row.output:
        return None
    return pipelines.digest(made(name, row)[0], row, [load(name)])


def measure(name: str, row: pipelines.Row, size: int | None, seed: int) -> Row:
    nlp, docs = made(name, row)
    return spacy_rows.measure(load(name), size, seed, nlp, docs)


def rows(size: str, options: Any) -> Iterator[Row]:
    options.sizes = [size]
    for row in spacy_rows.rows_of(options, "languages", ROWS, measure, inputs):
        runs = [str(value["n"]) for key, value in row.items() if key.startswith("test ")]
        fitted_to = kept_models(row["task"])[1] if ROWS[row["row"]].words else {}
        yield {**row, "runs": " / ".join(dict.fromkeys(runs)), **fitted_to}


def saved(name: str, what: str, folder: Path) -> None:
    """Save an untrained tagger with the layers of a row, as fast as a trained one."""
    row = ROWS[what]
    vectors = fitted(name)[1] if row.words else None
    models = kept_models(name)[0] / "lds"
    nlp = pipelines.configured(["tagger"], row, vectors, models, LANGUAGES[name].code)
    sentences = load(name).train[:250]
    docs = [Doc(nlp.vocab, words=each.words, tags=each.tags) for each in sentences]
    nlp.initialize(lambda: [Example(Doc(nlp.vocab, words=[t.text for t in d]), d) for d in docs])
    nlp.to_disk(folder)


def speeds(options: Any) -> Iterator[Row]:
    for name in options.tasks:
        text = pipeline_speed.Text("sentences", conllu.read(find(LANGUAGES[name].test)))
        found: dict[tuple[str, str], list[float]] = {}
        with TemporaryDirectory() as folder:
            for turn, what in product(range(-1, options.repeats), SPEED_ROWS):
                place = Path(folder) / what
                if turn < 0:
                    saved(name, what, place)
                nlp = pipeline_speed.loaded(place, what)
                for state in ("first", "warm"):
                    speed = pipeline_speed.words_per_second(nlp, text, "raw text", 64)
                    if turn >= 0:  # kernels are compiled by now
                        found.setdefault((what, state), []).append(speed)
        for (what, state), own in found.items():
            peers = {"times default": found[pipelines.DEFAULT, state]}
            about = {"what": f"{name}, {what}, {state}", "task": name, "row": what, "pass": state}
            yield {**about, **pipeline_speed.compare(own, peers)}


#: How a row is drawn: its label, its color, and its marker.
DOTS = {
    pipelines.DEFAULT: ("spaCy's default", "#0369a1", "s"),
    "hash + floret, CNN4": ("floret", "#94a3b8", "v"),
    "hash + skip-gram, CNN4": ("skip-gram", "#475569", "^"),
    "hash + SumEmbed, CNN4": ("SumEmbed", "#f59e0b", "D"),
    pipelines.RECOMMENDED: ("recommended", "#c2410c", "o"),
}


def picture(rows: list[Row]) -> None:
    """Draw tag accuracy with 250 sentences, a line for each language."""
    names = list(dict.fromkeys(row["task"] for row in rows))
    with pictures.picture("embeddings-languages", (6.4, 3.4)) as [[axes]]:
        axes.hlines(range(len(names)), 70, 97, color="#e2e8f0", lw=1, zorder=0)
        for what, (label, color, marker) in DOTS.items():
            means = {row["task"]: row["test 250"]["mean"] for row in rows if row["row"] == what}
            places = [names.index(task) for task in means]
            axes.plot(means.values(), places, marker, ms=8, color=color, label=label)
        axes.set_yticks(range(len(names)), [name.capitalize() for name in names], fontsize=12)
        axes.invert_yaxis()
        axes.set_xlabel("tag accuracy, %, with 250 labeled sentences", fontsize=12)
        axes.tick_params(axis="x", labelsize=11)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        spacing = {"handletextpad": 0.1, "columnspacing": 1}
        where = {"loc": "outside upper center", "ncols": 5}
        axes.figure.legend(fontsize=10, frameon=False, **where, **spacing)


if __name__ == "__main__":
    name = "embeddings-languages"
    tables = (
        Table(name, PROTOCOL, partial(rows, "250"), "what", after=picture),
        Table(f"{name}-1000", PROTOCOL, partial(rows, "1000"), "what"),
        Table(f"{name}-speed", SPEED_PROTOCOL, speeds, "what", options=("repeats",)),
    )
    main(__doc__, *tables, tasks=tuple(LANGUAGES), seeds=spacy_rows.SEEDS, repeats=5)
