"""Tables and figures of the documentation come from result files; what is stale or unfounded is noticed."""

import json

import pytest

from benchmarks import __main__ as bench
from benchmarks import check_figures, freshness, parts, reporting, tables

ROWS = [
    {"row": "a", "size": 250, "test 250": {"mean": 91.234, "sd": 0.056, "n": 3}, "words/s": 12345},
    {"row": "b", "size": 1000, "speed": {"median": 2.3456}, "words/s": 0.5},
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    monkeypatch.setattr(tables, "TEMPLATES", tmp_path)
    monkeypatch.setattr(tables, "LABELS", {"every": {}})
    (tmp_path / "made-up.json").write_text(json.dumps({"rows": ROWS}))
    return tmp_path


def test_figures_with_their_spread_and_what_is_missing(folder):
    assert tables.render("made-up columns=row,test_250,words/s,speed").splitlines() == [
        "| row | test 250 | words/s | speed |",
        "| --- | ---: | ---: | ---: |",
        "| a | 91.23 ± 0.06 | 12,345 | - |",
        "| b | - | 0.5 | 2.35 |",
    ]


def test_rows_and_columns_have_their_labels(folder, monkeypatch):
    labels = {"every": {"a": "first", "test 250": "250 sentences"}, "made-up": {"row": "model"}}
    monkeypatch.setattr(tables, "LABELS", labels)
    assert tables.render("made-up row=a columns=row,test_250").splitlines() == [
        "| model | 250 sentences |",
        "| --- | ---: |",
        "| first | 91.23 ± 0.06 |",
    ]


def test_every_label_is_of_something_measured():
    found = {}
    for path in reporting.RESULTS.parent.glob("*/*.json"):
        name = f"{path.parent.name}/{path.stem}".removeprefix("results/")
        rows = json.loads(path.read_text()).get("rows", [])
        found[name] = {str(each) for row in rows for item in row.items() for each in item}
    found["every"] = set().union(*found.values())
    assert {
        (name, label)
        for name, labels in tables.LABELS.items()
        for label in labels.keys() - found[name]
    } == set()


def test_columns_of_words_begin_at_the_left(folder):
    rows = [{"row": "a", "text": "2 x", "near": "b, 7"}, {"row": "b", "text": "-", "near": "3"}]
    (folder / "worded.json").write_text(json.dumps({"rows": rows}))
    assert tables.render("worded").splitlines()[1] == "| --- | ---: | --- |"


def test_rows_are_chosen_by_their_values_and_figures_have_the_decimals_asked_for(folder):
    assert "| b |" not in tables.render("made-up size=250")
    assert "| 1,000 | 0.5000 |" in tables.render("made-up row=b columns=size,words/s decimals=4")
    with pytest.raises(SystemExit, match="has no rows"):
        tables.render("made-up size=7")
    with pytest.raises(SystemExit, match="No results are called 'other'"):
        tables.render("other")


def test_figures_that_others_have_published_lie_beside_their_benchmark(tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "RESULTS", tmp_path / "results")
    for name in ("results", "part"):
        (tmp_path / name).mkdir()
    (tmp_path / "part" / "published.json").write_text(json.dumps({"rows": ROWS}))
    assert tables.render("part/published columns=row").count("\n") == 4


def test_a_stale_table_is_noticed_and_filled(folder, monkeypatch, capsys):
    page = folder / "page.md"
    page.write_text(
        "Before.\n\n<!-- table:made-up columns=row -->\n| old |\n<!-- /table -->\n\nAfter.\n"
    )
    monkeypatch.setattr("sys.argv", ["tables", "--check"])
    with pytest.raises(SystemExit, match="1"):
        tables.main()
    assert "page.md: stale" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["tables"])
    tables.main()
    assert "| a |" in page.read_text()
    assert page.read_text().startswith("Before.\n")
    assert page.read_text().endswith("After.\n")
    monkeypatch.setattr("sys.argv", ["tables", "--check"])
    tables.main()


@pytest.fixture
def measured(folder, monkeypatch):
    """A result of a made-up part, whose code can be changed and whose report can be added to."""
    monkeypatch.setattr(parts, "PARTS", (parts.Part("made", ("made-up",)),))
    monkeypatch.setattr(freshness, "SOURCES", {"model": "x = 1\n"})
    code = {"model": freshness.digest("x = 1\n")}
    run = {"date": "2026-11-22T09:00:00+00:00", "commit": "abcdef1234", "code": code}
    report = {"name": "made-up", "run": run, "key": "row", "rows": ROWS}

    def change(source=None, **more):
        if source:
            freshness.SOURCES["model"] = source
        report.update(more)
        (folder / "made-up.json").write_text(json.dumps(report))
        return report

    change()
    return change


def test_a_table_says_when_it_was_measured_and_whether_it_was_again_since_the_code_changed(
    measured,
):
    line = "\n\n*Measured on 22 November 2026 (commit abcdef1234).*\n"
    assert tables.render("made-up columns=row").endswith(line)
    measured('"""Better words."""\nx = 1  # and a comment\n')
    assert tables.render("made-up columns=row").endswith(line)
    measured("x = 2\n")
    assert tables.render("made-up columns=row").endswith(
        " (commit abcdef1234). Not measured again since the code changed.*\n"
    )


def test_a_table_of_older_code_names_the_row_that_was_measured_again(measured, folder):
    def line(call="made-up columns=row", **record):
        record = {
            "date": "2026-11-27T09:00:00+00:00",
            "commit": "fedcba4321",
            "rows": [["a", None]],
            "columns": ["size", "seconds"],
        } | record
        (folder / "repeated.json").write_text(json.dumps({"made-up": {"same": True} | record}))
        return tables.render(call).splitlines()[-1].partition("abcdef1234)")[2]

    assert line() == ".*"
    measured("x = 2\n")
    again = 'The row "a" was measured again on 27 November 2026'
    about = "(commit fedcba4321, columns compared: size, seconds)"
    assert line() == f". {again} {about}, with the same result.*"
    elsewhere = line("made-up row=b columns=row")
    assert elsewhere.startswith('. The row "a" of another table of this benchmark was measured')
    assert ". 2 rows were measured again on 27" in line(rows=[["a"], ["b"]])
    assert line(same=False).endswith(f"{about}, with another result.*")
    assert line(**{"median ratio": 0.97}).endswith(
        f"{about}, with 0.97 times these figures (median).*"
    )
    assert "Not measured again" in line(date="2026-11-21T09:00:00+00:00")
    page = "It is <!-- figure:made-up row=a column=size -->?<!-- /figure -->.\n"
    assert "2026. Not measured again" in tables.fill(page)
    assert again in line()
    assert "2026. One of them was measured a second time, with the same" in tables.fill(page)


def test_runs_of_before_there_were_digests_name_where_they_were_recorded(measured):
    older = {"date": "2026-11-20T00:00:00", "recorded in": "fedcba4321"}
    measured(earlier=[{"run": older, "rows": ["b"]}])
    said = tables.render("made-up columns=row").splitlines()[-1]
    assert said == (
        "*Measured from 20 to 22 November 2026 (commit abcdef1234, recorded in commit fedcba4321). Not measured "
        "again since the code changed.*"
    )
    assert tables.render("made-up row=a").endswith(" 22 November 2026 (commit abcdef1234).*\n")
    measured(earlier=[{"run": {**older, "protocol": {"training": "otherwise"}}, "rows": ["b"]}])
    mixed = tables.render("made-up columns=row")
    assert ". An earlier protocol was used in commit fedcba4321. Not" in mixed
    assert ". An earlier protocol was used. Not" in tables.render("made-up row=b columns=row")


def test_no_change_of_ours_makes_figures_of_other_libraries_old(measured, folder):
    libraries = ("surprise 1.1", "tacenda-surprise 1.0")
    rows = [row | {"library": name} for row, name in zip(ROWS, libraries, strict=True)]
    run = measured()["run"]
    measured("x = 2\n", rows=rows, earlier=[{"run": run, "rows": ["a"]}])
    assert "changed" not in tables.render("made-up row=a columns=row")
    assert "changed" in tables.render("made-up columns=row")
    assert bench.state(parts.PARTS[0]) == "changed: model"
    rows[1]["library"] = "another 2.0"
    measured(rows=rows)
    assert bench.state(parts.PARTS[0]) == "fresh"
    (folder / "made-up.json").unlink()
    assert bench.state(parts.PARTS[0]) == "missing"


def test_a_table_of_times_says_how_busy_the_machine_was(measured, monkeypatch):
    run = measured()["run"]
    measured(run=run | {"load at the start": 0.04, "load at the end": 1.26, "cores": 2})
    assert "load" not in tables.render("made-up columns=row")
    monkeypatch.setattr(parts, "PARTS", (parts.Part("made", ("made-up",), timed=True),))
    assert tables.render("made-up columns=row").endswith(
        " (commit abcdef1234, load 0.0 to 1.3 on 2 cores).*\n"
    )


def test_a_page_with_figures_in_prose_ends_with_when_they_were_measured(measured):
    page = "It takes <!-- figure:made-up row=b column=speed decimals=2 -->?<!-- /figure --> s.\n"
    filled = tables.fill(page)
    assert " -->2.35<!-- /figure --> s." in filled
    assert "\n*The numbers in the text were measured on 22 November 2026.*\n" in filled
    assert tables.fill(filled) == filled
    assert tables.unmarked(filled) == []
    measured("x = 2\n")
    assert " 2026. Not measured again since the code changed.*\n" in tables.fill(filled)
    measured("x = 1\n")
    assert tables.fill(tables.fill(filled)) == filled


def test_a_figure_wants_one_row_and_a_value(measured):
    with pytest.raises(SystemExit, match="it has 2 rows"):
        tables.figure("made-up column=size")
    with pytest.raises(SystemExit, match="has no value"):
        tables.figure("made-up row=a column=speed")


def test_a_template_in_a_file_fills_a_table_without_markers_in_it(folder):
    (folder / "summary.md").write_text(
        "| a | {made-up row=a column=test_250}% |\n| b | {made-up row=b column=speed} |\n"
    )
    filled = tables.fill("<!-- filled:summary -->\n| old |\n<!-- /filled -->\n")
    assert filled == (
        "<!-- filled:summary -->\n| a | 91.23 ± 0.06% |\n| b | 2.35 |\n<!-- /filled -->\n"
    )
    assert tables.fill(filled) == filled
    assert tables.unmarked(filled) == []
    assert tables.results_shown(filled) == {"made-up"}


def test_figures_that_no_result_vouches_for_are_found():
    page = (
        "Perplexity is 141.2, or 18 % less, at 57k words/s with `order=2.5` ([1.5](a-1.5.html)).\n"
        "It is three\ntimes as fast. Version 3.11 of 1999, 250 sentences, 8-bit.\n"
        "```\n7.5\n```\n| 2.5 |\n<!-- not measured: 3.11 (Python) -->\n"
    )
    assert tables.unmarked(page) == ["141.2", "18 %", "57k", "1.5", "2.5", "three\ntimes as"]


def test_parts_and_their_results_have_names_of_their_own():
    names = [part.name for part in parts.PARTS]
    results = [result for part in parts.PARTS for result in part.results]
    assert len(set(names)) == len(names)
    assert len(set(results)) == len(results)


def test_every_table_is_made_by_a_part_of_make_bench():
    for path in tables.pages():
        for match in tables.MARKER.finditer(path.read_text(encoding="utf8")):
            name = match["call"].split()[0]
            assert "/" in name or parts.part_of(name), f"{path}: no part makes {name}"


def test_the_documentation_is_up_to_date():
    for path in tables.documents():
        text = path.read_text(encoding="utf8")
        assert tables.fill(text) == text, f"{path}: run python -m benchmarks.tables"


@pytest.mark.parametrize(
    "path", tables.pages(), ids=lambda path: str(path.relative_to(tables.ROOT))
)
def test_no_page_states_a_figure_that_no_result_holds(path):
    found = tables.unmarked(path.read_text(encoding="utf8"))
    assert not found, (
        f"{path}: {found}: put each between markers that benchmarks/tables.py describes, or name it in "
        "<!-- not measured: FIGURE (reason) -->"
    )


def test_what_the_registry_says_stands_between_markers():
    filled = tables.fill("<!-- registry:operations -->\n| old |\n<!-- /registry -->\n")
    assert "| old |" not in filled
    assert "| `modal_scan` (sequences) | triton |" in filled
    assert "| `unit_rows` (sequences) | torch |" in filled
    assert "| `lagged_counts` (counts) | - |" in filled
    assert tables.fill(filled) == filled
    assert "| LDS | yes, 'auto' |" in tables.TABLES["models"]()


def test_a_figure_measured_again_may_differ_by_rounding_alone():
    check = check_figures.Check("made-up", "module", "size,test 250", "row")
    stated = {"row": "a", "size": 250, "test 250": {"mean": 91.2, "sd": 0.1, "n": 3}}

    def differ(size=250, mean=91.2, n=3, row="a"):
        found = {"row": row, "size": size, "test 250": {"mean": mean, "sd": 0.0, "n": n}}
        return check_figures.differences(check, [found], [stated])

    assert differ(250.1, 91.3) == []
    # one seed differs from the mean of three: Student's t of two degrees of freedom is 9.925 at 99%
    assert differ(mean=91.2 + 0.99 * 9.925 * 0.1 * (4 / 3) ** 0.5, n=1) == []
    assert len(differ(mean=91.2 + 1.01 * 9.925 * 0.1 * (4 / 3) ** 0.5, n=1)) == 1
    assert differ(mean=91.7) == ["('a',): test 250 is {'mean': 91.7, 'sd': 0.0, 'n': 3}, the page has "
                                 "{'mean': 91.2, 'sd': 0.1, 'n': 3}"]  # fmt: skip
    assert differ(252) == ["('a',): size is 252, the page has 250"]
    assert differ(row="b") == ["('b',) is not among the rows"]
    assert check_figures.median_ratio(check, [stated], [stated]) is None
    assert check_figures.differences(check, [], [stated]) == ["no row was measured"]
    assert check_figures.differences(check, [{"row": "a"}], [{"row": "a"}]) == [
        "('a',) has none of size,test 250"
    ]


def test_speeds_measured_again_are_compared_by_the_median_of_their_ratios():
    check = check_figures.Check("made-up", "module", "times", "row", timed=True)
    stated = [{"row": "peer", "times": 1.0}, {"row": "a", "times": 2.0}, {"row": "b", "times": 4.0},
              {"row": "c", "times": 1.0}]  # fmt: skip

    def compare(*times):
        rows = [{"row": row, "times": each} for row, each in zip("abc", times, strict=False)]
        rows = [{"row": "peer", "times": 1.0}, *rows]
        return check_figures.median_ratio(check, rows, stated), check_figures.differences(
            check, rows, stated
        )

    assert compare(1.8, 3.6, 5.0) == (0.9, [])
    assert compare(1.0, 2.0) == (0.5, ["its figures are 0.5 times the page's"])
    assert compare() == (None, ["no row was measured"])


@pytest.fixture(scope="module")
def shown():
    """The results that each page shows."""
    pages = {page: page.read_text(encoding="utf8") for page in tables.pages()}
    return {page: tables.results_shown(text) for page, text in pages.items()}


@pytest.mark.parametrize("check", check_figures.CHECKS, ids=lambda check: check.result)
def test_a_check_is_of_a_result_that_a_page_shows(check, shown):
    assert check.result in set().union(*shown.values())
    part = parts.part_of(check.result)
    assert check.command.startswith(part.module)
    rows = reporting.stored(check.result)["rows"]
    assert len({check_figures.named(check, row) for row in rows}) == len(rows)
    assert set(check.columns.split(",")) <= set().union(*rows)


@pytest.mark.parametrize(
    "path",
    [each for each in tables.pages() if each.parent.name != "results"],
    ids=lambda path: str(path.relative_to(tables.ROOT)),
)
def test_every_result_on_a_page_for_users_is_checked(path, shown):
    left = shown[path] - {check.result for check in check_figures.CHECKS}
    # of speeds and memory, not every table is measured again
    assert [name for name in sorted(left) if not parts.part_of(name).timed] == []


def test_what_was_measured_again_was_the_same():
    assert [name for name, found in reporting.stored("repeated").items() if not found["same"]] == []


def test_figures_are_not_checked_without_the_data(monkeypatch, capsys):
    monkeypatch.delenv("TACENDA_DATA", raising=False)
    monkeypatch.setattr("sys.argv", ["check_figures", "--quick"])
    check_figures.main()
    assert capsys.readouterr().out.count("\n") == 1
