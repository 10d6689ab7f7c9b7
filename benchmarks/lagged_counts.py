"""Counting speed: (pair, lag) updates per second on one core, beside two other ways to count.

    python -m benchmarks.lagged_counts [--tokens N]

With TACENDA_DATA the ids are those of the Wikipedia training text there (words and punctuation by a
regular expression, V = 40,000); without it they are drawn from Zipf's law. The peers: scipy.sparse
(coo_array of ones -> csr_array, sum_duplicates) and numpy (one int64 key for each pair, np.sort, run
lengths). All three give the same matrices, which is checked.
"""

import lzma
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks import kept, reporting
from benchmarks.reporting import Row, Table, interleaved, main
from tacenda.kernels.sequences import Counts, lagged_counts, merge_counts
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings import LaggedCounts

VOCABULARY, LAGS, BLOCK = 40_000, 7, 4_000_000
WIKIPEDIA = Path("lm/wikipedia-good-articles/train.txt.xz")


PROTOCOL = {
    "text": "good and featured articles of Wikipedia, a boundary before every paragraph"
    if os.environ.get("TACENDA_DATA")
    else "drawn from Zipf's law, seed 0",
    "vocabulary": VOCABULARY,
    "lags": LAGS,
    "unit": "(pair, lag) updates per second, one thread, warm, results allocated anew",
    "turns": "the ways take turns; one turn to warm up; medians, and of the ratios of the same turn",
}


def rows(options: Any) -> Iterator[Row]:
    ids = real_ids() if os.environ.get("TACENDA_DATA") else drawn_ids()
    ids = np.ascontiguousarray(ids[: options.tokens])
    merge_counts(lagged_counts(ids[:1000], LAGS, VOCABULARY), VOCABULARY)
    check(ids[:200_000])
    block, corpus, small = ids[:BLOCK], Stream(ids), 512 << 20
    ways = {
        "tacenda kernel, one block": lambda: lagged_counts(block, LAGS, VOCABULARY),
        "tacenda kernel, whole text at once": lambda: lagged_counts(ids, LAGS, VOCABULARY),
        "tacenda LaggedCounts, 2 GB budget": lambda: LaggedCounts.from_corpus(corpus, LAGS),
        "tacenda LaggedCounts, 512 MB budget": lambda: LaggedCounts.from_corpus(
            corpus, LAGS, small
        ),
        "numpy: sort of int64 keys, one block": lambda: by_sorting(block),
        "scipy: coo to csr, one block": lambda: by_scipy(block),
    }
    seconds = interleaved(ways, options.repeats, time.perf_counter)
    counted = {name: len(block if "one block" in name else ids) for name in ways}
    rates = {name: [counted[name] * LAGS / s / 1e6 for s in own] for name, own in seconds.items()}
    for name, own in rates.items():
        against = reporting.ratio(own, rates["scipy: coo to csr, one block"])
        found = reporting.timing(own, "M updates/s")
        yield {"way": name, "tokens": counted[name], **found, "times scipy": against}


class Stream:
    """Ids as `LaggedCounts.from_corpus` reads a corpus."""

    def __init__(self, ids):
        self.ids = ids
        words = ["</s>", "<unk>", *(f"w{i}" for i in range(VOCABULARY - 2))]
        self.vocabulary = Vocabulary(words, np.ones(VOCABULARY, np.int64))

    def stream(self, n_tokens):
        for start in range(0, len(self.ids), n_tokens):
            yield self.ids[start : start + n_tokens]


def by_scipy(ids):
    shape, found = (VOCABULARY, VOCABULARY), []
    for k in range(1, LAGS + 1):
        ones = np.ones(len(ids) - k, np.int32)
        matrix = scipy.sparse.coo_array((ones, (ids[k:], ids[:-k])), shape).tocsr()
        matrix.sum_duplicates()
        found.append(Counts(matrix.indptr, matrix.indices, matrix.data))
    return found


def by_sorting(ids):
    found = []
    wide = ids.astype(np.int64)
    for k in range(1, LAGS + 1):
        keys = wide[k:] * VOCABULARY + wide[:-k]
        keys.sort()
        first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        counts = np.diff(np.r_[first, len(keys)]).astype(np.int32)
        rows, columns = np.divmod(keys[first], VOCABULARY)
        indptr = np.searchsorted(rows, np.arange(VOCABULARY + 1))
        found.append(Counts(indptr, columns.astype(np.int32), counts))
    return found


def check(ids):
    ours = lagged_counts(ids, LAGS, VOCABULARY)
    for theirs in (by_scipy(ids), by_sorting(ids)):
        for a, b in zip(ours, theirs, strict=True):
            for x, y in zip(a, b, strict=True):
                np.testing.assert_array_equal(x, y)


def drawn_ids(n=26_000_000):
    ids = np.random.default_rng(0).zipf(1.1, n).astype(np.float64)
    return np.minimum(ids - 1, VOCABULARY - 1).astype(np.int32)


def real_ids():
    """Return the ids of the Wikipedia text, 0 before every paragraph; found once, and kept."""
    return np.load(kept.folder("wikipedia-ids", VOCABULARY, number, ours=False)[0] / "ids.npy")


def number(folder):
    pattern, known, pieces = re.compile(r"\w+|[^\w\s]"), {}, []
    with lzma.open(Path(os.environ["TACENDA_DATA"]) / WIKIPEDIA, "rt", encoding="utf-8") as lines:
        for line in lines:
            words = pattern.findall(line)
            if words:
                pieces.append([0, *(known.setdefault(w, len(known) + 1) for w in words)])
    provisional = np.fromiter((i for piece in pieces for i in piece), np.int32)
    frequent = np.argsort(-np.bincount(provisional), kind="stable")[: VOCABULARY - 1]
    final = np.full(len(known) + 1, VOCABULARY - 1, np.int32)
    final[frequent] = np.arange(len(frequent))
    np.save(folder / "ids.npy", final[provisional])


if __name__ == "__main__":
    # tokens: use only so many ids
    main(__doc__, Table("lagged_counts", PROTOCOL, rows, seeds=None), tokens=10**9, repeats=5)
