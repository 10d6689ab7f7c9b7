"""Vectors of the tokens of a text file and of the words of a vocabulary, in any output of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda import store
from tacenda.corpus.lines import text_blocks, text_file
from tacenda.errors import ConfigurationError, DataError
from tacenda.tokenizers import Tokenizer, get_tokenizer

Rows = npt.NDArray[np.float32]

#: Tokens that the model embeds at a time.
BATCH_TOKENS = 20_000


def with_output(model: Any, output: str | None) -> Any:
    """Return a fitted embedder with another output; the embedder itself if ``output`` is None.

    Raises ConfigurationError if it has no such output.
    """
    if output is None:
        return model
    if not hasattr(model, "with_output"):
        raise ConfigurationError(
            f"the embedder {getattr(model, 'name', type(model).__name__)!r} has only one output: leave the "
            f"output {output!r} out"
        )
    return model.with_output(output)


def embed_file(
    model: Any,
    path: Path,
    tokenizer: str | Tokenizer,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Iterator[tuple[list[str], Rows]]:
    """Yield the tokens of every line of a file and their vectors ``(n_tokens, width)``.

    A line without tokens yields no tokens and an array without rows. Raises CorpusError if the file cannot be read
    or the tokenizer is unknown.
    """
    split = get_tokenizer(tokenizer)
    batch: list[list[str]] = []
    size = 0
    for block in text_blocks(text_file(path), encoding, errors):
        for line in block:
            words = list(split(line))
            batch.append(words)
            size += len(words)
            if size >= BATCH_TOKENS:
                yield from zip(batch, model.transform(batch), strict=True)
                batch, size = [], 0
    yield from zip(batch, model.transform(batch), strict=True)


def save_npz(path: Path, lines: Iterator[tuple[list[str], Rows]], width: int) -> tuple[int, int]:
    """Save the vectors of lines; return the number of tokens and of lines.

    Vectors go through a temporary file, so memory holds the tokens but not the vectors, and ``path``
    appears only when it is complete. Raises DataError if it cannot be written.
    """
    offsets: list[int] = [0]
    tokens: list[str] = []
    with store.replacing(path) as whole:
        raw = whole.with_name(f"{whole.name}.raw")
        with raw.open("wb") as file:
            for words, rows in lines:
                file.write(np.ascontiguousarray(rows, dtype=np.float32).data)
                tokens += words
                offsets.append(len(tokens))
        vectors: Rows = np.zeros((0, width), dtype=np.float32)
        if tokens:
            vectors = np.memmap(raw, dtype=np.float32, mode="r", shape=(len(tokens), width))
        text = np.frombuffer("\n".join(tokens).encode("utf-8", "replace"), dtype=np.uint8)
        with whole.open("wb") as npz:
            np.savez(npz, vectors=vectors, offsets=np.array(offsets, dtype=np.int64), tokens=text)
    return len(tokens), len(offsets) - 1


def nearest_words(model: Any, word: str, n: int) -> list[tuple[str, float]]:
    """Return the ``n`` words of the vocabulary nearest to ``word`` by cosine, nearest first.

    Every word is embedded alone, as a sentence of one token. Raises DataError for a word without a vector.
    """
    query = embed_alone(model, [word])[0]
    if not query.any():
        raise DataError(
            f"{word!r} has no vector, because the model knows none of its morphemes: name another word"
        )
    words: list[str] = []
    scores: list[Rows] = []
    for part in iterate_words(model):
        vectors = embed_alone(model, part)
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
        scores.append(vectors @ query / np.where(lengths == 0, 1, lengths))
        words += part
    cosines = np.concatenate([*scores, np.zeros(0, np.float32)])
    own = model.vocabulary.words[model.vocabulary.id_of(word)]  # as the text of the model spells it
    best = [i for i in np.argsort(-cosines, kind="stable") if words[i] != own][:n]
    return [(words[i], float(cosines[i])) for i in best]


def embed_alone(model: Any, words: Sequence[str]) -> Rows:
    """Return the vectors of words (words, width), each as a sentence of one token."""
    return np.concatenate(list(model.transform([[word] for word in words])))


def iterate_words(model: Any) -> Iterator[list[str]]:
    """Yield the words of the vocabulary in parts, without special types such as classes of unknown words.

    Raises ConfigurationError for a model without a vocabulary.
    """
    if not hasattr(model, "vocabulary"):
        raise ConfigurationError(
            f"the embedder {getattr(model, 'name', type(model).__name__)!r} has no vocabulary of words to compare: "
            "use a model that has one"
        )
    words = [w for w in model.vocabulary.words if not model.vocabulary.is_reserved(w)]
    for i in range(0, len(words), BATCH_TOKENS):
        yield words[i : i + BATCH_TOKENS]


class Cosines(NamedTuple):
    """Cosines of the vectors of two models."""

    mean: float
    least: float
    n_vectors: int
    of: str  # the kind of vectors, as text


def compare(
    model: Any,
    other: Any,
    text: Path | None = None,
    tokenizer: str | Tokenizer = "whitespace",
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Cosines:
    """Compare the vectors of two forms of a model on a text or, if it is None, on single words.

    Tokens to which ``model`` gives no vector, such as words without a known morpheme, are not counted; a vector that
    ``other`` lost has cosine 0. Raises CorpusError if the file cannot be read, and DataError if it has no vectors.
    """
    if text is None:
        pairs = (
            (embed_alone(model, part), embed_alone(other, part)) for part in iterate_words(model)
        )
    else:
        ours = embed_file(model, text, tokenizer, encoding, errors)
        theirs = embed_file(other, text, tokenizer, encoding, errors)
        pairs = ((a, b) for (_, a), (_, b) in zip(ours, theirs, strict=True))
    total, least, n = 0.0, 1.0, 0
    for first, second in pairs:
        lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        cosines = np.einsum("ij,ij->i", first, second) / np.where(lengths == 0, 1, lengths)
        cosines = cosines[first.any(axis=1)]
        total += float(cosines.sum(dtype=np.float64))
        n += len(cosines)
        least = min(least, float(cosines.min(initial=1.0)))
    if n == 0:
        raise DataError("there are no vectors to compare: give a text with words of the vocabulary")
    return Cosines(total / n, least, n, "words" if text is None else "tokens of the text")
