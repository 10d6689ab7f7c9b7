"""Which settings the benchmark has: tried on excerpts that no table shows.

    python -m benchmarks.language_models.state_space.choices [--only sparse dense ...]

Prints the perplexity of the development text of each excerpt at `letters.TUNING` under every candidate. What was tried
and chosen stands in the README.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from benchmarks.language_models.state_space.fits import Plan, found
from benchmarks.language_models.state_space.letters import TUNING
from benchmarks.language_models.state_space.plans import gradient, ngrams, rules, runs

_Changes = dict[str, Any]


def changed(plan: Plan, changes: _Changes) -> Plan:
    """The plan with other settings; those of ``advanced`` are named ``advanced.NAME``."""
    settings = {**plan.settings, "advanced": {**plan.settings.get("advanced", {})}}
    for name, value in changes.items():
        where, _, own = name.rpartition(".")
        (settings["advanced"] if where else settings)[own] = value
    return Plan(plan.family, plan.size, settings, plan.name)


def candidates(what: str) -> Iterator[Plan]:
    """The plans that are compared."""
    kind, _, size = what.partition("-")
    if kind == "ngrams":
        yield from ngrams(size)
        return
    best = (3, (10, 15)) if size == "sparse" else (5, (40, 25))
    base = {"gradient": gradient, "rules": rules}
    plan = runs(size) if kind == "runs" else base[kind](size, *best)
    yield plan
    for name, several in TRIED[kind].items():
        for value in several:
            yield changed(plan, {name: value})


TRIED: dict[str, dict[str, tuple[Any, ...]]] = {
    "gradient": {
        "dropout": (0.0, 0.1, 0.2, 0.5),
        "learning_rate": (0.05, 0.1, 0.2),
        "advanced.variance": (0.03, 0.3, 1.0),
        "advanced.streams": (8, 32, 64),
    },
    "rules": {
        "learning_rate": (0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
        "advanced.norm_limit": (30.0, 100.0, 300.0, 1000.0),
        "inference": ("map",),
    },
    "runs": {
        "advanced.joint_order": (3, 4, 5, 6, 7),
        "advanced.joint_dropout": (0.3, 0.5, 0.7, 0.8),
        "advanced.joint_width": (12, 25, 50),
        "advanced.joint_min_count": (2,),
        "dropout": (0.0, 0.2, 0.4),
        "learning_rate": (0.05, 0.1, 0.2),
    },
}
KINDS = [f"{kind}-{size}" for size in ("sparse", "dense") for kind in ("ngrams", *TRIED)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    for what in parser.parse_args().only:
        for plan in candidates(what):
            results = [found(plan, offset) for offset in TUNING]
            figures = [round(each.perplexities["development"], 3) for each in results]
            print(what, figures, plan.name, json.dumps(plan.settings), flush=True)


if __name__ == "__main__":
    main()
