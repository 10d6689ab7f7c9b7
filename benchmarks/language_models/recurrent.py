"""A recurrent network on Penn Treebank from three starts: the LDS paper's Figure 1 and Table 4 (section 7.4).

    python -m benchmarks.language_models.recurrent [--runs averaged dropout paper] [--starts random EM]

The starts are random numbers, an LDS by subspace identification alone, and one after EM; each LDS is fitted to the same
text. You can interrupt a run at any time and resume it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from benchmarks import kept
from benchmarks.language_models import contexts
from benchmarks.language_models.contexts import Texts
from benchmarks.pictures import Curve, Panel, draw
from benchmarks.reporting import Row, Table, main
from tacenda import Corpus
from tacenda_embeddings import LDS
from tacenda_lm import RecurrentLM

PROTOCOL = {
    "text": contexts.TEXT,
    "context": contexts.PROTOCOL,
    "schedule": "the learning rate is constant until an epoch lowers the negative log-probability of the validation "
    "text by less than 0.3 %, then halved after every epoch until one lowers it by less again, which ends training; "
    "the model is that of the best epoch",
    "starts": "random: normal numbers; SSID: an LDS of 300 states by subspace identification alone; EM: the same LDS "
    "after 20 EM iterations in the subspace and 2 over the whole vocabulary; all fitted to the training text; the "
    "output biases of all starts are the logarithms of the words' frequencies",
    "runs": "paper: all as in the paper, or its nearest equivalent; averaged: the model is a running average of the "
    "parameters, otherwise the same; dropout: averaged, and 0.3 of the state's elements are hidden from the output",
    "planned": "no held-out text: three fifths of the epochs at the first learning rate, which then is halved after "
    "every epoch",
    "choices": "the learning rate, among .5, 1 and 2, on a fifth of the training text; seed 0",
    "CPU s": "of the processor, one thread: the whole fit, its evaluations and checkpoints included",
}
WIDTH = 300
STARTS = ("random", "SSID", "EM")
EM_ITERATIONS = {"SSID": (0, 0), "EM": (20, 2)}
RATE = 1.0  # the best of every start
RUNS: dict[str, dict[str, Any]] = {
    "averaged": {"width": WIDTH},
    "dropout": {"width": WIDTH, "dropout": 0.3},
    "paper": {"width": WIDTH, "averaging": 0.0},
}
TITLES = {"averaged": "averaged", "dropout": "averaged, with dropout", "paper": "as in the paper"}
MOST, PLANNED = 60, 9  # epochs


def lds_of(start: str, on: str, train: Corpus) -> str | None:
    """Return the folder of the LDS of a start, fitted now unless it is kept; None for the random start."""
    if start == "random":
        return None
    subspace, full = EM_ITERATIONS[start]
    options = {"subspace_iterations": subspace, "full_iterations": full, "threads": 1}
    model = LDS(n_states=WIDTH, **options)
    facts = {"text": on, "settings": model.settings.to_dict()}
    folder, _ = kept.folder(f"lds-{on}", facts, lambda to: model.fit(train).save(to / "model"))
    return str(folder / "model")


def network(run: str, start: str, texts: Texts, planned: int = 0) -> RecurrentLM:
    """Return the network of a run and a start; of ``planned`` epochs without held-out text, or of those it needs."""
    return fitted(run, start, texts, planned)[0]


def fitted(run: str, start: str, texts: Texts, planned: int = 0) -> tuple[RecurrentLM, Row]:
    lds = lds_of(start, texts.name, texts.train)
    model = RecurrentLM(**RUNS[run], learning_rate=RATE, lds=lds, epochs=planned or MOST)
    return contexts.fitted(model, texts.name, texts.train, None if planned else texts.valid)


def rows(options: Any) -> Iterator[Row]:
    """Yield the course of each fit by epochs, and its perplexities."""
    texts = Texts()
    for run, start in product(options.runs, options.starts):
        what, about = f"{run}, {start}", {"run": run, "start": start}
        lds = lds_of(start, texts.name, texts.train)
        settings = {**RUNS[run], "learning_rate": RATE, "lds": lds}
        untrained = RecurrentLM(**settings, epochs=0).fit(texts.train)
        first = untrained.perplexity(texts.valid, context="stream").value
        yield {"what": f"{what}, epoch 0", "part": "curve", **about, "epoch": 0, "valid": first}
        if options.only:  # those of the starts
            continue
        model, took = fitted(run, start, texts)
        course = model.fitted_on["training"]
        epochs = zip(
            course["evaluations"], course["epoch_losses"], course["learning_rates"], strict=True
        )
        for (_, epoch, valid), loss, rate in epochs:
            named = {"what": f"{what}, epoch {epoch}", "part": "curve", **about, "epoch": epoch}
            yield {**named, "training": float(np.exp(loss)), "valid": valid, "learning rate": rate}
        for row in contexts.perplexities(model, texts.held_out):
            yield {
                "what": f"{what}, valid and test, {row['context']}", "part": "perplexity", **about,
                "epochs": course["epochs"], "best epoch": course["best"][1], **row, "CPU s": took["CPU s"],
            }  # fmt: skip
    if "dropout" in options.runs and "EM" in options.starts and not options.only:
        model, took = fitted("dropout", "EM", texts, PLANNED)
        for row in contexts.perplexities(model, texts.held_out):
            yield {
                "what": f"dropout, EM, {PLANNED} epochs planned, {row['context']}", "part": "planned", "run": "dropout",
                "start": "EM", "epochs": PLANNED, **row, "CPU s": took["CPU s"],
            }  # fmt: skip


def draw_curves(rows: list[Row]) -> None:
    """Draw Figure 1: perplexity of the validation text by epoch, a panel for each run."""
    panels = []
    for run in RUNS:
        own = [row for row in rows if row["part"] == "curve" and row["run"] == run and row["epoch"]]
        values = {start: [row["valid"] for row in own if row["start"] == start] for start in STARTS}
        curves = [
            Curve(start, values[start], color=f"C{n}")
            for n, start in enumerate(STARTS)
            if values[start]
        ]
        ticks = [str(n) for n in range(1, max(map(len, values.values())) + 1)]
        panels += [Panel(TITLES[run], "epoch", curves, ticks)] if curves else []
    draw("lm-recurrent", panels, y_label="perplexity of the validation text")


if __name__ == "__main__":
    table = Table("lm-recurrent", PROTOCOL, rows, key="what", after=draw_curves)
    main(__doc__, table, runs=tuple(RUNS), starts=STARTS)
