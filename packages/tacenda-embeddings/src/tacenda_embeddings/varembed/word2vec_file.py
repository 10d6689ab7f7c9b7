"""The text format of word2vec, which most tools read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from tacenda import store
from tacenda.errors import DataError
from tacenda.vocabulary import Vocabulary, reserved

__all__ = ["save_word2vec"]

_LINES = 4096  # at a time


def save_word2vec(
    path: str | os.PathLike[str],
    vocabulary: Vocabulary,
    vectors: Callable[[list[str]], npt.NDArray[np.float32]],
    words: Iterable[str] = (),
) -> int:
    """Write the words of the vocabulary, and others if given, with their vectors; return how many.

    The first line holds the number of words and of columns; every other line is a word and its numbers. Words with
    whitespace in them, which cannot be written, and special types are left out. ``vectors`` takes words and returns
    (words, width). ``path`` appears only when it is whole; raises DataError if it cannot be written.
    """
    special = reserved(vocabulary.oov)
    chosen = [
        word
        for word in dict.fromkeys((*vocabulary.words, *words))
        if word not in special and word.split() == [word]
    ]
    path = store.path_of(path, DataError)
    try:
        with (
            store.replacing(path) as whole,
            whole.open("w", encoding="utf-8", errors="replace") as file,
        ):
            file.write(f"{len(chosen)} {vectors([]).shape[1]}\n")
            for i in range(0, len(chosen), _LINES):
                part = chosen[i : i + _LINES]
                for word, row in zip(part, vectors(part).tolist(), strict=True):
                    file.write(f"{word} {' '.join(f'{value:.6g}' for value in row)}\n")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    return len(chosen)
