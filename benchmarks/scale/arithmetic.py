"""What 1, 10 and 100 billion tokens take to be counted, and a billion ratings to be learned,
by the rates that were measured.

python -m benchmarks.scale.arithmetic
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from benchmarks.reporting import RESULTS, Row, Table, main
from benchmarks.scale.cluster import _WORDS
from tacenda.dask.corpus import PARTITION_BYTES
from tacenda_lm.dask import _PIECE_BYTES

SIZES = (10**9, 10**10, 10**11)
WORKERS = 16
PROTOCOL = {
    "from": "the two longest texts of scale-cluster with one worker, and the speed-up of two workers on the longest",
    "hours": f"for {WORKERS} workers of one thread: tokens / rate of one / {WORKERS} / half the speed-up of two",
    "moved": "bytes that workers send: to the client the pairs and 5-grams; to each other, in proportion to tokens, "
    "twice what two workers sent, of whose sums one half travels and of those of many nearly all",
    "ids": "bytes of word ids that a worker holds, in memory or on its disk",
    "pairs, 5-grams": "distinct ones, by the power law through both texts; a pair takes 8 bytes, a 5-gram 24, on the "
    "disk of the client",
    "tasks": f"to count 5-grams, with partitions of {PARTITION_BYTES >> 20} MiB and ranges of {_PIECE_BYTES >> 20} MiB",
    "serial": "hours of one machine that counts by itself, by the rate of one worker",
}


RATINGS_PROTOCOL = {
    "from": "ratings-scale: 100 million ratings, 480,189 users, 17,770 items, 100 factors, one thread of one machine",
    "memory": "largest resident memory, in proportion to ratings: more than is needed, as items do not multiply",
    "minutes": "of an epoch, on one thread",
    "sent": "bytes of the items' factors that each worker of a cluster would send and receive in an epoch",
}


def read(name: str) -> list[Row]:
    """Return the rows of a results file."""
    return list(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"])


def ratings(_: Any) -> Iterator[Row]:
    """Say whether a billion ratings want a cluster."""
    for row in read("ratings-scale"):
        yield {
            "model": row["model"],
            "ratings": 10**9,
            "memory GB": row["peak GB"] * 10**9 / row["ratings"],
            "minutes": 10**9 / row["ratings/s"] / 60,
            "sent MB": 17_770 * 100 * 4 / 1e6,
        }


def client_bytes(row: Row) -> float:
    """Return how many bytes of counts the client holds."""
    return float(8 * row["pairs"] + 24 * row["5-grams"])


def rows(_: Any) -> Iterator[Row]:
    cluster = read("scale-cluster")
    alone = sorted((row for row in cluster if row["workers"] == 1), key=lambda row: row["tokens"])
    short, long = alone[-2:]
    pair = next(row for row in cluster if row["workers"] == 2 and row["tokens"] == long["tokens"])
    share = long["seconds"] / pair["seconds"] / 2
    for n in SIZES:
        times = n / long["tokens"]
        text_bytes = long["text_bytes"] * times
        row = {"what": f"{n // 10**9} billion tokens", "tokens": n, "text GB": text_bytes / 1e9}
        row["ids GB"] = 4 * n / WORKERS / 1e9
        for name in ("pairs", "5-grams"):
            power = math.log(long[name] / short[name]) / math.log(long["tokens"] / short["tokens"])
            row[name] = long[name] * times**power
        row["client GB"] = client_bytes(row) / 1e9
        between = pair["moved MB"] / 1e3 - client_bytes(pair) / 1e9
        row["moved GB"] = row["client GB"] + 2 * between * times
        ranges = 1 + 24 * (n + n // _WORDS) // _PIECE_BYTES
        row["tasks"] = math.ceil(text_bytes / PARTITION_BYTES) * ranges
        for name in ("reading", "lags", "n-grams"):
            row[f"hours {name}"] = long[name] * times / WORKERS / share / 3600
        row["hours"] = long["seconds"] * times / WORKERS / share / 3600
        row["serial"] = long["seconds"] * times / 3600
        yield row


if __name__ == "__main__":
    main(
        __doc__,
        Table("scale-arithmetic", PROTOCOL, rows, seeds=None),
        Table("scale-ratings", RATINGS_PROTOCOL, ratings, seeds=None),
    )
