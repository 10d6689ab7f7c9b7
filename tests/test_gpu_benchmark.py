"""The benchmark of devices, on small inputs and on tensors in the host's memory: whoever has a card has little time."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks import reporting  # noqa: E402
from benchmarks.gpu import __main__ as gpu  # noqa: E402
from benchmarks.gpu import (  # noqa: E402
    hidden_markov,
    linear_dynamics,
    log_bilinear,
    ratings,
    word_vectors,
)
from benchmarks.gpu.case import Case, Work  # noqa: E402
from support.devices import DEVICE, stand_in  # noqa: E402

SMALL = {
    linear_dynamics: {
        "TYPES": 250, "STATES": 6, "SENTENCES": 9, "DOCUMENT": 300, "DRAWN": 3000, "TOKENS": 24_000, "TOPICS": 9,
        "STREAMS": 40,
    },
    hidden_markov: {"CLASSES": 4, "KEPT": 5, "WIDTH": 6, "TYPES": 30, "TOKENS": 60},
    log_bilinear: {"TOKENS": 256, "WIDTH": 6, "DEPTH": 4, "FLAT_TYPES": 40},
    word_vectors: {"TYPES": 300, "PIECES": 90, "WIDTH": 6, "HIDDEN": 7, "NEGATIVES": 9},
    ratings: {
        "SMALL": ratings.Shape("small", 30, 20, 90), "LARGE": ratings.Shape("large", 40, 20, 90), "FACTORS": 3,
        "OF_CHAIN": 3, "HIDDEN": 4, "BATCHES": 2,
    },
}  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    for module, constants in SMALL.items():
        for name, value in constants.items():
            monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("group", gpu.GROUPS)
def test_every_case_runs(small, group):
    with stand_in():
        for case in gpu.GROUPS[group]():
            assert case.work.flops > 0 < case.work.moved
            made = case.make(DEVICE)
            call, work = made if isinstance(made, tuple) else (made, case.work)
            assert work.flops > 0
            call()
            call()


@pytest.fixture
def card(monkeypatch, tmp_path):
    """A card on which everything takes a millisecond; the cases that were measured there."""
    measured = []
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    monkeypatch.setattr(gpu, "rates_of", lambda device: (1e12, 1e12))
    monkeypatch.setattr(gpu, "timed", lambda call, repeats: call() or [1.0] * repeats)
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    for name in ("set_device", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *arguments: None)

    def case(name):
        def make(device):
            return lambda: measured.append(name)

        return Case(name, "small", Work(1e9, 2e9), 0, make, 10, "word")

    groups = {"first": lambda: iter([case("a"), case("b")]), "second": lambda: iter([case("c")])}
    monkeypatch.setattr(gpu, "GROUPS", groups)
    return measured


def rows(folder):
    found = json.loads((folder / "gpu.json").read_text())
    return {row["operation"]: row["ms"] for row in found["rows"]}


def test_a_run_goes_on_where_the_one_before_was_interrupted(card, tmp_path, capsys):
    gpu.count(["first", "second"])
    assert rows(tmp_path) == {"a": None, "b": None, "c": None}
    gpu.measure(["first"], "cuda", 3, 1e9, again=False)
    assert card == ["a", "b"]
    assert rows(tmp_path) == {"a": 1.0, "b": 1.0, "c": None}
    gpu.measure(["first", "second"], "cuda", 3, 1e9, again=False)
    assert card == ["a", "b", "c"]
    assert rows(tmp_path) == {"a": 1.0, "b": 1.0, "c": 1.0}
    gpu.count(["first", "second"])  # on a machine without a card
    assert rows(tmp_path) == {"a": 1.0, "b": 1.0, "c": 1.0}
    gpu.measure(["second"], "cuda", 3, -1.0, again=True)
    assert "1 rows are not measured" in capsys.readouterr().out
    assert card == ["a", "b", "c"]


def test_a_row_that_fails_costs_no_other_its_minutes(card, tmp_path, monkeypatch, capsys):
    def fails(device):
        raise RuntimeError("out of resources")

    broken = Case("b", "small", Work(1e9, 2e9), 0, fails, 10, "word")
    cases = [next(gpu.GROUPS["first"]()), broken, *gpu.GROUPS["second"]()]
    monkeypatch.setattr(gpu, "GROUPS", {"all": lambda: iter(cases)})
    with pytest.raises(SystemExit, match="1 rows failed"):
        gpu.measure(["all"], "cuda", 3, 1e9, again=False)
    assert "b, small: left out (RuntimeError: out of resources)" in capsys.readouterr().out
    assert rows(tmp_path) == {"a": 1.0, "b": None, "c": 1.0}


def test_the_ratio_is_that_to_the_larger_floor(card):
    [case] = gpu.GROUPS["second"]()
    found = gpu.measured(case, "cuda", (1e12, 1e12), 3)
    assert (found["flop floor ms"], found["byte floor ms"]) == (1.0, 2.0)
    assert found["ratio"] == 0.5
    assert found["words/s"] == pytest.approx(10_000)


def test_a_product_is_counted(small):
    work = Work()
    work.product(3, 5, 7)
    assert (work.flops, work.moved) == (2 * 3 * 5 * 7, 4 * (3 * 5 + 5 * 7 + 3 * 7))
    assert np.isfinite(linear_dynamics._work_of_fit([100] * linear_dynamics.LAGS).flops)
