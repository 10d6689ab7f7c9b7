"""Run tests against the installed packages, from copies that lie apart from any source.

    python run_tests.py FOLDER ... [--quick FILE ...] -- [--quick] [PYTEST ARGUMENT ...]

FOLDER is a package, whose ``tests`` are run, or a folder of tests, relative to the repository. With
``--quick`` after ``--`` only the files named are run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> None:
    arguments = sys.argv[1:]
    border = arguments.index("--")
    folders, extra = arguments[:border], arguments[border + 1 :]
    quick: list[str] = []
    if "--quick" in folders:
        at = folders.index("--quick")
        folders, quick = folders[:at], folders[at + 1 :]
    if "--quick" in extra:
        extra.remove("--quick")
    else:
        quick = []
    with tempfile.TemporaryDirectory(prefix="tacenda-tests-") as name:
        place = Path(name)
        shutil.copy(ROOT / "pyproject.toml", place)
        copy_tests(ROOT / "tests" / "support", place)
        targets = [copy_tests(ROOT / folder, place) for folder in folders]
        chosen = [str(target / file) for target in targets for file in quick] or [
            *map(str, targets)
        ]
        options = ["--quiet", "-p", "no:cacheprovider", "--timeout=300", *extra]
        command = [sys.executable, "-I", "-m", "pytest", "--rootdir", name, *options, *chosen]
        sys.exit(subprocess.run(command, cwd=place, check=False).returncode)


def copy_tests(folder: Path, place: Path) -> Path:
    tests = folder / "tests" if (folder / "tests").is_dir() else folder
    copied = place / tests.relative_to(ROOT)
    shutil.copytree(tests, copied, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for readme in folder.glob("README.md"):  # its snippets are tested too
        shutil.copy(readme, place / folder.relative_to(ROOT))
    return copied


main()
