"""Table 4.6: overcomplete trees of equal subtrees, and of different ones."""

from __future__ import annotations

from typing import Any

from benchmarks.language_models.contexts import EITHER
from benchmarks.language_models.thesis import published, recipes
from benchmarks.language_models.thesis.recipes import Hierarchical, Shape
from benchmarks.language_models.thesis.study import Study

RULES = (
    Shape("adaptive", recipes.OVERLAP),
    Shape("random"),
    Shape("noisy", recipes.OVERLAP),
)


def main(study: Study) -> None:
    copies, replicas = study.plan.copies, study.plan.replicas
    trees: dict[str, tuple[int, ...]] = {
        f"S{n + 1} x {copies}": (n,) * copies for n in range(replicas)
    }
    trees[" + ".join(f"S{n + 1}" for n in range(copies))] = tuple(range(copies))
    rows = []
    for number, (name, seeds) in enumerate(trees.items()):
        row: dict[str, Any] = {"tree": name}
        for rule in RULES:
            tree = Shape(rule.rule, rule.overlap, seeds)
            row[rule.name] = study.bench.fit(Hierarchical(tree)).perplexity
        for rule in RULES:
            equal, different = published.DIVERSITY[rule.name]
            row[f"{rule.name} APNews"] = equal[number] if number < replicas else different
        rows.append(row)
    study.save("diversity", {"APNews": "four subtrees in every tree"}, rows, EITHER)
