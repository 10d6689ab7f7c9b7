"""The texts of the example: raw text to fit on, and a sample to score."""

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
    """Raw text, one paragraph or sentence per line, and a sample of the same kind."""

    name: str
    title: str
    lines: Callable[[], Iterator[str]]
    sample: str


def find(text: Path | None, n_lines: int | None) -> Material:
    """Return the text that is given, else Wikipedia if TACENDA_DATA is set, else an invented language.

    Raises TacendaError if a text does not exist.
    """
    if text is not None:
        return given(text, n_lines)
    return (real if os.environ.get("TACENDA_DATA") else invented)(n_lines or LINES)


def given(text: Path, n_lines: int | None) -> Material:
    """Return the text of a file; the sample is its first lines, which the model has seen."""
    sample = "\n".join(islice(lines_of(text), 3))
    name = f"{text.name}-{n_lines or 'all'}"
    return Material(name, str(text), lambda: islice(lines_of(text), n_lines), sample)


def real(n_lines: int) -> Material:
    """Return Wikipedia's good and featured articles, one paragraph per line; the sample is from another article."""
    files = tacenda.datasets.locate("wikipedia-good-articles")
    train, test = Path(files["train"]), Path(files["test"])
    paragraphs = (line for line in lines_of(test) if len(line) > 200)
    return Material(
        name=f"wikipedia-{n_lines}",
        title=f"Wikipedia's good and featured articles, the first {n_lines:,} lines",
        lines=lambda: islice(lines_of(train), n_lines),
        sample="\n\n".join(islice(paragraphs, 4)),
    )


def invented(n_lines: int) -> Material:
    """Return text of a seeded generator; in the sample one sentence is shuffled, and one word is unknown."""
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
    """Yield the lines of a text, compressed or not, that are not empty."""
    for lines in text_blocks(path):
        yield from (line.strip() for line in lines if line.strip())
