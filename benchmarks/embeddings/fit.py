"""Whole fit of the LDS, counting included, against gensim's word2vec on the same tokenized corpus.

    python -m benchmarks.embeddings.fit [--repeats 3] [--threads 2]

Both start from the memory-mapped corpus of the Wikipedia text (26M tokens, 40,000 types) in the
same run, taking turns, with the same number of threads and the same BLAS: LDS with 200 states and its
defaults; word2vec CBOW, 200 wide, gensim's default of 5 epochs, reading its fastest input (a file of
space-separated words, written before the clock starts), its vocabulary pass included. The first turn,
which compiles kernels and fills caches, does not count. Each turn is a cell: a killed run goes on where
it was; when the figures are saved, the cells are forgotten.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from benchmarks import reporting
from benchmarks.embeddings import common, models, text
from tacenda_embeddings import LDS

PROTOCOL = {
    "measure": "wall seconds of the whole fit; the tokenized corpus is there before both",
    "lds": "200 states, defaults, lagged counting included",
    "word2vec": "gensim CBOW, 200 wide, window 5, its default of 5 epochs, corpus_file, vocabulary pass included",
    "turns": "alternating; one to warm up, then so many repeats; medians",
    "times faster than word2vec": "median of the ratios of neighbouring turns",
}
LDS_200, WORD2VEC_200 = "LDS 200", "gensim word2vec 200"


def with_threads(threads: int) -> None:
    """Start this command anew with so many BLAS threads: importing numpy settles them."""
    if os.environ.get("OMP_NUM_THREADS") != str(threads):
        for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
            os.environ[f"{name}_NUM_THREADS"] = str(threads)
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.embeddings.fit", *sys.argv[1:]])


def lds(cache: Path, threads: int) -> dict[str, Any]:
    corpus = text.corpus(cache)
    start = time.perf_counter()
    model = LDS(n_states=200, threads=threads).fit(corpus)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "figures": model.figures, "tokens": corpus.n_tokens}


def word2vec(cache: Path, threads: int) -> dict[str, Any]:
    from gensim.models import Word2Vec

    path = text.word_file(cache)
    start = time.perf_counter()
    Word2Vec(corpus_file=str(path), vector_size=200, min_count=1, workers=threads, epochs=5)
    return {"seconds": time.perf_counter() - start}


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with_threads(options.threads)
    log = common.logger("fit", options.cache)
    cells = common.Cells(options.cache, "fit")
    text.word_file(options.cache)
    seconds: dict[str, list[float]] = {LDS_200: [], WORD2VEC_200: []}
    for turn in range(options.repeats + 1):
        for name, run in ((LDS_200, lds), (WORD2VEC_200, word2vec)):
            key = common.cell_key(row=name, threads=options.threads, turn=turn, code=models.code())
            cell = cells.measure(key, lambda: run(options.cache, options.threads))  # noqa: B023
            log.info("%s: %.1f s", key, cell["seconds"])
            if turn:
                seconds[name].append(cell["seconds"])
    rows = []
    for name, measured in seconds.items():
        ratios = [b / a for a, b in zip(measured, seconds[WORD2VEC_200], strict=True)]
        found = reporting.summary(measured)
        rows.append(
            {
                "row": name,
                "seconds": found["median"],
                "least": found["min"],
                "most": found["max"],
                "repeats": found["repeats"],
                "times faster than word2vec": reporting.summary(ratios),
            }
        )
    reporting.save(
        "embeddings-fit",
        {**PROTOCOL, "threads": options.threads, "repeats": options.repeats, "blas": blas()},
        rows,
        seeds=[0],
        dry=options.no_save,
    )
    if not options.no_save:
        cells.clear()


def blas() -> dict[str, str]:
    """The library behind numpy, which the LDS multiplies with, and behind scipy, which gensim does."""
    found = {}
    for name, library in (("numpy (LDS)", np), ("scipy (gensim)", scipy)):
        used = library.show_config(mode="dicts")["Build Dependencies"]["blas"]
        found[name] = f"{used['name']} {used['version']}"
    return found


if __name__ == "__main__":
    main()
