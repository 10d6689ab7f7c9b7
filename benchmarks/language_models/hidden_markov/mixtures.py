"""Hidden Markov models of different word classes in one mixture, with n-grams and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.language_models.hidden_markov.fits import (
    Row,
    Texts,
    fitted,
    measured,
    mixed,
    ngrams,
)
from tacit_lm import VLHMM
from tacit_lm.language_model import LanguageModel

__all__ = ["NAME", "rows_of"]

NAME = "lm-hidden-markov-mixtures"
SHARED: dict[str, Any] = {"batch": 16384, "learning_rate": 0.08}
COMPONENTS: dict[str, dict[str, Any]] = {
    "256 exchange classes of 64": {"n_classes": 256, "states_per_class": 64, "epochs": 17},
    "256 predictive classes of 64": {"n_classes": 256, "states_per_class": 64, "epochs": 17, "classes": "predictive"},
    "512 exchange classes of 64, .75": {"n_classes": 512, "states_per_class": 64, "epochs": 17, "state_dropout": 0.75},
}  # fmt: skip
NGRAMS = "KneserNey(5)"


def component(
    texts: Texts, name: str, settings: dict[str, Any], folder: Path | None
) -> tuple[VLHMM, Row]:
    """A model and its row; taken from ``folder`` where it was fitted with the same settings before."""
    if folder is None:
        return fitted(texts, name, settings)
    at = folder / name.replace(" ", "-").replace(",", "")
    known = measured(NAME).get(name)
    if (at / "model").exists() and known and settings.items() <= known["settings"].items():
        return VLHMM.load(at / "model"), known
    model, row = fitted(texts, name, settings, at / "fit")
    model.save(at / "model")
    return model, row


def rows_of(texts: Texts, folder: Path | None) -> Iterator[Row]:
    """Each model, each with n-grams; then one more model at a time in the mixture."""
    others, row = ngrams(texts)
    yield row
    together: dict[str, LanguageModel] = {}
    for name, settings in COMPONENTS.items():
        model, row = component(texts, name, {**SHARED, **settings}, folder)
        yield row
        yield mixed(texts, f"{name} + {NGRAMS}", {name: model, NGRAMS: others})
        together[name] = model
        if len(together) > 1:
            what = f"the first {len(together)} models"
            yield mixed(texts, what, together)
            yield mixed(texts, f"{what} + {NGRAMS}", {**together, NGRAMS: others})
