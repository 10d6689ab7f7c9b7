"""A result names what made it; a table is of one protocol and one state of the code; finished work is kept."""

import importlib
import json
import runpy
import shlex
import sys
from pathlib import Path
from threading import Thread

import pytest

import benchmarks
from benchmarks import freshness, kept, reporting, robustness
from benchmarks.check_figures import CHECKS
from benchmarks.parts import PARTS
from benchmarks.reporting import Options, Table
from tacenda.errors import DataError

SOURCE = "def f():\n    return 1\n"


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path / "kept"))
    return tmp_path


@pytest.fixture
def code(monkeypatch):
    """What can be changed: the code of the one module that is used."""
    monkeypatch.setattr(freshness, "_taken", {})
    monkeypatch.setattr(freshness, "_settings", {})
    monkeypatch.setattr(freshness, "SOURCES", {"json": SOURCE})
    return lambda text: monkeypatch.setitem(freshness.SOURCES, "json", text)


def read(folder):
    return json.loads((folder / "made-up.json").read_text())


def save(protocol="as always", whole=False, **figures):
    rows = [{"who": who, "figure": figure} for who, figure in figures.items()]
    return reporting.save("made-up", {"how": protocol}, rows, key="who", whole=whole)


def figures(folder):
    return {row["who"]: row["figure"] for row in read(folder)["rows"]}


def test_rows_of_the_same_protocol_and_code_stay_in_their_order_with_their_runs(
    results, code, monkeypatch
):
    days = iter(("first", "second", "third"))
    monkeypatch.setattr(
        reporting, "description", lambda seeds: {**freshness.used(), "date": next(days)}
    )
    save(a=1, b=2, c=3)
    save(d=4, b=20)
    assert figures(results) == {"a": 1, "b": 20, "c": 3, "d": 4}
    assert list(figures(results)) == ["a", "b", "c", "d"]
    runs = reporting.runs_of(read(results), read(results)["rows"])
    assert [(run["date"], [row["who"] for row in rows]) for run, rows in runs] == [
        ("second", ["b", "d"]), ("first", ["a", "c"])
    ]  # fmt: skip
    save(a=0, b=0, c=0, d=0)
    assert "earlier" not in read(results)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SOURCE, 'def f():\n    """Say."""\n\n    return 1  # one\n'),
        ('"""A module."""\nx = 1\n"""Of x."""\n', "x = (1)\n"),
        ("def f(x):\n    return x\n", "def f(x: int | None) -> int:\n    return x\n"),
        ('raise E(f"{n} words")\n', 'raise E(f"There are {n:,} words.")\n'),
        ('raise E("no" if x else "yes") from e\n', 'raise E("not" if x else "is") from e\n'),
        ('errors.warn("old", once=(x, 1))\n', 'errors.warn(f"new {x}", once=(x, 1))\n'),
        ("if TYPE_CHECKING:\n    import a\nx = 1\n", "x = 1\n"),
    ],
)
def test_a_digest_leaves_words_and_types_for_checkers_out(one, other):
    assert freshness.digest(one) == freshness.digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SOURCE, SOURCE.replace("1", "2")),
        ('x = "a"\n', 'x = "b"\n'),
        ("raise E\n", "raise F\n"),
        ("if x:\n    raise E('no')\n", "if y:\n    raise E('no')\n"),
        ("raise E(2)\n", "raise E(3)\n"),
        ("warn('a', once=(x, 1))\n", "warn('a', once=(x, 2))\n"),
        # decorators make operations and commands of annotations, and classes declare arrays and settings by theirs
        ("@operation\ndef f(x: int): pass\n", "@operation\ndef f(x: float): pass\n"),
        ("class A:\n    x: int\n", "class A:\n    x: float\n"),
        ("def f(x=1): pass\n", "def f(x=2): pass\n"),
    ],
)
def test_a_digest_has_everything_that_computes(one, other):
    assert freshness.digest(one) != freshness.digest(other)


def test_a_run_is_old_once_a_module_that_it_used_has_changed_or_gone(code):
    run = freshness.used()
    assert list(run["code"]) == ["json"]
    assert freshness.changed(run) == []
    code("# better words\n" + SOURCE)
    assert freshness.changed(run) == []
    code(SOURCE.replace("1", "2"))
    assert freshness.changed(run) == ["json"]
    freshness.SOURCES.clear()
    assert freshness.changed(run) == ["json"]
    assert freshness.changed({"commit": "of before there were digests"})


def test_a_result_names_commit_code_settings_with_defaults_seeds_load_and_versions(results):
    from tacenda_lm import KneserNey

    freshness.watch_models()
    KneserNey(order=2)
    reporting.save("made-up", {}, [{"who": "a"}], seeds=range(3))
    run = read(results)["run"]
    assert run["seeds"] == [0, 1, 2]
    assert {"commit", "modified", "load at the start", "load at the end", "cpu"} <= run.keys()
    assert run["libraries"]["tacenda"]
    assert KneserNey(order=2).settings.to_dict() in run["settings"]["KneserNey"]
    assert "tacenda_lm.ngram.kneser_ney" in run["code"]
    assert freshness.changed(run) == []


def test_without_a_key_everything_is_new_and_a_part_of_a_table_waits(results, code):
    save(a=1, b=2, whole=True)
    assert reporting.save("made-up", {}, [{"who": "a"}], whole=False) is None
    assert figures(results) == {"a": 1, "b": 2}
    reporting.save("made-up", {}, [{"who": "b"}])
    assert [row["who"] for row in read(results)["rows"]] == ["b"]


@pytest.mark.parametrize("other", ["protocol", "code"])
def test_rows_of_another_protocol_or_other_code_never_enter_a_table(results, code, other):
    save(a=1, b=2, whole=True)
    if other == "code":
        code("def f():\n    return 2\n")
    protocol = "otherwise" if other == "protocol" else "as always"
    assert save(protocol, a=10) is None  # waits: b would mix with it
    assert figures(results) == {"a": 1, "b": 2}
    assert save(protocol, c=30) is None
    assert save(protocol, b=20)
    assert figures(results) == {"a": 10, "c": 30, "b": 20}
    assert not list((results / "kept").rglob("made-up.json"))
    if other == "code":
        assert not freshness.changed(read(results)["run"])


def test_a_whole_run_replaces_a_table_of_another_protocol(results, code):
    save(a=1, b=2, whole=True)
    save("otherwise", a=10, whole=True)
    assert figures(results) == {"a": 10}


def test_a_run_can_be_called_old_only_by_rows_of_ours(results, code):
    rows = [{"who": "a", "library": "another 1.0"}]
    reporting.save("made-up", {"how": "as always"}, rows, key="who")
    code("def f():\n    return 2\n")
    save(b=2)
    assert [row["who"] for row in read(results)["rows"]] == ["a", "b"]


def test_a_table_saves_rows_as_they_come_and_draws_when_it_is_written(results, code, monkeypatch):
    seen, drawn = [], []

    def rows(options):
        for who in options.chosen("ab"):
            seen.append((results / "made-up.json").exists())
            yield {"who": who}

    protocol = lambda options: {"n": options.n}  # noqa: E731
    table = Table("made-up", protocol, rows, key="who", after=drawn.append, options=("m",))
    monkeypatch.setattr("sys.argv", ["script", "--n", "3"])
    reporting.main("A script.", table, n=2, m=1)
    assert seen == [False, True]
    assert read(results)["protocol"] == {"n": 3, "m": 1}
    assert drawn == [[{"who": "a"}, {"who": "b"}]]
    monkeypatch.setattr("sys.argv", ["script", "--no-save", "--only", "a"])
    reporting.main("A script.", table, n=2, m=1)
    assert len(drawn) == 1


def test_options_are_declared_by_their_defaults(monkeypatch):
    declared = {"repeats": 3, "data": ("ptb", "wikitext-2"), "sizes": [250], "slow": False}
    monkeypatch.setattr("sys.argv", ["script"])
    options = reporting.parse("A script.", **declared)
    found = {name: getattr(options, name) for name in declared}
    assert found == {**declared, "data": ["ptb", "wikitext-2"]}
    assert options.whole
    monkeypatch.setattr("sys.argv", ["script", "--data", "ptb", "--sizes", "1", "2", "--slow"])
    options = reporting.parse("A script.", **declared)
    assert (options.data, options.sizes, options.slow) == (["ptb"], [1, 2], True)
    assert not options.whole
    monkeypatch.setattr("sys.argv", ["script", "--data", "other"])
    with pytest.raises(SystemExit):
        reporting.parse("A script.", **declared)


def test_a_row_that_is_called_so_is_wanted_alone():
    rows = ["SVD", "SVDpp", "SVD, chosen"]

    def chosen(*only):
        return Options(only=list(only)).chosen(rows)

    assert chosen("SVD") == ["SVD"]
    assert chosen("SVD,", "pp") == ["SVDpp", "SVD, chosen"]
    assert chosen() == rows


def test_works_take_turns_and_the_first_round_does_not_count():
    done, ticks = [], iter(range(100))
    works = {"a": lambda: done.append("a"), "b": lambda: done.append("b")}
    found = reporting.interleaved(works, 3, lambda: next(ticks))
    assert done == ["a", "b"] * 4
    assert found == {"a": [1, 1, 1], "b": [1, 1, 1]}
    rate = reporting.rate(12, [2.0, 3.0, 6.0], "words/s")
    assert rate == {"words/s": 4.0, "least": 2.0, "most": 6.0, "runs": 3}


def test_what_another_process_used_is_used_by_this_one(results, monkeypatch):
    monkeypatch.setattr(freshness, "_taken", {})
    assert reporting.in_process(reporting.spread, [1.0, 3.0])["mean"] == 2
    assert "tacenda.kernels.machinery.threads" in freshness._taken


def test_work_is_kept_until_its_facts_or_the_code_change(results, code):
    made = []

    def make(folder):
        made.append((folder / "checkpoints").exists())
        (folder / "checkpoints").mkdir(exist_ok=True)
        (folder / "model").touch()
        return {"figure": 7}

    first, figures = kept.folder("model", {"order": 2}, make)
    assert (first / "model").exists()
    assert not (first / "checkpoints").exists()
    assert figures["figure"] == 7
    assert kept.folder("model", {"order": 2}, make) == (first, figures)
    kept.folder("model", {"order": 3}, make)
    assert len(made) == 2
    code("def f():\n    return 2\n")
    assert kept.folder("model", {"order": 2}, make, ours=False)[1] == figures
    kept.folder("model", {"order": 2}, make)
    assert made == [False] * 3


def test_work_that_was_interrupted_goes_on_and_states_no_seconds(results, code):
    def interrupt(folder):
        (folder / "checkpoints").mkdir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.folder("model", {}, interrupt)
    _, figures = kept.folder(
        "model", {}, lambda folder: {"there": (folder / "checkpoints").exists()}
    )
    assert figures == {"there": True, "seconds": None}


def test_two_that_want_the_same_work_make_it_once(results, code):
    made, found = [], []
    second = Thread(target=lambda: found.append(kept.folder("model", {}, make)))

    def make(folder):
        made.append(folder)
        if len(made) == 1:
            second.start()
            second.join(0.2)  # without a lock, it would make the work meanwhile
        return {"figure": len(made)}

    first = kept.folder("model", {}, make)
    second.join()
    assert found == [first]
    assert len(made) == 1


def test_cells_are_measured_once_and_again_when_our_code_has_changed(results, code):
    def measure(ours=True):
        cells, asked = kept.Cells("rows"), []
        value = cells.measure("a", lambda: asked.append(1) or {"x": 1}, ours=ours)
        assert value == {"x": 1}
        return bool(asked)

    assert [measure(), measure()] == [True, False]
    code("def f():\n    return 2\n")
    assert [measure(), measure()] == [True, False]
    kept.Cells("rows").clear()
    assert measure(ours=False)
    code(SOURCE)
    assert not measure(ours=False)


def test_a_cell_records_the_models_made_for_it_alone(results, monkeypatch):
    monkeypatch.setattr(freshness, "_settings", {})
    freshness.note("Before", {"x": 1})
    cells = kept.Cells("rows")
    cells.measure("a", lambda: freshness.note("Within", {"y": 2}))
    [cell] = json.loads(cells.path.read_text())["cells"].values()
    assert cell["settings"] == {"Within": [{"y": 2}]}
    assert set(freshness.used()["settings"]) == {"Before", "Within"}


def test_data_that_are_not_here_end_a_benchmark_with_one_sentence(results, code, monkeypatch):
    def rows(options):
        raise DataError("the dataset ptb is not in the cache: run `tacenda data fetch ptb`")

    monkeypatch.setattr("sys.argv", ["made_up"])
    with pytest.raises(SystemExit, match=r"^the dataset ptb is not .* `tacenda data fetch ptb`\.$"):
        reporting.main("Measures.", Table("made-up", {}, rows, "who"))


@pytest.mark.parametrize("module", sorted({part.module for part in PARTS}))
def test_every_part_of_the_benchmarks_finds_what_it_imports(module):
    place = f"benchmarks.{module}"
    if (Path(benchmarks.__path__[0]) / module.replace(".", "/") / "__main__.py").exists():
        place += ".__main__"
    try:
        importlib.import_module(place)
    except ModuleNotFoundError as error:  # of another library, which is not needed to test ours
        if str(error.name).startswith(("tacenda", "benchmarks")):
            raise
        pytest.skip(str(error))


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.result)
def test_benchmarks_understand_the_commands_that_check_their_figures(check, monkeypatch):
    class Understood(Exception):  # noqa: N818 - it is none
        pass

    def stop(*arguments, parse=reporting.parse, **declared):
        parse(*arguments, **declared)
        raise Understood

    module, *arguments = shlex.split(check.command)
    monkeypatch.setattr(sys, "argv", [module, *arguments, "--rows-to", "rows"])
    monkeypatch.setattr(reporting, "parse", stop)
    try:
        runpy.run_module(f"benchmarks.{module}", run_name="__main__")
    except Understood:
        pass
    except ModuleNotFoundError as error:
        pytest.skip(f"{error}: another library, which no test of ours needs")


def test_parts_of_the_harness_are_tried_alone_and_from_the_beginning(tmp_path, monkeypatch):
    harness, log = tmp_path / "harness.py", tmp_path / "log"
    harness.write_text(
        "import json, sys\n"
        "_, _, log, _, *parts = sys.argv\n"
        "for part in parts:\n"
        "    line = {'part': part, 'commit': 'now', 'outcomes': {'refused': 2, 'answered': 1}}\n"
        "    print(json.dumps(line), file=open(log, 'a'))\n"
    )
    log.write_text('{"part": "threads", "commit": "then", "outcomes": {"wrong": 9}}\n')
    monkeypatch.setattr(robustness, "HARNESS", harness)
    options = Options(only=["threads", "forks"], log=str(log), as_it_is=False)
    rows = list(robustness.rows(options))
    assert [row["what"] for row in rows] == [robustness.PARTS[part] for part in options.only]
    assert all((row["tried"], row["right"], row["at"]) == (3, 1, "now") for row in rows)
    [row] = robustness.rows(Options(only=["threads"], log=str(log), as_it_is=True))
    assert (row["wrong"], row["at"]) == (9, "then")
