"""The example plugin is installed as a stranger's would be, and passes its own tests."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "third_party_plugin"


@pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="building needs hatchling"
)
@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="installing needs pip")
def test_the_example_plugin_installs_and_passes_its_tests(tmp_path):
    build = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    run("pip", "install", "--quiet", *build, "--target", str(tmp_path), str(EXAMPLE))
    options = ["--quiet", "-p", "no:cacheprovider", "--rootdir", str(EXAMPLE)]
    tested = run("pytest", *options, str(EXAMPLE / "tests"), site=tmp_path)
    assert " passed" in tested
    listed = run("tacenda", "plugins", "--no-load", site=tmp_path)
    assert listed.count("tacenda-classics") == 5


def run(module, *arguments, site=None):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TACENDA_PROGRESS": "0"}
    if site is not None:
        environment["PYTHONPATH"] = str(site)
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
