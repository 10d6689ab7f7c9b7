"""Measures the cheapest figure of each page again and compares it with the page: python -m benchmarks.check_figures.

    python -m benchmarks.check_figures            # all: some 20 minutes on two cores
    python -m benchmarks.check_figures --quick    # what takes seconds; continuous integration runs it

Each check is a command of the benchmark that made the table, for some of its rows, and compares what it measures with
the rows that the page shows. Needs TACENDA_DATA. Pages of times (lm-scorer, kernels, devices) are not checked: a busy
machine would decide. That of Mnih's language models is not either: its cheapest table trains for an hour.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import freshness, reporting

TOLERANCE = 2e-3  # relative: sums in another order, another library of linear algebra
DEVIATIONS = 4  # of seeds, where one is measured and the page has the mean of several


class Check(NamedTuple):
    """Rows of a results file that one command measures again.

    ``same`` names the columns that tell rows apart, ``columns`` those that are compared.
    """

    pages: str
    result: str
    command: str
    same: tuple[str, ...]
    columns: tuple[str, ...]
    quick: bool = False


_LM, _HIDDEN = "language_models", "language_models.hidden_markov"
CHECKS = (
    Check(
        "README.md, docs/results/language-models.md", "lm-ngrams",
        f'{_LM}.ngrams --data ptb --only "ptb, modified Kneser-Ney, 5"',
        ("data", "model", "order"), ("n-grams", "valid", "test"), True,
    ),
    Check(
        "docs/results/vl-hmm.md", "lm-hidden-markov-baselines",
        f'{_HIDDEN} --tables lm-hidden-markov-baselines --only "KneserNey(5)"',
        ("what",), ("train", "valid", "test"),
    ),
    Check("docs/results/scale.md", "scale-arithmetic", "scale.arithmetic", ("what",), ("hours", "tasks"), True),
    Check(
        "docs/results/ratings.md", "ratings-uncertainty", "ratings.uncertainty --sets ml-100k --only bias",
        ("row",), ("within 1", "within 2", "off", "log-likelihood"), True,
    ),
    Check(
        "docs/results/ratings-thesis.md", "ratings-thesis-biases", "ratings.thesis --only biases",
        ("model",), ("RMSE",), True,
    ),
    Check(
        "README.md, docs/ratings.md, docs/results/ratings.md", "ratings-ml-100k",
        "ratings.accuracy --data ml-100k --only ConditionalPMF",
        ("algorithm",), ("RMSE", "MAE"),
    ),
    Check(
        "docs/results/surprisal.md", "lm-unknown", f"{_LM}.unknown",
        ("part", "way", "words kept"), ("unknown", "rare", "all", "bits per character", "perplexity"),
    ),
    Check(
        "docs/results/frbm.md", "lm-boltzmann-ways", f"{_LM}.boltzmann_ways --only likelihood",
        ("model", "context", "learning"), ("valid", "test"),
    ),
    Check(
        "docs/results/log-bilinear.md", "lm-budgets", f"{_LM}.budgets --budget minute --text ptb",
        ("what",), ("valid", "test"),
    ),
    Check(
        "docs/results/recurrent.md", "lm-recurrent",
        f"{_LM}.recurrent --tables lm-recurrent --runs averaged --starts random --only start",
        ("what",), ("valid",),
    ),
    Check(
        "docs/results/state-space.md, docs/results/papers.md", "lm-state-space", f"{_LM}.state_space --studies sparse",
        ("row",), ("gradients", "Good-Turing", "Kneser-Ney"),
    ),
    Check(
        "docs/results/varembed.md", "varembed-turkish",
        "varembed.turkish --treebanks IMST --only SumEmbed --seeds 0",
        ("treebank", "row"), ("test", "seen", "unseen"),
    ),
    Check(
        "docs/results/lds.md, docs/results/papers.md", "embeddings-local",
        'embeddings.local --tasks ewt-upos --sizes 250 --seeds 0 --only "LDS own"',
        ("task", "row"), ("test 250",),
    ),
    Check(
        "docs/results/spacy-pipelines.md", "embeddings-spacy",
        'embeddings.spacy_rows --tasks ewt-upos --sizes 250 --seeds 0 --only "hash, no CNN"',
        ("what",), ("test 250",),
    ),
)  # fmt: skip


def differ(found: Any, stated: Any) -> bool:
    """Return whether a figure differs from the stated one by more than rounding; of one seed, by more than seeds do."""
    if isinstance(stated, dict):
        few = found["n"] < stated["n"]
        allowed = DEVIATIONS * max(stated["sd"], 0.1) if few else TOLERANCE * abs(stated["mean"])
        return bool(abs(found["mean"] - stated["mean"]) > allowed)
    if isinstance(stated, int | float) and isinstance(found, int | float):
        return not math.isclose(found, stated, rel_tol=TOLERANCE)
    return bool(found != stated)


def differences(
    check: Check, rows: list[dict[str, Any]], stated: list[dict[str, Any]]
) -> list[str]:
    """Return a line for each figure that differs from the page, or has no row there."""
    known = {tuple(row.get(name) for name in check.same): row for row in stated}
    found = []
    for row in rows:
        name = tuple(row.get(each) for each in check.same)
        if name not in known:
            found.append(f"{name} is not among the rows")
            continue
        for column in (each for each in check.columns if known[name].get(each) is not None):
            own, theirs = row.get(column), known[name][column]
            if differ(own, theirs):
                found.append(f"{name}: {column} is {own}, the page has {theirs}")
    return found if rows else ["no row was measured"]


def run(check: Check) -> list[str]:
    """Measure, and print what differs."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        module, *arguments = shlex.split(check.command)
        command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{module}", *arguments]
        done = subprocess.run(
            [*command, "--rows-to", f"{folder}/rows"], cwd=freshness.ROOT, capture_output=True, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TACENDA_PROGRESS": "0"},
        )  # fmt: skip
        file = Path(folder, f"rows.{check.result}.json")
        if done.returncode or not file.exists():
            last = (done.stderr.strip() or "it wrote no rows").splitlines()[-1]
            found = [f"it ended with {done.returncode}: {last}"]
        else:
            path = reporting.RESULTS / f"{check.result}.json"
            stated = json.loads(path.read_text(encoding="utf-8"))["rows"]
            found = differences(check, json.loads(file.read_text(encoding="utf-8")), stated)
    print(f"{check.pages}: {check.command}: {time.monotonic() - start:.0f} s", flush=True)
    for line in found:
        print(f"    {line}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only what takes seconds")
    parser.add_argument(
        "--only", nargs="*", default=[], help="results with one of these in the name"
    )
    options = parser.parse_args()
    if not os.environ.get("TACENDA_DATA"):
        print("The figures are not checked: TACENDA_DATA names no folder with the evaluation data.")
        return
    wanted = [
        check
        for check in CHECKS
        if (check.quick or not options.quick)
        and (not options.only or any(each in check.result for each in options.only))
    ]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(run, wanted))
    if wrong := sum(map(bool, found)):
        raise SystemExit(
            f"{wrong} of {len(found)} checks found figures that differ from their pages."
        )
    print(f"{len(found)} checks: every figure is as its page has it.")


if __name__ == "__main__":
    main()
