"""The data of the demo: raw text, and a few labeled sentences."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import tacenda
from tacenda.datasets import conllu, synthetic_text

Sentence = tuple[Sequence[str], Sequence[str]]
"""Words and their tags, of the same length."""


@dataclass(frozen=True)
class Material:
    """Raw text for fitting, and labeled sentences for training and testing."""

    text: str
    labels: str
    corpus: tacenda.Corpus
    train: list[Sentence]
    test: list[Sentence]

    @property
    def example(self) -> Sentence:
        """The first sentence of the test part that fits into a line."""
        return next((s for s in self.test if 8 <= len(s[0]) <= 14), self.test[0])


def find(folder: Path, labelled: int, tested: int | None, lines: int | None) -> Material:
    """Real text where TACENDA_DATA names it, or else an invented language.

    Parameters
    ----------
    folder
        Where the tokenized text is kept for the next run.
    labelled
        Sentences with tags to train on.
    tested
        Sentences to test on; None for all of a treebank's test part (2000 of the invented
        language).
    lines
        Lines (sentences, of the invented language) of raw text; None for the default.

    Raises
    ------
    DataError
        TACENDA_DATA is set and the text or the treebank is not in that folder.
    """
    find_all = real if os.environ.get("TACENDA_DATA") else invented
    return find_all(folder, labelled, tested, lines)


def real(folder: Path, labelled: int, tested: int | None, lines: int | None) -> Material:
    """English: Wikipedia's good and featured articles, a paragraph a line, and the English Web Treebank."""
    path = tacenda.datasets.locate("wikipedia-good-articles")["train"]
    treebank = tacenda.datasets.locate("ud-english-ewt")
    settings: dict[str, Any] = {"max_vocabulary": 40_000, "digits": True, "oov": "classes"}
    corpus = tacenda.Corpus.from_text(
        path, tokenizer="words", processes=2, cache=folder, **settings
    )
    return Material(
        text="Wikipedia's good and featured articles"
        + ("" if lines is None else f", the first {lines:,} lines"),
        labels="UD_English-EWT",
        corpus=corpus if lines is None else corpus.head(lines),
        train=spread([(s.words, s.upos) for s in conllu.read(treebank["train"])], labelled),
        test=[(s.words, s.upos) for s in conllu.read(treebank["test"])][:tested],
    )


def invented(folder: Path, labelled: int, tested: int | None, lines: int | None) -> Material:
    """Generate a language with rich morphology from a seed."""
    n_sentences = lines or 100_000
    settings: dict[str, Any] = {"max_vocabulary": 20_000, "digits": True, "oov": "classes"}
    corpus = tacenda.Corpus.from_sentences(
        (s.words for s in islice(synthetic_text.sentences(seed=1), n_sentences)),
        cache=folder,
        cache_key=f"synthetic text, {n_sentences} sentences",
        **settings,
    )
    return Material(
        text=f"{n_sentences:,} sentences of an invented language (set TACENDA_DATA for real text)",
        labels="the same language",
        corpus=corpus,
        train=[(s.words, s.tags) for s in synthetic_text.generate(labelled, seed=2)],
        test=[(s.words, s.tags) for s in synthetic_text.generate(tested or 2000, seed=3)],
    )


def spread(sentences: list[Sentence], n: int) -> list[Sentence]:
    """Take n sentences at equal distances, so that every genre of a treebank is among them."""
    step = max(len(sentences) / n, 1.0)
    return [sentences[int(i * step)] for i in range(min(n, len(sentences)))]
