"""What HLBL reaches within a budget of time on one core: a recipe for a minute, five, a quarter of an hour and an hour.

    python -m benchmarks.language_models.budgets [--budget minute "5 minutes"] [--text ptb wikitext-2]

The settings were chosen on the last tenth of the training text of Penn Treebank, by models of the rest. Models are
fitted to the whole training text. The hour goes to several seeds, mixed with equal weights. Every fit is kept, and an
interrupted one is resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from benchmarks.language_models import contexts
from benchmarks.language_models.contexts import Texts
from benchmarks.reporting import Row, Table, main
from tacenda_lm import HLBL, Mixture

PROTOCOL = {
    "text": contexts.TEXT,
    "context": contexts.PROTOCOL,
    "settings": "those that were best for the last tenth of the training text of Penn Treebank; "
    "the epoch is chosen by the validation text",
    "hour": "the quarter of an hour with several seeds, mixed with equal weights",
    "CPU s": "of the whole fit, evaluations included, one thread",
}
SETTINGS: dict[str, dict[str, Any]] = {
    "minute": {"width": 128, "copies": 4, "dropout": 0.5, "epochs": 9},
    "5 minutes": {"width": 400, "copies": 12, "dropout": 0.7, "epochs": 11},
    "15 minutes": {"width": 640, "copies": 12, "dropout": 0.75, "epochs": 20},
}
SETTINGS["hour"] = SETTINGS["15 minutes"]
SEEDS = 5  # that an hour holds


def members(texts: Texts, budget: str) -> list[tuple[HLBL, Row]]:
    """Return the model of a budget, or the models of several seeds that the hour is spent on."""
    return [
        contexts.fitted(HLBL(**SETTINGS[budget], seed=seed), texts.name, texts.train, texts.valid)
        for seed in range(SEEDS if budget == "hour" else 1)
    ]


def rows(options: Any) -> Iterator[Row]:
    for on, budget in product(options.text, options.budget):
        texts = Texts(on)
        found = members(texts, budget)
        models = {f"seed {seed}": model for seed, (model, _) in enumerate(found)}
        model = Mixture(models) if len(models) > 1 else models["seed 0"]
        seconds = [row["CPU s"] for _, row in found]
        shown = {name: SETTINGS[budget][name] for name in ("width", "copies", "dropout", "epochs")}
        for row in contexts.perplexities(model, texts.held_out):
            yield {
                "what": f"{on}, {budget}, {row['context']}",
                "text": on,
                "budget": budget,
                "models": len(models),
                **shown,
                **row,
                "CPU s": None if None in seconds else sum(seconds),
            }


if __name__ == "__main__":
    table = Table("lm-budgets", PROTOCOL, rows, key="what")
    main(__doc__, table, budget=tuple(SETTINGS), text=("ptb", "wikitext-2"))
