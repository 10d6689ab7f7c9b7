"""Operations on a CUDA device against their floors: python -m benchmarks.gpu [--only smoothing] [--count].

Of each operation the floating-point operations and the fewest bytes are counted: every input read once, every result
written once. The floors are the times that these take at the card's own rates, which are measured in the same run: that
of copying memory, and that of multiplying float32 matrices. Where torch finds no card, or with ``--count``, the counts
are written, and what is measured stays empty.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import reporting
from tacenda.kernels.dynamics import modal_recurrence
from tacenda.kernels.hidden_markov import class_softmax, streaming_logsumexp
from tacenda.kernels.log_bilinear import context_sum, tree_softmax
from tacenda.kernels.log_bilinear.context_sum import Context
from tacenda.kernels.log_bilinear.tree_softmax import Codes
from tacenda.kernels.shared import sparse_product, tall_matrices

FLOAT, ID = 4, 4  # bytes
TYPES, STATES, LAGS, BLOCKS = 40_000, 200, 7, 4  # of the LDS
PROTOCOL = {
    "counted": "floating-point operations, and bytes where every input is read once and every result written once; "
    "memory is what a call allocates, results included",
    "floors": "at the rate of copying 1 GiB within the device, and of multiplying float32 matrices of 8192 rows "
    "without TF32; both measured in this run",
    "time": "median of the repeats after two calls, by CUDA events",
    "ratio": "time over the larger floor",
    "inputs": f"random; words by Zipf's law, {TYPES:,} types, {STATES} states",
}


@dataclass(frozen=True)
class Case:
    """One operation on one input; ``make`` puts the input on a device and returns what is timed."""

    operation: str
    case: str
    flops: float
    moved: float  # bytes
    memory: float  # bytes
    make: Callable[[str], Callable[[], Any]]
    units: float  # tokens, or whatever a rate is given of
    unit: str


def words(n: int, rng: np.random.Generator) -> np.ndarray:
    frequency = 1 / np.arange(1, TYPES + 1)
    return rng.choice(TYPES, n, p=frequency / frequency.sum()).astype(np.int64)


def stable(rng: np.random.Generator) -> np.ndarray:
    """A random matrix of spectral radius 0.9."""
    F = rng.standard_normal((STATES, STATES))
    return np.asarray(F * 0.9 / np.abs(np.linalg.eigvals(F)).max())


def smoothing() -> Iterator[Case]:
    """The vectors own_past_future of a fitted LDS, and the scans that they are made from."""
    from tacenda_embeddings.lds import outputs
    from tacenda_embeddings.lds.smoother import Smoother

    h = STATES
    for case, lengths in (
        ("65,536 sentences of 20 tokens", [20] * 65_536),
        ("one document of 1,048,576 tokens", [1 << 20]),
    ):
        n = sum(lengths)
        offsets = np.concatenate([[0], np.cumsum(lengths)])

        def vectors(device: str, n: int = n, offsets: np.ndarray = offsets) -> Callable[[], Any]:
            import torch

            rng = np.random.default_rng(0)
            table = rng.standard_normal((TYPES, h)).astype(np.float32)
            ends = np.eye(h) * 0.1
            smoother = Smoother(table, stable(rng), stable(rng), ends, ends, device)
            ids = words(n, rng)
            out = torch.empty((n, 3 * h), device=device)
            how: dict[str, Any] = {"own_weight": 3.0, "exact_ends": True, "T_inv": np.eye(h)}
            return lambda: outputs.write("own_past_future", smoother, ids, offsets, out, **how)

        def scan(device: str, n: int = n, offsets: np.ndarray = offsets) -> Callable[[], Any]:
            import torch

            rng = np.random.default_rng(0)
            modes = modal_recurrence.decompose(stable(rng))
            values = [
                torch.tensor(v, dtype=torch.float32, device=device)
                for v in (modes.real, modes.complex)
            ]
            table = torch.randn((TYPES, h), device=device)
            ids, out = (
                torch.tensor(words(n, rng), device=device),
                torch.empty((n, h), device=device),
            )
            return lambda: modal_recurrence.scan(*values, table, ids, offsets, out=out)

        table = 3 * TYPES * h * FLOAT
        written = n * 3 * h * FLOAT
        block = min(n, 1 << 18) * (2 * h + 3 * h) * FLOAT
        yield Case(
            "LDS smoothing",
            case,
            n * (4 * h * h + 16 * h),
            n * ID + table + written,
            block,
            vectors,
            n,
            "token",
        )
        yield Case(
            "modal_scan", case, n * 8 * h, n * (ID + h * FLOAT) + TYPES * h * FLOAT,
            len(lengths) * h * FLOAT, scan, n, "token",
        )  # fmt: skip


def counts(rng: np.random.Generator, nonzeros: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of words as often as those of Zipf's law meet, in CSR."""
    keys = np.unique(words(nonzeros, rng) * TYPES + words(nonzeros, rng))
    rows, columns = np.divmod(keys, TYPES)
    indptr = np.searchsorted(rows, np.arange(TYPES + 1)).astype(np.int64)
    return indptr, columns.astype(np.int32), np.ones(len(keys), np.int32)


def fitting() -> Iterator[Case]:
    """Products with the counts of one lag, and those of tall matrices, in an LDS of 26 million tokens."""
    width = BLOCKS * (STATES + 20)
    rng = np.random.default_rng(0)
    indptr, columns, data = counts(rng, 12_000_000)
    nonzeros = len(data)

    def product(device: str) -> Callable[[], Any]:
        import torch

        sparse = [torch.from_numpy(part).to(device) for part in (indptr, columns, data)]
        dense, scale = torch.randn((TYPES, width), device=device), torch.rand(TYPES, device=device)
        return lambda: sparse_product.multiply(*sparse, dense, row_scale=scale, column_scale=scale)

    case = f"{nonzeros:,} pairs by {width} columns"
    dense = 2 * TYPES * width * FLOAT
    yield Case(
        "sparse_product", case, 2.0 * nonzeros * width, nonzeros * (ID + FLOAT) + dense, dense / 2,
        product, nonzeros, "pair",
    )  # fmt: skip
    rows, h = BLOCKS * TYPES, STATES + 20

    def gram(device: str) -> Callable[[], Any]:
        import torch

        X = torch.randn((rows, h), device=device)
        return lambda: tall_matrices.gram(X, X)

    def multiply(device: str) -> Callable[[], Any]:
        import torch

        X, M = torch.randn((rows, h), device=device), np.eye(h)
        return lambda: tall_matrices.multiply(X, M)

    tall = rows * h * FLOAT
    yield Case(
        "tall_gram", f"{rows:,} x {h}", 2.0 * rows * h * h, tall, 12 * h * h, gram, rows, "row"
    )
    yield Case(
        "tall_product", f"{rows:,} x {h}", 2.0 * rows * h * h, 2 * tall, tall, multiply, rows, "row"
    )


def hidden_markov() -> Iterator[Case]:
    """Softmaxes of a VL-HMM of 2^15 states in 128 classes, half of them dropped."""
    classes, k, h, types = 128, 128, 256, 10_000
    states = classes * k

    def normalisers(device: str) -> Callable[[], Any]:
        import torch

        x, y = (torch.randn((states, h), device=device) for _ in range(2))
        b = torch.randn(states, device=device)
        return lambda: streaming_logsumexp.forward(x, y, b)

    def emissions(device: str) -> Callable[[], Any]:
        import torch

        y, b = torch.randn((types, h), device=device), torch.randn(types, device=device)
        x = torch.randn((classes, k, h), device=device)
        offsets = np.linspace(0, types, classes + 1).astype(np.int64)
        return lambda: class_softmax.forward(y, b, x, offsets)

    yield Case(
        "streaming_logsumexp", f"{states:,} x {states:,}, width {h}", 2.0 * states * states * h,
        (2 * states * h + 2 * states) * FLOAT, states * FLOAT, normalisers, states, "state",
    )  # fmt: skip
    yield Case(
        "class_softmax", f"{types:,} words, {classes} classes of {k} states", 2.0 * types * k * h,
        (types * h + states * h + types * k) * FLOAT, types * k * FLOAT, emissions, types, "word",
    )  # fmt: skip


def log_bilinear() -> Iterator[Case]:
    """Steps of an HLBL of the thesis: width 100, five words, and 2^14 types under one balanced tree."""
    tokens, width, n, depth = 65_536, 100, 5, 14
    types = 1 << depth
    nodes = types - 1

    def tree() -> Codes:
        leaf = np.random.default_rng(1).permutation(types)
        above = (1 << np.arange(depth)) - 1
        of_leaf = above + (leaf[:, None] >> np.arange(depth, 0, -1))
        bits = (leaf[:, None] >> np.arange(depth - 1, -1, -1)) & 1
        steps = np.arange(types + 1)
        return Codes(steps, steps * depth, of_leaf.ravel(), (1 - 2 * bits).ravel())

    def text(rng: np.random.Generator) -> np.ndarray:
        frequency = 1 / np.arange(1, types + 1)
        return rng.choice(types, tokens, p=frequency / frequency.sum()).astype(np.int32)

    def step(device: str) -> Callable[[], Any]:
        import torch

        codes, ids = tree(), text(np.random.default_rng(0))
        r, q = (
            torch.randn((tokens, width), device=device),
            torch.randn((nodes, width), device=device),
        )
        b, sums, bias_sums = (torch.ones(nodes, device=device) for _ in range(3))
        grad, there = -torch.ones(tokens, device=device), torch.from_numpy(ids).to(device)
        return lambda: tree_softmax.step(r, there, codes, q, b, grad, sums, bias_sums, 1e-4)

    def contexts(device: str) -> Callable[[], Any]:
        import torch

        ids, R = text(np.random.default_rng(0)), torch.randn((types, width), device=device)
        starts = np.arange(0, tokens, 128)
        parts = ((n, width), (width,), (0,), (0, width))
        context = Context(*(torch.ones(shape, device=device) for shape in parts))
        spans = ids, np.array([0, tokens]), starts, starts + 128, context

        def both() -> Any:
            found = context_sum.forward(R, *spans)
            return context_sum.backward(R, *spans, found.before, found.vectors)

        return both

    row, case = width * FLOAT, f"{tokens:,} tokens, width {width}, {types:,} types"
    yield Case(
        "tree_softmax_step", case, 6.0 * tokens * depth * width, 2 * tokens * row + 2 * nodes * row,
        tokens * row + tokens * depth * (40 + row / 256) + nodes * row, step, tokens, "token",
    )  # fmt: skip
    yield Case(
        "context_sum and backward", case, 6.0 * tokens * n * width, 2 * tokens * row + 2 * types * row,
        3 * tokens * row, contexts, tokens, "token",
    )  # fmt: skip


def ratings() -> Iterator[Case]:
    """Epochs and sweeps of the rating models."""
    from benchmarks import gpu_ratings

    yield from gpu_ratings.cases()


GROUPS = {
    "smoothing": smoothing,
    "fitting": fitting,
    "hidden_markov": hidden_markov,
    "log_bilinear": log_bilinear,
    "ratings": ratings,
}


def row(case: Case) -> dict[str, Any]:
    """What is counted; what is measured is empty."""
    return {
        "what": f"{case.operation}, {case.case}",
        "operation": case.operation,
        "case": case.case,
        "Gflop": case.flops / 1e9,
        "MB": case.moved / 1e6,
        "memory MB": case.memory / 1e6,
        "flop floor ms": None,
        "byte floor ms": None,
        "ms": None,
        "ratio": None,
        f"{case.unit}s/s": None,
    }


def measured(case: Case, device: str, rates: tuple[float, float], repeats: int) -> dict[str, Any]:
    """A row with its floors and times."""
    milliseconds = timed(case.make(device), repeats)
    floors = case.flops / rates[0] * 1e3, case.moved / rates[1] * 1e3
    median = statistics.median(milliseconds)
    return row(case) | {
        "flop floor ms": floors[0],
        "byte floor ms": floors[1],
        "ms": median,
        "spread": reporting.summary(milliseconds),
        "ratio": median / max(floors),
        f"{case.unit}s/s": case.units / median * 1e3,
    }


def timed(call: Callable[[], Any], repeats: int) -> list[float]:
    """Milliseconds of each call on the device, after two that do not count."""
    import torch

    found = []
    for i in range(repeats + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if i >= 2:
            found.append(begin.elapsed_time(end))
    return found


def rates_of(device: str) -> tuple[float, float]:
    """The card's floating-point operations a second, float32, and bytes copied a second, read and written."""
    import torch

    source = torch.empty(1 << 28, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    copy = statistics.median(timed(lambda: target.copy_(source), 9))
    x = torch.randn((8192, 8192), device=device)
    product = statistics.median(timed(lambda: x @ x, 9))
    return 2 * 8192**3 / product * 1e3, 2 * source.nbytes / copy * 1e3


def main() -> None:
    """Saves each group of rows as it is done; rows of other groups stay."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda, or cuda:1 (default: cuda)")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--count", action="store_true", help="only count; nothing is measured")
    options = parser.parse_args()
    import torch

    count = options.count or not torch.cuda.is_available()
    protocol, rates = dict(PROTOCOL), (0.0, 0.0)
    if count:
        print("nothing is measured" + ("" if options.count else ": there is no CUDA device"))
    else:
        torch.cuda.set_device(options.device)
        rates = rates_of(options.device)
        protocol["device"] = torch.cuda.get_device_name(options.device)
        protocol["torch"] = f"{torch.__version__}, CUDA {torch.version.cuda}"
        protocol["rates"] = f"{rates[0] / 1e12:.1f} Tflop/s, {rates[1] / 1e12:.2f} TB/s"
    rows: list[dict[str, Any]] = []
    for group in options.only:
        for case in GROUPS[group]():
            found = row(case) if count else measured(case, options.device, rates, options.repeats)
            rows.append(found)
        reporting.save("gpu", protocol, rows, seeds=(0,), keep="what", unfinished=count)


if __name__ == "__main__":
    main()
