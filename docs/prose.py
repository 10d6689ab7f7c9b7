"""Find stilted words in pages, docstrings, messages and help texts: part of `make lint`.

    python docs/prose.py [FILE ...]

The words are in prose.toml. Code, generated tables and pages are not read, nor the pages of the reference. Without
files, the subjects of commits that are not on main yet are checked too; a pre-commit hook checks one in COMMIT_EDITMSG.

Why not vale, proselint or textlint: vale's packages download a program at their first run, proselint takes no word
lists and reads code blocks as prose, textlint needs Node, and for each of them docstrings would have to be extracted.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
GENERATED = ROOT / "packages" / "tacenda-en" / "README.md"
RULES = tomllib.loads((ROOT / "docs" / "prose.toml").read_text(encoding="utf8"))
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/results/*.md",
    "packages/tacenda*/README.md",
    "examples/*/README.md",
)
SOURCES = ("packages/*/src/**/*.py",)
NO_PROSE = re.compile(
    r"<!-- (?:table|registry|legend)\b.*?<!-- /\w+ -->|^```.*?^```|^~~~.*?^~~~|<!--.*?-->"
    r"|`[^`\n]*`|\]\([^)\s]*\)|^> .*?$",
    re.MULTILINE | re.DOTALL,
)


def compile_rules(section: str) -> list[tuple[re.Pattern[str], str]]:
    """Compile the expressions of a section; a space matches any spaces and line breaks."""
    begin, end = ("^", "") if section in ("docstrings", "commits") else (r"\b", r"\b")
    return [
        (re.compile(begin + f"(?:{rule})".replace(" ", r"\s+") + end, re.IGNORECASE), advice)
        for rule, advice in RULES[section].items()
    ]


PHRASES, BEGINNINGS = compile_rules("phrases"), compile_rules("docstrings")
OF_PAGES, OF_COMMITS = [*PHRASES, *compile_rules("pages")], compile_rules("commits")


def check(
    text: str, rules: list[tuple[re.Pattern[str], str]], line: int = 1
) -> Iterator[tuple[int, str]]:
    """Yield the line and the complaint for each match; ``line`` is that of the first line of the text."""
    for rule, advice in rules:
        for match in rule.finditer(text):
            found = " ".join(match[0].split())
            yield line + text[: match.start()].count("\n"), f"'{found}': {advice}"


def check_page(text: str) -> Iterator[tuple[int, str]]:
    """Check a page, of which only prose is read."""
    yield from check(NO_PROSE.sub(lambda match: re.sub(r"[^\n]", "`", match[0]), text), OF_PAGES)


def check_source(text: str) -> Iterator[tuple[int, str]]:
    """Check the texts of a module: docstrings, messages and help."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from check(NO_PROSE.sub("`", node.value), PHRASES, node.lineno)
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and (doc := ast.get_docstring(node)):
            yield from check(doc, BEGINNINGS, getattr(node, "lineno", 1))


def check_commit(message: str) -> Iterator[tuple[int, str]]:
    """Check the subject of a commit, which is an imperative sentence; a merge has the subject that git gives it."""
    subject = message.partition("\n")[0]
    if not subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        yield from check(subject, OF_COMMITS)


def new_commits() -> list[str]:
    """Return the subjects of the commits that are not on main; none where there is no repository, or no main."""
    command = ["git", "log", "--no-merges", "--format=%s", "main..HEAD"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.splitlines()


def main(names: list[str]) -> int:
    """Print every complaint with its place; return how many there are."""
    found = 0
    for subject in () if names else new_commits():
        for _, complaint in check_commit(subject):
            print(f"commit {subject!r}: {complaint}")
            found += 1
    for path in (
        map(Path, names)
        if names
        else (p for place in (*PAGES, *SOURCES) for p in sorted(ROOT.glob(place)) if p != GENERATED)
    ):
        text = path.read_text(encoding="utf8")
        checked = check_commit if path.name == "COMMIT_EDITMSG" else check_page
        for line, complaint in sorted((check_source if path.suffix == ".py" else checked)(text)):
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{shown}:{line}: {complaint}")
            found += 1
    return found


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
