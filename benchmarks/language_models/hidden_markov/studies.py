"""The studies of the slides: number of states, and each technique left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.language_models.contexts import Texts
from benchmarks.language_models.hidden_markov.fits import PROTOCOL, fitted
from benchmarks.pictures import Curve, Panel, draw
from benchmarks.reporting import Row

NAME = "lm-hidden-markov-studies"
STUDIES_PROTOCOL = {
    **PROTOCOL,
    "settings": "exchange classes, width 64, steps of 16,384 words, learning rate .08, the rate falling along half a "
    "cosine over the epochs of the row; the validation text looked at every fourth epoch and at the end",
    "states": "128 classes, half the states of every class left out of each step",
    "ablations": "128 classes of 32 states (2^12), half of them left out of each step, one thing changed at a time",
}
EVERY_FOURTH = {"evaluate_every": 4}
SHARED: dict[str, Any] = {
    "n_classes": 128, "batch_words": 16384, "learning_rate": 0.08, "advanced": EVERY_FOURTH,
}  # fmt: skip
POWERS = (10, 11, 12, 13, 14, 15)
SIZES_EPOCHS, ABLATIONS_EPOCHS = 8, 12
ABLATIONS: dict[str, dict[str, Any]] = {
    "full": {},
    "- neural parameterization": {"advanced": {**EVERY_FOURTH, "neural": False}},
    "- state dropout": {"state_dropout": 0.0},
    "transitions flat": {"transitions": "flat"},
    "classes predictive": {"advanced": {**EVERY_FOURTH, "word_classes": "predictive"}},
}


def plans() -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield what says which row it is, and the settings of its model."""
    for power in POWERS:
        row = {"part": "states", "what": f"2^{power} states, {SIZES_EPOCHS} epochs", "power": power}
        size = (1 << power) // SHARED["n_classes"]
        yield row, {**SHARED, "states_per_class": size, "epochs": SIZES_EPOCHS}
    for name, change in ABLATIONS.items():
        own = {"states_per_class": 32, "epochs": ABLATIONS_EPOCHS, **change}
        yield {"part": "ablations", "what": name}, {**SHARED, **own}


def rows(options: Any) -> Iterator[Row]:
    texts = Texts()
    for row, settings in plans():
        if options.wants(f"{row['part']}: {row['what']}"):
            yield {**row, **fitted(texts, row["what"], settings)[1]}


def picture(rows: list[Row]) -> None:
    """Draw perplexity by number of states."""
    own = sorted((row for row in rows if row["part"] == "states"), key=lambda row: row["states"])
    ticks = [f"$2^{{{row['power']}}}$" for row in own]
    curves = [
        Curve(role, [row[role] for row in own], color=f"C{n}")
        for n, role in enumerate(("train", "valid", "test"))
    ]
    draw(f"{NAME}-states", [Panel("Penn Treebank", "states", curves, ticks)], y_label="perplexity")
