"""Word vectors as the text file of word2vec, which most tools read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tacit.errors import DataError
from tacit.lookup import reserved

__all__ = ["save_word2vec"]

_LINES = 4096  # at a time


def save_word2vec(model: Any, path: str | os.PathLike[str], words: Iterable[str] = ()) -> int:
    """Write the vocabulary's words, and others if given, with their vectors; returns how many.

    The first line holds the number of words and of columns; then a line is a word and its numbers. A word
    with whitespace in it cannot be written and is left out, so are special types. ``path`` appears only when
    it is whole.

    Args:
        model: a fitted `VarEmbed` or `SumEmbed`.
        path: the file.
        words: more words, which may never have been seen.

    Raises:
        DataError: the file cannot be written.
        NotFittedError: the model was not fitted.
    """
    special = reserved(model.vocabulary.oov)
    chosen = [
        word
        for word in dict.fromkeys((*model.vocabulary.words, *words))
        if word not in special and word.split() == [word]
    ]
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", errors="replace") as file:
            file.write(f"{len(chosen)} {model.width}\n")
            for i in range(0, len(chosen), _LINES):
                part = chosen[i : i + _LINES]
                for word, row in zip(part, model.vectors(part).tolist(), strict=True):
                    file.write(f"{word} {' '.join(f'{value:.6g}' for value in row)}\n")
        temporary.replace(path)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return len(chosen)
