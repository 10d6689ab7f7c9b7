"""Altered models and checkpoints, kills, forks, threads, bombs, serving: a valid result or one clear error.

`make test` tries a part of everything; ``python tests/robustness/harness.py`` tries ten thousand altered models and
two hundred kills.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tacenda import plugins
from tacenda.estimator import MODEL_KINDS

HARNESS = Path(__file__).with_name("harness.py")

PARTS = [
    "mutants",
    "by hand",
    "saved anew",
    "checkpoints",
    "kills",
    "signals",
    "forks",
    "threads",
    "bombs",
    "served",
    "surroundings",
]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the harness limits memory as Linux does"
)


# of a minute of work: only what hangs takes so long, on a busy machine too
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", PARTS)
def test_nothing_does_harm(tmp_path, part):
    command = [sys.executable, str(HARNESS), "--short", "--only", part, "--log", "log"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert any(line["cases"] for line in lines)
    assert {line["part"] for line in lines} == {part}


def test_every_model_that_is_registered_is_tried():
    registered = {
        each.name
        for kind in MODEL_KINDS
        for each in plugins.available(kind)
        if each.distribution.startswith("tacenda")
    }
    # a compact specimen is a second one of the same model
    script = (
        "from specimens import specimens;"
        "print(*(name for name, each in specimens().items() if each.precision == 'full'))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        cwd=HARNESS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert registered == set(found.stdout.split())
