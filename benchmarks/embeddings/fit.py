"""Whole fit of the LDS, counting included, against gensim's word2vec on the same tokenized corpus.

    python -m benchmarks.embeddings.fit [--repeats 3] [--threads 2]

Both start from the memory-mapped corpus of the Wikipedia text (26M tokens, 40,000 types) in the
same run, taking turns, with the same number of threads and the same BLAS: LDS with 200 states and its
defaults; word2vec CBOW, 200 wide, gensim's default of 5 epochs, reading its fastest input (a file of
space-separated words, written before the clock starts), its vocabulary pass included. The first turn,
which compiles kernels and fills caches, does not count.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy

from benchmarks import reporting
from benchmarks.embeddings import text
from benchmarks.reporting import Row, Table, interleaved, main
from tacenda_embeddings import LDS

LDS_200, WORD2VEC_200 = "LDS 200", "gensim word2vec 200"


def protocol(options: Any) -> dict[str, Any]:
    return {
        "measure": "wall seconds of the whole fit; the tokenized corpus is there before both",
        "lds": "200 states, defaults, lagged counting included",
        "word2vec": "gensim CBOW, 200 wide, window 5, its default of 5 epochs, corpus_file, vocabulary pass included",
        "turns": "alternating; one to warm up, then so many repeats; medians",
        "times faster than word2vec": "median of the ratios of neighbouring turns",
        "threads": options.threads,
        "repeats": options.repeats,
        "blas": blas(),
    }


def with_threads(threads: int) -> None:
    """Start this command again with so many BLAS threads: importing numpy settles them."""
    if os.environ.get("OMP_NUM_THREADS") != str(threads):
        for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
            os.environ[f"{name}_NUM_THREADS"] = str(threads)
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.embeddings.fit", *sys.argv[1:]])


def rows(options: Any) -> Iterator[Row]:
    from gensim.models import Word2Vec

    with_threads(options.threads)
    corpus, n = text.corpus(), options.threads
    words = str(text.word_file(corpus))
    works = {
        LDS_200: lambda: LDS(n_states=200, threads=n).fit(corpus),
        WORD2VEC_200: lambda: Word2Vec(
            corpus_file=words, vector_size=200, min_count=1, workers=n, epochs=5
        ),
    }
    seconds = interleaved(works, options.repeats, time.perf_counter)
    for name, own in seconds.items():
        faster = reporting.ratio(seconds[WORD2VEC_200], own)
        yield {"row": name, **reporting.timing(own), "times faster than word2vec": faster}


def blas() -> dict[str, str]:
    """The library behind numpy, which the LDS multiplies with, and behind scipy, which gensim does."""
    found = {}
    for name, library in (("numpy (LDS)", np), ("scipy (gensim)", scipy)):
        used = library.show_config(mode="dicts")["Build Dependencies"]["blas"]
        found[name] = f"{used['name']} {used['version']}"
    return found


if __name__ == "__main__":
    main(__doc__, Table("embeddings-fit", protocol, rows), repeats=3, threads=2)
