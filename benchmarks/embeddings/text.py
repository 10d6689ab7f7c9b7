"""The unlabelled text of the benchmarks, tokenized once, and word2vec trained on the same ids.

    python -m benchmarks.embeddings.text [--text wiki+ewt]

Texts: `wiki`, English Wikipedia's good and featured articles (26M tokens), is the default; `wiki+ewt`
adds the raw text of the training part of EWT, `wiki+novels+ewt` a hundred English novels as well
(together about 45M tokens). Dev and test parts of the labelled data are never among them.
"""

from __future__ import annotations

import io
import lzma
import tarfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from benchmarks.embeddings import common
from tacenda import Corpus
from tacenda.datasets import conllu
from tacenda.tokenizers import get_tokenizer

MAX_VOCABULARY = 40_000


def lines(name: str) -> Iterator[str]:
    """The lines of one text."""
    data = common.data_folder()
    if name == "wiki":
        path = data / "lm" / "wikipedia-good-articles" / "train.txt.xz"
        with lzma.open(path, "rt", encoding="utf8") as stream:
            yield from stream
    elif name == "novels":
        with tarfile.open(data / "lm" / "english-novels" / "english-novels.tar.xz") as archive:
            for member in archive:
                if content := archive.extractfile(member) if member.isfile() else None:
                    yield from io.TextIOWrapper(content, encoding="utf8")
    elif name == "ewt":
        path = data / "ud" / "UD_English-EWT" / "en_ewt-ud-train.conllu.xz"
        for sentence in conllu.read(path):
            yield sentence.text.replace("\n", " ")
    else:
        raise ValueError(f"No text is called {name!r}.")


def beginning(millions: float) -> Iterator[str]:
    """The lines of Wikipedia, and if these are not enough of novels, with about so many tokens; 0: Wikipedia's."""
    words = get_tokenizer("words")
    n = 0
    for line in chain(lines("wiki"), lines("novels") if millions else ()):
        yield line
        if millions:
            n += len(words(line))
            if n >= millions * 1e6:
                return


def corpus(cache: Path, millions: float = 0) -> Corpus:
    """The text that the cache folder is named after, or the `beginning` of Wikipedia and novels.

    40,000 types, digits to NUM, OOV classes.
    """
    name = f"beginning-{millions:g}" if millions else common.text_of(cache)
    folder = cache / (f"corpus-{name}" if millions else "corpus-wiki")
    if folder.exists():
        return Corpus.open(folder)
    log = common.logger("text", cache)
    start = time.perf_counter()
    found = Corpus.from_text(
        beginning(millions) if millions else chain.from_iterable(map(lines, name.split("+"))),
        tokenizer="words",
        max_vocabulary=MAX_VOCABULARY,
        digits=True,
        oov="classes",
        cache=folder,
        cache_key=name,
    )
    seconds = time.perf_counter() - start
    size = f"{found.n_tokens} tokens in {found.n_sentences} lines, {len(found.vocabulary)} types"
    log.info("tokenized %s: %s, %.0f s", name, size, seconds)
    return found


class WordSentences:
    """The corpus as lists of strings, out-of-vocabulary words as their class."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.words = np.array(corpus.vocabulary.words, dtype=object)

    def __iter__(self) -> Iterator[list[str]]:
        for ids in self.corpus:
            yield list(self.words[ids])


def word_file(cache: Path) -> Path:
    """The same as a file, which gensim reads fastest."""
    path = cache / "corpus-wiki-words.txt"
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf8") as stream:
            stream.writelines(" ".join(words) + "\n" for words in WordSentences(corpus(cache)))
        temporary.replace(path)
    return path


def word2vec(cache: Path, width: int, seed: int = 1) -> np.ndarray:
    """CBOW vectors, (vocabulary, width) float32, gensim's defaults (window 5, 5 epochs).

    A type that does not occur in the text (the boundary) has a zero row.
    """
    path = cache / f"w2v{width}-seed{seed}.npy"
    if path.exists():
        return np.load(path)
    from gensim.models import Word2Vec

    log = common.logger("text", cache)
    tokens = corpus(cache)
    start = time.perf_counter()
    model = Word2Vec(
        corpus_file=str(word_file(cache)),
        vector_size=width,
        min_count=1,
        workers=1,
        epochs=5,
        seed=seed,
    )
    log.info("word2vec %d in %.0f s", width, time.perf_counter() - start)
    vectors = np.zeros((len(tokens.vocabulary), width), dtype=np.float32)
    for row, word in enumerate(tokens.vocabulary.words):
        if word in model.wv:
            vectors[row] = model.wv[word]
    temporary = path.with_suffix(".tmp.npy")
    np.save(temporary, vectors)
    temporary.replace(path)
    return vectors


def main() -> None:
    """Prepare what the other benchmarks read."""
    cache = common.arguments(main.__doc__).parse_args().cache
    corpus(cache)
    for width in (100, 200):
        word2vec(cache, width)


if __name__ == "__main__":
    main()
