"""Tables and figures of the documentation come from result files; what is stale or unfounded is noticed."""

import importlib.util
import json
from dataclasses import replace

import pytest

from benchmarks import freshness, parts, tables

ROWS = [
    {"row": "a", "size": 250, "test 250": {"mean": 91.234, "sd": 0.056, "n": 3}, "words/s": 12345},
    {"row": "b", "size": 1000, "speed": {"median": 2.3456}, "words/s": 0.5},
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    (tmp_path / "made-up.json").write_text(json.dumps({"rows": ROWS}))
    return tmp_path


def test_figures_with_their_spread_and_what_is_missing(folder):
    assert tables.render("made-up columns=row,test_250,words/s,speed").splitlines() == [
        "| row | test 250 | words/s | speed |",
        "| --- | ---: | ---: | ---: |",
        "| a | 91.23 ± 0.06 | 12,345 | - |",
        "| b | - | 0.5 | 2.35 |",
    ]


def test_columns_of_words_begin_at_the_left(folder):
    rows = [{"row": "a", "text": "2 x", "near": "b, 7"}, {"row": "b", "text": "-", "near": "3"}]
    (folder / "worded.json").write_text(json.dumps({"rows": rows}))
    assert tables.render("worded").splitlines()[1] == "| --- | ---: | --- |"


def test_rows_are_chosen_by_their_values(folder):
    assert "| b |" not in tables.render("made-up size=250")
    with pytest.raises(SystemExit, match="has no rows"):
        tables.render("made-up size=7")
    with pytest.raises(SystemExit, match="No results are called 'other'"):
        tables.render("other")


def test_figures_have_the_decimals_asked_for(folder):
    assert "| 1,000 | 0.5000 |" in tables.render("made-up row=b columns=size,words/s decimals=4")


def test_figures_that_others_have_published_lie_beside_their_benchmark(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(tables, "RESULTS", tmp_path / "results")
    (tmp_path / "part").mkdir()
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
    """A result of a made-up part, whose code can be changed."""
    source = folder / "core" / "model.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    part = parts.Part("made", ("made-up",), ("core/model.py",))
    monkeypatch.setattr(parts, "PARTS", (part,))
    monkeypatch.setattr(parts, "RESULTS", folder)
    monkeypatch.setitem(parts.SOURCES, "core", source.parent)
    freshness.code.cache_clear()
    run = {
        "date": "2026-11-22T09:00:00+00:00",
        "commit": "abcdef1234",
        "code": {"core/model.py": freshness.code("core/model.py")},
    }
    (folder / "made-up.json").write_text(json.dumps({"name": "made-up", "run": run, "rows": ROWS}))
    yield lambda text: (source.write_text(text), freshness.code.cache_clear())
    freshness.code.cache_clear()


def test_a_table_says_when_it_was_measured_and_what_has_changed_since(measured):
    assert tables.render("made-up columns=row").endswith(
        "\n\n*Measured 22 November 2026 at abcdef1234.*\n"
    )
    measured('"""Better words."""\nx = 1  # and a comment\n')
    assert "changed" not in tables.render("made-up columns=row")
    measured("x = 2\n")
    assert "; since then `core/model.py` changed.*" in tables.render("made-up columns=row")


def test_figures_stand_where_witnesses_of_the_changed_code_give_the_same(
    measured, folder, monkeypatch
):
    then = json.loads((folder / "made-up.json").read_text())["run"]["code"]
    measured("x = 1 + 0\n")
    now = {"core/model.py": freshness.code("core/model.py")}
    heard = [
        {"machine": "a", "code": code, "said": {"made": [made, 3.0], "other": [other]}}
        for code, made, other in ((then, 1.0, 1.0), (now, 1.0001, 1.001))
    ]
    monkeypatch.setattr(freshness, "WITNESSES_OF", {"core/model": ("made",)})
    monkeypatch.setattr(freshness, "heard", lambda: heard)
    assert tables.render("made-up columns=row").endswith("; today's code gives the same.*\n")
    assert freshness.of_part(parts.PARTS[0]) == "fresh"
    costs = tables.render("made-up columns=row,words/s")
    assert costs.endswith("; today's code gives the same, costs apart.*\n")
    monkeypatch.setattr(freshness, "WITNESSES_OF", {"core/model": ("made", "other")})
    assert "`core/model.py` changed" in tables.render("made-up columns=row")
    monkeypatch.setattr(freshness, "WITNESSES_OF", {"core/model": ("made", "missing")})
    assert "`core/model.py` changed" in tables.render("made-up columns=row")
    monkeypatch.setattr(freshness, "WITNESSES_OF", {"core/model": ("made",)})
    heard[0]["machine"] = "b"  # digits are compared on one machine only
    assert "`core/model.py` changed" in tables.render("made-up columns=row")
    heard[0]["machine"] = "a"
    monkeypatch.setattr(parts, "PARTS", (replace(parts.PARTS[0], timed=True),))
    assert tables.render("made-up columns=row").endswith("; today's code gives the same.*\n")
    assert freshness.of_part(parts.PARTS[0]) == "stale"  # its times are


def test_no_change_of_ours_makes_figures_of_other_libraries_old(measured, folder):
    path = folder / "made-up.json"
    report = json.loads(path.read_text())
    libraries = ("surprise 1.1", "tacenda-surprise 1.0")
    report["rows"] = [
        row | {"library": library} for row, library in zip(ROWS, libraries, strict=True)
    ]
    report |= {"keep": "row", "earlier": [{"run": report["run"], "rows": ["a"]}]}
    path.write_text(json.dumps(report))
    measured("x = 2\n")
    theirs, ours = (tables.figure(f"made-up row={row} column=size") for row in "ab")
    assert (theirs, ours) == ("250", "1,000†")
    table = tables.render("made-up columns=row")
    assert table.endswith(
        "*Measured 22 November 2026 at abcdef1234; rows with † before `core/model.py` was last changed.*\n"
    )
    assert "| a |" in table
    assert "| b† |" in table
    assert freshness.of_part(parts.PARTS[0]) == "stale"
    report["rows"][1]["library"] = "another 2.0"
    path.write_text(json.dumps(report))
    assert freshness.of_part(parts.PARTS[0]) == "fresh"


def test_a_part_is_run_again_until_all_its_rows_are_measured(measured, folder):
    path = folder / "made-up.json"
    assert freshness.of_part(parts.PARTS[0]) == "fresh"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"unfinished": True}))
    assert freshness.of_part(parts.PARTS[0]) == "partial"
    measured("x = 2\n")
    assert freshness.of_part(parts.PARTS[0]) == "stale"
    path.unlink()
    assert freshness.of_part(parts.PARTS[0]) == "missing"


def test_a_table_of_times_says_how_busy_the_machine_was(measured, folder, monkeypatch):
    monkeypatch.setattr(parts, "PARTS", (replace(parts.PARTS[0], timed=True),))
    path = folder / "made-up.json"
    report = json.loads(path.read_text())
    report["run"] |= {"load at the start": 0.04, "load at the end": 1.26, "cores": 2}
    path.write_text(json.dumps(report))
    assert tables.render("made-up columns=row").endswith(
        " at abcdef1234, load 0.0 to 1.3 on 2 cores.*\n"
    )


def test_rows_of_an_earlier_run_say_so(measured, folder):
    path = folder / "made-up.json"
    report = json.loads(path.read_text())
    report |= {"keep": "row", "earlier": [{"run": {"date": "2026-11-20T00:00:00"}, "rows": ["b"]}]}
    path.write_text(json.dumps(report))
    *_, row, _, said = tables.render("made-up columns=row").splitlines()
    assert said == (
        "*Measured 20 to 22 November 2026 at abcdef1234; rows with † before the code was last changed.*"
    )
    assert row == "| b† |"
    assert tables.render("made-up row=a").endswith("*Measured 22 November 2026 at abcdef1234.*\n")


def test_a_figure_in_prose_has_a_dagger_once_the_code_has_changed(measured):
    page = "It takes <!-- figure:made-up row=b column=speed decimals=1 -->?<!-- /figure --> s.\n"
    filled = tables.fill(page)
    assert " -->2.35<!-- /figure --> s." in filled
    assert tables.fill(filled) == filled
    assert tables.unmarked(filled) == []
    measured("x = 2\n")
    stale = tables.fill(filled)
    assert " -->2.35†<!-- /figure --> s." in stale
    assert tables.OLDER in stale
    assert tables.fill(stale) == stale
    measured("x = 1\n")
    assert tables.fill(stale) == filled


def test_a_figure_wants_one_row_and_a_value(measured):
    with pytest.raises(SystemExit, match="it has 2 rows"):
        tables.figure("made-up column=size")
    with pytest.raises(SystemExit, match="has no value"):
        tables.figure("made-up row=a column=speed")


def test_figures_that_no_result_vouches_for_are_found():
    page = (
        "Perplexity is 141.2, or 18 % less, at 57k words/s with `order=2.5` ([1.5](a-1.5.html)).\n"
        "It is three\ntimes as fast. Version 3.11 of 1999, 250 sentences, 8-bit.\n"
        "```\n7.5\n```\n| 2.5 |\n<!-- not measured: 3.11 (Python) -->\n"
    )
    assert tables.unmarked(page) == ["141.2", "18 %", "57k", "1.5", "2.5", "three\ntimes as"]


def test_every_part_measures_code_that_exists_and_has_a_module():
    names = [part.name for part in parts.PARTS]
    results = [result for part in parts.PARTS for result in part.results]
    assert len(set(names)) == len(names)
    assert len(set(results)) == len(results)
    for part in parts.PARTS:
        assert importlib.util.find_spec(part.module), part.name
        assert all(len(freshness.code(each)) == 16 for each in part.measures)


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
    assert "| `modal_scan` (sequences) | numba or BLAS | triton |" in filled
    assert "| `tall_gram` (shared) | numba or BLAS | torch |" in filled
    assert "| `lagged_counts` (sequences) | numba or BLAS | - |" in filled
    assert tables.fill(filled) == filled
    assert "| LDS | yes, 'auto' |" in tables.TABLES["models"]()
