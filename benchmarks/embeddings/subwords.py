"""Peers whose vectors are made of letter n-grams: gensim's FastText and floret, on the text of the others as spelled.

Both have their defaults, which are those of word2vec (100 wide, window 5, five epochs); floret has the table of 50,000
rows and the two hashes that its authors recommend. Both know every word, so spelling is neither normalized nor put into
classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

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


def vectors(kind: str, words: Iterable[str]) -> Vectors:
    """Return what a pipeline takes for its vectors: of FastText a table with the ``words``, of floret one for all."""
    return floret() if kind == "floret" else fasttext(words)


def fasttext(words: Iterable[str]) -> Vectors:
    """Return a table with a row for each word."""
    from gensim.models import FastText
    from gensim.models.fasttext import FastTextKeyedVectors

    def make(folder: Path) -> None:
        model = FastText(corpus_file=str(spelled()), workers=1, seed=1)
        model.wv.save(str(folder / "vectors"))

    folder, _ = kept.folder("fasttext", PROTOCOL, make, ours=False)
    known = FastTextKeyedVectors.load(str(folder / "vectors"))
    listed = sorted(set(words))
    table = Vectors(data=np.stack([known[word] for word in listed]), name="fasttext")
    strings = spacy.blank("en").vocab.strings
    for row, word in enumerate(listed):
        table.add(strings.add(word), row=row)
    return table


def floret() -> Vectors:
    """Return the table of floret, as `spacy init vectors --mode floret` reads it."""

    def make(folder: Path) -> None:
        from floret import train_unsupervised

        options: dict[str, Any] = {
            "model": "cbow",
            "mode": "floret",
            "hashCount": 2,
            "bucket": 50_000,
        }
        model = train_unsupervised(str(spelled()), **options, thread=1, verbose=0)
        model.save_floret_vectors(str(folder / "vectors.floret"))

    folder, _ = kept.folder("floret", PROTOCOL, make, ours=False)
    nlp = spacy.blank("en")
    convert_vectors(nlp, folder / "vectors.floret", truncate=0, prune=-1, mode=Mode.floret)
    return nlp.vocab.vectors


def spelled() -> Path:
    """Return the text with a space between its tokens, a line each, as a file."""

    def make(folder: Path) -> None:
        words = get_tokenizer("words")
        with (folder / "text.txt").open("w", encoding="utf8") as stream:
            stream.writelines(" ".join(words(line)) + "\n" for line in text.beginning(0))

    return kept.folder("spelled", "wiki", make, ours=False)[0] / "text.txt"
