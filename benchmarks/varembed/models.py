"""The word vectors that are compared, all trained on the same text and kept.

The text is the beginning of English Wikipedia's good and featured articles, `--tokens` million tokens of it (0:
all 26), in lower case, numbers as NUM, with the 50,000 most frequent types, as in the paper (section 3.1). An
interrupted training of ours goes on where it was.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tacenda
import tacenda_embeddings
from benchmarks import kept
from benchmarks.embeddings import text
from benchmarks.reporting import Row as Columns
from benchmarks.reporting import spread
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


def _varembed(**settings: Any) -> Row:
    return Row("VarEmbed", {"epochs": 1, **settings})


#: The paper's models, its baselines, with and without what is ours, and what the figures must be seen beside.
ROWS: dict[str, Row] = {
    "word2vec CBOW": Row("Word2Vec"),
    "word2vec skip-gram": Row("Word2Vec", {"sg": 1}),
    "FastText skip-gram": Row("FastText", {"sg": 1}),
    "word2vec CBOW, CPU time of VarEmbed": Row("Word2Vec", as_long_as="VarEmbed"),
    "word2vec skip-gram, CPU time of VarEmbed": Row("Word2Vec", {"sg": 1}, as_long_as="VarEmbed"),
    "VarEmbed": _varembed(),
    "VarEmbed, start only": _varembed(epochs=0),
    "VarEmbed, no refit": _varembed(advanced={"refit_morphemes": False}),
    "VarEmbed, no base": _varembed(advanced={"base": False}),
    "VarEmbed, no base, no refit": _varembed(advanced={"base": False, "refit_morphemes": False}),
    "VarEmbed, n-grams": _varembed(segmenter="ngrams"),
}


@dataclass
class Vectors:
    """What a row of a benchmark looks words up in; `make` gives (words, width), NaN where it has nothing."""

    vocabulary: Vocabulary
    make: Callable[[Sequence[str]], np.ndarray]
    settings: dict[str, Any]  # all of them, but for the seed
    seconds: float | None  # of CPU; None for a fit that took over another one's training
    key: str  # of the folder where it is kept
    model: Any = None  # of ours, the model itself
    fixed: float = 0.0  # of gensim, CPU seconds that more epochs do not change

    def zeros(self, words: Sequence[str]) -> np.ndarray:
        """The same with zeros for what it does not know."""
        return np.nan_to_num(self.make(words))

    def facts(self) -> dict[str, Any]:
        """What a cell says of the model it was measured with."""
        return {"cpu seconds": self.seconds, "settings": self.settings, "model": self.key}


def combined(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row of a table, from the cells of its seeds."""
    facts = ("cpu seconds", "settings", "model")
    figures = [key for key, value in cells[0].items() if key not in facts and value is not None]
    seconds = [cell["cpu seconds"] for cell in cells if cell["cpu seconds"] is not None]
    settings = cells[0]["settings"]
    return {
        "seeds": len(cells),
        "epochs": settings.get("epochs"),
        "cpu seconds": spread(seconds) if seconds else None,
        **{key: spread([cell[key] for cell in cells]) for key in figures},
        "settings": settings,
        "models": [cell["model"] for cell in cells],
    }


@cache
def corpus(tokens: float, max_vocabulary: int = MAX_VOCABULARY) -> Corpus:
    name = f"varembed-{tokens:g}-{max_vocabulary}"
    return Corpus.from_text(
        text.beginning(tokens),
        tokenizer="words",
        max_vocabulary=max_vocabulary,
        digits=True,
        lowercase=True,
        cache=kept.place() / f"corpus-{name}",
        cache_key=name,
    )


# -- models by row and seed ----------------------------------------------------------------------------


def trained(row: str, seed: int, found: Corpus) -> Vectors | None:
    """Return the model of a row; None of a row of gensim whose default epochs take our CPU time already."""
    wanted = ROWS[row]
    if wanted.as_long_as is not None:
        ours = fitted(ROWS[wanted.as_long_as], 0, found)
        theirs = fitted(Row(wanted.kind, wanted.settings), 0, found)
        if ours.seconds is None or theirs.seconds is None:
            return None
        an_epoch = (theirs.seconds - theirs.fixed) / PEER_EPOCHS
        epochs = round((ours.seconds - theirs.fixed) / an_epoch)
        if epochs <= PEER_EPOCHS:
            return None
        wanted = Row(wanted.kind, {**wanted.settings, "epochs": epochs})
    return fitted(wanted, seed, found)


def fitted(row: Row, seed: int, found: Corpus) -> Vectors:
    """Return the model of these settings, trained now unless it is kept."""
    settings = _all_settings(row)
    facts = {**settings, "seed": seed, "text": [found.vocabulary.fingerprint, found.n_tokens]}
    make = _train_ours if row.ours else _train_gensim
    folder, figures = kept.folder(
        row.kind, facts, lambda to: make(row, seed, to, facts, found), ours=row.ours
    )
    if not row.ours:
        return _gensim_from(folder, settings, row.kind, found, figures)
    model: Any = tacenda.load(folder / "model")
    seconds = figures["seconds"]
    return Vectors(found.vocabulary, model.vectors, settings, seconds, folder.name, model)


def _all_settings(row: Row) -> dict[str, Any]:
    """Return every option of a row, with the defaults, but for the seed."""
    if row.ours:
        settings = getattr(tacenda_embeddings, row.kind)(width=WIDTH, **row.settings).settings
        found = dict(settings.to_dict())
    else:
        import gensim.models

        signature = inspect.signature(getattr(gensim.models, row.kind))
        defaults = {name: option.default for name, option in signature.parameters.items()}
        found = {**defaults, "vector_size": WIDTH, "min_count": 1, "workers": 1, **row.settings}
        found = {name: value for name, value in found.items() if isinstance(value, int | float)}
        found["gensim"] = gensim.__version__
    found.pop("seed")
    return found


def _train_ours(row: Row, seed: int, to: Path, facts: dict[str, Any], found: Corpus) -> Columns:
    """Train VarEmbed or SumEmbed; rows with and without the last regression, which follows the training, share it."""
    advanced = {k: v for k, v in facts["advanced"].items() if k != "refit_morphemes"}
    name = kept.digest([row.kind, {**facts, "advanced": advanced}, kept.whole()])
    checkpoints = kept.place() / "work" / f"{row.kind}-training-{name}"
    shared = checkpoints.exists()
    model = getattr(tacenda_embeddings, row.kind)(width=WIDTH, seed=seed, **row.settings)
    _compile()
    begun = time.process_time()
    model.fit(found, **({} if row.kind == "SumEmbed" else {"checkpoints": checkpoints}))
    seconds = round(time.process_time() - begun, 1)
    model.save(to / "model")
    return {"seconds": None if shared else seconds}


@cache
def _compile() -> None:
    """Import torch and compile what a fit compiles, which happens once and not once for every model."""
    tacenda_embeddings.VarEmbed(width=4, epochs=1).fit(Corpus.from_sentences([["a", "word"]] * 99))


def _train_gensim(row: Row, seed: int, to: Path, _: dict[str, Any], found: Corpus) -> Columns:
    """From a file, which gensim reads fastest, in our words; one thread; other options are gensim's defaults."""
    import gensim.models

    lines = str(text.word_file(found))
    start = time.process_time()
    given = {"vector_size": WIDTH, "min_count": 1, "workers": 1, **row.settings}
    model = getattr(gensim.models, row.kind)(**given, seed=seed + 1)
    model.build_vocab(corpus_file=lines)
    built = time.process_time()
    model.train(
        corpus_file=lines,
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=model.epochs,
    )
    seconds = time.process_time() - start
    model.wv.save(str(to / "vectors"))
    return {"seconds": round(seconds, 1), "fixed": built - start}


def _gensim_from(
    folder: Path, settings: dict[str, Any], kind: str, found: Corpus, figures: Columns
) -> Vectors:
    import gensim.models

    vectors = gensim.models.KeyedVectors.load(str(folder / "vectors"))
    normalize = found.vocabulary.normalization

    def make(words: Sequence[str]) -> np.ndarray:
        rows = np.full((len(words), WIDTH), np.nan, np.float32)
        for i, word in enumerate(map(normalize, words)):
            if kind == "FastText" or word in vectors.key_to_index:
                rows[i] = vectors[word]
        return rows

    return Vectors(
        *(found.vocabulary, make, settings, figures["seconds"], folder.name), fixed=figures["fixed"]
    )
