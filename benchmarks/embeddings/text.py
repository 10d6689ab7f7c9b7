"""The unlabelled text of the benchmarks, tokenized once, and word2vec trained on the same ids."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.embeddings import common
from tacit import Corpus

MAX_VOCABULARY = 40_000


def wikipedia(cache: Path) -> Corpus:
    """English Wikipedia, good and featured articles: 40,000 types, digits to NUM, OOV classes."""
    folder = cache / "corpus-wiki"
    try:
        return Corpus.open(folder)
    except Exception:
        log = common.logger("text", cache)
    start = time.perf_counter()
    corpus = Corpus.from_text(
        common.data_folder() / "lm" / "wikipedia-good-articles" / "train.txt.xz",
        tokenizer="words",
        max_vocabulary=MAX_VOCABULARY,
        digits=True,
        oov="classes",
        cache=folder,
    )
    seconds = time.perf_counter() - start
    log.info(
        "tokenized %d tokens in %d lines, %d types, %.0f s",
        corpus.n_tokens,
        corpus.n_sentences,
        len(corpus.vocabulary),
        seconds,
    )
    return corpus


class WordSentences:
    """The corpus as lists of strings, out-of-vocabulary words as their class: what gensim reads."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.words = np.array(corpus.vocabulary.words, dtype=object)

    def __iter__(self) -> Iterator[list[str]]:
        for ids in self.corpus:
            yield list(self.words[ids])


def word2vec(cache: Path, width: int, seed: int = 1) -> np.ndarray:
    """CBOW vectors, (vocabulary, width) float32, gensim's defaults (window 5, 5 epochs).

    A type that does not occur in the text (the boundary) has a zero row.
    """
    path = cache / f"w2v{width}-seed{seed}.npy"
    if path.exists():
        return np.load(path)
    from gensim.models import Word2Vec

    log = common.logger("text", cache)
    corpus = wikipedia(cache)
    start = time.perf_counter()
    model = Word2Vec(
        WordSentences(corpus), vector_size=width, min_count=1, workers=1, epochs=5, seed=seed
    )
    log.info("word2vec %d in %.0f s", width, time.perf_counter() - start)
    vectors = np.zeros((len(corpus.vocabulary), width), dtype=np.float32)
    for row, word in enumerate(corpus.vocabulary.words):
        if word in model.wv:
            vectors[row] = model.wv[word]
    temporary = path.with_suffix(".tmp.npy")
    np.save(temporary, vectors)
    temporary.replace(path)
    return vectors


def main() -> None:
    """Prepare what the other benchmarks read."""
    cache = common.arguments(main.__doc__).parse_args().cache
    wikipedia(cache)
    for width in (100, 200):
        word2vec(cache, width)


if __name__ == "__main__":
    main()
