"""Altered models and checkpoints, kills, forks, threads, bombs, serving: a valid result or one clear error.

`make test` tries a part of everything; ``python tests/robustness/harness.py`` tries ten thousand altered models and
two hundred kills.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import output_of
from tacenda import plugins
from tacenda.estimator import MODEL_KINDS

HARNESS = Path(__file__).with_name("harness.py")

PARTS = ("mutants", "by hand", "saved anew", "checkpoints", "kills", "signals", "forks", "threads", "bombs", "served",
         "surroundings")  # fmt: skip

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the harness limits memory as Linux does"),
    # of a minute of work: only what hangs takes so long, on a busy machine too
    pytest.mark.timeout(3600),
]


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """What the harness printed and logged, part by part; one process has imported and compiled for all of them."""
    log = tmp_path_factory.mktemp("harness") / "log"
    log.touch()
    command = [sys.executable, str(HARNESS), "--short", "--log", str(log)]
    found = subprocess.run(command, cwd=log.parent, capture_output=True, text=True, check=False)
    return found, [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("part", PARTS)
def test_nothing_does_harm(tried, part):
    harness, lines = tried
    cases = [line["cases"] for line in lines if line["part"] == part]
    failures = [each for line in lines if line["part"] == part for each in line["failures"]]
    assert any(cases), harness.stdout + harness.stderr
    assert not failures


def test_every_part_is_tried_to_its_end(tried):
    harness, lines = tried
    assert harness.returncode == 0, harness.stdout + harness.stderr
    assert {line["part"] for line in lines} == set(PARTS)


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
    assert registered == set(output_of("-c", script, cwd=HARNESS.parent).split())
