"""The R example of the page on surprisal prints what the page shows.

NumPy computes the same numbers, so that they are checked where R is not installed.
"""

import csv
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

from support.pages import ROOT
from tacenda.cli.main import app

PAGE = (ROOT / "docs" / "surprisal.md").read_text(encoding="utf8")
R, SHOWN = re.search(
    r"^```r\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
).groups()


@pytest.fixture
def scored(tmp_path, monkeypatch):
    """Return the rows of the last words of the page's items, scored as the page says."""
    monkeypatch.chdir(tmp_path)
    [writes] = re.findall(r"^```python\n(from pathlib[^`]*?items\.csv.*?)^```", PAGE, re.M | re.S)
    exec(writes, {})
    lines = PAGE.replace("\\\n", " ")
    [command] = re.findall(r"^\$ tacenda (.* items\.csv .*)$", lines, re.MULTILINE)
    done = CliRunner().invoke(app, shlex.split(command))
    assert done.exit_code == 0, done.output
    with (tmp_path / "scored.csv").open(encoding="utf8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["word"] == row["target"]]


def test_numpy_finds_the_numbers_that_the_page_shows(scored):
    shown = {line.split()[1]: line.split()[2:] for line in SHOWN.splitlines()[1:3]}
    for condition in ("expected", "unexpected"):
        chosen = [row for row in scored if row["condition"] == condition]
        means = [np.mean([float(row[name]) for row in chosen]) for name in ("surprisal", "rt")]
        np.testing.assert_allclose([float(value) for value in shown[condition]], means, rtol=1e-4)
    surprisal, rt = (np.array([float(row[name]) for row in scored]) for name in ("surprisal", "rt"))
    slope, intercept = np.polyfit(surprisal, rt, 1)
    found = [float(value) for value in SHOWN.splitlines()[-1].split()]
    np.testing.assert_allclose(found, [intercept, slope], atol=0.05)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_r_prints_what_the_page_shows(scored):
    printed = subprocess.run(["Rscript", "-e", R], capture_output=True, text=True, check=True)
    assert printed.stdout.split() == SHOWN.split()
