"""What HLBL reaches within a budget of time on one core: a recipe for a minute, five, a quarter of an hour and an hour.

    python -m benchmarks.language_models.budgets [--budget minute "5 minutes"] [--text ptb wikitext-2]
    python -m benchmarks.language_models.budgets --tables lm-budgets-choices

The settings were chosen on the last tenth of the training text of Penn Treebank, by models of the rest (the second
command, in minutes on a GPU), and fitted to the whole training text. The hour goes to several seeds, mixed with equal
weights. Every fit is kept, and an interrupted one is resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from benchmarks.language_models import contexts
from benchmarks.language_models.contexts import Texts
from benchmarks.reporting import Row, Table, main
from tacenda import Corpus
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


def members(texts: Texts, budget: str, **more: Any) -> list[tuple[HLBL, Row]]:
    """Return the model of a budget, or the models of several seeds that the hour is spent on."""
    settings = {**SETTINGS[budget], **more}
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


CHOICE_PROTOCOL = {
    "text": contexts.TEXT,
    "held back": "perplexity of the last tenth of the training text of Penn Treebank, as a stream, under a model of "
    "the rest",
    "seconds": "of the fit by the clock, on the device of the run",
}
# what differs from the quarter of an hour
TRIED: dict[str, dict[str, Any]] = {
    "as it is": {},
    "14 epochs": {"epochs": 14},
    "30 epochs": {"epochs": 30},
    "6 trees": {"copies": 6},
    "24 trees": {"copies": 24},
    "400 wide": {"width": 400, "dropout": 0.7},
    "400 wide, 24 trees": {"width": 400, "dropout": 0.7, "copies": 24},
    "1,000 wide": {"width": 1000, "dropout": 0.8},
    "1,000 wide, 30 epochs": {"width": 1000, "dropout": 0.8, "epochs": 30},
    "dropout .8": {"dropout": 0.8},
    "context 5": {"context": 5},
    "context 20": {"context": 20},
    "6 tails": {"advanced": {"tail_rates": (0.8, 0.9, 0.95, 0.98, 0.99, 0.997)}},
    "rate .15": {"learning_rate": 0.15},
    "rate .07": {"learning_rate": 0.07},
    "overlap .1": {"advanced": {"overlap": 0.1}},
    "counts as they are": {"advanced": {"frequency_power": 1.0}},
}


def choices(options: Any) -> Iterator[Row]:
    """Yield what each setting reaches on text held back, and what its seeds reach together."""
    texts = Texts()
    lines = [line for line in texts.files["train"].read_text("utf-8").splitlines() if line.strip()]
    border, words = len(lines) * 9 // 10, texts.train.vocabulary
    rest, last = (
        Corpus.from_text(part, vocabulary=words) for part in (lines[:border], lines[border:])
    )
    for what in options.chosen(TRIED):
        settings = {**SETTINGS["15 minutes"], **TRIED[what]}
        models = {}
        for seed in options.seeds:
            model, took = contexts.fitted(HLBL(**settings, seed=seed), "ptb-nine-tenths", rest)
            models[f"seed {seed}"] = model
            found = model.perplexity(last, context="stream").value
            yield {"what": f"{what}, {seed}", "held back": found, "seconds": took["fit s"]}
        if len(models) > 1:
            found = Mixture(models).perplexity(last, context="stream").value
            yield {"what": f"{what}, {len(models)} seeds", "held back": found}


if __name__ == "__main__":
    main(
        __doc__,
        Table("lm-budgets", PROTOCOL, rows, key="what"),
        Table("lm-budgets-choices", CHOICE_PROTOCOL, choices, key="what"),
        budget=tuple(SETTINGS),
        text=("ptb", "wikitext-2"),
        seeds=[0],
    )
