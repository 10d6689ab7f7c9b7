"""Table 4.7: the number of context words."""

from __future__ import annotations

from typing import Any

from benchmarks.language_models.contexts import CONTEXTS, EITHER
from benchmarks.language_models.thesis import published
from benchmarks.language_models.thesis.recipes import Hierarchical, NGrams
from benchmarks.language_models.thesis.study import Study
from benchmarks.language_models.thesis.trees import mixture_row

ORDERS = (2, 3, 6, 8)


def main(study: Study) -> None:
    tree = study.plan.windows_tree
    six = study.bench.fit(NGrams(6))
    rows = []
    for across, windows in ((False, study.plan.windows), (True, study.plan.across)):
        for n in windows:
            for context in CONTEXTS if across else CONTEXTS[:1]:
                recipe = Hierarchical(tree, context=n, across=across)
                fit = study.bench.fit(recipe, context)
                row = mixture_row("HLBL", fit, six, published.CONTEXTS[n])
                over = "yes" if across else "no"
                about = {"model": "HLBL", "context": n, "over sentence ends": over}
                rows.append({**about, "scored": context if across else EITHER, **row})
    for order in ORDERS:
        grams = study.bench.fit(NGrams(order))
        row: dict[str, Any] = {
            "model": grams.name,
            "context": order - 1,
            "over sentence ends": "no",
        }
        row["scored"] = EITHER
        theirs = published.INTERPOLATED[order]
        rows.append({**row, "perplexity": grams.perplexity, "perplexity APNews": theirs})
    told = {
        "tree": f"{tree.name}; APNews: ADAPTIVE(0.4) x 4",
        "over sentence ends": "whether the context goes on over them in training, as it does in the thesis",
        "mixtures": "with KN6",
    }
    study.save("windows", told, rows)
