"""The studies of the slides: number of states, ablations, size of the feature map; and the memory of a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.language_models.contexts import Texts
from benchmarks.language_models.hidden_markov.fits import PROTOCOL, fitted
from benchmarks.pictures import Curve, Panel, draw
from benchmarks.reporting import Row
from tacenda_lm.hidden_markov.settings import VLHMMSettings
from tacenda_lm.hidden_markov.tables import Observed, sentences_at, text_of
from tacenda_lm.hidden_markov.training import Trainer, draw_network, find_classes

NAME = "lm-hidden-markov-studies"
STUDIES_PROTOCOL = {
    **PROTOCOL,
    "settings": "exchange classes, width 64, steps of 16,384 words, learning rate .08, the rate falling along half a "
    "cosine over the epochs of the row; the validation text looked at every fourth epoch and at the end",
    "states": "128 classes, half the states of every class left out of each step",
    "ablations": "128 classes of 32 states (2^12), half of them left out of each step, one thing changed at a time",
    "features": "no classes, no dropout: every state emits every word; steps of 4,096 words, learning rate .05",
}
EVERY_FOURTH = {"evaluate_every": 4}
SHARED: dict[str, Any] = {
    "n_classes": 128, "batch_words": 16384, "learning_rate": 0.08, "advanced": EVERY_FOURTH,
}  # fmt: skip
POWERS = (10, 11, 12, 13, 14, 15)
SIZES_EPOCHS, ABLATIONS_EPOCHS, FEATURES_EPOCHS = 8, 12, 3
ABLATIONS: dict[str, dict[str, Any]] = {
    "full": {},
    "- neural parameterization": {"advanced": {**EVERY_FOURTH, "neural": False}},
    "- state dropout": {"state_dropout": 0.0},
    "transitions flat": {"transitions": "flat"},
    "classes predictive": {"advanced": {**EVERY_FOURTH, "word_classes": "predictive"}},
}
DENSE: dict[str, Any] = {
    "n_classes": 1, "state_dropout": 0.0, "batch_words": 4096, "learning_rate": 0.05, "epochs": FEATURES_EPOCHS,
}  # fmt: skip
STATES, FEATURES = (64, 128, 256), (16, 32, 64, 128)


def plans() -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield what says which row it is, and the settings of its model."""
    for power in POWERS:
        row = {"part": "states", "what": f"2^{power} states, {SIZES_EPOCHS} epochs", "power": power}
        size = (1 << power) // SHARED["n_classes"]
        yield row, {**SHARED, "states_per_class": size, "epochs": SIZES_EPOCHS}
    for name, change in ABLATIONS.items():
        own = {"states_per_class": 32, "epochs": ABLATIONS_EPOCHS, **change}
        yield {"part": "ablations", "what": name}, {**SHARED, **own}
    for states in STATES:
        own = {**DENSE, "states_per_class": states}
        row = {"part": "features", "what": f"{states} states, softmax", "features": "softmax"}
        yield row, {**own, "transitions": "flat"}
        for f in FEATURES:
            row = {"part": "features", "what": f"{states} states, {f} features", "features": f}
            yield row, {**own, "transitions": "features", "advanced": {"n_features": f}}


def rows(options: Any) -> Iterator[Row]:
    texts = Texts()
    for row, settings in plans():
        if options.wants(f"{row['part']}: {row['what']}"):
            yield {**row, **fitted(texts, row["what"], settings)[1]}


def pictures(rows: list[Row]) -> None:
    """Draw perplexity by number of states, and by size of the feature map for each number of states."""
    own = sorted((row for row in rows if row["part"] == "states"), key=lambda row: row["states"])
    ticks = [f"$2^{{{row['power']}}}$" for row in own]
    curves = [
        Curve(role, [row[role] for row in own], color=f"C{n}")
        for n, role in enumerate(("train", "valid", "test"))
    ]
    states = [Panel("Penn Treebank", "states", curves, ticks)]
    draw(f"{NAME}-states", states, y_label="perplexity")
    curves = []
    for n, size in enumerate(STATES):
        own = [row for row in rows if row["part"] == "features" and row["states"] == size]
        found = {row["features"]: row["valid"] for row in own}
        level = found.pop("softmax", None)
        mapped = [found[f] for f in sorted(found)]
        curves.append(Curve(f"{size} states", mapped, color=f"C{n}"))
        if level is not None:
            flat = {"color": f"C{n}", "style": ":", "level": True}
            curves.append(Curve(f"{size} states, softmax", [level], **flat))
    features = [
        Panel("Penn Treebank, validation text", "features", curves, list(map(str, FEATURES)))
    ]
    draw(f"{NAME}-features", features, y_label="perplexity")


MEMORY_PROTOCOL = {
    "memory": "largest resident memory of a process (ru_maxrss), MiB: with the text read and words in classes; after "
    "five steps; after the evaluation of the validation text, which keeps all states. The formula is that of the "
    "documentation"
}
_STEPS, _MIB = 5, 1 << 20


def measure_memory(options: dict[str, Any]) -> Row:
    """Measure a training step in this process."""
    texts = Texts()
    settings = VLHMMSettings(**options)
    train, valid = text_of(texts.train), text_of(texts.valid)
    lexicon = find_classes(settings, texts.train, train[0])
    network = draw_network(settings, lexicon, *train)
    before = reporting.peak() / _MIB
    trainer = Trainer(settings, network, lexicon, *train, valid)
    borders = np.searchsorted(train[1], np.arange(_STEPS + 1) * settings.batch_words)
    pairs = 0
    for n in range(_STEPS):
        batch = np.arange(borders[n], borders[n + 1])
        pairs = max(pairs, len(Observed.of(*sentences_at(*train, batch), lexicon).sources))
        trainer.step(batch, 1e-3)
    stepped = reporting.peak() / _MIB
    trainer.evaluate()
    k = round(settings.states_per_class * (1 - settings.state_dropout))
    return {
        "states": settings.n_classes * settings.states_per_class,
        "pairs of classes": pairs,
        "formula": 4 * pairs * k * (2 * k + settings.width) / _MIB,
        "before": before,
        "after steps": stepped,
        "after evaluation": reporting.peak() / _MIB,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
    }
