"""What the example works on: raw text to fit on, and a sample to score."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import tacenda
from tacenda.corpus.lines import text_blocks
from tacenda.datasets import synthetic_text

LINES = 40_000


@dataclass(frozen=True)
class Material:
    """Raw text, a paragraph or sentence a line, and another piece of the same kind."""

    name: str
    title: str
    lines: Callable[[], Iterator[str]]
    sample: str


def find(text: Path | None, n_lines: int | None) -> Material:
    """The text that is given, else Wikipedia where TACENDA_DATA names it, else an invented language.

    Raises TacendaError if a text is named and not there.
    """
    if text is not None:
        return given(text, n_lines)
    return (real if os.environ.get("TACENDA_DATA") else invented)(n_lines or LINES)


def given(text: Path, n_lines: int | None) -> Material:
    """A file; the sample is its first lines, which the model has seen."""
    sample = "\n".join(islice(lines_of(text), 3))
    name = f"{text.name}-{n_lines or 'all'}"
    return Material(name, str(text), lambda: islice(lines_of(text), n_lines), sample)


def real(n_lines: int) -> Material:
    """English: Wikipedia's good articles, a paragraph a line; the sample is from another article."""
    files = tacenda.datasets.locate("wikipedia-good-articles")
    train, test = Path(files["train"]), Path(files["test"])
    paragraphs = (line for line in lines_of(test) if len(line) > 200)
    return Material(
        name=f"wikipedia-{n_lines}",
        title=f"Wikipedia's good articles, the first {n_lines:,} lines",
        lines=lambda: islice(lines_of(train), n_lines),
        sample="\n\n".join(islice(paragraphs, 4)),
    )


def invented(n_lines: int) -> Material:
    """A language made by a seeded generator; in the sample a sentence is shuffled, a word is unheard of."""
    sentences = [list(sentence.words) for sentence in synthetic_text.generate(6, seed=2)]
    random.Random(0).shuffle(sentences[3])
    sentences[4].insert(2, "Jabberwocky")
    return Material(
        name=f"invented-{n_lines}",
        title=f"{n_lines:,} sentences of an invented language (set TACENDA_DATA for real text)",
        lines=lambda: (" ".join(s.words) for s in synthetic_text.generate(n_lines, seed=1)),
        sample=" ".join(" ".join(words) for words in sentences),
    )


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a text, compressed or not, that have anything in them."""
    for lines in text_blocks(path):
        yield from (line.strip() for line in lines if line.strip())
