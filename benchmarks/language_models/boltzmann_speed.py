"""Restricted Boltzmann machines of words on Penn Treebank: speed of training and of scoring.

python -m benchmarks.language_models.boltzmann_speed [--repeats 7]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.language_models import timing
from benchmarks.language_models.log_bilinear import texts
from tacenda import Corpus
from tacenda_lm.boltzmann import (
    BoltzmannPredictor,
    BoltzmannTrainer,
    FRBMSettings,
    TemporalFRBMSettings,
    TemporalTrainer,
    initial_parameters,
)
from tacenda_lm.streams import Stream

Row = dict[str, Any]
FEATURES, HIDDEN = 100, (100, 1000)
STEPS, WORDS = 3, 4000  # of a stretch of training, and of the text that is scored
WAYS: dict[str, dict[str, Any]] = {
    "likelihood": {},
    "CD, drawn words": {"learning": "divergence"},
    "CD, mean field": {"learning": "divergence", "advanced": {"visible": "mean_field"}},
}
PROTOCOL = {
    "repeats": timing.PROTOCOL,
    "model": f"{FEATURES} features, two words of context, random weights; load: processes that wanted a core in the "
    "last minute",
    "training": f"tokens of {STEPS} steps of 1000 words, evaluation left out",
    "scoring": f"the first {WORDS:,} words of the test text as a stream, normalised over all 10,000 words",
    "GFLOP/s": "additions and multiplications of the largest products alone: the exact draws 2 N_w N_h a word, "
    "contrastive divergence 2 N_w N_f, by mean field 6 N_w N_f; sgemm: 64 x N_f x N_w, taking turns with the rest",
}


def training(corpus: Corpus, hidden: int, repeats: int) -> Iterator[Row]:
    """Tokens a second of steps of each way of learning, and of the temporal model's."""
    text, works, operations = Stream.of_corpus(corpus, True), {}, {}
    types, shared = len(corpus.vocabulary), {"features": FEATURES, "hidden": hidden}
    positions = np.random.default_rng(0).integers(1, len(text.ids), (STEPS, 1000))
    counts = {"likelihood": hidden, "CD, drawn words": FEATURES, "CD, mean field": 3 * FEATURES}
    for way, options in WAYS.items():
        settings = FRBMSettings(**shared, **options)
        trainer = BoltzmannTrainer(
            settings, initial_parameters(settings, corpus.type_counts), text, None
        )
        works[f"FRBM|{way}"] = _steps(trainer, [(batch,) for batch in positions])
        temporal = TemporalFRBMSettings(**shared, **options)
        begin = initial_parameters(settings, corpus.type_counts).with_zero_transitions()
        filtered = TemporalTrainer(temporal, begin, text, None)
        batches = list(filtered.stretches.batches(0))[:STEPS]
        works[f"temporal FRBM|{way}"] = _steps(filtered, batches)
        operations[way] = 2.0 * types * counts[way]
    x, y = (np.ones((n, FEATURES), np.float32) for n in (64, types))
    works["sgemm"] = lambda: x @ y.T
    seconds = timing.interleaved(works, repeats)
    for name in works:
        if name != "sgemm":
            model, way = name.split("|")
            row: Row = {"part": "training", "model": model, "learning": way, "hidden": hidden}
            row |= timing.rate(STEPS * 1000, seconds[name], "tokens/s")
            row["GFLOP/s"] = operations[way] * row["tokens/s"] / 1e9
            yield {**row, "load": load()}
    product = timing.rate(2 * 64 * FEATURES * types / 1e9, seconds["sgemm"], "GFLOP/s")
    yield {"part": "machine", "hidden": hidden, "what": "sgemm", **product, "load": load()}


def _steps(trainer: BoltzmannTrainer, batches: list[Any]) -> Callable[[], None]:
    def work() -> None:
        for batch in batches:
            trainer.step(batch, 0.01)

    return work


def scoring(corpus: Corpus, counts: Any, hidden: int, repeats: int) -> Iterator[Row]:
    """Tokens a second of exact predictions."""
    settings = FRBMSettings(features=FEATURES, hidden=hidden)
    plain, boundary = initial_parameters(settings, counts), corpus.vocabulary.boundary_id
    words = np.asarray(corpus.ids[:WORDS])
    stream = Stream.of(words, np.array([0, len(words)]), boundary, True)
    works = {}
    for name, parameters in (("FRBM", plain), ("temporal FRBM", plain.with_zero_transitions())):
        model = BoltzmannPredictor(parameters, boundary)
        works[name] = lambda model=model: model.score(stream)  # type: ignore[misc]
    for name, seconds in timing.interleaved(works, repeats).items():
        row = {"part": "scoring", "model": name, "hidden": hidden}
        yield {**row, **timing.rate(len(words), seconds, "tokens/s"), "load": load()}


def load() -> float:
    return round(os.getloadavg()[0], 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-save", action="store_true", help="measure, leave results/ alone")
    options = parser.parse_args()
    text = texts()
    rows: list[Row] = []
    for hidden in HIDDEN:
        rows += training(text["train"], hidden, options.repeats)
        rows += scoring(text["test"], text["train"].type_counts, hidden, options.repeats)
    reporting.print_table(rows)
    if not options.no_save:
        reporting.save("lm-boltzmann-speed", PROTOCOL, rows, seeds=(0,))


if __name__ == "__main__":
    main()
