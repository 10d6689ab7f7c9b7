"""Table 4.2: the number of features, on a random tree and on a clustered one."""

from __future__ import annotations

from benchmarks.language_models.contexts import EITHER
from benchmarks.language_models.thesis import published, recipes
from benchmarks.language_models.thesis.recipes import Hierarchical
from benchmarks.language_models.thesis.study import Study


def main(study: Study) -> None:
    rows = []
    for width in study.plan.widths:
        random, clustered = (
            study.bench.fit(Hierarchical(tree, width)).perplexity
            for tree in (recipes.RANDOM, recipes.BALANCED)
        )
        theirs = published.WIDTHS[width]
        rows.append(
            {
                "features": width,
                "random tree": random,
                "clustered tree": clustered,
                "reduction": round(random - clustered, 2),
                "random tree APNews": theirs[0],
                "clustered tree APNews": theirs[1],
                "reduction APNews": round(theirs[0] - theirs[1], 1),
            }
        )
    told = {"clustered tree": "BALANCED, by the vectors of the random-tree model with 100 features"}
    study.save("widths", told, rows, EITHER)
