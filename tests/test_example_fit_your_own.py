"""`make demo-fit`, on a very small scale: it ends with a table, and a second run uses what is there."""

import re
from pathlib import Path

import tacenda
from support.processes import run_python

ROOT = Path(__file__).parents[1]


def fit_your_own(output, *arguments, **environment):
    small = ["--lines", "400", "--labelled", "10", "--tested", "30", "--states", "6"]
    variables = {"TACENDA_DATA": None, "OMP_NUM_THREADS": "1", **environment}
    script = "examples/fit_your_own/fit_your_own.py"
    return run_python(script, "--output", output, *small, *arguments, cwd=ROOT, **variables)


def test_it_fits_trains_compares_and_uses_what_is_there_the_next_time(tmp_path):
    first = fit_your_own(tmp_path)
    assert first.returncode == 0, first.stderr
    rows = re.findall(r"^word features.*?([\d.]+)% +[+-]\d+% +([\d,]+)$", first.stdout, re.M)
    assert len(rows) == 3
    assert all(0 < float(accuracy) <= 100 for accuracy, _ in rows)
    assert "fitting an LDS with 6 states" in first.stdout
    assert tacenda.load(tmp_path / "lds").width == 18
    second = fit_your_own(tmp_path)
    assert "using the fitted LDS" in second.stdout
    assert str(tmp_path / "lds") in second.stdout
    again = re.findall(r"^word features.*?([\d.]+)% ", second.stdout, re.M)
    assert again == [accuracy for accuracy, _ in rows]  # one seed, one result


def test_a_data_folder_without_the_data_is_one_clear_line(tmp_path):
    done = fit_your_own(
        tmp_path / "output", TACENDA_DATA=str(tmp_path), TACENDA_CACHE=str(tmp_path)
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: the dataset wikipedia-good-articles is not in TACENDA_DATA"
    )
    assert "Traceback" not in done.stderr
