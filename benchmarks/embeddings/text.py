"""The unlabelled text of the benchmarks, tokenized once, and what other libraries have learned from the same ids.

English Wikipedia's good and featured articles (26M tokens), and past their end a hundred English novels. Dev and test
parts of the labelled data are never among them.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import kept
from tacenda import Corpus, datasets
from tacenda.corpus.lines import numbered_lines
from tacenda.tokenizers import get_tokenizer

MAX_VOCABULARY = 40_000
N_CLASSES = 320  # of Brown et al. 1992


def lines(name: str) -> Iterator[str]:
    """Yield the lines of one text."""
    if name == "wiki":
        path = datasets.locate("wikipedia-good-articles")["train"]
        yield from (line for _, line in numbered_lines(path))
        return
    with tarfile.open(datasets.locate("english-novels")["novels"]) as archive:
        for member in archive:
            if content := archive.extractfile(member) if member.isfile() else None:
                yield from io.TextIOWrapper(content, encoding="utf8")


def beginning(millions: float) -> Iterator[str]:
    """Yield lines of Wikipedia, and if these are not enough of novels, with about so many tokens; 0: Wikipedia's."""
    words = get_tokenizer("words")
    n = 0
    for line in chain(lines("wiki"), lines("novels") if millions else ()):
        yield line
        if millions:
            n += len(words(line))
            if n >= millions * 1e6:
                return


def corpus(millions: float = 0) -> Corpus:
    """Return the `beginning`: 40,000 types, digits to NUM, OOV classes."""
    name = f"beginning-{millions:g}" if millions else "wiki"
    return Corpus.from_text(
        beginning(millions),
        tokenizer="words",
        max_vocabulary=MAX_VOCABULARY,
        digits=True,
        oov="classes",
        cache=kept.place() / f"corpus-{name}",
        cache_key=name,
    )


def word_sentences(found: Corpus) -> Iterator[list[str]]:
    """Yield the corpus as lists of strings, out-of-vocabulary words as their class."""
    words = np.array(found.vocabulary.words, dtype=object)
    for ids in found:
        yield list(words[ids])


def word_file(found: Corpus) -> Path:
    """Return a corpus as a file with a line a sentence, which gensim reads fastest."""

    def make(folder: Path) -> None:
        with (folder / "words.txt").open("w", encoding="utf8") as stream:
            stream.writelines(" ".join(words) + "\n" for words in word_sentences(found))

    facts = [found.vocabulary.fingerprint, found.n_tokens]
    return kept.folder("words", facts, make, ours=False)[0] / "words.txt"


def word2vec(width: int, seed: int = 1) -> np.ndarray:
    """Return CBOW vectors, (vocabulary, width) float32, gensim's defaults (window 5, 5 epochs).

    A type that does not occur in the text (the boundary) has a zero row.
    """
    tokens = corpus()

    def make(folder: Path) -> None:
        from gensim.models import Word2Vec

        given: dict[str, Any] = {"min_count": 1, "workers": 1, "epochs": 5, "seed": seed}
        model = Word2Vec(corpus_file=str(word_file(tokens)), vector_size=width, **given)
        vectors = np.zeros((len(tokens.vocabulary), width), dtype=np.float32)
        for row, word in enumerate(tokens.vocabulary.words):
            if word in model.wv:
                vectors[row] = model.wv[word]
        np.save(folder / "vectors.npy", vectors)

    facts = [tokens.vocabulary.fingerprint, width, seed]
    return np.load(kept.folder("word2vec", facts, make, ours=False)[0] / "vectors.npy")


@cache
def clusters() -> dict[str, str]:
    """Return Brown clusters of the same text, as `tacenda lm clusters` finds them: word -> bit string."""
    # not at the top: other results do not depend on language models
    from tacenda_lm import BrownClusters, brown_clusters

    def make(folder: Path) -> None:
        brown_clusters(corpus(), N_CLASSES).save(folder / "paths")

    folder, _ = kept.folder("brown", [corpus().vocabulary.fingerprint, N_CLASSES], make)
    return dict(BrownClusters.load(folder / "paths").paths)
