"""Peers that are fitted to raw text as it is spelled: gensim's FastText and skip-gram, and floret.

FastText and floret make their vectors of letter n-grams, so that they know every word; skip-gram has no vector for a
word that it has not seen often enough. All have their defaults; floret has the table of 50,000 rows and the two hashes
that its authors recommend. Spelling is neither normalized nor put into classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import spacy
from spacy.training.initialize import convert_vectors
from spacy.vectors import Mode, Vectors

from benchmarks import kept
from benchmarks.embeddings import text
from tacenda.tokenizers import get_tokenizer

PROTOCOL = (
    "FastText (gensim's) and floret (table of 50,000 rows, 2 hashes) CBOW 100 wide, their defaults (window 5, five "
    "epochs, letter n-grams of 3 to 6, words that occur five times), the same text as spelled"
)


class RawText(NamedTuple):
    """A text by name, and how it is tokenized."""

    name: str
    lines: Callable[[], Iterable[str]]
    tokenizer: str


ENGLISH = RawText("wiki", lambda: text.beginning(0), "words")


def vectors(kind: str, words: Iterable[str], of: RawText = ENGLISH) -> Vectors:
    """Return what a pipeline takes for its vectors: of gensim a table with the ``words``, of floret one for all."""
    return floret(of) if kind == "floret" else table(kind, words, of)


def table(kind: str, words: Iterable[str], of: RawText) -> Vectors:
    """Return a table with a row for each of the words that gensim's FastText or skip-gram knows."""
    from gensim.models import FastText, KeyedVectors, Word2Vec

    def make(folder: Path) -> None:
        given: dict[str, Any] = {"corpus_file": str(spelled(of)), "workers": 1, "seed": 1}
        model = FastText(**given) if kind == "FastText" else Word2Vec(sg=1, **given)
        model.wv.save(str(folder / "vectors"))

    folder, _ = kept.folder(kind, [PROTOCOL, of.name], make, ours=False)
    known = KeyedVectors.load(str(folder / "vectors"))
    listed = [word for word in sorted(set(words)) if word in known]
    found = Vectors(data=np.stack([known[word] for word in listed]), name=kind)
    strings = spacy.blank("en").vocab.strings
    for row, word in enumerate(listed):
        found.add(strings.add(word), row=row)
    return found


def floret(of: RawText) -> Vectors:
    """Return the table of floret, as `spacy init vectors --mode floret` reads it."""

    def make(folder: Path) -> None:
        from floret import train_unsupervised

        options: dict[str, Any] = {
            "model": "cbow",
            "mode": "floret",
            "hashCount": 2,
            "bucket": 50_000,
        }
        model = train_unsupervised(str(spelled(of)), **options, thread=1, verbose=0)
        model.save_floret_vectors(str(folder / "vectors.floret"))

    folder, _ = kept.folder("floret", [PROTOCOL, of.name], make, ours=False)
    nlp = spacy.blank("en")
    convert_vectors(nlp, folder / "vectors.floret", truncate=0, prune=-1, mode=Mode.floret)
    return nlp.vocab.vectors


def spelled(of: RawText) -> Path:
    """Return the text with a space between its tokens, a line each, as a file."""

    def make(folder: Path) -> None:
        words = get_tokenizer(of.tokenizer)
        with (folder / "text.txt").open("w", encoding="utf8") as stream:
            stream.writelines(" ".join(words(line)) + "\n" for line in of.lines())

    return kept.folder("spelled", of, make, ours=False)[0] / "text.txt"
