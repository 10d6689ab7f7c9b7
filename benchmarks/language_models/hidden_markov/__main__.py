"""Hidden Markov language models on Penn Treebank.

    python -m benchmarks.language_models.hidden_markov [--only classes step scoring quick fit large]
        [--checkpoints FOLDER] [--epochs 40]
    python -m benchmarks.language_models.hidden_markov --only studies baselines [--checkpoints FOLDER]

Penn Treebank (Mikolov's split) from TACIT_DATA or the cache. ``fit`` and ``large`` go on where a killed run stopped if
they are given a folder. ``studies`` are those of the slides: ``states``, ``ablations`` and ``features``; rows that
were measured with the same settings before are kept, so a study goes on where it stopped. ``baselines`` are the
models that the slides compare with.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.language_models.hidden_markov import baselines, speed, studies
from benchmarks.language_models.hidden_markov.fits import (
    PROTOCOL,
    Row,
    Texts,
    fitted,
    mixed,
    ngrams,
    save,
)
from tacit_lm import VLHMM

FIT_PROTOCOL = {
    **PROTOCOL,
    "step": "parameterisation with width 256, 128 classes, half the states dropped, forward-backward, gradient, Adam; "
    "best of the repeats; both formulations on the same sentences, checked to give the same log-likelihood",
    "scoring": "score_corpus of the test text, ids given, one thread, best of the repeats",
    "mixture": "linear with KneserNey(5), weights fitted by EM on the validation text",
}
MAIN: dict[str, Any] = {"n_classes": 256, "states_per_class": 64, "batch": 16384,
                        "learning_rate": 0.08, "averaging": 0.99}  # fmt: skip
LARGE: dict[str, Any] = {**MAIN, "states_per_class": 128, "state_dropout": 0.75}
SMALL: dict[str, Any] = {**MAIN, "states_per_class": 32, "learning_rate": 0.07}
QUICK = 14  # epochs
PARTS = ("classes", "step", "scoring", "quick", "fit", "large")
FURTHER = ("studies", *studies.PARTS, "baselines")


def fit(texts: Texts, name: str, settings: dict[str, Any], folder: Path | None) -> Iterator[Row]:
    """A model alone and mixed with n-grams."""
    model, row = fitted(texts, name, settings, folder)
    yield row
    others, row = ngrams(texts)
    yield row
    yield mixed(texts, f"{name} + KneserNey(5)", {"vlhmm": model, "kneser_ney": others})


def scoring(texts: Texts, repeats: int) -> Iterator[dict[str, Any]]:
    """At 2^14 states, in the classes of the paper and in finer ones; an untrained model scores as fast."""
    for n_classes in (128, 256):
        settings = {"n_classes": n_classes, "states_per_class": (1 << 14) // n_classes}
        model = VLHMM(**settings, epochs=0).fit(texts.train)
        yield from speed.scoring_rates(model, texts.test, repeats)


def rows_of(part: str, texts: Texts, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of a part of the benchmark."""
    if part == "classes":
        return speed.class_seconds(texts.train)
    if part == "step":
        sizes_of = ((4096, 512), (4096, 4096), (8192, 512))
        found = (speed.step_seconds(texts.train, *size, options.repeats) for size in sizes_of)
        return (row for rows in found for row in rows)
    if part == "scoring":
        return scoring(texts, options.repeats)
    if part == "quick":
        name = f"VLHMM, {QUICK} epochs"
        return fit(texts, name, {**SMALL, "epochs": QUICK}, None)
    if part == "fit":
        return fit(texts, "VLHMM", {**MAIN, "epochs": options.epochs}, options.checkpoints)
    name = f"VLHMM, 2^15 states, {options.epochs} epochs"
    return fit(texts, name, {**LARGE, "epochs": options.epochs}, options.checkpoints)


def main() -> None:
    """Measures and saves each row as it is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=(*PARTS, *FURTHER), default=PARTS)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--checkpoints", type=Path)
    parser.add_argument("--again", action="store_true", help="measure rows of studies anew")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = Texts()
    for part in options.only:
        if part in PARTS:
            save("lm-hidden-markov", FIT_PROTOCOL, part, rows_of(part, texts, options))
        for study in studies.PARTS:
            if part in ("studies", study):
                rows = studies.rows_of(study, texts, options.again)
                save(studies.NAME, studies.STUDIES_PROTOCOL, study, rows)
        if part == "baselines":
            rows = baselines.rows_of(texts, options.checkpoints, options.again)
            save(baselines.NAME, baselines.BASELINES_PROTOCOL, part, rows)


if __name__ == "__main__":
    main()
