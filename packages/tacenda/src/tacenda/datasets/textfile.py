"""Numbered lines of text files, plain or compressed, for the readers of datasets."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from tacenda.corpus.lines import read_blocks, text_file
from tacenda.errors import CorpusError, DataError

LONGEST_SENTENCE = 1 << 18
"""The most words of a sentence, whose rows are in memory together."""


def numbered_lines(path: str | Path, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield ``(line number from 1, line without its end)``; a bounded part of the file is in memory.

    A byte-order mark at the beginning is dropped.

    Raises
    ------
    DataError
        The file cannot be opened, is compressed data that is damaged or cut short, or holds bytes that are not
        ``encoding``; the message names the file, and the line where there is one.
    """
    try:
        yield from enumerate(chain.from_iterable(read_blocks(text_file(path), encoding)), 1)
    except CorpusError as error:
        raise DataError(str(error)) from error
