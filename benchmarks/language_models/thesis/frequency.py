"""Tables 3.3, 3.4 and 4.10 to 4.12: perplexity by how frequent the next word is, or the last word before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.language_models.contexts import EITHER
from benchmarks.language_models.thesis import flat, published, random_trees, recipes
from benchmarks.language_models.thesis.fits import Scores
from benchmarks.language_models.thesis.recipes import Flat, Hierarchical, Recipe
from benchmarks.language_models.thesis.study import Study
from benchmarks.language_models.thesis.texts import BINS

RATIOS = (("LBL", "KN5"), ("HLBL", "LBL"), ("HLBL", "HLBL random"))
"""Of Tables 3.3 and 3.4, 4.10 and 4.12, 4.11."""


def by_bin(scores: Scores, bins: np.ndarray[Any, np.dtype[np.int64]]) -> list[float]:
    """Perplexity of the tokens of each bin."""
    sums, n = np.bincount(bins, -scores, BINS), np.bincount(bins, minlength=BINS)
    return [round(float(value), 1) for value in np.exp(sums / n)]


def main(study: Study) -> None:
    texts = study.bench.texts
    copies = max(study.plan.repeats)
    models: dict[str, Recipe] = {
        "LBL": Flat(),
        "KN5": flat.GRAMS,
        "HLBL": Hierarchical(recipes.BEST),
        "HLBL random": Hierarchical(random_trees.shapes(copies, 1)[0]),
    }
    scores = {name: study.bench.fit(recipe).test for name, recipe in models.items()}
    sizes = np.bincount(texts.bins, minlength=BINS)
    for what, words, theirs in (
        ("next-word", texts.tested, published.NEXT_WORD),
        ("last-word", texts.before, published.LAST_WORD),
    ):
        bins = texts.bins[words]
        found = {name: by_bin(each, bins) for name, each in scores.items()}
        covered = 100 * np.bincount(bins, minlength=BINS) / len(bins)
        rows = []
        for i in range(BINS):
            row: dict[str, Any] = {"bin": i + 1, "types": int(sizes[i])}
            row["% of test"] = round(float(covered[i]), 1)
            row |= {name: found[name][i] for name in models}
            for first, second in RATIOS:
                ratio = found[first][i] / found[second][i]
                row[f"{first} / {second}"] = round(ratio, 2)
                row[f"log {first} / {second}"] = round(float(np.log(ratio)), 2)
                if first in theirs and second in theirs:
                    ratio = theirs[first][i] / theirs[second][i]
                    row[f"{first} / {second} APNews"] = round(ratio, 2)
            row |= {f"{name} APNews": values[i] for name, values in theirs.items()}
            row["types APNews"] = published.BIN_WORDS[i]
            rows.append(row)
        told = {
            "bins": "types by their training frequency, rarest first, each bin about a tenth of the training tokens",
            "what": f"frequency of the {what.replace('-', ' ')}",
            "HLBL": recipes.BEST.name,
            "HLBL random": models["HLBL random"].name,
        }
        study.save(what, told, rows, EITHER)
