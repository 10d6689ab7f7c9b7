"""Hidden Markov language models on Penn Treebank and WikiText-2.

    python -m benchmarks.language_models.hidden_markov [--only classes step scoring quick fit large memory]
        [--checkpoints FOLDER] [--epochs 40]
    python -m benchmarks.language_models.hidden_markov --only studies baselines mixtures wikitext-2
        [--checkpoints FOLDER]

Penn Treebank (Mikolov's split) and WikiText-2 from TACENDA_DATA or the cache. ``studies`` are those of the slides:
``states``, ``ablations`` and ``features``; ``baselines`` are the models that the slides compare with. Rows of both
that were measured with the same settings before are kept, so they go on where they stopped; single fits go on where
they were killed if they are given a folder. ``wikitext-2`` takes its epochs from the benchmark, not from ``--epochs``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.language_models.hidden_markov import baselines, memory, mixtures, speed, studies
from benchmarks.language_models.hidden_markov.fits import (
    PROTOCOL,
    Row,
    Texts,
    fitted,
    mixed,
    ngrams,
    save,
)
from tacenda_lm import VLHMM

MIXTURE = "linear, weights fitted by EM on the validation text"
FIT_PROTOCOL = {
    **PROTOCOL,
    "step": "parameterisation with width 256, 128 classes, half the states dropped, forward-backward, gradient, Adam; "
    "best of the repeats; both formulations on the same sentences, checked to give the same log-likelihood",
    "scoring": "score_corpus of the test text, ids given, one thread, best of the repeats",
    "mixture": MIXTURE,
    "memory": memory.MEMORY_PROTOCOL,
}
MAIN: dict[str, Any] = {"n_classes": 256, "states_per_class": 64, "batch_words": 16384,
                        "learning_rate": 0.08}  # fmt: skip
LARGE: dict[str, Any] = {**MAIN, "states_per_class": 128, "state_dropout": 0.75}
SMALL: dict[str, Any] = {**MAIN, "states_per_class": 32, "learning_rate": 0.07}
QUICK = 14  # epochs
WIKITEXT: dict[str, Any] = {**MAIN, "epochs": 10, "advanced": {"evaluate_every": 5}}
PARTS = ("classes", "step", "scoring", "quick", "fit", "large", "memory")
FURTHER = ("studies", *studies.PARTS, "baselines", "mixtures", "wikitext-2")


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
    if part == "memory":
        return memory.rows_of({"2^14 states": MAIN, "2^15 states, 3/4 left out": LARGE})
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
        else:
            further(part, texts, options)


def further(part: str, texts: Texts, options: argparse.Namespace) -> None:
    """What has a results file of its own."""
    folder = options.checkpoints
    for study in studies.PARTS:
        if part in ("studies", study):
            rows = studies.rows_of(study, texts, folder, options.again)
            save(studies.NAME, studies.STUDIES_PROTOCOL, study, rows)
            studies.draw(study)
    if part == "baselines":
        rows = baselines.rows_of(texts, folder, options.again)
        save(baselines.NAME, baselines.BASELINES_PROTOCOL, part, rows)
    elif part == "mixtures":
        rows = mixtures.rows_of(texts, folder)
        save(mixtures.NAME, {**PROTOCOL, "mixture": MIXTURE}, part, rows)
    elif part == "wikitext-2":
        name = f"VLHMM, 2^14 states, {WIKITEXT['epochs']} epochs"
        rows = fit(Texts(part), name, WIKITEXT, None if folder is None else folder / part)
        save(f"lm-hidden-markov-{part}", {**PROTOCOL, "mixture": MIXTURE}, part, rows)


if __name__ == "__main__":
    main()
