"""Write the install commands of every page: from a checkout before a release, from the package index after one.

    python docs/install_commands.py            # rewrite what is between markers
    python docs/install_commands.py --check    # exit 1 where something would change

A page names what to install, and the command is written below the name:

    <!-- install: tacenda-en[spacy] tacenda-lm -->
    <!-- /install -->

A release sets RELEASED to True and runs this once; nothing else about the pages changes.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

RELEASED = False

ROOT = Path(__file__).parent.parent
PLACES = ("*.md", "docs/*.md", "packages/*/README.md", "examples/*/README.md")
INSTALL = re.compile(
    r"<!-- install: (?P<names>[^>]+) -->\n(?P<body>.*?)<!-- /install -->", re.DOTALL
)
NOTE = re.compile(r"<!-- install note -->\n(?P<body>.*?)<!-- /install note -->", re.DOTALL)
REQUIREMENT = re.compile(r"(?P<name>[a-z][a-z-]*)(?:\[(?P<extras>[a-z,]+)\])?")
NOTES = {
    False: "Tacenda is not on PyPI yet. Clone the repository, and run the install commands inside it:\n\n"
    "```sh\ngit clone https://github.com/tacenda/tacenda\ncd tacenda\n```\n",
    True: "Tacenda is on PyPI, one package for each library that it plugs into.\n",
}
WIDTH = 90


def local_packages(requirement: str) -> Iterator[str]:
    """Yield the names of the packages of the repository that a requirement brings, its own last.

    Raises SystemExit if the repository has no such package, or the package no such extra.
    """
    found = REQUIREMENT.match(requirement)
    folder = ROOT / "packages" / (found["name"] if found else requirement)
    if not found or not (folder / "pyproject.toml").exists():
        raise SystemExit(f"No package of the repository is called {requirement!r}.")
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = list(project["dependencies"])
    for extra in (found["extras"] or "").split(","):
        if extra and extra not in project["optional-dependencies"]:
            raise SystemExit(f"{found['name']} has no extra {extra!r}.")
        needed += project["optional-dependencies"].get(extra, ())
    for each in needed:
        if each.startswith("tacenda"):
            yield from local_packages(each)
    yield found["name"]


def command(requirements: list[str], released: bool) -> str:
    """Return the pip command that installs some packages of the repository, with a closing newline."""
    words = requirements
    found = dict.fromkeys(name for each in requirements for name in local_packages(each))
    if not released:
        asked = {each.partition("[")[0]: each for each in requirements}
        words = [f"./packages/{asked.get(name, name)}" for name in found]
    lines = ["pip install"]
    for word in (f'"{word}"' if "[" in word else word for word in words):
        if len(lines[-1]) + len(word) > WIDTH:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}"
    return "\n".join(lines) + "\n"


def rewrite(text: str, released: bool) -> str:
    """Return a page with the commands between its markers written again."""

    def install(match: re.Match[str]) -> str:
        shown = command(match["names"].split(), released)
        return f"<!-- install: {match['names']} -->\n```sh\n{shown}```\n<!-- /install -->"

    def note(_: re.Match[str]) -> str:
        return f"<!-- install note -->\n{NOTES[released]}<!-- /install note -->"

    return NOTE.sub(note, INSTALL.sub(install, text))


def main() -> None:
    """Rewrite the pages, or name those that would change."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if needed")
    options = parser.parse_args()
    stale = []
    for page in sorted(page for place in PLACES for page in ROOT.glob(place)):
        before = page.read_text(encoding="utf-8")
        after = rewrite(before, RELEASED)
        if before != after:
            stale.append(str(page.relative_to(ROOT)))
            if not options.check:
                page.write_text(after, encoding="utf-8")
    print(*stale, sep="\n", end="\n" if stale else "")
    sys.exit(bool(options.check and stale))


if __name__ == "__main__":
    main()
