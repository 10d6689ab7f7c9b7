"""Tokens per second of LDS.transform against this machine's matrix product, one thread, h = 200.

    python -m benchmarks.embeddings.smoothing [--repeats 9]

The two-sided smoother does two h x h products per token: 4 h^2 = 160,000 flops. The peer is the
float32 matrix product (sgemm) of the same run: of two 2048 x 2048 matrices, which is the machine's
rate, and of (256 x 200) by (200 x 200), the shape of one batched step. Turns alternate, one to warm up;
medians, and of the ratios of the same turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.embeddings import labelled, models, text
from benchmarks.reporting import Row, Table, interleaved, main

MACHINE = "sgemm 2048 x 2048"
PROTOCOL = {
    "measure": "tokens per second, and floating-point operations per second at 4 h^2 per token",
    "threads": 1,
    "rows": "through transform_ids, arrays of their own for every sentence; packed: transform_into "
    "views of one array; words: transform",
    "input": "ids of EWT training sentences, in memory; of Wikipedia paragraphs for the long ones",
    "peer": "numpy float32 matrix product, single thread, same run, alternating",
}


def product(n: int, m: int, calls: int) -> tuple[Callable[[], Any], float]:
    """`calls` products of (n, m) by (m, m) into one buffer, and their flops."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((n, m), dtype=np.float32)
    right = rng.standard_normal((m, m), dtype=np.float32)
    out = np.empty((n, m), dtype=np.float32)

    def run() -> None:
        for _ in range(calls):
            np.matmul(left, right, out=out)

    return run, 2.0 * n * m * m * calls


def rows(options: Any) -> Iterator[Row]:
    model = models.fitted()
    corpus = text.corpus()
    sentences = [s.words for s in labelled.load("ewt-upos").train]
    short = [model.vocabulary.encode(words) for words in sentences]
    long = [corpus.sentence(i) for i in range(min(2500, corpus.n_sentences))]
    flops = 4.0 * model.settings.n_states**2
    runs: dict[str, tuple[Callable[[], Any], float]] = {
        MACHINE: product(2048, 2048, 4),
        "sgemm 256 x 200 x 200": product(256, 200, 2000),
    }
    for name, ids in (("EWT sentences", short), ("Wikipedia paragraphs", long)):
        tokens = float(sum(map(len, ids)))
        for output in ("weighted_mean", "own_context", "own_past_future"):

            def run(ids: list[Any] = ids, output: str = output) -> None:
                model.transform_ids(ids, output=output)

            runs[f"LDS {output}, {name}"] = run, tokens * flops
    packed = np.concatenate(short), np.cumsum([0, *map(len, short)])
    width = model.with_output("own_context").width
    views = np.split(np.empty((len(packed[0]), width), np.float32), packed[1][1:-1])
    for ends in ("exact", "zero"):
        other = model.with_output("own_context", ends=ends)

        def run(other: Any = other) -> None:
            other.transform_into(*packed, views)

        tokens = float(len(packed[0]))
        runs[f"LDS own_context, EWT packed, {ends} ends"] = run, tokens * flops
    run = lambda: model.transform(sentences, output="own_context")  # noqa: E731
    runs["LDS own_context, EWT words"] = run, sum(map(len, short)) * flops
    calls = {name: call for name, (call, _) in runs.items()}
    seconds = interleaved(calls, options.repeats, time.perf_counter)
    rates = {name: [work / each for each in seconds[name]] for name, (_, work) in runs.items()}
    for name, values in rates.items():
        row = {"row": name, "GFLOP/s": reporting.summary(values)["median"] / 1e9}
        row["share of sgemm"] = reporting.ratio(values, rates[MACHINE])
        if name.startswith("LDS"):
            found = reporting.timing(values, "tokens/s", 1 / flops)
            row |= {key: round(value) for key, value in found.items()}
        yield row


if __name__ == "__main__":
    main(__doc__, Table("embeddings-smoothing", PROTOCOL, rows), repeats=9)
