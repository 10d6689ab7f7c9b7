"""Hidden Markov models of different word classes in one mixture, beside n-grams and a log-bilinear model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.language_models import contexts
from benchmarks.language_models.contexts import Texts
from benchmarks.language_models.hidden_markov.fits import fitted, mixed, named, ngrams, perplexities
from benchmarks.reporting import Row
from tacenda_lm import HLBL, LanguageModel

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


def rows(options: Any) -> Iterator[Row]:
    """Yield each model that is asked for alone, and their mixtures, all on the same texts."""
    texts, models = Texts(), dict[str, LanguageModel]()
    asked = options.chosen([*COMPONENTS, BILINEAR, NGRAMS])
    for name in (each for each in asked if each in COMPONENTS):
        models[name], row = fitted(texts, name, {**SHARED, **COMPONENTS[name]})
        yield row
    if BILINEAR in asked:
        models[BILINEAR], fit = contexts.fitted(HLBL(), texts.name, texts.train, texts.valid)
        for row in named(BILINEAR, perplexities(models[BILINEAR], texts, ("valid", "test"))):
            yield {**row, "CPU seconds": fit["CPU s"]}
    if NGRAMS in asked:
        models[NGRAMS], row = ngrams(texts)
        yield row
    for names in (each for each in MIXTURES if models.keys() >= set(each)):
        yield from mixed(texts, " + ".join(names), {name: models[name] for name in names})
