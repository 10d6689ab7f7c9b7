"""Excerpts of a Finnish book as letters: training, development and test texts of the sizes of the paper.

The text is read as lower-case letters and the space between words, which counts as a letter; whatever else stands
between letters is a space, and several are one. An excerpt begins at an offset in these letters: its dense training
text comes first, then the development text, then the test text. The sparse training text is the end of the dense one.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import NamedTuple

from tacenda import Corpus, datasets

__all__ = ["DENSE", "DEVELOPMENT", "OFFSETS", "SPACE", "SPARSE", "TEST", "TUNING", "Excerpt"]

SPARSE, DENSE, DEVELOPMENT, TEST = 1_016, 100_080, 5_006, 5_037  # letters; those of the paper
#: Where the excerpts of all tables begin.
OFFSETS = (20_000, 240_000, 460_000, 680_000, 900_000)
#: Where those begin on which settings were chosen; no table shows them, and they share no letter with the others.
TUNING = (1_120_000, 1_340_000)
SPACE = "_"
_NOTE = 5  # lines at the beginning of the file, which are the edition's


@cache
def letters() -> str:
    """The whole book."""
    path = datasets.locate("alastalon-salissa")["text"]
    encoding = "iso-8859-1" if path.name == "0460.txt" else "utf-8"
    lines = path.read_text(encoding=encoding).split("\n")[_NOTE:]
    text = "".join(c if c.isalpha() else " " for c in "\n".join(lines).lower())
    return SPACE.join(text.split())


class Excerpt(NamedTuple):
    """Texts as lists of letters."""

    sparse: list[str]
    dense: list[str]
    development: list[str]
    test: list[str]

    @classmethod
    def at(cls, offset: int) -> Excerpt:
        """The excerpt that begins at an offset."""
        book, ends = letters(), [offset]
        for size in (DENSE, DEVELOPMENT, TEST):
            ends.append(ends[-1] + size)
        if offset < 0 or ends[-1] > len(book):
            raise SystemExit(f"the book has {len(book):,} letters; no excerpt begins at {offset:,}")
        dense, development, test = (list(book[i:j]) for i, j in itertools.pairwise(ends))
        return cls(dense[-SPARSE:], dense, development, test)

    def corpus(self, size: str) -> Corpus:
        """A training text as one sentence."""
        return Corpus.from_sentences([getattr(self, size)])
