"""The tables of the documentation come from result files, and a stale one is noticed."""

import json

import pytest

from benchmarks import tables

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
    assert "page.md: stale tables" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["tables"])
    tables.main()
    assert "| a |" in page.read_text()
    assert page.read_text().startswith("Before.\n")
    assert page.read_text().endswith("After.\n")
    monkeypatch.setattr("sys.argv", ["tables", "--check"])
    tables.main()


def test_the_documentation_is_up_to_date():
    for path in tables.documents():
        text = path.read_text(encoding="utf8")
        assert tables.fill(text) == text, f"{path}: run python -m benchmarks.tables"
