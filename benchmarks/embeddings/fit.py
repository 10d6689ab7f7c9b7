"""Whole fit of the LDS, counting included, against gensim's word2vec on the same tokenized corpus.

    python -m benchmarks.embeddings.fit [--repeats 3] [--threads 2]

Both start from the memory-mapped corpus of the Wikipedia text (26M tokens, 40,000 types) in the
same run, alternating, with the same number of threads: LDS with 200 states and its defaults;
word2vec CBOW, 200 wide, 5 epochs, reading its fastest input (a file of space-separated words,
written before the clock starts), its vocabulary pass included. Each repeat is a cell: a killed run
goes on where it was, and `--fresh` measures anew.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import reporting
from benchmarks.embeddings import common, text
from tacenda_embeddings import LDS

PROTOCOL = {
    "measure": "wall seconds of the whole fit; the tokenized corpus is there before both",
    "lds": "200 states, defaults, lagged counting included",
    "word2vec": "gensim CBOW, 200 wide, window 5, 5 epochs, corpus_file, vocabulary pass included",
}


def with_threads(threads: int) -> None:
    """Start this command anew with so many BLAS threads: importing numpy settles them."""
    if os.environ.get("OMP_NUM_THREADS") != str(threads):
        for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
            os.environ[f"{name}_NUM_THREADS"] = str(threads)
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.embeddings.fit", *sys.argv[1:]])


def lines_file(cache: Path) -> Path:
    """The corpus as gensim reads it fastest."""
    path = cache / "corpus-wiki-words.txt"
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf8") as stream:
            for words in text.WordSentences(text.corpus(cache)):
                stream.write(" ".join(words) + "\n")
        temporary.replace(path)
    return path


def lds(cache: Path, threads: int) -> dict[str, Any]:
    corpus = text.corpus(cache)
    start = time.perf_counter()
    model = LDS(n_states=200).fit(corpus)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "figures": model.figures, "tokens": corpus.n_tokens}


def word2vec(cache: Path, threads: int) -> dict[str, Any]:
    from gensim.models import Word2Vec

    path = lines_file(cache)
    start = time.perf_counter()
    Word2Vec(corpus_file=str(path), vector_size=200, min_count=1, workers=threads, epochs=5)
    return {"seconds": time.perf_counter() - start}


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    options = parser.parse_args()
    with_threads(options.threads)
    log = common.logger("fit", options.cache)
    cells = common.Cells(options.cache, "fit")
    if options.fresh:
        cells.clear()
    lines_file(options.cache)
    rows: dict[str, list[float]] = {"LDS 200": [], "gensim word2vec 200": []}
    for repeat in range(options.repeats):
        for name, run in zip(rows, (lds, word2vec), strict=True):
            key = common.cell_key(row=name, threads=options.threads, repeat=repeat)
            cell = cells.measure(key, lambda: run(options.cache, options.threads))  # noqa: B023
            rows[name].append(cell["seconds"])
            log.info("%s: %.1f s", key, cell["seconds"])
    peer = reporting.summary(rows["gensim word2vec 200"])["median"]
    report = [
        {
            "row": name,
            "seconds": reporting.summary(seconds)["median"],
            "spread": reporting.summary(seconds),
            "times faster than word2vec": peer / reporting.summary(seconds)["median"],
        }
        for name, seconds in rows.items()
    ]
    if not options.no_save:
        protocol = {**PROTOCOL, "threads": options.threads, "repeats": options.repeats}
        reporting.save("embeddings-fit", protocol, report)


if __name__ == "__main__":
    main()
