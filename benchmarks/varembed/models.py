"""The word vectors that are compared, all trained on the same text, kept in the cache.

    python -m benchmarks.varembed.models --tokens 6 --seeds 0 [--only VarEmbed]

The text is the beginning of English Wikipedia's good and featured articles, `--tokens` million tokens of it (0:
all 26), in lower case, numbers as NUM, with the 50,000 most frequent types, as in the paper (section 3.1).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tacenda
from benchmarks.embeddings import common, text
from tacenda import Corpus
from tacenda.vocabulary import Vocabulary

MAX_VOCABULARY = 50_000
WIDTH = 128


@dataclass
class Vectors:
    """What a row of a benchmark looks words up in; `make` gives (words, width), NaN where it has nothing."""

    vocabulary: Vocabulary
    make: Callable[[Sequence[str]], np.ndarray]
    seconds: float

    def zeros(self, words: Sequence[str]) -> np.ndarray:
        """The same with zeros for what it does not know."""
        return np.nan_to_num(self.make(words))


def arguments(description: str | None, seeds: str = "0") -> argparse.ArgumentParser:
    parser = common.arguments(description, seeds)
    parser.add_argument("--tokens", type=float, default=0, help="millions of tokens; 0 is all")
    parser.add_argument("--rows", nargs="*", default=[], help="rows of exactly these names")
    return parser


def chosen(rows: Iterable[str], options: argparse.Namespace) -> list[str]:
    """The rows that `--rows` and `--only` ask for; all if neither is given."""
    unknown = sorted(set(options.rows) - set(rows))
    if unknown:
        raise SystemExit(f"No row is called {unknown[0]!r}: the rows are {', '.join(rows)}.")
    wanted = [row for row in rows if not options.rows or row in options.rows]
    return common.chosen(wanted, options.only)


def results_name(name: str, options: argparse.Namespace) -> str:
    """`name`, and the millions of tokens where it is not the whole text."""
    return f"{name}-{options.tokens:g}" if options.tokens else name


def corpus(options: argparse.Namespace) -> Corpus:
    name = f"varembed-{options.tokens:g}"
    folder = options.cache / f"corpus-{name}"
    if folder.exists():
        return Corpus.open(folder)
    return Corpus.from_text(
        beginning(options.tokens * 1e6 or float("inf")),
        tokenizer="words",
        max_vocabulary=MAX_VOCABULARY,
        digits=True,
        lowercase=True,
        cache=folder,
        cache_key=name,
    )


def beginning(n_tokens: float) -> Iterator[str]:
    """Lines of the text until there are about so many tokens in them."""
    from tacenda.tokenizers import get_tokenizer

    words = get_tokenizer("words")
    n = 0
    for line in text.lines("wiki"):
        yield line
        if n_tokens < float("inf"):
            n += len(words(line))
            if n >= n_tokens:
                return


def _ours(cls: str, **settings: Any) -> dict[str, Any]:
    return {"kind": cls, **settings}


#: The paper's models, its baselines, ablations of ours, and what the figures must be seen beside.
ROWS: dict[str, dict[str, Any]] = {
    "word2vec CBOW": {"kind": "Word2Vec"},
    "word2vec skip-gram": {"kind": "Word2Vec", "sg": 1},
    "FastText CBOW": {"kind": "FastText"},
    "FastText skip-gram": {"kind": "FastText", "sg": 1},
    "SumEmbed": _ours("SumEmbed"),
    "SumEmbed, word2vec start": _ours(
        "SumEmbed", start="word2vec", advanced={"start_shrinkage": 0.0}
    ),
    "VarEmbed": _ours("VarEmbed"),
    "VarEmbed, word2vec start": _ours(
        "VarEmbed", start="word2vec", advanced={"start_shrinkage": 0.0}
    ),
    "VarEmbed, start only": _ours("VarEmbed", epochs=0),
    "VarEmbed, random start": _ours("VarEmbed", start="random", advanced={"start_shrinkage": 0.0}),
    "VarEmbed, no shrinkage": _ours("VarEmbed", advanced={"start_shrinkage": 0.0}),
    "VarEmbed, KL per token": _ours("VarEmbed", advanced={"kl": "tokens"}),
    "VarEmbed, no base": _ours("VarEmbed", advanced={"base": False}),
    "VarEmbed, no refit": _ours("VarEmbed", advanced={"refit_morphemes": False}),
    "VarEmbed, window alone": _ours("VarEmbed", advanced={"start_adjacent": 0.0}),
    "VarEmbed, Morfessor": _ours("VarEmbed", segmenter="morfessor"),
    "VarEmbed, n-grams": _ours("VarEmbed", segmenter="ngrams"),
    "VarEmbed, n-grams, start only": _ours("VarEmbed", segmenter="ngrams", epochs=0),
}


def place(row: str, seed: int, options: argparse.Namespace) -> Path:
    """The folder of a trained model."""
    name = f"{row} {options.tokens:g} seed {seed}".replace(",", "").replace(" ", "-")
    return Path(options.cache / "varembed" / name)


def model(row: str, seed: int, options: argparse.Namespace) -> Any:
    """A trained VarEmbed or SumEmbed itself."""
    return tacenda.load(place(row, seed, options))


def trained(row: str, seed: int, options: argparse.Namespace, found: Corpus | None = None) -> Any:
    """The model of a row, from the cache or trained now; `seconds` is what training took."""
    settings = dict(ROWS[row])
    kind, where = settings.pop("kind"), place(row, seed, options)
    found = found or corpus(options)
    if kind in ("VarEmbed", "SumEmbed"):
        return trained_ours(kind, settings, seed, where, found, getattr(options, "epochs", None))
    return trained_gensim(kind, settings, seed, where, found)


def trained_ours(
    kind: str, settings: dict[str, Any], seed: int, where: Path, found: Corpus, epochs: int | None
) -> Vectors:
    import tacenda_embeddings

    if not where.exists():
        if epochs is not None:
            settings = {"epochs": epochs, **settings}
        start = time.process_time()
        fitted = getattr(tacenda_embeddings, kind)(width=WIDTH, seed=seed, **settings)
        fitted.fit(found, checkpoints=where.with_name(f"{where.name}-checkpoint"))
        fitted.fitted_on["cpu_seconds"] = round(time.process_time() - start, 1)
        fitted.save(where)
    loaded = tacenda.load(where)
    return Vectors(found.vocabulary, loaded.vectors, loaded.fitted_on["cpu_seconds"])


def trained_gensim(
    kind: str, settings: dict[str, Any], seed: int, where: Path, found: Corpus
) -> Vectors:
    import gensim.models

    cls = getattr(gensim.models, kind)
    if not where.exists():
        unfinished = where.with_name(f".{where.name}-unfinished")
        unfinished.mkdir(parents=True, exist_ok=True)
        start = time.process_time()
        model = cls(
            text.WordSentences(found),
            vector_size=WIDTH,
            min_count=1,
            workers=1,
            seed=seed + 1,
            **{"epochs": 5, **settings},
        )
        model.wv.save(str(unfinished / "vectors"))
        seconds = round(time.process_time() - start, 1)
        common.write_json(unfinished / "seconds.json", {"cpu_seconds": seconds})
        unfinished.rename(where)
    vectors = gensim.models.KeyedVectors.load(str(where / "vectors"))
    seconds = json.loads((where / "seconds.json").read_text())["cpu_seconds"]
    normalize = found.vocabulary.normalization

    def make(words: Sequence[str]) -> np.ndarray:
        rows = np.full((len(words), WIDTH), np.nan, np.float32)
        for i, word in enumerate(map(normalize, words)):
            if kind == "FastText" or word in vectors.key_to_index:
                rows[i] = vectors[word]
        return rows

    return Vectors(found.vocabulary, make, seconds)


def main() -> None:
    """Train what the other benchmarks read."""
    parser = arguments(__doc__)
    parser.add_argument(
        "--epochs", type=int, help="of VarEmbed and SumEmbed; the default if not given"
    )
    options = parser.parse_args()
    log = common.logger("varembed", options.cache)
    text_ = corpus(options)
    log.info("%d tokens, %d types", text_.n_tokens, len(text_.vocabulary))
    for seed in options.seeds:
        for row in chosen(ROWS, options):
            found = trained(row, seed, options, text_)
            log.info("%s, seed %d: %.0f s of CPU", row, seed, found.seconds)


if __name__ == "__main__":
    main()
