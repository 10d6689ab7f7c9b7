"""Reader of word-similarity sets: two words and the mean score people gave them.

It reads tab-separated files without a heading (WordSim-353 and Rare Words as collected by Faruqui and Dyer 2014; the
official Rare Words file, whose further columns are single judgments), and the official WordSim-353 ``combined.csv`` and
``combined.tab`` with their heading.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tacenda.corpus.lines import numbered_lines
from tacenda.errors import DataError
from tacenda.reading import path_of


class WordPair(NamedTuple):
    """Two words and their mean human score, on the set's own scale (0 to 10 above)."""

    first: str
    second: str
    score: float


def read(path: str | Path) -> Iterator[WordPair]:
    """Yield the pairs of a word-similarity file.

    Raises DataError, which names file and line, if it cannot be read, or a row is not two words and a number.
    """
    path = path_of(path, DataError)
    for number, line in numbered_lines(path):
        cells = [cell.strip() for cell in line.split("\t" if "\t" in line else ",")]
        if not any(cells):
            continue
        try:
            score = float(cells[2] if all(cells[:2]) else "nan")
        except (IndexError, ValueError):
            score = math.nan
        if not math.isfinite(score):
            if number == 1 and cells[0].lower().startswith("word"):
                continue
            raise DataError(
                f"{path}, line {number}: expected word, word, score, found {line!r:.80}"
            )
        yield WordPair(cells[0], cells[1], score)
