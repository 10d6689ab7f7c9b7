"""Choose what SumEmbed's constants are: right tags in German and French development parts, printed.

python -m benchmarks.embeddings.word_settings german french

Of a treebank's training part, or of half of its development part where it has none here, 250 sentences are labeled,
six times. Tags are predicted by a ridge regression from the vectors of a token and its neighbors, its last three
letters and its shape: a second a row, and it ranks vectors as spaCy's tagger does. No test part is read.
"""

from __future__ import annotations

import argparse
import lzma
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.embeddings.labelled import data_folder
from tacenda import Corpus
from tacenda.datasets import conllu
from tacenda_embeddings import SumEmbed
from tacenda_embeddings.varembed import model as varembed

Floats = npt.NDArray[np.float32]
Sentences = Sequence[conllu.Sentence]

LABELED, DRAWS, RIDGES = 250, 6, (0.3, 1.0, 3.0, 10.0)
TREEBANKS = {  # training part, or None, and development part
    "german": (None, "ud/UD_German-GSD/de_gsd-ud-dev.conllu"),
    "french": (
        "languages/french/fr_sequoia-ud-train.conllu.xz",
        "languages/french/fr_sequoia-ud-dev.conllu.xz",
    ),
}
TOKENIZERS = {"german": "words", "french": "spacy:fr"}
#: Constants of `varembed.model` and options of the model; the first row is what the code has.
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it is": ({}, {}),
    "window 10": ({"_WINDOW": 10}, {}),
    "window 3": ({"_WINDOW": 3}, {}),
    "roots of lengths": ({"_LENGTH_POWER": 0.5}, {}),
    "adjacent words count twice": ({}, {"start_adjacent": 1.4}),
    "shrinkage 5": ({}, {"start_shrinkage": 5.0}),
    "shrinkage 60": ({}, {"start_shrinkage": 60.0}),
    "power .5": ({}, {"power": 0.5}),
    "power .25": ({}, {"power": 0.25}),
}


def corpus(language: str) -> Corpus:
    """The raw text of a language, as `tacenda embed fit --model vectors` reads it."""
    with lzma.open(
        data_folder() / "languages" / language / "raw.txt.xz", "rt", encoding="utf8"
    ) as f:
        lines = f.read()
    return Corpus.from_text(
        lines, tokenizer=TOKENIZERS[language], max_vocabulary=40_000, digits=True, oov="classes"
    )


def draws(language: str) -> Iterator[tuple[Sentences, Sentences]]:
    """Yield labeled sentences and those that are scored, once a draw."""
    train, dev = (path and list(conllu.read(data_folder() / path)) for path in TREEBANKS[language])
    for seed in range(DRAWS):
        of = train or dev
        order = np.random.default_rng(seed).permutation(len(of))
        yield [of[i] for i in order[:LABELED]], dev if train else [of[i] for i in order[LABELED:]]


def accuracy(language: str, vectors: Callable[[list[str]], Floats]) -> float:
    """Return right tags in percent, the mean over draws with the best ridge."""
    scores = []
    for labeled, scored in draws(language):
        known: dict[str, int] = {}
        X, Z = (features(part, vectors, known, part is labeled) for part in (labeled, scored))
        tags, y = np.unique([tag for s in labeled for tag in s.upos], return_inverse=True)
        gram, target = X.T @ X, X.T @ np.eye(len(tags), dtype=np.float32)[y]
        truth = np.array([tag for s in scored for tag in s.upos])
        found = [
            Z @ np.linalg.solve(gram + np.float32(r) * np.eye(len(gram), dtype=np.float32), target)
            for r in RIDGES
        ]
        scores.append([np.mean(tags[each.argmax(1)] == truth) for each in found])
    return float(100 * np.mean(scores, axis=0).max())


def features(
    part: Sentences, vectors: Callable[[list[str]], Floats], known: dict[str, int], new: bool
) -> Floats:
    """Return a row for each token; ``known`` numbers the endings and shapes, and gets those that are new."""
    words = [word for s in part for word in s.words]
    marks = [(word.lower()[-3:], f"{word[:1].isupper()} {word.isalpha()}") for word in words]
    if new:
        for mark in (mark for pair in marks for mark in pair):
            known.setdefault(mark, len(known))
    own = vectors(words)
    rows = np.zeros((len(words), 3 * own.shape[1] + len(known) + 1), np.float32)
    width = own.shape[1]
    ends = np.cumsum([len(s.words) for s in part])
    rows[:, :width] = 3 * own
    rows[1:, width : 2 * width] = 2 * own[:-1]
    rows[:-1, 2 * width : 3 * width] = 2 * own[1:]
    rows[ends[:-1], width : 2 * width] = rows[ends - 1, 2 * width : 3 * width] = 0
    for i, pair in enumerate(marks):
        rows[i, [3 * width + known[mark] for mark in pair if mark in known]] = 1
    rows[:, -1] = 1
    return rows


def measure(language: str, text: Corpus, name: str) -> str:
    """Fit a row and return its line of the table."""
    constants, advanced = ROWS[name]
    usual = {constant: getattr(varembed, constant) for constant in constants}
    try:
        vars(varembed).update(constants)
        begun = time.process_time()
        model = SumEmbed(advanced=advanced).fit(text)
        seconds = time.process_time() - begun
    finally:
        vars(varembed).update(usual)
    figure = accuracy(language, lambda words: model.scaled_vectors(words) / model.width**0.5)
    return f"{language}\t{name}\t{figure:.2f}\t{seconds:.0f} CPU seconds"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=Path(__file__).stem)
    parser.add_argument("languages", nargs="+", choices=TREEBANKS)
    for language in parser.parse_args().languages:
        text = corpus(language)
        for name in ROWS:
            print(measure(language, text, name), flush=True)
