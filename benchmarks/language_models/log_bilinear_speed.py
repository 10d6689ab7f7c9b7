"""Log-bilinear models on Penn Treebank: speed of training, of building a tree and of scoring.

    python -m benchmarks.language_models.log_bilinear_speed [--repeats 7]

The model is the default one that `benchmarks.language_models.log_bilinear` fits and keeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.language_models import contexts
from benchmarks.reporting import Row, Table, interleaved, main
from tacenda import Corpus
from tacenda_lm import HLBL, build_tree
from tacenda_lm.log_bilinear.hlbl import (
    BATCH_PIECES,
    PIECE_WORDS,
    HLBLAdvanced,
    HLBLTrainer,
    Parameters,
)
from tacenda_lm.log_bilinear.lbl import LBLAdvanced, LBLSettings, LBLTrainer
from tacenda_lm.sequences import with_ends
from tacenda_lm.streams import Stream

DEFAULT, THESIS = "HLBL, default", "HLBL, the thesis's: 100 features, 5 words"
SGEMM = "sgemm, 1024 x 1024 x 1024"
PROTOCOL = {
    "repeats": reporting.TURNS,
    "clock": "tokens a second by the clock where two threads work, else by the processor's time; load: processes that "
    "wanted a core in the last minute",
    "scoring": "the test text as one stream: ids (score_corpus), a list of lines (score_batch), line by line (score)",
    "training": "tokens of steps on random pieces of the training text, evaluation left out",
    "times LBL": "tokens a second of the default HLBL's training, one thread, over those of the LBL",
    "GFLOP/s": "of the LBL's products with its output vectors; sgemm: such a product alone, taking turns with the rest",
    "tree": "adaptive, one copy, 18,000 vectors of 100 elements drawn around 500 centres, Zipf weights",
}


def training_steps(model: HLBL, corpus: Corpus, threads: int, steps: int = 40) -> tuple[Any, int]:
    """Return a stretch of training, and how many tokens it has."""
    settings, counts = replace(model.settings, threads=threads), corpus.type_counts
    tree, rng = model.tree, np.random.default_rng(0)
    parameters = Parameters.draw(settings, len(counts), tree.biases(counts), rng)
    trainer = HLBLTrainer(settings, parameters, tree, Stream.of_corpus(corpus, True), None)
    starts = rng.permutation(trainer.begins)[: steps * BATCH_PIECES]

    def work() -> None:
        for part in np.split(starts, steps):
            trainer.step((part,), 0.1)

    return work, steps * BATCH_PIECES * PIECE_WORDS


def lbl_steps(corpus: Corpus, width: int, context: int, steps: int = 3) -> tuple[Any, Any, float]:
    """Return a stretch of an LBL's training; one product of it alone; floating-point operations of such a product."""
    size = 512
    advanced = LBLAdvanced(context_matrices="diagonal")
    settings = LBLSettings(width=width, context=context, batch_words=size, advanced=advanced)
    trainer = LBLTrainer(settings, corpus.type_counts, Stream.of_corpus(corpus, True), None)
    positions = np.random.default_rng(0).integers(1, corpus.n_tokens, (steps, size))

    def work() -> None:
        for batch in positions:
            trainer.step((batch,), 0.1)

    r = np.random.default_rng(0).standard_normal((size, width), np.float32)
    q = trainer.current.outputs
    return work, lambda: r @ q.T, 2.0 * size * width * len(q)


def scoring(hlbl: HLBL, texts: contexts.Texts, repeats: int) -> Iterator[Row]:
    """Time every form of text; and what the machine can do."""
    test, lines = texts.test, texts.test_lines
    ids, _ = with_ends(test.ids, test.offsets, test.vocabulary.boundary_id)
    whole = np.array([0, len(ids)])
    x = np.random.default_rng(0).standard_normal((1024, 1024), np.float32)
    works: dict[str, Callable[[], Any]] = {
        SGEMM: lambda: x @ x,
        "ids": lambda: hlbl.score_corpus(ids, whole),
        "list of lines": lambda: hlbl.score_batch(lines),
        "line by line": lambda: [hlbl.score(line) for line in lines],
    }
    seconds = interleaved(works, repeats)
    product = reporting.rate(2 * 1024**3 / 1e9, seconds.pop(SGEMM), "GFLOP/s")
    for name, found in seconds.items():
        row = {"part": "scoring", "form": "float32", "given": name}
        yield {**row, **reporting.rate(len(ids), found, "tokens/s")}
    yield {"part": "machine", "what": SGEMM, **product}


def training(hlbl: HLBL, train: Corpus, repeats: int) -> Iterator[Row]:
    """Time training, ours on one thread and on two, and the flat model's."""
    advanced = HLBLAdvanced(tail_rates=(), frequency_power=0.0)
    plain = HLBL(width=100, context=5, copies=1, dropout=0.0, epochs=0, advanced=advanced)
    models = {DEFAULT: hlbl, THESIS: plain.fit(train)}
    works, tokens, operations = {}, {}, {}
    for name, model in models.items():
        works[name], tokens[name] = training_steps(model, train, 1)
    for width, context in ((100, 5), (hlbl.settings.width, hlbl.settings.context)):
        name = f"LBL, exact softmax: {width} features, {context} words"
        works[name], works[f"sgemm of {name}"], operations[name] = lbl_steps(train, width, context)
        tokens[name] = 3 * 512
    seconds = interleaved(works, repeats)
    ours = 0.0
    for name, n in tokens.items():
        row: Row = {"part": "training", "model": name, "threads": 1}
        row |= reporting.rate(n, seconds[name], "tokens/s")
        ours = ours or row["tokens/s"]
        if name in operations:
            row["times LBL"] = ours / row["tokens/s"]
            row["GFLOP/s"] = 3 * operations[name] / 512 * row["tokens/s"] / 1e9
            alone = reporting.rate(operations[name] / 1e9, seconds[f"sgemm of {name}"], "GFLOP/s")
            row["sgemm GFLOP/s"] = alone["GFLOP/s"]
        yield row
    both = {name: training_steps(model, train, 2) for name, model in models.items()}
    timed = interleaved(
        {name: work for name, (work, _) in both.items()}, repeats, time.perf_counter
    )
    for name, found in timed.items():
        row = {"part": "training", "model": name, "threads": 2}
        yield {**row, **reporting.rate(both[name][1], found, "tokens/s")}


def tree(repeats: int, words: int = 18_000, width: int = 100) -> Iterator[Row]:
    """Time building one tree."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((500, width))
    vectors = centres[rng.integers(0, 500, words)] + 0.7 * rng.standard_normal((words, width))
    weights = (1 / np.sqrt(np.arange(1, words + 1))).astype(np.float32)
    build = {"tree": lambda: build_tree("adaptive", words, vectors=vectors, weights=weights)}
    found = reporting.timing(interleaved(build, repeats)["tree"], "CPU s")
    yield {"part": "tree", "what": f"tree over {words:,} words", **found}


def rows(options: Any) -> Iterator[Row]:
    texts, repeats = contexts.Texts(), options.repeats
    hlbl, _ = contexts.fitted(HLBL(), "ptb", texts.train, texts.valid)
    for part in (
        scoring(hlbl, texts, repeats),
        training(hlbl, texts.train, repeats),
        tree(min(repeats, 3)),
    ):
        for row in part:
            yield {**row, "load": reporting.load()}


if __name__ == "__main__":
    main(__doc__, Table("lm-log-bilinear-speed", PROTOCOL, rows), repeats=7)
