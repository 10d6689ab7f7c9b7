"""The labelled data: sentences as (words, tags), split into train, dev and test.

Nothing is trained on text it is tested on: the unlabelled text is Wikipedia and novels, the labelled text
web English (EWT), newswire (treebank sample, CoNLL-2000, CoNLL-2003) and social media (WNUT-17).
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tacenda import datasets
from tacenda.datasets import columns, conllu, treebank

SPLIT_SEED = 0
PARTS = ("train", "dev", "test")
SCHEMES: dict[str, columns.Scheme] = {"conll2003": "iob1", "wnut17": "iob2"}  # of entities


class Sentence(NamedTuple):
    words: list[str]
    tags: list[str]


@dataclass(frozen=True)
class Task:
    """A labelled data set; `seed` of a subset draws its sentences, the same for every row."""

    name: str
    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]

    def subset(self, size: int | None, seed: int) -> np.ndarray:
        """Indices of `size` random training sentences, or of all."""
        if size is None:
            return np.arange(len(self.train))
        return np.random.default_rng(seed).permutation(len(self.train))[:size]


@cache
def load(name: str) -> Task:
    if name.startswith("ewt-"):
        files = datasets.locate("ud-english-ewt")
        return Task(name, *(universal(files[part], name.removeprefix("ewt-")) for part in PARTS))
    if name.startswith("treebank-"):
        return _treebank(name)
    if name == "conll2000":
        return _chunks()
    files, scheme = datasets.locate(name), SCHEMES[name]
    read = (columns.read_ner(files[part], scheme) for part in PARTS)
    return Task(name, *([Sentence(list(w), list(tags)) for w, tags in part] for part in read))


def arcs(sentence: conllu.Sentence) -> list[str]:
    """Return the head of each word, counted from 0 and its own for a root, and the relation: "3 nsubj"."""
    heads = (i if head == 0 else head - 1 for i, head in enumerate(sentence.heads))
    return [f"{head} {relation}" for head, relation in zip(heads, sentence.relations, strict=True)]


def universal(path: Path, tags: str = "upos") -> list[Sentence]:
    """Return the sentences of a CoNLL-U file with these tags, or with their trees ("arcs")."""
    return [
        Sentence(list(s.words), arcs(s) if tags == "arcs" else list(getattr(s, tags)))
        for s in conllu.read(path)
    ]


def _treebank(name: str) -> Task:
    """The sample with its Penn tags, split by file; quotes as in plain text.

    `treebank-xpos` takes the files in their order: 0001-0110 train, 0111-0125 dev, 0126-0199 test.
    `treebank-drawn` draws them, with a seed of its own: 120 train, 29 dev, 50 test.
    """
    parts: tuple[list[Sentence], ...] = ([], [], [])
    with zipfile.ZipFile(datasets.locate("treebank-sample")["trees"]) as files:
        names = sorted(n for n in files.namelist() if "combined/" in n and n.endswith(".mrg"))
        ends = (110, 125)
        if name == "treebank-drawn":
            names = [names[i] for i in np.random.default_rng(SPLIT_SEED).permutation(len(names))]
            ends = (120, 149)
        for i, file in enumerate(names):
            part = parts[0 if i < ends[0] else 1 if i < ends[1] else 2]
            lines: Iterable[str] = io.TextIOWrapper(files.open(file), encoding="utf8")
            for sentence in treebank.parse(enumerate(lines, 1), file):
                part.append(Sentence(_plain_quotes(sentence.words), list(sentence.tags)))
    return Task(name, *parts)


def _chunks() -> Task:
    """CoNLL-2000: the last 936 of the 8,936 training sentences are the dev part, which it lacks."""
    files = datasets.locate("conll2000")
    train, test = (
        [
            Sentence(_plain_quotes(each["word"]), list(each["chunk"]))
            for each in columns.read(files[part], columns.CONLL2000)
        ]
        for part in ("train", "test")
    )
    return Task("conll2000", train[:-936], train[-936:], test)


def _plain_quotes(words: Iterable[str]) -> list[str]:
    return ['"' if word in ("``", "''") else word for word in words]


def spans(tags: list[str]) -> set[tuple[int, int, str]]:
    """(start, end, type) of the entities or chunks of IOB2 or repaired IOB tags."""
    found, start = set(), None
    for i, tag in enumerate([*tags, "O"]):
        if start is not None and not (tag[0] == "I" and tag[2:] == tags[start][2:]):
            found.add((start, i, tags[start][2:]))
            start = None
        if tag != "O" and start is None:
            start = i
    return found


def span_f1(guesses: Iterable[list[str]], truth: Iterable[list[str]]) -> float:
    """F1 of exact spans in percent."""
    right = guessed = true = 0
    for guess, gold in ((spans(a), spans(b)) for a, b in zip(guesses, truth, strict=True)):
        right, guessed, true = right + len(guess & gold), guessed + len(guess), true + len(gold)
    return 200 * right / max(guessed + true, 1)
