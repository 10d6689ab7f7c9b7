"""The word vectors that are compared, all trained on the same text and kept in the cache.

The text is the beginning of English Wikipedia's good and featured articles, `--tokens` million tokens of it (0:
all 26), in lower case, numbers as NUM, with the 50,000 most frequent types, as in the paper (section 3.1).

A model is found again under a name made of all its settings, its text and the code that fits it: what has changed
is trained anew. An interrupted training of ours goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import tacenda
import tacenda_embeddings
from benchmarks import freshness, parts
from benchmarks.embeddings import common, text
from tacenda import Corpus
from tacenda.vocabulary import Vocabulary

MAX_VOCABULARY = 50_000
WIDTH = 128
PEER_EPOCHS = 5  # gensim's default


@dataclass(frozen=True)
class Row:
    """A row of a table: a class of ours or of gensim, and what differs from its defaults."""

    kind: str
    settings: dict[str, Any] = field(default_factory=dict)
    #: Of gensim: trained for as many epochs as take the CPU time of our row of this name.
    as_long_as: str | None = None

    @property
    def ours(self) -> bool:
        return self.kind in ("VarEmbed", "SumEmbed")


def _ours(kind: str, /, **settings: Any) -> Row:
    return Row(kind, {"epochs": 1, **settings})


def _variants(name: str, **settings: Any) -> dict[str, Row]:
    """VarEmbed with and without its base and its last regression."""
    return {
        f"{name}{label}": _ours("VarEmbed", **settings, **({"advanced": off} if off else {}))
        for label, off in (
            ("", {}),
            (", no refit", {"refit_morphemes": False}),
            (", no base", {"base": False}),
            (", no base, no refit", {"base": False, "refit_morphemes": False}),
        )
    }


_UNSHRUNK = {"start_shrinkage": 0.0}

#: The paper's models, its baselines, with and without what is ours, and what the figures must be seen beside.
ROWS: dict[str, Row] = {
    "word2vec CBOW": Row("Word2Vec"),
    "word2vec skip-gram": Row("Word2Vec", {"sg": 1}),
    "FastText skip-gram": Row("FastText", {"sg": 1}),
    "word2vec CBOW, CPU time of VarEmbed": Row("Word2Vec", as_long_as="VarEmbed"),
    "word2vec skip-gram, CPU time of VarEmbed": Row("Word2Vec", {"sg": 1}, as_long_as="VarEmbed"),
    "FastText skip-gram, CPU time of VarEmbed": Row("FastText", {"sg": 1}, as_long_as="VarEmbed"),
    "SumEmbed": _ours("SumEmbed"),
    "SumEmbed, base": _ours("SumEmbed", advanced={"base": True}),
    **_variants("VarEmbed"),
    **_variants("VarEmbed, n-grams", segmenter="ngrams"),
}

#: What else was taken away or added, on the small text alone.
ABLATIONS: dict[str, Row] = {
    "VarEmbed, 3 epochs": _ours("VarEmbed", epochs=3),
    "SumEmbed, 3 epochs": _ours("SumEmbed", epochs=3),
    "VarEmbed, start only": _ours("VarEmbed", epochs=0),
    "VarEmbed, KL per token": _ours("VarEmbed", advanced={"kl": "tokens"}),
    "VarEmbed, no shrinkage": _ours("VarEmbed", advanced=_UNSHRUNK),
    "VarEmbed, window alone": _ours("VarEmbed", advanced={"start_adjacent": 0.0}),
    "SumEmbed, word2vec start": _ours("SumEmbed", start="word2vec", advanced=_UNSHRUNK),
    "VarEmbed, word2vec start": _ours("VarEmbed", start="word2vec", advanced=_UNSHRUNK),
    "VarEmbed, random start": _ours("VarEmbed", start="random", advanced=_UNSHRUNK),
}


@dataclass
class Vectors:
    """What a row of a benchmark looks words up in; `make` gives (words, width), NaN where it has nothing."""

    vocabulary: Vocabulary
    make: Callable[[Sequence[str]], np.ndarray]
    settings: dict[str, Any]  # all of them, but for the seed
    seconds: float | None  # of CPU; None for a fit that took over another one's training
    key: str  # of the model in the cache
    model: Any = None  # of ours, the model itself
    fixed: float = 0.0  # of gensim, CPU seconds that more epochs do not change

    def zeros(self, words: Sequence[str]) -> np.ndarray:
        """The same with zeros for what it does not know."""
        return np.nan_to_num(self.make(words))

    def facts(self) -> dict[str, Any]:
        """What a cell says of the model it was measured with."""
        return {"cpu seconds": self.seconds, "settings": self.settings, "model": self.key}


# -- the command line and the text ---------------------------------------------------------------------


def arguments(description: str | None, seeds: str = "0-2") -> common.Parser:
    parser = common.arguments(description, seeds)
    parser.add_argument("--tokens", type=float, default=0, help="millions of tokens; 0 is all")
    parser.add_argument("--rows", nargs="*", default=[], help="rows of exactly these names")
    parser.add_argument("--no-fit", action="store_true", help="leave out what is not trained yet")
    return parser


def chosen(rows: Iterable[str], options: argparse.Namespace) -> list[str]:
    """The rows that `--rows` and `--only` ask for; all if neither is given."""
    rows = list(rows)
    unknown = sorted(set(options.rows) - set(rows))
    if unknown:
        raise SystemExit(f"No row is called {unknown[0]!r}: the rows are {', '.join(rows)}.")
    wanted = [row for row in rows if not options.rows or row in options.rows]
    return common.chosen(wanted, options.only)


def results_name(name: str, options: argparse.Namespace) -> str:
    """`name`, and the millions of tokens where it is not the whole text."""
    return f"{name}-{options.tokens:g}" if options.tokens else name


def combined(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row of a table, from the cells of its seeds."""
    facts = ("cpu seconds", "settings", "model")
    figures = [key for key, value in cells[0].items() if key not in facts and value is not None]
    seconds = [cell["cpu seconds"] for cell in cells if cell["cpu seconds"] is not None]
    settings = cells[0]["settings"]
    return {
        "seeds": len(cells),
        "epochs": settings.get("epochs"),
        "cpu seconds": common.spread(seconds) if seconds else None,
        **{key: common.spread([cell[key] for cell in cells]) for key in figures},
        "settings": settings,
        "models": [cell["model"] for cell in cells],
    }


def corpus(options: argparse.Namespace, max_vocabulary: int = MAX_VOCABULARY) -> Corpus:
    name = f"varembed-{options.tokens:g}-{max_vocabulary}"
    folder = options.cache / f"corpus-{name}"
    if folder.exists():
        return Corpus.open(folder)
    return Corpus.from_text(
        text.beginning(options.tokens),
        tokenizer="words",
        max_vocabulary=max_vocabulary,
        digits=True,
        lowercase=True,
        cache=folder,
        cache_key=name,
    )


# -- models by row and seed ----------------------------------------------------------------------------


def trained(
    row: str, seed: int, options: argparse.Namespace, found: Corpus, *, fit: bool | None = None
) -> Vectors | None:
    """The model of a row, from the cache or, unless ``--no-fit`` or ``fit`` says otherwise, trained now.

    None if it is not to be had, or is a row of gensim that would be the same as the one of its default epochs,
    because these take our CPU time already.
    """
    fit = not options.no_fit if fit is None else fit
    wanted = {**ROWS, **ABLATIONS}[row]
    where = options.cache / "varembed"
    if wanted.as_long_as is not None:
        epochs = _epochs_as_long_as(wanted, options, found, fit)
        if epochs is None or epochs <= PEER_EPOCHS:
            return None
        wanted = Row(wanted.kind, {**wanted.settings, "epochs": epochs})
    return fitted(wanted, seed, where, found, fit=fit)


def _epochs_as_long_as(
    row: Row, options: argparse.Namespace, found: Corpus, fit: bool
) -> int | None:
    """The epochs in which gensim uses the CPU seconds of ours, both of seed 0."""
    assert row.as_long_as is not None
    where = options.cache / "varembed"
    ours = fitted(ROWS[row.as_long_as], 0, where, found, fit=fit)
    theirs = fitted(Row(row.kind, row.settings), 0, where, found, fit=fit)
    if ours is None or theirs is None or ours.seconds is None or theirs.seconds is None:
        return None
    an_epoch = (theirs.seconds - theirs.fixed) / PEER_EPOCHS
    return round((ours.seconds - theirs.fixed) / an_epoch)


def fitted(row: Row, seed: int, where: Path, found: Corpus, *, fit: bool = True) -> Vectors | None:
    """The model of these settings in the cache; one that is not there is trained if ``fit``."""
    settings = _all_settings(row)
    ours = [*map(freshness.code, parts.VAREMBED), version("torch")]
    made_by = ours if row.ours else [version("gensim"), "corpus_file"]
    shared = {**settings, "seed": seed, "text": [found.vocabulary.fingerprint, found.n_tokens]}
    key = _key(row.kind, shared, made_by)
    if not (where / key).exists():
        if not fit:
            return None
        where.mkdir(parents=True, exist_ok=True)
        if row.ours:
            _train_ours(row, seed, where, key, _key(row.kind, _training(shared), made_by), found)
        else:
            _train_gensim(row, seed, where, key, found)
    return (
        _ours_from(where, key, settings, found)
        if row.ours
        else _gensim_from(where, key, settings, row.kind, found)
    )


def _all_settings(row: Row) -> dict[str, Any]:
    """Every option of a row, with the defaults, but for the seed."""
    if row.ours:
        settings = getattr(tacenda_embeddings, row.kind)(width=WIDTH, **row.settings).settings
        found = dict(settings.to_dict())
    else:
        import gensim.models

        signature = inspect.signature(getattr(gensim.models, row.kind))
        defaults = {name: option.default for name, option in signature.parameters.items()}
        found = {**defaults, "vector_size": WIDTH, "min_count": 1, "workers": 1, **row.settings}
        found = {name: value for name, value in found.items() if isinstance(value, int | float)}
    found.pop("seed")
    return found


def _training(settings: dict[str, Any]) -> dict[str, Any]:
    """What decides the training: the last regression follows it, so rows with and without share one."""
    advanced = {k: v for k, v in settings["advanced"].items() if k != "refit_morphemes"}
    return {**settings, "advanced": advanced}


def _key(kind: str, settings: dict[str, Any], made_by: list[str]) -> str:
    described = json.dumps([kind, settings, made_by], sort_keys=True)
    return f"{kind}-{hashlib.sha256(described.encode()).hexdigest()[:16]}"


# -- ours ----------------------------------------------------------------------------------------------


def _train_ours(row: Row, seed: int, where: Path, key: str, training: str, found: Corpus) -> None:
    clock = Clock(where / f"{training}-seconds.json")
    model = getattr(tacenda_embeddings, row.kind)(width=WIDTH, seed=seed, **row.settings)
    _compile()
    with clock:
        model.fit(found, checkpoints=where / f"{training}-checkpoint")
    model.fitted_on["cpu_seconds"] = clock.seconds
    model.save(where / key)


@cache
def _compile() -> None:
    """Import torch and compile what a fit compiles, which happens once and not once for every model."""
    tacenda_embeddings.VarEmbed(width=4, epochs=1).fit(Corpus.from_sentences([["a", "word"]] * 99))


def _ours_from(where: Path, key: str, settings: dict[str, Any], found: Corpus) -> Vectors:
    model: Any = tacenda.load(where / key)
    seconds = model.fitted_on["cpu_seconds"]
    return Vectors(found.vocabulary, model.vectors, settings, seconds, key, model)


class Clock:
    """CPU seconds of a training, those before an interruption included.

    Within ten seconds, that is: they are written to a file as they pass. ``seconds`` is None if the training
    had been finished before, by a row that shares it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        before = json.loads(path.read_text()) if path.exists() else {"seconds": 0.0}
        self._before, self._shared = before["seconds"], before.get("finished", False)
        self._stop = threading.Event()

    @property
    def seconds(self) -> float | None:
        return None if self._shared else round(self._passed, 1)

    def __enter__(self) -> None:
        self._start = time.process_time()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._write(finished=error[0] is None)

    @property
    def _passed(self) -> float:
        return self._before + time.process_time() - self._start

    def _watch(self) -> None:
        while not self._stop.wait(10):
            self._write(finished=False)

    def _write(self, finished: bool) -> None:
        if not self._shared:
            common.write_json(self.path, {"seconds": self._passed, "finished": finished})


# -- gensim --------------------------------------------------------------------------------------------


def _train_gensim(row: Row, seed: int, where: Path, key: str, found: Corpus) -> None:
    """From a file, which gensim reads fastest, in our words; one thread; other options are gensim's defaults."""
    import gensim.models

    lines = where / f"words-{found.vocabulary.fingerprint[:16]}-{found.n_tokens}.txt"
    if not lines.exists():
        temporary = lines.with_suffix(".tmp")
        with temporary.open("w", encoding="utf8") as stream:
            stream.writelines(" ".join(words) + "\n" for words in text.WordSentences(found))
        temporary.replace(lines)
    start = time.process_time()
    model = getattr(gensim.models, row.kind)(
        **{"vector_size": WIDTH, "min_count": 1, "workers": 1, **row.settings}, seed=seed + 1
    )
    model.build_vocab(corpus_file=str(lines))
    built = time.process_time()
    model.train(
        corpus_file=str(lines),
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=model.epochs,
    )
    seconds = {"cpu_seconds": time.process_time() - start, "fixed": built - start}
    unfinished = where / f".{key}-unfinished"
    unfinished.mkdir(exist_ok=True)
    model.wv.save(str(unfinished / "vectors"))
    common.write_json(unfinished / "seconds.json", seconds)
    unfinished.rename(where / key)


def _gensim_from(
    where: Path, key: str, settings: dict[str, Any], kind: str, found: Corpus
) -> Vectors:
    import gensim.models

    vectors = gensim.models.KeyedVectors.load(str(where / key / "vectors"))
    seconds = json.loads((where / key / "seconds.json").read_text())
    normalize = found.vocabulary.normalization

    def make(words: Sequence[str]) -> np.ndarray:
        rows = np.full((len(words), WIDTH), np.nan, np.float32)
        for i, word in enumerate(map(normalize, words)):
            if kind == "FastText" or word in vectors.key_to_index:
                rows[i] = vectors[word]
        return rows

    return Vectors(
        *(found.vocabulary, make, settings, round(seconds["cpu_seconds"], 1), key),
        fixed=seconds["fixed"],
    )
