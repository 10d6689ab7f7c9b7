"""What counting takes for 1, 10 and 100 billion tokens, by the rates that `benchmarks.scale.cluster` measured.

python -m benchmarks.scale.arithmetic
"""

from __future__ import annotations

import json
import math

from benchmarks import parts, reporting
from tacenda.dask.corpus import PARTITION_BYTES
from tacenda.dask.sums import FAN_IN

SIZES = (10**9, 10**10, 10**11)
WORKERS = 16
PROTOCOL = {
    "from": "the two longest texts of scale-cluster with one worker, and the speed-up of two workers on the longest",
    "hours": f"for {WORKERS} workers of one thread: tokens / rate of one / {WORKERS} / half the speed-up of two",
    "moved": "bytes that workers send, in proportion to tokens and to the levels of the tree of sums",
    "ids": "bytes of word ids that a worker holds, in memory or on its disk",
    "pairs, 5-grams": "distinct ones, by the power law through both texts; a pair takes 8 bytes, a 5-gram 24, on the "
    "disk of the client",
    "serial": "hours of one machine that counts by itself, by the rate of one worker",
}


def _levels(text_bytes: float) -> int:
    return max(1, math.ceil(math.log(max(2.0, text_bytes / PARTITION_BYTES), FAN_IN)))


def main() -> None:
    measured = json.loads((parts.RESULTS / "scale-cluster.json").read_text(encoding="utf-8"))[
        "rows"
    ]
    alone = sorted((row for row in measured if row["workers"] == 1), key=lambda row: row["tokens"])
    short, long = alone[-2:]
    pair = next(row for row in measured if row["workers"] == 2 and row["tokens"] == long["tokens"])
    share = long["seconds"] / pair["seconds"] / 2
    rows = []
    for n in SIZES:
        times = n / long["tokens"]
        text_bytes = long["text_bytes"] * times
        levels = _levels(text_bytes) / _levels(long["text_bytes"])
        row = {"what": f"{n // 10**9} billion tokens", "tokens": n, "text": text_bytes}
        row["ids"] = 4 * n / WORKERS
        row["moved"] = pair["moved"] * times * levels
        for name in ("pairs", "5-grams"):
            power = math.log(long[name] / short[name]) / math.log(long["tokens"] / short["tokens"])
            row[name] = long[name] * times**power
        row["client"] = 8 * row["pairs"] + 24 * row["5-grams"]
        for name in ("reading", "lags", "n-grams", "seconds"):
            row[f"hours, {name}"] = long[name] * times / WORKERS / share / 3600
        row["serial"] = long["seconds"] * times / 3600
        rows.append(row)
    protocol = {**PROTOCOL, "measured": [short["what"], long["what"], pair["what"]]}
    reporting.save("scale-arithmetic", protocol, rows)


if __name__ == "__main__":
    main()
