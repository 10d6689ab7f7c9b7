"""Operations on a CUDA device against their floors: python -m benchmarks.gpu [--minutes 10] [--only trees].

Of each operation the floating-point operations and the fewest bytes are counted. The floors are the times that these
take at the card's own rates, which are measured first: those of copying memory and of multiplying float32 matrices.

What matters most comes first, and every row is saved as it is measured: an interrupted run, or had no minutes
left, goes on with the next row. Rows that this card has measured with the present code are left alone (``--again``
measures them again). Where torch finds no card, or with ``--count``, only what was never measured is written: its
counts, and the floors at the rates of a data sheet.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from benchmarks import freshness, reporting
from benchmarks.gpu import hidden_markov, linear_dynamics, log_bilinear, ratings, word_vectors
from benchmarks.gpu.case import Case, Work
from benchmarks.reporting import Row

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
    "blocks": hidden_markov.blocks,
    "smoothing": linear_dynamics.smoothing,
    "trees": log_bilinear.trees,
    "ratings": lambda: ratings.cases(ratings.SMALL),
    "word_vectors": word_vectors.steps,
    "flat": log_bilinear.flat,
    "products": linear_dynamics.products,
    "softmaxes": hidden_markov.softmaxes,
    "fit": linear_dynamics.fit,
    "large_ratings": lambda: ratings.cases(ratings.LARGE),
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
        "rates": f"{rates[0] / 1e12:.1f} Tflop/s, {rates[1] / 1e12:.2f} TB/s",
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda}",
    }


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


def known(card: str | None = None) -> set[str]:
    """Return what was measured before; on this card, with the present code, where one is named."""
    report = reporting.stored(NAME) or {"rows": []}
    return {
        one["what"]
        for run, rows in reporting.runs_of(report, report["rows"])
        for one in rows
        if one.get("ms") is not None
        and (card is None or (one.get("card") == card and not freshness.changed(run)))
    }


def counts(groups: Iterable[str], done: set[str]) -> list[Row]:
    """Return rows with operations and bytes, without times, of all cases that are not done."""
    every = (row(case, case.work, DATA_SHEET) for group in groups for case in GROUPS[group]())
    return [one for one in every if one["what"] not in done]


def count(groups: list[str]) -> None:
    """Write the counts of all that was never measured."""
    if rows := counts(groups, known()):
        reporting.save(NAME, PROTOCOL, rows, seeds=(0,), key="what", whole=False)


def measure(groups: list[str], device: str, repeats: int, minutes: float, again: bool) -> None:
    """Measure what is missing, row by row, until the minutes are over. Raises SystemExit if a row failed."""
    import torch

    torch.cuda.set_device(torch.device(device).index or 0)
    end, card = time.monotonic() + 60 * minutes, torch.cuda.get_device_name(device)
    rates, done = rates_of(device), set[str]() if again else known(card)
    cases, failed = [case for group in groups for case in GROUPS[group]()], 0
    for i, case in enumerate(cases):
        if f"{case.operation}, {case.case}" in done:
            continue
        if time.monotonic() > end:
            print(f"no minutes left: {len(cases) - i} rows are not measured; run the same again")
            break
        try:
            found = measured(case, device, rates, repeats)
        except Exception as error:  # a row that fails must not cost the others their minutes
            print(f"{case.operation}, {case.case}: left out ({type(error).__name__}: {error})")
            failed += not isinstance(error, torch.cuda.OutOfMemoryError)
            continue
        print(found, flush=True)
        done.add(found["what"])  # a card is lent for minutes, so every row is saved at once
        left = counts(GROUPS, done)
        reporting.save(NAME, PROTOCOL, [found, *left], seeds=(0,), key="what")
        torch.cuda.empty_cache()
    if failed:
        raise SystemExit(f"error: {failed} rows failed, see above; the others are measured")


def find() -> str:
    """Return what card there is. Raises SystemExit, with what to do, where there is none."""
    import torch

    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    build = "is built without CUDA: install a build with it (https://pytorch.org/get-started)"
    if torch.version.cuda:
        build = f"finds no device for CUDA {torch.version.cuda}: run nvidia-smi to see the card and its driver"
    raise SystemExit(
        f"make gpu: nothing was tested or measured, since torch {torch.__version__} {build}"
    )


def main() -> None:
    # minutes: begin no row after so many; count: only count, nothing is measured; find: only say what card there is
    options = reporting.parse(
        __doc__,
        device="cuda",
        groups=tuple(GROUPS),
        repeats=9,
        minutes=1e9,
        count=False,
        find=False,
    )
    import torch

    if options.find:
        print(find())
        return
    groups = options.chosen(options.groups)
    if options.count or not torch.cuda.is_available():
        print("nothing is measured" + ("" if options.count else ": there is no CUDA device"))
        count(groups)
        return
    measure(groups, options.device, options.repeats, options.minutes, options.again)


if __name__ == "__main__":
    main()
