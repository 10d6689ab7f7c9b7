"""A result describes its run; a benchmark that measures only some rows leaves the others with theirs."""

import json

import pytest

from benchmarks import freshness, parts, reporting


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    return lambda: json.loads((tmp_path / "made-up.json").read_text())


def save(monkeypatch, run, **figures):
    monkeypatch.setattr(reporting, "description", lambda name, seeds: {"cpu": run})
    rows = [{"who": who, "figure": figure} for who, figure in figures.items()]
    reporting.save("made-up", {}, rows, keep="who")


def test_rows_not_measured_stay_in_their_order_with_their_own_run(read, monkeypatch):
    save(monkeypatch, "first", a=1, b=2, c=3)
    assert "earlier" not in read()
    save(monkeypatch, "second", d=4, b=20)
    found = read()
    assert [(row["who"], row["figure"]) for row in found["rows"]] == [
        ("a", 1), ("b", 20), ("c", 3), ("d", 4)
    ]  # fmt: skip
    assert found["run"] == {"cpu": "second"}
    assert found["earlier"] == [{"run": {"cpu": "first"}, "rows": ["a", "c"]}]
    save(monkeypatch, "third", c=30)
    assert read()["earlier"] == [
        {"run": {"cpu": "first"}, "rows": ["a"]},
        {"run": {"cpu": "second"}, "rows": ["b", "d"]},
    ]
    save(monkeypatch, "fourth", a=0, b=0, c=0, d=0)
    assert "earlier" not in read()


def test_without_a_key_everything_is_new(read, monkeypatch):
    save(monkeypatch, "first", a=1)
    reporting.save("made-up", {}, [{"who": "b"}])
    assert [row["who"] for row in read()["rows"]] == ["b"]


def test_a_result_names_its_commit_code_seeds_load_and_versions(read):
    reporting.save("made-up", {}, [{"who": "a"}], seeds=range(3))
    run = read()["run"]
    assert run["seeds"] == [0, 1, 2]
    assert {"commit", "modified", "load at the start", "load at the end", "cpu"} <= run.keys()
    assert run["libraries"]["tacenda"]
    assert run["code"] == {}
    described = reporting.description("lm-ngrams", None)
    assert described["code"] == {each: freshness.code(each) for each in parts.NGRAMS}
