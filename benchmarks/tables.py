"""Tables and figures of the documentation, made from benchmarks/results/*.json.

    python -m benchmarks.tables            # rewrite what stands between markers
    python -m benchmarks.tables --check    # exit 1 where something would change

In a Markdown file a table stands between two markers, and nothing between them is written by hand:

    <!-- table:embeddings-local task=ewt-upos columns=row,test_250,test_all -->
    <!-- /table -->

The name is that of the results file, or `ratings/published` for a file beside a benchmark, with figures that
others have published. `key=value` keeps the rows that have this value; `columns`
names what is shown, in order (an underscore may stand for a space). Figures with a spread are
printed as mean ± standard deviation over seeds, repeated timings as their median; `decimals=4`
gives all figures that are not whole as many. The line below the table says when and at which commit it was measured
and, if our code has changed since, when rows of this result were last measured again with the same outcome
(`check_figures --record`).

A figure in prose stands between two markers on one line and is a column of exactly one row:

    <!-- figure:lm-ngrams data=ptb order=5 column=test decimals=1 -->141.2<!-- /figure -->

The page ends with the same line about all of them. `unmarked` finds the figures in prose that no marker vouches for: a
page names those that are not measured, with the reason, in a comment:

    <!-- not measured: 3.11 (Python), 0.05 (a setting), 1.04 (the paper, table 2) -->

A table of figures from several results is filled from benchmarks/templates/NAME.md, so that the page itself reads well
as plain text. In the template a figure is written in braces, as it is called in a marker:

    <!-- filled:summary -->
    <!-- /filled -->

    | n-grams | {lm-ngrams data=ptb order=5 column=test decimals=1} |

Readers see names of rows and columns as benchmarks/templates/labels.toml words them; markers have those of the results.

Between `<!-- registry:operations -->` and `<!-- /registry -->` stands what the registry says (`registry_tables`).
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import freshness, parts, reporting
from benchmarks.registry_tables import TABLES

ROOT = freshness.ROOT
TEMPLATES = ROOT / "benchmarks" / "templates"
LABELS = tomllib.loads((TEMPLATES / "labels.toml").read_text(encoding="utf8"))
MARKER = re.compile(r"<!-- table:(?P<call>[^>]*?) -->\n(?P<body>.*?)<!-- /table -->", re.DOTALL)
REGISTRY = re.compile(
    r"<!-- registry:(?P<call>\w+) -->\n(?P<body>.*?)<!-- /registry -->", re.DOTALL
)
FIGURE = re.compile(r"<!-- figure:(?P<call>[^>]*?) -->(?P<body>[^<]*)<!-- /figure -->")
FILLED = re.compile(r"<!-- filled:(?P<call>\w+) -->\n(?P<body>.*?)<!-- /filled -->", re.DOTALL)
IN_BRACES = re.compile(r"\{(?P<call>[^{}]+)\}")
LEGEND = re.compile(r"\n<!-- legend -->.*?<!-- /legend -->\n", re.DOTALL)
SKIPPED = {"node_modules", "demo-output", "movie-ratings-output", "site"}  # and names with a dot

NOT_MEASURED = re.compile(r"<!-- not measured:(?P<said>.*?)-->", re.DOTALL)
NOT_PROSE = re.compile(
    r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*$"  # code
    r"|(?P<tick>`+)(?!`).*?(?<!`)(?P=tick)(?!`)"
    r"|(?<![\w$])\$[^$\n]+\$(?![\w$])"  # formulas
    r"|<!--.*?-->"
    r"|(?<=\])\([^)]*\)"  # the target of a link
    r"|https?://\S+"
    r"|<[a-zA-Z/][^>]*>",
    re.DOTALL | re.MULTILINE,
)
NUMERIC = re.compile(r"[-+−~<>≤≥(]*[\d.]|(?:-|nan|yes|no)?$")  # how a cell of figures begins
UNITS = (
    r"%|percent\b|[kMG]\b|[mµn]?s\b|seconds?\b|min\b|minutes?\b|hours?\b|[kKMG]i?B\b"
    r"|times\b|x\b|×|points?\b|(?:words|tokens|ratings|sentences|lookups)(?:/s\b| a second\b)"
)
NUMBER = "two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|forty|fifty|a hundred"
IN_WORDS = re.compile(rf"\b(?:twice|(?:{NUMBER})\s+times)\s+(?:as|the|faster|slower|more|less)\b")
STATED = re.compile(rf"(?<![\w.,])(?:\d[\d,]*)?\.?\d+(?:[\s-]?(?:{UNITS}))?(?![\w])")


def render(call: str) -> str:
    """The table that a marker asks for and the line about its run, with a closing newline."""
    report, rows, options = _found(call)
    decimals = int(options["decimals"]) if "decimals" in options else None
    columns = options["columns"].split(",") if "columns" in options else None
    if not rows:
        raise SystemExit(f"The table {call!r} has no rows: check its conditions.")
    if columns is None:
        columns = list(dict.fromkeys(key for row in rows for key in row))
    said = said_of([(report, rows)])
    labels = LABELS["every"] | LABELS.get(call.split()[0], {})
    body = [[cell(_get(row, column), decimals) for column in columns] for row in rows]
    body = [[labels.get(each, each) for each in cells] for cells in body]
    # figures stand under each other by their last digits, words by their first letters
    others = list(zip(*body, strict=True))[1:]
    rule = ["---", *("---:" if all(map(NUMERIC.match, cells)) else "---" for cells in others)]
    lines = [[labels.get(_spaced(c), _spaced(c)) for c in columns], rule, *body]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{table}\n*Measured {said}*\n" if said else table


def figure(call: str) -> str:
    """Return the figure that a marker in prose asks for."""
    _, rows, options = _found(call)
    if len(rows) != 1 or "column" not in options:
        raise SystemExit(
            f"The figure {call!r} wants one row and one column; it has {len(rows)} rows."
        )
    value = _get(rows[0], options["column"])
    if value is None:
        raise SystemExit(f"The figure {call!r} has no value: check its column.")
    return cell(value, int(options["decimals"]) if "decimals" in options else None)


def _found(call: str) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, str]]:
    """The report a marker names, its rows that fulfil the conditions, and what is no condition."""
    name, *arguments = call.split()
    # with a slash: figures of others, next to the benchmark that they belong to
    report = reporting.stored(f"../{name}" if "/" in name else name)
    if report is None:
        raise SystemExit(f"No results are called {name!r}: {reporting.RESULTS} has no {name}.json.")
    rows = report["rows"]
    options = {}
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key in ("columns", "column", "decimals"):
            options[key] = value
        else:
            rows = [row for row in rows if _matches(row, key, value)]
    return report, rows, options


Reports = list[tuple[dict[str, Any], list[dict[str, Any]]]]


def said_of(reports: Reports, brief: bool = False) -> str:
    """Say when rows of some reports were measured, and whether they were again where our code has changed.

    It also names commits and says how busy the machine was, unless it is ``brief``.
    """
    found = [each for report, rows in reports for each in reporting.runs_of(report, rows)]
    if not found:
        return ""
    runs = [run for run, _ in found]
    # results from before a table had one protocol; the differences are in the file
    others = dict.fromkeys(
        run.get("commit") or run["recorded in"] for run in runs if "protocol" in run
    )
    all_are = all("protocol" in run for run in runs)
    which = "" if all_are else " for some" if brief else f" in {_named(list(others))}"
    mixed = f" An earlier protocol was used{which}." if others else ""
    details = ", ".join(filter(None, [*_commits(runs), _load(reports, runs)]))
    where = f" ({details})" if details and not brief else ""
    return f"{_days(runs)}{where}.{mixed}{_again(reports, brief)}"


def repeated(report: dict[str, Any]) -> dict[str, Any] | None:
    """Return what `check_figures` has recorded of a result since its table was measured."""
    known = reporting.stored("repeated") or {}
    found: dict[str, Any] | None = known.get(report.get("name"))
    return found if found and found["date"] > report["run"]["date"] else None


def _again(reports: Reports, brief: bool) -> str:
    """Say which rows of results whose code has changed were measured again, and what came of it."""
    old = {report["name"]: report for report, rows in reports if reporting.changed(report, rows)}
    again = [found for found in map(repeated, old.values()) if found]
    if len(again) < len(old):
        n_left = len(old) - len(again)
        verb = "has" if n_left == 1 else "have"
        left = f"Of {len(old)} results, {n_left} {verb} not been" if again else "Not"
        return f" {left} measured again since the code changed."
    if not again:
        return ""
    rows = [row for each in again for row in each["rows"]]
    labels = LABELS["every"] | LABELS.get(next(iter(old)), {})
    named = ", ".join(labels.get(str(each), str(each)) for each in rows[0] if each is not None)
    columns = dict.fromkeys(column for each in again for column in each["columns"])
    compared = ", ".join(labels.get(column, column) for column in columns)
    same = "the same result" if all(each["same"] for each in again) else "another result"
    ratios = [each["median ratio"] for each in again if "median ratio" in each]
    if ratios:
        same = f"{_listed([f'{ratio:.2f}' for ratio in ratios])} times these figures (median)"
    if brief:
        some = "One of them was" if len(rows) == 1 else f"{len(rows)} of them were"
        return f" {some} measured a second time, with {same}."
    shown = [set(map(str, row.values())) for _, found in reports for row in found]
    is_here = any(set(map(str, row)) - {"None"} <= values for row in rows for values in shown)
    which = f'The row "{named}"' if len(rows) == 1 else f"{len(rows)} rows"
    where = "" if is_here else " of another table of this benchmark"
    verb = "was" if len(rows) == 1 else "were"
    about = f"{_commits(again)[0]}, columns compared: {compared}"
    return f" {which}{where} {verb} measured again {_days(again)} ({about}), with {same}."


def _days(runs: list[dict[str, Any]]) -> str:
    """Return the day of the runs, or the first and the last."""
    days = sorted(datetime.fromisoformat(run["date"]).date() for run in runs)
    first, last = (f"{day.day} {day:%B %Y}" for day in (days[0], days[-1]))
    if days[0] == days[-1]:
        return f"on {last}"
    same_month = first.partition(" ")[2] == last.partition(" ")[2]
    return f"from {days[0].day if same_month else first} to {last}"


def _commits(runs: list[dict[str, Any]]) -> list[str]:
    """Return the commits that were measured; of runs that name none those that their results were recorded in."""
    changes = {
        run["commit"]: " with changes" * bool(run.get("modified"))
        for run in runs
        if run.get("commit")
    }
    measured = [f"{commit}{changed}" for commit, changed in changes.items()]
    recorded = list(dict.fromkeys(run["recorded in"] for run in runs if run.get("recorded in")))
    found = [_named(measured)] if measured else []
    return [*found, f"recorded in {_named(recorded)}"] if recorded else found


def _named(commits: list[str]) -> str:
    return f"commit{'s' * (len(commits) > 1)} {_listed(commits)}"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _load(reports: list[tuple[dict[str, Any], Any]], runs: list[dict[str, Any]]) -> str:
    """How many processes wanted a core while something was timed, of the benchmark itself one at least."""
    made_by = [parts.part_of(report["name"]) for report, _ in reports if "run" in report]
    keys = ("load at the start", "load at the end", "load_average")
    loads = [run[key] for run in runs for key in keys if run.get(key) is not None]
    if not loads or not all(part and part.timed for part in made_by):
        return ""
    ends = dict.fromkeys(f"{load:.1f}" for load in (min(loads), max(loads)))
    cores = runs[0]["cores"]
    return f"load {' to '.join(ends)} on {cores} core{'s' * (cores > 1)}"


def _spaced(text: str) -> str:
    return text.replace("_", " ")


def _get(row: dict[str, Any], key: str) -> Any:
    """The row's value; a column may be named with underscores for its spaces."""
    return row.get(key, row.get(_spaced(key)))


def _matches(row: dict[str, Any], key: str, value: str) -> bool:
    return _spaced(str(_get(row, key))) == _spaced(value)


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
        return cell(value.get("median"), decimals)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) < 1:
        return f"{value:.4g}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def fill(text: str) -> str:
    """The Markdown text with every table and figure filled in again."""
    for pattern, make in MAKERS.items():
        text = pattern.sub(partial(_put, make), text)
    text = LEGEND.sub("", text)
    said = said_of([_found(match["call"])[:2] for match in FIGURE.finditer(text)], brief=True)
    if said:
        line = f"*The numbers in the text were measured {said}*"
        text = f"{text.rstrip()}\n\n<!-- legend -->\n{line}\n<!-- /legend -->\n"
    return text


def _put(make: Callable[[str], str], match: re.Match[str]) -> str:
    """Return the match with what is made in the place of its body."""
    begin, end = (at - match.start() for at in match.span("body"))
    return match[0][:begin] + make(match["call"]) + match[0][end:]


def template(name: str) -> str:
    """Return the template of a filled table."""
    return (TEMPLATES / f"{name}.md").read_text(encoding="utf8")


#: What stands between the markers of each kind.
MAKERS: dict[re.Pattern[str], Callable[[str], str]] = {
    MARKER: render,
    FIGURE: figure,
    REGISTRY: lambda call: TABLES[call](),
    FILLED: lambda name: IN_BRACES.sub(lambda each: figure(each["call"]), template(name)),
}


def results_shown(text: str) -> set[str]:
    """Return the names of the results that a page takes tables and figures from."""
    calls = [m["call"] for kind in (MARKER, FIGURE) for m in kind.finditer(text)]
    for table in FILLED.finditer(text):
        calls += [match["call"] for match in IN_BRACES.finditer(template(table["call"]))]
    return {call.split()[0] for call in calls}


def unmarked(text: str) -> list[str]:
    """Figures in the prose and the hand-made tables of a page that no marker vouches for.

    A figure is a number with a decimal point or a unit, or a comparison as `three times as fast`. Those that the
    page says are not measured are left out.
    """
    said = " ".join(match["said"] for match in NOT_MEASURED.finditer(text))
    allowed = {_figure_only(m[0]) for kind in (STATED, IN_WORDS) for m in kind.finditer(said)}
    for marker in (MARKER, FIGURE, FILLED, LEGEND, REGISTRY):
        text = marker.sub(" ", text)
    prose = NOT_PROSE.sub(" ", text)
    numbers = filter(_is_figure, (match[0] for match in STATED.finditer(prose)))
    found = [*numbers, *(match[0] for match in IN_WORDS.finditer(prose))]
    return [each for each in found if _figure_only(each) not in allowed]


def _is_figure(stated: str) -> bool:
    return "." in stated or not stated.replace(",", "").isdigit()


def _figure_only(stated: str) -> str:
    """One spelling of a figure: `18 %` and `18%` are the same."""
    return re.sub(r"[\s-]", "", stated)


def documents() -> list[Path]:
    """The repository's Markdown files."""

    def is_left_out(path: Path) -> bool:
        parts = path.relative_to(ROOT).parts
        return any(part in SKIPPED or part.startswith(".") for part in parts)

    return [path for path in sorted(ROOT.rglob("*.md")) if not is_left_out(path)]


def pages() -> list[Path]:
    """What users read; the notes beside the benchmarks are the log of how settings were found.

    The cards of our models are left out: the package's own tests compare their figures with those that the models hold.
    """
    aside = ROOT / "benchmarks", ROOT / "packages" / "tacenda-en"
    return [path for path in documents() if not any(map(path.is_relative_to, aside))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Fill the tables and figures of the documentation."
    )
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
        print(f"{name}: {'stale: run python -m benchmarks.tables' if options.check else 'filled'}")
    for path in pages() if options.check else ():
        for each in unmarked(path.read_text(encoding="utf8")):
            print(f"{path.relative_to(ROOT)}: {each!r} has no marker; no result vouches for it")
    if options.check and stale:
        sys.exit(1)


if __name__ == "__main__":
    main()
