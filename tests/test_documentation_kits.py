"""The models shown in the documentation pass the conformance kits shown beside them."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["plugins.md", "language-models.md"])
def test_the_models_of_a_page_pass_their_kits(page, tmp_path):
    """The imports and classes of the page become a test file, and what uses them is left out."""
    kept = []
    for block in BLOCK.findall((DOCS / page).read_text(encoding="utf8")):
        tree = ast.parse(block)
        kinds = ast.Import | ast.ImportFrom | ast.ClassDef
        kept += [ast.unparse(node) for node in tree.body if isinstance(node, kinds)]
    (tmp_path / "test_page.py").write_text("\n".join(kept), encoding="utf8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed >= 25, "the kit of a model has more tests"
