"""Lags and n-grams of generated text counted on a local Dask cluster of one worker and of two.

python -m benchmarks.scale.cluster --tokens 200e6 [--scratch FOLDER]

Needs two processors with nothing else to do, Dask, and in FOLDER some 60 bytes for every token.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import parts

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


def generate(path: Path, n_tokens: int, seed: int = 0) -> None:
    """Write the text, unless it is there."""
    if path.exists():
        return
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


def measure(path: Path, n_workers: int, partition_bytes: int) -> dict[str, Any]:
    """Count on so many workers, in this process."""
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
        rows = sum(len(each) for each in tacenda_lm.dask._rows_of(corpus, PROTOCOL["order"]))
        times.append(time.perf_counter())
        moved = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
        peaks = client.run(_peak)
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
    for _ in tacenda_lm.dask._rows_of(corpus, PROTOCOL["order"]):
        pass


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=float, default=200e6)
    parser.add_argument("--scratch", type=Path, default=parts.kept_folder() / "scale")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--partition", type=float, default=64 << 20, help="bytes of a partition")
    parser.add_argument("--here", type=int, help="measure in this process and print a row")
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    path = options.scratch / f"generated-{options.tokens:.0f}.txt"
    generate(path, int(options.tokens))
    if options.here:
        print(json.dumps(measure(path, options.here, int(options.partition)), default=float))
        return
    from benchmarks import reporting  # here, because every worker imports this module

    shared = ("--tokens", options.tokens, "--scratch", options.scratch)
    shared += ("--partition", options.partition)
    rows = [
        reporting.of_process("benchmarks.scale.cluster", "--here", n, *shared)
        for n in options.workers
    ]
    for row in rows:
        row["speedup"] = rows[0]["seconds"] / row["seconds"]
    reporting.save("scale-cluster", PROTOCOL, rows, seeds=[0], keep="what")


if __name__ == "__main__":
    main()
