"""Hidden Markov language models on Penn Treebank and WikiText-2.

    python -m benchmarks.language_models.hidden_markov [--only quick fit large]         perplexities
    python -m benchmarks.language_models.hidden_markov --only classes step scoring      times
    python -m benchmarks.language_models.hidden_markov --only memory
    python -m benchmarks.language_models.hidden_markov --only studies baselines mixtures wikitext-2

Penn Treebank (Mikolov's split) and WikiText-2 from TACENDA_DATA or the cache. ``studies`` are those of the slides:
``states``, ``ablations`` and ``features``; ``baselines`` are the models that the slides compare with. Rows of both
that were measured on the same code are kept, so they go on where they stopped; single fits go on where they were
killed, from their checkpoints below TACENDA_BENCH_CACHE.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import parts, reporting
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

MIXTURE = "linear, weights fitted by EM on the validation text, in the context of the row"
FIT_PROTOCOL = {**PROTOCOL, "mixture": MIXTURE}
MAIN: dict[str, Any] = {"n_classes": 256, "states_per_class": 64, "batch_words": 16384,
                        "learning_rate": 0.08}  # fmt: skip
LARGE: dict[str, Any] = {**MAIN, "states_per_class": 128, "state_dropout": 0.75}
SMALL: dict[str, Any] = {**MAIN, "states_per_class": 32, "learning_rate": 0.07}
QUICK, FIT, LARGEST = 14, 17, 45  # epochs
WIKITEXT: dict[str, Any] = {**MAIN, "epochs": 10, "advanced": {"evaluate_every": 5}}
FITS, TIMES = ("quick", "fit", "large"), ("classes", "step", "scoring")
FURTHER = ("memory", "studies", *studies.PARTS, "baselines", "mixtures", "wikitext-2")


def fit(texts: Texts, name: str, settings: dict[str, Any], folder: Path | None) -> Iterator[Row]:
    """A model alone and mixed with n-grams."""
    model, row = fitted(texts, name, settings, folder)
    yield row
    others, row = ngrams(texts)
    yield row
    yield from mixed(texts, f"{name} + KneserNey(5)", {"vlhmm": model, "kneser_ney": others})


def fits_of(part: str, texts: Texts, folder: Path) -> Iterator[Row]:
    """The rows of a fit."""
    if part == "quick":
        return fit(texts, f"VLHMM, {QUICK} epochs", {**SMALL, "epochs": QUICK}, None)
    if part == "fit":
        return fit(texts, "VLHMM", {**MAIN, "epochs": FIT}, folder / "fit")
    name = f"VLHMM, 2^15 states, {LARGEST} epochs"
    return fit(texts, name, {**LARGE, "epochs": LARGEST}, folder / "large")


def times_of(part: str, texts: Texts, repeats: int) -> Iterator[Row]:
    """The rows of a part that is timed."""
    if part == "classes":
        yield from speed.class_seconds(texts.train, min(repeats, 3))
    elif part == "step":
        for size in ((4096, 512), (4096, 4096), (8192, 512)):
            yield from speed.step_seconds(texts.train, *size, repeats)
    else:  # at 2^14 states, in the classes of the paper and in finer ones; an untrained model scores as fast
        for n_classes in (128, 256):
            model = VLHMM(n_classes=n_classes, states_per_class=(1 << 14) // n_classes, epochs=0)
            yield from speed.scoring_rates(model.fit(texts.train), texts.test, repeats)


def main() -> None:
    """Measures and saves each row as it is found."""
    parser = reporting.Command(__doc__)
    parser.add_argument("--only", nargs="+", choices=(*FITS, *TIMES, *FURTHER), default=FITS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--again", action="store_true", help="measure rows of studies anew")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts, folder = Texts(), parts.kept_folder() / "hidden-markov"
    for part in options.only:
        if part in FITS:
            save("lm-hidden-markov", FIT_PROTOCOL, part, fits_of(part, texts, folder))
        elif part in TIMES:
            rows = times_of(part, texts, options.repeats)
            save("lm-hidden-markov-speed", speed.PROTOCOL, part, rows)
        else:
            further(part, texts, folder, options.again)


def further(part: str, texts: Texts, folder: Path, again: bool) -> None:
    """What has a results file of its own."""
    for study in studies.PARTS:
        if part in ("studies", study):
            rows = studies.rows_of(study, texts, None, again)
            save(studies.NAME, studies.STUDIES_PROTOCOL, study, rows)
            studies.draw(study)
    if part == "memory":
        rows = memory.rows_of({"2^14 states": MAIN, "2^15 states, 3/4 left out": LARGE})
        save("lm-hidden-markov-memory", {"memory": memory.MEMORY_PROTOCOL}, part, rows)
    elif part == "baselines":
        rows = baselines.rows_of(texts, folder / part, again)
        save(baselines.NAME, baselines.BASELINES_PROTOCOL, part, rows)
    elif part == "mixtures":
        rows = mixtures.rows_of(texts, folder / part)
        save(mixtures.NAME, FIT_PROTOCOL, part, rows)
    elif part == "wikitext-2":
        name = f"VLHMM, 2^14 states, {WIKITEXT['epochs']} epochs"
        rows = fit(Texts(part), name, WIKITEXT, folder / part)
        save(f"lm-hidden-markov-{part}", FIT_PROTOCOL, part, rows)


if __name__ == "__main__":
    main()
