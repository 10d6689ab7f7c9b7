"""Operations on a CUDA device against their floors: python -m benchmarks.gpu [--minutes 10] [--only trees].

Of each operation the floating-point operations and the fewest bytes are counted. The floors are the times that these
take at the card's own rates, which are measured first: those of copying memory and of multiplying float32 matrices.

What matters most comes first, and every row is saved as it is measured: a run that was broken off, or had no minutes
left, goes on with the next row. Rows that this card has measured with the present code are left alone (``--again``
measures them anew). Where torch finds no card, or with ``--count``, only what was never measured is written: its
counts, and the floors at the rates of a data sheet.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import parts, reporting
from benchmarks.gpu import hidden_markov, linear_dynamics, log_bilinear, ratings, word_vectors
from benchmarks.gpu.case import Case, Work

NAME = "gpu"
PROTOCOL = {
    "counted": "floating-point operations, and bytes where every input is read once and every result written once; "
    "memory is what a call allocates, results included",
    "floors": "at the rate of copying 1 GiB within the device, and of multiplying float32 matrices of 8192 rows "
    "without TF32, both measured first; where nothing is measured, at those of an H100 by its data sheet: 67 Tflop/s, "
    "3.35 TB/s",
    "time": "median of the repeats after two calls, by CUDA events; of a whole fit one call after one",
    "ratio": "time over the larger floor",
    "inputs": "random; words by Zipf's law",
}
DATA_SHEET = 67e12, 3.35e12  # an H100 SXM: float32 operations and bytes a second
LONG = 2.0  # seconds of a call that is measured once

# Those whose targets matter most come first; the inputs of the last two take minutes to make.
GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "smoothing": linear_dynamics.smoothing,
    "blocks": hidden_markov.blocks,
    "trees": log_bilinear.trees,
    "word_vectors": word_vectors.steps,
    "ratings": ratings.small,
    "flat": log_bilinear.flat,
    "products": linear_dynamics.products,
    "softmaxes": hidden_markov.softmaxes,
    "fit": linear_dynamics.fit,
    "large_ratings": ratings.large,
}


def row(case: Case, work: Work, rates: tuple[float, float]) -> dict[str, Any]:
    """What is counted; what is measured is empty."""
    return {
        "what": f"{case.operation}, {case.case}",
        "operation": case.operation,
        "case": case.case,
        "Gflop": work.flops / 1e9,
        "MB": work.moved / 1e6,
        "memory MB": case.memory / 1e6,
        "flop floor ms": work.flops / rates[0] * 1e3,
        "byte floor ms": work.moved / rates[1] * 1e3,
        "ms": None,
        "ratio": None,
        f"{case.unit}s/s": None,
    }


def measured(case: Case, device: str, rates: tuple[float, float], repeats: int) -> dict[str, Any]:
    """A row with its floors and times."""
    import torch

    made = case.make(device)
    call, work = made if isinstance(made, tuple) else (made, case.work)
    milliseconds = timed(call, repeats)
    median = statistics.median(milliseconds)
    found = row(case, work, rates)
    return found | {
        "ms": median,
        "spread": reporting.summary(milliseconds),
        "ratio": median / max(found["flop floor ms"], found["byte floor ms"]),
        f"{case.unit}s/s": case.units / median * 1e3,
        "card": torch.cuda.get_device_name(device),
        "code": code(),
    }


def code() -> dict[str, str]:
    """Digests of what is measured."""
    part = parts.part_of(NAME)
    return {each: reporting.CODE[each] for each in part.measures} if part else {}


def timed(call: Callable[[], Any], repeats: int) -> list[float]:
    """Milliseconds of each call on the device, after two that do not count; of a long call once, after one."""
    import torch

    found: list[float] = []
    while len(found) < repeats + 2:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end))
        if len(found) == 2 and found[1] > LONG * 1e3:
            return found[1:]
    return found[2:]


def rates_of(device: str) -> tuple[float, float]:
    """The card's floating-point operations a second, float32, and bytes copied a second, read and written."""
    import torch

    source = torch.empty(1 << 28, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    copy = statistics.median(timed(lambda: target.copy_(source), 9))
    x = torch.randn((8192, 8192), device=device)
    product = statistics.median(timed(lambda: x @ x, 9))
    return 2 * 8192**3 / product * 1e3, 2 * source.nbytes / copy * 1e3


def kept() -> dict[str, dict[str, Any]]:
    """Rows that were measured before, by what they are of."""
    path = reporting.RESULTS / f"{NAME}.json"
    if not path.exists():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {one["what"]: one for one in rows if one.get("ms") is not None}


def count(groups: list[str]) -> None:
    """Write the counts of all that was never measured."""
    done = kept()
    rows = [row(case, case.work, DATA_SHEET) for group in groups for case in GROUPS[group]()]
    rows = [one for one in rows if one["what"] not in done]
    if rows:
        reporting.save(NAME, PROTOCOL, rows, seeds=(0,), keep="what", unfinished=True)


def measure(groups: list[str], device: str, repeats: int, minutes: float, again: bool) -> None:
    """Measure what is missing, row by row, until the minutes are over."""
    import torch

    torch.cuda.set_device(device)
    end, card = time.monotonic() + 60 * minutes, torch.cuda.get_device_name(device)
    rates, done = rates_of(device), {} if again else kept()
    protocol = PROTOCOL | {
        "device": card,
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda}",
        "rates": f"{rates[0] / 1e12:.1f} Tflop/s, {rates[1] / 1e12:.2f} TB/s",
    }
    cases = [case for group in groups for case in GROUPS[group]()]
    for i, case in enumerate(cases):
        earlier = done.get(f"{case.operation}, {case.case}", {})
        if earlier.get("card") == card and earlier.get("code") == code():
            continue
        if time.monotonic() > end:
            print(f"no minutes left: {len(cases) - i} rows are not measured; run the same again")
            return
        try:
            found = [measured(case, device, rates, repeats)]
        except torch.cuda.OutOfMemoryError as error:
            print(f"{case.operation}, {case.case}: left out, the card is full ({error})")
            continue
        left = i + 1 < len(cases) or len(groups) < len(GROUPS)
        reporting.save(NAME, protocol, found, seeds=(0,), keep="what", unfinished=left)
        torch.cuda.empty_cache()


def main() -> None:
    parser = reporting.Command(__doc__, "again")
    parser.add_argument("--device", default="cuda", help="cuda, or cuda:1 (default: cuda)")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no row after so many")
    parser.add_argument("--count", action="store_true", help="only count; nothing is measured")
    options = parser.parse_args()
    import torch

    if options.count or not torch.cuda.is_available():
        print("nothing is measured" + ("" if options.count else ": there is no CUDA device"))
        count(options.only)
        return
    measure(options.only, options.device, options.repeats, options.minutes, options.again)


if __name__ == "__main__":
    main()
