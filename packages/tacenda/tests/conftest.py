"""Shared by the tests: what compares with torch is left out without it."""

from importlib.util import find_spec
from pathlib import Path

import support.timeless  # noqa: F401
from support.files import write_file  # noqa: F401

collect_ignore: list[str] = []
if find_spec("torch") is None:
    tests = Path(__file__).parent.rglob("test_*.py")
    collect_ignore += [str(p) for p in tests if "\nimport torch" in p.read_text(encoding="utf8")]
    collect_ignore.append("triton")
