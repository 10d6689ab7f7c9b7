"""Table 3.1: restricted Boltzmann machines of words, plain and temporal, alone and with n-grams."""

from __future__ import annotations

from typing import Any

from benchmarks.language_models.contexts import CONTEXTS, EITHER
from benchmarks.language_models.thesis import published
from benchmarks.language_models.thesis.fits import mixed
from benchmarks.language_models.thesis.recipes import Machine, NGrams
from benchmarks.language_models.thesis.study import Study

GRAMS = NGrams(5)


def row_of(study: Study, recipe: Machine, context: Any) -> dict[str, Any]:
    """A machine by itself and in mixtures, in one context."""
    fit = study.bench.fit(recipe, context)
    both = mixed(fit, study.bench.fit(GRAMS))
    row = {
        "model": recipe.name,
        "hidden": recipe.hidden,
        "scored": context,
        "perplexity": fit.perplexity,
        "halves": both.halves,
        "fitted": both.fitted,
        "share": both.share,
        "validation": min(fit.facts["evaluations"]),
        "epochs": len(fit.facts["evaluations"]),
        "CPU seconds": fit.facts["seconds"],
    }
    name = "temporal FRBM, 2 words" if recipe.temporal else "FRBM, 2 words"
    alone, half = published.TABLE_3_1[name]
    return {**row, "perplexity APNews": alone, "halves APNews": half}


def main(study: Study) -> None:
    rows = [
        row_of(study, recipe, context) for recipe in study.plan.machines for context in CONTEXTS
    ]
    alone = study.bench.fit(GRAMS).perplexity
    rows.append({"model": GRAMS.name, "scored": EITHER, "perplexity": alone})
    told = {
        "mixtures": "with interpolated KN5 (the thesis: back-off KN6): equal shares; the share of the machine fitted "
        "on the validation text, in the context of the row",
        "validation": "perplexity of the validation text as a stream, which training stops by",
        "APNews": "Table 3.1: 10 million words of training text, 1000 hidden units, by contrastive divergence",
    }
    study.save("machines", told, rows)
