"""What a user sees once the plugin is installed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tacenda import plugins


@pytest.mark.parametrize("kind", ["embedders", "kernels"])
def test_the_registry_finds_the_plugin(kind):
    [record] = [r for r in plugins.available(kind) if r.name == "random_indexing"]
    assert record.distribution == "tacenda-random-indexing"
    assert plugins.get(kind, "random_indexing") is not None


def test_the_command_line_lists_it_as_sound():
    command = [sys.executable, "-m", "tacenda", "plugins", "embedders"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [line] = [line for line in listing.splitlines() if "random_indexing" in line]
    assert line.endswith("loaded")


def test_the_readme_tells_the_truth(tmp_path, monkeypatch):
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    [snippet] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(snippet, "README.md", "exec"), names)
    assert [array.shape for array in names["vectors"]] == [(2, 100), (0, 100)]
