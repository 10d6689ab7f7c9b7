"""Lags and n-grams of generated text counted on a local Dask cluster of one worker and of two.

    python -m benchmarks.scale.cluster [--tokens 200e6]

Needs two processors with nothing else to do, Dask, and below TACENDA_BENCH_CACHE some 60 bytes for every token.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import kept, reporting
from benchmarks.reporting import Row, Table, in_process, main

PROTOCOL = {
    "text": "generated: words drawn independently by Zipf's law with exponent 1.1 from a million, in lines of 20; real "
    "text repeats itself more, and has fewer distinct pairs and n-grams",
    "vocabulary": 40_000,
    "lags": 7,
    "order": 5,
    "partition_bytes": "64 MiB, or what a row says",
    "times": "seconds, one run after another in processes of their own: reading and numbering the words; counting the "
    "pairs of seven lags, sums on the client's disk; counting 5-grams, sorted rows on the client. Fitting is not in it",
    "moved": "what workers sent to workers and to the client, by Dask's count",
    "peak": "largest resident memory of a worker, ru_maxrss",
    "cluster": "LocalCluster, processes of one thread",
}
_LINES = 50_000  # generated at once
_WORDS = 20


def generated(n_tokens: int, seed: int = 0) -> Path:
    """Return a file with the text, written now unless it is there."""
    path = kept.place() / "scale" / f"generated-{n_tokens}.txt"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    shares = np.cumsum(np.arange(1, 1_000_001) ** -1.1)
    words = np.array([f"w{np.base_repr(i, 36).lower()}" for i in range(len(shares))], dtype=object)
    temporary = path.with_suffix(".part")
    with temporary.open("w", encoding="ascii") as file:
        for start in range(0, n_tokens, _LINES * _WORDS):
            n = min(_LINES * _WORDS, n_tokens - start)
            drawn = words[np.searchsorted(shares, rng.random(n) * shares[-1])].tolist()
            lines = (" ".join(drawn[i : i + _WORDS]) for i in range(0, n, _WORDS))
            file.write("\n".join(lines) + "\n")
    temporary.replace(path)
    return path


def measure(n_tokens: int, n_workers: int, partition_bytes: int) -> Row:
    """Count on so many workers, in this process."""
    path = generated(n_tokens)
    from distributed import Client, LocalCluster

    import tacenda_embeddings.dask
    import tacenda_lm.dask
    from tacenda.dask import ClusterCorpus

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        _warm(client, path.with_name("warm.txt"))
        times = [time.perf_counter()]
        corpus = ClusterCorpus.from_text(
            path,
            client=client,
            max_vocabulary=PROTOCOL["vocabulary"],
            partition_bytes=partition_bytes,
        )
        times.append(time.perf_counter())
        counts = tacenda_embeddings.dask.count_lags(corpus, PROTOCOL["lags"], scratch=path.parent)
        pairs = sum(len(lag.indices) for lag in counts.lags)
        times.append(time.perf_counter())
        rows = sum(len(each) for each in tacenda_lm.dask._count_rows(corpus, PROTOCOL["order"]))
        times.append(time.perf_counter())
        moved = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
        peaks = client.run(reporting.peak)
        seconds = np.diff(times)
        return {
            "what": f"{corpus.n_tokens / 1e6:g} million tokens, {n_workers} worker{'s' * (n_workers > 1)}",
            "workers": n_workers,
            "partition_bytes": partition_bytes,
            "tokens": corpus.n_tokens,
            "text_bytes": path.stat().st_size,
            "reading": seconds[0],
            "lags": seconds[1],
            "n-grams": seconds[2],
            "seconds": seconds.sum(),
            "moved MB": sum(moved.values()) / 1e6,
            "peak MB": max(peaks.values()) / 1e6,
            "pairs": pairs,
            "5-grams": rows,
        }


def _warm(client: Any, path: Path) -> None:
    """Have every worker load what it compiles."""
    import tacenda_embeddings.dask
    import tacenda_lm.dask
    from tacenda.dask import ClusterCorpus

    path.write_text("a b\n" * 1000)
    corpus = ClusterCorpus.from_text(path, client=client, partition_bytes=100)
    tacenda_embeddings.dask.count_lags(corpus)
    for _ in tacenda_lm.dask._count_rows(corpus, PROTOCOL["order"]):
        pass


def rows(options: Any) -> Iterator[Row]:
    n, first = int(options.tokens), 0.0
    generated(n)
    for workers in options.workers:
        row = in_process(measure, n, workers, options.partition)
        first = first or row["seconds"]
        yield {**row, "speedup": first / row["seconds"]}


if __name__ == "__main__":
    table = Table("scale-cluster", PROTOCOL, rows, key="what")
    main(__doc__, table, tokens=200e6, workers=[1, 2], partition=64 << 20)
