"""Markdown tables of the documentation, made from benchmarks/results/*.json.

    python -m benchmarks.tables            # rewrite every table between its markers
    python -m benchmarks.tables --check    # exit 1 where a table is missing or stale

In a Markdown file a table stands between two markers, and nothing between them is written by hand:

    <!-- table:embeddings-local task=ewt-upos columns=row,test_250,test_all -->
    <!-- /table -->

The name is that of the results file, or `ratings/published` for a file beside a benchmark, with figures that
others have published. `key=value` keeps the rows that have this value; `columns`
names what is shown, in order (an underscore may stand for a space). Figures with a spread are
printed as mean ± standard deviation over seeds, repeated timings as their median; `decimals=4`
gives all figures that are not whole as many.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
MARKER = re.compile(r"<!-- table:(?P<call>[^>]*?) -->\n(?P<body>.*?)<!-- /table -->", re.DOTALL)
SKIPPED = {".venv", ".tox", ".git", "node_modules", "demo-output", "movie-ratings-output", "site"}


def render(call: str) -> str:
    """The table that a marker asks for, with its closing newline."""
    name, *arguments = call.split()
    path = RESULTS / f"{name}.json"
    if "/" in name:  # figures of others, beside the benchmark that they belong to
        path = RESULTS.parent / f"{name}.json"
    if not path.exists():
        raise SystemExit(f"No results are called {name!r}: there is no {path.relative_to(ROOT)}.")
    rows = json.loads(path.read_text(encoding="utf8"))["rows"]
    columns: list[str] | None = None
    decimals: int | None = None
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key == "columns":
            columns = value.split(",")
        elif key == "decimals":
            decimals = int(value)
        else:
            rows = [row for row in rows if _matches(row, key, value)]
    if not rows:
        raise SystemExit(f"The table {call!r} has no rows: check its conditions.")
    if columns is None:
        columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [[_spaced(c) for c in columns], ["---", *["---:"] * (len(columns) - 1)]]
    lines += [[cell(_get(row, column), decimals) for column in columns] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _spaced(text: str) -> str:
    return text.replace("_", " ")


def _get(row: dict[str, Any], key: str) -> Any:
    """The row's value; a column may be named with underscores for its spaces."""
    return row.get(key, row.get(_spaced(key)))


def _matches(row: dict[str, Any], key: str, value: str) -> bool:
    return str(_get(row, key)) in (value, _spaced(value))


def cell(value: Any, decimals: int | None = None) -> str:
    """One figure as the reader sees it; without ``decimals`` as many as its size wants."""
    if value is None:
        return "-"
    if isinstance(value, float) and decimals is not None:
        return f"{value:,.{decimals}f}"
    if isinstance(value, dict):
        if "mean" in value:
            spread = f" ± {value['sd']:.2f}" if value.get("n", 1) > 1 else ""
            return f"{value['mean']:.2f}{spread}"
        return cell(value.get("median"))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) < 1:
        return f"{value:.4g}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def fill(text: str) -> str:
    """The Markdown text with every table made anew."""
    return MARKER.sub(
        lambda match: f"<!-- table:{match['call']} -->\n{render(match['call'])}<!-- /table -->",
        text,
    )


def documents() -> list[Path]:
    """The repository's Markdown files."""
    return [
        path
        for path in sorted(ROOT.rglob("*.md"))
        if not SKIPPED.intersection(path.relative_to(ROOT).parts)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill the tables of the documentation.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if one is stale")
    options = parser.parse_args()
    stale = []
    for path in documents():
        old = path.read_text(encoding="utf8")
        new = fill(old)
        if new != old:
            stale.append(str(path.relative_to(ROOT)))
            if not options.check:
                path.write_text(new, encoding="utf8")
    for name in stale:
        print(
            f"{name}: {'stale tables: run python -m benchmarks.tables' if options.check else 'tables filled'}"
        )
    if options.check and stale:
        sys.exit(1)


if __name__ == "__main__":
    main()
