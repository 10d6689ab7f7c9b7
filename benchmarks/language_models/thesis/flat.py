"""Tables 3.1 and 3.2: the LBL by context, noise-contrastive and exact, beside n-grams of every kind."""

from __future__ import annotations

from typing import Any

from benchmarks.language_models.contexts import EITHER
from benchmarks.language_models.thesis import published
from benchmarks.language_models.thesis.fits import mixed
from benchmarks.language_models.thesis.recipes import EXACT_EPOCHS, Flat, NGrams
from benchmarks.language_models.thesis.study import Study

INTERPOLATED, BACKOFF, KATZ = (3, 5, 6, 9), (3, 5, 6, 9), (3, 6)
GRAMS = NGrams(5)


def main(study: Study) -> None:
    bench, plan = study.bench, study.plan
    five = bench.fit(GRAMS)
    rows: list[dict[str, Any]] = []
    models = [Flat(n) for n in plan.flat] + [Flat(n, "softmax", EXACT_EPOCHS) for n in plan.exact]
    for recipe in models:
        fit = bench.fit(recipe)
        both = mixed(fit, five)
        row = {
            "model": "LBL by NCE" if recipe.loss == "nce" else "LBL, exact",
            "context": recipe.context,
            "perplexity": fit.perplexity,
            "halves": both.halves,
            "fitted": both.fitted,
            "share": both.share,
            "validation": min(fit.facts["evaluations"]),
            "epochs": len(fit.facts["evaluations"]),
            "CPU seconds": fit.facts["seconds"],
        }
        if recipe.context in published.LBL:
            names = ("perplexity", "halves", "fitted", "share")
            theirs = published.LBL[recipe.context]
            row |= {f"{k} APNews": v for k, v in zip(names, theirs, strict=True)}
        rows.append(row)
    grams = [NGrams(n) for n in INTERPOLATED]
    grams += [NGrams(n, "backoff") for n in BACKOFF] + [NGrams(n, "good_turing") for n in KATZ]
    for each in grams:
        row = {"model": each.name, "context": each.order - 1}
        row["perplexity"] = bench.fit(each).perplexity
        if each.smoothing == "backoff":
            row["perplexity APNews"] = published.BACKOFF[each.order]
        rows.append(row)
    told = {
        "mixtures": "with interpolated KN5 (the thesis: the back-off form): equal shares; the share of the LBL "
        "fitted on the validation text",
        "validation": "perplexity of the text that training stops by; of a long one its first 80,000 words",
    }
    study.save("flat", told, rows, EITHER)
