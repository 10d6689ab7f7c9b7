"""What HLBL reaches within a budget of time on one core: a recipe for a minute, five, a quarter of an hour and an hour.

    python -m benchmarks.language_models.budgets [--budget minute "5 minutes"] [--text ptb wikitext-2]

lm-budgets-chosen compares settings on the last tenth of the training text of Penn Treebank, by models of the rest.
lm-budgets has the settings that were best there, fitted to the whole training text. The hour goes to several seeds of
the quarter of an hour, mixed with equal weights. Every fit is kept, and an interrupted one is resumed.
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
    "settings": "those that were best for the last tenth of the training text of Penn Treebank (lm-budgets-chosen); "
    "the epoch is chosen by the validation text",
    "hour": "the quarter of an hour with several seeds, mixed with equal weights",
    "CPU s": "of the whole fit, evaluations included, one thread",
}
CHOICE = {
    "text": "Penn Treebank: the last tenth of the training text as a stream, by models of the rest, trained for all "
    "epochs planned",
    "CPU s": PROTOCOL["CPU s"],
}
SEVEN_TAILS = (0.7, 0.85, 0.92, 0.96, 0.98, 0.99, 0.997)
TRIED: dict[str, tuple[dict[str, Any], ...]] = {
    "minute": (
        {"width": 208, "copies": 2, "dropout": 0.6, "epochs": 7},
        {"width": 128, "copies": 4, "dropout": 0.5, "epochs": 9},
        {"width": 208, "copies": 4, "dropout": 0.6, "epochs": 5},
    ),
    "5 minutes": (
        {"width": 400, "copies": 8, "dropout": 0.7, "epochs": 16},
        {"width": 400, "copies": 12, "dropout": 0.7, "epochs": 11},
    ),
    "15 minutes": (
        {"width": 640, "copies": 12, "dropout": 0.75, "epochs": 20},
        {"width": 512, "copies": 16, "dropout": 0.72, "epochs": 20,
         "advanced": {"tail_rates": SEVEN_TAILS}},
    ),
}  # fmt: skip
CHOSEN = {"minute": 1, "5 minutes": 1, "15 minutes": 0}  # by lm-budgets-chosen
SEEDS = 5  # that an hour holds


def recipe(budget: str) -> dict[str, Any]:
    """Return the settings that were chosen for a budget."""
    budget = "15 minutes" if budget == "hour" else budget
    return TRIED[budget][CHOSEN[budget]]


def members(texts: Texts, budget: str, **more: Any) -> list[tuple[HLBL, Row]]:
    """Return the model of a budget, or the models of several seeds that the hour is spent on."""
    settings = {**recipe(budget), **more}
    return [
        contexts.fitted(HLBL(**settings, seed=seed), texts.name, texts.train, texts.valid)
        for seed in range(SEEDS if budget == "hour" else 1)
    ]


def rows(options: Any) -> Iterator[Row]:
    for on, budget in product(options.text, options.budget):
        texts = Texts(on)
        found = members(texts, budget)
        models = {f"seed {seed}": model for seed, (model, _) in enumerate(found)}
        model = Mixture(models) if len(models) > 1 else models["seed 0"]
        seconds = [row["CPU s"] for _, row in found]
        shown = {name: recipe(budget)[name] for name in ("width", "copies", "dropout", "epochs")}
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


def choices(options: Any) -> Iterator[Row]:
    """Compare the settings of each budget on text that was held back."""
    train = Texts().train
    held_back = len(train) // 10
    rest, last = contexts.cut(train, len(train) - held_back, held_back)
    for budget in options.budget:
        for settings in TRIED.get(budget, ()):
            what = f"{budget}, {settings['width']} wide, {settings['copies']} trees"
            if not options.wants(what):
                continue
            model, fit = contexts.fitted(HLBL(**settings), "ptb-nine-tenths", rest)
            found = model.perplexity(last, context="stream").value
            row = {"what": what, "budget": budget, **settings}
            yield {**row, "held back": found, "CPU s": fit["CPU s"]}


if __name__ == "__main__":
    main(
        __doc__,
        Table("lm-budgets", PROTOCOL, rows, key="what"),
        Table("lm-budgets-chosen", CHOICE, choices, key="what"),
        budget=(*TRIED, "hour"),
        text=("ptb", "wikitext-2"),
    )
