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
from benchmarks.language_models import contexts, timing
from benchmarks.language_models.log_bilinear import fitted
from tacenda import Corpus, datasets
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

Row = dict[str, Any]
DEFAULT, THESIS = "default", "the thesis's: 100 features, 5 words"
PROTOCOL = {
    "repeats": timing.PROTOCOL,
    "clock": "tokens a second by the clock where two threads work, else by the processor's time; load: processes that "
    "wanted a core in the last minute",
    "scoring": "the test text as one stream: ids (score_corpus), a list of lines (score_batch), line by line (score)",
    "training": "tokens of steps on random pieces of the training text, evaluation left out",
    "times LBL": "tokens a second of the default HLBL's training, one thread, over those of the LBL",
    "GFLOP/s": "of the LBL's products with its output vectors; sgemm: such a product alone, taking turns with the rest",
    "tree": "adaptive, one copy, 18,000 vectors of 100 elements drawn around 500 centres, Zipf weights",
}


def training_steps(model: HLBL, corpus: Corpus, threads: int, steps: int = 40) -> tuple[Any, int]:
    """A stretch of training, and how many tokens it has."""
    settings, counts = replace(model.settings, threads=threads), corpus.type_counts
    tree, rng = model.tree, np.random.default_rng(0)
    parameters = Parameters.draw(settings, len(counts), tree.biases(counts), rng)
    trainer = HLBLTrainer(settings, parameters, tree, Stream.of_corpus(corpus, True), None)
    size = BATCH_PIECES
    starts = rng.permutation(trainer.begins)[: steps * size]

    def work() -> None:
        for part in np.split(starts, steps):
            trainer.step((part,), 0.1)

    return work, steps * size * PIECE_WORDS


def lbl_steps(corpus: Corpus, width: int, context: int, steps: int = 3) -> tuple[Any, Any, float]:
    """A stretch of an LBL's training; one product of it alone; floating-point operations of such a product."""
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


def scoring(hlbl: HLBL, test: Corpus, lines: list[str], repeats: int) -> Iterator[Row]:
    """Tokens a second in every form of text; and what the machine can do."""
    ids, _ = with_ends(test.ids, test.offsets, test.vocabulary.boundary_id)
    whole = np.array([0, len(ids)])
    x = np.random.default_rng(0).standard_normal((1024, 1024), np.float32)
    works: dict[str, Callable[[], Any]] = {
        "sgemm": lambda: x @ x,
        "ids": lambda: hlbl.score_corpus(ids, whole),
        "list of lines": lambda: hlbl.score_batch(lines),
        "line by line": lambda: [hlbl.score(line) for line in lines],
    }
    seconds = timing.interleaved(works, repeats)
    for name, found in seconds.items():
        if name != "sgemm":
            row = {"part": "scoring", "form": "float32", "given": name}
            yield {**row, **timing.rate(len(ids), found, "tokens/s"), "load": reporting.load()}
    product = timing.rate(2 * 1024**3 / 1e9, seconds["sgemm"], "GFLOP/s")
    yield {
        "part": "machine",
        "what": "sgemm, 1024 x 1024 x 1024",
        **product,
        "load": reporting.load(),
    }


def training(hlbl: HLBL, train: Corpus, repeats: int) -> Iterator[Row]:
    """Tokens a second of training, ours on one thread and on two, and the flat model's."""
    advanced = HLBLAdvanced(tail_rates=(), frequency_power=0.0)
    plain = HLBL(width=100, context=5, copies=1, dropout=0.0, epochs=0, advanced=advanced).fit(
        train
    )
    works, tokens, operations = {}, {}, {}
    for name, model in ((DEFAULT, hlbl), (THESIS, plain)):
        works[f"HLBL, {name}"], tokens[f"HLBL, {name}"] = training_steps(model, train, 1)
    for width, context in ((100, 5), (hlbl.settings.width, hlbl.settings.context)):
        name = f"LBL, exact softmax: {width} features, {context} words"
        works[name], works[f"sgemm of {name}"], operations[name] = lbl_steps(train, width, context)
        tokens[name] = 3 * 512
    seconds = timing.interleaved(works, repeats)
    ours = 0.0
    for name, n in tokens.items():
        row: Row = {"part": "training", "model": name, "threads": 1}
        row |= timing.rate(n, seconds[name], "tokens/s")
        ours = ours or row["tokens/s"]
        if name in operations:
            row["times LBL"] = ours / row["tokens/s"]
            row["GFLOP/s"] = 3 * operations[name] / 512 * row["tokens/s"] / 1e9
            alone = timing.rate(operations[name] / 1e9, seconds[f"sgemm of {name}"], "GFLOP/s")
            row["sgemm GFLOP/s"] = alone["GFLOP/s"]
        yield {**row, "load": reporting.load()}
    works, tokens = {}, {}
    for name, model in ((DEFAULT, hlbl), (THESIS, plain)):
        works[f"HLBL, {name}"], tokens[f"HLBL, {name}"] = training_steps(model, train, 2)
    for name, found in timing.interleaved(works, repeats, time.perf_counter).items():
        row = {"part": "training", "model": name, "threads": 2}
        yield {**row, **timing.rate(tokens[name], found, "tokens/s"), "load": reporting.load()}


def tree(repeats: int, words: int = 18_000, width: int = 100) -> Iterator[Row]:
    """Seconds to build one tree."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((500, width))
    vectors = centres[rng.integers(0, 500, words)] + 0.7 * rng.standard_normal((words, width))
    weights = (1 / np.sqrt(np.arange(1, words + 1))).astype(np.float32)
    build = {"tree": lambda: build_tree("adaptive", words, vectors=vectors, weights=weights)}
    found = reporting.summary(timing.interleaved(build, repeats)["tree"])
    row = {"part": "tree", "what": f"tree over {words:,} words", "CPU s": found["median"]}
    yield {
        **row,
        "least": found["min"],
        "most": found["max"],
        "runs": repeats,
        "load": reporting.load(),
    }


def main() -> None:
    parser = reporting.Command(__doc__, "no-save")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    texts = contexts.Texts()
    hlbl, _ = fitted(texts.train, texts.valid)
    test_file = datasets.locate("ptb")["test"]
    lines = [line for line in test_file.read_text("utf-8").splitlines() if line.strip()]
    rows: list[Row] = []
    for part in (
        scoring(hlbl, texts.test, lines, options.repeats),
        training(hlbl, texts.train, options.repeats),
        tree(min(options.repeats, 3)),
    ):
        for row in part:
            rows.append(row)
            print(row, flush=True)
    reporting.save("lm-log-bilinear-speed", PROTOCOL, rows, seeds=(0,), dry=options.no_save)


if __name__ == "__main__":
    main()
