"""State-space models: speed of scoring and of training, letters and words as tokens.

    python -m benchmarks.language_models.state_space_speed [--repeats 7]

Letters are those of the Finnish book, words those of Penn Treebank. How long the most probable state takes depends on
how far it is from the predicted one, and so on the training.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.language_models import timing
from benchmarks.language_models.state_space.letters import DEVELOPMENT, OFFSETS, Excerpt
from tacenda import Corpus, datasets
from tacenda_lm import StateSpaceLM

Row = dict[str, Any]
PROTOCOL = {
    "repeats": timing.PROTOCOL,
    "model": "order 5, N_q 40, N_l 25; letters: one epoch of training, words: none",
    "one stream": "a text of so many tokens, token after token",
    "side by side": "the same text as sentences, 64 at a time",
    "training": "tokens of one epoch, evaluation left out",
}
_WORDS = 4_000  # tokens that are scored, where tokens are words


def scoring(tokens: str, model: StateSpaceLM, ids: Any, repeats: int) -> Iterator[Row]:
    """One text as one sequence, and cut into 64."""
    cuts = {
        "one stream": np.array([0, len(ids)]),
        "side by side": np.linspace(0, len(ids), 65).astype(int),
    }
    works: dict[str, Callable[[], Any]] = {
        way: lambda offsets=offsets: model.score_corpus(ids, offsets)  # type: ignore[misc]
        for way, offsets in cuts.items()
    }
    for way, found in timing.interleaved(works, repeats).items():
        row = {"part": "scoring", "tokens": tokens, "state": model.settings.inference, "given": way}
        yield {**row, **timing.rate(len(ids), found, "tokens/s"), "load": load()}


def training(tokens: str, corpus: Corpus, inference: str, repeats: int) -> Row:
    """One epoch."""
    works = {"epoch": lambda: StateSpaceLM(epochs=1, inference=inference).fit(corpus)}
    found = timing.interleaved(works, repeats)["epoch"]
    row = {"part": "training", "tokens": tokens, "state": inference}
    return {**row, **timing.rate(corpus.n_tokens, found, "tokens/s"), "load": load()}


def load() -> float:
    return round(os.getloadavg()[0], 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    book = Excerpt.at(OFFSETS[0])
    letters = book.corpus("dense")
    words = Corpus.from_text(datasets.locate("ptb")["train"])
    rows: list[Row] = []
    for inference in ("step", "map"):
        model = StateSpaceLM(epochs=1, inference=inference).fit(letters)
        ids = letters.vocabulary.encode(book.development)
        rows += scoring(f"{DEVELOPMENT:,} letters", model, ids, options.repeats)
        large = StateSpaceLM(epochs=0, inference=inference).fit(words)
        ids = np.asarray(words.ids[:_WORDS])
        rows += scoring(
            f"{_WORDS:,} of {len(words.vocabulary):,} words", large, ids, options.repeats
        )
        rows.append(training("letters", letters, inference, min(options.repeats, 3)))
    reporting.save("lm-state-space-speed", PROTOCOL, rows, seeds=(0,))


if __name__ == "__main__":
    main()
