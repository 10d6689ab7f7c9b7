"""The studies of the slides: number of states, ablations, size of the feature map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.language_models.hidden_markov import fits
from benchmarks.language_models.hidden_markov.fits import PROTOCOL, Row, Texts, fitted, measured
from benchmarks.language_models.hidden_markov.pictures import draw_features, draw_states
from tacenda_lm import VLHMM

NAME = "lm-hidden-markov-studies"
STUDIES_PROTOCOL = {
    **PROTOCOL,
    "settings": "exchange classes, width 64, steps of 16,384 words, learning rate .08, the rate falling along half a "
    "cosine over the epochs of the row; the validation text looked at every fourth epoch and at the end",
    "states": "128 classes, half the states of every class left out of each step",
    "ablations": "128 classes of 32 states (2^12), half of them left out of each step, one thing changed at a time",
    "features": "no classes, no dropout: every state emits every word; steps of 4,096 words, learning rate .05",
}
SHARED: dict[str, Any] = {"n_classes": 128, "batch_words": 16384, "learning_rate": 0.08}
EVERY_FOURTH = {"evaluate_every": 4}
POWERS = (10, 11, 12, 13, 14, 15)
SIZES_EPOCHS, ABLATIONS_EPOCHS, FEATURES_EPOCHS = 8, 12, 3
ABLATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("full", {}),
    ("- neural parameterisation", {"advanced": {**EVERY_FOURTH, "neural": False}}),
    ("- state dropout", {"state_dropout": 0.0}),
    ("transitions flat", {"transitions": "flat"}),
    ("classes predictive", {"advanced": {**EVERY_FOURTH, "word_classes": "predictive"}}),
)
DENSE: dict[str, Any] = {"n_classes": 1, "state_dropout": 0.0, "batch_words": 4096,
                         "learning_rate": 0.05}  # fmt: skip
STATES, FEATURES = (64, 128, 256), (16, 32, 64, 128)
PARTS = ("states", "ablations", "features")


def plan(part: str) -> Iterator[tuple[Row, dict[str, Any]]]:
    """What says which row it is, and the settings of its model."""
    if part == "states":
        for power in POWERS:
            own = {
                "states_per_class": (1 << power) // SHARED["n_classes"],
                "epochs": SIZES_EPOCHS,
                "advanced": EVERY_FOURTH,
            }
            name = f"2^{power} states, {SIZES_EPOCHS} epochs"
            yield {"what": name, "power": power}, {**SHARED, **own}
    elif part == "ablations":
        for name, change in ABLATIONS:
            own = {
                "states_per_class": 32,
                "epochs": ABLATIONS_EPOCHS,
                "advanced": EVERY_FOURTH,
                **change,
            }
            yield {"what": name}, {**SHARED, **own}
    else:
        for states in STATES:
            own = {"states_per_class": states, "epochs": FEATURES_EPOCHS}
            yield (
                {"what": f"{states} states, softmax", "features": "softmax"},
                {**DENSE, **own, "transitions": "flat"},
            )
            for f in FEATURES:
                how = {"transitions": "features", "advanced": {"n_features": f}}
                yield (
                    {"what": f"{states} states, {f} features", "features": f},
                    {**DENSE, **own, **how},
                )


def rows_of(part: str, texts: Texts, folder: Path | None, again: bool) -> Iterator[Row]:
    """The rows of a study; those of this code and the same settings are taken over unless ``again``.

    With a folder the models are kept there.
    """
    before = {} if again else measured(NAME)
    for named, settings in plan(part):
        known = before.get(named["what"])
        if known is not None and known["settings"] == VLHMM(**settings).settings.to_dict():
            yield known
            continue
        model, row = fitted(texts, named["what"], settings)
        if folder is not None:
            (folder / part).mkdir(parents=True, exist_ok=True)
            model.save(folder / part / named["what"].replace(" ", "-"))
        yield {**named, **row}


def draw(part: str) -> None:
    """The picture of a study that has one, beside its results."""
    rows = [row for row in fits.rows_of(NAME) if row["part"] == part]
    if part == "states":
        draw_states(f"{NAME}-states", rows)
    elif part == "features":
        draw_features(f"{NAME}-features", rows)
