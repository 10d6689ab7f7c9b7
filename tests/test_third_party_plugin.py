"""The example plugin is installed as a stranger's would be, and passes its own tests."""

import importlib.util
from pathlib import Path

import pytest

from support.processes import output_of

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
    path = {} if site is None else {"PYTHONPATH": str(site)}
    return output_of("-m", module, *arguments, OMP_NUM_THREADS="1", TACENDA_PROGRESS="0", **path)
