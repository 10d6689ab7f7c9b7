"""Tables 4.3 and 4.4: trees, and the models on them alone and with n-grams."""

from __future__ import annotations

from typing import Any

from benchmarks.language_models.contexts import EITHER
from benchmarks.language_models.thesis import published, recipes
from benchmarks.language_models.thesis.fits import Fit, mixed
from benchmarks.language_models.thesis.recipes import Flat, Hierarchical, NGrams
from benchmarks.language_models.thesis.study import Study

ORDERS = (2, 3, 6)


def described(study: Study) -> list[dict[str, Any]]:
    """Table 4.3."""
    rows = []
    for tree in recipes.TREES:
        facts = study.bench.fit(Hierarchical(tree)).facts
        length, codes, nodes = published.TREES[tree.name]
        rows.append(
            {
                "tree": tree.name,
                "code length": round(facts["tree"]["steps_per_token"], 1),
                "codes": round(facts["codes per token"], 2),
                "nodes": facts["tree"]["n_nodes"],
                "depth": facts["tree"]["depth"],
                "code length APNews": length,
                "codes APNews": codes,
                "nodes APNews": nodes,
            }
        )
    return rows


def mixture_row(
    name: str, fit: Fit, grams: Fit, theirs: tuple[float, ...] | None
) -> dict[str, Any]:
    """A model alone and mixed, beside the figures of the thesis."""
    both = mixed(fit, grams)
    row = {
        "model": name,
        "perplexity": fit.perplexity,
        "halves": both.halves,
        "fitted": both.fitted,
        "share": both.share,
    }
    return row | dict(zip([f"{k} APNews" for k in list(row)[1:]], theirs or (), strict=False))


def main(study: Study) -> None:
    rows = []
    six = study.bench.fit(NGrams(6))
    for tree in recipes.TREES:
        fit = study.bench.fit(Hierarchical(tree))
        rows.append(mixture_row(f"HLBL, {tree.name}", fit, six, published.MODELS[tree.name]))
    if study.plan.longer:
        longer = study.bench.fit(recipes.LONGER)
        rows.append(mixture_row(longer.name, longer, six, None))
    rows.append(mixture_row("LBL", study.bench.fit(Flat()), six, published.MODELS["LBL"]))
    for order in ORDERS:
        grams = study.bench.fit(NGrams(order))
        theirs = published.INTERPOLATED[order]
        rows.append(
            {"model": grams.name, "perplexity": grams.perplexity, "perplexity APNews": theirs}
        )
    study.save(
        "tree-figures",
        {
            "code length": "steps of all codes of a word together, mean over the tokens of the training text",
            "codes": "of a word, mean over tokens; at most four in one subtree",
            "tree": "what one subtree is split by; no code of a subtree is longer than 40 steps",
        },
        described(study),
    )
    told = {
        "mixtures": "with KN6: equal shares; the share of the neural model fitted on the validation text"
    }
    study.save("trees", told, rows, EITHER)
