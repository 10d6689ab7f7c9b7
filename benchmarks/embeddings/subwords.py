"""Peers whose vectors are made of letter n-grams: gensim's FastText and floret, on the text of the others as spelled.

    python -m benchmarks.embeddings.subwords

Both have their defaults, which are those of word2vec (100 wide, window 5, five epochs); floret has the table of 50,000
rows and the two hashes that its authors recommend. Both know every word, so spelling is neither normalized nor put into
classes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.training.initialize import convert_vectors
from spacy.vectors import Mode, Vectors

from benchmarks.embeddings import common, text
from tacenda.tokenizers import get_tokenizer

KINDS = ("FastText", "floret")
PROTOCOL = (
    "FastText (gensim's) and floret (table of 50,000 rows, 2 hashes) CBOW 100 wide, their defaults (window 5, five "
    "epochs, letter n-grams of 3 to 6, words that occur five times), the same text as spelled"
)


def vectors(cache: Path, kind: str, words: Iterable[str]) -> Vectors:
    """What a pipeline takes for its vectors: of FastText a table with the ``words``, of floret one for all words."""
    return floret(cache) if kind == "floret" else fasttext(cache, words)


def fasttext(cache: Path, words: Iterable[str]) -> Vectors:
    """A row for each word."""
    known = _fasttext(cache)
    listed = sorted(set(words))
    table = Vectors(data=np.stack([known[word] for word in listed]), name="fasttext")
    strings = spacy.blank("en").vocab.strings
    for row, word in enumerate(listed):
        table.add(strings.add(word), row=row)
    return table


def _fasttext(cache: Path) -> Any:
    """The vectors that gensim trained and saved."""
    from gensim.models import FastText
    from gensim.models.fasttext import FastTextKeyedVectors

    path = cache / "fasttext" / "vectors"
    if not path.exists():
        start = time.perf_counter()
        model = FastText(corpus_file=str(spelled(cache)), workers=1, seed=1)
        path.parent.mkdir(exist_ok=True)
        model.wv.save(str(path))
        _log(cache).info("FastText in %.0f s", time.perf_counter() - start)
    return FastTextKeyedVectors.load(str(path))


def floret(cache: Path) -> Vectors:
    """The table of floret, as `spacy init vectors --mode floret` reads it."""
    path = cache / "vectors.floret"
    if not path.exists():
        from floret import train_unsupervised

        start = time.perf_counter()
        model = train_unsupervised(
            str(spelled(cache)),
            model="cbow",
            mode="floret",
            hashCount=2,
            bucket=50_000,
            thread=1,
            verbose=0,
        )
        temporary = path.with_suffix(".tmp")
        model.save_floret_vectors(str(temporary))
        temporary.replace(path)
        _log(cache).info("floret in %.0f s", time.perf_counter() - start)
    nlp = spacy.blank("en")
    convert_vectors(nlp, path, truncate=0, prune=-1, mode=Mode.floret)
    return nlp.vocab.vectors


def spelled(cache: Path) -> Path:
    """The text with a space between its tokens, a line each, as a file."""
    path = cache / "corpus-wiki-spelled.txt"
    if not path.exists():
        words = get_tokenizer("words")
        temporary = path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf8") as stream:
            stream.writelines(" ".join(words(line)) + "\n" for line in text.beginning(0))
        temporary.replace(path)
    return path


def _log(cache: Path) -> Any:
    return common.logger("subwords", cache)


def main() -> None:
    """Train what is not there yet."""
    cache = common.arguments(main.__doc__).parse_args().cache
    for kind in KINDS:
        print(kind, vectors(cache, kind, ["word"]).data.shape, flush=True)


if __name__ == "__main__":
    main()
