"""What a release does before it is published: build, check, and install as a stranger would.

    python tests/installation/release.py [--output dist]

Every distribution is built twice, which must give the same bytes; its metadata and its README must be fit for an
index; and from an index on this machine it is installed into an empty environment, where the first Python block of the
README runs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
WANTED = ("Summary", "License-Expression", "Requires-Python", "Project-URL", "Author")
UV = (sys.executable, "-m", "uv")


def build(folder: Path) -> dict[str, str]:
    """Build a wheel and an sdist of every package; return the sha256 of each file."""
    for package in PACKAGES:
        run(*UV, "build", "--quiet", "--no-build-isolation", "--out-dir", folder, package)
    files = (path for path in folder.iterdir() if path.suffix in (".whl", ".gz"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


def check_metadata(wheel: Path) -> None:
    """Exit unless a wheel says what an index shows, and its README leads nowhere within the repository."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = Parser().parsestr(archive.read(name).decode())
        licenses = [each for each in archive.namelist() if "/licenses/" in each]
    missing = [key for key in WANTED if not found.get(key)]
    if missing or not licenses:
        raise SystemExit(f"{wheel.name} lacks {', '.join(missing) or 'its license'}")
    if found["Description-Content-Type"] != "text/markdown":
        raise SystemExit(f"{wheel.name}: its description is not Markdown")
    links = re.findall(r"\]\((?!https?://|#)([^)]*)\)", str(found.get_payload()))
    if links:
        raise SystemExit(f"{wheel.name}: links of its README lead nowhere on an index: {links}")


@contextlib.contextmanager
def index(files: Path, folder: Path) -> Iterator[str]:
    """Serve the files as a package index of the simple form (PEP 503); yield its address."""
    for path in files.iterdir():
        name = re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower()
        page = folder / "simple" / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        (page.parent / path.name).write_bytes(path.read_bytes())
        with page.open("a", encoding="utf8") as out:
            out.write(f'<a href="{path.name}">{path.name}</a>\n')
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def install_and_run(address: str, folder: Path) -> None:
    """Install everything from the index into an empty environment, and run the README's first block there."""
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(sys.executable, "-m", "venv", folder / "venv")
    run(
        *(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"),
        *("--extra-index-url", address, "--constraint", ROOT / "constraints.txt"),
        *(
            "tacenda",
            "tacenda-embeddings[spacy]",
            "tacenda-lm[spacy]",
            "tacenda-surprise",
            "tacenda-en",
        ),
    )
    text = (ROOT / "README.md").read_text(encoding="utf8")
    block = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if block is None:
        raise SystemExit("README.md has no Python block")
    script = folder / "readme.py"
    script.write_text(block[1], encoding="utf8")
    run(python, script, cwd=folder)


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command; exit with its status if it fails."""
    environment = {**os.environ, "TACENDA_PROGRESS": "0"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")


def main() -> None:
    """Do all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where the files go")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    for old in output.iterdir():
        old.unlink()
    built = build(output)
    (output / ".gitignore").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if build(folder / "again") != built:
            raise SystemExit("two builds of the same sources differ")
        run(sys.executable, "-m", "twine", "check", "--strict", *sorted(output.iterdir()))
        for wheel in output.glob("*.whl"):
            check_metadata(wheel)
        with index(output, folder) as address:
            install_and_run(address, folder)
    print(*(f"{digest}  {file}" for file, digest in built.items()), sep="\n")


if __name__ == "__main__":
    main()
