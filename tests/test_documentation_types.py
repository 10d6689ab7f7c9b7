"""mypy accepts what the pages show."""

import re
import subprocess
import sys
import tomllib

import pytest

from support.pages import FILE, PAGES, ROOT, read_blocks

# What is to come is None in classes of a few lines; a dictionary of options loses the types of its values.
ALLOWED = re.compile(r'has incompatible type "\*\*dict\[')


def write_modules(folder):
    """Write a module for each page, with its blocks on the lines that they have in the page."""
    for page in PAGES:
        code = ""
        for block in read_blocks(page):
            if block.language == "python" and not FILE.match(block.code.lstrip()):
                code += block.code[code.count("\n") :]
        if code:
            name = "_".join(page.relative_to(ROOT).with_suffix("").parts)
            yield folder / f"{name.replace('-', '_')}.py", code


def test_the_code_of_the_pages_has_the_right_types(tmp_path):
    pytest.importorskip("mypy")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["tool"]["mypy"]
    skipped = ",".join(project["overrides"][0]["module"])
    config = [
        "[mypy]",
        f"mypy_path = {':'.join(str(ROOT / place) for place in project['mypy_path'])}",
        "namespace_packages = True\nexplicit_package_bases = True",
        "strict_optional = False\nignore_missing_imports = True",
        "disable_error_code = assignment",  # a page may use a name again
        f"[mypy-{skipped}]\nfollow_imports = skip",
    ]
    (tmp_path / "mypy.ini").write_text("\n".join(config), encoding="utf8")
    modules = dict(write_modules(tmp_path))
    assert modules
    for path, code in modules.items():
        path.write_text(code, encoding="utf8")
    cache = ROOT / ".mypy_cache" / "pages"
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", cache]
    done = subprocess.run(
        [*command, *modules], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    found = [line for line in done.stdout.splitlines() if " error: " in line]
    wrong = [line for line in found if not ALLOWED.search(line)]
    assert not wrong, "\n".join([*wrong, done.stderr])
