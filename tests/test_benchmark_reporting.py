"""A benchmark that measures only some rows leaves the others as they were, with their machine."""

import json

import pytest

from benchmarks import reporting


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    return lambda: json.loads((tmp_path / "made-up.json").read_text())


def save(monkeypatch, machine, **figures):
    monkeypatch.setattr(reporting, "machine", lambda: {"cpu": machine})
    rows = [{"who": who, "figure": figure} for who, figure in figures.items()]
    reporting.save("made-up", {}, rows, keep="who")


def test_rows_not_measured_stay_in_their_order_with_the_machine_of_their_run(read, monkeypatch):
    save(monkeypatch, "first", a=1, b=2, c=3)
    assert "earlier" not in read()
    save(monkeypatch, "second", d=4, b=20)
    found = read()
    assert [(row["who"], row["figure"]) for row in found["rows"]] == [
        ("a", 1), ("b", 20), ("c", 3), ("d", 4)
    ]  # fmt: skip
    assert found["machine"] == {"cpu": "second"}
    assert found["earlier"] == [{"machine": {"cpu": "first"}, "rows": ["a", "c"]}]
    save(monkeypatch, "third", c=30)
    assert read()["earlier"] == [
        {"machine": {"cpu": "first"}, "rows": ["a"]},
        {"machine": {"cpu": "second"}, "rows": ["b", "d"]},
    ]
    save(monkeypatch, "fourth", a=0, b=0, c=0, d=0)
    assert "earlier" not in read()


def test_without_a_key_everything_is_new(read, monkeypatch):
    save(monkeypatch, "first", a=1)
    reporting.save("made-up", {}, [{"who": "b"}])
    assert [row["who"] for row in read()["rows"]] == ["b"]
