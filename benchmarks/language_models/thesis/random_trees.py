"""Table 4.1: HLBL on random trees, also overcomplete ones."""

from __future__ import annotations

from typing import Any

from benchmarks.embeddings.common import spread
from benchmarks.language_models.contexts import EITHER
from benchmarks.language_models.thesis import published
from benchmarks.language_models.thesis.recipes import Flat, Hierarchical, NGrams, Shape
from benchmarks.language_models.thesis.study import Study

ORDERS = (2, 3, 6)


def shapes(copies: int, repeats: int) -> list[Shape]:
    """Trees of so many subtrees each, no two of them with a subtree in common."""
    return [
        Shape("random", seeds=tuple(range(copies * n, copies * (n + 1)))) for n in range(repeats)
    ]


def main(study: Study) -> None:
    rows: list[dict[str, Any]] = []
    for copies, repeats in study.plan.repeats.items():
        trees = shapes(copies, repeats)
        found = [study.bench.fit(Hierarchical(tree)).perplexity for tree in trees]
        rows.append(
            {
                "model": f"HLBL, {trees[0].name}",
                "trees": repeats,
                "perplexity": spread(found),
                "perplexity APNews": published.RANDOM[copies],
            }
        )
    for order in ORDERS:
        grams = study.bench.fit(NGrams(order))
        rows.append(
            {
                "model": grams.name,
                "perplexity": grams.perplexity,
                "perplexity APNews": published.INTERPOLATED[order],
            }
        )
    rows.append(
        {
            "model": "LBL",
            "perplexity": study.bench.fit(Flat()).perplexity,
            "perplexity APNews": published.MODELS["LBL"][0],
        }
    )
    study.save(
        "random-trees", {"trees": "mean and standard deviation over different trees"}, rows, EITHER
    )
