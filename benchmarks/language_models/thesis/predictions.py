"""Figure 3.2: how probable the words of the test text are found, and what each decade costs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.language_models.thesis import flat, recipes
from benchmarks.language_models.thesis.fits import Scores
from benchmarks.language_models.thesis.recipes import Flat, Hierarchical, Recipe
from benchmarks.language_models.thesis.study import Study
from benchmarks.ratings.thesis import pictures
from benchmarks.ratings.thesis.pictures import Curve, Panel

DECADES = 8


def decades(scores: Scores) -> np.ndarray[Any, np.dtype[np.int64]]:
    """0 for probabilities above a tenth, 1 above a hundredth ... 7 for those below 10^-7."""
    return np.asarray(np.clip(np.ceil(-scores / np.log(10)).astype(np.int64) - 1, 0, DECADES - 1))


def main(study: Study) -> None:
    models: dict[str, Recipe] = {
        "LBL": Flat(),
        "KN5": flat.GRAMS,
        "HLBL": Hierarchical(recipes.BEST),
    }
    found: dict[str, tuple[list[float], list[float]]] = {}
    for name, recipe in models.items():
        scores = study.bench.fit(recipe).test
        bins = decades(scores)
        n = np.bincount(bins, minlength=DECADES)
        cost = np.bincount(bins, -scores, DECADES)
        found[name] = (
            (100 * n / n.sum()).round(2).tolist(),
            (100 * cost / cost.sum()).round(2).tolist(),
        )
    ends = ["1", "0.1", "0.01", "0.001", *(f"1e-{i}" for i in range(4, DECADES))]
    labels = [f"{low} to {high}" for high, low in pairwise(ends)] + ["less"]
    rows = [
        {
            "probability": label,
            **{f"{name} words %": found[name][0][i] for name in found},
            **{f"{name} cost %": found[name][1][i] for name in found},
        }
        for i, label in enumerate(labels)
    ]
    told = {
        "words %": "share of the words of the test text with such a probability",
        "cost %": "their share of the negative log-probability of the test text",
        "HLBL": recipes.BEST.name,
    }
    study.save("predictions", told, rows)
    if study.write:
        panels = [
            Panel(
                title,
                "probability of the word",
                [Curve(name, found[name][part], color=f"C{i}") for i, name in enumerate(found)],
                labels,
            )
            for part, title in enumerate(("words", "cost: share of the negative log-probability"))
        ]
        pictures.draw(study.name("predictions"), panels, y_label="%")
