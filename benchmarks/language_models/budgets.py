"""What HLBL reaches within a budget of time on one core: a recipe for a minute, five, a quarter of an hour and an hour.

    python -m benchmarks.language_models.budgets choose [--budget minute "5 minutes"]
    python -m benchmarks.language_models.budgets [--budget minute "5 minutes"] [--text ptb wikitext-2]

`choose` compares settings on the last tenth of the training text of Penn Treebank, by models of the rest, and writes
lm-budgets-chosen. Without it, the settings that were best there are fitted to the whole training text: lm-budgets. The
hour goes to several seeds of the quarter of an hour, mixed with equal weights.
Every fit is kept, and goes on where it was broken off; a row is saved as soon as it is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from benchmarks import reporting
from benchmarks.language_models import contexts
from benchmarks.language_models.held_back import cut
from benchmarks.language_models.hidden_markov.fits import Texts
from benchmarks.language_models.log_bilinear import fitted
from tacenda_lm import HLBL, Mixture

PROTOCOL = {
    "text": "a line is a sentence; <unk> is an ordinary word; </s> is predicted, <s> is not; closed vocabulary",
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
CHOSEN = {
    "minute": 1,
    "5 minutes": 1,
    "15 minutes": 0,
}  # by lm-budgets-chosen
SEEDS = 5  # that an hour holds
BUDGETS = (*TRIED, "hour")
Row = dict[str, Any]


def members(on: str, texts: Texts, budget: str) -> list[tuple[HLBL, Row]]:
    """The model of a budget, or the models of several seeds that the hour is spent on."""
    settings = recipe("15 minutes" if budget == "hour" else budget)
    seeds = range(SEEDS if budget == "hour" else 1)
    return [fitted(texts.train, texts.valid, on, **settings, seed=seed) for seed in seeds]


def recipe(budget: str) -> dict[str, Any]:
    """The settings that were chosen for a budget."""
    return TRIED[budget][CHOSEN[budget]]


def rows_of(on: str, texts: Texts, budget: str) -> Iterator[Row]:
    """A row for each context."""
    found = members(on, texts, budget)
    models = {f"seed {seed}": model for seed, (model, _) in enumerate(found)}
    model = Mixture(models) if len(models) > 1 else models["seed 0"]
    seconds = [row["CPU s"] for _, row in found]
    for row in contexts.perplexities(model, texts.held_out):
        yield {
            "what": f"{on}, {budget}, {row['context']}",
            "text": on,
            "budget": budget,
            "models": len(models),
            **{name: recipe("15 minutes" if budget == "hour" else budget)[name]
               for name in ("width", "copies", "dropout", "epochs")},
            **row,
            "CPU s": None if None in seconds else sum(seconds),
        }  # fmt: skip


def choose(budgets: list[str]) -> None:
    """Compare the settings of each budget on text that was held back."""
    train = Texts().train
    held_back = len(train) // 10
    rest, last = cut(train, len(train) - held_back, held_back)
    for budget in (each for each in budgets if each in TRIED):
        for settings in TRIED[budget]:
            model, fit = fitted(rest, None, "ptb-nine-tenths", **settings)
            found = model.perplexity(last, context="stream").value
            what = f"{budget}, {settings['width']} wide, {settings['copies']} trees"
            row = {"what": what, "budget": budget, **settings}
            row |= {"held back": found, "CPU s": fit["CPU s"]}
            reporting.save("lm-budgets-chosen", CHOICE, [row], seeds=(0,), keep="what")


def main() -> None:
    parser = reporting.Command(__doc__)
    parser.add_argument("act", nargs="?", choices=("measure", "choose"), default="measure")
    parser.add_argument("--budget", nargs="+", choices=BUDGETS, default=list(BUDGETS))
    parser.add_argument("--text", nargs="+", default=["ptb", "wikitext-2"])
    options = parser.parse_args()
    if options.act == "choose":
        choose(options.budget)
        return
    for on, budget in product(options.text, options.budget):
        for row in rows_of(on, Texts(on), budget):
            reporting.save("lm-budgets", PROTOCOL, [row], seeds=(0,), keep="what")


if __name__ == "__main__":
    main()
