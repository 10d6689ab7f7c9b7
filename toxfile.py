"""Tell uv, which tox-uv installs with, where our wheels lie and what pip is configured with.

uv does not read pip's configuration. Where pip is told of an index, of local wheels or of a
certificate, the environments of tox must find the same, so pip's settings become uv's variables.
tox loads this file because it stands beside tox.ini.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

WHEELS = Path(__file__).parent / ".tox" / "dist"  # of our packages

# pip's option -> uv's variable, and what separates several values in it
VARIABLES = {
    "find-links": ("UV_FIND_LINKS", ","),
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}


def pip_options() -> dict[str, list[str]]:
    """Return pip's options and their values; environment variables come after files."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    options: dict[str, list[str]] = {}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in ("global", "install", ":env:"):
            options[option] = str(ast.literal_eval(value)).split()
    return options


WHEELS.mkdir(parents=True, exist_ok=True)
for option, values in pip_options().items():
    variable, separator = VARIABLES.get(option, (None, ""))
    if variable and values:
        os.environ.setdefault(variable, separator.join(values))
if "UV_EXTRA_INDEX_URL" in os.environ:  # as pip: the best version of all indexes
    os.environ.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
links = [os.environ.get("UV_FIND_LINKS", ""), str(WHEELS)]
os.environ["UV_FIND_LINKS"] = ",".join(filter(None, links))
