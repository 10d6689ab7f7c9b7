"""Kernels against their peers on one core: python -m benchmarks.kernels [--text FILE] [--repeats 7].

One run prints, for each kernel, its rate, that of a peer on the same arrays, and this machine's
sgemm rate; benchmarks/results/kernels.json keeps all of it. The sparse operand is the lag-4 count
matrix of the text (26M tokens of Wikipedia in the evaluation data, where TACENDA_DATA names it, and
otherwise a stream of random words with Zipf's frequencies). Run it on a machine that does nothing
else: the load average is kept with the results.
"""

# ruff: noqa: E402 - BLAS reads its number of threads when it is first imported
import os

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks import reporting
from tacenda import Corpus
from tacenda.kernels.dynamics import linear_recurrence, modal_recurrence
from tacenda.kernels.dynamics.lagged_counts import lagged_counts
from tacenda.kernels.shared import sparse_product

LAG = 4
STATES = 200


def word_stream(text: Path | None, vocabulary: int) -> tuple[np.ndarray, str]:
    if text is None:
        rng = np.random.default_rng(0)
        frequency = 1.0 / np.arange(1, vocabulary + 1)
        stream = rng.choice(vocabulary, 10_000_000, p=frequency / frequency.sum())
        return stream.astype(np.int32), "random words with Zipf's frequencies, 10M"
    corpus = Corpus.from_text(text, tokenizer="whitespace", max_vocabulary=vocabulary)
    return np.ascontiguousarray(corpus.ids), f"{text.name}, {corpus.n_tokens:,} tokens"


def row(
    kernel: str, case: str, work: float, unit: str, ours: Callable[[], Any], repeats: int,
    peer: tuple[str, Callable[[], Any]] | None = None, sgemm: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Rates in ``unit`` for ``work`` units; ratios of medians."""
    seconds = reporting.summary(reporting.timed(ours, repeats))
    rate = work / seconds["median"]
    result: dict[str, Any] = {"kernel": kernel, "case": case, "rate": rate, "unit": unit}
    result["of sgemm"] = rate / sgemm if sgemm else None
    result["seconds"] = seconds
    if peer is not None:
        peer_seconds = reporting.summary(reporting.timed(peer[1], max(3, repeats // 2)))
        result |= {"peer": peer[0], "times the peer": peer_seconds["median"] / seconds["median"]}
        result["peer seconds"] = peer_seconds
    print(f"{kernel}, {case}: {rate:,.4g} {unit}", flush=True)
    return result


def sgemm_rate(repeats: int) -> float:
    a = np.random.default_rng(0).standard_normal((1000, 1000), dtype=np.float32)
    out = np.empty_like(a)
    seconds = reporting.summary(reporting.timed(lambda: np.matmul(a, a, out=out), 3 * repeats))
    return 2e9 / seconds["median"] / 1e9


def sparse_rows(text: Path | None, vocabulary: int, repeats: int, sgemm: float) -> tuple[list, str]:
    stream, name = word_stream(text, vocabulary)
    size = int(stream.max()) + 1
    counts = lagged_counts(stream, LAG, size)[LAG - 1]
    csr = (counts.indptr, counts.indices, counts.data.astype(np.float32))
    matrix = scipy.sparse.csr_matrix((csr[2], csr[1], csr[0]), shape=(size, size))
    rng = np.random.default_rng(0)
    rows = []
    for width in (200, 220, 400):
        dense = rng.standard_normal((size, width), dtype=np.float32)
        scale = rng.random(size, dtype=np.float32)
        work = 2e-9 * len(csr[1]) * width

        case = f"width {width}"
        whitened = partial(
            sparse_product.multiply, *csr, dense, row_scale=scale, column_scale=scale
        )
        add = partial(row, "sparse_product", work=work, unit="GFLOP/s", repeats=repeats)
        plain = ("scipy", partial(matrix.__matmul__, dense))
        rows += [
            add(case, ours=whitened, peer=plain, sgemm=sgemm),
            add(f"{case}, 2 threads", ours=partial(whitened, threads=2)),
        ]
    return rows, f"{name}, lag {LAG}: {size:,} x {size:,}, {len(csr[1]):,} nonzeros"


def recurrence_rows(repeats: int, sgemm: float) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    F = rng.standard_normal((STATES, STATES))
    F = (0.97 * F / np.abs(np.linalg.eigvals(F)).max()).astype(np.float32)
    modes = modal_recurrence.decompose(F)
    real, pairs = modes.real.astype(np.float32), modes.complex.astype(np.float32)
    shapes = {
        "2000 sentences": rng.integers(5, 45, 2000),
        "100 sentences": rng.integers(5, 45, 100),
        "60 documents": rng.integers(100, 1000, 60),
        "one document of 30k": np.array([30_000]),
        "one sentence of 25": np.array([25]),
    }
    rows = []
    for case, lengths in shapes.items():
        offsets = np.r_[0, np.cumsum(lengths)]
        u = rng.standard_normal((offsets[-1], STATES), dtype=np.float32)
        out = np.empty_like(u)
        flops = 2e-9 * STATES**2 * len(u)
        dense = partial(linear_recurrence.forward, F, u, offsets)
        modal = partial(modal_recurrence.scan, real, pairs, u, np.arange(len(u)), offsets, out=out)
        copy = ("copying u", partial(np.copyto, out, u))
        rows += [
            row("linear_recurrence", case, flops, "GFLOP/s", dense, repeats, sgemm=sgemm),
            row("modal_scan", case, 1e-6 * len(u), "M tokens/s", modal, repeats, copy),
        ]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--text", type=Path, help="plain or compressed text, a sentence a line")
    parser.add_argument("--vocabulary", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    text = arguments.text
    if text is None and "TACENDA_DATA" in os.environ:
        text = Path(os.environ["TACENDA_DATA"], "lm/wikipedia-good-articles/train.txt.xz")
    sgemm = sgemm_rate(arguments.repeats)
    sparse, operand = sparse_rows(text, arguments.vocabulary, arguments.repeats, sgemm)
    protocol = {
        "sparse operand": operand,
        "sgemm": f"{sgemm:.1f} GFLOP/s for 1000 x 1000 x 1000",
        "states": STATES,
        "timing": "medians of wall time, one core but where threads are named, float32, "
        "results of recurrences written to an existing array",
    }
    rows = sparse + recurrence_rows(arguments.repeats, sgemm)
    print({key: value for key, value in protocol.items() if key != "timing"})
    print(reporting.save("kernels", protocol, rows))


if __name__ == "__main__":
    main()
