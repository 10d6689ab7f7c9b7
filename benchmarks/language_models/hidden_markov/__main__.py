"""Hidden Markov language models on Penn Treebank and WikiText-2.

    python -m benchmarks.language_models.hidden_markov                                         all tables
    python -m benchmarks.language_models.hidden_markov --tables lm-hidden-markov-mixtures      one of them
    python -m benchmarks.language_models.hidden_markov --tables lm-hidden-markov-flat          for a GPU, in minutes

Penn Treebank (Mikolov's split) and WikiText-2 from TACENDA_DATA or the cache. The studies are those of the slides:
number of states, and ablations. Fitted models are kept, and a fit that was killed is resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.language_models.contexts import Texts
from benchmarks.language_models.hidden_markov import mixtures, studies
from benchmarks.language_models.hidden_markov.fits import PROTOCOL, fitted, mixed, ngrams
from benchmarks.reporting import Row, Table, main

MAIN: dict[str, Any] = {"n_classes": 256, "states_per_class": 64, "batch_words": 16384,
                        "learning_rate": 0.08}  # fmt: skip
LARGE: dict[str, Any] = {**MAIN, "states_per_class": 128, "state_dropout": 0.75}
SMALL: dict[str, Any] = {**MAIN, "states_per_class": 32, "learning_rate": 0.07}
FITS: dict[str, tuple[str, dict[str, Any]]] = {  # parts: names and settings
    "quick": ("VLHMM, 14 epochs", {**SMALL, "epochs": 14}),
    "fit": ("VLHMM", {**MAIN, "epochs": 17}),
    "large": ("VLHMM, 2^15 states, 45 epochs", {**LARGE, "epochs": 45}),
}
WIKITEXT: dict[str, Any] = {**MAIN, "epochs": 10, "advanced": {"evaluate_every": 5}}

FLAT: dict[str, Any] = {"transitions": "flat", "batch_words": 8192, "learning_rate": 0.04, "epochs": 48,
                        "advanced": {"evaluate_every": 4}}  # fmt: skip
BROWN: dict[str, Any] = {**FLAT["advanced"], "word_classes": "brown"}
FLATS: dict[str, dict[str, Any]] = {
    "2^14 states, Brown classes": {
        **FLAT, "n_classes": 128, "states_per_class": 128, "width": 256, "advanced": BROWN,
    },
    "2^14 states": {**FLAT, "n_classes": 256, "states_per_class": 64, "width": 128},
    "2^15 states": {**FLAT, "n_classes": 256, "states_per_class": 128, "width": 128},
}  # fmt: skip
FLAT_PROTOCOL = {
    **PROTOCOL,
    "settings": "one softmax over all states, half of the states left out of each step; with Brown classes, all but "
    "the steps of 8,192 words is as in Chiu and Rush (2020); no other settings were tried for so many epochs",
    "seconds": "of the fit by the clock, on the device of the run, which does other work besides",
}


def fit(texts: Texts, name: str, settings: dict[str, Any]) -> Iterator[Row]:
    """Yield a model alone and mixed with n-grams."""
    model, row = fitted(texts, name, settings)
    yield row
    others, row = ngrams(texts)
    yield row
    yield from mixed(texts, f"{name} + KneserNey(5)", {"vlhmm": model, "kneser_ney": others})


def fits(options: Any) -> Iterator[Row]:
    texts, seen = Texts(), set[str]()
    for part in options.chosen(FITS):
        for row in fit(texts, *FITS[part]):
            if row["what"] not in seen:  # n-grams once
                yield {"part": part, **row}
            seen.add(row["what"])


def wikitext(options: Any) -> Iterator[Row]:
    texts, name = Texts("wikitext-2"), "VLHMM, 2^14 states, 10 epochs"
    rows = fit(texts, name, WIKITEXT) if options.wants(name) else [ngrams(texts)[1]]
    for row in rows:
        yield {"part": "wikitext-2", **row}


def flats(options: Any) -> Iterator[Row]:
    texts = Texts()
    for name in options.chosen(FLATS):
        yield from fit(texts, name, FLATS[name])


NAME = "lm-hidden-markov"
TABLES = (
    Table(NAME, PROTOCOL, fits, key="what"),
    Table(studies.NAME, studies.STUDIES_PROTOCOL, studies.rows, key="what", after=studies.picture),
    Table(f"{NAME}-mixtures", PROTOCOL, mixtures.rows, key="what"),
    Table(f"{NAME}-wikitext-2", PROTOCOL, wikitext, key="what"),
    Table(f"{NAME}-flat", FLAT_PROTOCOL, flats, key="what"),
)
if __name__ == "__main__":
    torch.set_num_threads(1)
    main(__doc__, *TABLES)
