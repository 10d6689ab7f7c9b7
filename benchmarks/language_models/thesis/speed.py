"""Table 4.5: time of an epoch on every tree, beside the LBL. Measured anew every time."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np

from benchmarks.language_models import timing
from benchmarks.language_models.thesis import published, recipes
from benchmarks.language_models.thesis.recipes import Flat, Hierarchical
from benchmarks.language_models.thesis.study import Study
from benchmarks.language_models.thesis.training import trainer_on
from tacenda_lm.log_bilinear.lbl import LBLTrainer
from tacenda_lm.streams import Stream

STEPS, FLAT_STEPS, REPEATS = 150, 4, 5


Work = tuple[Callable[[], None], int]


def tree_work(study: Study, recipe: Hierarchical) -> Work:
    """A stretch of training, and its tokens."""
    settings, advanced = recipe.settings, recipe.settings.advanced
    trainer = trainer_on(settings, study.bench.tree(recipe.tree), study.bench.texts.train)
    begins = np.random.default_rng(0).permutation(trainer.begins)
    starts = begins[: STEPS * advanced.batch_pieces].reshape(-1, advanced.batch_pieces)

    def work() -> None:
        for part in starts:
            trainer.step((part,), 0.1)

    return work, starts.size * advanced.piece_words


def flat_work(study: Study, recipe: Flat) -> Work:
    """A stretch of training, and its tokens."""
    train, settings = study.bench.texts.train, recipe.settings
    trainer = LBLTrainer(settings, train.type_counts, Stream.of_corpus(train, False), None)
    steps = FLAT_STEPS if recipe.loss == "softmax" else STEPS
    positions = np.flatnonzero(~trainer.text.firsts)
    batches = np.random.default_rng(0).choice(positions, (steps, settings.batch_words))

    def work() -> None:
        for batch in batches:
            trainer.step((batch,), 0.1)

    return work, batches.size


def main(study: Study) -> None:
    texts = study.bench.texts
    tokens = texts.train.n_tokens + texts.train.n_sentences
    works = {tree.name: tree_work(study, Hierarchical(tree)) for tree in recipes.TREES}
    works["LBL"] = flat_work(study, Flat(loss="softmax"))
    works["LBL by NCE"] = flat_work(study, Flat())
    seconds = timing.interleaved({name: work for name, (work, _) in works.items()}, REPEATS)
    rates = {name: n / statistics.median(seconds[name]) for name, (_, n) in works.items()}
    rows = []
    for name, rate in rates.items():
        row = {
            "model": name if "LBL" in name else f"HLBL, {name}",
            "tokens/s": round(rate),
            "least": round(works[name][1] / max(seconds[name])),
            "most": round(works[name][1] / min(seconds[name])),
            "seconds an epoch": round(tokens / rate, 1),
            "times as fast as the LBL": round(rate / rates["LBL"], 1),
        }
        if name in published.MINUTES:
            minutes = published.MINUTES[name]
            row["minutes an epoch APNews"] = minutes
            row["times as fast APNews"] = round(published.MINUTES["LBL"] / minutes, 1)
        rows.append(row)
    told = {
        "tokens/s": f"of {STEPS} steps ({FLAT_STEPS} of the exact LBL) of 512 tokens, evaluation left out",
        "repeats": timing.PROTOCOL,
        "APNews": "14 million words, 17,964 types, one core of its time",
    }
    study.save("speed", told, rows)
