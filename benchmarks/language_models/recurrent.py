"""A recurrent network on Penn Treebank from three starts: the LDS paper's Figure 1 and Table 4 (section 7.4).

    python -m benchmarks.language_models.recurrent [--only averaged dropout paper] [--starts random EM] [--epochs 1]
    python -m benchmarks.language_models.recurrent --planned 9 --only dropout --starts EM
    python -m benchmarks.language_models.recurrent --choose        learning rates, on the training text alone

The starts are random numbers, an LDS by subspace identification alone, and one after EM; each LDS is fitted to the same
text. The starts take turns, an epoch each, and a row is saved after every epoch, so that a run can be broken off at any
time and goes on where it was; ``--epochs`` ends it after so many turns. Unfinished fits are kept below
TACENDA_BENCH_CACHE.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import freshness, parts, reporting
from benchmarks.language_models import contexts
from benchmarks.language_models.held_back import cut
from benchmarks.language_models.hidden_markov.fits import Row, Texts, measured, rows_of
from benchmarks.ratings.thesis.pictures import Curve, Panel, draw
from tacenda import Corpus
from tacenda_embeddings import LDS
from tacenda_lm import RecurrentLM

NAME, CHOICE = "lm-recurrent", "lm-recurrent-choice"
PROTOCOL = {
    "text": "a line is a sentence; <unk> is an ordinary word; </s> is predicted, <s> is not; closed vocabulary",
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
    "choices": "learning rates: lm-recurrent-choice; seed 0",
    "CPU s": "of the processor, one thread: the epoch, its evaluation of the validation text and its checkpoint",
}
WIDTH = 300
STARTS = ("random", "SSID", "EM")
EM_ITERATIONS = {"SSID": (0, 0), "EM": (20, 2)}
RATES = {"random": 1.0, "SSID": 1.0, "EM": 1.0}  # by lm-recurrent-choice
RUNS: dict[str, dict[str, Any]] = {
    "averaged": {"width": WIDTH},
    "dropout": {"width": WIDTH, "dropout": 0.3},
    "paper": {"width": WIDTH, "averaging": 0.0},
}
TITLES = {"averaged": "averaged", "dropout": "averaged, with dropout", "paper": "as in the paper"}
MOST = 60  # epochs
CHOICES = (0.5, 1.0, 2.0)
CHOOSING_WORDS = 200_000  # of the training text, and a tenth as many after them to choose by
CHOOSING_EPOCHS = 5


def folder_of(*names: str) -> Path:
    """Where unfinished work of the present code lies."""
    code = {each: freshness.code(each) for each in parts.RECURRENT}
    digest = hashlib.sha256(json.dumps([RUNS, RATES, code], sort_keys=True).encode()).hexdigest()
    return parts.kept_folder().joinpath("recurrent", digest[:12], *names)


def lds_of(start: str, train: Corpus, folder: Path) -> str | None:
    """The folder of the LDS of a start, fitted now unless it is there; None for the random start."""
    if start == "random":
        return None
    if not (folder / "model.json").exists():
        subspace, full = EM_ITERATIONS[start]
        options = {"subspace_iterations": subspace, "full_iterations": full, "threads": 1}
        LDS(n_states=WIDTH, **options).fit(train).save(folder)
    return str(folder)


def epochs_of(run: str, start: str, texts: Texts) -> Iterator[list[Row]]:
    """The new rows of one start, after each of its epochs; at the end those of the texts."""
    what = f"{run}, {start}"
    known = measured(NAME)
    if f"{what}, valid and test, stream" in known:
        return
    done = sum(f"{what}, epoch {epoch}" in known for epoch in range(MOST + 1))
    lds = lds_of(start, texts.train, folder_of(f"lds-{start}"))
    settings = {**RUNS[run], "learning_rate": RATES[start], "lds": lds}
    if not done:
        untrained = RecurrentLM(**settings, epochs=0).fit(texts.train)
        found = untrained.perplexity(texts.valid, context="stream").value
        yield [{"what": f"{what}, epoch 0", "part": "curve", "run": run, "start": start,
                "epoch": 0, "valid": found}]  # fmt: skip
    for epoch in range(max(done, 1), MOST + 1):
        began = time.process_time()
        model = RecurrentLM(**settings, epochs=epoch)
        model.fit(texts.train, texts.valid, checkpoints=folder_of(run, start))
        seconds, training = time.process_time() - began, model.fitted_on["training"]
        if training["epochs"] == epoch:
            yield [{
                "what": f"{what}, epoch {epoch}", "part": "curve", "run": run, "start": start, "epoch": epoch,
                "training": float(np.exp(training["epoch_losses"][-1])),
                "valid": training["evaluations"][-1][2],
                "learning rate": training["learning_rates"][-1], "CPU s": seconds,
            }]  # fmt: skip
        if training["stopped"] == "callback" or epoch == MOST:
            yield list(final_rows(what, run, start, model, texts))
            return


def network(run: str, start: str, texts: Texts) -> RecurrentLM:
    """The network of a run and a start, trained to the end, or as far as it still has to go."""
    lds = lds_of(start, texts.train, folder_of(f"lds-{start}"))
    model = RecurrentLM(**RUNS[run], learning_rate=RATES[start], lds=lds, epochs=MOST)
    return model.fit(texts.train, texts.valid, checkpoints=folder_of(run, start))


def planned(run: str, start: str, epochs: int, texts: Texts) -> RecurrentLM:
    """The network of a fit of so many epochs without held-out text, trained to the end likewise."""
    lds = lds_of(start, texts.train, folder_of(f"lds-{start}"))
    model = RecurrentLM(**RUNS[run], learning_rate=RATES[start], lds=lds, epochs=epochs)
    return model.fit(texts.train, checkpoints=folder_of(run, f"{start}-{epochs}"))


def planned_rows(run: str, start: str, epochs: int, texts: Texts) -> Iterator[Row]:
    """Its perplexities in both contexts, unless they are known."""
    what = f"{run}, {start}, {epochs} epochs planned"
    if f"{what}, stream" in measured(NAME):
        return
    began = time.process_time()
    model = planned(run, start, epochs, texts)
    seconds = time.process_time() - began
    for row in contexts.perplexities(model, texts.held_out):
        yield {
            "what": f"{what}, {row['context']}", "part": "planned", "run": run, "start": start,
            "epochs": epochs, **row, "CPU s": seconds,
        }  # fmt: skip


def final_rows(what: str, run: str, start: str, model: RecurrentLM, texts: Texts) -> Iterator[Row]:
    """The rows of a finished fit: perplexities in both contexts, and after how many epochs."""
    training = model.fitted_on["training"]
    best = training["best"][1]
    for row in contexts.perplexities(model, texts.held_out):
        yield {
            "what": f"{what}, valid and test, {row['context']}", "part": "perplexity", "run": run, "start": start,
            "epochs": training["epochs"], "best epoch": best, **row,
        }  # fmt: skip


def draw_curves() -> None:
    """Figure 1: perplexity of the validation text by epoch, a panel for each run."""
    rows = [row for row in rows_of(NAME) if row["part"] == "curve"]
    panels = []
    for run in RUNS:
        last = max((row["epoch"] for row in rows if row["run"] == run), default=0)
        if not last:
            continue
        curves = []
        for n, start in enumerate(STARTS):
            values = {
                row["epoch"]: row["valid"]
                for row in rows
                if (row["run"], row["start"]) == (run, start) and row["epoch"]
            }
            if values:
                curve = [values[epoch] for epoch in sorted(values)]
                curves.append(Curve(start, curve, color=f"C{n}"))
        ticks = [str(epoch) for epoch in range(1, last + 1)]
        panels.append(Panel(TITLES[run], "epoch", curves, ticks))
    draw(NAME, panels, y_label="perplexity of the validation text")


def train_in_turns(runs: list[str], starts: list[str], turns: int) -> None:
    """Every start an epoch at a time, until all are done or so many turns were taken."""
    texts = Texts()
    going = {(run, start): epochs_of(run, start, texts) for run in runs for start in starts}
    found: list[Row] = []
    for turn in range(MOST + 2):
        for key, rows in list(going.items()):
            new = next(rows, None)
            if new is None:
                del going[key]
                continue
            found += new
            reporting.save(NAME, PROTOCOL, found, seeds=(0,), keep="what", unfinished=True)
        if not going or turn + 1 == turns:
            break
    if found:
        unfinished = bool(going) or set(runs) != set(RUNS) or set(starts) != set(STARTS)
        reporting.save(NAME, PROTOCOL, found, seeds=(0,), keep="what", unfinished=unfinished)
        draw_curves()


def choose() -> None:
    """The learning rate of each start, by words of the training text that were held back."""
    whole = Texts().train
    ends = np.cumsum(np.diff(whole.offsets) + 1)
    n, end = np.searchsorted(ends, [CHOOSING_WORDS, 1.1 * CHOOSING_WORDS]).tolist()
    train, held_back = cut(whole, n, end - n)
    rows: list[Row] = []
    for start in STARTS:
        lds = lds_of(start, train, folder_of(f"choosing-lds-{start}"))
        for rate in CHOICES:
            model = RecurrentLM(width=WIDTH, learning_rate=rate, lds=lds, epochs=CHOOSING_EPOCHS)
            found = model.fit(train, held_back).fitted_on["training"]["evaluations"]
            row = {f"epoch {epoch}": value for _, epoch, value in found}
            rows.append({"what": f"{start}, {rate}", "start": start, "learning rate": rate, **row})
            protocol = {
                "text": f"the first {CHOOSING_WORDS} words of the training text of Penn Treebank to train, a tenth as "
                "many after them to measure perplexity by; its vocabulary",
            }
            reporting.save(CHOICE, protocol, rows, seeds=(0,), keep="what")


def main() -> None:
    parser = reporting.Command(__doc__)
    parser.add_argument("--only", nargs="+", choices=tuple(RUNS), default=list(RUNS))
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument(
        "--epochs", type=int, default=0, help="turns to take; 0: until all are done"
    )
    parser.add_argument("--choose", action="store_true", help="try learning rates instead")
    parser.add_argument("--planned", type=int, help="fits of so many epochs, planned, instead")
    options = parser.parse_args()
    if options.choose:
        choose()
    elif options.planned:
        texts = Texts()
        for run, start in product(options.only, options.starts):
            rows = list(planned_rows(run, start, options.planned, texts))
            if rows:
                reporting.save(NAME, PROTOCOL, rows, seeds=(0,), keep="what", unfinished=True)
    else:
        train_in_turns(options.only, options.starts, options.epochs)


if __name__ == "__main__":
    main()
