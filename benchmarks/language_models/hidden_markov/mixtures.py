"""Hidden Markov models of different word classes in one mixture, beside n-grams and a log-bilinear model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.language_models import log_bilinear
from benchmarks.language_models.hidden_markov.fits import (
    Row,
    Texts,
    fitted,
    measured,
    mixed,
    named,
    ngrams,
    perplexities,
)
from tacenda_lm import VLHMM
from tacenda_lm.language_model import LanguageModel

NAME = "lm-hidden-markov-mixtures"
SHARED: dict[str, Any] = {"n_classes": 256, "batch_words": 16384, "learning_rate": 0.08}
COMPONENTS: dict[str, dict[str, Any]] = {
    "exchange": {"states_per_class": 128, "state_dropout": 0.75, "epochs": 45},
    "small exchange": {"states_per_class": 64, "epochs": 17},
    "predictive": {
        "states_per_class": 64,
        "epochs": 17,
        "advanced": {"word_classes": "predictive"},
    },
}
NGRAMS, BILINEAR = "KneserNey(5)", "HLBL"
MIXTURES = (
    ("small exchange", "predictive"),
    ("exchange", "predictive"),
    ("exchange", NGRAMS),
    ("predictive", NGRAMS),
    ("exchange", "predictive", NGRAMS),
    ("exchange", BILINEAR),
    ("exchange", BILINEAR, NGRAMS),
    ("exchange", "predictive", BILINEAR, NGRAMS),
)


def component(
    texts: Texts, name: str, settings: dict[str, Any], folder: Path | None
) -> tuple[VLHMM, Row]:
    """A model and its row; taken from ``folder`` where it was fitted with the same settings before."""
    if folder is None:
        return fitted(texts, name, settings)
    at, known = folder / name, measured(NAME).get(name)
    wanted = VLHMM(**settings).settings.to_dict()
    if (at / "model").exists() and known and known["settings"] == wanted:
        return VLHMM.load(at / "model"), known
    model, row = fitted(texts, name, settings, at / "fit")
    model.save(at / "model")
    return model, row


def rows_of(texts: Texts, folder: Path | None) -> Iterator[Row]:
    """Each model alone, and mixtures of some, all on the same texts."""
    models: dict[str, LanguageModel] = {}
    for name, settings in COMPONENTS.items():
        models[name], row = component(texts, name, {**SHARED, **settings}, folder)
        yield row
    models[BILINEAR], fit = log_bilinear.fitted(texts.train, texts.valid)
    for row in named(BILINEAR, perplexities(models[BILINEAR], texts, ("valid", "test"))):
        yield {**row, "CPU seconds": fit["CPU s"]}
    models[NGRAMS], row = ngrams(texts)
    yield row
    for names in MIXTURES:
        yield from mixed(texts, " + ".join(names), {name: models[name] for name in names})
